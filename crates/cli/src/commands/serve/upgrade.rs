//! An upgrade: by SIGUSR2 or at the control socket.

use std::{
    env, fs,
    future::{Future, pending},
    io,
    path::{Path, PathBuf},
    pin::Pin,
};

use anyhow::{anyhow, ensure};
use loadline_core::time::Duration;
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::UnixStream;

use super::{handover::Successor, notify::notify};

/// It waits to begin, or for the new process to serve. Dropping it ends that process.
pub(super) struct Upgrade {
    /// Who waits to be told; none where a signal asked.
    asker: Option<UnixStream>,
    under_way: Option<Pin<Box<dyn Future<Output = anyhow::Result<u32>>>>>,
    /// What this process was told since the new one was given what holds.
    missed: Vec<Signal>,
}

impl Upgrade {
    pub(super) fn new(asker: Option<UnixStream>) -> Self {
        Self { asker, under_way: None, missed: Vec::new() }
    }

    /// Has one begin for whoever asks, unless one is under way already, which is told.
    pub(super) fn ask(upgrade: &mut Option<Self>, asker: UnixStream) {
        let asked = Self::new(Some(asker));
        if upgrade.is_some() {
            asked.answer("busy\n");
        } else {
            *upgrade = Some(asked);
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.under_way.is_some()
    }

    /// Begins with a process that was started, or could not be.
    pub(super) fn begin(&mut self, started: anyhow::Result<Successor>) {
        self.under_way = Some(Box::pin(async { started?.serving().await }));
    }

    /// Remembers a signal that the new process should have had, if one has been started.
    pub(super) fn miss(upgrade: &mut Option<Self>, signal: Signal) {
        if let Some(upgrade) = upgrade.as_mut().filter(|it| it.has_begun())
            && !upgrade.missed.contains(&signal)
        {
            upgrade.missed.push(signal);
        }
    }

    /// Sends the new process what it should have had.
    pub(super) fn pass_signals(&self, process: u32) {
        let process = i32::try_from(process).ok().and_then(Pid::from_raw);
        for signal in &self.missed {
            // Where it has ended already there is nobody to tell.
            process.map(|process| kill_process(process, *signal));
        }
    }

    /// Waits until the new process serves: its id; for ever where it has not begun. May be given
    /// up and called again.
    pub(super) async fn done(&mut self) -> anyhow::Result<u32> {
        match &mut self.under_way {
            Some(under_way) => under_way.await,
            None => pending().await,
        }
    }

    /// Tells whoever asked that this process serves, and how long the one before it may go on.
    pub(super) fn succeed(self, new: u32, drain: Duration) {
        let old = std::process::id();
        self.answer(&format!(
            "ok process {new} serves; process {old} ends when its connections have, or after \
             {drain}\n"
        ));
    }

    /// Tells whoever asked, and the process manager, that this process goes on, and why.
    pub(super) fn fail(self, why: &str) {
        notify(&format!("STATUS=not upgraded: {}", why.replace('\n', " ")));
        self.answer(&format!("error {why}\n"));
    }

    /// Tells whoever asked.
    pub(super) fn answer(self, text: &str) {
        // It is less than a socket takes at once, and whoever asked may have gone.
        let _ = self.asker.map(|asker| asker.try_write(text.as_bytes()));
    }
}

/// The program of the process that follows this one.
///
/// # Errors
/// Why none can.
pub(super) fn ensure_possible(
    program: &io::Result<PathBuf>,
    forwards: bool,
) -> anyhow::Result<&Path> {
    ensure!(!forwards, "packet forwarding cannot be passed on: start loadline anew");
    let is_first = std::process::id() == 1;
    ensure!(!is_first, "process 1 ends its container when it ends: start another container");
    program.as_deref().map_err(|error| anyhow!("{error}"))
}

/// Where the program is that an upgrade starts: by the name it was started with, where that is
/// known, for it may be a link that leads to another version later.
///
/// # Errors
/// The kernel's.
pub(super) fn program() -> io::Result<PathBuf> {
    let running = env::current_exe()?;
    let named = env::args_os().next().map(PathBuf::from);
    let named = named.filter(|path| path.components().count() > 1);
    let named = named.and_then(|path| Some(env::current_dir().ok()?.join(path)));
    let leads_here = |path: &PathBuf| fs::canonicalize(path).is_ok_and(|found| found == running);
    Ok(named.filter(leads_here).unwrap_or(running))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn of_two_who_ask_at_once_the_second_is_told_that_an_upgrade_is_under_way() {
        let ((first, mut asks), (second, mut asks_too)) =
            (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        for asker in [&first, &second] {
            asker.writable().await.unwrap();
        }
        let mut upgrade = None;
        Upgrade::ask(&mut upgrade, first);
        Upgrade::ask(&mut upgrade, second);
        let mut told = String::new();
        asks_too.read_to_string(&mut told).await.unwrap();
        assert_eq!(told, "busy\n");
        upgrade.unwrap().answer("ok\n");
        told.clear();
        asks.read_to_string(&mut told).await.unwrap();
        assert_eq!(told, "ok\n", "the first waits for the outcome");
    }
}
