//! Notices that a connection breaks while nothing is read from it.
//!
//! A peer that has closed its side, as it may, leaves a socket that is readable for ever: whether
//! the peer is still there shows when something is written, or by the kernel's word that the
//! connection was reset. That word comes without being asked for, to whoever watches the socket for
//! anything else; so a second descriptor is watched for what never comes.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
    task::{Context, Poll},
};

use tokio::io::{Interest, unix::AsyncFd};

use crate::listener::syscalls::watch_for;

/// A watch on a connection.
#[derive(Debug)]
pub(crate) struct HangUp(AsyncFd<OwnedFd>);

impl HangUp {
    /// Watches the connection behind `fd`.
    ///
    /// # Errors
    /// The kernel's, where it cannot watch one more descriptor.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        watch_for(fd.try_clone_to_owned()?, Interest::PRIORITY).map(Self)
    }

    /// Ready when the connection is reset, or closed both ways.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_read_ready(cx).map(|_| ())
    }

    /// Whether the connection is reset, rather than closed both ways. Costs no system call.
    pub(crate) fn is_reset(&self) -> bool {
        self.0.try_io(Interest::ERROR, |_| Ok(())).is_ok()
    }
}
