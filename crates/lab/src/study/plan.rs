//! What is to be done for one row: placeholders filled in, quantities read, loops unrolled.

mod commands;
mod network;
mod scope;

use std::{collections::BTreeMap, fmt, path::PathBuf};

use loadline_core::time::Duration;
use loadline_spanned::Problems;

use super::read::Study;
use crate::{
    host::Machine,
    topology::{LinkSpec, Topology},
    wan::Tolerance,
};
pub(crate) use scope::Scope;

/// One row, ready to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name of the row.
    pub row: String,
    /// Hosts and links.
    pub topology: Topology,
    /// What each host is as a machine, by its name.
    pub machines: BTreeMap<String, Machine>,
    /// Files to write, by name, before anything starts.
    pub files: Vec<(String, Content)>,
    /// Commands on the real machine before anything starts.
    pub prepare: Vec<Vec<String>>,
    /// What runs on hosts, in the order in which it starts.
    pub programs: Vec<Program>,
    /// What is done, in this order.
    pub steps: Vec<Step>,
}

/// What the plan needs to know of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Path of the `loadline` binary.
    pub loadline: String,
    /// The folder of the row in the run's folder.
    pub run: PathBuf,
    /// What everything random is drawn from.
    pub seed: u64,
}

impl Default for Places {
    fn default() -> Self {
        Self { loadline: "loadline".to_owned(), run: PathBuf::from("run"), seed: 1 }
    }
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// This text.
    Text(String),
    /// What another file holds.
    CopyOf(PathBuf),
}

/// What runs on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Its name in the study.
    pub name: String,
    /// The command and its host.
    pub command: Command,
    /// When it counts as started.
    pub ready: Ready,
    /// Time to start, after which it counts as failed.
    pub within: Duration,
    /// Whether only an action starts it.
    pub on_demand: bool,
}

/// A command on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The host's name.
    pub host: String,
    /// The program and its arguments; never empty in a plan that was checked.
    pub arguments: Vec<String>,
}

/// When a program counts as started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ready {
    /// At once.
    #[default]
    AtOnce,
    /// When it listens on this TCP port.
    Port(u16),
    /// When its output has a line with this text.
    Line(String),
    /// After a time.
    After(Duration),
}

/// One run of one phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Name of the phase that it measures.
    pub phase: String,
    /// The values it runs for.
    pub at: BTreeMap<String, String>,
    /// Number of the repetition, from 1.
    pub repeat: u32,
    /// The measuring command; none if the step only acts.
    pub command: Option<Command>,
    /// What runs meanwhile, by name.
    pub beside: Vec<(String, Command)>,
    /// Done before.
    pub before: Vec<Verb>,
    /// Done meanwhile, in the order of their times.
    pub during: Vec<Action>,
    /// Done after.
    pub after: Vec<Verb>,
    /// After this the phase has failed.
    pub timeout: Duration,
    /// Beyond this the run is invalid.
    pub tolerance: Tolerance,
    /// Regular expressions for figures in an output that is no record, by name.
    pub measure: BTreeMap<String, String>,
    /// Tools it needs.
    pub needs: Vec<String>,
}

/// Something done at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// Since the phase's command was started.
    pub at: Duration,
    /// The action.
    pub verb: Verb,
}

/// Something done.
#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    /// Starts programs.
    Start(Vec<String>),
    /// Ends programs, with SIGTERM first.
    Stop(Vec<String>),
    /// Ends programs with SIGKILL.
    Kill(Vec<String>),
    /// Stops and starts programs.
    Restart(Vec<String>),
    /// Sends a signal of this name to programs.
    Signal(String, Vec<String>),
    /// Changes links to these; in the words of the study, as `cut server`.
    Link(String, Vec<LinkSpec>),
    /// Waits.
    Wait(Duration),
    /// Runs a command to its end.
    Run(Command),
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(programs) => write!(f, "start {}", programs.join(", ")),
            Self::Stop(programs) => write!(f, "stop {}", programs.join(", ")),
            Self::Kill(programs) => write!(f, "kill {}", programs.join(", ")),
            Self::Restart(programs) => write!(f, "restart {}", programs.join(", ")),
            Self::Signal(signal, programs) => write!(f, "signal {signal} {}", programs.join(", ")),
            Self::Link(words, _) => f.write_str(words),
            Self::Wait(time) => write!(f, "wait {time}"),
            Self::Run(command) => write!(f, "run {}", command.arguments.join(" ")),
        }
    }
}

impl Step {
    /// The step in a few words: `one-region, rate 10, run 2`.
    #[must_use]
    pub fn title(&self) -> String {
        let at = self.at.iter().map(|(name, value)| format!(", {name} {value}"));
        format!("{}{}, run {}", self.phase, at.collect::<String>(), self.repeat)
    }
}

/// The plan of a row; what is wrong with it is in `problems`.
pub(crate) fn plan_row(study: &Study, row: &str, places: &Places, problems: &mut Problems) -> Plan {
    let mut scope = Scope::new(study, row, places, problems);
    let (topology, machines) = network::network(&mut scope);
    Plan {
        row: row.to_owned(),
        files: commands::files(&mut scope),
        prepare: commands::prepare(&mut scope),
        programs: commands::programs(&mut scope),
        steps: commands::steps(&mut scope, &topology),
        topology,
        machines,
    }
}
