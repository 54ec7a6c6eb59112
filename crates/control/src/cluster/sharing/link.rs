//! The watch on what edges share, over connections that follow each other.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

use loadline_core::cluster::{
    SessionId, Table,
    participant::{Change, Contents},
};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, mpsc::UnboundedSender};

use super::Heard;
use crate::cluster::{
    Fault, Settings, View,
    etcd::{
        Client,
        message::{Event, KeyValue},
    },
    follow::{Followed, Follower, unless_gone},
    keys,
};

/// The keys of sharing in the store.
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

    /// The prefix of all these keys.
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

/// Connects again and again, and tells what is there, until nobody listens. `broken` is told where
/// a connection is of no use any more.
pub(super) async fn keep(
    settings: Settings,
    view: View,
    told: UnboundedSender<Heard>,
    broken: Arc<Notify>,
) {
    let places = Places::below(&settings.prefix);
    let link = Link { places: &places, view: &view, told: &told };
    let (settings, view, broken) = (&settings, &view, &broken);
    Followed { settings, view, prefix: places.all(), broken }.follow(&link).await;
}

struct Link<'a> {
    places: &'a Places,
    view: &'a View,
    told: &'a UnboundedSender<Heard>,
}

impl Follower for Link<'_> {
    fn connected(&self, client: Client, revision: i64, all: Vec<KeyValue>) -> ControlFlow<()> {
        let contents = self.contents(revision.unsigned_abs(), &all);
        unless_gone(self.told.send(Heard::Connected(client, contents)))
    }

    fn changed(&self, events: Vec<Event>) -> ControlFlow<()> {
        let mut changes = self.changes(&events).into_iter();
        changes.try_for_each(|(revision, changes)| {
            unless_gone(self.told.send(Heard::Changed(revision, changes)))
        })
    }

    fn lost(&self) -> ControlFlow<()> {
        unless_gone(self.told.send(Heard::Lost))
    }
}

impl Link<'_> {
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

    /// The changes by revision, in order.
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
