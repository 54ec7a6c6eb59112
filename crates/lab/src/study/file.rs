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
    /// What it is called, in a few words.
    pub(crate) title: Option<At<String>>,
    /// What it is about; empty lines part paragraphs.
    pub(crate) about: String,
    /// The documents that published it.
    pub(crate) sources: Vec<String>,
    /// What `--quick` changes for the study as a whole.
    pub(crate) quick: Quick,
    /// Texts for placeholders.
    pub(crate) values: Named<Word>,
    /// Beyond what a run is invalid.
    pub(crate) limits: Limits,
    /// Programs that have to be installed.
    pub(crate) tool: Named<ToolEntry>,
    /// Variants; one called `loadline` where there is none.
    pub(crate) row: Named<RowEntry>,
    /// Machines.
    pub(crate) host: Named<HostEntry>,
    /// What is between two of them.
    pub(crate) link: Vec<At<LinkEntry>>,
    /// Files written to the run's folder before anything starts.
    pub(crate) file: Vec<At<FileEntry>>,
    /// Commands run on the real machine before anything starts, such as making certificates.
    pub(crate) prepare: Vec<At<Prepare>>,
    /// What runs on hosts from the beginning.
    pub(crate) program: Vec<At<ProgramEntry>>,
    /// What is done, in this order.
    pub(crate) phase: Vec<At<PhaseEntry>>,
    /// What is taken from the measurements and what it is held against.
    pub(crate) figure: Vec<At<FigureEntry>>,
    /// Published figures held against each other.
    pub(crate) check: Vec<At<CheckEntry>>,
    /// Pictures of the report.
    pub(crate) plot: Vec<At<PlotEntry>>,
}

/// What `--quick` changes for the study as a whole.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Quick {
    /// So many times faster; `{speed}` is 1 without `--quick`.
    pub(crate) speed: Option<At<f64>>,
    /// Replace those of `values`.
    pub(crate) values: Named<Word>,
}

/// Beyond what a run is invalid: it is kept, and not averaged in.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    /// How late the router may be with 99 % of the packets.
    pub(crate) lateness: Option<At<String>>,
    /// How late it may be with 90 % of them; `lateness` if only that is given.
    pub(crate) lateness_p90: Option<At<String>>,
    /// The share of the machine's CPU that its host may take meanwhile.
    pub(crate) steal: Option<At<String>>,
}

/// A program that has to be installed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ToolEntry {
    /// The command that prints its version; its first word is looked for.
    pub(crate) version: Vec<String>,
    /// How it is installed.
    pub(crate) install: Option<String>,
}

/// A variant of the study.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RowEntry {
    /// What the report calls it.
    pub(crate) title: Option<String>,
    /// The tool it shows; it is left out unless `--peer` names it, and never judged.
    pub(crate) peer: Option<At<String>>,
    /// Replace those of the study.
    pub(crate) values: Named<Word>,
}

/// A machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HostEntry {
    /// Where it is; for reading only.
    pub(crate) region: Option<String>,
    /// Its address; one of 10.0.0.0/8 is chosen if omitted.
    pub(crate) address: Option<At<String>>,
    /// Further addresses, also ones that other hosts have: the nearest answers.
    pub(crate) also: Vec<At<String>>,
    /// Its address on an Ethernet with the length of the prefix; hosts of one network share one.
    pub(crate) ethernet: Option<At<String>>,
    /// Whether it sends what comes for the addresses in `also` on to the nearest other host that
    /// has them, unchanged, as a router does.
    pub(crate) forwards: bool,
    /// How many cores its programs may use at once.
    pub(crate) cores: Option<At<u32>>,
    /// How much processor time they may have, where 100% is one core.
    pub(crate) cpu: Option<At<String>>,
    /// The congestion control of its TCP; cubic if omitted.
    pub(crate) congestion: Option<String>,
    /// Segments that its TCP sends before the first acknowledgement.
    pub(crate) initial_window: Option<u32>,
    /// The largest window that its TCP advertises.
    pub(crate) window: Option<At<String>>,
    /// Settings of the kernel for this host alone; names begin with `net.`.
    pub(crate) settings: BTreeMap<String, Word>,
    /// What it can send.
    pub(crate) up: Option<At<String>>,
    /// What it can receive.
    pub(crate) down: Option<At<String>>,
    /// The rows it is in; all where empty.
    pub(crate) rows: Vec<At<String>>,
}

/// What is between two hosts. Directions are alike.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LinkEntry {
    /// The two hosts, or a host and `*` for all others.
    pub(crate) between: Vec<At<String>>,
    /// The round trip; half of it each way.
    pub(crate) rtt: Option<At<String>>,
    /// Each way up to so much longer.
    pub(crate) jitter: Option<At<String>>,
    /// Bits per second each way.
    pub(crate) rate: Option<At<String>>,
    /// What waits for the rate before more is dropped.
    pub(crate) queue: Option<At<String>>,
    /// The share of packets that is lost.
    pub(crate) loss: Option<At<String>>,
    /// The share of packets that overtakes others.
    pub(crate) reorder: Option<At<String>>,
    /// The rows it is in; all where empty.
    pub(crate) rows: Vec<At<String>>,
}

/// A file in the run's folder; `{file.NAME}` is its path.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FileEntry {
    pub(crate) name: Option<At<String>>,
    /// What it holds; placeholders are filled in.
    pub(crate) text: Option<At<String>>,
    /// The file it is a copy of, from the folder of the study.
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

/// What runs on a host from the beginning.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProgramEntry {
    pub(crate) name: Option<At<String>>,
    pub(crate) host: Option<At<String>>,
    /// The command and its arguments.
    pub(crate) run: Option<At<Vec<At<Word>>>>,
    /// When it counts as started; at once if omitted.
    pub(crate) ready: Option<At<ReadyEntry>>,
    /// Only an action starts it.
    pub(crate) on_demand: bool,
    pub(crate) rows: Vec<At<String>>,
}

/// When a program counts as started.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReadyEntry {
    /// It listens on this TCP port.
    pub(crate) port: Option<At<Word>>,
    /// Its output has a line with this text.
    pub(crate) line: Option<At<String>>,
    /// So long after its start, and after the others.
    pub(crate) after: Option<At<String>>,
    /// Given up after this; 10s if omitted.
    pub(crate) within: Option<At<String>>,
}

/// Something done, for every combination of `for`, so many times.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PhaseEntry {
    pub(crate) name: Option<At<String>>,
    /// Where `run` runs.
    pub(crate) host: Option<At<String>>,
    /// The command that measures; a phase without one only acts.
    pub(crate) run: Option<At<Vec<At<Word>>>>,
    /// Values that `run` is repeated for: the phase runs for each of them.
    #[serde(rename = "for")]
    pub(crate) sweep: Named<Vec<Word>>,
    /// How often it runs for each of them.
    pub(crate) repeat: Option<u32>,
    /// Figures to take from an output that is no record, by name: a regular expression with one
    /// group.
    pub(crate) measure: Named<String>,
    /// Commands that run meanwhile; they are ended with `run`.
    pub(crate) beside: Vec<At<BesideEntry>>,
    /// Done before.
    pub(crate) before: Vec<At<ActionEntry>>,
    /// Done meanwhile, each at its time.
    pub(crate) during: Vec<At<ActionEntry>>,
    /// Done after.
    pub(crate) after: Vec<At<ActionEntry>>,
    /// Given up after this; 10m if omitted.
    pub(crate) timeout: Option<At<String>>,
    /// Replace those of the study.
    pub(crate) limits: Limits,
    /// Tools that `run` needs beside the row's; it is skipped without them.
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
    pub(crate) repeat: Option<u32>,
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

/// Something done to the lab: exactly one of the verbs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ActionEntry {
    /// When, from the start of `run`; for `during` only.
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
    /// Cuts hosts off: no packet comes or goes.
    pub(crate) cut: Option<At<OneOrMore>>,
    /// Joins hosts that were cut off.
    pub(crate) join: Option<At<OneOrMore>>,
    /// Changes the link between two hosts to what is beside it.
    pub(crate) link: Option<At<Vec<At<String>>>>,
    pub(crate) rtt: Option<At<String>>,
    pub(crate) jitter: Option<At<String>>,
    pub(crate) rate: Option<At<String>>,
    pub(crate) queue: Option<At<String>>,
    pub(crate) loss: Option<At<String>>,
    pub(crate) reorder: Option<At<String>>,
    /// Waits.
    pub(crate) wait: Option<At<String>>,
    /// Runs a command to its end, on the host `on`.
    pub(crate) run: Option<At<Vec<At<Word>>>>,
    pub(crate) on: Option<At<String>>,
    pub(crate) rows: Vec<At<String>>,
}

/// A figure: where it comes from, what was published, and the band that judges it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FigureEntry {
    /// What formulas call it.
    pub(crate) name: Option<At<String>>,
    /// What the report calls it.
    pub(crate) title: Option<String>,
    /// ms, s, /s, Mb/s, %, or anything else; times and rates are scaled by the speed.
    pub(crate) unit: String,
    /// The phase it is taken from.
    pub(crate) phase: Option<At<String>>,
    /// The values of the phase's `for`.
    pub(crate) at: Named<Word>,
    /// Only the run of this number, counted from 1.
    pub(crate) run: Option<u32>,
    /// The path in the record: `response.mean_ms`, `targets.0.time.p50_ms`.
    pub(crate) take: Option<At<String>>,
    /// What is made of several: mean (if omitted), median, min, max, first, last, sum, count.
    pub(crate) of: Option<At<String>>,
    /// The value of this variable of `for` at which the figure first reaches `reaches`.
    pub(crate) along: Option<At<String>>,
    /// See `along`: a number or a formula.
    pub(crate) reaches: Option<At<Word>>,
    /// A formula over other figures.
    pub(crate) compute: Option<At<String>>,
    /// What was published.
    pub(crate) published: Option<At<ByRow<f64>>>,
    /// Where: the document and the place in it.
    pub(crate) source: Option<String>,
    /// As far from the published figure at most: `5%`.
    pub(crate) within: Option<At<String>>,
    /// A number or a formula.
    pub(crate) at_least: Option<At<Word>>,
    /// A number or a formula.
    pub(crate) at_most: Option<At<Word>>,
    /// Exactly this text.
    pub(crate) is: Option<At<String>>,
    /// Why it is not expected to be reproduced.
    pub(crate) not_reproduced: Option<String>,
    /// Why the simulator says something else.
    pub(crate) simulation_differs: Option<String>,
    pub(crate) rows: Vec<At<String>>,
    /// What `--quick` replaces; an empty table judges nothing.
    pub(crate) quick: Option<Band>,
}

/// What a figure has to be, as in [`FigureEntry`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Band {
    pub(crate) within: Option<At<String>>,
    pub(crate) at_least: Option<At<Word>>,
    pub(crate) at_most: Option<At<Word>>,
    pub(crate) is: Option<At<String>>,
}

/// Published figures held against each other.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CheckEntry {
    /// What is worked out.
    pub(crate) title: Option<At<String>>,
    /// From what: `80 / 14.45`.
    pub(crate) compute: Option<At<String>>,
    /// What the document prints.
    pub(crate) printed: Option<At<f64>>,
    pub(crate) unit: String,
    pub(crate) source: String,
    /// What follows from it.
    pub(crate) note: String,
}

/// A picture of the report.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PlotEntry {
    pub(crate) title: Option<At<String>>,
    /// `curve`, `bars`, `series`, `time` or `beside`.
    pub(crate) kind: Option<At<String>>,
    pub(crate) phase: Option<At<String>>,
    /// The variable of `for` along x (curve), or that groups the bars.
    pub(crate) x: Option<At<String>>,
    pub(crate) x_title: Option<String>,
    /// Paths in the records, each a line.
    pub(crate) take: OneOrMore,
    pub(crate) unit: String,
    /// Figures by name, published beside measured (beside).
    pub(crate) figures: Vec<At<String>>,
    /// Values of `for` that are shown; all where empty.
    pub(crate) at: BTreeMap<String, Word>,
    pub(crate) rows: Vec<At<String>>,
}
