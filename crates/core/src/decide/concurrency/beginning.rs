//! Whether a group is full from its first requests on, when no usual latency is known yet.
//!
//! Spans since traffic began, each as long as all before it, are compared. Of a group that is full
//! the latency grows with the time, since the queue does, and so do the requests in flight, while
//! the responses a second stay as many. Of a group that is not full either the responses become
//! more, as the slower ones begin to come, or the latency stays. After ten latencies the group was
//! not full: of one that gets 1.11 times as much as it can do, or more, the latency is a tenth of
//! the time and more for ever.

use super::Window;

/// Traffic since it began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beginning {
    before: Span,
    span: Span,
    /// Seconds since traffic began.
    age: f64,
    is_over: bool,
}

/// What came and was answered.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    seconds: f64,
    asked: f64,
    ended: f64,
    answers: f64,
    /// Base-2 logarithms of latencies, summed over the answers.
    logs: f64,
    /// Requests in flight at its end.
    in_flight: f64,
}

impl Beginning {
    /// Takes in a window at whose end so many are in flight. True where the group is full.
    pub(super) fn is_full(&mut self, window: &Window, in_flight: f64) -> bool {
        if self.is_over {
            return false;
        }
        self.age += window.seconds;
        self.span.add(window, in_flight);
        if self.span.seconds < SPAN_MIN.max(self.age / 2.0) {
            return false;
        }
        let (before, span) = (self.before, self.span);
        (self.before, self.span) = (span, Span::default());
        self.is_over = self.age >= LATENCIES * span.latency();
        !self.is_over && span.proves(&before)
    }
}

impl Span {
    fn add(&mut self, window: &Window, in_flight: f64) {
        let answers = f64::from(window.answers);
        self.seconds += window.seconds;
        self.asked += window.asked;
        self.ended += answers + f64::from(window.failures);
        self.answers += answers;
        self.logs += answers * window.log_latency;
        self.in_flight = in_flight;
    }

    fn per_sec(&self) -> f64 {
        self.answers / self.seconds
    }

    fn log_latency(&self) -> f64 {
        self.logs / self.answers
    }

    /// In seconds.
    fn latency(&self) -> f64 {
        libm::exp2(self.log_latency()) / 1e9
    }

    /// Whether it shows a queue, after the span before it.
    fn proves(&self, before: &Self) -> bool {
        let more = self.asked - self.ended;
        let ratio = self.per_sec() / before.per_sec();
        before.answers > 0.0
            && (PAUSE..=SAME).contains(&ratio)
            && self.log_latency() >= before.log_latency() + HALF_AS_MUCH_AGAIN
            && self.in_flight >= 1.5 * before.in_flight
            && more >= super::excess::sudden(self.per_sec())
            && more >= LEAST * self.ended
    }
}

/// Seconds of the shortest span.
const SPAN_MIN: f64 = 0.1;

/// After so many latencies a group that is not full is known.
const LATENCIES: f64 = 10.0;

/// Responses a second, as a part of those before: with fewer the servers pause.
const PAUSE: f64 = 0.85;

/// With more they do more.
const SAME: f64 = 1.1;

/// Half as much again, as a base-2 logarithm.
const HALF_AS_MUCH_AGAIN: f64 = 0.585;

/// What comes beyond what is answered, as a part of it.
const LEAST: f64 = 0.1;
