//! `capacity = "auto"`: how many requests the servers of a group can work on, found while they do.
//!
//! A limit must cost nobody anything who is not in overload, so there is none until it is proven
//! that more in flight brings no more answers. Latency alone proves nothing: a service may be slow,
//! have requests of two kinds, or pause. It takes three things at once, in window after window of
//! eight answers or more:
//!
//! - answers take longer than is usual of this service, all of them (`usual`),
//! - more requests come than are answered, by more than chance explains (`excess`),
//! - the responses have not just become fewer: a server that pauses is not full. Fewer that go on
//!   for two seconds are those of a slower service.
//!
//! Where responses wait for the edge itself, which has no time for them, nothing is proven. Where
//! traffic has just begun no latency is usual: see `beginning`.
//!
//! ```text
//!        hint             proof              fewer in flight, as many responses
//!  Open -------> Holding -------> Confirming --------------------> Limiting <--> Probing
//!   ^               |                 | it was no queue                |
//!   |               | it goes         |                                | all that come
//!   '---------------'-----------------'--------------------------------' could be answered
//! ```
//!
//! *Holding* lets no more in flight than there are while the proof is awaited; what is more waits
//! here in place of there, and is let in step by step, within a second or two, since it may be the
//! load that has grown and not a queue. *Confirming* halves what is in flight as long as that
//! brings as many answers: then `k = X * B` are at work, with `X` answers a second when full and
//! `B` the time of one by Little's law, and `1.25 k + 1.5 sqrt(k) + 0.5` may be in flight: all
//! cores busy, no answer twice as slow. If they do not come sooner with half in flight, it was no
//! queue, and there
//! is no limit. *Probing* does the same again now and then, so that what is trusted follows the
//! service. The limit ends when as many could be answered as come. Servers that work in batches,
//! which answer more a second the more is in flight, are known by their silence: see `batches`.
//!
//! Known relatives, and what is different: gradient limits (Netflix' concurrency-limits, Envoy's
//! adaptive concurrency) read a queue from latency alone, so a slow, uneven or pausing service is
//! cut down (their issues 165, 23, 125); CoDel drops what waited too long in a queue of its own,
//! here the queue is in the servers; BBR probes for bandwidth by phases, all the time; Breakwater
//! and DAGOR need the servers' help. The figures are in decision 4.

mod batches;
mod beginning;
mod excess;
mod search;
mod terms;
mod usual;

use core::sync::atomic::Ordering::Relaxed;

pub use search::Search;
use spin::Mutex;
pub(crate) use terms::Auto;

use crate::{
    decide::{
        atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64},
        ledger::release,
    },
    time::{Duration, Instant},
};

/// Between what the limit of a group stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// One request for each server in use: less would idle some of them.
    pub floor: u32,
    /// Never more, whatever is measured.
    pub ceiling: u32,
}

/// What was seen in a window.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// How long it was, above zero.
    pub seconds: f64,
    /// Requests that were answered, but for those with status 5xx, which are often fast.
    pub answers: u32,
    /// Requests that failed or were answered with a 5xx.
    pub failures: u32,
    /// Requests that came, whatever became of them.
    pub asked: f64,
    /// Mean base-2 logarithm of the nanoseconds from sending to the head of the response.
    pub log_latency: f64,
    /// Requests that waited for a response, on average over the responses.
    pub awaiting: f64,
    /// The same at the end.
    pub awaiting_now: f64,
    /// Requests that wait here to be let in at the end, of all groups of the service.
    pub held: f64,
    /// Whether a request was turned away because the limit was reached.
    pub was_full: bool,
    /// Whether a newcomer was not let in at once, for that or since others waited.
    pub was_turned_away: bool,
    /// Whether a request found no connection left to any server.
    pub was_crowded: bool,
    /// How long responses waited for the edge itself at most, in seconds.
    pub lag: f64,
    /// How often no response came for a while; not known where there is no doubt that the group is
    /// not full.
    pub silences: u32,
    /// Seconds of these in all.
    pub silent: f64,
}

/// What the search does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum SearchState {
    /// There is no limit.
    #[default]
    Open,
    /// There may be a queue in the servers: no more is let in than there is.
    Holding,
    /// Less is let in to see whether it was a queue.
    Confirming,
    /// There is a limit.
    Limiting,
    /// Less is let in to see whether the limit is right.
    Probing,
}

impl SearchState {
    const ALL: [Self; 5] =
        [Self::Open, Self::Holding, Self::Confirming, Self::Limiting, Self::Probing];

    /// Whether a request may be refused.
    #[must_use]
    pub const fn refuses(self) -> bool {
        matches!(self, Self::Confirming | Self::Limiting | Self::Probing)
    }

    /// Whether there is a limit that is proven.
    #[must_use]
    pub const fn limits(self) -> bool {
        matches!(self, Self::Limiting | Self::Probing)
    }
}

/// The search of one group as all workers share it. Whoever brings the response that completes a
/// window moves the search on; nobody waits for that.
#[derive(Debug, Default)]
pub struct AutoLimit {
    /// Requests that were sent and not answered.
    awaiting: AtomicU32,
    /// What [`Search::allowed`] said last; zero before the first plan.
    allowed: AtomicU32,
    stage: AtomicU8,
    /// More is in flight than may be: answers are not counted until it is less.
    drains: AtomicBool,
    was_full: AtomicBool,
    was_turned_away: AtomicBool,
    was_crowded: AtomicBool,
    /// Windows begin and end with a batch of responses.
    by_batches: AtomicBool,
    /// When a response came last, of a group that may be full.
    latest: AtomicU64,
    /// How often none came for a while in the window, and for how many nanoseconds.
    silences: AtomicU32,
    silent: AtomicU64,
    /// The longest of the window, in nanoseconds.
    lag: AtomicU64,
    /// The controller has been told that there is a limit.
    told: AtomicBool,
    /// Of the window: answers in the upper 24 bits, sixteenths of their logarithms below.
    answers: AtomicU64,
    /// How many waited for a response, summed over the responses.
    awaited: AtomicU64,
    failures: AtomicU32,
    /// Newcomers not let in at once, less those let in later.
    turned_away: AtomicI32,
    /// How many waited when the last of these came or was let in.
    held: AtomicU32,
    /// When the window began, and how many waited for a response.
    begins: AtomicU64,
    awaiting_at_first: AtomicU32,
    /// Responses that complete the window, and the least nanoseconds that it lasts.
    needed: AtomicU32,
    least: AtomicU64,
    /// For how long a limit stands without a complete window, in nanoseconds, and until when.
    patience: AtomicU64,
    stale_at: AtomicU64,
    /// How long requests may wait for their turn, in nanoseconds, and how many; zero for as long as
    /// the service says.
    wait: AtomicU64,
    places: AtomicU32,
    floor: AtomicU32,
    ceiling: AtomicU32,
    /// How many there are in the plan.
    servers: AtomicU32,
    search: Mutex<Search>,
}

impl AutoLimit {
    /// What the search does.
    #[must_use]
    pub fn stage(&self) -> SearchState {
        SearchState::ALL[usize::from(self.stage.load(Relaxed))]
    }

    /// Requests that may wait for a response now; [`u32::MAX`] for all.
    #[must_use]
    pub fn allowed(&self) -> u32 {
        match self.allowed.load(Relaxed) {
            0 => u32::MAX,
            allowed => allowed,
        }
    }

    /// Requests that wait for a response.
    #[must_use]
    pub fn awaiting(&self) -> u32 {
        self.awaiting.load(Relaxed)
    }

    /// How long requests may wait for their turn now, and how many; none where the service decides.
    #[must_use]
    pub fn queue(&self) -> Option<(Duration, u32)> {
        let wait = self.wait.load(Relaxed);
        (wait > 0).then(|| (Duration::from_nanos(wait), self.places.load(Relaxed)))
    }

    /// The same search with nothing under way; begins where this one stands.
    pub(crate) fn snapshot(&self) -> Self {
        let copy = Self { search: Mutex::new(*self.search.lock()), ..Self::default() };
        copy.bound(self.bounds(), self.servers.load(Relaxed));
        copy
    }

    /// Takes the bounds of a plan in. A limit was found for the servers of the plan before: it
    /// changes with their number at once, and from then on follows what is answered.
    pub(crate) fn bound(&self, bounds: Bounds, servers: u32) {
        self.floor.store(bounds.floor, Relaxed);
        self.ceiling.store(bounds.ceiling, Relaxed);
        let before = self.servers.swap(servers, Relaxed);
        if before == servers {
            return;
        }
        let mut search = self.search.lock();
        if before > 0 {
            search.scale(f64::from(servers) / f64::from(before));
        }
        self.publish(&search, bounds);
    }

    /// Takes a place among those that wait for a response.
    pub(crate) fn enter(&self, limit: u32) -> bool {
        crate::decide::ledger::reserve(&self.awaiting, limit)
    }

    /// Gives a place back that nothing was sent for.
    pub(crate) fn leave(&self) {
        release(&self.awaiting);
    }

    /// Notes that the limit turned a request away. Ends the limit if there were no responses for
    /// long: it may be what prevents them.
    pub(crate) fn note_full(&self, now: Instant) {
        if !self.was_full.load(Relaxed) {
            self.was_full.store(true, Relaxed);
        }
        if now.as_nanos() > self.stale_at.load(Relaxed) {
            self.let_go(now);
        }
    }

    /// Counts a newcomer that was not let in, while so many wait.
    pub(crate) fn turn_away(&self, waiting: u32) {
        self.turned_away.fetch_add(1, Relaxed);
        self.was_turned_away.store(true, Relaxed);
        self.held.store(waiting, Relaxed);
    }

    /// Counts a request turned away before as let in; `waiting` still wait.
    pub(crate) fn take_back(&self, waiting: u32) {
        self.turned_away.fetch_sub(1, Relaxed);
        self.held.store(waiting, Relaxed);
    }

    /// Counts a request that was let in, and refused since no server could take a connection more.
    pub(crate) fn crowd_out(&self) {
        self.turned_away.fetch_add(1, Relaxed);
        self.was_crowded.store(true, Relaxed);
    }

    /// A request has failed, or was answered with a 5xx.
    pub(crate) fn failed(&self) {
        release(&self.awaiting);
        self.failures.fetch_add(1, Relaxed);
    }

    /// Takes in that a request was answered that was sent at `since`. True if a limit has begun or
    /// ended, so that the controller is to be told.
    #[must_use]
    pub(crate) fn answered(&self, now: Instant, since: Instant, lag: Duration) -> bool {
        if lag > Duration::ZERO {
            self.lag.fetch_max(lag.as_nanos(), Relaxed);
        }
        let awaiting = self.awaiting.fetch_sub(1, Relaxed);
        if self.drains.load(Relaxed) {
            self.drained(now, awaiting);
            return false;
        }
        let after_silence = self.stage() != SearchState::Open && self.note_silence(now);
        self.awaited.fetch_add(u64::from(awaiting), Relaxed);
        let sample = ONE_ANSWER | sixteenths(now.since(since));
        let answers = (self.answers.fetch_add(sample, Relaxed) >> ANSWERS_SHIFT) as u32 + 1;
        let may_turn = after_silence || self.turns_anywhere(answers);
        match self.begins.load(Relaxed) {
            0 if may_turn => self.restart(now),
            0 => {}
            begins if now.as_nanos().saturating_sub(begins) < self.least() => {}
            _ if may_turn && self.is_complete(answers) => return self.move_on(now),
            _ => {}
        }
        false
    }

    /// Takes in when a response came. True if it is the first after a while.
    fn note_silence(&self, now: Instant) -> bool {
        let silent = now.as_nanos().saturating_sub(self.latest.swap(now.as_nanos(), Relaxed));
        if silent < SILENCE {
            return false;
        }
        self.silences.fetch_add(1, Relaxed);
        self.silent.fetch_add(silent, Relaxed);
        true
    }

    fn least(&self) -> u64 {
        self.least.load(Relaxed).max(WINDOW_MIN)
    }

    /// Whether windows begin and end with any response: so many without a silence are no batch.
    fn turns_anywhere(&self, answers: u32) -> bool {
        let most = || self.needed.load(Relaxed).max(self.allowed());
        !self.by_batches.load(Relaxed) || answers / 2 >= most()
    }

    fn is_complete(&self, answers: u32) -> bool {
        let needed = self.needed.load(Relaxed);
        let surges =
            || !self.stage().refuses() && excess::is_surge(self.asked(answers), answers.into());
        answers >= needed || answers * 2 >= needed && surges()
    }

    /// Requests that came since the window began.
    fn asked(&self, answers: u32) -> f64 {
        let more = f64::from(self.awaiting()) - f64::from(self.awaiting_at_first.load(Relaxed));
        let ended = f64::from(answers) + f64::from(self.failures.load(Relaxed));
        more + ended + f64::from(self.turned_away.load(Relaxed))
    }

    #[cold]
    fn move_on(&self, now: Instant) -> bool {
        let Some(mut search) = self.search.try_lock() else { return false };
        // Another worker may have closed that window, and one has only begun.
        let begins = self.begins.load(Relaxed);
        let lasts = now.as_nanos().saturating_sub(begins);
        if begins == 0 || lasts < self.least() {
            return false;
        }
        let Some(window) = self.window(now) else { return false };
        let bounds = self.bounds();
        search.close(now, &window, bounds);
        self.publish(&search, bounds);
        let over = self.over(&search, bounds);
        self.drains.store(over > 0, Relaxed);
        self.restart(now);
        if let (1.., Some(time)) = (over, search.drain_time(over)) {
            self.stale_at.store((now + time * DRAIN_PATIENCE).as_nanos(), Relaxed);
        }
        let limits = search.stage().limits();
        self.told.swap(limits, Relaxed) != limits
    }

    /// How many fewer must be in flight before what they show counts.
    fn over(&self, search: &Search, bounds: Bounds) -> u32 {
        match search.stage() {
            SearchState::Confirming | SearchState::Probing => {
                self.awaiting().saturating_sub(search.allowed(bounds))
            }
            _ => 0,
        }
    }

    /// A request was answered while fewer are waited for. A queue is gone in no time; what stays
    /// for long is none, but requests that take long by themselves.
    #[cold]
    fn drained(&self, now: Instant, awaiting: u32) {
        if awaiting <= self.allowed() {
            self.drains.store(false, Relaxed);
            self.restart(now);
            if self.by_batches.load(Relaxed) {
                // The rest of this batch belongs to no window.
                self.begins.store(0, Relaxed);
            }
        } else if now.as_nanos() > self.stale_at.load(Relaxed) {
            self.let_go(now);
        }
    }

    fn window(&self, now: Instant) -> Option<Window> {
        let tally = self.answers.swap(0, Relaxed);
        let answers = (tally >> ANSWERS_SHIFT) as u32;
        let seconds = now.since(Instant::from_nanos(self.begins.load(Relaxed))).as_secs_f64();
        let asked = self.asked(answers);
        let per_answer = |sum: u64| sum as f64 / f64::from(answers);
        let window = Window {
            seconds,
            answers,
            failures: self.failures.swap(0, Relaxed),
            asked,
            log_latency: per_answer(tally & (ONE_ANSWER - 1)) / 16.0,
            awaiting: per_answer(self.awaited.swap(0, Relaxed)),
            awaiting_now: self.awaiting().into(),
            held: self.held.load(Relaxed).into(),
            was_full: self.was_full.load(Relaxed),
            was_turned_away: self.was_turned_away.load(Relaxed),
            was_crowded: self.was_crowded.load(Relaxed),
            lag: Duration::from_nanos(self.lag.load(Relaxed)).as_secs_f64(),
            silences: self.silences.load(Relaxed),
            silent: Duration::from_nanos(self.silent.load(Relaxed)).as_secs_f64(),
        };
        (answers > 0 && seconds > 0.0).then_some(window)
    }

    #[cold]
    fn let_go(&self, now: Instant) {
        let Some(mut search) = self.search.try_lock() else { return };
        search.let_go();
        self.drains.store(false, Relaxed);
        self.publish(&search, self.bounds());
        self.restart(now);
    }

    /// Begins a window.
    fn restart(&self, now: Instant) {
        self.awaiting_at_first.store(self.awaiting(), Relaxed);
        self.answers.store(0, Relaxed);
        self.awaited.store(0, Relaxed);
        self.failures.store(0, Relaxed);
        self.turned_away.store(0, Relaxed);
        self.held.store(0, Relaxed);
        self.was_full.store(false, Relaxed);
        self.was_turned_away.store(false, Relaxed);
        self.was_crowded.store(false, Relaxed);
        self.latest.store(now.as_nanos(), Relaxed);
        self.silences.store(0, Relaxed);
        self.silent.store(0, Relaxed);
        self.lag.store(0, Relaxed);
        self.begins.store(now.as_nanos(), Relaxed);
        let stale_at = now.as_nanos().saturating_add(self.patience.load(Relaxed));
        self.stale_at.store(stale_at, Relaxed);
    }

    fn publish(&self, search: &Search, bounds: Bounds) {
        self.allowed.store(search.allowed(bounds), Relaxed);
        self.stage.store(search.stage() as u8, Relaxed);
        self.needed.store(search.answers_needed(bounds), Relaxed);
        self.least.store(search.window_min().as_nanos(), Relaxed);
        self.by_batches.store(search.sees_batches(), Relaxed);
        let answers = search.answers_needed(bounds).saturating_add(self.awaiting());
        let patience = search.time_of(answers).map_or(u64::MAX, Duration::as_nanos);
        self.patience.store(patience.saturating_mul(PATIENCE), Relaxed);
        let (wait, places) = search.queue().unwrap_or_default();
        self.wait.store(wait.as_nanos(), Relaxed);
        self.places.store(places, Relaxed);
    }

    fn bounds(&self) -> Bounds {
        Bounds { floor: self.floor.load(Relaxed), ceiling: self.ceiling.load(Relaxed) }
    }
}

/// The weight of the newest of values of which two thirds are forgotten after `memory` seconds.
fn weight(seconds: f64, memory: f64) -> f64 {
    1.0 - libm::exp(-seconds / memory)
}

/// The base-2 logarithm of the nanoseconds in sixteenths, between two powers of two by a straight
/// line: at most a tenth of a binary order off.
fn sixteenths(time: Duration) -> u64 {
    let nanos = time.as_nanos().max(16);
    let power = 63 - nanos.leading_zeros();
    let rest = (nanos >> (power - 4)) & 15;
    u64::from(power) * 16 + rest
}

/// Responses are counted above the sum of their logarithms.
const ANSWERS_SHIFT: u32 = 40;
const ONE_ANSWER: u64 = 1 << ANSWERS_SHIFT;

/// The shortest window, in nanoseconds: the jitter of a scheduler is short against it.
const WINDOW_MIN: u64 = 10_000_000;

/// Without responses for so many nanoseconds is a silence.
const SILENCE: u64 = WINDOW_MIN;

/// A limit ends without a window for four times as long as one takes as a rule.
const PATIENCE: u64 = 4;

/// A queue has this many times the time that its servers need to shorten it.
const DRAIN_PATIENCE: u64 = 2;

/// The ceiling where the file gives none.
pub(crate) const CEILING: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_right_to_a_tenth() {
        for nanos in [1u64, 16, 17, 1_000, 20_000_000, 3_000_000_000, u64::MAX] {
            let exact = libm::log2(nanos.max(16) as f64);
            let sixteenths = sixteenths(Duration::from_nanos(nanos)) as f64 / 16.0;
            assert!((exact - sixteenths).abs() < 0.16, "{nanos}: {sixteenths} for {exact}");
        }
    }
}
