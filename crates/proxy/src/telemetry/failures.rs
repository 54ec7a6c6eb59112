//! Counts failures by reason, keeps the last one of each server, and warns of them.
//!
//! A warning is one line for each server and reason at once, then one a minute, and one at the end
//! of the process for what has come since. Workers count on their own and tell the others once a
//! second: what fails by the thousand takes no lock.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use loadline_core::{
    decide::{coalesce::Coalesced, ledger::ServerId, reason::Reason},
    fleet::ServerAddress,
    time::{Duration, Instant},
};

use crate::{runtime::shared::Shared, telemetry::tally::Cells};

/// What failed: a service, and the server of it (with the name of its group) if one was chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) service: &'a str,
    pub(crate) server: Option<(ServerId, &'a str, SocketAddr)>,
}

/// What one worker has seen.
#[derive(Debug)]
pub(crate) struct Failures {
    /// By the cells of the service.
    seen: RefCell<Coalesced<(usize, Option<ServerId>, Reason)>>,
}

/// What all workers have seen.
#[derive(Debug)]
pub(crate) struct FailuresOfAll(Mutex<LastFailures>);

#[derive(Debug)]
struct LastFailures {
    warned: Coalesced<(String, Option<ServerId>, Reason)>,
    /// By server.
    last: BTreeMap<ServerId, LastFailure>,
}

/// The last failure of a server, which is in this group.
#[derive(Debug)]
struct LastFailure {
    reason: Reason,
    at: Instant,
    group: String,
    address: SocketAddr,
}

impl Default for Failures {
    fn default() -> Self {
        Self { seen: RefCell::new(Coalesced::new(TELL_OTHERS)) }
    }
}

impl Failures {
    /// Counts a failure in the `cells` of its service, and tells of it if it is time to.
    #[cold]
    pub(crate) fn note(&self, shared: &Shared, cells: &Cells, scene: Scene<'_>, reason: Reason) {
        cells.fail(reason);
        let now = shared.clock.now();
        let server = scene.server.map(|(server, ..)| server);
        let key = (std::ptr::from_ref(cells) as usize, server, reason);
        let mut seen = self.seen.borrow_mut();
        let (failures, others) = (seen.note(now, &key, 1), seen.note_others(now, 0));
        drop(seen);
        failures.into_iter().for_each(|count| shared.failures.note(now, scene, reason, count));
        others.into_iter().for_each(|count| shared.failures.note_others(now, count));
    }

    /// Leaves to the others what they have not been told of, now that the worker ends; `services`
    /// are its cells by name.
    pub(crate) fn leave_rest(&mut self, shared: &Shared, services: &BTreeMap<String, Arc<Cells>>) {
        let (untold, others) = self.seen.get_mut().take_untold();
        for ((cells, server, reason), count) in untold {
            let named = services.iter().find(|(_, it)| Arc::as_ptr(it) as usize == cells);
            let Some((service, _)) = named else { continue };
            shared.failures.lock().warned.keep(&(service.clone(), server, reason), count);
        }
        shared.failures.note_others(shared.clock.now(), others);
    }
}

impl Default for FailuresOfAll {
    fn default() -> Self {
        Self(Mutex::new(LastFailures { warned: Coalesced::new(WARN_AGAIN), last: BTreeMap::new() }))
    }
}

impl FailuresOfAll {
    fn note(&self, now: Instant, scene: Scene<'_>, reason: Reason, count: u64) {
        let Scene { service, server } = scene;
        let id = server.map(|(id, ..)| id);
        let mut failures = self.lock();
        if let Some((id, group, address)) = server {
            let group = group.to_owned();
            failures.last.insert(id, LastFailure { reason, at: now, group, address });
        }
        let requests = failures.warned.note(now, &(service.to_owned(), id, reason), count);
        let others = failures.warned.note_others(now, 0);
        drop(failures);
        warn_of_others(others);
        if let Some(requests) = requests {
            let server = server.map(|(_, group, address)| (group, address));
            warn(service, server, reason, requests);
        }
    }

    /// Warns of what is yet to be told, at the end of the process.
    pub(crate) fn tell_rest(&self) {
        let mut failures = self.lock();
        let (untold, mut others) = failures.warned.take_untold();
        for ((service, server, reason), requests) in untold {
            match server.map(|server| failures.last.get(&server)) {
                None => warn(&service, None, reason, requests),
                Some(Some(LastFailure { group, address, .. })) => {
                    warn(&service, Some((group.as_str(), *address)), reason, requests);
                }
                // The server has left.
                Some(None) => others += requests,
            }
        }
        drop(failures);
        warn_of_others((others > 0).then_some(others));
    }

    /// Takes note of failures of which a worker has no room to tell more.
    fn note_others(&self, now: Instant, count: u64) {
        let others = self.lock().warned.note_others(now, count);
        warn_of_others(others);
    }

    /// The last failure of a server that workers have failures of, and when it was.
    pub(crate) fn last(&self, server: ServerId) -> Option<(Reason, Instant)> {
        self.lock().last.get(&server).map(|last| (last.reason, last.at))
    }

    /// Forgets these servers, whose numbers may soon be given to others.
    pub(crate) fn forget(&self, servers: &BTreeSet<ServerId>) {
        let mut failures = self.lock();
        for server in servers {
            failures.last.remove(server);
        }
    }

    fn lock(&self) -> MutexGuard<'_, LastFailures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Warns of failures of a service; of a server, if one was chosen.
fn warn(service: &str, server: Option<(&str, SocketAddr)>, reason: Reason, requests: u64) {
    let ending = reason.ending().name();
    match server {
        Some((group, server)) => {
            let server = ServerAddress(server);
            tracing::warn!(service, group, %server, ending, requests, "server fails: {reason}");
        }
        None => tracing::warn!(service, ending, requests, "requests fail: {reason}"),
    }
}

/// Warns of failures that are not told one by one, if it is time to.
fn warn_of_others(requests: Option<u64>) {
    if let Some(requests) = requests {
        tracing::warn!(requests, "other servers fail, or for other reasons: too many to list");
    }
}

/// How often a worker tells the others of failures that are alike.
const TELL_OTHERS: Duration = Duration::from_secs(1);

/// How often the log does.
const WARN_AGAIN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use loadline_core::decide::ledger::Ledger;

    use super::*;

    #[test]
    fn the_last_failure_of_a_server_is_forgotten_when_it_leaves_and_of_no_other() {
        let (mut ledger, failures) = (Ledger::default(), FailuresOfAll::default());
        let now = Instant::from_nanos(1);
        let servers = [1, 2].map(|port| {
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            let id = ledger.server("web", "near", address).id();
            let scene = Scene { service: "web", server: Some((id, "near", address)) };
            failures.note(now, scene, Reason::ConnectionRefused, 1);
            id
        });
        failures.forget(&[servers[0]].into());
        let known = servers.map(|id| failures.last(id).is_some());
        assert_eq!(known, [false, true]);
    }
}
