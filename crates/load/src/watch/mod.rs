//! What a machine's resources do on the time axis of a run, and which gave out first.
//!
//! A [`Watcher`] reads Linux's `/proc` from a thread of its own: CPU of the machine, of each core
//! and of each watched process with its children; traffic by interface; TCP's counters. It keeps
//! the counters as they were read and makes samples of their differences at the end, so that a
//! long run can be thinned without losing anything between two readings.
//!
//! ```text
//! start --first reading--> waiting --interval--> reading --> waiting ... --finish--> record
//! ```
//!
//! Without an interval given it reads every 100 ms, and every second once a run is longer than
//! 10 s. What that took of a core is in every record, as `sampler_cpu_share`.

mod processes;
mod reading;
mod sample;
mod subject;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
};

use loadline_core::time::{Duration, Instant};
use loadline_linux::clock::{now, thread_time, unix_millis};
use loadline_measure::{bottleneck, record::ResourceRecord};

use processes::Processes;
use reading::{Machine, Reading};
pub use subject::{NetLimit, Subject, SubjectError, Who, subjects};

/// What to watch.
#[derive(Clone, Debug, Default)]
pub struct WatchPlan {
    /// What the record says was watched: a command line, a URL.
    pub target: String,
    /// Whom; their children are followed too. Nobody is allowed: the machine is watched anyway.
    pub subjects: Vec<Subject>,
    /// Time between readings; none for 100 ms, and a second in runs over 10 s.
    pub interval: Option<Duration>,
    /// What interfaces can carry, where the user knows.
    pub limits: Vec<NetLimit>,
}

/// Why nothing can be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// There is no process of this number.
    #[error("no process {pid} runs here; `ps` lists those that do")]
    NoProcess {
        /// Process id.
        pid: u32,
    },
    /// This is not Linux, or `/proc` is not mounted.
    #[error("cannot read /proc/stat, which only Linux has")]
    NoProc(#[source] io::Error),
    /// No thread could be started.
    #[error("cannot start a thread to watch from")]
    Thread(#[source] io::Error),
}

/// A watch under way.
pub struct Watcher {
    stop: Sender<()>,
    thread: JoinHandle<Watched>,
    state: Arc<State>,
    plan: WatchPlan,
    started_unix_ms: u64,
}

/// What the thread lets others see meanwhile.
#[derive(Default)]
struct State {
    is_alone: AtomicBool,
    readings: AtomicU64,
}

/// What the thread hands back.
struct Watched {
    readings: Vec<Reading>,
    interval: Duration,
    processes: Processes,
    machine: Machine,
    elapsed: Duration,
    spent: Duration,
}

impl Watcher {
    /// Takes the first reading, which is the origin of the time axis, and goes on reading until
    /// [`Watcher::finish`]. Dropping it ends the watch as well.
    ///
    /// # Errors
    /// [`WatchError`] where a process does not exist or nothing can be read.
    pub fn start(plan: WatchPlan) -> Result<Self, WatchError> {
        let mut machine = Machine::open().map_err(WatchError::NoProc)?;
        let mut processes = Processes::find(&plan.subjects)?;
        let (began, started_unix_ms) = (now(), unix_millis());
        let first = Reading::take(began, Duration::ZERO, &mut machine, &mut processes);
        let (stop, stopped) = mpsc::channel();
        let state = Arc::new(State::default());
        let watch = Watch {
            began,
            chosen: plan.interval,
            interval: plan.interval.unwrap_or(FAST).max(SHORTEST),
            readings: vec![first],
            machine,
            processes,
            state: Arc::clone(&state),
        };
        let thread = thread::Builder::new().name("watch".into());
        let thread = thread.spawn(move || watch.run(&stopped)).map_err(WatchError::Thread)?;
        Ok(Self { stop, thread, state, plan, started_unix_ms })
    }

    /// Whether every process that was watched has ended; not before there was one.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.state.is_alone.load(Ordering::Relaxed)
    }

    /// Readings taken since the first.
    #[must_use]
    pub fn readings(&self) -> u64 {
        self.state.readings.load(Ordering::Relaxed)
    }

    /// Takes a last reading and gives the record, judged by its resources alone. Where a load ran
    /// meanwhile, judge again with [`bottleneck::judge`] and its record.
    #[must_use]
    pub fn finish(self) -> ResourceRecord {
        // The thread listens until it is told, and cannot have ended before.
        let _ = self.stop.send(());
        let Ok(watched) = self.thread.join() else {
            let not_seen = vec!["the sampler failed; nothing of it is left".into()];
            return ResourceRecord { target: self.plan.target, not_seen, ..Default::default() };
        };
        let samples = sample::samples(&watched.readings);
        let (machine, mut not_seen) =
            watched.machine.describe(&watched.readings, &self.plan.limits);
        not_seen.extend(watched.processes.not_seen());
        let elapsed = watched.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        let mut record = ResourceRecord {
            target: self.plan.target,
            started_unix_ms: self.started_unix_ms,
            interval: watched.interval,
            elapsed: watched.elapsed,
            machine,
            processes: watched.processes.into_records(),
            samples,
            not_seen,
            sampler_cpu_share: sample::rounded(watched.spent.as_secs_f64() / elapsed),
            ..ResourceRecord::default()
        };
        sample::keep_interfaces(&mut record);
        record.verdict = bottleneck::judge(&record, None);
        record
    }
}

/// The state of the thread.
struct Watch {
    began: Instant,
    chosen: Option<Duration>,
    interval: Duration,
    readings: Vec<Reading>,
    machine: Machine,
    processes: Processes,
    state: Arc<State>,
}

impl Watch {
    fn run(mut self, stopped: &Receiver<()>) -> Watched {
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(self.pause().to_std()) {
            self.read();
            if self.chosen.is_none() && self.interval == FAST && self.last() >= LONG_RUN {
                self.thin();
            }
        }
        let elapsed = now().since(self.began);
        // What little is left after the last reading would be a sample of hardly a clock tick.
        if self.readings.len() == 1 || elapsed.saturating_sub(self.last()) * 2 >= self.interval {
            self.read();
        }
        let Self { readings, interval, processes, machine, .. } = self;
        Watched { readings, interval, processes, machine, elapsed, spent: thread_time() }
    }

    /// Until the next multiple of the interval; those that were missed are not made up for.
    fn pause(&self) -> Duration {
        let passed = now().since(self.began).as_nanos();
        let step = self.interval.as_nanos();
        Duration::from_nanos(step - passed % step)
    }

    fn read(&mut self) {
        let at = now().since(self.began);
        let reading = Reading::take(self.began, at, &mut self.machine, &mut self.processes);
        self.readings.push(reading);
        self.state.is_alone.store(self.processes.all_ended(), Ordering::Relaxed);
        self.state.readings.fetch_add(1, Ordering::Relaxed);
    }

    /// When the last reading was taken.
    fn last(&self) -> Duration {
        self.readings.last().map_or(Duration::ZERO, |reading| reading.at)
    }

    /// Goes from the short interval to the long one, as if it had been so from the start.
    fn thin(&mut self) {
        let keep = (SLOW.as_nanos() / FAST.as_nanos()) as usize;
        let mut index = 0;
        self.readings.retain(|_| {
            index += 1;
            (index - 1) % keep == 0
        });
        self.interval = SLOW;
    }
}

/// Ten clock ticks: shares over one sample are right to a tenth, over a second to 2 %.
const FAST: Duration = Duration::from_millis(100);

/// Fine enough to see what happens in a run of minutes.
const SLOW: Duration = Duration::from_secs(1);

/// From here on a hundred samples more every 10 s would say nothing new.
const LONG_RUN: Duration = Duration::from_secs(10);

/// A clock tick: nothing in `/proc` is finer.
const SHORTEST: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests;
