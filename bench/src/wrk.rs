//! One run of `wrk` and what it printed.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// What to ask for, and how.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// `http` or `https`; certificates are not checked.
    pub(crate) scheme: &'static str,
    pub(crate) connections: usize,
    pub(crate) path: &'static str,
    /// Besides `Host`. wrk drops a header that has no space behind its colon, without a word.
    pub(crate) headers: &'static [&'static str],
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// Answers received.
    pub(crate) requests: u64,
    /// Per second.
    pub(crate) rate: f64,
    /// Where the program tells it.
    pub(crate) p50: Option<Duration>,
    pub(crate) p99: Option<Duration>,
    /// Responses that are not 2xx or 3xx, and connections that failed.
    pub(crate) errors: u64,
}

impl Load {
    /// Runs wrk on one core against a port of loopback.
    pub(crate) fn run(&self, core: usize, port: u16, seconds: u64) -> Result<Outcome> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "taskset", "-c", &core.to_string()]);
        command.args(["wrk", "--latency", "-t1"]);
        command.args([format!("-c{}", self.connections), format!("-d{seconds}s")]);
        for header in self.headers {
            command.args(["-H", header]);
        }
        let output = command
            .arg(format!("{}://127.0.0.1:{port}{}", self.scheme, self.path))
            .output()
            .context("start wrk")?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            bail!("wrk: {}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr));
        }
        parse(&text).with_context(|| format!("wrk printed what is not understood:\n{text}"))
    }
}

fn parse(text: &str) -> Option<Outcome> {
    let mut outcome = Outcome::default();
    let mut complete = false;
    for line in text.lines().map(str::trim) {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        match first {
            "50%" => outcome.p50 = Some(duration(rest)?),
            "99%" => outcome.p99 = Some(duration(rest)?),
            "Socket" => outcome.errors += numbers(rest).sum::<u64>(),
            "Non-2xx" => outcome.errors += numbers(rest.rsplit_once(':')?.1).sum::<u64>(),
            "Requests/sec:" => {
                outcome.rate = rest.trim().parse().ok()?;
                complete = true;
            }
            _ if rest.starts_with("requests in ") => outcome.requests = first.parse().ok()?,
            _ => {}
        }
    }
    complete.then_some(outcome)
}

/// The whole numbers in a line like `errors: connect 0, read 3, write 0, timeout 1`.
fn numbers(text: &str) -> impl Iterator<Item = u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok())
}

/// A time as wrk prints it: `631.00us`, `1.32ms`, `2.00s`.
fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let value: f64 = text.strip_suffix(unit)?.parse().ok()?;
    let seconds = match unit {
        "us" => value / 1e6,
        "ms" => value / 1e3,
        "s" => value,
        "m" => value * 60.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\
Running 1s test @ http://127.0.0.1:8001/s
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   671.06us  143.02us   2.55ms   80.02%
    Req/Sec    95.48k     2.11k   98.70k    80.00%
  Latency Distribution
     50%  634.00us
     75%  705.00us
     90%  796.00us
     99%    1.09ms
  94991 requests in 1.00s, 22.29MB read
";

    #[test]
    fn a_run_without_errors_is_read() {
        let printed = format!("{PRINTED}Requests/sec:  94899.36\nTransfer/sec:     22.27MB\n");
        let outcome = parse(&printed).unwrap();
        let expected = Outcome {
            requests: 94_991,
            rate: 94_899.36,
            p50: Some(Duration::from_micros(634)),
            p99: Some(Duration::from_micros(1090)),
            errors: 0,
        };
        assert_eq!(outcome, expected);
    }

    #[test]
    fn errors_of_both_kinds_are_added() {
        let printed = format!(
            "{PRINTED}  Socket errors: connect 1, read 20, write 300, timeout 4000\n  \
             Non-2xx or 3xx responses: 50000\nRequests/sec:  94899.36\n"
        );
        assert_eq!(parse(&printed).unwrap().errors, 54_321);
    }

    #[test]
    fn what_breaks_off_is_not_an_outcome() {
        assert_eq!(parse(PRINTED), None);
        assert_eq!(parse(""), None);
    }
}
