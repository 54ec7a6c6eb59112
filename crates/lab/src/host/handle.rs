//! A host that runs.

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpStream, UdpSocket},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
};

use loadline_core::{
    time::{Duration, Instant},
    units::{Bytes, Count},
};
use loadline_linux::clock;
use rustix::io::Errno;
use socket2::Socket;

use super::{
    Child, Finished, HostError, Program, Tcp,
    child::OutputLines,
    message::{Channel, Failure, RawTraffic, RawUsage, Reply, Request, RouteTo},
};
use crate::topology::{HostSpec, InterfaceAddress};

/// A host that runs: the place to start programs in.
///
/// There is no way to run a closure of this process on a host, because threads share their
/// namespaces' users. What is needed for probes is there all the same: a socket made by the host
/// belongs to it, whoever uses it ([`udp`](Self::udp), [`connect`](Self::connect)).
#[derive(Debug)]
pub struct Host {
    spec: HostSpec,
    init: u32,
    line: Arc<Line>,
}

/// What a host has used since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// When it was read.
    pub at: Instant,
    /// Processor time of all its programs, those that have ended included; to the kernel's tick of
    /// 10 ms.
    pub cpu: Duration,
    /// Between it and the router, IP headers included.
    pub wide: Traffic,
    /// On its Ethernet, including Ethernet headers; zero if it is on none.
    pub ethernet: Traffic,
}

/// What an interface has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// What it received.
    pub received: Bytes,
    /// Packets received; TCP that came uncut counts as one.
    pub packets_received: Count,
    /// What it sent.
    pub sent: Bytes,
    /// Packets sent; TCP that left uncut counts as one.
    pub packets_sent: Count,
}

/// The line to the first process of a host.
#[derive(Debug)]
pub(super) struct Line {
    host: String,
    channel: Mutex<Channel>,
}

impl Host {
    pub(super) fn new(spec: HostSpec, init: u32, channel: Channel) -> Self {
        let line = Line { host: spec.name.clone(), channel: Mutex::new(channel) };
        Self { spec, init, line: Arc::new(line) }
    }

    /// What it is called; the other hosts reach it by this name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Its first address.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.spec.addresses.first().copied()
    }

    /// All its addresses, those that it shares with others included.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        &self.spec.addresses
    }

    /// Its address on an Ethernet, if it is on one.
    #[must_use]
    pub fn ethernet(&self) -> Option<InterfaceAddress> {
        self.spec.ethernet
    }

    /// The number of its first process, as this process sees it; its namespaces are under
    /// `/proc/PID/ns`.
    #[must_use]
    pub fn init(&self) -> u32 {
        self.init
    }

    /// Starts a program, in a process group of its own.
    ///
    /// # Errors
    /// [`HostError::Failed`] where it cannot be started.
    pub fn spawn(&self, program: Program) -> Result<Child, HostError> {
        let name = program.path.to_string_lossy().into_owned();
        let failed = |source| self.line.failed(format!("prepare to start `{name}`"), source);
        let open = || -> io::Result<_> {
            let stdin = match program.stdin {
                Some(file) => file,
                None => std::fs::File::open("/dev/null")?,
            };
            let (stdout, out) = OutputLines::open(program.stdout, io::stdout())?;
            let (stderr, err) = OutputLines::open(program.stderr, io::stderr())?;
            Ok((OwnedFd::from(stdin), (stdout, out), (stderr, err), io::pipe()?))
        };
        let (stdin, (stdout, out), (stderr, err), (end, ended)) = open().map_err(failed)?;
        let Program { path, args, env, dir, .. } = program;
        let request = Request::Spawn { program: path, args, env, dir };
        let given = [stdin.as_fd(), out.as_fd(), err.as_fd(), ended.as_fd()];
        match self.line.ask(&request, &given)? {
            (Reply::Spawned { pid }, _) => {
                Ok(Child::new(Arc::clone(&self.line), name, pid, end, [stdout, stderr]))
            }
            _ => Err(self.line.confused()),
        }
    }

    /// Runs a program to its end; one that takes longer than `limit` is killed.
    ///
    /// # Errors
    /// [`HostError::Failed`] where it cannot be started, [`HostError::TooLong`] where it was
    /// killed. That it ended badly is none: see [`Finished::exit`].
    pub fn run(&self, program: Program, limit: Duration) -> Result<Finished, HostError> {
        let mut child = self.spawn(program)?;
        let exit = match child.wait_with_deadline(limit) {
            Ok(exit) => exit,
            Err(too_long) => {
                child.kill()?;
                return Err(too_long);
            }
        };
        Ok(Finished { exit, stdout: child.stdout(), stderr: child.stderr() })
    }

    /// Whether some program of this host listens on a TCP port. Nothing is connected: the host
    /// looks into the kernel's table.
    ///
    /// # Errors
    /// [`HostError::Gone`].
    pub fn listens(&self, port: u16) -> Result<bool, HostError> {
        let (reply, _) = self.line.ask(&Request::Listening { port }, &[])?;
        Ok(matches!(reply, Reply::Listening(true)))
    }

    /// A UDP socket of this host, bound to one of its addresses or to any.
    ///
    /// # Errors
    /// [`HostError::Failed`].
    pub fn udp(&self, address: SocketAddr) -> Result<UdpSocket, HostError> {
        let socket = self.socket(address.ip(), true)?;
        let failed = |source| self.line.failed(format!("bind {address}"), source);
        socket.bind(&address.into()).map_err(failed)?;
        Ok(socket.into())
    }

    /// A TCP connection from this host.
    ///
    /// # Errors
    /// [`HostError::Failed`], also where the other side does not answer within `limit`.
    pub fn connect(&self, to: SocketAddr, limit: Duration) -> Result<TcpStream, HostError> {
        let socket = self.socket(to.ip(), false)?;
        // As long as a write may take, a call that waits may; and it alone always tells why.
        let connected = socket
            .set_write_timeout(Some(limit.to_std()))
            .and_then(|()| socket.connect(&to.into()))
            .and_then(|()| socket.set_write_timeout(None));
        connected.map_err(|source| {
            let late = source.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error());
            let source = if late { io::ErrorKind::TimedOut.into() } else { source };
            self.line.failed(format!("connect to {to}"), source)
        })?;
        Ok(socket.into())
    }

    /// A new socket of this host for addresses like `of`: UDP where `datagrams`, else TCP.
    ///
    /// # Errors
    /// [`HostError::Failed`].
    pub fn socket(&self, of: IpAddr, datagrams: bool) -> Result<Socket, HostError> {
        let (_, descriptors) = self.line.ask(&Request::Socket { of, datagrams }, &[])?;
        descriptors.into_iter().next().map(Socket::from).ok_or_else(|| self.line.confused())
    }

    /// Ends the host.
    pub(super) fn close(&self) {
        self.line.close();
    }

    /// What it has used so far.
    ///
    /// # Errors
    /// [`HostError::Gone`] or the system's.
    pub fn usage(&self) -> Result<Usage, HostError> {
        match self.line.ask(&Request::Usage, &[])? {
            (Reply::Usage(raw), _) => Ok(Usage::from_raw(clock::now(), raw)),
            _ => Err(self.line.confused()),
        }
    }
}

impl Usage {
    fn from_raw(at: Instant, raw: RawUsage) -> Self {
        Self {
            at,
            cpu: Duration::from_nanos(raw.cpu_nanos),
            wide: Traffic::from_raw(raw.wide),
            ethernet: Traffic::from_raw(raw.ethernet),
        }
    }
}

impl Traffic {
    fn from_raw(raw: RawTraffic) -> Self {
        Self {
            received: Bytes::new(raw.received_bytes),
            packets_received: Count::new(raw.received_packets),
            sent: Bytes::new(raw.sent_bytes),
            packets_sent: Count::new(raw.sent_packets),
        }
    }
}

impl RouteTo {
    pub(super) fn new(to: Option<IpAddr>, tcp: &Tcp) -> Self {
        Self {
            to,
            congestion: tcp.congestion.clone(),
            initial_window: tcp.initial_window,
            window_bytes: tcp.window.and_then(|window| u32::try_from(window.get()).ok()),
        }
    }
}

impl Line {
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Sends a request and waits for its reply.
    pub(super) fn ask(
        &self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(Reply, Vec<OwnedFd>), HostError> {
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        match channel.send(request, descriptors) {
            Err(error) if is_gone(&error) => return Err(self.gone()),
            Err(error) => return Err(self.failed("be asked".to_owned(), error)),
            Ok(()) => {}
        }
        match channel.receive::<Result<Reply, Failure>>() {
            Ok(Some((Ok(reply), descriptors))) => Ok((reply, descriptors)),
            Ok(Some((Err(failure), _))) => {
                let what = failure.what.clone();
                Err(self.failed(what, failure.into_io()))
            }
            Ok(None) => Err(self.gone()),
            Err(error) => Err(self.failed("answer".to_owned(), error)),
        }
    }

    /// Closes the line for both sides, whoever else still holds it.
    fn close(&self) {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner).close();
    }

    fn failed(&self, what: String, source: io::Error) -> HostError {
        HostError::Failed { host: self.host.clone(), what, source }
    }

    fn gone(&self) -> HostError {
        HostError::Gone { host: self.host.clone() }
    }

    fn confused(&self) -> HostError {
        let source = io::Error::other("its program is of another version");
        self.failed("answer".to_owned(), source)
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
