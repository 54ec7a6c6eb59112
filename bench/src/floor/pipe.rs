//! The pipe through which long bodies go from socket to socket without being copied.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::{Errno, read};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use super::connection::Connection;

/// A pipe that is empty between two calls.
#[derive(Debug)]
pub(super) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Pipe {
    pub(super) fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A smaller one works too.
        let _ = fcntl_setpipe_size(&write, BYTES);
        Ok(Self { read, write })
    }

    /// Takes in what has come, at most so much; none if nothing has, an error at the end.
    pub(super) fn fill(&self, from: &Connection, most: usize) -> io::Result<Option<usize>> {
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        match splice(from.socket()?, None, &self.write, None, most.min(BYTES), flags) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => Ok(Some(count)),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives out all that it holds; what the socket does not take is copied and waits there. The
    /// pipe serves everybody, so nothing may stay in it, whatever becomes of the socket.
    pub(super) fn empty(&self, to: &mut Connection, mut held: usize) -> io::Result<()> {
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        let taken = loop {
            if held == 0 {
                return Ok(());
            }
            match splice(&self.read, None, to.socket()?, None, held, flags) {
                Ok(count) => held -= count,
                Err(Errno::AGAIN) => break Ok(()),
                Err(error) => break Err(error.into()),
            }
        };
        let mut rest = vec![0; held];
        let mut filled = 0;
        while filled < held {
            filled += read(&self.read, &mut rest[filled..])?;
        }
        to.wait_with(rest);
        taken
    }
}

const BYTES: usize = 256 << 10;
