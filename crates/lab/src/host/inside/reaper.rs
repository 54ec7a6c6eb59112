//! The programs of a host from their start to their end.
//!
//! The first process of a host is the parent of every orphan in it, so it waits for whoever ends;
//! those that the lab asked for have their end written into their pipe.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Write},
    process::Command,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use nix::{
    errno::Errno,
    sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid},
    unistd::Pid,
};

use super::super::child::Exit;

/// The programs that run.
pub(super) struct Reaper(Arc<Programs>);

struct Programs {
    /// Where to write how each ended.
    ends: Mutex<BTreeMap<i32, File>>,
    began: Condvar,
}

impl Reaper {
    /// Waits for programs to end, in a thread of its own.
    pub(super) fn new() -> io::Result<Self> {
        let programs =
            Arc::new(Programs { ends: Mutex::new(BTreeMap::new()), began: Condvar::new() });
        let waiting = Arc::clone(&programs);
        thread::Builder::new().name("reaper".to_owned()).spawn(move || waiting.reap())?;
        Ok(Self(programs))
    }

    /// Starts a program; `end` is told how it ended.
    pub(super) fn spawn(&self, command: &mut Command, end: File) -> io::Result<u32> {
        // Nobody is reaped meanwhile: a program that cannot be executed is `spawn`'s own to wait
        // for, and one that ends at once must be known first.
        let mut ends = self.0.ends();
        let pid = command.spawn()?.id();
        ends.insert(pid.cast_signed(), end);
        self.0.began.notify_one();
        Ok(pid)
    }
}

impl Programs {
    fn reap(&self) {
        let peek = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        loop {
            match waitid(Id::All, peek) {
                Ok(status) => self.bury(status.pid()),
                Err(Errno::ECHILD) => self.wait_for_one(),
                Err(_) => {}
            }
        }
    }

    fn bury(&self, pid: Option<Pid>) {
        let mut ends = self.ends();
        let Some(pid) = pid else { return };
        let Ok(status) = waitpid(pid, Some(WaitPidFlag::WNOHANG)) else { return };
        let exit = match status {
            WaitStatus::Exited(_, code) => Exit::Code(u8::try_from(code).unwrap_or(u8::MAX)),
            WaitStatus::Signaled(_, signal, _) => {
                Exit::Signal(u8::try_from(signal as i32).unwrap_or(u8::MAX))
            }
            _ => return,
        };
        if let Some(mut end) = ends.remove(&pid.as_raw()) {
            // Nobody may be interested any more.
            let _ = end.write_all(&exit.to_bytes());
        }
    }

    /// There are no children: nothing can end before one begins.
    fn wait_for_one(&self) {
        let ends = self.ends();
        let wait = self.began.wait_while(ends, |ends| ends.is_empty());
        drop(wait.unwrap_or_else(PoisonError::into_inner));
    }

    fn ends(&self) -> MutexGuard<'_, BTreeMap<i32, File>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
