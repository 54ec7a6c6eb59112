//! `loadline watch`: is it CPU or network? What a machine's resources do while a command runs.
//!
//! The sampler is `loadline_load::watch`, the rules are `loadline_measure::bottleneck`; here is who
//! is watched, the command that runs meanwhile ([`command`]) and the page ([`page`]). `bench
//! --watch` uses [`beside`] and [`judged`] for the same figures on the axis of a load run.

mod command;
mod page;

use std::{ffi::OsString, path::PathBuf, process::ExitCode, str::FromStr};

use loadline_core::time::Duration;
use loadline_load::watch::{
    NetLimit, Subject, SubjectError, WatchError, WatchPlan, Watcher, Who, subjects,
};
use loadline_measure::{
    bottleneck,
    record::{Document, LoadRecord, Record, ResourceRecord, Role},
};

use super::output_file::{OutputFile, is_printed};
pub(crate) use page::write as write_page;

/// Watch the machine's resources while a command runs, and say which ran out first
///
/// Measures CPU of the machine, of each core and of the command with its children; softirq and
/// steal; traffic by interface; connections, ports, listen queues and file descriptors. The result
/// goes to the standard error when the command has ended; the output of the command is not touched.
#[derive(clap::Args)]
#[command(
    after_help = AFTER_HELP,
    group = clap::ArgGroup::new("whom").required(true).multiple(true)
        .args(["command", "pids", "roles"]),
)]
pub(crate) struct Args {
    /// Time between samples, at least 10ms [100ms, and 1s in runs over 10 s]
    #[arg(long, value_name = "TIME", value_parser = interval)]
    interval: Option<Duration>,
    /// Bandwidth limit of an interface, `180Mb/s` (all but lo) or `eth0=1Gb/s`; repeat for more
    #[arg(long = "net-limit", value_name = "[NAME=]RATE")]
    limits: Vec<NetLimit>,
    /// A running process, with its children; separate several by commas
    #[arg(long = "pid", value_name = "PID", value_delimiter = ',')]
    pids: Vec<u32>,
    /// The role of a process: lb=812, server=12,nginx, generator=..; repeat for more. Waits for a
    /// program that does not run yet
    #[arg(long = "role", value_name = "ROLE=PID|NAME")]
    roles: Vec<Subjects>,
    /// Without a command: duration of the watch [until SIGINT, SIGTERM, or all processes have
    /// ended]
    #[arg(short = 'd', long, value_name = "TIME", conflicts_with = "command")]
    duration: Option<Duration>,
    /// Print the record as JSON on the standard output instead of the page
    #[arg(long)]
    json: bool,
    /// Write the record as JSON to this file, beside the page; `-` prints it instead of the page
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The command to run, after `--`; it is the generator unless a role says otherwise
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Whom to watch, as one argument: `812`, `lb=812,server=12,13`, `nginx`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subjects(pub(crate) Vec<Subject>);

impl FromStr for Subjects {
    type Err = SubjectError;

    fn from_str(text: &str) -> Result<Self, SubjectError> {
        subjects(text).map(Self)
    }
}

impl Args {
    fn plan(&self) -> WatchPlan {
        let mut subjects: Vec<_> = self.roles.iter().flat_map(|roles| roles.0.clone()).collect();
        subjects.extend(self.pids.iter().map(|pid| one(*pid, Role::Watched)));
        let words = self.command.iter().map(|word| word.to_string_lossy());
        let target = if self.command.is_empty() {
            subjects.iter().map(name).collect::<Vec<_>>().join(", ")
        } else {
            words.collect::<Vec<_>>().join(" ")
        };
        WatchPlan { target, subjects, interval: self.interval, limits: self.limits.clone() }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let file = OutputFile::asked(args.output.as_deref())?;
    let plan = args.plan();
    let watched = if args.command.is_empty() {
        command::none(plan, args.duration).map(|record| (record, ExitCode::SUCCESS))
    } else {
        command::run(&args.command, plan)
    };
    let (record, code) = match watched {
        Ok(both) => both,
        Err(error) => return Ok(refused(&error)),
    };
    print(is_printed(args.json, args.output.as_deref()), file, record)?;
    Ok(code)
}

/// Watches a load run of this process, itself as the generator and `subjects` as what they are.
///
/// # Errors
/// Where one of them does not exist or nothing can be read.
pub(crate) fn beside(
    target: &str,
    subjects: &Subjects,
    limits: &[NetLimit],
) -> Result<Watcher, WatchError> {
    let mut subjects = subjects.0.clone();
    subjects.push(one(std::process::id(), Role::Generator));
    let (target, limits) = (target.to_owned(), limits.to_vec());
    Watcher::start(WatchPlan { target, subjects, interval: None, limits })
}

/// What was watched during a load run, judged together with it.
pub(crate) fn judged(watcher: Watcher, load: &LoadRecord) -> ResourceRecord {
    let mut record = watcher.finish();
    record.verdict = bottleneck::judge(&record, Some(load));
    record
}

fn one(pid: u32, role: Role) -> Subject {
    Subject { who: Who::Pid(pid), role }
}

fn name(subject: &Subject) -> String {
    match &subject.who {
        Who::Pid(pid) => format!("process {pid}"),
        Who::Name(name) => name.clone(),
    }
}

/// The page, or the document, or both.
fn print(json: bool, file: Option<OutputFile>, record: ResourceRecord) -> anyhow::Result<()> {
    let page = page::write(&record);
    let document = Document::new(Record::Resources(record));
    let document = serde_json::to_string_pretty(&document)? + "\n";
    let printed = match json {
        true => super::print(&document),
        false => super::print_aside(&page),
    };
    if let Some(mut file) = file {
        file.write(&document)?;
    }
    printed
}

/// A process that does not exist is wrong usage; a command that cannot be started is what shells
/// say 127 to.
fn refused(error: &anyhow::Error) -> ExitCode {
    let code = super::report_error(error);
    if error.is::<command::CannotStart>() {
        ExitCode::from(EXIT_NOT_STARTED)
    } else if matches!(error.downcast_ref(), Some(WatchError::NoProcess { .. })) {
        ExitCode::from(super::EXIT_USAGE)
    } else {
        code
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval: Duration = text.parse().map_err(|error| format!("{error}"))?;
    if interval < Duration::from_millis(10) {
        return Err("nothing in /proc is finer than `10ms`".into());
    }
    Ok(interval)
}

const EXIT_NOT_STARTED: u8 = 127;

const AFTER_HELP: &str = "\
Examples:
  loadline watch -- wrk -c 64 -d 30s http://127.0.0.1:8080/
  loadline watch --role lb=haproxy --role server=12,13 --net-limit 180Mb/s -- ./load.sh
  loadline watch --pid 812 --duration 60s -o run.json
  loadline watch --json --pid 812 --duration 10s | jq .verdict

A resource has run out where its mean over a window of 1 s, 5 % of the run or 3 samples,
whichever is longest, reaches: 95 % of a core for the busiest thread of a process, 97 % of all
cores, 90 % of one core for softirq, 10 % for steal, 90 % of the network limit given or of the
interface's speed. Ports and descriptors count at 95 % in one sample, a listen queue when it
overflows. What ran out first is named first.

It reads /proc of Linux: other users' descriptors and other network namespaces are not seen, and
said so. With --json, COMMAND's own output comes first on the standard output; -o keeps them
apart. SIGINT and SIGTERM go to COMMAND as well, and the page is printed when it has ended.

Exit codes: that of COMMAND, 128 + N where signal N ended it, 127 where it cannot be started;
without COMMAND 0. 1 wrong usage, also a process that does not exist; 2 nothing could be watched.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn plan(line: &[&str]) -> WatchPlan {
        let words = std::iter::once("watch").chain(line.iter().copied());
        Line::try_parse_from(words).map_err(|error| error.to_string()).unwrap().args.plan()
    }

    #[test]
    fn who_is_watched_comes_from_roles_and_numbers() {
        let plan = plan(&["--role", "lb=7", "--role=server=8,nginx", "--pid", "9,10"]);
        let of = |pid, role| one(pid, role);
        let nginx = Subject { who: Who::Name("nginx".into()), role: Role::Server };
        let right = [
            of(7, Role::LoadBalancer),
            of(8, Role::Server),
            nginx,
            of(9, Role::Watched),
            of(10, Role::Watched),
        ];
        assert_eq!(plan.subjects, right);
        assert_eq!(plan.target, "process 7, process 8, nginx, process 9, process 10");
    }

    #[test]
    fn a_command_keeps_its_own_switches() {
        let plan = plan(&["--interval", "50ms", "--", "wrk", "-d", "5s"]);
        assert_eq!(plan.target, "wrk -d 5s");
        assert_eq!(plan.interval, Some(Duration::from_millis(50)));
    }
}
