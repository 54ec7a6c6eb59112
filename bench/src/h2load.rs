//! One run of `h2load` over TLS and what it printed. It tells no percentiles.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::wrk::{Load, Outcome};

/// Runs it on one core against a port of loopback, with so many requests at a time on each
/// connection. Certificates are not checked.
pub(crate) fn run(
    load: &Load,
    streams: usize,
    core: usize,
    port: u16,
    seconds: u64,
) -> Result<Outcome> {
    let output = Command::new("setpriv")
        .args(["--pdeathsig", "TERM", "taskset", "-c", &core.to_string()])
        .args(["h2load", "-t1", &format!("-c{}", load.connections), &format!("-m{streams}")])
        .arg(format!("-D{seconds}"))
        .arg(format!("https://127.0.0.1:{port}{}", load.path))
        .output()
        .context("start h2load")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || !text.contains("Application protocol: h2\n") {
        bail!("h2load: {}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    parse(&text).with_context(|| format!("h2load printed what is not understood:\n{text}"))
}

fn parse(text: &str) -> Option<Outcome> {
    let counts = |line: &str| -> Option<Vec<u64>> {
        let rest = text.lines().find_map(|it| it.strip_prefix(line))?;
        rest.split(',').map(|part| part.split_whitespace().next()?.parse().ok()).collect()
    };
    let rate = text.lines().find_map(|it| it.strip_prefix("finished in "))?.split(' ').nth(1)?;
    let [_, _, done, _, failed, _, _] = *counts("requests: ")? else { return None };
    let [good, ..] = *counts("status codes: ")? else { return None };
    // Those that errored or timed out are among the failed; those that are under way at the end are
    // not done.
    let errors = failed + done.saturating_sub(good);
    Some(Outcome { requests: good, rate: rate.parse().ok()?, errors, ..Outcome::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(counts: &str, statuses: &str) -> String {
        format!(
            "finished in 1.01s, 37708.00 req/s, 4.57MB/s\nrequests: {counts}\n\
             status codes: {statuses}\ntraffic: 4.57MB (4789826) total\n"
        )
    }

    #[test]
    fn a_run_is_read_and_what_was_under_way_at_its_end_is_no_error() {
        let counts = "37708 total, 38028 started, 37708 done, 37708 succeeded, 0 failed, \
                      0 errored, 0 timeout";
        let outcome = parse(&printed(counts, "37708 2xx, 0 3xx, 0 4xx, 0 5xx")).unwrap();
        let expected = Outcome { requests: 37_708, rate: 37_708.0, ..Outcome::default() };
        assert_eq!(outcome, expected);
    }

    #[test]
    fn other_statuses_and_failures_are_errors_and_what_breaks_off_is_no_outcome() {
        let counts = "100 total, 100 started, 90 done, 90 succeeded, 10 failed, 10 errored, \
                      0 timeout";
        let outcome = parse(&printed(counts, "85 2xx, 0 3xx, 0 4xx, 5 5xx")).unwrap();
        assert_eq!((outcome.requests, outcome.errors), (85, 15));
        assert_eq!(parse("finished in 1.01s, 37708.00 req/s, 4.57MB/s\n"), None);
    }
}
