//! The watch on what edges share, over connections that follow each other.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use loadline_core::cluster::{
    SessionId, Table,
    participant::{Change, Contents},
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::{Notify, mpsc::UnboundedSender},
    time::sleep,
};

use super::Heard;
use crate::cluster::{
    Fault, Settings, View,
    etcd::{
        Client,
        message::{Event, KeyValue, WatchResponse},
    },
    keys,
};

/// Where it is in the store.
#[derive(Clone)]
pub(in crate::cluster) struct Places {
    all: String,
    sessions: String,
    tables: String,
}

impl Places {
    pub(in crate::cluster) fn below(prefix: &str) -> Self {
        let all = format!("{prefix}sharing/");
        Self { sessions: format!("{all}edges/"), tables: format!("{all}shares/"), all }
    }

    /// What all keys begin with.
    pub(in crate::cluster) fn all(&self) -> &str {
        &self.all
    }

    pub(super) fn session(&self, session: SessionId) -> String {
        format!("{}{:016x}", self.sessions, session.0)
    }

    pub(super) fn table(&self, service: &str) -> String {
        format!("{}{service}", self.tables)
    }

    pub(in crate::cluster) fn session_of(&self, key: &str) -> Option<SessionId> {
        let digits = key.strip_prefix(&self.sessions)?;
        i64::from_str_radix(digits, 16).ok().map(SessionId)
    }

    pub(in crate::cluster) fn service_of(&self, key: &str) -> Option<String> {
        key.strip_prefix(&self.tables).map(str::to_owned)
    }
}

/// Connects again and again, and tells what is there. `broken` is told where a connection is of no
/// use any more.
pub(super) async fn keep(
    settings: Settings,
    view: View,
    told: UnboundedSender<Heard>,
    broken: Arc<Notify>,
) {
    let places = Places::below(&settings.prefix);
    let mut admitted = view.admitted();
    let mut first = 0;
    loop {
        // Keys of another cluster are left alone.
        if admitted.wait_for(|admitted| *admitted).await.is_err() {
            return;
        }
        let fault = match Client::connect(&settings, first).await {
            Ok((client, index)) => {
                first = index + 1;
                let link = Link { places: &places, view: &view, told: &told };
                tokio::select! {
                    ended = link.follow(client) => match ended {
                        Ok(()) => return,
                        Err(fault) => Some(fault),
                    },
                    () = broken.notified() => None,
                    _ = admitted.wait_for(|admitted| !*admitted) => None,
                }
            }
            Err(error) => Some(error.into()),
        };
        // What is wrong with the store is told and counted by the agent, which has met it too.
        if let Some(fault) = fault {
            tracing::debug!("sharing: {fault}");
        }
        if told.send(Heard::Lost).is_err() {
            return;
        }
        sleep(WAIT.mul_f64(rand::random_range(0.5..1.0))).await;
    }
}

struct Link<'a> {
    places: &'a Places,
    view: &'a View,
    told: &'a UnboundedSender<Heard>,
}

impl Link<'_> {
    /// Until the connection ends, or nobody listens any more.
    async fn follow(&self, client: Client) -> Result<(), Fault> {
        let all = client.prefix(&self.places.all).await?;
        let revision = all.header.map_or(0, |header| header.revision);
        let mut watch = client.watch(&self.places.all, revision + 1).await?;
        let contents = self.contents(revision.unsigned_abs(), &all.kvs);
        if self.told.send(Heard::Connected(client, contents)).is_err() {
            return Ok(());
        }
        loop {
            let heard: WatchResponse = watch
                .next()
                .await?
                .ok_or_else(|| Fault::Watch("the store has ended it".to_owned()))?;
            if heard.canceled || heard.compact_revision > 0 {
                return Err(Fault::Watch(heard.cancel_reason));
            }
            for (revision, changes) in self.changes(&heard.events) {
                if self.told.send(Heard::Changed(revision, changes)).is_err() {
                    return Ok(());
                }
            }
        }
    }

    fn contents(&self, revision: u64, kvs: &[KeyValue]) -> Contents {
        let mut contents = Contents { revision, ..Contents::default() };
        for it in kvs {
            let (created, changed) =
                (it.create_revision.unsigned_abs(), it.mod_revision.unsigned_abs());
            match self.put(it) {
                Some(Change::Report(session, _, report)) => {
                    contents.sessions.push((session, created, report));
                }
                Some(Change::Table(service, table)) => {
                    contents.tables.push((service, changed, table));
                }
                _ => {}
            }
        }
        contents
    }

    /// By revision, in their order.
    fn changes(&self, events: &[Event]) -> BTreeMap<u64, Vec<Change>> {
        let mut changes = BTreeMap::<u64, Vec<Change>>::new();
        for event in events {
            let Some(it) = &event.kv else { continue };
            let change = if event.kind == 0 { self.put(it) } else { self.gone(it) };
            changes.entry(it.mod_revision.unsigned_abs()).or_default().extend(change);
        }
        changes
    }

    fn put(&self, it: &KeyValue) -> Option<Change> {
        let key = String::from_utf8_lossy(&it.key);
        if let Some(session) = self.places.session_of(&key) {
            // One that nobody can read acknowledges nothing, and is there all the same.
            let report = self.read("a report", &key, it).unwrap_or_default();
            return Some(Change::Report(session, it.create_revision.unsigned_abs(), report));
        }
        let service = self.places.service_of(&key)?;
        let table: Table = self.read("a table of shares", &key, it)?;
        if !table.is_sound() {
            let message = format!("the key `{key}` gives more than there is: it is not followed");
            self.view.event("value", &message, Some(UNSOUND));
            return None;
        }
        Some(Change::Table(service, table))
    }

    fn gone(&self, it: &KeyValue) -> Option<Change> {
        let key = String::from_utf8_lossy(&it.key);
        let session = self.places.session_of(&key).map(Change::Ended);
        session.or_else(|| self.places.service_of(&key).map(Change::TableGone))
    }

    fn read<T: DeserializeOwned>(&self, what: &'static str, key: &str, it: &KeyValue) -> Option<T> {
        keys::read(what, key, &it.value)
            .inspect_err(|error| {
                let fault: Fault = error.clone().into();
                self.view.event(fault.kind(), &fault.to_string(), fault.help());
            })
            .ok()
    }
}

const UNSOUND: &str = "remove the key: a new one is begun one lease later";

/// From the end of one connection to the next, at most.
const WAIT: Duration = Duration::from_millis(500);
