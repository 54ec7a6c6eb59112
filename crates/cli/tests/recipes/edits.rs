//! What somebody writes who follows the recipes: one thing of each kind.

/// One insertion. Those of one file stand together, in the order of the recipe.
pub(crate) struct Edit {
    pub(crate) file: &'static str,
    /// Text that the file holds once, behind which `text` goes; nothing for a new file.
    pub(crate) after: &'static str,
    pub(crate) text: &'static str,
}

/// A recipe as it is followed.
pub(crate) struct Recipe {
    /// Its heading.
    pub(crate) title: &'static str,
    /// Files that it may take.
    pub(crate) most: usize,
    pub(crate) edits: &'static [Edit],
}

pub(crate) const RECIPES: [Recipe; 6] = [
    Recipe { title: "A policy", most: 4, edits: POLICY },
    Recipe { title: "A key", most: 3, edits: KEY },
    Recipe { title: "A metric", most: 3, edits: METRIC },
    Recipe { title: "A command", most: 4, edits: COMMAND },
    Recipe { title: "A study", most: 3, edits: STUDY },
    Recipe { title: "A record field", most: 3, edits: RECORD_FIELD },
];

const fn edit(file: &'static str, after: &'static str, text: &'static str) -> Edit {
    Edit { file, after, text }
}

const POLICY_FILE: &str = "crates/core/src/decide/policy/mod.rs";

const POLICY: &[Edit] = &[
    edit(
        "crates/core/src/decide/policy/first.rs",
        "",
        r#"//! First: the first server in the order of the file that has room.

use crate::decide::{plan::ServerPlan, policy::About};

pub(super) const ABOUT: About = About {
    name: "first",
    meaning: "The first server in the order of the file that has room.",
    ..About::PLAIN
};

pub(super) fn choose(
    servers: &[ServerPlan],
    open: impl Fn(&ServerPlan) -> bool,
) -> Option<&ServerPlan> {
    servers.iter().find(|server| open(server))
}
"#,
    ),
    edit(POLICY_FILE, "pub(crate) mod draw;\n", "mod first;\n"),
    edit(POLICY_FILE, "    RoundRobin,\n    Random,\n", "    First,\n"),
    edit(POLICY_FILE, "        Self::RoundRobin,\n", "        Self::First,\n"),
    edit(
        POLICY_FILE,
        "            Self::RoundRobin => &round_robin::ABOUT,\n",
        "            Self::First => &first::ABOUT,\n",
    ),
    edit(POLICY_FILE, "    RoundRobin(round_robin::RoundRobin),\n", "    First,\n"),
    edit(POLICY_FILE, "        match kind {\n", "            PolicyKind::First => Self::First,\n"),
    edit(
        POLICY_FILE,
        "policy.choose(servers, &group.state.turn, open),\n",
        "            Self::First => first::choose(servers, open),\n",
    ),
    edit("README.md", "maglev, bounded-hash, managed", ", first"),
];

const KEY: &[Edit] = &[
    edit(
        "crates/control/src/file.rs",
        "    pub(crate) slow_start: Key<TimeOrOff>,\n",
        r#"    /// Time after which a request without a response goes to a second server too; 0s
    /// switches it off.
    #[schemars(extend("default" = "0s"))]
    pub(crate) hedge_delay: Key<TimeOrOff>,
"#,
    ),
    edit(
        "crates/core/src/fleet.rs",
        "    pub slow_start: Duration,\n",
        "    /// Time to a second attempt beside the first; zero switches it off.\n    \
         pub hedge_delay: Duration,\n",
    ),
    edit(
        "crates/core/src/fleet.rs",
        "            slow_start: Duration::ZERO,\n",
        "            hedge_delay: Duration::ZERO,\n",
    ),
    edit(
        "crates/control/src/assemble/service.rs",
        "    set(&given.slow_start, |time| &time.0.0, &mut service.slow_start);\n",
        "    set(&given.hedge_delay, |time| &time.0.0, &mut service.hedge_delay);\n",
    ),
];

const COUNTER_FILE: &str = "crates/core/src/state/counter.rs";

const METRIC: &[Edit] = &[
    edit(COUNTER_FILE, "    SessionsKept,\n    SessionsMoved,\n", "    ServerErrors,\n"),
    edit(COUNTER_FILE, "        Self::SessionsMoved,\n", "        Self::ServerErrors,\n"),
    edit(
        COUNTER_FILE,
        "    const fn about(self) -> About {\n        match self {\n",
        r#"            Self::ServerErrors => About {
                name: "server_errors",
                metric: Some("server_error_responses"),
                meaning: "Responses with a status of 500 or above",
            },
"#,
    ),
    edit(
        "crates/proxy/src/http/exchange.rs",
        "        cells.end(ending, record.status);\n",
        "        cells.add(ServiceCounter::ServerErrors, u64::from(record.status >= 500));\n",
    ),
];

const COMMANDS_FILE: &str = "crates/cli/src/commands/mod.rs";

const COMMAND: &[Edit] = &[
    edit(
        "crates/cli/src/commands/policies.rs",
        "",
        r#"//! `loadline policies`: list the balancing policies.

use std::{
    io::{Write, stdout},
    process::ExitCode,
};

use anyhow::Context;
use loadline_core::fleet::PolicyKind;

/// List the balancing policies with what each does
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> anyhow::Result<ExitCode> {
    for policy in PolicyKind::ALL {
        writeln!(stdout(), "{}: {}", policy.name(), policy.meaning()).context("printing")?;
    }
    Ok(ExitCode::SUCCESS)
}

const AFTER_HELP: &str = "\
Example:
  loadline policies";
"#,
    ),
    edit(COMMANDS_FILE, "mod plan;\n", "mod policies;\n"),
    edit(COMMANDS_FILE, "    Plan(plan::Args),\n", "    Policies(policies::Args),\n"),
    edit(
        COMMANDS_FILE,
        "            Self::Plan(args) => plan::run(&args),\n",
        "            Self::Policies(args) => policies::run(&args),\n",
    ),
    edit(
        "README.md",
        "CPU credits, fibre, replication |\n",
        "| `loadline policies` | the balancing policies and what each does |\n",
    ),
];

const STUDY: &[Edit] = &[
    edit(
        "studies/near.toml",
        "",
        r#"# A server ten milliseconds away.
title = "Ten milliseconds"
host = { client = {}, server = {} }
link = [{ between = ["client", "server"], rtt = "10ms" }]
program = [{ name = "web", host = "server", ready = { port = 80 }, run = [
    "{loadline}", "worker", "fixed", "--listen", "{server.address}:80"] }]
phase = [{ name = "ttfb", host = "client", run = [
    "{loadline}", "ttfb", "http://{server.address}/", "-n", "20", "--json"] }]
[[figure]]
name = "first_byte"
phase = "ttfb"
take = "targets.0.time.p50_ms"
unit = "ms"
at_least = 20
at_most = 25
"#,
    ),
    edit(
        "docs/lab.md",
        "what its router costs, and how exact rates and losses are |\n",
        "| near | a server ten milliseconds away |\n",
    ),
];

const RECORD_FIELD: &[Edit] = &[
    edit(
        "crates/measure/src/record/check.rs",
        "    /// Path of the file.\n    pub file: String,\n",
        "    /// Listeners in it; 0 where it is wrong.\n    #[serde(default)]\n    \
         pub listeners: u64,\n",
    ),
    edit(
        "crates/cli/src/commands/check.rs",
        "            file: args.file.display().to_string(),\n",
        "            listeners: loaded.as_ref().map_or(0, |it| it.fleet.listeners.len() as u64),\n",
    ),
];
