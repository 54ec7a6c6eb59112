//! The program under test: how long until it answers, and what its threads spend.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::Signal;

use super::client;
use super::fleet::{Fleet, LIVE_HOST};
use super::live::MARKS;
use crate::peers::{Kind, Workshop};
use crate::process::Process;
use crate::run::PROXY_CORE;

/// One that runs.
#[derive(Debug)]
pub(crate) struct Edge {
    process: Process,
    file: PathBuf,
    fleet: Fleet,
    live: [u16; 2],
    /// What it spends of a core when it has nothing to do.
    idle: f64,
}

impl Edge {
    /// Starts it, and waits until it answers a client of the last service; tells how long that
    /// took. The servers of that service listen on both ports of `live`, and the first is in the
    /// file.
    pub(crate) fn start(
        fleet: Fleet,
        live: [u16; 2],
        workshop: &Workshop,
    ) -> Result<(Self, Duration)> {
        let fleet = Fleet { live: live[0], ..fleet };
        let file = workshop.file(Kind::Loadline, fleet.port);
        fs::write(&file, fleet.toml()).with_context(|| format!("write {}", file.display()))?;
        let program = workshop.loadline.display().to_string();
        let command = [program, "serve".to_owned(), file.display().to_string()];
        let start = Instant::now();
        let process = Process::start(PROXY_CORE, &command, &file.with_extension("log"))?;
        let edge = Self { process, file, fleet, live, idle: 0.0 };
        edge.wait_for(MARKS[0], start)?;
        Ok((edge, start.elapsed()))
    }

    /// Bytes ([`Process::memory`]).
    pub(crate) fn memory(&self) -> Result<f64> {
        Ok(self.process.memory()? as f64)
    }

    /// By how many bytes it grows at most while it does this.
    pub(crate) fn growth(&self, work: impl FnOnce() -> Result<usize>) -> Result<(f64, usize)> {
        let before = self.process.forget_peak()?;
        let result = work()?;
        Ok((self.process.peak()?.saturating_sub(before) as f64, result))
    }

    /// The part of a core that it spends while nothing happens for so long, 0 to 1.
    pub(crate) fn rest(&mut self, duration: Duration) -> Result<f64> {
        let (before, start) = (self.spent()?, Instant::now());
        thread::sleep(duration);
        self.idle = (self.spent()? - before) / start.elapsed().as_secs_f64();
        Ok(self.idle)
    }

    /// Seconds of CPU time that a piece of work costs, all threads, beyond what [`Edge::rest`] saw.
    pub(crate) fn cost<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<(f64, T)> {
        let (before, start) = (self.spent()?, Instant::now());
        let result = work(self)?;
        let idle = self.idle * start.elapsed().as_secs_f64();
        Ok((self.spent()? - before - idle, result))
    }

    /// Seconds of CPU time of the thread that runs the controller and the health checks.
    pub(crate) fn controller(&self) -> f64 {
        self.process.thread_time("control").as_secs_f64()
    }

    /// Changes the file and has it read; back when a client sees that it counts, and a while later.
    pub(crate) fn reload(&mut self, checks: bool) -> Result<()> {
        let place = usize::from(self.fleet.live == self.live[0]);
        self.fleet = Fleet { live: self.live[place], checks, ..self.fleet };
        let next = self.file.with_extension("next");
        fs::write(&next, self.fleet.toml()).with_context(|| format!("write {}", next.display()))?;
        fs::rename(&next, &self.file).context("replace the file")?;
        self.process.signal(Signal::HUP)?;
        self.wait_for(MARKS[place], Instant::now())?;
        thread::sleep(AFTERMATH);
        Ok(())
    }

    fn wait_for(&self, mark: u8, start: Instant) -> Result<()> {
        while client::ask(self.fleet.port, LIVE_HOST, PATIENCE).ok() != Some(mark) {
            if start.elapsed() > PATIENCE {
                let said = fs::read_to_string(self.file.with_extension("log")).unwrap_or_default();
                let said: String = said.chars().take(SAID).collect();
                anyhow::bail!("not in force after {PATIENCE:?}: {said}");
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Seconds of CPU time of all threads.
    pub(crate) fn spent(&self) -> Result<f64> {
        Ok(self.process.cpu_time()?.total.as_secs_f64())
    }
}

/// What is not there after that is a failure.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);
/// Work that a reload leaves for later is a part of its cost.
const AFTERMATH: Duration = Duration::from_secs(2);
/// Of what it wrote, in characters.
const SAID: usize = 1_000;
