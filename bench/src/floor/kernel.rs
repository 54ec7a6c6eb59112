//! The sockets of the floor.
#![expect(unsafe_code, reason = "no safe wrapper sets TCP_DEFER_ACCEPT")]

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect as begin, socket_with};
use socket2::{Domain, Socket, Type};

/// Listens; where it `defers`, a connection is handed out when its request has come. What it
/// accepts inherits the rest.
pub(super) fn listen(address: SocketAddr, defers: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    if defers {
        defer_accept(&socket)?;
    }
    socket.listen(4096)?;
    Ok(socket.into())
}

/// Begins to connect; what is sent meanwhile waits or is refused as if the socket were full.
pub(super) fn connect(address: SocketAddr) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    set_tcp_nodelay(&socket, true)?;
    match begin(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

fn defer_accept(listener: &Socket) -> io::Result<()> {
    let seconds: libc::c_int = 1;
    // SAFETY: the pointer and the length are those of `seconds`, which outlives the call; the
    // kernel only reads from it.
    let done = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of_val(&seconds) as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
