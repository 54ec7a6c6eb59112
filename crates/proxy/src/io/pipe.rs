//! Pipes through which the payload of large bodies goes from socket to socket without being
//! copied: the kernel moves references to the pages it received into.
//!
//! A body borrows a pipe while bytes are in it, as it borrows a buffer; an empty pipe goes back to
//! the worker's list. Where no pipe can be had, bytes are copied instead.

use std::{cell::RefCell, os::fd::OwnedFd};

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// A pipe and how much is in it.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) read: OwnedFd,
    pub(crate) write: OwnedFd,
    pub(crate) held: usize,
}

/// The pipes of one worker that nobody uses.
#[derive(Debug)]
pub(crate) struct Pipes {
    free: RefCell<Vec<Pipe>>,
}

impl Pipes {
    /// No pipes yet.
    pub(crate) const fn new() -> Self {
        Self { free: RefCell::new(Vec::new()) }
    }

    /// An empty pipe; none if the process has too few descriptors.
    pub(crate) fn take(&self) -> Option<Pipe> {
        self.free.borrow_mut().pop().or_else(make)
    }

    /// Takes a pipe back. One with bytes in it is closed: they belong to nobody any more.
    pub(crate) fn give(&self, pipe: Pipe) {
        let mut free = self.free.borrow_mut();
        if pipe.held == 0 && free.len() < PIPES_KEPT {
            free.push(pipe);
        }
    }
}

fn make() -> Option<Pipe> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
    // A process may have a limited number of pages in pipes; a smaller pipe works too.
    let _ = fcntl_setpipe_size(&write, PIPE_BYTES);
    Some(Pipe { read, write, held: 0 })
}

/// What one splice may move; a pipe counts whole pages, however little is in each.
pub(crate) const PIPE_BYTES: usize = 256 << 10;

/// Two descriptors each.
const PIPES_KEPT: usize = 32;
