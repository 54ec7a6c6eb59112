//! The processes that are watched, found by number, by name, or as children of those.
//!
//! `/proc` lists every process; one that was looked at once and is nobody's child is not looked at
//! again, so that following children costs a directory listing and not a file for each process.
//! A process is the same one as before only where its start is the same: numbers are used again.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
};

use loadline_core::time::Duration;
use loadline_linux::proc::{self, Stat, text};
use loadline_measure::record::{Process, Role};
use rustix::param::page_size;

use super::{Subject, WatchError, Who};

/// What one process has used when it was read.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessReading {
    pub(super) user: u64,
    pub(super) system: u64,
    /// Clock ticks by thread; empty where there is but one.
    pub(super) by_thread: BTreeMap<u32, u64>,
    pub(super) threads: u64,
    pub(super) rss_bytes: u64,
    pub(super) descriptors: Option<u64>,
}

/// Processes to watch, and those that were found.
pub(super) struct Processes {
    subjects: Vec<Subject>,
    /// All processes ever followed, in that order.
    known: Vec<Process>,
    /// Living processes by id: place in `known`, and start time.
    living: BTreeMap<u32, (usize, u64)>,
    /// Ids of living processes that are not watched.
    strangers: HashSet<u32>,
    not_seen: Vec<String>,
}

impl Processes {
    /// The processes that exist now, before the first reading.
    pub(super) fn find(subjects: &[Subject]) -> Result<Self, WatchError> {
        let mut found = Self {
            subjects: subjects.to_vec(),
            known: Vec::new(),
            living: BTreeMap::new(),
            strangers: HashSet::new(),
            not_seen: Vec::new(),
        };
        for subject in subjects {
            if let Who::Pid(pid) = subject.who
                && !found.living.contains_key(&pid)
            {
                let stat = stat_of(pid).ok_or(WatchError::NoProcess { pid })?;
                found.follow(pid, &stat, subject.role, Duration::ZERO);
            }
        }
        Ok(found)
    }

    /// Looks for new ones and reads all that live.
    pub(super) fn read(&mut self, at: Duration) -> BTreeMap<u32, ProcessReading> {
        let listed = pids();
        self.strangers.retain(|pid| listed.contains(pid));
        let mut readings = BTreeMap::new();
        // Numbers rise, so that parents mostly come before their children.
        for pid in listed {
            if self.strangers.contains(&pid) {
                continue;
            }
            if let Some(reading) = stat_of(pid).and_then(|stat| self.one(pid, &stat, at)) {
                readings.insert(pid, reading);
            }
        }
        for (_, (place, _)) in self.living.extract_if(.., |pid, _| !readings.contains_key(pid)) {
            self.known[place].ended = true;
        }
        readings
    }

    /// Reads a process that is ours or becomes so; puts any other among the strangers.
    fn one(&mut self, pid: u32, stat: &Stat, at: Duration) -> Option<ProcessReading> {
        if self.living.get(&pid).is_none_or(|(_, start)| *start != stat.start) {
            let Some(role) = self.role_of(stat) else {
                self.strangers.insert(pid);
                return None;
            };
            self.follow(pid, stat, role, at);
        }
        let (place, _) = self.living[&pid];
        let process = &mut self.known[place];
        // What has ended and was not asked for keeps its times, and has let go of the rest.
        process.ended = matches!(stat.state, 'Z' | 'X');
        process.until = at;
        if process.name != stat.name {
            process.name.clone_from(&stat.name);
            process.role = named(&self.subjects, &stat.name).unwrap_or(process.role);
        }
        let by_thread = if stat.threads <= 1 { BTreeMap::new() } else { threads(pid) };
        Some(ProcessReading {
            user: stat.user,
            system: stat.system,
            by_thread,
            threads: stat.threads,
            rss_bytes: stat.rss_pages * page_size() as u64,
            descriptors: descriptors(pid),
        })
    }

    /// The role by the process's own name, or its parent's role.
    fn role_of(&self, stat: &Stat) -> Option<Role> {
        let parents = self.living.get(&stat.parent).map(|(place, _)| self.known[*place].role);
        named(&self.subjects, &stat.name).or(parents)
    }

    fn follow(&mut self, pid: u32, stat: &Stat, role: Role, at: Duration) {
        if let Some((place, _)) = self.living.insert(pid, (self.known.len(), stat.start)) {
            self.known[place].ended = true;
        }
        let limits = text(format!("/proc/{pid}/limits"));
        let name = stat.name.clone();
        if descriptors(pid).is_none() && stat.state != 'Z' {
            self.not_seen.push(format!("open descriptors of {name}[{pid}]: it is another user's"));
        }
        if elsewhere(pid) {
            self.not_seen.push(format!(
                "sockets and traffic of {name}[{pid}]: it is in another network namespace"
            ));
        }
        self.known.push(Process {
            pid,
            name,
            role,
            from: at,
            until: at,
            ended: false,
            descriptor_limit: limits.and_then(|text| proc::descriptor_limit(&text)),
        });
    }

    /// Whether somebody was followed and none of them lives.
    pub(super) fn all_ended(&self) -> bool {
        !self.known.is_empty() && self.living.values().all(|(place, _)| self.known[*place].ended)
    }

    /// What could not be read, and names that no process had.
    pub(super) fn not_seen(&self) -> Vec<String> {
        let mut not_seen = self.not_seen.clone();
        for subject in &self.subjects {
            if let Who::Name(name) = &subject.who
                && !self.known.iter().any(|process| process.name == *name)
            {
                not_seen.push(format!("`{name}`: no process of this name was there"));
            }
        }
        not_seen
    }

    pub(super) fn into_records(self) -> Vec<Process> {
        self.known
    }
}

fn named(subjects: &[Subject], name: &str) -> Option<Role> {
    let is_it = |subject: &&Subject| matches!(&subject.who, Who::Name(wanted) if wanted == name);
    subjects.iter().find(is_it).map(|subject| subject.role)
}

/// Every process of the machine, rising.
fn pids() -> BTreeSet<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn stat_of(pid: u32) -> Option<Stat> {
    proc::stat(&text(format!("/proc/{pid}/stat"))?)
}

/// Clock ticks of each thread, of at most [`MOST_THREADS`].
fn threads(pid: u32) -> BTreeMap<u32, u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let ticks = |entry: fs::DirEntry| {
        let tid = entry.file_name().to_str()?.parse().ok()?;
        let stat = proc::stat(&text(format!("/proc/{pid}/task/{tid}/stat"))?)?;
        Some((tid, stat.user + stat.system))
    };
    entries.take(MOST_THREADS).filter_map(ticks).collect()
}

/// Linux 6.2 and later tell the number as the size of the directory; before, they are counted.
fn descriptors(pid: u32) -> Option<u64> {
    let path = format!("/proc/{pid}/fd");
    match fs::metadata(&path).map(|about| about.len()) {
        Ok(0) | Err(_) => Some(fs::read_dir(&path).ok()?.count() as u64),
        Ok(count) => Some(count),
    }
}

/// Whether it has a network of its own; not where that cannot be read.
fn elsewhere(pid: u32) -> bool {
    let own = fs::read_link("/proc/self/ns/net");
    let its = fs::read_link(format!("/proc/{pid}/ns/net"));
    matches!((own, its), (Ok(own), Ok(its)) if own != its)
}

/// Each costs a file to read; a process with more is not limited by a single one of them.
const MOST_THREADS: usize = 256;
