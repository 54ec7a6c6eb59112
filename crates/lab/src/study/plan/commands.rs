//! Files, programs and phases of a row, with the loops of phases unrolled.

use std::collections::{BTreeMap, HashSet};

use loadline_core::time::Duration;
use loadline_spanned::{At, Named};
use regex::Regex;

use super::{Action, Command, Content, Program, Ready, Scope, Step, Verb, network};
use crate::{
    study::{
        file::{ActionEntry, BesideEntry, Limits, PhaseEntry, ProgramEntry, ReadyEntry},
        place::{OneOrMore, Word},
    },
    topology::{LinkSpec, Topology},
    wan::Tolerance,
};

/// Files with their contents; from here on `{file.NAME}` is the path of each.
pub(super) fn files(scope: &mut Scope<'_>) -> Vec<(String, Content)> {
    let entries = &scope.file.file;
    let mut own = Vec::new();
    for entry in entries {
        let Some(name) = scope.needed(&entry.value.name, "name", entry) else { continue };
        if scope.has(&entry.value.rows) {
            let path = scope.places.run.join("files").join(&name.value).display().to_string();
            scope.values.insert(format!("file.{}", name.value), path);
            own.push((name, entry));
        }
    }
    let content = |(name, entry): (&At<String>, &At<crate::study::file::FileEntry>)| {
        let content = match (&entry.value.text, &entry.value.from) {
            (Some(text), None) => Content::Text(scope.fill(text)),
            (None, Some(from)) => Content::CopyOf(scope.study.folder().join(scope.fill(from))),
            _ => {
                let help = "write either `text = \"\"\"...\"\"\"` or `from = \"path\"`";
                scope.wrong(name, "a file has one content", help);
                return None;
            }
        };
        Some((name.value.clone(), content))
    };
    own.into_iter().filter_map(content).collect()
}

pub(super) fn prepare(scope: &mut Scope<'_>) -> Vec<Vec<String>> {
    let file = scope.file;
    let entries = file.prepare.iter().filter(|entry| scope.has(&entry.value.rows));
    let entries: Vec<_> = entries.collect();
    entries.into_iter().map(|entry| scope.arguments(&entry.value.run, entry)).collect()
}

pub(super) fn programs(scope: &mut Scope<'_>) -> Vec<Program> {
    let file = scope.file;
    let hosts = scope.hosts();
    let mut programs: Vec<Program> = Vec::new();
    for entry in &file.program {
        if !scope.has(&entry.value.rows) {
            continue;
        }
        let ProgramEntry { name, host, run, ready, on_demand, .. } = &entry.value;
        let Some(name) = scope.needed(name, "name", entry) else { continue };
        let Some(host) = scope.needed(host, "host", entry) else { continue };
        if programs.iter().any(|program| program.name == name.value) {
            scope.wrong(name, "two programs of a row have this name", "give each one of its own");
        }
        let Some(host) = scope.one_of("host", host, &hosts) else { continue };
        let (ready, within) = ready_of(scope, ready.as_ref());
        programs.push(Program {
            name: name.value.clone(),
            command: Command { host, arguments: scope.arguments(run, entry) },
            ready,
            within,
            on_demand: *on_demand,
        });
    }
    programs
}

fn ready_of(scope: &mut Scope<'_>, entry: Option<&At<ReadyEntry>>) -> (Ready, Duration) {
    let Some(entry) = entry else { return (Ready::AtOnce, READY) };
    let ReadyEntry { port, line, after, within } = &entry.value;
    let within = within.as_ref().and_then(|text| scope.quantity(text)).unwrap_or(READY);
    let ready = match (port, line, after) {
        (Some(port), None, None) => {
            let text = scope.fill_word(port);
            let number = text.parse().unwrap_or_else(|_| {
                scope.wrong(port, format!("`{text}` is no port"), "write `port = 80`");
                0
            });
            Ready::Port(number)
        }
        (None, Some(line), None) => Ready::Line(scope.fill(line)),
        (None, None, Some(after)) => Ready::After(scope.quantity(after).unwrap_or_default()),
        _ => {
            let help = "write one of `port = 80`, `line = \"listening\"` and `after = \"1s\"`";
            scope.wrong(entry, "a program is ready for one reason", help);
            Ready::AtOnce
        }
    };
    (ready, within)
}

/// Every run of every phase.
pub(super) fn steps(scope: &mut Scope<'_>, topology: &Topology) -> Vec<Step> {
    let file = scope.file;
    let mut steps = Vec::new();
    let mut names = HashSet::new();
    for entry in &file.phase {
        let phase = &entry.value;
        let Some(name) = scope.needed(&phase.name, "name", entry) else { continue };
        let own = scope.has(&phase.rows);
        if !own || (phase.quick.skip && scope.study.is_quick()) {
            continue;
        }
        if !names.insert(&name.value) {
            scope.wrong(name, "two phases of a row have this name", "give each one of its own");
        }
        let outer = scope.values.clone();
        let quick = scope.study.is_quick();
        check_runs(scope, phase);
        let repeat = phase.quick.repeat.as_ref().filter(|_| quick).or(phase.repeat.as_ref());
        let repeat = repeat.map_or(1, |repeat| repeat.value);
        for at in combinations(phase, quick) {
            for repeat in 1..=repeat {
                let own = at.iter().map(|(name, value)| (name.clone(), value.clone()));
                scope.values.extend(own);
                scope.values.insert("repeat".to_owned(), repeat.to_string());
                steps.extend(step(scope, topology, entry, at.clone(), repeat));
                scope.values.clone_from(&outer);
            }
        }
    }
    steps
}

/// Notes what leaves a phase without a run.
fn check_runs(scope: &mut Scope<'_>, phase: &PhaseEntry) {
    let repeats = [&phase.repeat, &phase.quick.repeat].into_iter().flatten();
    for repeat in repeats.filter(|repeat| repeat.value == 0) {
        scope.wrong(repeat, "a phase that runs 0 times", "write `repeat = 1` or more");
    }
    let variables = phase.sweep.iter().chain(&phase.quick.sweep);
    for (name, values) in variables.filter(|(_, values)| values.value.is_empty()) {
        let message = format!("`{}` has no values: the phase would not run", name.value);
        scope.wrong(values, message, format!("write `{} = [1, 2]`, or leave it out", name.value));
    }
}

/// What `limits` say, and `otherwise` where they say nothing.
fn tolerance(scope: &mut Scope<'_>, limits: &Limits, otherwise: Tolerance) -> Tolerance {
    let late_p99 = limits.lateness.as_ref().and_then(|text| scope.quantity(text));
    let late_p90 = limits.lateness_p90.as_ref().and_then(|text| scope.quantity(text));
    let steal = limits.steal.as_ref().and_then(|text| scope.quantity(text));
    Tolerance {
        steal: steal.unwrap_or(otherwise.steal),
        // Who says how late 99 of 100 may be means the others too.
        late_p90: late_p90.or(late_p99).unwrap_or(otherwise.late_p90),
        late_p99: late_p99.unwrap_or(otherwise.late_p99),
    }
}

/// Every combination of the values of `for`, the last variable changing fastest. A variable of
/// `quick` replaces the one of its name.
fn combinations(phase: &PhaseEntry, quick: bool) -> Vec<BTreeMap<String, String>> {
    let mut all = vec![BTreeMap::new()];
    for (name, values) in &phase.sweep {
        let replaced = phase.quick.sweep.iter().find(|(own, _)| own.value == name.value);
        let values = replaced.filter(|_| quick).map_or(values, |(_, values)| values);
        let with = |at: &BTreeMap<String, String>, value: &Word| {
            let mut at = at.clone();
            at.insert(name.value.clone(), value.0.clone());
            at
        };
        let next = |at| values.value.iter().map(move |value| with(at, value));
        all = all.iter().flat_map(next).collect();
    }
    all
}

fn step(
    scope: &mut Scope<'_>,
    topology: &Topology,
    entry: &At<PhaseEntry>,
    at: BTreeMap<String, String>,
    repeat: u32,
) -> Option<Step> {
    let phase = &entry.value;
    let hosts = scope.hosts();
    let command = match &phase.run {
        Some(_) => {
            let host = scope.needed(&phase.host, "host", entry)?;
            let host = scope.one_of("host", host, &hosts)?;
            Some(Command { host, arguments: scope.arguments(&phase.run, entry) })
        }
        None => None,
    };
    let timeout = phase.timeout.as_ref().and_then(|text| scope.quantity(text));
    let file = scope.file;
    let study = tolerance(scope, &file.limits, Tolerance::default());
    let tolerance = tolerance(scope, &phase.limits, study);
    let during = phase.during.iter().filter_map(|action| {
        let at = action.value.at.as_ref().and_then(|at| scope.quantity(at));
        verb(scope, topology, action).map(|verb| Action { at: at.unwrap_or_default(), verb })
    });
    let mut during = during.collect::<Vec<_>>();
    during.sort_by_key(|action| action.at);
    let beside = phase.beside.iter().filter_map(|entry| beside(scope, &hosts, entry)).collect();
    let verbs = |scope: &mut Scope<'_>, list: &[At<ActionEntry>]| -> Vec<Verb> {
        list.iter().filter_map(|action| verb(scope, topology, action)).collect()
    };
    Some(Step {
        phase: phase.name.as_ref().map(|name| name.value.clone()).unwrap_or_default(),
        at,
        repeat,
        command,
        beside,
        before: verbs(scope, &phase.before),
        during,
        after: verbs(scope, &phase.after),
        timeout: timeout.unwrap_or(TIMEOUT),
        tolerance,
        measure: measures(scope, &phase.measure),
        needs: needs(scope, entry, &phase.needs),
    })
}

fn beside(
    scope: &mut Scope<'_>,
    hosts: &[String],
    entry: &At<BesideEntry>,
) -> Option<(String, Command)> {
    let BesideEntry { name, host, run, rows } = &entry.value;
    let (name, host) = (scope.needed(name, "name", entry)?, scope.needed(host, "host", entry)?);
    if !scope.has(rows) {
        return None;
    }
    let host = scope.one_of("host", host, hosts)?;
    Some((name.value.clone(), Command { host, arguments: scope.arguments(run, entry) }))
}

fn measures(scope: &mut Scope<'_>, patterns: &Named<String>) -> BTreeMap<String, String> {
    for (_, pattern) in patterns {
        let groups = Regex::new(&pattern.value).map(|regex| regex.captures_len());
        let message = match groups {
            Ok(2) => continue,
            Ok(_) => "the expression has not exactly one group".to_owned(),
            Err(error) => {
                let lines = error.to_string();
                lines.lines().last().unwrap_or_default().trim().to_owned()
            }
        };
        scope.wrong(pattern, message, "write what to find in brackets: 'avg ([0-9.]+)'");
    }
    patterns.iter().map(|(name, text)| (name.value.clone(), text.value.clone())).collect()
}

fn needs(scope: &mut Scope<'_>, entry: &At<PhaseEntry>, tools: &OneOrMore) -> Vec<String> {
    let known: Vec<_> = scope.study.tools().iter().map(|tool| tool.name.clone()).collect();
    let start = entry.span.start;
    for tool in tools.0.iter().filter(|tool| !known.contains(tool)) {
        let help = format!("write `[tool.{tool}]`, with `install` if it is not its package's name");
        scope.problems.error(
            &(start..start + 1),
            format!("it needs an unknown tool `{tool}`"),
            "here",
            help,
        );
    }
    tools.0.clone()
}

/// The one verb of an action.
fn verb(scope: &mut Scope<'_>, topology: &Topology, entry: &At<ActionEntry>) -> Option<Verb> {
    let action = &entry.value;
    if !scope.has(&action.rows) {
        return None;
    }
    let programs = |scope: &mut Scope<'_>, names: &At<OneOrMore>| program_names(scope, names);
    let mut verbs = Vec::new();
    if let Some(names) = &action.start {
        verbs.push(Verb::Start(programs(scope, names)));
    }
    if let Some(names) = &action.stop {
        verbs.push(Verb::Stop(programs(scope, names)));
    }
    if let Some(names) = &action.kill {
        verbs.push(Verb::Kill(programs(scope, names)));
    }
    if let Some(names) = &action.restart {
        verbs.push(Verb::Restart(programs(scope, names)));
    }
    if let (Some(signal), Some(names)) = (&action.signal, &action.to) {
        verbs.push(Verb::Signal(signal_name(scope, signal), programs(scope, names)));
    }
    if let Some(hosts) = &action.cut {
        let words = format!("cut {}", hosts.value.0.join(", "));
        verbs.push(Verb::Link(words, around(scope, topology, hosts, true)));
    }
    if let Some(hosts) = &action.join {
        let words = format!("join {}", hosts.value.0.join(", "));
        verbs.push(Verb::Link(words, around(scope, topology, hosts, false)));
    }
    if let Some(ends) = &action.link {
        let names: Vec<&str> = ends.value.iter().map(|end| end.value.as_str()).collect();
        let words = format!("link {}", names.join(", "));
        verbs.push(Verb::Link(words, changed(scope, topology, ends, action)));
    }
    if let Some(time) = &action.wait {
        verbs.push(Verb::Wait(scope.quantity(time).unwrap_or_default()));
    }
    if let (run @ Some(_), Some(on)) = (&action.run, &action.on) {
        let hosts = scope.hosts();
        let host = scope.one_of("host", on, &hosts)?;
        verbs.push(Verb::Run(Command { host, arguments: scope.arguments(run, entry) }));
    }
    if verbs.len() != 1 {
        scope.wrong(entry, "an action is exactly one thing", VERBS);
    }
    verbs.pop()
}

fn program_names(scope: &mut Scope<'_>, names: &At<OneOrMore>) -> Vec<String> {
    let file = scope.file;
    let entries = file.program.iter().filter(|entry| scope.has(&entry.value.rows));
    let known = entries.filter_map(|entry| entry.value.name.as_ref());
    let known: Vec<_> = known.map(|name| name.value.clone()).collect();
    names_of(scope, "program", names, &known)
}

fn names_of(
    scope: &mut Scope<'_>,
    what: &str,
    names: &At<OneOrMore>,
    known: &[String],
) -> Vec<String> {
    let one = |name: &String| {
        scope.one_of(what, &At { value: name.clone(), span: names.span.clone() }, known)
    };
    names.value.0.iter().filter_map(one).collect()
}

fn signal_name(scope: &mut Scope<'_>, signal: &At<String>) -> String {
    let name = signal.value.trim_start_matches("SIG").to_owned();
    if !SIGNALS.contains(&name.as_str()) {
        let help = format!("expected one of {}", SIGNALS.join(", "));
        scope.wrong(signal, format!("there is no signal `{name}`"), help);
    }
    name
}

/// Every link of these hosts, as it is in the plan or losing everything.
fn around(
    scope: &mut Scope<'_>,
    topology: &Topology,
    hosts: &At<OneOrMore>,
    cut: bool,
) -> Vec<LinkSpec> {
    let known = scope.hosts();
    let names = names_of(scope, "host", hosts, &known);
    let places: Vec<_> = names.iter().filter_map(|name| topology.host(name)).collect();
    let touches = |link: &&LinkSpec| places.contains(&link.from) || places.contains(&link.to);
    let changed = |link: &LinkSpec| match cut {
        true => LinkSpec { loss: loadline_core::units::Ratio::ONE, ..*link },
        false => *link,
    };
    topology.links.iter().filter(touches).map(changed).collect()
}

/// The link between two hosts in both directions, with the properties beside it.
fn changed(
    scope: &mut Scope<'_>,
    topology: &Topology,
    ends: &At<Vec<At<String>>>,
    action: &ActionEntry,
) -> Vec<LinkSpec> {
    let known = scope.hosts();
    let [one, other] = ends.value.as_slice() else {
        scope.wrong(ends, "a link is between two hosts", "write `link = [\"a\", \"b\"]`");
        return Vec::new();
    };
    let mut place = |end| scope.one_of("host", end, &known).and_then(|name| topology.host(&name));
    let (Some(from), Some(to)) = (place(one), place(other)) else { return Vec::new() };
    let link = network::LinkKeys {
        rtt: action.rtt.as_ref(),
        jitter: action.jitter.as_ref(),
        rate: action.rate.as_ref(),
        queue: action.queue.as_ref(),
        loss: action.loss.as_ref(),
        reorder: action.reorder.as_ref(),
    };
    let spec = network::link_spec(scope, &link);
    LinkSpec { from, to, ..spec }.both().to_vec()
}

const VERBS: &str = "write one of start, stop, kill, restart, signal (with to), cut, join, link, \
                     wait and run (with on)";
const SIGNALS: [&str; 9] = ["HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "STOP", "CONT"];
/// A program that has not started by then will not.
const READY: Duration = Duration::from_secs(10);
/// The longest published run lasts five minutes.
const TIMEOUT: Duration = Duration::from_secs(600);
