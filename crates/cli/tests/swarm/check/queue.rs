//! Nobody in a queue starves: nobody waits longer than the queue allows, a higher class goes first,
//! within a class who came first; only the longest-waiting of the lowest class gives way, and only
//! to a higher one; no more wait than may; nobody overtakes; and nobody waits while a group has had
//! room for longer than [`IDLE`].

use loadline_core::{
    fleet::{Class, Overflow, WhenFull},
    time::{Duration, Instant},
};
use loadline_sim::trace::{Fact, Step, What};

use super::Checker;
use crate::account::{Account, Request, Stage};

#[derive(Default)]
pub(super) struct Queue {
    /// Who was displaced at this instant, and who came.
    displaced: Vec<Place>,
    came: Vec<Place>,
}

/// In the queue of an edge and a service.
type Place = ((usize, usize), (Class, u64));

impl Checker for Queue {
    fn see(&mut self, account: &Account, fact: &Fact) -> Result<(), String> {
        let What::Request(number, step) = fact.what else { return Ok(()) };
        let Some(request) = account.requests.get(&number) else { return Ok(()) };
        match (request.at, step) {
            (Stage::Edge, Step::Queued(until)) => {
                let class = account.classes[request.source];
                let place = (class, account.joined + 1);
                self.came.push(((request.edge, request.service), place));
                let longest = longest_wait(account, request);
                if until > fact.at + longest {
                    return Err(format!("request {number} may wait longer than {longest}"));
                }
                Ok(())
            }
            (Stage::Queue { until, .. }, _) if fact.at > until => {
                Err(format!("request {number} has waited for too long: {step:?}"))
            }
            (Stage::Queue { place, until, .. }, Step::Sent { .. }) => {
                let spread = account.spreads(request.service);
                let queue = &account.queues[request.edge][request.service];
                let first = queue.keys().next().copied();
                if first == Some(place) || (spread && !account.is_exact(request.service)) {
                    return Ok(());
                }
                if spread && fact.at == until {
                    return Ok(());
                }
                Err(format!(
                    "request {number} leaves the queue before others: {first:?}, {place:?}"
                ))
            }
            (Stage::Queue { place, .. }, Step::Displaced) => {
                let (edge, service) = (request.edge, request.service);
                self.displaced.push(((edge, service), place));
                Ok(())
            }
            (Stage::Edge, Step::Sent { .. }) => overtakes(account, number, request),
            _ => Ok(()),
        }
    }

    fn pass(&mut self, account: &Account, now: Instant) -> Result<(), String> {
        judge_displaced(account, &self.came, &self.displaced)?;
        self.came.clear();
        self.displaced.clear();
        for (edge, queues) in account.queues.iter().enumerate() {
            for (service, queue) in queues.iter().enumerate() {
                let Some((_, first)) = queue.first_key_value() else { continue };
                if let WhenFull::Queue { length, .. } = account.service(service).when_full
                    && queue.len() > length as usize
                {
                    return Err(format!("{} wait, {length} may", queue.len()));
                }
                idles(account, now, (edge, service), *first)?;
            }
        }
        Ok(())
    }
}

fn longest_wait(account: &Account, request: &Request) -> Duration {
    match account.service(request.service).when_full {
        WhenFull::Queue { timeout, .. } => timeout,
        WhenFull::Spread | WhenFull::Shed => Duration::ZERO,
    }
}

/// Those who gave way at an instant, which is over: they were the longest-waiting of the lowest
/// classes, and others of higher ones have come.
fn judge_displaced(account: &Account, came: &[Place], gone: &[Place]) -> Result<(), String> {
    for (at, place) in gone {
        let new = |it: &(Class, u64)| came.iter().any(|(of, new)| of == at && new == it);
        let stays =
            |it: &&(Class, u64)| it.0 > place.0 && !new(it) || it.0 == place.0 && it.1 < place.1;
        if let Some(other) = account.queues[at.0][at.1].keys().find(stays) {
            return Err(format!("{place:?} gave way, though {other:?} was to"));
        }
        if !came.iter().any(|(of, new)| of == at && new.0 < place.0) {
            return Err(format!("{place:?} gave way to nobody of a higher class"));
        }
    }
    Ok(())
}

/// A newcomer is sent while others wait.
fn overtakes(account: &Account, number: u64, request: &Request) -> Result<(), String> {
    let service = account.service(request.service);
    let queue = &account.queues[request.edge][request.service];
    let may = account.spreads(request.service)
        || service.overflow == Overflow::Soonest
        || request.sends > 0
        || queue.is_empty();
    if may { Ok(()) } else { Err(format!("request {number} overtakes {} that wait", queue.len())) }
}

/// Somebody waits, and a group has had room for some time.
fn idles(
    account: &Account,
    now: Instant,
    (edge, service): (usize, usize),
    first: u64,
) -> Result<(), String> {
    if !account.is_exact(service) {
        return Ok(());
    }
    let failed = account.requests.get(&first).map_or(&[][..], |request| &request.failed);
    let then = Instant::from_nanos(now.as_nanos().saturating_sub(IDLE.as_nanos()));
    let has_had = |group: &&crate::account::GroupAccount| {
        let at = usize_of(&account.groups[edge][service], group);
        let of_group: Vec<_> =
            failed.iter().filter(|it| usize::from(it.group) == at).copied().collect();
        group.changed < then && group.has_room(then, &of_group)
    };
    let groups = &account.groups[edge][service];
    match groups.iter().find(has_had) {
        None => Ok(()),
        Some(group) => Err(format!(
            "request {first} waits at edge {edge} for service {service}, and group {} has room",
            usize_of(groups, group)
        )),
    }
}

fn usize_of<T>(all: &[T], one: &T) -> usize {
    all.iter().position(|it| std::ptr::eq(it, one)).unwrap_or(0)
}

/// How long a group may have room before the first that waits is sent to it.
const IDLE: Duration = Duration::from_millis(1);
