//! What runs on the hosts of a row, and what is done to it.

use std::{collections::BTreeMap, sync::atomic::AtomicBool};

use loadline_core::time::Duration;
use loadline_linux::clock;
use serde_json::json;

use super::{NOT_BUILT, RunError, check_stop, environment::find_program, folder::RowFolder, sleep};
use crate::{
    host::{Child, Host, Lab, LabError, Output, Program as HostProgram, Signal},
    study::plan::{Command, Plan, Program, Ready, Verb},
};

/// The lab of a row with its programs.
pub(super) struct RunningRow<'s> {
    pub(super) lab: Lab,
    pub(super) plan: &'s Plan,
    pub(super) folder: &'s RowFolder,
    /// Set where the study is to end.
    pub(super) stop: &'s AtomicBool,
    pub(super) running: BTreeMap<String, Child>,
}

impl RunningRow<'_> {
    /// Starts a command on its host; what it says goes to files of this name.
    pub(super) fn spawn(
        &self,
        command: &Command,
        folder: &str,
        name: &str,
    ) -> Result<Child, RunError> {
        let host = self.host(&command.host)?;
        let mut words = command.arguments.iter();
        let program = words.next().map_or("", String::as_str);
        let path = find_program(program).ok_or_else(|| RunError::Program {
            name: name.to_owned(),
            why: format!("there is no program `{program}`"),
        })?;
        let program = words.fold(HostProgram::new(path), HostProgram::arg);
        let program = program
            .dir(self.folder.path())
            .stdout(Output::To(self.folder.log(folder, &format!("{name}.out"))?))
            .stderr(Output::To(self.folder.log(folder, &format!("{name}.err"))?));
        Ok(host.spawn(program)?)
    }

    /// Starts what runs from the beginning, in the order of the file.
    pub(super) fn start_all(&mut self) -> Result<(), RunError> {
        let plan = self.plan;
        let mut programs = plan.programs.iter().filter(|program| !program.on_demand);
        programs.try_for_each(|program| self.start(&program.name))
    }

    /// Starts a program and waits until it is ready.
    pub(super) fn start(&mut self, name: &str) -> Result<(), RunError> {
        let Some(program) = self.plan.programs.iter().find(|program| program.name == name) else {
            return Ok(());
        };
        let before = self.folder.read("logs", &format!("{name}.out")).len();
        let mut child = self.spawn(&program.command, "logs", name)?;
        let ready = self.wait_ready(program, &mut child, before);
        self.running.insert(name.to_owned(), child);
        ready
    }

    fn wait_ready(
        &self,
        program: &Program,
        child: &mut Child,
        before: usize,
    ) -> Result<(), RunError> {
        let host = self.host(&program.command.host)?;
        match &program.ready {
            Ready::AtOnce => Ok(()),
            Ready::After(time) => sleep(*time, self.stop),
            Ready::Port(port) => {
                let why = format!("nobody listens at port {port} of host `{}`", host.name());
                self.wait_until(|| Ok(host.listens(*port)?), program, child, &why)
            }
            Ready::Line(text) => {
                let why = format!("it does not say `{text}`");
                let said = || Ok(self.said(&program.name, before).contains(text));
                self.wait_until(said, program, child, &why)
            }
        }
    }

    /// Waits until a program is ready, as long as it may take; `why` it is not where it never is.
    fn wait_until(
        &self,
        is_ready: impl Fn() -> Result<bool, RunError>,
        program: &Program,
        child: &mut Child,
        why: &str,
    ) -> Result<(), RunError> {
        let until = clock::now() + program.within;
        while !is_ready()? {
            if let Some(exit) = child.try_wait()? {
                return Err(self.not_started(program, &format!("{why}; it ended {exit}")));
            }
            if clock::now() >= until {
                let why = format!("{why} after {}", program.within);
                return Err(self.not_started(program, &why));
            }
            sleep(LOOK_AGAIN, self.stop)?;
        }
        Ok(())
    }

    /// What a program said since its output was this long, and all of its errors.
    fn said(&self, name: &str, before: usize) -> String {
        let output = self.folder.read("logs", &format!("{name}.out"));
        let errors = self.folder.read("logs", &format!("{name}.err"));
        format!("{}\n{errors}", output.get(before..).unwrap_or_default())
    }

    fn not_started(&self, program: &Program, why: &str) -> RunError {
        let said = self.said(&program.name, 0);
        if let Some((_, reason)) = said.split_once(NOT_BUILT) {
            let why = format!("{NOT_BUILT}{}", reason.lines().next().unwrap_or_default());
            return RunError::NotBuilt { name: program.name.clone(), why };
        }
        let lines: Vec<_> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
        let why = if last.is_empty() { why.to_owned() } else { format!("{why}, but\n{last}") };
        RunError::Program { name: program.name.clone(), why }
    }

    /// Does what a study says.
    pub(super) fn act(&mut self, verb: &Verb) -> Result<(), RunError> {
        match verb {
            Verb::Start(names) => names.iter().try_for_each(|name| self.start(name)),
            Verb::Stop(names) => self.each(names, |child| child.stop(GRACE).map(drop), true),
            Verb::Kill(names) => self.each(names, |child| child.kill().map(drop), true),
            Verb::Restart(names) => {
                self.act(&Verb::Stop(names.clone()))?;
                self.act(&Verb::Start(names.clone()))
            }
            Verb::Signal(signal, names) => {
                let signal = signal_of(signal);
                self.each(names, |child| child.signal(signal), false)
            }
            Verb::Link(_, links) => {
                for link in links {
                    let changed = self.lab.router_mut().change(*link);
                    changed.map_err(|error| failed("change a link", &error))?;
                }
                Ok(())
            }
            Verb::Wait(time) => sleep(*time, self.stop),
            Verb::Run(command) => self.run(command),
        }
    }

    fn each(
        &mut self,
        names: &[String],
        act: impl Fn(&mut Child) -> Result<(), crate::host::HostError>,
        ends: bool,
    ) -> Result<(), RunError> {
        for name in names {
            if let Some(child) = self.running.get_mut(name) {
                act(child)?;
            }
            if ends {
                self.running.remove(name);
            }
        }
        Ok(())
    }

    /// Runs a command to its end.
    fn run(&self, command: &Command) -> Result<(), RunError> {
        let name = "actions";
        let mut child = self.spawn(command, "logs", name)?;
        let until = clock::now() + ACTION;
        let exit = loop {
            let exit = child.wait_until_end(LOOK_AGAIN)?;
            if exit.is_some() || clock::now() >= until {
                break exit;
            }
            check_stop(self.stop)?;
        };
        let why = match exit {
            Some(exit) if exit.success() => return Ok(()),
            Some(exit) => {
                let errors = self.folder.read("logs", &format!("{name}.err"));
                format!("it ended {exit}; {}", errors.lines().last().unwrap_or_default())
            }
            None => format!("it has not ended within {ACTION}"),
        };
        Err(RunError::Command { command: command.arguments.join(" "), why })
    }

    /// Ends everything, and keeps what the router counted.
    pub(super) fn end(self) -> Result<(), RunError> {
        let counters = self.lab.router().counters();
        let counters = counters.map_err(|error| failed("read the router's counters", &error))?;
        let name = |host: usize| self.plan.topology.hosts.get(host).map(|host| host.name.as_str());
        let link = |link: &crate::wan::LinkCounters| {
            json!({
                "from": name(link.from), "to": name(link.to),
                "packets": link.packets, "bytes": link.bytes, "lost": link.lost,
                "dropped_up": link.dropped_up, "dropped_queue": link.dropped_queue,
                "dropped_down": link.dropped_down, "reordered": link.reordered,
            })
        };
        let text = json!({
            "links": counters.links.iter().map(link).collect::<Vec<_>>(),
            "unroutable": counters.unroutable, "malformed": counters.malformed,
            "refused": counters.refused,
            "lateness_p99_ms": counters.lateness.p99.as_millis_f64(),
            "lateness_max_ms": counters.lateness.max.as_millis_f64(),
            "longest_turn_ms": counters.longest_turn.as_millis_f64(),
        });
        self.folder.write("router.json", &format!("{text:#}\n"))?;
        self.lab.stop();
        Ok(())
    }

    pub(super) fn host(&self, name: &str) -> Result<&Host, LabError> {
        self.lab.host(name)
    }
}

/// A failure of the router, with what was to be done.
pub(super) fn failed(what: &str, error: &impl ToString) -> RunError {
    RunError::File { what: what.to_owned(), source: std::io::Error::other(error.to_string()) }
}

fn signal_of(name: &str) -> Signal {
    match name {
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "QUIT" => Signal::QUIT,
        "KILL" => Signal::KILL,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        "STOP" => Signal::STOP,
        "CONT" => Signal::CONT,
        _ => Signal::TERM,
    }
}

/// What a program may take to end when it is asked to: a drain of requests under way.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// A command of an action is short.
const ACTION: Duration = Duration::from_secs(60);
/// Between two looks at an output.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// What is told of a program's last words.
const LAST_LINES: usize = 8;
