//! The thread between the ports, and the handle on it.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        Arc,
        mpsc::{self, Sender, SyncSender},
    },
    thread::{self, JoinHandle},
};

use loadline_core::time::Duration;
use rustix::event::{EventfdFlags, eventfd};

use super::{
    awake::Awake,
    counters::Counters,
    engine::Engine,
    kernel::{self, Scheduling},
    port::Port,
};
use crate::topology::{LinkSpec, Topology, TopologyError};

/// The network between hosts.
#[derive(Debug)]
pub struct Router(());

/// A router at work; dropping it stops it, and with it closes the ports.
#[derive(Debug)]
pub struct RouterHandle {
    topology: Topology,
    scheduling: Scheduling,
    #[expect(dead_code, reason = "held for as long as the router runs")]
    awake: Option<Awake>,
    compensation: Duration,
    commands: Sender<Command>,
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<Counters>>,
}

/// Why there is no router.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The network cannot be.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// Some host has no port, or some port no host.
    #[error("{ports} ports were given for {hosts} hosts; each host needs one, in their order")]
    Ports {
        /// How many ports were given.
        ports: usize,
        /// How many hosts there are.
        hosts: usize,
    },
    /// The system refuses a thread or a descriptor.
    #[error("cannot start the router: {source}")]
    System {
        /// What the system says.
        source: io::Error,
    },
}

/// Why a link did not change.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The values are impossible.
    #[error(transparent)]
    Link(#[from] TopologyError),
    /// The router has ended.
    #[error(transparent)]
    Gone(#[from] RouterGone),
}

/// The router's thread has ended by a panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the router has ended; its thread's panic is on standard error")]
pub struct RouterGone;

/// What the thread is told.
#[derive(Debug)]
pub(super) enum Command {
    Change(LinkSpec),
    Compensate(Duration),
    Report(SyncSender<Counters>),
    Reset,
    Stop,
}

impl Router {
    /// Begins to carry packets between `ports`, where `ports[i]` is that of `topology.hosts[i]`.
    /// The router runs in a thread of its own until its handle is stopped or dropped.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(topology: Topology, ports: Vec<Port>) -> Result<RouterHandle, StartError> {
        topology.check()?;
        let (ports_given, hosts) = (ports.len(), topology.hosts.len());
        if ports_given != hosts {
            return Err(StartError::Ports { ports: ports_given, hosts });
        }
        let system = |source| StartError::System { source };
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = eventfd(0, flags).map_err(|error| system(error.into()))?;
        let bell = Arc::new(bell);
        let (commands, inbox) = mpsc::channel();
        let engine = Engine::new(&topology, ports, inbox, Arc::clone(&bell)).map_err(system)?;
        let (ready, is_ready) = mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name("wan".to_owned())
            .spawn(move || {
                // The starter waits for it.
                let _ = ready.send(kernel::run_promptly());
                engine.run()
            })
            .map_err(system)?;
        let scheduling = is_ready.recv().unwrap_or(Scheduling::Ordinary);
        let (compensation, thread) = (Duration::ZERO, Some(thread));
        let awake = Awake::ask();
        Ok(RouterHandle { topology, scheduling, awake, compensation, commands, bell, thread })
    }
}

impl RouterHandle {
    /// Makes `link` what goes from its sender to its receiver from now on, also where there was no
    /// link before. Packets under way keep the instant they were due.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn change(&mut self, link: LinkSpec) -> Result<(), ChangeError> {
        self.topology.check_link(&link)?;
        self.send(Command::Change(link))?;
        self.topology.links.retain(|old| !old.is_beside(&link));
        self.topology.links.push(link);
        Ok(())
    }

    /// The network as it is now.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// What the kernel granted the router's thread.
    #[must_use]
    pub fn scheduling(&self) -> Scheduling {
        self.scheduling
    }

    /// Takes so much off every delay, for what the machine itself needs to carry a packet one way.
    /// [`calibrate`](Self::calibrate) measures it.
    ///
    /// # Errors
    /// [`RouterGone`].
    pub fn compensate(&mut self, one_way: Duration) -> Result<(), RouterGone> {
        self.send(Command::Compensate(one_way))?;
        self.compensation = one_way;
        Ok(())
    }

    /// What is taken off every delay.
    #[must_use]
    pub fn compensation(&self) -> Duration {
        self.compensation
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// [`RouterGone`].
    pub fn counters(&self) -> Result<Counters, RouterGone> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.send(Command::Report(answer))?;
        answered.recv().map_err(|_| RouterGone)
    }

    /// Counts from zero again, as at the start of a run.
    ///
    /// # Errors
    /// [`RouterGone`].
    pub fn reset_counters(&self) -> Result<(), RouterGone> {
        self.send(Command::Reset)
    }

    /// Ends the router and closes its ports; packets under way are lost. Gives the last counters.
    ///
    /// # Errors
    /// [`RouterGone`].
    pub fn stop(mut self) -> Result<Counters, RouterGone> {
        self.end()
    }

    fn end(&mut self) -> Result<Counters, RouterGone> {
        let Some(thread) = self.thread.take() else { return Err(RouterGone) };
        // Where nobody listens any more, the thread ends or has ended.
        let _ = self.send(Command::Stop);
        thread.join().map_err(|_| RouterGone)
    }

    fn send(&self, command: Command) -> Result<(), RouterGone> {
        self.commands.send(command).map_err(|_| RouterGone)?;
        // It can only fail where the bell has been rung 2^64 times and not been heard.
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
        Ok(())
    }
}

impl Drop for RouterHandle {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
