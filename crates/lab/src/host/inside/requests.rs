//! What the lab asks of a host that is set up, one after the other.

use std::{
    fs::{self, File},
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::{Command, Stdio},
};

use loadline_linux::proc;
use rustix::process::{Pid, Signal, kill_process_group};
use socket2::{Domain, Socket, Type};

use super::{
    super::message::{Failure, Reply, Request},
    reaper::Reaper,
    usage,
};

/// A host that answers.
pub(super) struct Requests {
    reaper: Reaper,
}

type Handled = Result<(Reply, Option<OwnedFd>), Failure>;

impl Requests {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { reaper: Reaper::new()? })
    }

    /// Does what is asked; the answer may bring a descriptor.
    pub(super) fn answer(&self, request: Request, descriptors: Vec<OwnedFd>) -> Handled {
        match request {
            Request::Spawn { program, args, env, dir } => {
                let name = program.to_string_lossy().into_owned();
                let mut command = Command::new(program);
                command.args(args).envs(env).process_group(0);
                if let Some(dir) = &dir {
                    command.current_dir(dir);
                }
                let at = dir.map(|dir| format!(" in {}", dir.display())).unwrap_or_default();
                self.spawn(command, descriptors)
                    .map_err(Failure::of(format!("start `{name}`{at}")))
                    .map(|pid| (Reply::Spawned { pid }, None))
            }
            Request::Signal { group, signal } => {
                signal_group(group, signal).map_err(Failure::of("send a signal"))?;
                Ok((Reply::Done, None))
            }
            Request::Listening { port } => {
                let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
                let read = |path| fs::read_to_string(path).unwrap_or_default();
                let listening = tables.map(read).iter().any(|table| is_listening(table, port));
                Ok((Reply::Listening(listening), None))
            }
            Request::Socket { of, datagrams } => {
                let domain = if of.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
                let kind = if datagrams { Type::DGRAM } else { Type::STREAM };
                let socket = Socket::new(domain, kind, None).map_err(Failure::of("make a socket"));
                Ok((Reply::Done, Some(socket?.into())))
            }
            Request::Usage => {
                let usage = usage::read().map_err(Failure::of("count what it has used"))?;
                Ok((Reply::Usage(usage), None))
            }
        }
    }

    fn spawn(&self, mut command: Command, descriptors: Vec<OwnedFd>) -> io::Result<u32> {
        let given = <[OwnedFd; 4]>::try_from(descriptors);
        let [stdin, stdout, stderr, end] =
            given.map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        command.stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
        self.reaper.spawn(&mut command, File::from(end))
    }
}

fn signal_group(group: u32, signal: i32) -> io::Result<()> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
    let group = i32::try_from(group).ok().filter(|&group| group > 1).and_then(Pid::from_raw);
    let signal = Signal::from_named_raw(signal).ok_or_else(wrong)?;
    match kill_process_group(group.ok_or_else(wrong)?, signal) {
        // All of it has ended.
        Err(rustix::io::Errno::SRCH) => Ok(()),
        other => Ok(other?),
    }
}

/// Whether the kernel's table of TCP sockets has one that accepts connections at `port`.
fn is_listening(table: &str, port: u16) -> bool {
    let mut sockets = table.lines().filter_map(proc::socket);
    sockets.any(|socket| socket.is_listening && socket.local.1 == port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_told_from_a_connection_and_from_another_port() {
        let table = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 21 1
   1: 0100007F:0050 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 22 1";
        assert!(is_listening(table, 8080));
        assert!(!is_listening(table, 80), "a connection is no listener");
        assert!(!is_listening(table, 0x1F9));
    }

    #[test]
    fn nobody_signals_every_process_or_its_own_group() {
        for group in [0, 1, u32::MAX] {
            assert!(signal_group(group, 9).is_err(), "{group}");
        }
    }
}
