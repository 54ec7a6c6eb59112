//! The report of httperf 0.9.0: its labels and digits.
//!
//! What is left out is what is not measured: the echo of the command line, the connect burst
//! length, the request size. Of what stands here,
//!
//! - the connection time is the response time of the requests answered ok, from the planned
//!   instant; httperf counts from its connect, and is silent on how late that was;
//! - the test ends with the last response: with httperf, one that times out lengthens the test and
//!   lowers every rate;
//! - concurrent connections are the most requests in flight at once (of several agents the sum, an
//!   upper bound), and at least the users of a closed loop, or 1;
//! - the framing of chunks and trailers count to the content;
//! - the CPU time is this process's, from its start.

use std::fmt::Write as _;

use loadline_core::time::Duration;
use loadline_linux::proc;
use loadline_measure::{
    record::{LoadModel, LoadRecord, Moment, Outcomes},
    statistics::sample,
};

/// CPU time of the generator in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CpuTime {
    user: f64,
    system: f64,
}

impl CpuTime {
    /// Of this process until now; zero where the system does not say.
    pub(super) fn of_this_process() -> Self {
        let stat = proc::text("/proc/self/stat").and_then(|text| proc::stat(&text));
        let seconds = |ticks| proc::ticks(ticks).as_secs_f64();
        stat.map_or_else(Self::default, |stat| Self {
            user: seconds(stat.user),
            system: seconds(stat.system),
        })
    }
}

/// Its lines, with their ends.
pub(super) fn write(record: &LoadRecord, cpu: CpuTime) -> String {
    let mut text = String::new();
    connections(&mut text, record);
    requests_and_replies(&mut text, record);
    costs(&mut text, record, cpu);
    errors(&mut text, record);
    text
}

fn connections(text: &mut String, record: &LoadRecord) {
    let (requests, replies) = (requests(record), replies(record));
    let (seconds, opened) = (record.elapsed.as_secs_f64(), record.connections);
    line(
        text,
        format_args!(
            "Total: connections {opened} requests {requests} replies {replies} \
             test-duration {seconds:.3} s\n"
        ),
    );
    let rate = over(opened as f64, seconds);
    let least = match record.model {
        LoadModel::Closed { users, .. } => u64::from(users),
        LoadModel::Open { .. } => 1,
    };
    let most = record.moments.iter().map(Moment::most_in_flight).max();
    let concurrent = most.unwrap_or(0).max(least);
    line(
        text,
        format_args!(
            "Connection rate: {rate:.1} conn/s ({:.1} ms/conn, <={concurrent} concurrent \
             connections)",
            over(1e3, rate)
        ),
    );
    let times = &record.response;
    let [min, mean, max, p50, stddev] =
        [times.min, times.mean, times.max, times.p50, times.stddev].map(Duration::as_millis_f64);
    line(
        text,
        format_args!(
            "Connection time [ms]: min {min:.1} avg {mean:.1} max {max:.1} median {p50:.1} \
             stddev {stddev:.1}"
        ),
    );
    let connect = record.phases.connect.mean.as_millis_f64();
    line(text, format_args!("Connection time [ms]: connect {connect:.1}"));
    let length = over(replies as f64, opened as f64);
    line(text, format_args!("Connection length [replies/conn]: {length:.3}\n"));
}

fn requests_and_replies(text: &mut String, record: &LoadRecord) {
    let rate = over(requests(record) as f64, record.elapsed.as_secs_f64());
    line(text, format_args!("Request rate: {rate:.1} req/s ({:.1} ms/req)\n", over(1e3, rate)));
    let Sampled { min, mean, max, stddev, count } = sampled(record.moments_until_end());
    line(
        text,
        format_args!(
            "Reply rate [replies/s]: min {min:.1} avg {mean:.1} max {max:.1} \
             stddev {stddev:.1} ({count} samples)"
        ),
    );
    let response = record.phases.first_byte.mean.as_millis_f64();
    let transfer = record.phases.body.mean.as_millis_f64();
    line(text, format_args!("Reply time [ms]: response {response:.1} transfer {transfer:.1}"));
    let of_each = |bytes: u64| over(bytes as f64, replies(record) as f64);
    let (header, total) = (of_each(record.head_bytes), of_each(record.bytes_read));
    let content = of_each(record.bytes_read - record.head_bytes);
    line(
        text,
        format_args!(
            "Reply size [B]: header {header:.1} content {content:.1} footer 0.0 (total {total:.1})"
        ),
    );
    let of = |hundred: u16| -> u64 {
        let within = record.statuses.range(hundred * 100..(hundred + 1) * 100);
        within.map(|(_, count)| count).sum()
    };
    line(
        text,
        format_args!(
            "Reply status: 1xx={} 2xx={} 3xx={} 4xx={} 5xx={}\n",
            of(1),
            of(2),
            of(3),
            of(4),
            of(5)
        ),
    );
}

fn costs(text: &mut String, record: &LoadRecord, cpu: CpuTime) {
    let seconds = record.elapsed.as_secs_f64();
    let share = |time| 100.0 * over(time, seconds);
    let CpuTime { user, system } = cpu;
    line(
        text,
        format_args!(
            "CPU time [s]: user {user:.2} system {system:.2} \
             (user {:.1}% system {:.1}% total {:.1}%)",
            share(user),
            share(system),
            share(user + system)
        ),
    );
    let bytes = over(record.bytes_read as f64, seconds);
    let (kilobytes, megabits) = (bytes / 1_024.0, bytes * 8.0 / 1e6);
    line(text, format_args!("Net I/O: {kilobytes:.1} KB/s ({megabits:.1}*10^6 bps)\n"));
}

/// A response with any status is no error here, as with httperf.
fn errors(text: &mut String, record: &LoadRecord) {
    let outcomes = record.outcomes;
    let timed_out = outcomes.timeout + outcomes.connect_timeout;
    let other = outcomes.bad_answer + outcomes.cut_off;
    let (refused, reset) = (outcomes.connect_refused, outcomes.reset);
    let total = timed_out + refused + reset + outcomes.dropped + other;
    line(
        text,
        format_args!(
            "Errors: total {total} client-timo {timed_out} socket-timo 0 connrefused {refused} \
             connreset {reset}"
        ),
    );
    line(
        text,
        format_args!(
            "Errors: fd-unavail {} addrunavail 0 ftab-full 0 other {other}",
            outcomes.dropped
        ),
    );
}

/// Requests that went out.
fn requests(record: &LoadRecord) -> u64 {
    record.outcomes.total() - record.outcomes.dropped
}

/// Requests that were answered, whatever the status.
fn replies(record: &LoadRecord) -> u64 {
    answered(&record.outcomes)
}

fn answered(outcomes: &Outcomes) -> u64 {
    outcomes.ok + outcomes.client_error + outcomes.server_error
}

/// Replies per second over spans of five seconds.
#[derive(Default)]
struct Sampled {
    min: f64,
    mean: f64,
    max: f64,
    stddev: f64,
    count: usize,
}

fn sampled(moments: &[Moment]) -> Sampled {
    let mut rates = Vec::new();
    let (mut began, mut replies) = (0.0, 0);
    for moment in moments {
        replies += answered(&moment.outcomes);
        let at = moment.at.as_secs_f64();
        if at - began >= SAMPLE_SECONDS - SAMPLE_SLACK {
            rates.push(replies as f64 / (at - began));
            (began, replies) = (at, 0);
        }
    }
    if rates.is_empty() {
        return Sampled::default();
    }
    let count = rates.len();
    Sampled {
        min: rates.iter().copied().fold(f64::INFINITY, f64::min),
        mean: sample::mean(&rates),
        max: rates.iter().copied().fold(0.0, f64::max),
        stddev: over(sample::squares(&rates), count as f64 - 1.0).sqrt(),
        count,
    }
}

/// A quotient; zero where there is nothing to divide by.
fn over(amount: f64, by: f64) -> f64 {
    if by > 0.0 { amount / by } else { 0.0 }
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    writeln!(text, "{words}").expect("writing to a string cannot fail");
}

/// httperf samples the reply rate this often.
const SAMPLE_SECONDS: f64 = 5.0;

/// A moment may be taken a little early.
const SAMPLE_SLACK: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_measure::record::{Latency, Phases};

    /// What httperf 0.9.0 itself printed of 500 requests at 250/s, less what is left out; the
    /// requests' own bytes are not in the net I/O.
    const CAPTURED: &str = "\
Total: connections 500 requests 500 replies 500 test-duration 1.997 s

Connection rate: 250.4 conn/s (4.0 ms/conn, <=3 concurrent connections)
Connection time [ms]: min 0.1 avg 1.3 max 10.2 median 0.5 stddev 1.9
Connection time [ms]: connect 0.0
Connection length [replies/conn]: 1.000

Request rate: 250.4 req/s (4.0 ms/req)

Reply rate [replies/s]: min 0.0 avg 0.0 max 0.0 stddev 0.0 (0 samples)
Reply time [ms]: response 1.2 transfer 0.0
Reply size [B]: header 241.0 content 18914.0 footer 0.0 (total 19155.0)
Reply status: 1xx=0 2xx=500 3xx=0 4xx=0 5xx=0

CPU time [s]: user 0.47 system 0.99 (user 23.5% system 49.6% total 73.1%)
Net I/O: 4683.5 KB/s (38.4*10^6 bps)

Errors: total 0 client-timo 0 socket-timo 0 connrefused 0 connreset 0
Errors: fd-unavail 0 addrunavail 0 ftab-full 0 other 0
";

    fn times(micros: [u64; 5]) -> Latency {
        let [min, mean, max, p50, stddev] = micros.map(Duration::from_micros);
        Latency { count: 500, min, mean, max, p50, stddev, ..Latency::default() }
    }

    #[test]
    fn the_lines_are_those_of_httperf() {
        let record = LoadRecord {
            elapsed: Duration::from_millis(1_997),
            planned: 500,
            outcomes: Outcomes { ok: 500, ..Outcomes::default() },
            connections: 500,
            bytes_read: 500 * (241 + 18_914),
            head_bytes: 500 * 241,
            response: times([100, 1_300, 10_200, 500, 1_900]),
            phases: Phases { first_byte: times([0, 1_200, 0, 0, 0]), ..Phases::default() },
            statuses: [(200, 500)].into(),
            moments: vec![Moment { most_in_flight: Some(3), ..Moment::default() }],
            ..LoadRecord::default()
        };
        let cpu = CpuTime { user: 0.47, system: 0.99 };
        assert_eq!(write(&record, cpu), CAPTURED);
    }

    /// httperf says 15.2 conn/s of the same run, since it waits for the last time-out.
    #[test]
    fn time_outs_do_not_lower_the_rate() {
        let record = LoadRecord {
            elapsed: Duration::from_millis(967),
            planned: 30,
            connections: 30,
            outcomes: Outcomes { timeout: 30, ..Outcomes::default() },
            ..LoadRecord::default()
        };
        let text = write(&record, CpuTime::default());
        assert!(text.contains("Connection rate: 31.0 conn/s (32.2 ms/conn"), "{text}");
        assert!(text.contains("Errors: total 30 client-timo 30 socket-timo 0"), "{text}");
    }

    #[test]
    fn connections_are_concurrent_also_between_two_moments() {
        let model = LoadModel::Closed { users: 5, think: Duration::ZERO };
        let moments = vec![Moment { in_flight: 0, ..Moment::default() }];
        let record = LoadRecord { model, moments, ..LoadRecord::default() };
        let text = write(&record, CpuTime::default());
        assert!(text.contains("<=5 concurrent connections"), "{text}");
    }

    #[test]
    fn the_reply_rate_is_sampled_every_five_seconds() {
        let moment = |at, ok| Moment {
            at: Duration::from_secs(at),
            outcomes: Outcomes { ok, ..Outcomes::default() },
            ..Moment::default()
        };
        let mut moments: Vec<_> = (1..=5).map(|at| moment(at, 10)).collect();
        moments.extend((6..=12).map(|at| moment(at, 20)));
        // What times out after the plan lengthens no run, and has no samples without replies.
        moments.extend((13..=40).map(|at| moment(at, 0)));
        let elapsed = Duration::from_secs(12);
        let record = LoadRecord { elapsed, moments, ..LoadRecord::default() };
        let text = write(&record, CpuTime::default());
        let expected = "min 10.0 avg 15.0 max 20.0 stddev 7.1 (2 samples)";
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}
