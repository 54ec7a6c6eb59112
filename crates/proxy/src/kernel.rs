//! The two calls about listeners for which no library has a safe function.
#![expect(unsafe_code, reason = "no safe wrapper offers these calls")]

use std::{io, net::TcpListener, os::fd::AsRawFd};

use tokio::io::{Interest, unix::AsyncFd};

/// Lets `listener` accept a connection only when its first bytes have come, or about a second
/// after it was made.
///
/// # Errors
/// The kernel's.
pub(crate) fn defer_accept(listener: &impl AsRawFd) -> io::Result<()> {
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

/// Registers `listener` with the reactor. tokio's own listener would register every connection it
/// accepts as well.
///
/// # Errors
/// The kernel's.
pub(crate) fn watch(listener: TcpListener) -> io::Result<AsyncFd<TcpListener>> {
    // SAFETY: a TcpListener owns its descriptor, keeps it open until it is dropped, and always
    // gives the same one; the AsyncFd owns the listener and hands out shared references only.
    let watched = unsafe { AsyncFd::register_with_interest(listener, Interest::READABLE) };
    watched.map_err(io::Error::from)
}
