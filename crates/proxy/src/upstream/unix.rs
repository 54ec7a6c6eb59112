//! Connections to servers at Unix sockets of this machine.

use std::{io, net::TcpStream};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with},
};

/// Connects to the socket at `path`, which begins with `@` where its name is abstract. The kernel
/// does that at once or not at all. What bytes go through is the same as of TCP.
///
/// # Errors
/// The kernel's; of a server that takes no more connections now, that it refuses them.
pub(crate) fn open(path: &str) -> io::Result<TcpStream> {
    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
        None => SocketAddrUnix::new(path)?,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&socket, &address) {
        Ok(()) => Ok(TcpStream::from(socket)),
        // Its backlog is full.
        Err(Errno::AGAIN) => Err(Errno::CONNREFUSED.into()),
        Err(error) => Err(error.into()),
    }
}
