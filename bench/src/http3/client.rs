//! `loadline bench --http3`, and what it recorded.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::run::LOAD_CORE;
use crate::wrk::{Load, Outcome};

/// Runs it against a port of loopback, with so many requests at a time on each connection.
/// Certificates are not checked.
pub(crate) fn run(
    loadline: &Path,
    load: &Load,
    streams: usize,
    port: u16,
    seconds: u64,
) -> Result<Outcome> {
    let connections = load.connections;
    let output = command(loadline, port, load.path, (connections, connections * streams))
        .args(["--duration", &format!("{seconds}s")])
        .output()
        .context("start loadline bench")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "loadline bench: {}: {said}", output.status);
    let record = serde_json::from_slice(&output.stdout).context("read the record")?;
    read(&record).with_context(|| format!("loadline bench recorded what is not expected: {record}"))
}

/// The command of a closed loop, with so many connections and users.
pub(super) fn command(
    loadline: &Path,
    port: u16,
    path: &str,
    (connections, users): (usize, usize),
) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "TERM", "taskset", "-c", &LOAD_CORE.to_string()])
        .arg(loadline)
        .args(["bench", &format!("https://127.0.0.1:{port}{path}"), "--http3", "--insecure"])
        .args(["--server-name", "localhost", "--json", "--quiet"])
        .args(["--connections", &connections.to_string(), "--users", &users.to_string()]);
    command
}

fn read(record: &Value) -> Option<Outcome> {
    let requests = record["outcomes"]["ok"].as_u64()?;
    let time = |name: &str| {
        let ms = record["response"][name].as_f64()?;
        Duration::try_from_secs_f64(ms / 1e3).ok()
    };
    Some(Outcome {
        requests,
        rate: record["achieved_per_s"].as_f64()?,
        p50: time("p50_ms"),
        p99: time("p99_ms"),
        errors: record["planned"].as_u64()?.saturating_sub(requests),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_planned_and_not_answered_well_is_an_error() {
        let record = json!({
            "planned": 100,
            "outcomes": { "ok": 97, "reset": 3 },
            "achieved_per_s": 970.0,
            "response": { "p50_ms": 0.5, "p99_ms": 2.0 },
        });
        let expected = Outcome {
            requests: 97,
            rate: 970.0,
            p50: Some(Duration::from_micros(500)),
            p99: Some(Duration::from_millis(2)),
            errors: 3,
        };
        assert_eq!(read(&record), Some(expected));
        assert_eq!(read(&json!({})), None);
    }
}
