//! The store through which edges share capacity, as a model of etcd: one history of revisions,
//! leases, compare-and-swap.
//!
//! It is exact in what is promised: a lease ends when it was not renewed for its time, and not
//! sooner; a watch tells every change in order. Whether anybody reaches it is another matter
//! ([`crate::cluster`]).

use std::collections::BTreeMap;

use loadline_core::{
    cluster::{
        Action, Answer, Report, Revision, SessionId, Share, Table,
        participant::{Change, Contents},
    },
    time::{Duration, Instant},
};

/// What is stored.
#[derive(Clone, Debug)]
pub struct Store {
    revision: Revision,
    lease: Duration,
    next_lease: i64,
    /// When each lease ends.
    leases: BTreeMap<SessionId, Instant>,
    reports: BTreeMap<SessionId, (Revision, Report)>,
    tables: BTreeMap<String, (Revision, Table)>,
    history: Vec<(Revision, Change)>,
    /// Changes that were written: reports and tables.
    written: u64,
}

impl Store {
    /// An empty one, with leases of this length.
    #[must_use]
    pub fn new(lease: Duration) -> Self {
        Self {
            revision: 1,
            lease,
            next_lease: 1,
            leases: BTreeMap::new(),
            reports: BTreeMap::new(),
            tables: BTreeMap::new(),
            history: Vec::new(),
            written: 0,
        }
    }

    /// Has a table by which nobody has anything of a service, besides these floors.
    pub fn begin(&mut self, service: &str, reserved: Share) {
        let table = Table { version: 1, reserved, ..Table::default() };
        let revision = self.next_revision();
        self.tables.insert(service.to_owned(), (revision, table));
    }

    /// Does what an edge asks for; none where there is no answer.
    pub fn take(&mut self, now: Instant, action: Action) -> Option<Answer> {
        self.expire(now);
        Some(match action {
            Action::Join(_) => {
                let session = SessionId(self.next_lease);
                self.next_lease += 1;
                self.leases.insert(session, now + self.lease);
                Answer::Joined(session)
            }
            Action::KeepAlive(_, session) => match self.leases.get_mut(&session) {
                Some(ends) => {
                    *ends = now + self.lease;
                    Answer::Done
                }
                None => Answer::SessionLost,
            },
            Action::Report(_, session, report) => self.put(session, report),
            Action::Table { session, service, replaces, table, .. } => {
                self.replace(session, service, replaces, table)
            }
            Action::Leave(session) => {
                self.end(session);
                return None;
            }
            Action::Share { .. } | Action::Until(_) => return None,
        })
    }

    fn put(&mut self, session: SessionId, report: Report) -> Answer {
        if !self.leases.contains_key(&session) {
            return Answer::SessionLost;
        }
        let revision = self.next_revision();
        let created = self.reports.get(&session).map_or(revision, |(created, _)| *created);
        self.reports.insert(session, (created, report.clone()));
        self.history.push((revision, Change::Report(session, created, report)));
        self.written += 1;
        Answer::Done
    }

    fn replace(
        &mut self,
        session: SessionId,
        service: String,
        replaces: Option<Revision>,
        table: Table,
    ) -> Answer {
        if !self.reports.contains_key(&session) {
            return Answer::SessionLost;
        }
        if self.tables.get(&service).map(|(revision, _)| *revision) != replaces {
            return Answer::Conflict;
        }
        let revision = self.next_revision();
        self.tables.insert(service.clone(), (revision, table.clone()));
        self.history.push((revision, Change::Table(service, table)));
        self.written += 1;
        Answer::Written(revision)
    }

    /// Ends the leases whose time is over.
    pub fn expire(&mut self, now: Instant) {
        let over = self.leases.iter().filter(|(_, ends)| **ends <= now);
        let over: Vec<SessionId> = over.map(|(session, _)| *session).collect();
        over.into_iter().for_each(|session| self.end(session));
    }

    /// When the next lease ends.
    #[must_use]
    pub fn next_end(&self) -> Option<Instant> {
        self.leases.values().min().copied()
    }

    /// Another member leads: every lease is as if it had just been renewed.
    pub fn change_leader(&mut self, now: Instant) {
        self.leases.values_mut().for_each(|ends| *ends = now + self.lease);
    }

    /// Deletes the table of a service, as an operator could.
    pub fn delete_table(&mut self, service: &str) {
        if self.tables.remove(service).is_some() {
            let revision = self.next_revision();
            self.history.push((revision, Change::TableGone(service.to_owned())));
        }
    }

    /// All there is.
    #[must_use]
    pub fn contents(&self) -> Contents {
        let sessions = self.reports.iter();
        let sessions =
            sessions.map(|(session, (created, report))| (*session, *created, report.clone()));
        let tables = self.tables.iter();
        let tables = tables.map(|(service, (at, table))| (service.clone(), *at, table.clone()));
        Contents { revision: self.revision, sessions: sessions.collect(), tables: tables.collect() }
    }

    /// What has changed since a revision, in order.
    pub fn changes_since(&self, revision: Revision) -> impl Iterator<Item = &(Revision, Change)> {
        let first = self.history.partition_point(|(at, _)| *at <= revision);
        self.history[first..].iter()
    }

    /// The last revision.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// How many reports and tables were written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The tables of all services.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values().map(|(_, table)| table)
    }

    fn end(&mut self, session: SessionId) {
        self.leases.remove(&session);
        if self.reports.remove(&session).is_some() {
            let revision = self.next_revision();
            self.history.push((revision, Change::Ended(session)));
        }
    }

    fn next_revision(&mut self) -> Revision {
        self.revision += 1;
        self.revision
    }
}
