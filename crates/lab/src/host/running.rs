//! Labs that run on, for other processes of the user to find, join and end.
//!
//! A lab that is announced has a file with its name under `$XDG_RUNTIME_DIR/loadline/labs` (or a
//! directory of the user's own in the directory for temporary files), which tells the process that
//! holds it. A file whose process has gone is a lab that was killed; whoever looks removes it.

use std::{
    fs, io,
    net::IpAddr,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    process,
    time::SystemTime,
};

use loadline_core::time::Duration;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use serde::{Deserialize, Serialize};

use super::{Entered, HostError, Lab};

/// A lab that runs, as other processes see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// The name it was announced under.
    pub name: String,
    /// What it was made from, for people to tell it apart.
    pub source: String,
    /// The process that holds it.
    pub pid: u32,
    /// When that process began, in the kernel's ticks: another one of the same number did not.
    began: u64,
    /// When it was announced, in seconds since 1970.
    pub since_unix: u64,
    /// Its hosts, in the order of the topology.
    pub hosts: Vec<RunningHost>,
}

/// A host of a lab that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningHost {
    /// What it is called.
    pub name: String,
    /// All its addresses.
    pub addresses: Vec<IpAddr>,
    /// Its first process.
    pub init: u32,
}

/// An announcement; dropping it takes it back.
#[derive(Debug)]
pub struct Announced {
    file: PathBuf,
}

/// Why a lab was not announced, found or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunningError {
    /// The directory or a file in it is not to be had.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Somebody else could write there.
    #[error("{} is another user's; set XDG_RUNTIME_DIR to a directory of yours", path.display())]
    Foreign {
        /// Path of the directory.
        path: PathBuf,
    },
    /// A lab cannot be called so.
    #[error("a lab is called `{name}`; a name is letters, digits, `-` and `_`, like `two-regions`")]
    Name {
        /// The name that was given.
        name: String,
    },
    /// A lab of the name runs.
    #[error("a lab called `{name}` runs already (process {pid}); end it, or choose another name")]
    Taken {
        /// The name.
        name: String,
        /// The process that holds it.
        pid: u32,
    },
    /// No lab of the name runs.
    #[error("no lab called `{name}` runs; {known}")]
    NoSuchLab {
        /// The name.
        name: String,
        /// Labs that run.
        known: String,
    },
    /// No lab was named, and there is not exactly one.
    #[error("it must be said which lab is meant; {known}")]
    Which {
        /// Which run.
        known: String,
    },
    /// The lab has no such host.
    #[error("lab `{lab}` has no host `{name}`; its hosts are {known}")]
    NoSuchHost {
        /// Name of the lab.
        lab: String,
        /// The host's name.
        name: String,
        /// Those that are.
        known: String,
    },
    /// The process that holds it cannot be ended.
    #[error("cannot end process {pid}, which holds lab `{lab}`: {source}")]
    End {
        /// Name of the lab.
        lab: String,
        /// Id of the process that holds it.
        pid: u32,
        /// What the system says.
        source: io::Error,
    },
    /// A host cannot be entered.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl Lab {
    /// Lets other processes of this user find the lab under a name, until the announcement is
    /// dropped. `source` is told to people with it.
    ///
    /// # Errors
    /// [`RunningError::Name`], [`RunningError::Taken`], or the file system's.
    pub fn announce(&self, name: &str, source: &str) -> Result<Announced, RunningError> {
        let directory = directory()?;
        let hosts = self.hosts().iter().map(|host| RunningHost {
            name: host.name().to_owned(),
            addresses: host.addresses().to_vec(),
            init: host.init(),
        });
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let running = Running {
            name: name.to_owned(),
            source: source.to_owned(),
            pid: process::id(),
            began: began(process::id()).unwrap_or(0),
            since_unix: unix.map_or(0, |since| since.as_secs()),
            hosts: hosts.collect(),
        };
        running.announce_in(&directory)
    }
}

impl Running {
    /// Moves this process onto one of the hosts: see [`Entered::host`].
    ///
    /// # Errors
    /// [`RunningError::NoSuchHost`] or [`RunningError::Host`].
    pub fn enter(&self, host: &str) -> Result<Entered, RunningError> {
        let found = self.hosts.iter().find(|one| one.name == host);
        let Some(found) = found else {
            let known: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
            let (lab, name) = (self.name.clone(), host.to_owned());
            return Err(RunningError::NoSuchHost { lab, name, known: known.join(", ") });
        };
        Ok(Entered::host(&found.name, found.init)?)
    }

    /// Asks the process that holds the lab to end, and kills it where it does not within `grace`;
    /// everything on the hosts ends with it.
    ///
    /// # Errors
    /// [`RunningError::End`]. That it has ended already is none.
    pub fn end(&self, grace: Duration) -> Result<(), RunningError> {
        let (lab, pid) = (self.name.clone(), self.pid);
        self.end_process(grace).map_err(|source| RunningError::End { lab, pid, source })?;
        // Where it was killed, its announcement is still there.
        if let Ok(directory) = directory() {
            list_in(&directory)?;
        }
        Ok(())
    }

    fn end_process(&self, grace: Duration) -> io::Result<()> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return Ok(());
        };
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(rustix::io::Errno::SRCH) => return Ok(()),
            other => other?,
        };
        if !self.is_alive() {
            return Ok(());
        }
        for signal in [Signal::TERM, Signal::KILL] {
            match pidfd_send_signal(&process, signal) {
                Err(rustix::io::Errno::SRCH) => return Ok(()),
                other => other?,
            }
            let limit = Timespec::try_from(grace.to_std()).map_err(io::Error::other)?;
            if poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit))? > 0 {
                return Ok(());
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    fn is_alive(&self) -> bool {
        began(self.pid) == Some(self.began)
    }

    fn announce_in(&self, directory: &Path) -> Result<Announced, RunningError> {
        let usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if self.name.is_empty() || !self.name.bytes().all(usual) {
            return Err(RunningError::Name { name: self.name.clone() });
        }
        let taken = list_in(directory)?.into_iter().find(|lab| lab.name == self.name);
        if let Some(Running { name, pid, .. }) = taken {
            return Err(RunningError::Taken { name, pid });
        }
        let file = directory.join(format!("{}.json", self.name));
        // Whoever looks meanwhile finds all of it or nothing.
        let draft = directory.join(format!("{}.draft-{}", self.name, self.pid));
        let write = || {
            fs::write(&draft, serde_json::to_vec_pretty(self)?)?;
            fs::rename(&draft, &file)
        };
        write().map_err(|source| RunningError::File { path: file.clone(), source })?;
        Ok(Announced { file })
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        // Where it cannot be removed now, whoever looks next does it.
        let _ = fs::remove_file(&self.file);
    }
}

/// The labs of this user that run, by name.
///
/// # Errors
/// Where the directory of announcements cannot be read.
pub fn running() -> Result<Vec<Running>, RunningError> {
    list_in(&directory()?)
}

/// The lab of that name; where `name` is absent, the only one that runs.
///
/// # Errors
/// [`RunningError::NoSuchLab`], or [`RunningError::Which`].
pub fn announced(name: Option<&str>) -> Result<Running, RunningError> {
    choose(running()?, name)
}

fn choose(mut labs: Vec<Running>, name: Option<&str>) -> Result<Running, RunningError> {
    let found = match name {
        Some(name) => labs.iter().position(|lab| lab.name == name),
        None => (labs.len() == 1).then_some(0),
    };
    if let Some(found) = found {
        return Ok(labs.swap_remove(found));
    }
    let names: Vec<&str> = labs.iter().map(|lab| lab.name.as_str()).collect();
    let known = match names.as_slice() {
        [] => "none runs: start one with `loadline lab up`".to_owned(),
        names => format!("choose among {}", names.join(", ")),
    };
    Err(match name {
        Some(name) => RunningError::NoSuchLab { name: name.to_owned(), known },
        None => RunningError::Which { known },
    })
}

fn list_in(directory: &Path) -> Result<Vec<Running>, RunningError> {
    let unreadable = |source| RunningError::File { path: directory.to_owned(), source };
    let mut labs = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let lab = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        match lab.filter(Running::is_alive) {
            Some(lab) => labs.push(lab),
            // It was killed, or is of another version; in both cases nobody can use it.
            None => drop(fs::remove_file(&path)),
        }
    }
    labs.sort_by(|a: &Running, b| a.name.cmp(&b.name));
    Ok(labs)
}

/// Where labs are announced, made if need be.
fn directory() -> Result<PathBuf, RunningError> {
    let user = rustix::process::geteuid().as_raw();
    let base = std::env::var_os("XDG_RUNTIME_DIR").filter(|base| Path::new(base).is_absolute());
    let base = base.map_or_else(
        || std::env::temp_dir().join(format!("loadline-{user}")),
        |base| PathBuf::from(base).join("loadline"),
    );
    for path in [&base, &base.join("labs")] {
        let made = fs::DirBuilder::new().mode(0o700).create(path);
        let usable = match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            // A link in its place would lead elsewhere.
            _ => fs::symlink_metadata(path),
        };
        let there = usable.map_err(|source| RunningError::File { path: path.clone(), source })?;
        if there.uid() != user || !there.is_dir() {
            return Err(RunningError::Foreign { path: path.clone() });
        }
    }
    Ok(base.join("labs"))
}

/// When a process began, in ticks since the machine did; none where there is no such process.
fn began(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    // A process that has ended and that nobody has waited for is not there any more.
    let state = words.next()?;
    if state == "Z" || state == "X" { None } else { words.nth(BEFORE_START)?.parse().ok() }
}

/// Words of `/proc/PID/stat` between the state and the start.
const BEFORE_START: usize = 18;

#[cfg(test)]
mod tests {
    use super::*;

    fn lab(name: &str, pid: u32) -> Running {
        Running {
            name: name.to_owned(),
            source: "three-regions.toml".to_owned(),
            pid,
            began: began(pid).unwrap_or(0),
            since_unix: 0,
            hosts: Vec::new(),
        }
    }

    #[test]
    fn a_lab_is_found_as_long_as_it_is_announced() {
        let directory = tempfile::tempdir().unwrap();
        let one = lab("one", process::id());
        let announced = one.announce_in(directory.path()).unwrap();
        assert_eq!(list_in(directory.path()).unwrap(), [one]);
        drop(announced);
        assert_eq!(list_in(directory.path()).unwrap(), []);
    }

    #[test]
    fn a_name_is_given_once_and_is_one_for_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let one = lab("one", process::id());
        let _announced = one.announce_in(directory.path()).unwrap();
        let said = one.announce_in(directory.path()).unwrap_err().to_string();
        assert!(said.contains("runs already"), "{said}");
        let said = lab("../one", 1).announce_in(directory.path()).unwrap_err().to_string();
        assert!(said.contains("like `two-regions`"), "{said}");
    }

    #[test]
    fn an_announcement_whose_process_has_gone_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let gone = Running { began: 1, ..lab("gone", process::id()) };
        let announced = gone.announce_in(directory.path()).unwrap();
        assert_eq!(list_in(directory.path()).unwrap(), []);
        assert!(!announced.file.exists());
    }

    #[test]
    fn the_only_lab_needs_no_name_but_one_of_two_does() {
        let (one, two) = (lab("one", 1), lab("two", 1));
        assert_eq!(choose(vec![one.clone()], None).unwrap(), one);
        assert_eq!(choose(vec![one.clone(), two.clone()], Some("two")).unwrap(), two);
        let said = choose(vec![one, two], None).unwrap_err().to_string();
        assert!(said.contains("choose among one, two"), "{said}");
        let said = choose(Vec::new(), None).unwrap_err().to_string();
        assert!(said.contains("loadline lab up"), "{said}");
    }
}
