//! The final statistics of siege 4.0.7: its labels, tabs and digits.
//!
//! The figures are right where siege's own are not:
//!
//! - a transaction is a request answered ok, so a response 403 does not count as available;
//! - the elapsed time ends with the last response, so that waiting for time-outs lowers no rate;
//! - times are measured to the nanosecond and rounded once; siege adds up hundredths.
//!
//! As with siege a MB is 2^20 bytes of bodies, without heads, and the concurrency is the sum of the
//! response times of successful requests over the elapsed time: by Little's law the mean number
//! under way. A request that an interrupt cut off neither failed nor succeeded, as with siege.

use std::fmt::Write as _;

use loadline_measure::record::LoadRecord;

/// Its lines, with their ends; the last holds one space.
pub(super) fn write(record: &LoadRecord) -> String {
    let outcomes = record.outcomes;
    let (ok, failed) = (outcomes.ok, outcomes.failed() - outcomes.cut_off);
    let elapsed = record.elapsed.as_secs_f64();
    let per_second = |amount: f64| if elapsed > 0.0 { amount / elapsed } else { 0.0 };
    let bodies = record.bytes_read - record.head_bytes;
    let megabytes = bodies as f64 / f64::from(1 << 20);
    let availability = 100.0 * ok as f64 / (ok + failed).max(1) as f64;
    let response = record.response.mean.as_secs_f64();
    let longest = record.response.max.as_secs_f64();
    let shortest = record.response.min.as_secs_f64();
    let lines = [
        ("Transactions:\t\t", whole(ok), " hits"),
        ("Availability:\t\t", decimal(availability), " %"),
        ("Elapsed time:\t\t", decimal(elapsed), " secs"),
        ("Data transferred:\t", decimal(megabytes), " MB"),
        ("Response time:\t\t", decimal(response), " secs"),
        ("Transaction rate:\t", decimal(per_second(ok as f64)), " trans/sec"),
        ("Throughput:\t\t", decimal(per_second(megabytes)), " MB/sec"),
        ("Concurrency:\t\t", decimal(per_second(response * record.response.count as f64)), ""),
        ("Successful transactions:", whole(ok), ""),
        ("Failed transactions:\t", whole(failed), ""),
        ("Longest transaction:\t", decimal(longest), ""),
        ("Shortest transaction:\t", decimal(shortest), ""),
    ];
    let mut text = String::new();
    for (label, figure, unit) in lines {
        writeln!(text, "{label}{figure}{unit}").expect("writing to a string cannot fail");
    }
    text + " \n"
}

fn whole(count: u64) -> String {
    format!("{count:>12}")
}

fn decimal(figure: f64) -> String {
    format!("{figure:>12.2}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_core::time::Duration;
    use loadline_measure::record::{Latency, Outcomes};

    /// What siege 4.0.7 itself printed of 80 requests of 4 users in 10 ms.
    const CAPTURED: &str = "\
Transactions:\t\t          80 hits
Availability:\t\t      100.00 %
Elapsed time:\t\t        0.01 secs
Data transferred:\t        1.44 MB
Response time:\t\t        0.00 secs
Transaction rate:\t     8000.00 trans/sec
Throughput:\t\t      144.30 MB/sec
Concurrency:\t\t        3.00
Successful transactions:          80
Failed transactions:\t           0
Longest transaction:\t        0.01
Shortest transaction:\t        0.00
 
";

    #[test]
    fn the_lines_are_those_of_siege_byte_by_byte() {
        let record = LoadRecord {
            elapsed: Duration::from_millis(10),
            planned: 80,
            outcomes: Outcomes { ok: 80, ..Outcomes::default() },
            bytes_read: 80 * (241 + 18_914),
            head_bytes: 80 * 241,
            response: Latency {
                count: 80,
                mean: Duration::from_micros(375),
                min: Duration::from_micros(120),
                max: Duration::from_millis(8),
                ..Latency::default()
            },
            ..LoadRecord::default()
        };
        assert_eq!(write(&record), CAPTURED);
    }

    #[test]
    fn refused_answers_are_failures_and_cut_off_ones_nothing() {
        let outcomes = Outcomes { ok: 1, client_error: 2, cut_off: 5, ..Outcomes::default() };
        let text = write(&LoadRecord { outcomes, ..LoadRecord::default() });
        assert!(text.contains("Availability:\t\t       33.33 %"), "{text}");
        assert!(text.contains("Failed transactions:\t           2"), "{text}");
    }

    #[test]
    fn a_run_without_an_answer_divides_by_nothing() {
        let text = write(&LoadRecord::default());
        assert!(text.contains("Transaction rate:\t        0.00 trans/sec"), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}
