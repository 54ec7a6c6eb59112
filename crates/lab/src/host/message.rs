//! What the lab and the processes of a host say to each other, and the line they say it on.
//!
//! A line is a pair of `SOCK_SEQPACKET` sockets: messages keep their borders, descriptors travel
//! with them, and when one side is gone the other reads an end, however it went. Messages are
//! JSON; each request has one reply.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    net::IpAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
};

use loadline_core::time::Duration;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType,
    recvmsg, sendmsg, shutdown, socketpair, sockopt,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// To the outer process of a host, before anything else.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Enclose {
    /// Names the cgroup, if one is made.
    pub(super) host: String,
    /// Processors of the machine it may use; all where empty.
    pub(super) processors: Vec<usize>,
    /// Of one processor, in millionths; no limit if omitted.
    pub(super) share_ppm: Option<u32>,
}

/// Its reply: the first process of the host exists.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Enclosed {
    /// The first process, as the lab's process sees it.
    pub(super) init: u32,
    /// Whether a user namespace was made, so that root inside is not root outside.
    pub(super) rootless: bool,
    /// Features that are missing.
    pub(super) notes: Vec<String>,
}

/// To the first process of a host: what the host is to be.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Boot {
    pub(super) name: String,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) mtu: u32,
    pub(super) forwards: bool,
    /// The first has no destination: it is the way to everywhere else.
    pub(super) routes: Vec<RouteTo>,
    pub(super) settings: BTreeMap<String, String>,
    /// What `/etc/hosts` is to hold.
    pub(super) hosts_file: String,
    pub(super) tun: bool,
    pub(super) veth: bool,
}

/// A route, and how TCP is to behave along it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RouteTo {
    /// One address; everywhere if omitted.
    pub(super) to: Option<IpAddr>,
    pub(super) congestion: Option<String>,
    pub(super) initial_window: Option<u32>,
    pub(super) window_bytes: Option<u32>,
}

/// Its reply, with the descriptor of the host's port.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Booted {
    /// The address of the inner interface where the port is a packet socket; none for TUN.
    pub(super) inner: Option<[u8; 6]>,
    /// What could not be had.
    pub(super) notes: Vec<String>,
}

/// To the first process of a host that is set up.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// With four descriptors: input, output, errors, and where to write how it ended.
    Spawn {
        program: OsString,
        args: Vec<OsString>,
        env: Vec<(OsString, OsString)>,
        dir: Dir,
    },
    /// To the process group that a program began.
    Signal {
        group: u32,
        signal: i32,
    },
    /// Whether somebody accepts connections at this TCP port.
    Listening {
        port: u16,
    },
    /// A socket of the host, which comes as a descriptor.
    Socket {
        of: IpAddr,
        datagrams: bool,
    },
    Usage,
}

/// Where a program begins; the lab's own directory if omitted.
pub(super) type Dir = Option<PathBuf>;

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    Spawned { pid: u32 },
    Done,
    Listening(bool),
    Usage(RawUsage),
}

/// Counters since the host began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RawUsage {
    pub(super) cpu_nanos: u64,
    /// Towards the router.
    pub(super) wide: RawTraffic,
    /// On an Ethernet; nothing where it is on none.
    pub(super) ethernet: RawTraffic,
}

/// What an interface has carried since the host began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RawTraffic {
    pub(super) received_bytes: u64,
    pub(super) received_packets: u64,
    pub(super) sent_bytes: u64,
    pub(super) sent_packets: u64,
}

/// What could not be done, in place of a reply.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    /// As in "cannot ...".
    pub(super) what: String,
    /// The system's number, where it was the system.
    pub(super) errno: Option<i32>,
    pub(super) reason: String,
    /// Whether the system refuses namespaces or what belongs to them.
    pub(super) refused: bool,
}

impl Failure {
    /// For `map_err`: the system said no to `what`.
    pub(super) fn of<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        move |error| {
            let (what, error) = (what.into(), error.into());
            let reason = error.to_string();
            Self { what, errno: error.raw_os_error(), reason, refused: false }
        }
    }

    pub(super) fn into_io(self) -> io::Error {
        self.errno.map_or_else(|| io::Error::other(self.reason), io::Error::from_raw_os_error)
    }
}

/// One end of a line.
#[derive(Debug)]
pub(super) struct Channel(OwnedFd);

impl Channel {
    /// Both ends.
    pub(super) fn pair() -> io::Result<(Self, Self)> {
        let kind = SocketType::SEQPACKET;
        let (here, there) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        for end in [&here, &there] {
            sockopt::set_socket_send_buffer_size(end, LONGEST_MESSAGE)?;
        }
        Ok((Self(here), Self(there)))
    }

    /// The end that the lab put in the place of the standard input.
    pub(super) fn from_stdin() -> io::Result<Self> {
        let stdin = io::stdin();
        if !sockopt::socket_type(stdin.as_fd()).is_ok_and(|kind| kind == SocketType::SEQPACKET) {
            let text = "this is a part of the lab, which `loadline lab run` and `lab up` start";
            return Err(io::Error::other(text));
        }
        stdin.as_fd().try_clone_to_owned().map(Self)
    }

    /// No answer within this time is an error from now on.
    pub(super) fn set_patience(&self, patience: Duration) -> io::Result<()> {
        let kind = sockopt::Timeout::Recv;
        Ok(sockopt::set_socket_timeout(&self.0, kind, Some(patience.to_std()))?)
    }

    pub(super) fn into_descriptor(self) -> OwnedFd {
        self.0
    }

    /// Has the other side read an end, and this one as well.
    pub(super) fn close(&self) {
        // It fails only where the other side has gone already.
        let _ = shutdown(&self.0, Shutdown::Both);
    }

    pub(super) fn send<T: Serialize>(
        &self,
        message: &T,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        if text.len() > LONGEST_MESSAGE / 2 {
            return Err(io::ErrorKind::ArgumentListTooLong.into());
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sendmsg(&self.0, &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The next message with its descriptors; none when the other side is gone.
    pub(super) fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        let mut text = vec![0; LONGEST_MESSAGE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut room = [IoSliceMut::new(&mut text)];
            match recvmsg(&self.0, &mut room, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::CONNRESET) => return Ok(None),
                other => break other?,
            }
        };
        if received.bytes == 0 {
            return Ok(None);
        }
        let descriptors = control.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect::<Vec<_>>(),
            _ => Vec::new(),
        });
        let descriptors = descriptors.collect();
        if received.flags.contains(ReturnFlags::TRUNC) {
            return Err(io::ErrorKind::ArgumentListTooLong.into());
        }
        Ok(Some((serde_json::from_slice(&text[..received.bytes])?, descriptors)))
    }
}

/// Bytes; a command line with its environment has room, written as JSON. The memory is touched
/// only as far as a message goes.
const LONGEST_MESSAGE: usize = 1 << 20;

/// A program's input, output, errors and end.
const MOST_DESCRIPTORS: usize = 4;

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read, Write},
    };

    use super::*;

    #[test]
    fn a_message_arrives_whole_with_its_descriptors() {
        let (here, there) = Channel::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let long = "x".repeat(200_000);
        here.send(&long, &[writer.as_fd()]).unwrap();
        drop(writer);
        let (text, descriptors) = there.receive::<String>().unwrap().unwrap();
        assert_eq!(text, long);
        let [writer] = <[OwnedFd; 1]>::try_from(descriptors).unwrap();
        File::from(writer).write_all(b"through").unwrap();
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "through");
    }

    #[test]
    fn when_one_side_goes_the_other_reads_an_end() {
        let (here, there) = Channel::pair().unwrap();
        drop(here);
        assert!(there.receive::<String>().unwrap().is_none());
    }

    #[test]
    fn what_is_too_long_is_refused_not_cut() {
        let (here, _there) = Channel::pair().unwrap();
        let error = here.send(&"x".repeat(LONGEST_MESSAGE), &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ArgumentListTooLong);
    }

    #[test]
    fn patience_ends() {
        let (here, _there) = Channel::pair().unwrap();
        here.set_patience(Duration::from_millis(10)).unwrap();
        assert!(here.receive::<String>().is_err());
    }
}
