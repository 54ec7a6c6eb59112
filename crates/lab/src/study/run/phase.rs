//! One run of one phase: its command, what runs beside it, what is done meanwhile, and what the
//! machine did to it.

use std::{collections::BTreeMap, thread, time};

use loadline_core::time::{Duration, Instant};
use loadline_linux::clock;
use loadline_measure::record::{Document, Reading, Record, StudyPhase};
use regex::Regex;
use serde_json::Value;

use super::{
    RunError, check_stop,
    folder::unix_ms,
    meter::Meter,
    programs::{GRACE, RunningRow},
};
use crate::{
    host::Exit,
    study::{
        plan::{Action, Plan, Step},
        take::measure,
    },
    wan::Health,
};

/// A phase that could not be run.
pub(super) fn not_run(plan: &Plan, step: &Step, why: String) -> StudyPhase {
    StudyPhase { skipped: true, failed: Some(why), ..named(plan, step) }
}

/// Runs a step.
pub(super) fn run(
    site: &mut RunningRow<'_>,
    step: &Step,
    number: usize,
) -> Result<StudyPhase, RunError> {
    step.before.iter().try_for_each(|verb| site.act(verb))?;
    let mut phase = named(site.plan, step);
    let file = file_name(step, number);
    let meter = Meter::begin(&site.lab)?;
    let started = clock::now();
    phase.started_unix_ms = unix_ms();
    let Ended { exit, missed } = commands(site, step, &file)?;
    phase.elapsed_s = clock::now().since(started).as_secs_f64();
    let metered = meter.end(&site.lab)?;
    phase.steal_share = metered.health.steal.as_f64();
    let late = metered.health.lateness;
    phase.lateness_p99_ms = (late.count > 0).then(|| late.p99.as_millis_f64());
    if step.command.is_some() {
        read(site, step, &file, exit, &mut phase);
        let missed = missed.map(|action| too_late(action, phase.elapsed_s));
        phase.failed = phase.failed.take().or(missed);
        phase.readings.extend(metered.readings(phase.elapsed_s));
    }
    for (name, _) in &step.beside {
        let output = site.folder.read("phases", &format!("{file}-{name}.out"));
        if let Ok(document) = Document::read(output.as_bytes()) {
            phase.beside.insert(name.clone(), document.record);
        } else {
            let errors = site.folder.read("phases", &format!("{file}-{name}.err"));
            let why = format!("`{name}`, beside it, printed no record: {}", last_line(&errors));
            phase.failed.get_or_insert(why);
        }
    }
    phase.faults = faults(step, &phase, &metered.health);
    step.after.iter().try_for_each(|verb| site.act(verb))?;
    Ok(phase)
}

fn named(plan: &Plan, step: &Step) -> StudyPhase {
    StudyPhase {
        row: plan.row.clone(),
        phase: step.phase.clone(),
        at: step.at.clone(),
        repeat: step.repeat,
        started_unix_ms: unix_ms(),
        ..StudyPhase::default()
    }
}

/// The name of the files of a step: in the order of the steps.
fn file_name(step: &Step, number: usize) -> String {
    let at = step.at.iter().map(|(name, value)| format!("-{name}-{value}")).collect::<String>();
    let name = format!("{number:03}-{}{at}-{}", step.phase, step.repeat);
    name.replace(|letter: char| !letter.is_ascii_alphanumeric() && !"-_.".contains(letter), "_")
}

/// How the command of a step ended.
struct Ended<'s> {
    /// None where it had to be killed, or where the step has no command.
    exit: Option<Exit>,
    /// The first action that was due after the end of the command.
    missed: Option<&'s Action>,
}

/// What is said of an action that did not happen.
fn too_late(action: &Action, elapsed_s: f64) -> String {
    let Action { at, verb } = action;
    format!("`{verb}` was due at {at}, but the command ended after {elapsed_s:.1} s")
}

/// Runs the command of a step with what is beside it, and does what is to be done meanwhile.
fn commands<'s>(
    site: &mut RunningRow<'_>,
    step: &'s Step,
    file: &str,
) -> Result<Ended<'s>, RunError> {
    let mut beside = Vec::new();
    for (name, command) in &step.beside {
        beside.push(site.spawn(command, "phases", &format!("{file}-{name}"))?);
    }
    let command = step.command.as_ref();
    let mut child = command.map(|command| site.spawn(command, "phases", file)).transpose()?;
    let started = clock::now();
    let mut actions = step.during.iter();
    let mut next = actions.next();
    let mut exit = None;
    loop {
        while let Some(action) = next.filter(|action| clock::now().since(started) >= action.at) {
            site.act(&action.verb)?;
            next = actions.next();
        }
        if let Some(child) = &mut child {
            exit = child.try_wait()?;
        }
        let over = match &child {
            Some(_) => exit.is_some() || clock::now().since(started) >= step.timeout,
            None => next.is_none(),
        };
        if over {
            break;
        }
        check_stop(site.stop)?;
        thread::sleep(rest(started, next.map(|action| action.at)));
    }
    if let (Some(child), None) = (&mut child, exit) {
        child.kill()?;
    }
    for child in &mut beside {
        child.stop(GRACE)?;
    }
    Ok(Ended { exit, missed: next })
}

/// Time until the next action, bounded so that the end of the command is seen soon.
fn rest(started: Instant, next: Option<Duration>) -> time::Duration {
    let gone = clock::now().since(started);
    let left = next.map_or(LOOK_AGAIN, |at| at.saturating_sub(gone).to_std());
    left.clamp(time::Duration::from_micros(100), LOOK_AGAIN)
}

/// Reads what the command printed into the phase.
fn read(
    site: &RunningRow<'_>,
    step: &Step,
    file: &str,
    exit: Option<Exit>,
    phase: &mut StudyPhase,
) {
    let output = site.folder.read("phases", &format!("{file}.out"));
    let errors = site.folder.read("phases", &format!("{file}.err"));
    if let Ok(document) = Document::read(output.as_bytes()) {
        phase.record = Some(Box::new(document.record));
    } else if let Ok(value @ Value::Object(_)) = serde_json::from_str(&output) {
        flatten("", &value, &mut phase.readings);
    }
    let patterns = step.measure.iter();
    let patterns: BTreeMap<String, Regex> =
        patterns.filter_map(|(name, text)| Some((name.clone(), Regex::new(text).ok()?))).collect();
    flatten("", &measure(&format!("{output}\n{errors}"), &patterns), &mut phase.readings);
    let nothing = phase.record.is_none() && phase.readings.is_empty();
    phase.failed = match exit {
        None => Some(format!("it did not end within {}", step.timeout)),
        Some(exit) if nothing && !exit.success() => {
            Some(format!("it ended {exit}: {}", last_line(&errors)))
        }
        Some(_) => None,
    };
}

fn last_line(text: &str) -> &str {
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing was said")
}

/// The scalars of a value by their paths.
fn flatten(path: &str, value: &Value, readings: &mut BTreeMap<String, Reading>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(keys) => {
            keys.iter().for_each(|(key, value)| flatten(&below(key), value, readings));
        }
        Value::Array(list) => {
            let numbered = list.iter().enumerate();
            numbered.for_each(|(at, value)| flatten(&below(&at.to_string()), value, readings));
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            readings.insert(path.to_owned(), Reading::Number(number));
        }
        Value::String(text) => {
            readings.insert(path.to_owned(), Reading::Text(text.clone()));
        }
        Value::Bool(_) | Value::Null => {}
    }
}

/// What makes a run invalid.
fn faults(step: &Step, phase: &StudyPhase, health: &Health) -> Vec<String> {
    let mut faults = health.faults(&step.tolerance);
    if let Some(Record::Load(load)) = phase.record.as_deref() {
        faults.extend(load.generator.faults.iter().map(|fault| fault.what.clone()));
    }
    faults
}

/// An end is seen so late at most.
const LOOK_AGAIN: time::Duration = time::Duration::from_millis(5);
