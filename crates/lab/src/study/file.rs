//! The study file as it is written: every key and its meaning. `docs/lab.md` tells them.
//!
//! These types know nothing of what keys mean together; `read` and `plan` do.

use std::collections::BTreeMap;

use loadline_spanned::{At, Named};
use serde::Deserialize;

use super::place::{ByRow, OneOrMore, Word};

/// A study.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct File {
    /// Title of the study.
    pub(crate) title: Option<At<String>>,
    /// Description; empty lines separate paragraphs.
    pub(crate) about: String,
    /// Source documents of the published figures.
    pub(crate) sources: Vec<String>,
    /// What `--quick` changes for the study as a whole.
    pub(crate) quick: Quick,
    /// Values of placeholders.
    pub(crate) values: Named<Word>,
    /// Limits beyond which a run is invalid.
    pub(crate) limits: Limits,
    /// Programs that have to be installed.
    pub(crate) tool: Named<ToolEntry>,
    /// Rows: variants of the study; one called `loadline` if there are none.
    pub(crate) row: Named<RowEntry>,
    /// Hosts: the machines of the lab.
    pub(crate) host: Named<HostEntry>,
    /// Links between hosts.
    pub(crate) link: Vec<At<LinkEntry>>,
    /// Files written to the folder of the run before anything starts.
    pub(crate) file: Vec<At<FileEntry>>,
    /// Commands run on the real machine before anything starts, such as making certificates.
    pub(crate) prepare: Vec<At<Prepare>>,
    /// Programs that run on hosts from the start.
    pub(crate) program: Vec<At<ProgramEntry>>,
    /// Phases, in the order in which they run.
    pub(crate) phase: Vec<At<PhaseEntry>>,
    /// Figures: how they are computed, and their targets.
    pub(crate) figure: Vec<At<FigureEntry>>,
    /// Consistency checks of published figures.
    pub(crate) check: Vec<At<CheckEntry>>,
    /// Plots of the report.
    pub(crate) plot: Vec<At<PlotEntry>>,
}

/// What `--quick` changes for the study as a whole.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Quick {
    /// Factor by which the study runs faster; `{speed}` is 1 without `--quick`.
    pub(crate) speed: Option<At<f64>>,
    /// Values that replace those of `values`.
    pub(crate) values: Named<Word>,
}

/// Limits beyond which a run is invalid: it is kept, but counts in no figure.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    /// Maximum lateness of the WAN router, 99th percentile over packets.
    pub(crate) lateness: Option<At<String>>,
    /// Maximum lateness of the WAN router, 90th percentile; `lateness` if only that is given.
    pub(crate) lateness_p90: Option<At<String>>,
    /// Maximum CPU steal during a run, as a share of the machine's CPU.
    pub(crate) steal: Option<At<String>>,
}

/// A program that has to be installed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ToolEntry {
    /// Command that prints the version; its first word is the program that has to be installed.
    pub(crate) version: Vec<String>,
    /// How to install it, for messages.
    pub(crate) install: Option<String>,
}

/// A variant of the study.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RowEntry {
    /// Title in the report.
    pub(crate) title: Option<String>,
    /// Peer: the tool of this row. The row is skipped unless `--peer` names it, and never judged.
    pub(crate) peer: Option<At<String>>,
    /// They replace those of the study.
    pub(crate) values: Named<Word>,
}

/// A host: a machine of the lab.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HostEntry {
    /// Region of the host, for readers only.
    pub(crate) region: Option<String>,
    /// Address; one of 10.0.0.0/8 is chosen if omitted.
    pub(crate) address: Option<At<String>>,
    /// Further addresses. Several hosts may have the same one (anycast): packets go to the nearest.
    pub(crate) also: Vec<At<String>>,
    /// Address with prefix length on an Ethernet, which all hosts of that network share.
    pub(crate) ethernet: Option<At<String>>,
    /// Whether packets for the addresses in `also` are forwarded unchanged to the nearest other
    /// host that has them, as by a router.
    pub(crate) forwards: bool,
    /// Maximum number of cores that its programs use at a time.
    pub(crate) cores: Option<At<u32>>,
    /// CPU limit of its programs; 100% is one core.
    pub(crate) cpu: Option<At<String>>,
    /// TCP congestion control; cubic if omitted.
    pub(crate) congestion: Option<At<String>>,
    /// TCP initial congestion window, in segments.
    pub(crate) initial_window: Option<At<u32>>,
    /// Maximum TCP window that the host advertises.
    pub(crate) window: Option<At<String>>,
    /// Kernel settings (sysctl) of this host alone; names begin with `net.`.
    pub(crate) settings: BTreeMap<String, Word>,
    /// Bandwidth for sending.
    pub(crate) up: Option<At<String>>,
    /// Bandwidth for receiving.
    pub(crate) down: Option<At<String>>,
    /// Rows that have it; all if empty.
    pub(crate) rows: Vec<At<String>>,
}

/// A link between two hosts, the same in both directions.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LinkEntry {
    /// The two hosts, or a host and `*` for all others.
    pub(crate) between: Vec<At<String>>,
    /// Round-trip time; half of it in each direction.
    pub(crate) rtt: Option<At<String>>,
    /// Jitter: maximum additional delay in each direction.
    pub(crate) jitter: Option<At<String>>,
    /// Bandwidth in each direction.
    pub(crate) rate: Option<At<String>>,
    /// Queue before `rate`, beyond which packets are dropped.
    pub(crate) queue: Option<At<String>>,
    /// Share of packets that are lost.
    pub(crate) loss: Option<At<String>>,
    /// Share of packets that overtake others.
    pub(crate) reorder: Option<At<String>>,
    /// Rows that have it; all if empty.
    pub(crate) rows: Vec<At<String>>,
}

/// A file in the run's folder; `{file.NAME}` is its path.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FileEntry {
    pub(crate) name: Option<At<String>>,
    /// Content of the file, with placeholders filled in.
    pub(crate) text: Option<At<String>>,
    /// File to copy, relative to the folder of the study.
    pub(crate) from: Option<At<String>>,
    pub(crate) rows: Vec<At<String>>,
}

/// A command on the real machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Prepare {
    pub(crate) run: Option<At<Vec<At<Word>>>>,
    pub(crate) rows: Vec<At<String>>,
}

/// A program that runs on a host from the start.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProgramEntry {
    pub(crate) name: Option<At<String>>,
    pub(crate) host: Option<At<String>>,
    /// The command and its arguments.
    pub(crate) run: Option<At<Vec<At<Word>>>>,
    /// Condition on which it counts as started; at once if omitted.
    pub(crate) ready: Option<At<ReadyEntry>>,
    /// Whether only an action starts it.
    pub(crate) on_demand: bool,
    pub(crate) rows: Vec<At<String>>,
}

/// Condition on which a program counts as started.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReadyEntry {
    /// It listens on this TCP port.
    pub(crate) port: Option<At<Word>>,
    /// Its output has a line with this text.
    pub(crate) line: Option<At<String>>,
    /// Time after its start, and after the other conditions.
    pub(crate) after: Option<At<String>>,
    /// Timeout; 10s if omitted.
    pub(crate) within: Option<At<String>>,
}

/// A phase: it runs `repeat` times for every combination of `for`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PhaseEntry {
    pub(crate) name: Option<At<String>>,
    /// Host on which `run` runs.
    pub(crate) host: Option<At<String>>,
    /// The command that measures; a phase without one only acts.
    pub(crate) run: Option<At<Vec<At<Word>>>>,
    /// Variables and their values: the phase runs for each combination.
    #[serde(rename = "for")]
    pub(crate) sweep: Named<Vec<Word>>,
    /// Number of runs for each combination.
    pub(crate) repeat: Option<At<u32>>,
    /// Figures to take from an output that is not a record, by name: a regular expression with one
    /// group.
    pub(crate) measure: Named<String>,
    /// Commands that run in parallel; they are ended with `run`.
    pub(crate) beside: Vec<At<BesideEntry>>,
    /// Actions before `run`.
    pub(crate) before: Vec<At<ActionEntry>>,
    /// Actions during `run`, each at its time.
    pub(crate) during: Vec<At<ActionEntry>>,
    /// Actions after `run`.
    pub(crate) after: Vec<At<ActionEntry>>,
    /// Timeout of `run`; 10m if omitted.
    pub(crate) timeout: Option<At<String>>,
    /// They replace those of the study.
    pub(crate) limits: Limits,
    /// Tools that `run` needs besides the row's; without them it is skipped.
    pub(crate) needs: OneOrMore,
    pub(crate) rows: Vec<At<String>>,
    /// What `--quick` replaces.
    pub(crate) quick: PhaseQuick,
}

/// What `--quick` replaces in a phase.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PhaseQuick {
    #[serde(rename = "for")]
    pub(crate) sweep: Named<Vec<Word>>,
    pub(crate) repeat: Option<At<u32>>,
    pub(crate) skip: bool,
}

/// A command that runs beside a phase's own; its record is found under `NAME.` in `take`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BesideEntry {
    pub(crate) name: Option<At<String>>,
    pub(crate) host: Option<At<String>>,
    pub(crate) run: Option<At<Vec<At<Word>>>>,
    pub(crate) rows: Vec<At<String>>,
}

/// An action on the lab: exactly one of the keys below, besides `at` and details.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ActionEntry {
    /// Time from the start of `run`; for `during` only.
    pub(crate) at: Option<At<String>>,
    /// Starts programs.
    pub(crate) start: Option<At<OneOrMore>>,
    /// Ends programs with SIGTERM.
    pub(crate) stop: Option<At<OneOrMore>>,
    /// Ends programs with SIGKILL.
    pub(crate) kill: Option<At<OneOrMore>>,
    /// Ends and starts programs.
    pub(crate) restart: Option<At<OneOrMore>>,
    /// Sends a signal, for example HUP, to the programs in `to`.
    pub(crate) signal: Option<At<String>>,
    pub(crate) to: Option<At<OneOrMore>>,
    /// Cuts hosts off the network: no packet comes or goes.
    pub(crate) cut: Option<At<OneOrMore>>,
    /// Joins hosts that were cut off.
    pub(crate) join: Option<At<OneOrMore>>,
    /// Changes the link between two hosts to the keys beside this one.
    pub(crate) link: Option<At<Vec<At<String>>>>,
    pub(crate) rtt: Option<At<String>>,
    pub(crate) jitter: Option<At<String>>,
    pub(crate) rate: Option<At<String>>,
    pub(crate) queue: Option<At<String>>,
    pub(crate) loss: Option<At<String>>,
    pub(crate) reorder: Option<At<String>>,
    /// Waits for this time.
    pub(crate) wait: Option<At<String>>,
    /// Runs a command to its end, on the host `on`.
    pub(crate) run: Option<At<Vec<At<Word>>>>,
    pub(crate) on: Option<At<String>>,
    pub(crate) rows: Vec<At<String>>,
}

/// A figure: where it comes from, the published value, and the target.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FigureEntry {
    /// Name in formulas.
    pub(crate) name: Option<At<String>>,
    /// Title in the report.
    pub(crate) title: Option<String>,
    /// ms, s, /s, Mb/s, %, or anything else; times and rates are scaled by the speed.
    pub(crate) unit: String,
    /// Phase that it is taken from.
    pub(crate) phase: Option<At<String>>,
    /// The values of the phase's `for`.
    pub(crate) at: Named<Word>,
    /// Only the run of this number, counted from 1.
    pub(crate) run: Option<u32>,
    /// The path in the record: `response.mean_ms`, `targets.0.time.p50_ms`.
    pub(crate) take: Option<At<String>>,
    /// Aggregate of several runs: mean (if omitted), median, min, max, first, last, sum, count.
    pub(crate) of: Option<At<String>>,
    /// Variable of `for`: the figure is its first value at which the measurement reaches `reaches`.
    pub(crate) along: Option<At<String>>,
    /// Value to reach (see `along`): a number or a formula.
    pub(crate) reaches: Option<At<Word>>,
    /// A formula over other figures.
    pub(crate) compute: Option<At<String>>,
    /// Published value.
    pub(crate) published: Option<At<ByRow<f64>>>,
    /// Source of the published value: document and place in it.
    pub(crate) source: Option<String>,
    /// Target: maximum difference from the published value, such as `5%`.
    pub(crate) within: Option<At<String>>,
    /// Target: bound of the figure, a number or a formula.
    pub(crate) at_least: Option<At<Word>>,
    /// Target: bound of the figure, a number or a formula.
    pub(crate) at_most: Option<At<Word>>,
    /// Target: exactly this text.
    pub(crate) is: Option<At<String>>,
    /// Why it is not expected to be reproduced.
    pub(crate) not_reproduced: Option<String>,
    /// Why the simulator gives another value.
    pub(crate) simulation_differs: Option<String>,
    pub(crate) rows: Vec<At<String>>,
    /// What `--quick` replaces; an empty table judges nothing and leaves out the published value.
    pub(crate) quick: Option<Band>,
}

/// Target of a figure, as in [`FigureEntry`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Band {
    pub(crate) within: Option<At<String>>,
    pub(crate) at_least: Option<At<Word>>,
    pub(crate) at_most: Option<At<Word>>,
    pub(crate) is: Option<At<String>>,
}

/// Consistency checks of published figures.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CheckEntry {
    /// Title of the figure.
    pub(crate) title: Option<At<String>>,
    /// Formula over published figures: `80 / 14.45`.
    pub(crate) compute: Option<At<String>>,
    /// Value that the document prints.
    pub(crate) printed: Option<At<f64>>,
    pub(crate) unit: String,
    pub(crate) source: String,
    /// Conclusion.
    pub(crate) note: String,
}

/// A plot of the report.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PlotEntry {
    pub(crate) title: Option<At<String>>,
    /// `curve`, `bars`, `series`, `time` or `beside`.
    pub(crate) kind: Option<At<String>>,
    pub(crate) phase: Option<At<String>>,
    /// Variable of `for` on the x axis (curve), or by which bars are grouped.
    pub(crate) x: Option<At<String>>,
    pub(crate) x_title: Option<String>,
    /// Paths in the records, each drawn as a line.
    pub(crate) take: OneOrMore,
    pub(crate) unit: String,
    /// Names of figures to draw, published beside measured (beside).
    pub(crate) figures: Vec<At<String>>,
    /// Values of `for` that are shown; all if empty.
    pub(crate) at: BTreeMap<String, Word>,
    pub(crate) rows: Vec<At<String>>,
}
