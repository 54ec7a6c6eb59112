//! Studies without a lab: what is wrong with a file, what a plan holds, what figures are worth.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod errors;
mod figures;
mod plans;

use loadline_lab::study::{Mode, Study};
use loadline_spanned::FileErrors;

/// The smallest study that says something.
const SMALLEST: &str = r#"
title = "Ten milliseconds"

[host.client]
[host.server]

[[link]]
between = ["client", "server"]
rtt = "10ms"

[[program]]
name = "web"
host = "server"
run = ["{loadline}", "worker", "fixed", "--listen", "{server.address}:80"]
ready = { port = 80 }

[[phase]]
name = "first-byte"
host = "client"
for = { n = [10, 20] }
repeat = 2
run = ["{loadline}", "ttfb", "http://{server.address}/", "-n", "{n}", "--json"]

[[figure]]
name = "ttfb"
unit = "ms"
phase = "first-byte"
take = "targets.0.time.p50_ms"
at_least = 20
at_most = "1.5 * 20"
"#;

fn study(text: &str) -> Study {
    Study::parse("study.toml", text, Mode::Full).map_err(|errors| told(&errors)).unwrap()
}

fn told(errors: &FileErrors) -> String {
    let each = errors.errors().iter();
    each.map(|e| format!("{}: {} - {}\n", e.line(), e.message(), e.help_text())).collect()
}
