//! The workers as a whole: binds every listener, starts the threads, waits for their end.

use std::{
    io,
    net::{self, SocketAddr},
    sync::Arc,
    thread::{self, JoinHandle},
    time,
};

use loadline_core::{
    fleet::{Edge, LogTarget, Protocol},
    time::Duration,
};
use thiserror::Error;

use crate::{
    access_log::Log,
    listener::{Door, bind},
    shared::Shared,
    tls::TlsError,
    worker::Worker,
};

/// Why a proxy did not start. Nothing of it is left running.
#[derive(Debug, Error)]
pub enum StartError {
    /// The address of a listener cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// As configured.
        address: SocketAddr,
        /// In use, no such address, not permitted.
        source: io::Error,
    },
    /// The access log cannot be opened.
    #[error("cannot write the access log to {target:?}: {source}")]
    AccessLog {
        /// Where it was to go.
        target: Option<LogTarget>,
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
pub struct Engine {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    workers: Vec<JoinHandle<()>>,
}

impl Engine {
    /// Binds all listeners of the plan for every worker, then starts the workers.
    ///
    /// # Errors
    /// [`StartError`]; every address is bound before the first thread is started.
    pub fn start(shared: Arc<Shared>) -> Result<Self, StartError> {
        let plan = shared.plan();
        let threads = threads(&plan.fleet.edge);
        let mut addresses = Vec::new();
        let mut doors: Vec<Doors> = (0..threads).map(|_| Doors::new()).collect();
        for (index, listener) in plan.fleet.listeners.iter().enumerate() {
            let failed = |source| StartError::Bind { address: listener.bind, source };
            let client_speaks_first = listener.protocol != Protocol::Tcp || listener.accept_proxy;
            let bound = bind(listener.bind, threads, client_speaks_first);
            let (address, sockets) = bound.map_err(failed)?;
            addresses.push(address);
            let door = Arc::new(Door::new(index, listener.bind));
            for (doors, socket) in doors.iter_mut().zip(sockets) {
                doors.push((door.clone(), socket));
            }
        }
        let mut engine = Self { shared, addresses, workers: Vec::new() };
        for (index, doors) in doors.into_iter().enumerate() {
            match spawn(index, engine.shared.clone(), doors) {
                Ok(worker) => engine.workers.push(worker),
                Err(error) => {
                    engine.join(Duration::ZERO);
                    return Err(StartError::Thread(error));
                }
            }
        }
        Ok(engine)
    }

    /// The bound addresses, in the order of the listeners.
    #[must_use]
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Drains, cuts what is left after `drain`, and waits for the workers to end.
    pub fn join(self, drain: Duration) {
        self.shared.drain();
        let deadline = time::Instant::now() + drain.to_std();
        while !self.workers.iter().all(JoinHandle::is_finished) {
            if time::Instant::now() >= deadline {
                self.shared.stop();
                break;
            }
            thread::sleep(POLL);
        }
        for worker in self.workers {
            // A worker that panicked has said so on its own.
            let _ = worker.join();
        }
        self.shared.log.iter().for_each(Log::flush);
    }
}

/// What one worker accepts connections from.
type Doors = Vec<(Arc<Door>, net::TcpListener)>;

fn spawn(index: usize, shared: Arc<Shared>, doors: Doors) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let thread = thread::Builder::new().name(format!("worker-{index}"));
    thread.spawn(move || Worker::run(&runtime, shared, doors))
}

fn threads(edge: &Edge) -> usize {
    match edge.threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads as usize,
    }
}

/// How often a drain looks whether it is through.
const POLL: time::Duration = time::Duration::from_millis(5);
