//! A part of the store that is followed: what is there is known here within moments, and what is
//! written is written by who has a lock.
//!
//! ```text
//! etcd --watch--> Keyspace --get--> whoever decides
//!   ^                |
//!   |              lock --> Hold: a lease of its own, renewed until it is released
//!   +-- transaction: only while the key of the lock has the revision of the hold
//! ```

mod hold;

use std::{
    collections::BTreeMap,
    ops::ControlFlow::{self, Continue},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use super::{
    Fault, Settings, View,
    etcd::{
        Client, EtcdError,
        message::{Compare, Event, KeyValue, Operation, PutRequest},
    },
    follow::{Followed, Follower},
};

pub(crate) use hold::{Hold, Write};

/// It, empty and without a connection until it is followed.
#[derive(Debug)]
pub(crate) struct Keyspace {
    settings: Settings,
    view: View,
    /// The prefix of all its keys; names of keys are what follows it.
    prefix: String,
    known: Mutex<Known>,
    /// The revision up to which everything is known; told at each change.
    seen: watch::Sender<i64>,
    /// Told where the connection is of no use any more.
    broken: Notify,
}

#[derive(Debug, Default)]
struct Known {
    /// None while the store is away.
    client: Option<Client>,
    entries: BTreeMap<String, Entry>,
}

/// The entry of a key.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The revision at which it was last written.
    pub(crate) revision: i64,
    pub(crate) value: Vec<u8>,
}

impl Keyspace {
    /// The keys below `part` of the prefix of the cluster.
    pub(crate) fn new(settings: Settings, view: View, part: &str) -> Self {
        let prefix = format!("{}{part}", settings.prefix);
        let (known, seen) = (Mutex::default(), watch::Sender::new(0));
        Self { settings, view, prefix, known, seen, broken: Notify::new() }
    }

    /// The name of this edge.
    pub(crate) fn edge(&self) -> &str {
        &self.settings.name
    }

    /// Whether other edges are there now.
    pub(crate) fn has_others(&self) -> bool {
        self.view.state().edges > 1
    }

    /// Connects again and again, and takes in what happens. Never ends.
    pub(crate) async fn follow(&self) {
        let Self { settings, view, prefix, broken, .. } = self;
        Followed { settings, view, prefix, broken }.follow(self).await;
        std::future::pending::<()>().await;
    }

    fn entry(&self, it: KeyValue) -> Option<(String, Entry)> {
        let key = String::from_utf8(it.key).ok()?;
        let name = key.strip_prefix(&self.prefix)?.to_owned();
        Some((name, Entry { revision: it.mod_revision, value: it.value }))
    }

    /// Whether the keyspace is up to date.
    pub(crate) fn is_connected(&self) -> bool {
        self.known().client.is_some()
    }

    /// Told at each change of what is known.
    pub(crate) fn changes(&self) -> watch::Receiver<i64> {
        self.seen.subscribe()
    }

    /// A key as it was last known; none where it is not there.
    pub(crate) fn get(&self, name: &str) -> Option<Entry> {
        self.known().entries.get(name).cloned()
    }

    /// The keys that begin with this, as they were last known, by their whole names.
    pub(crate) fn below(&self, start: &str) -> Vec<(String, Entry)> {
        let known = self.known();
        let all = known.entries.range(start.to_owned()..);
        let below = all.take_while(|(name, _)| name.starts_with(start));
        below.map(|(name, entry)| (name.clone(), entry.clone())).collect()
    }

    /// Asks the store itself for the keys that begin with this.
    ///
    /// # Errors
    /// The store is away, or refuses.
    pub(crate) async fn read(&self, start: &str) -> Result<Vec<(String, Entry)>, Fault> {
        let found = self.client()?.prefix(&format!("{}{start}", self.prefix)).await;
        let found = found.map_err(|error| self.fault(error))?;
        Ok(found.kvs.into_iter().filter_map(|it| self.entry(it)).collect())
    }

    fn client(&self) -> Result<Client, Fault> {
        let away = || Fault::Watch("the store of the cluster is away".to_owned());
        self.known().client.clone().ok_or_else(away)
    }

    /// A token that has ended, for example, is had again with another connection.
    fn fault(&self, error: EtcdError) -> Fault {
        if !error.is_of_the_request() {
            self.broken.notify_waiters();
        }
        error.into()
    }

    /// Writes if all of this is so; the revision, if it was. It is known here when this returns.
    async fn write(
        &self,
        compare: Vec<Compare>,
        operations: Vec<Operation>,
    ) -> Result<Option<i64>, Fault> {
        let done = self.client()?.transaction(compare, operations).await;
        let done = done.map_err(|error| self.fault(error))?;
        if !done.succeeded {
            return Ok(None);
        }
        self.view.change(|state| state.writes += 1);
        let revision = done.header.map_or(0, |header| header.revision);
        let mut seen = self.seen.subscribe();
        let late = |_| Fault::Watch("what was written is not heard of".to_owned());
        // The watch tells what was written in the order in which it was.
        let _ = timeout(PATIENCE, seen.wait_for(|seen| *seen >= revision)).await.map_err(late)?;
        Ok(Some(revision))
    }

    fn put(&self, name: &str, value: Vec<u8>, lease: i64) -> Operation {
        Operation::Put(PutRequest { key: self.key(name), value, lease })
    }

    fn key(&self, name: &str) -> Vec<u8> {
        format!("{}{name}", self.prefix).into()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follower for Keyspace {
    fn connected(&self, client: Client, revision: i64, all: Vec<KeyValue>) -> ControlFlow<()> {
        {
            let mut known = self.known();
            known.entries = all.into_iter().filter_map(|it| self.entry(it)).collect();
            known.client = Some(client);
        }
        self.seen.send_replace(revision);
        Continue(())
    }

    fn changed(&self, events: Vec<Event>) -> ControlFlow<()> {
        let mut last = None;
        let mut known = self.known();
        for Event { kind, kv } in events {
            let Some(it) = kv else { continue };
            last = last.max(Some(it.mod_revision));
            let Some((name, entry)) = self.entry(it) else { continue };
            match kind {
                PUT => known.entries.insert(name, entry),
                _ => known.entries.remove(&name),
            };
        }
        drop(known);
        if let Some(revision) = last {
            self.seen.send_replace(revision);
        }
        Continue(())
    }

    fn lost(&self) -> ControlFlow<()> {
        self.known().client = None;
        self.seen.send_modify(|_| ());
        Continue(())
    }
}

/// The kind of an event that puts a key.
const PUT: i32 = 0;

/// How long it may take to hear of what was written.
const PATIENCE: Duration = Duration::from_secs(5);
