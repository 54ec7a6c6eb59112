//! Connections to servers at Unix sockets of this machine.

use std::{io, net::TcpStream};

use loadline_core::decide::reason::Reason;
use rustix::{
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with},
};

/// Connects to the socket at `path`, which begins with `@` where its name is abstract. The kernel
/// does that at once or not at all. What bytes go through is the same as of TCP.
///
/// # Errors
/// The kernel's, or a [`Reason`] where that says more.
pub(crate) fn open(path: &str) -> io::Result<TcpStream> {
    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
        None => SocketAddrUnix::new(path)?,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&socket, &address) {
        Ok(()) => Ok(TcpStream::from(socket)),
        Err(error) => Err(told(error)),
    }
}

/// An error as it is meant of a Unix socket.
fn told(error: Errno) -> io::Error {
    io::Error::other(match error {
        Errno::AGAIN => Reason::BacklogFull,
        Errno::ACCESS => Reason::SocketForbidden,
        Errno::NOTDIR => Reason::NoSocket,
        _ => return error.into(),
    })
}
