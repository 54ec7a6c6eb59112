//! Follows the keys below a prefix of the store, over connections that come one after the other.

use std::{
    ops::ControlFlow::{self, Break, Continue},
    time::{Duration, Instant},
};

use tokio::{sync::Notify, time::sleep};

use super::{
    Fault, Settings, View,
    agent::{CALM, wait},
    etcd::{
        Client,
        message::{Event, KeyValue, WatchResponse},
    },
};

/// A follower of keys; `Break` ends the following.
pub(super) trait Follower {
    /// All keys as they were at `revision`, over a new connection.
    fn connected(&self, client: Client, revision: i64, all: Vec<KeyValue>) -> ControlFlow<()>;

    /// What happened since, in its order.
    fn changed(&self, events: Vec<Event>) -> ControlFlow<()>;

    /// The store is away, or refuses: what is known may be old.
    fn lost(&self) -> ControlFlow<()>;
}

/// The keys below `prefix` of a cluster's store.
pub(super) struct Followed<'a> {
    pub(super) settings: &'a Settings,
    pub(super) view: &'a View,
    pub(super) prefix: &'a str,
    /// Told where the connection is of no use any more.
    pub(super) broken: &'a Notify,
}

impl Followed<'_> {
    /// Connects again and again while the edge is admitted, since keys of another cluster are left
    /// alone. Ends when `follower` breaks off, or who admits is gone: the process ends then.
    pub(super) async fn follow(self, follower: &impl Follower) {
        let mut admitted = self.view.admitted();
        let (mut first, mut refusals) = (0, 0);
        while admitted.wait_for(|admitted| *admitted).await.is_ok() {
            let begun = Instant::now();
            let fault = match Client::connect(self.settings, first).await {
                Ok((client, index)) => {
                    first = index + 1;
                    tokio::select! {
                        ended = self.follow_over(client, follower) => match ended {
                            Ok(()) => return,
                            Err(fault) => Some(fault),
                        },
                        () = self.broken.notified() => None,
                        _ = admitted.wait_for(|admitted| !*admitted) => None,
                    }
                }
                Err(error) => Some(error.into()),
            };
            if follower.lost().is_break() {
                return;
            }
            if begun.elapsed() > CALM {
                refusals = 0;
            }
            let pause = match fault {
                Some(fault) if !fault.is_of_all() => {
                    self.view.part_fault(&self.unfollowed(), &fault);
                    refusals += 1;
                    // Each attempt may cost the store a login.
                    wait(refusals)
                }
                fault => {
                    if let Some(fault) = fault {
                        tracing::debug!(self.prefix, "{fault}");
                    }
                    WAIT.mul_f64(rand::random_range(0.5..1.0))
                }
            };
            sleep(pause).await;
        }
    }

    /// What does not work while the connection is refused.
    fn unfollowed(&self) -> String {
        format!("`{}` is not followed", self.prefix)
    }

    /// Until the connection fails, or `follower` breaks off.
    async fn follow_over(&self, client: Client, follower: &impl Follower) -> Result<(), Fault> {
        let all = client.prefix(self.prefix).await?;
        self.view.part_well(&self.unfollowed());
        let revision = all.header.map_or(0, |header| header.revision);
        // What changes meanwhile comes by the watch, however late that is opened.
        let mut listens = follower.connected(client.clone(), revision, all.kvs);
        let mut watch = client.watch(self.prefix, revision + 1).await?;
        while let Continue(()) = listens {
            let heard: WatchResponse = watch
                .next()
                .await?
                .ok_or_else(|| Fault::Watch("the store has ended it".to_owned()))?;
            if heard.canceled || heard.compact_revision > 0 {
                return Err(Fault::Watch(heard.cancel_reason));
            }
            listens = follower.changed(heard.events);
        }
        Ok(())
    }
}

/// Breaks when the receiver of a channel is gone.
pub(super) fn unless_gone<E>(sent: Result<(), E>) -> ControlFlow<()> {
    sent.map_or(Break(()), Continue)
}

/// From the end of one connection to the next, at most, where the store was away.
const WAIT: Duration = Duration::from_millis(250);
