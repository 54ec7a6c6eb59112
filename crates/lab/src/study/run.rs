//! Studies run: a lab for each row, its programs, its phases, and a folder with everything.
//!
//! ```text
//! FOLDER/study.toml                      the file as it was run
//! FOLDER/rows/ROW/files/NAME             its files, placeholders filled in
//! FOLDER/rows/ROW/logs/PROGRAM.out .err  what programs said
//! FOLDER/rows/ROW/phases/NN-PHASE.out    what each command printed, its records among it
//! FOLDER/rows/ROW/router.json            what the router counted
//! ```
//! A row begins with a fresh lab and ends with it, so that rows do not see each other. The record
//! and the page are for the caller to write.

mod delay;
mod environment;
mod folder;
mod hold;
mod meter;
mod phase;
mod programs;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    slice::from_ref,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use loadline_core::time::Duration;
use loadline_measure::record::{StudyDelay, StudyPhase, StudyRow};

pub use environment::{find_program, tool_version};
use folder::RowFolder;
pub use hold::{Held, hold};
use loadline_linux::clock;
use programs::RunningRow;

use super::{
    Conditions, Study,
    plan::{Places, Plan, Step},
};
use crate::host::{HostError, Lab, LabError, Options};

/// How a study is to be run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The binary that becomes hosts and is `{loadline}`.
    pub program: PathBuf,
    /// The folder for everything; it is made.
    pub folder: PathBuf,
    /// The rows to run, by name; others are left out.
    pub rows: Vec<String>,
    /// What everything random is drawn from.
    pub seed: u64,
    /// How many times a row is run again at most of which runs were invalid.
    pub again: u32,
}

/// What happens while a study runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A row begins.
    Row {
        /// As it is called.
        title: String,
    },
    /// A row begins once more, since the machine stood in the way of some of its runs.
    Again {
        /// As it is called.
        title: String,
        /// How many steps are added by it.
        steps: usize,
    },
    /// The lab does without something; told once.
    Without {
        /// Without what, what it does instead, and why.
        note: String,
    },
    /// A row is left out.
    Skipped {
        /// As it is called.
        title: String,
        /// Why.
        reason: String,
    },
    /// A step begins.
    Step {
        /// The row and the step.
        title: String,
    },
    /// The step is done.
    Done {
        /// Why the step is invalid, or why it gave no measurement.
        fault: Option<String>,
    },
}

/// What was measured of a study.
#[derive(Debug, Default)]
pub struct Measured {
    /// Its circumstances.
    pub conditions: Conditions,
    /// Every run, in the order they were made; those that an early end left out are skipped.
    pub phases: Vec<StudyPhase>,
    /// Why it was not run to its end; none where it was.
    pub ended_early: Option<RunError>,
}

/// Why a study was not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no lab.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A host of the lab failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A file could not be read or written.
    #[error("cannot {what}: {source}")]
    File {
        /// What was to be done.
        what: String,
        /// Why it could not.
        source: std::io::Error,
    },
    /// A program of the study did not start.
    #[error("`{name}` did not start: {why}")]
    Program {
        /// Its name in the study.
        name: String,
        /// What was seen.
        why: String,
    },
    /// A program of the study did not start, since it forwards packets and this loadline does not.
    #[error("`{name}` did not start: {why}")]
    NotBuilt {
        /// Its name in the study.
        name: String,
        /// What it said.
        why: String,
    },
    /// A command that had to succeed did not.
    #[error("`{command}` failed: {why}")]
    Command {
        /// With its arguments.
        command: String,
        /// What it said.
        why: String,
    },
    /// The study has no such row.
    #[error("the study has no row `{row}`; its rows are {known}")]
    NoSuchRow {
        /// The row that was asked for.
        row: String,
        /// Rows of the study.
        known: String,
    },
    /// It was told to end.
    #[error("interrupted")]
    Interrupted,
}

/// How many steps the chosen rows have, for progress.
#[must_use]
pub fn steps(study: &Study, rows: &[String]) -> usize {
    let places = Places::default();
    rows.iter().map(|row| study.plan(row, &places).steps.len()).sum()
}

/// Runs the rows of a study, one after another. Ends early, leaving no process, when `stop` is
/// set, there is no lab, or a row that is no peer cannot be run; what was measured by then is kept.
///
/// A row whose hosts are on an Ethernet is left out where this user may not make one, and one that
/// forwards packets where this loadline was built without.
///
/// # Errors
/// [`RunError`] where it ended early and nothing was measured, or where there are no rows but those
/// that are left out so.
pub fn run(
    study: &Study,
    setup: &Setup,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Event),
) -> Result<Measured, RunError> {
    let started = clock::now();
    folder::begin(&setup.folder, study)?;
    let mut conditions = Conditions {
        seed: setup.seed,
        started_unix_ms: folder::unix_ms(),
        environment: environment::environment(study),
        ..Conditions::default()
    };
    let (mut phases, mut told) = (Vec::new(), BTreeSet::new());
    let (mut forbidden, mut ended_early) = (None::<RunError>, None::<RunError>);
    for row in study.rows() {
        let mut row = row.clone();
        let mut reason = left_out(study, setup, &row);
        reason = reason.or_else(|| ended_early.as_ref().map(RunError::to_string));
        if let (None, Err(error)) = (&reason, may_run(study, &row)) {
            reason = Some(error.to_string());
            forbidden = Some(error.into());
        }
        if let Some(reason) = reason {
            tell(Event::Skipped { title: row.title.clone(), reason: reason.clone() });
            row.skipped = Some(reason);
            conditions.rows.push(row);
            continue;
        }
        let (conditions, told) = (&mut conditions, &mut told);
        let own = Vec::new();
        let mut begun = RowRun { study, setup, stop, tell, conditions, told, phases: own };
        let failed = begun.run_until_valid(&row).err();
        let own = begun.phases;
        match failed {
            Some(error) if ends_row_alone(&row, &error) => {
                let reason = error.to_string();
                tell(Event::Skipped { title: row.title.clone(), reason: reason.clone() });
                row.skipped = Some(reason);
                if matches!(error, RunError::NotBuilt { .. }) {
                    forbidden = Some(error);
                }
            }
            failed => {
                row.skipped = failed.as_ref().filter(|_| own.is_empty()).map(RunError::to_string);
                phases.extend(own);
                ended_early = failed;
            }
        }
        conditions.rows.push(row);
    }
    conditions.elapsed_s = clock::now().since(started).as_secs_f64();
    match (ended_early, forbidden) {
        (Some(error), _) if phases.iter().all(|phase| phase.skipped) => Err(error),
        (None, Some(error)) if conditions.rows.iter().all(|row| row.skipped.is_some()) => {
            Err(error)
        }
        (ended_early, _) => Ok(Measured { conditions, phases, ended_early }),
    }
}

/// Whether other rows are run after this.
fn ends_row_alone(row: &StudyRow, error: &RunError) -> bool {
    matches!(error, RunError::NotBuilt { .. }) || row.peer.is_some() && !ends_all(error)
}

/// Whether no further row can be run after this, whichever row it was.
fn ends_all(error: &RunError) -> bool {
    matches!(error, RunError::Interrupted | RunError::Lab(LabError::Refused(_)))
}

/// Whether this user has the rights that the lab of a row takes.
fn may_run(study: &Study, row: &StudyRow) -> Result<(), LabError> {
    Lab::check_rights(&study.plan(&row.name, &Places::default()).topology)
}

/// Why a row is not run; none where it is.
fn left_out(study: &Study, setup: &Setup, row: &StudyRow) -> Option<String> {
    if !setup.rows.contains(&row.name) {
        return Some(match &row.peer {
            Some(peer) => format!("not asked for; --peer {peer} runs it"),
            None => "not asked for".to_owned(),
        });
    }
    let peer = row.peer.as_ref()?;
    missing(study, from_ref(peer))
}

/// What is said of the first of these tools that is not installed.
fn missing(study: &Study, tools: &[String]) -> Option<String> {
    let named = |tool: &&super::Tool| tools.contains(&tool.name);
    let tool =
        study.tools().iter().filter(named).find(|tool| {
            tool.version.first().is_none_or(|program| find_program(program).is_none())
        })?;
    Some(format!("{} is not installed: {}", tool.name, tool.install))
}

struct RowRun<'r> {
    study: &'r Study,
    setup: &'r Setup,
    stop: &'r AtomicBool,
    tell: &'r mut dyn FnMut(Event),
    conditions: &'r mut Conditions,
    /// Limitations already told for labs of earlier rows.
    told: &'r mut BTreeSet<String>,
    /// Its runs so far.
    phases: Vec<StudyPhase>,
}

impl RowRun<'_> {
    /// All runs of a row: again while it lacks valid ones, as often as the setup allows, and later
    /// each time. Those that are valid count, whichever time they were made.
    fn run_until_valid(&mut self, row: &StudyRow) -> Result<(), RunError> {
        for time in 0..=self.setup.again {
            let title = row.title.clone();
            (self.tell)(match time {
                0 => Event::Row { title },
                _ => Event::Again { title, steps: steps(self.study, from_ref(&row.name)) },
            });
            sleep(BUSY_PAUSE * u64::from(time.pow(2)), self.stop)?;
            self.run(&row.name)?;
            if !self.study.lacks_valid_runs(time as usize + 1, &self.phases) {
                break;
            }
        }
        Ok(())
    }

    fn run(&mut self, row: &str) -> Result<(), RunError> {
        let (plan, folder) = prepare(self.study, self.setup, row, self.stop)?;
        let (lab, delays) = self.start_true(&plan)?;
        // Somebody may want to look; where the name is taken this lab goes on without one.
        let _announced = lab.announce(self.study.short_name(), self.study.title());
        self.note(&lab);
        self.tell_what_is_missing(&lab);
        let (plan, folder, stop) = (&plan, &folder, self.stop);
        let mut site = RunningRow { lab, plan, folder, stop, running: BTreeMap::new() };
        site.start_all()?;
        let ended = self.steps(plan, &mut site, &delays);
        self.conditions.delays.extend(delays);
        ended?;
        site.end()
    }

    /// A lab whose delays are as they should be; the last of a few where none is.
    fn start_true(&self, plan: &Plan) -> Result<(Lab, Vec<StudyDelay>), RunError> {
        let mut tries = 1;
        loop {
            check_stop(self.stop)?;
            let lab = start(self.setup, plan)?;
            let delays = delay::measure(&lab, plan, self.stop)?;
            let is_off = |step: &Step| delay::fault(&delays, &step.tolerance).is_some();
            if tries == LABS_MAX || !plan.steps.iter().any(is_off) {
                return Ok((lab, delays));
            }
            tries += 1;
        }
    }

    fn steps(
        &mut self,
        plan: &Plan,
        site: &mut RunningRow<'_>,
        delays: &[StudyDelay],
    ) -> Result<(), RunError> {
        for (number, step) in plan.steps.iter().enumerate() {
            let ran = self.step(site, step, number + 1);
            let mut phase = ran.inspect_err(|error| self.skip(plan, number, error))?;
            phase.faults.extend(delay::fault(delays, &step.tolerance));
            let fault = phase.failed.iter().chain(&phase.faults).next().cloned();
            (self.tell)(Event::Done { fault });
            if step.command.is_some() {
                self.phases.push(phase);
            }
        }
        Ok(())
    }

    fn step(
        &mut self,
        site: &mut RunningRow<'_>,
        step: &Step,
        number: usize,
    ) -> Result<StudyPhase, RunError> {
        check_stop(self.stop)?;
        (self.tell)(Event::Step { title: format!("{}: {}", site.plan.row, step.title()) });
        match missing(self.study, &step.needs) {
            Some(missing) => Ok(phase::not_run(site.plan, step, missing)),
            None => phase::run(site, step, number),
        }
    }

    /// Notes the steps from this one on as not run, but for those that an earlier time made.
    fn skip(&mut self, plan: &Plan, from: usize, why: &RunError) {
        for step in plan.steps.iter().skip(from).filter(|step| step.command.is_some()) {
            let is_it = |run: &StudyPhase| {
                (&run.phase, &run.at, run.repeat) == (&step.phase, &step.at, step.repeat)
            };
            if !self.phases.iter().any(is_it) {
                self.phases.push(phase::not_run(plan, step, why.to_string()));
            }
        }
    }

    fn tell_what_is_missing(&mut self, lab: &Lab) {
        for note in lab.notes() {
            if self.told.insert(note.clone()) {
                (self.tell)(Event::Without { note: note.clone() });
            }
        }
    }

    /// What is worth knowing of the lab itself.
    fn note(&mut self, lab: &Lab) {
        let environment = &mut self.conditions.environment;
        let rights = if lab.rootless() { "an ordinary user" } else { "root" };
        environment.insert("lab run by".to_owned(), rights.to_owned());
        let scheduling = format!("{:?}", lab.router().scheduling());
        environment.insert("router's thread".to_owned(), scheduling);
        if !lab.notes().is_empty() {
            environment.insert("lab does without".to_owned(), lab.notes().join("; "));
        }
    }
}

/// What loadline says where it is to forward packets and was built without clang.
pub const NOT_BUILT: &str = "this loadline was built without packet forwarding";

/// Most labs made for one row while a busy machine spoils their calibration.
const LABS_MAX: u32 = 3;
/// What keeps a machine busy is given 5 s to end, then 20 and 45.
const BUSY_PAUSE: Duration = Duration::from_secs(5);

/// The plan of a row, its folder and its files.
fn prepare(
    study: &Study,
    setup: &Setup,
    row: &str,
    stop: &AtomicBool,
) -> Result<(Plan, RowFolder), RunError> {
    let folder = RowFolder::make(&setup.folder, row)?;
    let places = Places {
        loadline: setup.program.display().to_string(),
        run: folder.path().to_owned(),
        seed: setup.seed,
    };
    let plan = study.plan(row, &places);
    folder.write_files(&plan)?;
    for command in &plan.prepare {
        folder.prepare(command, stop)?;
    }
    Ok((plan, folder))
}

/// The lab of a plan, without programs.
fn start(setup: &Setup, plan: &Plan) -> Result<Lab, RunError> {
    let program = Some(setup.program.clone());
    let options = Options { program, machines: plan.machines.clone(), ..Options::default() };
    Ok(Lab::start(&plan.topology, &options)?)
}

/// Ends what is under way where the study is to end.
fn check_stop(stop: &AtomicBool) -> Result<(), RunError> {
    match stop.load(Ordering::Relaxed) {
        true => Err(RunError::Interrupted),
        false => Ok(()),
    }
}

/// Sleeps, unless the study is to end.
fn sleep(time: Duration, stop: &AtomicBool) -> Result<(), RunError> {
    let until = clock::now() + time;
    loop {
        check_stop(stop)?;
        let left = until.since(clock::now());
        if left == Duration::ZERO {
            return Ok(());
        }
        thread::sleep(left.min(STOPS_WITHIN).to_std());
    }
}

/// An interrupt is answered this soon.
const STOPS_WITHIN: Duration = Duration::from_millis(50);

/// A failure of the file system, with what was to be done.
fn file_error(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> RunError {
    let what = format!("{what} {}", path.display());
    move |source| RunError::File { what, source }
}
