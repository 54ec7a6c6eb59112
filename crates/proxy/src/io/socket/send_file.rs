//! Sends bytes of a file in memory to a client without a copy.

use std::{
    io,
    task::{Context, Poll, ready},
};

use loadline_linux::arena::Arena;
use rustix::fs::sendfile;
use tokio::io::Interest;

use super::Socket;

impl Socket {
    /// Sends up to `most` bytes of a file in memory, from `offset` on, without a copy.
    pub(crate) fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &Arena,
        (offset, most): (u64, usize),
    ) -> Poll<io::Result<usize>> {
        let io = self.io()?;
        let stream = io.watched()?;
        loop {
            ready!(stream.poll_write_ready(cx))?;
            let sent = stream.try_io(Interest::WRITABLE, || {
                Ok(sendfile(&*stream, file, Some(&mut offset.clone()), most)?)
            });
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(io.sent(done)),
            }
        }
    }
}
