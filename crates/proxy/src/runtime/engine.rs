//! The workers as a whole: binds every listener, starts the threads, waits for their end.

use std::{
    io,
    sync::Arc,
    thread::{self, JoinHandle},
    time,
};

use loadline_core::{
    fleet::{Edge, LogTarget},
    time::Duration,
};
use loadline_linux::thread::spawn_essential;
use thiserror::Error;

use crate::{
    listener::{accept::BindError, set::Inbox},
    runtime::{shared::Shared, worker::Worker},
    telemetry::{access_log::Log, spans::Spans},
    tls::TlsError,
};

/// Why a proxy did not start. Nothing of it is left running.
#[derive(Debug, Error)]
pub enum StartError {
    /// The address of a listener cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The access log cannot be opened.
    #[error("cannot write the access log to `{target}`: {source}")]
    AccessLog {
        /// Where it was to go.
        target: LogTarget,
        /// The reason.
        source: io::Error,
    },
    /// TLS cannot be configured as the file says.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A thread or its runtime cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// The running workers.
#[derive(Debug)]
pub(crate) struct Engine {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl Engine {
    /// Starts a worker for each inbox of the listeners.
    ///
    /// # Errors
    /// [`StartError::Thread`]; no worker is left running then.
    pub(crate) fn start(shared: Arc<Shared>) -> Result<Self, StartError> {
        let inboxes = shared.listeners().inboxes().to_vec();
        let mut engine = Self { shared, workers: Vec::new() };
        for (index, inbox) in inboxes.into_iter().enumerate() {
            match spawn(index, engine.shared.clone(), inbox) {
                Ok(worker) => engine.workers.push(worker),
                Err(error) => {
                    engine.join(Duration::ZERO);
                    return Err(StartError::Thread(error));
                }
            }
        }
        Ok(engine)
    }

    /// Cuts what is left after `drain` at the latest, and waits for the workers to end, who must
    /// have been told to.
    pub(crate) fn join(self, drain: Duration) {
        self.shared.leave();
        // At once: the process that takes over waits for it.
        let disk = self.shared.store.leave_disk();
        let deadline = time::Instant::now() + drain.to_std();
        while !self.workers.iter().all(JoinHandle::is_finished) {
            if time::Instant::now() >= deadline {
                self.shared.stop();
                break;
            }
            thread::sleep(POLL);
        }
        for worker in self.workers {
            // One that panics ends the process itself.
            let _ = worker.join();
        }
        self.shared.failures.tell_rest();
        disk.into_iter().for_each(|disk| disk.join(DISK_PATIENCE));
        self.shared.log.iter().for_each(Log::flush);
        self.shared.spans.iter().for_each(Spans::flush);
    }
}

fn spawn(index: usize, shared: Arc<Shared>, inbox: Arc<Inbox>) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    spawn_essential(&format!("worker-{index}"), move || Worker::run(&runtime, shared, inbox))
}

/// How many workers `edge` asks for.
#[must_use]
pub fn threads(edge: &Edge) -> usize {
    match edge.threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads as usize,
    }
}

/// How long the last writes to the cache on disk may take.
const DISK_PATIENCE: time::Duration = time::Duration::from_secs(10);

/// How often a drain looks whether it is through.
const POLL: time::Duration = time::Duration::from_millis(5);
