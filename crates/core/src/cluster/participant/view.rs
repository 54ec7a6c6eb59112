//! What the store holds, as far as the watch has told.

use alloc::{collections::BTreeMap, string::String};

use crate::{
    cluster::{
        participant::{Change, Contents},
        table::{Reports, Revision, SessionId, Table},
    },
    time::{Duration, Instant},
};

/// The store at one revision.
#[derive(Debug)]
pub(super) struct View {
    pub(super) revision: Revision,
    pub(super) reports: Reports,
    created: BTreeMap<SessionId, Revision>,
    pub(super) tables: BTreeMap<String, (Revision, Table)>,
    /// By service, since when it is known to have no table.
    absent: BTreeMap<String, Instant>,
}

impl View {
    pub(super) fn read(contents: Contents) -> Self {
        let Contents { revision, sessions, tables } = contents;
        let created = sessions.iter().map(|(session, created, _)| (*session, *created));
        let created = created.collect();
        let reports = sessions.into_iter().map(|(session, _, report)| (session, report));
        let tables = tables.into_iter().map(|(service, at, table)| (service, (at, table)));
        Self {
            revision,
            created,
            reports: reports.collect(),
            tables: tables.collect(),
            absent: BTreeMap::new(),
        }
    }

    /// Takes in what a revision has changed.
    pub(super) fn change(&mut self, revision: Revision, change: Change) {
        self.revision = revision;
        match change {
            Change::Report(session, created, report) => {
                self.created.insert(session, created);
                self.reports.insert(session, report);
            }
            Change::Ended(session) => {
                self.created.remove(&session);
                self.reports.remove(&session);
            }
            Change::Table(service, table) => {
                self.absent.remove(&service);
                self.tables.insert(service, (revision, table));
            }
            Change::TableGone(service) => {
                self.tables.remove(&service);
            }
        }
    }

    /// The session that was there first.
    pub(super) fn elected(&self) -> Option<SessionId> {
        let sessions = self.created.iter().map(|(session, created)| (*created, *session));
        sessions.min().map(|(_, session)| session)
    }

    /// Whether a first table may be written: none was there for a whole lease, so every session
    /// with a share of an earlier table has ended or reported that it uses it no more.
    pub(super) fn may_begin(&mut self, now: Instant, service: &str, lease: Duration) -> bool {
        if self.tables.contains_key(service) {
            return false;
        }
        let since = *self.absent.entry(service.into()).or_insert(now);
        let services = self.reports.values().filter_map(|report| report.services.get(service));
        let all_know = services.into_iter().all(|service| service.seen == 0);
        all_know && now >= since + lease
    }
}
