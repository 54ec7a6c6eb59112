//! What the kernel tells of a TCP connection.
#![expect(unsafe_code, reason = "no safe wrapper offers the call")]

use std::{io, os::fd::AsRawFd};

/// How many bytes of all that was sent the peer has not acknowledged.
///
/// # Errors
/// The kernel's.
pub fn unacknowledged(socket: &impl AsRawFd) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one integer through the pointer, to `bytes`, which outlives the
    // call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if done == 0 { Ok(bytes.unsigned_abs()) } else { Err(io::Error::last_os_error()) }
}
