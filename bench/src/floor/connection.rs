//! One end of what the floor relays: a socket and what is between its reads.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// A connection with a client or a server.
#[derive(Debug)]
pub(super) struct Connection {
    /// None when it is closed.
    pub(super) socket: Option<OwnedFd>,
    pub(super) role: Role,
    /// The other end of the exchange that it is in.
    pub(super) partner: Option<usize>,
    /// Whether epoll knows it.
    pub(super) watched: bool,
    /// Whether something came that nobody could take.
    pub(super) unread: bool,
    /// Of a client: whether it leaves after this response.
    pub(super) closes: bool,
    /// Of a server: how much of its response is to come; none before its head.
    pub(super) left: Option<usize>,
    /// The first part of a head.
    pub(super) partial: Vec<u8>,
    /// What the socket did not take.
    blocked: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    Client,
    /// By its place among the servers.
    Server(usize),
}

impl Connection {
    pub(super) const fn new(socket: OwnedFd, role: Role) -> Self {
        Self {
            socket: Some(socket),
            role,
            partner: None,
            watched: false,
            unread: false,
            closes: false,
            left: None,
            partial: Vec::new(),
            blocked: Vec::new(),
        }
    }

    /// Whether the socket has to take something before anything else is sent.
    pub(super) const fn is_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    pub(super) fn socket(&self) -> io::Result<&OwnedFd> {
        Ok(self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?)
    }

    /// What has come; none if nothing has, an error at the end.
    pub(super) fn receive<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        match recv(self.socket()?, &mut *buffer, RecvFlags::empty()) {
            Ok((0, _)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((count, _)) => Ok(Some(&buffer[..count])),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The same behind what came before of the same head.
    pub(super) fn joined<'b>(&mut self, bytes: &'b [u8], space: &'b mut Vec<u8>) -> &'b [u8] {
        if self.partial.is_empty() {
            return bytes;
        }
        *space = std::mem::take(&mut self.partial);
        space.extend_from_slice(bytes);
        space
    }

    /// Sends what the socket takes, and keeps the rest.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let sent = if self.is_blocked() { 0 } else { self.write(bytes)? };
        self.blocked.extend_from_slice(&bytes[sent..]);
        Ok(())
    }

    /// Keeps bytes that the socket did not take.
    pub(super) fn wait_with(&mut self, bytes: Vec<u8>) {
        self.blocked = bytes;
    }

    /// Sends what was kept; whether all of it has gone.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        let sent = self.write(&self.blocked)?;
        self.blocked.drain(..sent);
        Ok(!self.is_blocked())
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match send(self.socket()?, bytes, SendFlags::NOSIGNAL) {
            Err(Errno::AGAIN) => Ok(0),
            sent => Ok(sent?),
        }
    }
}
