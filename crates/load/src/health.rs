//! Whether the figures of a run can be trusted: did the generator do what was planned?
//!
//! A run is invalid where any of these holds. The thresholds are here and nowhere else.
//!
//! | sign | fault |
//! |---|---|
//! | share of the planned rate that went out, open loop | under 99 % |
//! | 99th percentile of the lag | over 5 ms and over 10 % of the response time's |
//! | CPU time of the generator's thread until the last send, if 0.2 s or more | over 0.95 of it |
//! | connections that found no free port, no free descriptor or no kernel memory | one |
//!
//! The share that went out: with `P` requests planned over the time `T` from the start to the last
//! planned instant, of which `S` were sent, the last `T'` after the start, it is
//! `S / P * T / max(T, T' - 5 ms)`. A generator that falls behind sends all in the end, but later
//! than planned; the second factor is its rate over the planned one. One that stood still and
//! caught up before the end sent them all in the plan's time, and requests that are all planned for
//! the start have no rate (the factor is 1): there the lag tells. What the user's own limit of
//! requests in flight dropped was not owed and counts on neither side, nor does what an interrupt
//! cut off before its send. In a closed loop nothing can be late but by the server, and the share
//! is 1.

use std::{cell::Cell, fmt};

use loadline_core::time::{Duration, Instant};
use loadline_measure::record::{Fault, Generator};

use loadline_linux::clock;

/// Signs of an overloaded generator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Signs {
    /// Whether requests went at planned instants.
    pub(crate) open: bool,
    /// Requests that should have gone out.
    pub(crate) owed: u64,
    /// Requests that went out.
    pub(crate) sent: u64,
    /// From the start to the last planned instant.
    pub(crate) planned_for: Duration,
    /// From the start to the last send.
    pub(crate) sent_for: Duration,
    /// CPU time of the generator's thread over the time it took; none where that was too short.
    pub(crate) cpu_share: Option<f64>,
    /// 99th percentile of the lag.
    pub(crate) lag: Duration,
    /// 99th percentile of the response time; zero where no request was successful.
    pub(crate) response: Duration,
    /// Connections that found no free port.
    pub(crate) no_port: u64,
    /// Connections that found no free descriptor.
    pub(crate) no_descriptor: u64,
    /// Connections for which the kernel had no memory.
    pub(crate) no_memory: u64,
}

/// How the generator did, with what makes its run invalid.
pub(crate) fn judge(signs: &Signs) -> Generator {
    let rules = [slow_sender, late_sender, busy_sender, no_port, no_descriptor, no_memory];
    let faults = rules.iter().filter_map(|rule| rule(signs)).collect();
    let cpu_share = signs.cpu_share.unwrap_or_default();
    Generator { cpu_share, sent_share: sent_share(signs), faults }
}

/// Measures the CPU time of the calling thread.
pub(crate) struct Meter {
    begun: Instant,
    used: Duration,
    share: Cell<Option<Option<f64>>>,
}

impl Meter {
    /// Begins now.
    pub(crate) fn start() -> Self {
        Self { begun: clock::now(), used: clock::thread_time(), share: Cell::new(None) }
    }

    /// Ends it: what is waited for after the last send tells nothing about the sending. Only the
    /// first call counts.
    pub(crate) fn stop(&self) {
        if self.share.get().is_some() {
            return;
        }
        let took = clock::now().since(self.begun);
        let used = clock::thread_time().saturating_sub(self.used);
        let share = (took >= SHORTEST).then(|| used.as_secs_f64() / took.as_secs_f64());
        self.share.set(Some(share));
    }

    /// CPU time over time from start to stop; none in a run too short to tell.
    pub(crate) fn share(&self) -> Option<f64> {
        self.stop();
        self.share.get().flatten()
    }
}

/// The share of the planned rate that went out, 0 to 1.
fn sent_share(signs: &Signs) -> f64 {
    if !signs.open || signs.owed == 0 {
        return 1.0;
    }
    let planned_for = signs.planned_for.as_secs_f64();
    let sent_for = signs.sent_for.saturating_sub(LAG_ALLOWED).as_secs_f64();
    let is_behind = planned_for > 0.0 && sent_for > planned_for;
    let pace = if is_behind { planned_for / sent_for } else { 1.0 };
    signs.sent as f64 / signs.owed as f64 * pace
}

fn slow_sender(signs: &Signs) -> Option<Fault> {
    let share = sent_share(signs);
    (share < SENT_WANTED).then(|| Fault {
        what: format!("only {:.1} % of the planned rate went out", share * 100.0),
        advice: "ask for a lower rate, or share it between several generators".to_owned(),
    })
}

fn late_sender(signs: &Signs) -> Option<Fault> {
    let allowed = LAG_ALLOWED.max(signs.response.scale(LAG_SHARE_ALLOWED));
    (signs.lag > allowed).then(|| Fault {
        what: format!(
            "requests went out late: the lag's p99 is {}, over the {} that the response times bear",
            Millis(signs.lag),
            Millis(allowed),
        ),
        advice: "give the generator a core or a machine of its own, or ask for a lower rate"
            .to_owned(),
    })
}

fn busy_sender(signs: &Signs) -> Option<Fault> {
    let share = signs.cpu_share.filter(|share| *share > CPU_ALLOWED)?;
    Some(Fault {
        what: format!("the generator was out of CPU: it used {:.0} % of its core", share * 100.0),
        advice: "ask for a lower rate or fewer users, or share them between several generators"
            .to_owned(),
    })
}

fn no_port(signs: &Signs) -> Option<Fault> {
    (signs.no_port > 0).then(|| Fault {
        what: format!("{} connections found no free local port", signs.no_port),
        advice: "keep connections, add source addresses (--source-address), or widen \
                 net.ipv4.ip_local_port_range"
            .to_owned(),
    })
}

fn no_descriptor(signs: &Signs) -> Option<Fault> {
    (signs.no_descriptor > 0).then(|| Fault {
        what: format!("{} connections found no free descriptor", signs.no_descriptor),
        advice: "raise the hard limit of open files (ulimit -Hn), or bound what is under way \
                 (--max-in-flight, fewer --users)"
            .to_owned(),
    })
}

fn no_memory(signs: &Signs) -> Option<Fault> {
    (signs.no_memory > 0).then(|| Fault {
        what: format!("the kernel had no memory for {} connections", signs.no_memory),
        advice: "bound what is under way (--max-in-flight, fewer --users), or raise \
                 net.ipv4.tcp_mem"
            .to_owned(),
    })
}

/// A duration as a reader of latencies wants it.
struct Millis(Duration);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} ms", self.0.as_millis_f64())
    }
}

/// As nighthawk's documentation has its send rate.
const SENT_WANTED: f64 = 0.99;

/// A lag that disturbs no figure that people compare: five times the scheduler's usual slice.
const LAG_ALLOWED: Duration = Duration::from_millis(5);

/// Or one that changes the response time by less than its own spread from run to run.
const LAG_SHARE_ALLOWED: f64 = 0.1;

/// Above this requests wait for the generator more often than for the server.
const CPU_ALLOWED: f64 = 0.95;

/// A shorter run is busy with opening its connections.
const SHORTEST: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A generator that did all that was asked, in ten seconds at 1,000 per second.
    fn well() -> Signs {
        Signs {
            open: true,
            owed: 10_000,
            sent: 10_000,
            planned_for: ms(9_999),
            sent_for: ms(10_000),
            cpu_share: Some(0.4),
            lag: ms(1),
            response: ms(20),
            ..Signs::default()
        }
    }

    #[test]
    fn a_generator_that_did_as_planned_has_no_fault() {
        let judged = judge(&well());
        assert_eq!(judged, Generator { cpu_share: 0.4, sent_share: 1.0, faults: Vec::new() });
        assert!(judge(&Signs::default()).faults.is_empty(), "nothing planned, nothing wrong");
    }

    #[test]
    fn each_sign_past_its_threshold_is_a_fault_and_none_before_it() {
        let signs = |change: fn(&mut Signs)| {
            let mut signs = well();
            change(&mut signs);
            judge(&signs).faults
        };
        assert!(signs(|s| s.sent_for = ms(10_100)).is_empty(), "99.1 % of the rate");
        assert!(signs(|s| s.sent = 9_900).is_empty());
        assert!(signs(|s| s.lag = ms(5)).is_empty());
        assert!(signs(|s| (s.lag, s.response) = (ms(49), ms(490))).is_empty());
        assert!(signs(|s| s.cpu_share = Some(0.95)).is_empty());
        for (faults, parts) in [
            (signs(|s| s.sent_for = ms(10_200)), ["98.1 % of the planned rate", "lower rate"]),
            (signs(|s| s.sent = 9_800), ["98.0 % of the planned rate", "generators"]),
            (signs(|s| s.lag = ms(6)), ["p99 is 6.0 ms, over the 5.0 ms", "core"]),
            (
                signs(|s| (s.lag, s.response) = (ms(51), ms(500))),
                ["51.0 ms, over the 50.0 ms", "core"],
            ),
            (signs(|s| s.cpu_share = Some(0.97)), ["97 % of its core", "fewer users"]),
            (signs(|s| s.no_port = 3), ["3 connections found no free local port", "range"]),
            (signs(|s| s.no_descriptor = 7), ["7 connections", "ulimit"]),
            (signs(|s| s.no_memory = 1), ["no memory for 1", "--max-in-flight"]),
        ] {
            assert_eq!(faults.len(), 1, "{faults:?}");
            assert!(faults[0].what.contains(parts[0]), "{faults:?}");
            assert!(faults[0].advice.contains(parts[1]), "{faults:?}");
        }
    }

    #[test]
    fn a_closed_loop_owes_nothing_to_a_plan() {
        let closed = Signs { open: false, sent: 1, sent_for: ms(90_000), ..well() };
        assert_eq!(judge(&closed), Generator { cpu_share: 0.4, ..judge(&well()) });
    }

    #[test]
    fn a_short_run_is_not_late_for_a_wake_of_a_millisecond() {
        let short = Signs { owed: 2, sent: 2, planned_for: ms(10), sent_for: ms(12), ..well() };
        assert_eq!(judge(&short).sent_share, 1.0);
    }

    #[test]
    fn requests_that_are_all_planned_for_the_start_have_no_rate_to_fall_behind() {
        let burst = Signs { owed: 300, sent: 300, planned_for: ms(0), sent_for: ms(9), ..well() };
        assert_eq!(judge(&burst), judge(&well()));
        assert!(!judge(&Signs { lag: ms(6), ..burst }).faults.is_empty());
        assert_eq!(judge(&Signs { sent: 150, ..burst }).sent_share, 0.5);
    }

    #[test]
    fn a_thread_that_works_all_the_time_uses_its_core_and_one_that_sleeps_does_not() {
        let meter = Meter::start();
        std::thread::sleep(std::time::Duration::from_millis(250));
        let asleep = meter.share().unwrap();
        assert!(asleep < 0.5, "{asleep}");
        let until = clock::now() + ms(250);
        while clock::now() < until {}
        assert_eq!(meter.share(), Some(asleep), "the first stop counts");
        assert_eq!(Meter::start().share(), None, "too short to tell");
    }
}
