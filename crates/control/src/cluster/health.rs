//! Shares the checks of servers with the other edges of the region ([`SharedChecks`]).
//!
//! Each edge tells what it has found at `health/REGION/told/NAME`, as JSON, with a lease: an edge
//! that is lost is one whose servers others check.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use loadline_core::{
    health::shared::{Duty, News, SharedChecks, Verdict, Verdicts},
    state,
};
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, sleep, sleep_until},
};

use super::{
    Settings, View,
    keyspace::{Hold, Keyspace, Write},
};

/// The edge whose checks are shared.
pub trait Checking: Send + Sync + 'static {
    /// The names of services and the addresses of their servers, as they are configured now.
    fn servers(&self) -> BTreeMap<String, BTreeSet<SocketAddr>>;

    /// Has these servers checked again: the verdict of other edges has changed.
    fn recheck(&self, service: &str, servers: &BTreeSet<SocketAddr>);
}

/// The checks of other edges, to ask before a check of one's own.
#[derive(Clone, Debug)]
pub struct HealthView(Arc<Known>);

#[derive(Debug)]
struct Known {
    checks: Mutex<SharedChecks>,
    /// Notified when there are verdicts to write.
    news: Notify,
    /// Notified when a server has turned up or down.
    turned: Notify,
}

/// This edge's part in the checks of its region.
pub struct SharedHealth<C> {
    view: HealthView,
    /// The view of this edge in the cluster.
    shown: View,
    keyspace: Arc<Keyspace>,
    edge: C,
    /// What was last written, under the hold that is had.
    written: Option<Verdicts>,
}

impl HealthView {
    /// A view without other edges.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let checks = Mutex::new(SharedChecks::new(&settings.name));
        Self(Arc::new(Known { checks, news: Notify::new(), turned: Notify::new() }))
    }

    /// What this edge does about a server of a service whose check is due.
    #[must_use]
    pub fn duty(&self, service: &str, server: SocketAddr) -> Duty {
        self.checks().duty(&key(service, server))
    }

    /// Takes in what this edge's own check of it has found.
    pub fn checked(&self, service: &str, server: SocketAddr, verdict: Verdict) {
        match self.checks().checked(&key(service, server), verdict) {
            News::None => {}
            News::Measured => self.0.news.notify_one(),
            News::Turned => self.0.turned.notify_one(),
        }
    }

    fn checks(&self) -> MutexGuard<'_, SharedChecks> {
        self.0.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Checking> SharedHealth<C> {
    /// A part that nobody has heard of yet.
    pub fn new(settings: Settings, shown: View, region: &str, view: HealthView, edge: C) -> Self {
        let keyspace = Keyspace::new(settings, shown.clone(), &format!("health/{region}/"));
        Self { view, shown, keyspace: Arc::new(keyspace), edge, written: None }
    }

    /// Takes part until it is told to leave; then other edges take over its servers at once.
    pub async fn run(mut self, mut leave: oneshot::Receiver<()>) {
        let keyspace = self.keyspace.clone();
        tokio::select! {
            () = keyspace.follow() => {}
            () = self.take_part(&mut leave) => {}
        }
    }

    async fn take_part(&mut self, leave: &mut oneshot::Receiver<()>) {
        loop {
            self.written = None;
            let hold = tokio::select! {
                hold = self.enter() => hold,
                _ = &mut *leave => return,
            };
            let is_over = tokio::select! {
                () = hold.renew_until_lost() => false,
                () = self.share(&hold) => false,
                _ = &mut *leave => true,
            };
            self.hear(BTreeMap::new());
            if is_over {
                hold.release().await;
                return;
            }
        }
    }

    /// Takes the lock of this edge's name, as often as it needs: a previous process may hold it
    /// until its lease ends.
    async fn enter(&self) -> Hold {
        let name = format!("edges/{}", self.keyspace.edge());
        loop {
            if self.keyspace.is_connected() {
                match self.keyspace.lock(&name, Vec::new(), (&name, 0)).await {
                    Ok(Some(hold)) => {
                        self.shown.part_well(UNSHARED);
                        return hold;
                    }
                    Ok(None) => {}
                    Err(fault) if fault.is_of_all() => {
                        tracing::debug!("{UNSHARED}: {fault}");
                    }
                    Err(fault) => self.shown.part_fault(UNSHARED, &fault),
                }
            }
            sleep(AGAIN).await;
        }
    }

    /// Tells and hears until the store is away, or does not take what is told.
    async fn share(&mut self, hold: &Hold) {
        let mut changes = self.keyspace.changes();
        let mut edges = 0;
        let mut next = Instant::now();
        loop {
            if !self.keyspace.is_connected() {
                return;
            }
            self.hear(self.told());
            if self.tell(hold).await.is_err() {
                return;
            }
            let now = self.view.checks().edges() as u64;
            if now != std::mem::replace(&mut edges, now) {
                tracing::info!(edges = now, "cluster: checks of servers are shared");
            }
            let known = self.view.0.clone();
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = known.turned.notified() => {}
                () = async { known.news.notified().await; sleep_until(next).await } => {}
            }
            // Many servers turn at once where something between has failed.
            sleep(TOGETHER).await;
            next = Instant::now() + MEASURED;
        }
    }

    /// Writes the verdicts of this edge, if they have changed.
    async fn tell(&mut self, hold: &Hold) -> Result<(), super::Fault> {
        let there = self.edge.servers();
        let verdicts = self.view.checks().verdicts(|key| is_there(&there, key)).clone();
        if self.written.as_ref() == Some(&verdicts) {
            return Ok(());
        }
        let name = format!("told/{}", self.keyspace.edge());
        let value = serde_json::to_vec(&verdicts).unwrap_or_default();
        hold.write(vec![Write::PutForNow(name, value)]).await?;
        self.written = Some(verdicts);
        Ok(())
    }

    /// What every edge has told.
    fn told(&self) -> BTreeMap<String, Verdicts> {
        let all = self.keyspace.below("told/").into_iter();
        all.filter_map(|(name, entry)| {
            let edge = name.strip_prefix("told/")?.to_owned();
            let read = serde_json::from_slice(&entry.value);
            let read = read.inspect_err(|error| {
                tracing::warn!(edge, %error, "cluster: checks of an edge cannot be read");
            });
            // It is there all the same, and its servers are checked by all.
            Some((edge, read.unwrap_or_default()))
        })
        .collect()
    }

    fn hear(&self, told: BTreeMap<String, Verdicts>) {
        let (edges, servers) =
            (told.len() as u64, told.get(self.keyspace.edge()).map(Verdicts::len));
        let checks = state::SharedChecks { edges, servers: servers.unwrap_or_default() as u64 };
        self.shown.change(|state| state.checks = Some(checks));
        let changed = self.view.checks().hear(told);
        let mut servers = BTreeMap::<&str, BTreeSet<SocketAddr>>::new();
        for (service, server) in changed.iter().filter_map(|key| parts(key)) {
            servers.entry(service).or_default().insert(server);
        }
        for (service, servers) in servers {
            self.edge.recheck(service, &servers);
        }
    }
}

/// What a server of a service is called in the store.
fn key(service: &str, server: SocketAddr) -> String {
    format!("{service} {server}")
}

fn parts(key: &str) -> Option<(&str, SocketAddr)> {
    let (service, server) = key.rsplit_once(' ')?;
    Some((service, server.parse().ok()?))
}

fn is_there(servers: &BTreeMap<String, BTreeSet<SocketAddr>>, key: &str) -> bool {
    let found = parts(key).map(|(service, server)| (servers.get(service), server));
    found.is_some_and(|(servers, server)| servers.is_some_and(|all| all.contains(&server)))
}

/// What does not work while the store takes nothing of this edge's checks.
const UNSHARED: &str = "checks of servers are not shared";

/// Time between two attempts to enter.
const AGAIN: Duration = Duration::from_secs(1);

/// Turns within this time go into one write.
const TOGETHER: Duration = Duration::from_millis(50);

/// Times alone are told so often at most.
const MEASURED: Duration = Duration::from_secs(10);
