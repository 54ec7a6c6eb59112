//! What a process passes to its successor in an upgrade.
//!
//! The running process starts its successor and lets it inherit the descriptors of its sockets; a
//! description of them is in a file without a name, whose number an environment variable tells. The
//! successor binds nothing, so no connection that waits is lost, and says on another descriptor
//! that it serves, or why it cannot. A process manager passes sockets in its own way: systemd's
//! `LISTEN_FDS`.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, Write as _},
    net::{SocketAddr, UdpSocket},
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail};
use loadline_control::admin;
use loadline_core::decide::{controller::KnownServer, discovery::Heard, overrides::Override};
use loadline_proxy::{
    listener::inherited::{Inherited, descriptor},
    runtime::{Generation, HandoverQuic, HandoverSockets},
};
use rustix::{
    fs::{MemfdFlags, memfd_create},
    io::dup,
};
use serde::{Deserialize, Serialize};
use tokio::{io::AsyncReadExt as _, net, time::timeout};

/// What a process begins with.
#[derive(Debug, Default)]
pub(super) struct InheritedState {
    pub(super) sockets: Inherited,
    pub(super) changes: Vec<Override>,
    /// What the process before knew of servers.
    pub(super) servers: Vec<KnownServer>,
    heard: Vec<Heard>,
    admin: Option<(String, admin::Passed)>,
    control: Option<(PathBuf, OwnedFd)>,
    report: Option<UnixStream>,
}

/// What the running process gives away.
pub(super) struct HandoverState {
    pub(super) sockets: Vec<HandoverSockets>,
    pub(super) changes: Vec<Override>,
    pub(super) servers: Vec<KnownServer>,
    pub(super) heard: Vec<Heard>,
    /// Where the administration was to listen, its socket, and the token that was made.
    pub(super) admin: Option<(String, OwnedFd, Option<String>)>,
    pub(super) control: Option<(PathBuf, OwnedFd)>,
}

/// The description of what is passed; descriptors by their numbers.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Description {
    listeners: Vec<(SocketAddr, usize, Vec<RawFd>)>,
    quic: Vec<(SocketAddr, usize, QuicDescription)>,
    changes: Vec<Override>,
    servers: Vec<KnownServer>,
    heard: Vec<Heard>,
    admin: Option<(String, RawFd, Option<String>)>,
    control: Option<(PathBuf, RawFd)>,
    report: Option<RawFd>,
}

/// The UDP sockets of a listener: those of each generation, and the pipe of its holder.
#[derive(Debug, Serialize, Deserialize)]
struct QuicDescription {
    secret: [u8; 32],
    generations: Vec<(Vec<RawFd>, Option<RawFd>)>,
}

impl InheritedState {
    /// What the process before has heard of names.
    pub(super) fn heard(&mut self) -> Vec<Heard> {
        std::mem::take(&mut self.heard)
    }

    /// Closes sockets that nothing has taken, and tells of those for listeners: who connects there
    /// would wait for nobody.
    pub(super) fn close_unused(&mut self) {
        for address in self.sockets.addresses() {
            tracing::warn!(%address, "closed: no listener for this inherited socket");
        }
        (self.sockets, self.admin, self.control) = (Inherited::default(), None, None);
    }

    /// What the environment of this process tells of.
    pub(super) fn take() -> anyhow::Result<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        if let Some(number) = variable(HANDOVER) {
            let number = number.parse().with_context(|| format!("{HANDOVER} is no number"))?;
            return Self::described(number).context("what the process before passed on");
        }
        let mut inherited_state = Self::default();
        let own = variable("LISTEN_PID").is_some_and(|it| it == std::process::id().to_string());
        let count = variable("LISTEN_FDS").filter(|_| own);
        let count: RawFd = count.map_or(Ok(0), |it| it.parse()).context("LISTEN_FDS")?;
        for number in FIRST_FD..FIRST_FD + count {
            let socket = descriptor(number).with_context(|| format!("descriptor {number}"))?;
            if let Err(error) = inherited_state.sockets.add(socket) {
                tracing::warn!(descriptor = number, %error, "closed: not for a listener");
            }
        }
        Ok(inherited_state)
    }

    fn described(number: RawFd) -> anyhow::Result<Self> {
        let mut text = String::new();
        File::from(descriptor(number)?).read_to_string(&mut text)?;
        let Description { listeners, quic, changes, servers, heard, admin, control, report } =
            serde_json::from_str(&text)?;
        let mut inherited_state = Self { changes, servers, heard, ..Self::default() };
        for (bind, nth, numbers) in listeners {
            for number in numbers {
                inherited_state.sockets.add_for(descriptor(number)?, (bind, nth))?;
            }
        }
        for (bind, nth, quic) in quic {
            inherited_state.sockets.add_quic(quic.taken_over()?, (bind, nth));
        }
        if let Some((bind, number, made_token)) = admin {
            let socket = descriptor(number)?;
            inherited_state.admin = Some((bind, admin::Passed { socket, made_token }));
        }
        if let Some((path, number)) = control {
            inherited_state.control = Some((path, descriptor(number)?));
        }
        inherited_state.report = report.map(descriptor).transpose()?.map(UnixStream::from);
        Ok(inherited_state)
    }

    /// The administration that was there before, if it was at the same place.
    pub(super) fn admin(&mut self, bind: &admin::Bind) -> Option<admin::Passed> {
        self.admin.take().filter(|(place, _)| *place == bind.to_string()).map(|(_, it)| it)
    }

    /// The socket for upgrades that was there before, if it was at the same place.
    pub(super) fn control(&mut self, path: &Path) -> Option<OwnedFd> {
        self.control.take().filter(|(place, _)| place == path).map(|(_, it)| it)
    }

    /// Tells the process before that this one serves, or why not.
    pub(super) fn report(&mut self, outcome: Result<(), &str>) {
        let Some(mut report) = self.report.take() else { return };
        // Where nobody listens any more there is nobody to tell.
        let _ = match outcome {
            Ok(()) => report.write_all(READY.as_bytes()),
            Err(why) => report.write_all(why.as_bytes()),
        };
    }
}

impl HandoverState {
    /// Starts the program that this process was started from, with the same arguments. This
    /// process goes on as before.
    ///
    /// # Errors
    /// Why it cannot be started.
    pub(super) fn pass_on(self, program: &Path) -> anyhow::Result<Successor> {
        let mut kept: Vec<OwnedFd> = Vec::new();
        let mut share = |socket: &dyn AsFd| -> io::Result<RawFd> {
            // A copy is inherited; it is closed again once the successor has it.
            let copy = dup(socket.as_fd())?;
            let number = copy.as_raw_fd();
            kept.push(copy);
            Ok(number)
        };
        let (answer, report) = UnixStream::pair()?;
        let mut description = Description {
            changes: self.changes,
            servers: self.servers,
            heard: self.heard,
            report: Some(share(&report)?),
            ..Description::default()
        };
        drop(report);
        for HandoverSockets { bind, nth, sockets, quic } in &self.sockets {
            let numbers = sockets.iter().map(|it| share(&**it)).collect::<io::Result<_>>()?;
            description.listeners.push((*bind, *nth, numbers));
            let quic = quic.as_ref().map(|quic| QuicDescription::of(quic, &mut share));
            description.quic.extend(quic.transpose()?.map(|quic| (*bind, *nth, quic)));
        }
        if let Some((bind, socket, token)) = &self.admin {
            description.admin = Some((bind.clone(), share(socket)?, token.clone()));
        }
        if let Some((path, socket)) = &self.control {
            description.control = Some((path.clone(), share(socket)?));
        }
        let mut file = File::from(memfd_create("loadline-handover", MemfdFlags::empty())?);
        file.write_all(&serde_json::to_vec(&description)?)?;
        file.rewind()?;
        let mut command = Command::new(program);
        command.args(std::env::args_os().skip(1)).stdin(Stdio::null());
        command.env(HANDOVER, file.as_raw_fd().to_string());
        command.env_remove("LISTEN_FDS").env_remove("LISTEN_PID");
        let started = command.spawn();
        let child = started.with_context(|| format!("cannot start {}", program.display()))?;
        drop((kept, file));
        Ok(Successor { child, answer, serves: false })
    }
}

impl QuicDescription {
    /// A description of sockets that `share` makes ready to be inherited.
    fn of(
        quic: &HandoverQuic,
        share: &mut impl FnMut(&dyn AsFd) -> io::Result<RawFd>,
    ) -> io::Result<Self> {
        let mut generations = Vec::new();
        for Generation { sockets, held } in &quic.generations {
            let sockets = sockets.iter().map(|it| share(&**it)).collect::<io::Result<_>>()?;
            let held = held.as_ref().map(|held| share(&**held)).transpose()?;
            generations.push((sockets, held));
        }
        Ok(Self { secret: quic.secret, generations })
    }

    fn taken_over(self) -> io::Result<HandoverQuic> {
        let mut generations = Vec::new();
        for (sockets, held) in self.generations {
            let socket = |number| Ok(Arc::new(UdpSocket::from(descriptor(number)?)));
            let sockets = sockets.into_iter().map(socket).collect::<io::Result<_>>()?;
            let held = held.map(descriptor).transpose()?.map(Arc::new);
            generations.push(Generation { sockets, held });
        }
        Ok(HandoverQuic { secret: self.secret, generations })
    }
}

/// A process that was started to take over. It is ended where it is dropped before it serves.
#[derive(Debug)]
pub(super) struct Successor {
    child: Child,
    /// Where it says that it serves, or why not.
    answer: UnixStream,
    serves: bool,
}

impl Successor {
    /// Waits until it serves: its id.
    pub(super) async fn serving(mut self) -> anyhow::Result<u32> {
        self.answer.set_nonblocking(true)?;
        let mut answer = net::UnixStream::from_std(self.answer.try_clone()?)?;
        let mut said = String::new();
        let heard = timeout(PATIENCE, answer.read_to_string(&mut said)).await;
        if said == READY {
            self.serves = true;
            return Ok(self.child.id());
        }
        let status = self.end()?;
        match heard {
            Err(_) => bail!("the new process did not serve after {} s", PATIENCE.as_secs()),
            Ok(Ok(1..)) => Err(anyhow!(said)),
            Ok(_) => bail!("the new process ended before it served: {status}; see its log"),
        }
    }

    fn end(&mut self) -> io::Result<ExitStatus> {
        // It may have ended by itself.
        let _ = self.child.kill();
        self.child.wait()
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if !self.serves {
            // It is not there either way.
            let _ = self.end();
        }
    }
}

/// Tells a process the number of the descriptor with the description.
const HANDOVER: &str = "LOADLINE_HANDOVER";

/// What a successor says when it serves.
const READY: &str = "ready";

/// The first descriptor that systemd passes (sd_listen_fds(3)).
const FIRST_FD: RawFd = 3;

/// Reading a large file and resolving its names takes seconds at most.
const PATIENCE: Duration = Duration::from_secs(30);
