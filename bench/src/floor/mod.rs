//! The floor under every proxy: a relay on bare epoll, the least that a balancer can do.
//!
//! One thread takes requests, parses their heads, picks a server by turns, forwards and counts off
//! the response: nothing is rewritten but what closes a connection, and nothing is timed, logged,
//! counted, checked or retried. What loadline costs is judged by what this costs on the same
//! machine in the same rounds.
//!
//! `--tuned` saves system calls as well: a connection is handed out when its request has come,
//! epoll hears of it if it stays, and long bodies do not come into memory.
//!
//! It knows what the load of this benchmark needs, and closes a connection on anything else: GET
//! without a body, one request after another, answers with a length.

mod connection;
mod head;
mod kernel;
mod pipe;

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use connection::{Connection, Role};
use head::Status;
use pipe::Pipe;

/// Relay requests from a port of loopback to servers on others, and do nothing else
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    port: u16,
    #[arg(required = true)]
    servers: Vec<u16>,
    /// Save system calls with TCP_DEFER_ACCEPT, late registration and splice
    #[arg(long)]
    tuned: bool,
}

/// Relays until the process is ended.
pub(crate) fn serve(args: &Args) -> Result<()> {
    Relay::bind(args.port, &args.servers, args.tuned)?.run()
}

struct Relay {
    epoll: OwnedFd,
    listener: TcpListener,
    servers: Vec<Server>,
    tuned: bool,
    /// The server that the next request goes to.
    turn: usize,
    connections: Vec<Connection>,
    /// Places that are free.
    vacant: Vec<usize>,
    pipe: Pipe,
    /// Places that will be free when no event of this turn can mean them any more.
    leaving: Vec<usize>,
}

struct Server {
    address: SocketAddr,
    /// Connections that nobody uses; the last one used goes out first.
    idle: Vec<usize>,
}

impl Relay {
    fn bind(port: u16, servers: &[u16], tuned: bool) -> Result<Self> {
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener =
            kernel::listen(local(port), tuned).with_context(|| format!("listen on port {port}"))?;
        let epoll = epoll::create(CreateFlags::CLOEXEC).context("create an epoll")?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        let server = |port: &u16| Server { address: local(*port), idle: Vec::new() };
        Ok(Self {
            epoll,
            listener,
            servers: servers.iter().map(server).collect(),
            tuned,
            turn: 0,
            connections: Vec::new(),
            vacant: Vec::new(),
            pipe: Pipe::new()?,
            leaving: Vec::new(),
        })
    }

    fn run(mut self) -> Result<()> {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let mut buffer = vec![0; BUFFER];
        loop {
            let (ready, _) = match epoll::wait(&self.epoll, &mut events, None) {
                Err(Errno::INTR) => continue,
                waited => waited.context("wait for events")?,
            };
            for event in ready.iter() {
                let (token, flags) = (event.data.u64(), event.flags);
                if token == LISTENER {
                    self.accept(&mut buffer)?;
                } else {
                    self.handle(token as usize, flags, &mut buffer);
                }
            }
            self.vacant.append(&mut self.leaving);
        }
    }

    fn accept(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        loop {
            match accept_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    let place = self.add(socket, Role::Client);
                    if self.tuned {
                        // Its request has come, or it would not have been handed out.
                        self.attempt(place, buffer, Self::read_client);
                    } else {
                        self.watch(place)?;
                    }
                }
                Err(Errno::AGAIN) => return Ok(()),
                // It has gone before it was taken.
                Err(Errno::CONNABORTED) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn handle(&mut self, place: usize, flags: EventFlags, buffer: &mut [u8]) {
        if flags.contains(EventFlags::OUT) && self.connections[place].is_blocked() {
            self.attempt(place, buffer, Self::flush);
        }
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR)
        {
            let read = match self.connections[place].role {
                Role::Client => Self::read_client,
                Role::Server(_) => Self::read_server,
            };
            self.attempt(place, buffer, read);
        }
    }

    /// Does a step; a connection that fails takes the one it is joined with along.
    fn attempt(
        &mut self,
        place: usize,
        buffer: &mut [u8],
        step: impl Fn(&mut Self, usize, &mut [u8]) -> io::Result<()>,
    ) {
        let open = self.connections[place].socket.is_some();
        if open && step(self, place, buffer).is_err() {
            if let Some(partner) = self.connections[place].partner {
                self.close(partner);
            }
            self.close(place);
        }
    }

    fn read_client(&mut self, place: usize, buffer: &mut [u8]) -> io::Result<()> {
        let client = &mut self.connections[place];
        if client.partner.is_some() || client.is_blocked() {
            client.unread = true;
            return Ok(());
        }
        client.unread = false;
        let Some(bytes) = client.receive(buffer)? else { return self.watch(place) };
        let mut joined = Vec::new();
        let bytes = client.joined(bytes, &mut joined);
        match head::request(bytes)? {
            Status::Partial => {
                client.partial = bytes.to_vec();
                self.watch(place)
            }
            Status::Complete(request) => {
                client.closes = request.closes;
                if !request.closes {
                    self.watch(place)?;
                }
                let server = self.join(place)?;
                self.send(server, request.forwarded(bytes).as_ref())
            }
        }
    }

    /// Finds a connection to the server that is next, and joins the client with it.
    fn join(&mut self, client: usize) -> io::Result<usize> {
        let turn = self.turn;
        self.turn = (turn + 1) % self.servers.len();
        let server = match self.servers[turn].idle.pop() {
            Some(place) => place,
            None => {
                let place =
                    self.add(kernel::connect(self.servers[turn].address)?, Role::Server(turn));
                self.watch(place)?;
                place
            }
        };
        self.connections[client].partner = Some(server);
        self.connections[server].partner = Some(client);
        self.connections[server].left = None;
        Ok(server)
    }

    fn read_server(&mut self, place: usize, buffer: &mut [u8]) -> io::Result<()> {
        loop {
            let server = &mut self.connections[place];
            // Whatever comes while nobody waits for a response ends the connection.
            let client = server.partner.ok_or(io::ErrorKind::InvalidData)?;
            if self.connections[client].is_blocked() {
                self.connections[place].unread = true;
                return Ok(());
            }
            let server = &mut self.connections[place];
            server.unread = false;
            let over = match server.left {
                Some(left) if self.tuned && left >= SPLICE_MIN => {
                    match self.splice(place, client, left)? {
                        None => return Ok(()),
                        Some(over) => over,
                    }
                }
                left => {
                    let most = if self.tuned && left.is_none() { HEAD } else { BUFFER };
                    let Some(bytes) = server.receive(&mut buffer[..most])? else { return Ok(()) };
                    let drained = bytes.len() < most;
                    let over = self.pass_on(place, client, bytes)?;
                    if drained && !over {
                        return Ok(());
                    }
                    over
                }
            };
            if over {
                return self.part(place, client, buffer);
            }
        }
    }

    /// Gives a piece of a response to the client; whether it was the last.
    fn pass_on(&mut self, server: usize, client: usize, bytes: &[u8]) -> io::Result<bool> {
        if let Some(left) = self.connections[server].left {
            let left = left.checked_sub(bytes.len()).ok_or(io::ErrorKind::InvalidData)?;
            self.connections[server].left = Some(left);
            self.send(client, bytes)?;
            return Ok(left == 0);
        }
        let mut joined = Vec::new();
        let bytes = self.connections[server].joined(bytes, &mut joined);
        let Status::Complete(answer) = head::answer(bytes)? else {
            self.connections[server].partial = bytes.to_vec();
            return Ok(false);
        };
        let left = answer.length.checked_sub(bytes.len()).ok_or(io::ErrorKind::InvalidData)?;
        self.connections[server].left = Some(left);
        let closes = self.connections[client].closes;
        self.send(client, answer.forwarded(bytes, closes).as_ref())?;
        Ok(left == 0)
    }

    /// Moves a piece of a long body from the server to the client inside the kernel; whether it was
    /// the last, and none if nothing has come.
    fn splice(&mut self, server: usize, client: usize, left: usize) -> io::Result<Option<bool>> {
        let Some(count) = self.pipe.fill(&self.connections[server], left)? else {
            return Ok(None);
        };
        self.connections[server].left = Some(left - count);
        self.pipe.empty(&mut self.connections[client], count)?;
        if self.connections[client].is_blocked() {
            self.watch(client)?;
        }
        Ok(Some(left == count))
    }

    /// A response is complete: the server is free again, and so is the client.
    fn part(&mut self, server: usize, client: usize, buffer: &mut [u8]) -> io::Result<()> {
        self.connections[server].partner = None;
        if let Role::Server(index) = self.connections[server].role {
            self.servers[index].idle.push(server);
        }
        let Connection { partner, unread, closes, .. } = &mut self.connections[client];
        *partner = None;
        let (unread, closes) = (*unread, *closes);
        if closes && !self.connections[client].is_blocked() {
            self.close(client);
        } else if unread {
            self.attempt(client, buffer, Self::read_client);
        }
        Ok(())
    }

    /// Writes what has waited, and goes on with what waited for that.
    fn flush(&mut self, place: usize, buffer: &mut [u8]) -> io::Result<()> {
        let connection = &mut self.connections[place];
        if !connection.flush()? {
            return Ok(());
        }
        let Connection { role: Role::Client, partner, closes, unread, .. } = *connection else {
            return Ok(());
        };
        match partner {
            Some(server) if self.connections[server].unread => self.read_server(server, buffer),
            None if closes => {
                self.close(place);
                Ok(())
            }
            None if unread => self.read_client(place, buffer),
            _ => Ok(()),
        }
    }

    fn send(&mut self, place: usize, bytes: &[u8]) -> io::Result<()> {
        self.connections[place].send(bytes)?;
        if self.connections[place].is_blocked() { self.watch(place) } else { Ok(()) }
    }

    fn add(&mut self, socket: OwnedFd, role: Role) -> usize {
        let connection = Connection::new(socket, role);
        match self.vacant.pop() {
            Some(place) => {
                self.connections[place] = connection;
                place
            }
            None => {
                self.connections.push(connection);
                self.connections.len() - 1
            }
        }
    }

    /// Has epoll tell of it, once and for all.
    fn watch(&mut self, place: usize) -> io::Result<()> {
        let connection = &mut self.connections[place];
        let (Some(socket), false) = (&connection.socket, connection.watched) else {
            return Ok(());
        };
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, socket, EventData::new_u64(place as u64), interest)?;
        connection.watched = true;
        Ok(())
    }

    fn close(&mut self, place: usize) {
        let connection = &mut self.connections[place];
        if let Role::Server(index) = connection.role {
            self.servers[index].idle.retain(|idle| *idle != place);
        }
        if connection.socket.take().is_some() {
            self.leaving.push(place);
        }
    }
}

/// The token of the listener; others are places.
const LISTENER: u64 = u64::MAX;
const EVENTS: usize = 512;
/// What is read of a response before its length is known; more of a long one would be copied.
const HEAD: usize = 4 << 10;
const BUFFER: usize = 128 << 10;
/// Of a body that is worth two calls to splice.
const SPLICE_MIN: usize = 16 << 10;

#[cfg(test)]
mod tests;
