//! The search for the limit of one group, window by window. Pure: no clock, nothing shared.

use super::{
    Bounds, SearchState, Window,
    batches::Batches,
    beginning::Beginning,
    excess::Excess,
    usual::{Shift, Usual},
    weight,
};
use crate::time::{Duration, Instant};

/// Where the search stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Search {
    stage: SearchState,
    /// Requests that may wait for a response while there is a limit.
    limit: f64,
    /// How long a response takes of a group that is not full, in seconds, by Little's law.
    service_time: f64,
    /// Responses per second: of a full group while there is a limit, else the usual ones.
    per_sec: f64,
    usual_per_sec: f64,
    /// How long responses have been counted, in seconds.
    watched: f64,
    /// Requests in flight, in the servers or held back.
    in_flight: f64,
    recent: Recent,
    /// Of windows with fewer responses than usual.
    fewer: Fewer,
    usual: Usual,
    beginning: Beginning,
    batches: Batches,
    /// The group was full before anything was usual.
    began_full: bool,
    answered: u64,
    excess: Excess,
    was_slow: bool,
    /// Answers before the limit was set took so long, in seconds.
    before: f64,
    probe_at: Instant,
    probe_gap: Duration,
    /// What came beyond what a full group answers, up to [`Self::debt_max`]; without it there is
    /// no limit.
    debt: f64,
}

/// The last windows, each counting for [`REMEMBERED`] of the next.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    answers: f64,
    seconds: f64,
}

impl Recent {
    fn of(window: &Window) -> Self {
        Self { answers: f64::from(window.answers), seconds: window.seconds }
    }

    fn add(&mut self, window: &Window) {
        self.decay();
        self.answers += f64::from(window.answers);
        self.seconds += window.seconds;
    }

    fn decay(&mut self) {
        self.answers *= REMEMBERED;
        self.seconds *= REMEMBERED;
    }

    fn per_sec(&self) -> f64 {
        self.answers / self.seconds
    }
}

/// Windows with fewer responses than usual, less as many with as many as usual.
#[derive(Clone, Copy, Debug, Default)]
struct Fewer {
    answers: f64,
    seconds: f64,
    /// The same seconds, of a long window [`KNOWN_MAX`] at most: a stop is one window.
    known: f64,
}

impl Fewer {
    fn add(&mut self, window: &Window) {
        self.answers += f64::from(window.answers);
        self.seconds += window.seconds;
        self.known += window.seconds.min(KNOWN_MAX);
    }

    /// Takes in a window with as many responses as usual.
    fn reduce(&mut self, window: &Window) {
        if window.seconds >= self.known {
            *self = Self::default();
            return;
        }
        let part = 1.0 - window.seconds / self.known;
        self.answers *= part;
        self.seconds *= part;
        self.known *= part;
    }

    fn per_sec(&self) -> f64 {
        self.answers / self.seconds
    }
}

impl Search {
    /// What the search does.
    #[must_use]
    pub const fn stage(&self) -> SearchState {
        self.stage
    }

    /// Requests that may wait for a response now; [`u32::MAX`] for all that come.
    #[must_use]
    pub fn allowed(&self, bounds: Bounds) -> u32 {
        let limit = match self.stage {
            SearchState::Open => return u32::MAX,
            SearchState::Holding | SearchState::Limiting => self.limit,
            SearchState::Confirming | SearchState::Probing => self.limit / 2.0,
        };
        (limit as u32).clamp(bounds.floor.max(1), bounds.ceiling.max(1))
    }

    /// How many responses make a window.
    #[must_use]
    pub fn answers_needed(&self, bounds: Bounds) -> u32 {
        match self.stage {
            SearchState::Confirming | SearchState::Probing => {
                self.allowed(bounds).saturating_mul(2).max(PROBE_ANSWERS)
            }
            SearchState::Open | SearchState::Holding | SearchState::Limiting => WINDOW_ANSWERS,
        }
    }

    /// How long a window lasts at least. Cores that began together end together, as those with work
    /// of one size do: less than the time of a response shows either nothing or a wave.
    #[must_use]
    pub fn window_min(&self) -> Duration {
        let seconds = match self.stage {
            SearchState::Limiting => self.service_time.min(WINDOW_MIN_MAX),
            _ => 0.0,
        };
        Duration::from_nanos((seconds * 1e9) as u64)
    }

    /// Whether windows begin and end with batches of responses.
    #[must_use]
    pub fn sees_batches(&self) -> bool {
        self.stage.refuses() && self.batches.are_likely()
    }

    /// How long so many responses take as a rule; none before it is known.
    #[must_use]
    pub fn time_of(&self, answers: u32) -> Option<Duration> {
        let seconds = f64::from(answers) / self.usual_per_sec;
        (self.usual_per_sec > 0.0).then(|| Duration::from_nanos((seconds * 1e9) as u64))
    }

    /// How long it takes until so many fewer are in flight, and a window more, of a group that is
    /// full; none while that is not known.
    #[must_use]
    pub fn drain_time(&self, fewer: u32) -> Option<Duration> {
        let seconds = f64::from(fewer + WINDOW_ANSWERS) / self.per_sec;
        // A probe with fewer in flight than cores leaves some of these without work.
        let least = if self.stage == SearchState::Probing { 1.5 * self.service_time } else { 0.0 };
        let seconds = seconds.max(least);
        (self.per_sec > 0.0).then(|| Duration::from_nanos((seconds * 1e9) as u64))
    }

    /// The group has so many times as many servers as before.
    pub fn scale(&mut self, times: f64) {
        self.per_sec *= times;
        self.limit *= times;
    }

    /// How long requests may wait for their turn while there is a limit, and how many: a quarter of
    /// what a response takes. What waits longer is answered late and makes no more answers.
    #[must_use]
    pub fn queue(&self) -> Option<(Duration, u32)> {
        if matches!(self.stage, SearchState::Open | SearchState::Holding) {
            return None;
        }
        let longest = (self.service_time / 4.0).max(WAIT_MIN);
        let places = (self.per_sec * longest).max(1.0) as u32;
        Some((Duration::from_nanos((longest * 1e9) as u64), places))
    }

    /// Takes a window in.
    pub fn close(&mut self, now: Instant, window: &Window, bounds: Bounds) {
        let per_sec = f64::from(window.answers) / window.seconds;
        self.answered += u64::from(window.answers);
        let shows_nothing = window.waits_for_edge() && !self.stage.limits();
        if shows_nothing {
            self.let_go();
            return;
        }
        self.recent.add(window);
        if self.stage == SearchState::Open {
            self.batches = Batches::default();
        } else {
            let is_probe = matches!(self.stage, SearchState::Confirming | SearchState::Probing);
            self.batches.add(window, is_probe);
        }
        match self.stage {
            SearchState::Open | SearchState::Holding => self.watch(now, window, per_sec),
            SearchState::Confirming | SearchState::Probing => {
                self.probed(now, window, per_sec, bounds);
            }
            SearchState::Limiting => self.limited(now, window, per_sec),
        }
    }

    /// Ends the limit: nothing is answered any more that shows whether it is right.
    pub fn let_go(&mut self) {
        if self.stage.limits() {
            self.excess.forget_queue(self.limit);
        }
        self.stage = SearchState::Open;
        self.excess.clear();
        self.was_slow = false;
        self.began_full = false;
    }

    /// Looks for evidence that the group is full.
    fn watch(&mut self, now: Instant, window: &Window, per_sec: f64) {
        let time = window.awaiting / per_sec;
        let is_young = self.usual.is_young(now, self.answered, window.awaiting as u32);
        let shift = if is_young { Shift::None } else { self.usual.shift(window.log_latency) };
        let is_slow = shift > Shift::None;
        let has_queue = is_slow && (self.was_slow || shift == Shift::Clear);
        let pauses = self.count(window, per_sec);
        let per_sec = per_sec.max(self.usual_per_sec);
        if !has_queue {
            self.excess.discount(per_sec);
        }
        let nothing_waits = !is_slow && (!self.was_slow || self.excess.is_little(per_sec));
        if nothing_waits {
            self.stage = SearchState::Open;
        }
        let becomes_slow = is_slow && !self.was_slow;
        if becomes_slow {
            self.recent = Recent::of(window);
        }
        self.was_slow = is_slow;
        if is_young {
            let nanos = (window.seconds * 1e9) as u64;
            let begins = Instant::from_nanos(now.as_nanos().saturating_sub(nanos));
            self.usual.begin(begins, window.log_latency);
            self.service_time = time;
        } else if is_slow {
            self.usual.concede(window.log_latency, window.seconds);
            // Little's law does not hold over a pause.
            if !pauses {
                self.move_service_time(time, weight(window.seconds, 30.0).min(0.05));
            }
        } else {
            self.usual.learn(window.log_latency, window.seconds);
            self.move_service_time(time, weight(window.seconds, 5.0).min(0.2));
        }
        if self.beginning.is_full(window, self.in_flight) {
            self.began_full = true;
            self.confirm(window, time);
        } else if has_queue {
            self.suspect(window, per_sec, time);
        }
    }

    /// Counts what came beyond what was answered. True where the responses became fewer: then the
    /// servers pause, and neither what comes meanwhile nor how much of it stands there proves
    /// anything.
    fn count(&mut self, window: &Window, per_sec: f64) -> bool {
        let recent = self.recent.per_sec();
        let pauses = self.is_pause(window, recent);
        // What a pause kept back may come all at once, and says nothing of what is usual.
        let per_sec = per_sec.min(recent.max(BURST * self.usual_per_sec));
        self.learn_rate(window, per_sec, recent);
        let ended = f64::from(window.answers + window.failures);
        if !pauses || window.asked < ended {
            self.excess.add(window.asked, ended, per_sec);
        }
        let held = if self.stage == SearchState::Open { 0.0 } else { window.held };
        self.in_flight = window.awaiting_now + held;
        if !pauses {
            self.excess.level(self.in_flight, window.seconds);
        }
        pauses
    }

    /// Whether the responses have become fewer, but not for long: fewer that go on are those of a
    /// slower service, and become the usual ones.
    fn is_pause(&mut self, window: &Window, recent: f64) -> bool {
        if recent >= PAUSE * self.usual_per_sec {
            self.fewer.reduce(window);
            return false;
        }
        self.fewer.add(window);
        if self.fewer.known < PAUSE_MAX.max(PAUSE_LATENCIES * self.service_time) {
            return true;
        }
        self.usual_per_sec = self.fewer.per_sec();
        self.fewer = Fewer::default();
        false
    }

    /// Moves the usual responses a second. For how long is remembered what was must not depend on
    /// one window, else those with more would count for more.
    fn learn_rate(&mut self, window: &Window, per_sec: f64, recent: f64) {
        let memory = if recent > MORE * self.usual_per_sec {
            RATE_MEMORY_OF_MORE
        } else {
            RATE_MEMORY.max(RATE_LATENCIES * self.service_time)
        };
        self.watched += window.seconds;
        let two_windows = 2.0 * f64::from(WINDOW_ANSWERS) / self.usual_per_sec;
        let seconds = window.seconds.min(two_windows.max(KNOWN_MAX));
        let weight = weight(seconds, memory).max(window.seconds / self.watched);
        self.usual_per_sec += (per_sec - self.usual_per_sec) * weight;
    }

    /// A queue stands in the servers: more in flight brings no more answers. Where that is not
    /// proven what is held back is let in step by step: it may be the load that has grown.
    fn suspect(&mut self, window: &Window, per_sec: f64, time: f64) {
        // Servers that can take no more are full, however many requests there were before.
        let in_flight = if window.was_crowded { f64::INFINITY } else { self.in_flight };
        if self.excess.is_proof(in_flight, per_sec) {
            self.confirm(window, time);
        } else if self.stage == SearchState::Holding && window.held > 0.0 {
            self.limit *= 1.0 + window.seconds.min(STEP_MAX) / HOLD;
        } else if self.excess.is_hint(per_sec) && self.stage == SearchState::Open {
            self.stage = SearchState::Holding;
            self.limit = window.awaiting_now.max(limit(self.usual_per_sec * self.service_time));
        }
    }

    /// Lets half of what is in flight in, to see whether as many responses come.
    fn confirm(&mut self, window: &Window, time: f64) {
        self.before = time;
        self.per_sec = self.recent.per_sec();
        self.batches.begin(self.per_sec);
        self.probe_gap = PROBE_GAP_MIN;
        self.set_limit();
        self.debt = self.debt_max();
        // Half of what is in flight at most, else it would be no test.
        self.limit = self.limit.min(window.awaiting_now);
        self.stage = SearchState::Confirming;
    }

    /// Ends a probe with half of the limit in flight. If responses came as fast, that half is the
    /// new limit; otherwise requests in flight over responses per second give the service time.
    fn probed(&mut self, now: Instant, window: &Window, per_sec: f64, bounds: Bounds) {
        let allowed = self.allowed(bounds);
        let time = self.time_in_probe(window, per_sec, allowed);
        let confirms = self.stage == SearchState::Confirming;
        if self.has_become_faster(per_sec) {
            if self.began_full && window.asked <= f64::from(window.answers + window.failures) {
                // It was cold. What waits for it is no measure of who is always there.
                self.excess.forget_queue(f64::from(allowed));
                self.end_of_probe(window, time);
                return;
            }
            self.per_sec = per_sec;
        }
        let is_as_fast = per_sec >= self.batches.same(SAME) * self.batches.best(self.per_sec);
        if is_as_fast && allowed > bounds.floor.max(1) {
            self.limit = f64::from(allowed);
            return;
        }
        if confirms && time > self.before / QUEUE_MIN {
            self.end_of_probe(window, time);
            return;
        }
        let changed = time > self.service_time * 1.5 || time * 1.5 < self.service_time;
        if changed && !confirms {
            self.probe_gap = PROBE_GAP_MIN;
        }
        if core::mem::take(&mut self.began_full) {
            self.usual.begin_again(window.log_latency);
        }
        let part = if confirms || changed { 1.0 } else { 0.5 };
        if !confirms {
            self.batches.probed();
        }
        self.move_service_time(time, part);
        self.set_limit();
        self.stage = SearchState::Limiting;
        self.probe_at = now + self.probe_gap;
        self.probe_gap = (self.probe_gap * 2).min(PROBE_GAP_MAX);
    }

    /// Whether a probe had clearly more responses a second than the full group, which fewer in
    /// flight cannot bring: the service is another than when that was measured. Of servers that
    /// work in batches a probe may have caught one batch more.
    fn has_become_faster(&self, per_sec: f64) -> bool {
        !self.batches.are_likely() && per_sec >= FASTER * self.per_sec
    }

    /// Ends the limit: the probe has shown that there is no queue, or none that stays.
    fn end_of_probe(&mut self, window: &Window, time: f64) {
        self.let_go();
        self.service_time = time;
        self.usual.replace(window.log_latency);
    }

    /// How long a response took in a probe, in seconds. Of a batch the last response sees as many
    /// fewer in flight as the batch was large.
    fn time_in_probe(&self, window: &Window, per_sec: f64, allowed: u32) -> f64 {
        if self.batches.are_likely() && (window.was_full || window.was_turned_away) {
            return f64::from(allowed) / per_sec;
        }
        window.awaiting / per_sec
    }

    /// The limit follows the responses, and ends when as many come as can be answered.
    fn limited(&mut self, now: Instant, window: &Window, per_sec: f64) {
        let answers = f64::from(window.answers);
        // Where the scaler leaves cores without work nothing is seen of a full group.
        let is_busy =
            self.batches.are_likely() || window.awaiting >= self.per_sec * self.service_time;
        if window.was_full && is_busy {
            self.batches.level(per_sec, window.seconds);
            self.per_sec += (per_sec - self.per_sec) * answers / (answers + 30.0);
            self.set_limit();
        }
        let ended = answers + f64::from(window.failures);
        let when_full = self.per_sec * window.seconds;
        let could_end = if window.was_full { when_full } else { when_full.max(1.25 * ended) };
        self.debt = (self.debt + window.asked - could_end).min(self.debt_max());
        if self.debt <= 0.0 {
            self.let_go();
        } else if window.was_full && now >= self.probe_at {
            self.stage = SearchState::Probing;
        }
    }

    /// Moves the service time by this part of the way towards `time`.
    fn move_service_time(&mut self, time: f64, part: f64) {
        self.service_time += (time - self.service_time) * part;
    }

    /// The most of [`Self::debt`]: what comes in a second, and more than a wave of responses.
    fn debt_max(&self) -> f64 {
        self.per_sec.clamp(DEBT_LEAST, DEBT_MAX).max(2.0 * self.limit)
    }

    fn set_limit(&mut self) {
        let working = self.batches.best(self.per_sec) * self.service_time;
        self.limit = limit(working * self.batches.deeper());
    }
}

impl Window {
    /// Whether a good part of the response times is of the edge itself.
    fn waits_for_edge(&self) -> bool {
        self.lag * LAG > libm::exp2(self.log_latency) / 1e9
    }
}

/// The limit for a group that works on so many requests at a time: enough that none of its cores
/// waits for the next request while one that is answered makes room for it.
fn limit(cores: f64) -> f64 {
    1.25 * cores + 1.5 * libm::sqrt(cores) + 0.5
}

/// Responses of a window.
pub(super) const WINDOW_ANSWERS: u32 = 8;

/// Responses of a probe at least; else each place of it is used twice.
const PROBE_ANSWERS: u32 = 16;

/// What a window counts for in the next one.
const REMEMBERED: f64 = 0.7;

/// The responses of a group that pauses, as a part of the usual ones. With more than this, fewer
/// than usual add nothing to the sudden excess, which counts a response 1.34 times.
const PAUSE: f64 = 0.75;

/// Seconds after which they are no pause, and the same in usual latencies.
const PAUSE_MAX: f64 = 2.0;
const PAUSE_LATENCIES: f64 = 8.0;

/// Seconds of a window that count as such: a stop is one long window.
const KNOWN_MAX: f64 = 0.5;

/// Seconds after which two thirds of the usual responses a second are forgotten, and the same in
/// usual latencies.
const RATE_MEMORY: f64 = 3.0;
const RATE_LATENCIES: f64 = 5.0;

/// The same while the last windows together had so many times as many.
const RATE_MEMORY_OF_MORE: f64 = 2.0;
const MORE: f64 = 1.25;

/// Responses a second of a window, over the usual ones, that count only as far as the last windows
/// had as many.
const BURST: f64 = 2.0;

/// Seconds in which a limit becomes nearly three times as large while more requests are held back
/// than are proven to be too many.
const HOLD: f64 = 1.0;

/// Seconds of one step of it at most: a pause is no time in which more were let in.
const STEP_MAX: f64 = 0.25;

/// Share of the rate that counts as equal: sixteen responses show no smaller difference.
const SAME: f64 = 0.75;

/// How many times the responses a second of the full group are more than chance brings a probe.
const FASTER: f64 = 1.5;

/// Response times up to so many times the lag of the edge may be its own: it is measured now and
/// then, and differs by as much from one time to the next.
const LAG: f64 = 4.0;

/// How much longer answers took with a queue than without: less was none.
const QUEUE_MIN: f64 = 1.4;

/// A limit ends when this many more could have been answered than came, or as many as come in a
/// second if they are fewer: by chance it happens to 1.2 times the load once in five hundred times.
const DEBT_MAX: f64 = 100.0;
const DEBT_LEAST: f64 = 35.0;

/// Seconds of a window that are enough, however long a response takes.
const WINDOW_MIN_MAX: f64 = 2.0;

/// The least time in seconds that requests may wait for their turn.
const WAIT_MIN: f64 = 0.005;

const PROBE_GAP_MIN: Duration = Duration::from_secs(1);
const PROBE_GAP_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use alloc::vec;
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds { floor: 2, ceiling: 100 };

    fn window() -> impl Strategy<Value = Window> {
        let counts = (1u32..500, 0u32..100, -100.0f64..2_000.0);
        (0.01f64..10.0, counts, 10.0f64..40.0, (0.0f64..5_000.0, 0.0f64..5_000.0), any::<bool>())
            .prop_map(|(seconds, (answers, failures, asked), log_latency, awaiting, was_full)| {
                let (awaiting, awaiting_now) = awaiting;
                Window {
                    seconds,
                    answers,
                    failures,
                    asked,
                    log_latency,
                    awaiting,
                    awaiting_now,
                    held: awaiting,
                    was_full,
                    was_turned_away: was_full,
                    was_crowded: false,
                    lag: 0.0,
                    silences: 0,
                    silent: 0.0,
                }
            })
    }

    proptest! {
        /// Whatever is seen, there is no limit or one within its bounds, and a queue of one place
        /// at least.
        #[test]
        fn a_limit_stays_within_its_bounds(windows in prop::collection::vec(window(), 1..300)) {
            let (mut search, mut now) = (Search::default(), Instant::ZERO);
            for window in windows {
                now = now + Duration::from_secs(1).scale(window.seconds);
                search.close(now, &window, BOUNDS);
                let allowed = search.allowed(BOUNDS);
                let is_open = search.stage() == SearchState::Open;
                prop_assert_eq!(is_open, allowed == u32::MAX);
                prop_assert!(is_open || (2..=100).contains(&allowed), "{:?}", search);
                let waits = |(wait, places)| wait > Duration::ZERO && places > 0;
                prop_assert!(search.queue().is_none_or(waits));
            }
        }
    }

    /// Eight answers of 20 ms each in 100 ms, from cores that have nothing else to do.
    const CALM: Window = Window {
        seconds: 0.1,
        answers: 8,
        failures: 0,
        asked: 8.0,
        log_latency: 24.25,
        awaiting: 1.6,
        awaiting_now: 1.6,
        held: 0.0,
        was_full: false,
        was_turned_away: false,
        was_crowded: false,
        lag: 0.0,
        silences: 0,
        silent: 0.0,
    };

    /// As many answers, all of them late, while many more requests come.
    const FULL: Window = Window { asked: 40.0, log_latency: 27.0, awaiting: 30.0, ..CALM };

    fn seen(windows: impl IntoIterator<Item = Window>) -> Search {
        let (mut search, mut now) = (Search::default(), Instant::ZERO);
        for window in windows {
            now = now + Duration::from_secs(1).scale(window.seconds);
            search.close(now, &window, BOUNDS);
        }
        search
    }

    #[test]
    fn a_group_that_was_not_full_at_first_after_all_has_not_begun_full() {
        let mut search = Search {
            stage: SearchState::Confirming,
            limit: 4.0,
            per_sec: 200.0,
            before: 0.02,
            began_full: true,
            ..Search::default()
        };
        search.close(Instant::ZERO + Duration::from_secs(1), &CALM, BOUNDS);
        assert_eq!(search.stage(), SearchState::Open, "answers took as long as before");
        assert!(!search.began_full);
    }

    /// A probe with so many answers in 0.4 s, while so many came, of a group that had 33 a second.
    fn probed_when_warm(answers: u32, asked: f64) -> Search {
        let mut search = Search {
            stage: SearchState::Confirming,
            limit: 8.0,
            per_sec: 33.0,
            before: 1.5,
            began_full: true,
            ..Search::default()
        };
        let probe = Window { seconds: 0.4, answers, asked, awaiting: 4.0, ..CALM };
        search.close(Instant::ZERO + Duration::from_secs(1), &probe, BOUNDS);
        search
    }

    #[test]
    fn a_service_that_was_cold_is_not_measured_by_its_rate_of_then() {
        let mut search = probed_when_warm(24, 40.0);
        assert_eq!(search.allowed(BOUNDS), 2, "{search:?}");
        // 40 a second are more than the 33 of then, and fewer than the 60 of now.
        let fewer = Window { seconds: 0.4, answers: 16, asked: 40.0, awaiting: 2.0, ..CALM };
        let now = Instant::ZERO + Duration::from_secs(2);
        search.close(now, &fewer, Bounds { floor: 1, ..BOUNDS });
        assert_eq!(search.stage(), SearchState::Limiting, "{search:?}");
        assert!(search.allowed(BOUNDS) >= 6, "{search:?}");
    }

    #[test]
    fn a_service_that_was_cold_has_no_limit_once_it_answers_all_that_comes() {
        let search = probed_when_warm(24, 20.0);
        assert_eq!(search.stage(), SearchState::Open, "{search:?}");
    }

    #[test]
    fn slow_answers_alone_are_no_evidence() {
        let slow = Window { log_latency: 27.0, awaiting: 11.0, ..CALM };
        let search = seen([CALM; 20].into_iter().chain([slow; 200]));
        assert_eq!(search.stage(), SearchState::Open);
    }

    #[test]
    fn requests_that_come_without_being_answered_alone_are_no_evidence() {
        let polled = Window { asked: 40.0, ..CALM };
        let search = seen([CALM; 20].into_iter().chain([polled; 200]));
        assert_eq!(search.stage(), SearchState::Open);
    }

    #[test]
    fn both_are_but_not_while_the_servers_pause() {
        let full = Window { awaiting_now: 30.0, ..FULL };
        let confirms = |windows: usize| {
            let then = core::iter::repeat_n(full, windows);
            seen([CALM; 20].into_iter().chain(then)).stage() == SearchState::Confirming
        };
        assert!((2..=5).any(confirms), "within half a second");
        let pause = Window { seconds: 0.4, ..full };
        let search = seen([CALM; 20].into_iter().chain([pause; 5]));
        assert!(!search.stage().refuses(), "{search:?}");
    }

    #[test]
    fn responses_that_wait_for_the_edge_itself_are_no_evidence() {
        let confirms = |lag: f64| {
            let full = Window { awaiting_now: 30.0, lag, ..FULL };
            let after = |windows| seen([CALM; 20].into_iter().chain(vec![full; windows]));
            (2..=50).any(|windows| after(windows).stage().refuses())
        };
        assert!(confirms(0.02), "134 ms are the servers' own");
        assert!(!confirms(0.05));
        let full = Window { awaiting_now: 30.0, ..FULL };
        let lagging = Window { lag: 0.05, ..full };
        let search = seen([CALM; 20].into_iter().chain([full, full, lagging, full, full]));
        assert!(!search.stage().refuses(), "what came before counts no more");
    }

    #[test]
    fn as_many_in_flight_as_before_are_evidence_where_no_server_takes_a_connection_more() {
        let confirms = |was_crowded: bool, windows: usize| {
            let many = Window { awaiting: 100.0, awaiting_now: 100.0, ..CALM };
            let full = Window { awaiting_now: 100.0, was_crowded, ..FULL };
            let windows = [many; 20].into_iter().chain(core::iter::repeat_n(full, windows));
            seen(windows).stage() == SearchState::Confirming
        };
        assert!((2..=5).any(|windows| confirms(true, windows)), "within half a second");
        assert!(!(2..=50).any(|windows| confirms(false, windows)), "they may be the same users");
    }

    #[test]
    fn what_is_held_back_is_let_in_after_a_second_or_two_without_proof() {
        let more = Window { asked: 22.0, awaiting_now: 30.0, held: 10.0, ..FULL };
        let many = Window { awaiting_now: 100.0, ..CALM };
        let allowed = |windows: usize| {
            let search = seen([many; 20].into_iter().chain(core::iter::repeat_n(more, windows)));
            assert!(!search.stage().refuses(), "{search:?}");
            search.allowed(Bounds { floor: 2, ceiling: 10_000 })
        };
        let (at_first, later) = (allowed(4), allowed(16));
        assert!(at_first < 50, "{at_first}");
        assert!((3 * at_first..5 * at_first).contains(&later), "{at_first}, then {later}");
    }

    #[test]
    fn a_pause_says_neither_how_long_responses_take_nor_how_many_there_are_a_second() {
        let pause = Window { seconds: 3.0, log_latency: 31.0, awaiting: 600.0, ..CALM };
        let release = Window { seconds: 0.01, answers: 600, asked: 600.0, ..FULL };
        let before = seen([CALM; 200]);
        let after = seen([CALM; 200].into_iter().chain([pause, release]));
        let ratio = after.service_time / before.service_time;
        assert!((0.9..1.1).contains(&ratio), "{ratio} times as long");
        let ratio = after.usual_per_sec / before.usual_per_sec;
        assert!((0.5..3.0).contains(&ratio), "{ratio} times as many");
    }
}
