//! The calls about sockets for which no library has a safe function.
#![expect(unsafe_code, reason = "no safe wrapper offers these calls")]

use std::{
    io,
    net::TcpListener,
    os::fd::{AsRawFd, FromRawFd as _, OwnedFd, RawFd},
    sync::Arc,
};

use libc::{sock_filter, sock_fprog};
use rustix::io::{FdFlags, fcntl_setfd};
use tokio::io::{Interest, unix::AsyncFd};

/// Lets `listener` accept a connection only when its first bytes have come, or about a second
/// after it was made; or at once where the client does not speak first.
///
/// # Errors
/// The kernel's.
pub(crate) fn defer_accept(listener: &impl AsRawFd, client_speaks_first: bool) -> io::Result<()> {
    let seconds = libc::c_int::from(client_speaks_first);
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

/// Lets `program` say which socket of a SO_REUSEPORT group gets a packet: by its index in the
/// order in which they were bound. `socket` is any of them.
///
/// # Errors
/// The kernel's, where it does not take programs, or not this one.
pub(crate) fn steer(socket: &impl AsRawFd, program: &[sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: `program` has the pointer and the length of a slice that outlives the call, as it
    // does itself; the kernel only reads from both.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of_val(&program) as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Registers `listener` with the reactor. tokio's own listener would register every connection it
/// accepts as well.
///
/// # Errors
/// The kernel's.
pub(crate) fn watch(listener: Arc<TcpListener>) -> io::Result<AsyncFd<Arc<TcpListener>>> {
    // SAFETY: a TcpListener owns its descriptor, keeps it open until it is dropped, and always
    // gives the same one; the AsyncFd keeps it alive and hands out shared references only.
    let watched = unsafe { AsyncFd::register_with_interest(listener, Interest::READABLE) };
    watched.map_err(io::Error::from)
}

/// Registers a descriptor with the reactor, for these events and for errors.
///
/// # Errors
/// The kernel's.
pub(crate) fn watch_for(fd: OwnedFd, events: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd keeps its descriptor open until it is dropped, and always gives the same
    // one; the AsyncFd keeps it alive and hands out shared references only.
    let watched = unsafe { AsyncFd::register_with_interest(fd, events) };
    watched.map_err(io::Error::from)
}

/// Takes over a descriptor that the process was started with; not for its children.
///
/// It must be called once for a number, with one that nothing else in the process owns.
///
/// # Errors
/// Where no descriptor of this number is open.
pub(crate) fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the call takes numbers alone, and says so where the descriptor is not open.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, as just seen, and the caller vouches for being its only owner.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
    Ok(descriptor)
}
