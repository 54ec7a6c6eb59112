//! HTTP/2 by hand, for what no library would send.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
};

use socket2::{Domain, Socket, Type};

use crate::support::PATIENCE;

/// A connection after both sides' settings.
pub(crate) struct Raw(TcpStream);

/// What came in a frame.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// GET http / of `a`: three fields of the static table, and an authority in plain letters.
pub(crate) const GET: &[u8] = b"\x82\x86\x84\x41\x01a";

/// The same with POST.
pub(crate) const POST: &[u8] = b"\x83\x86\x84\x41\x01a";

/// The bytes of a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    /// A client whose kernel takes little before it reads.
    pub(crate) fn connect_narrowly(address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        socket.connect(&address.into()).unwrap();
        Self::over(socket.into())
    }

    fn over(mut stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        let mut raw = Self(stream);
        raw.send(SETTINGS, 0, 0, b"").unwrap();
        raw
    }

    /// The side of a server, whose client has connected.
    pub(crate) fn accept(mut stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.read_exact(&mut [0; 24]).unwrap();
        let mut raw = Self(stream);
        raw.send(SETTINGS, 0, 0, b"").unwrap();
        raw
    }

    pub(crate) fn send(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
    ) -> io::Result<()> {
        self.0.write_all(&frame(kind, flags, stream, payload))
    }

    /// Sends frames that come together.
    pub(crate) fn send_all(&mut self, frames: &[Vec<u8>]) {
        self.0.write_all(&frames.concat()).unwrap();
    }

    pub(crate) fn receive(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload)?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Ok(Frame { kind: head[3], stream, payload })
    }

    /// The next frame of this kind.
    pub(crate) fn until(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.receive().unwrap();
            if frame.kind == kind {
                return frame;
            }
        }
    }

    /// Whether the other side answers, rather than gives the connection up.
    pub(crate) fn is_there(&mut self) -> bool {
        let asked = self.send(PING, 0, 0, b"12345678").is_ok();
        let next = || self.receive().ok().filter(|frame| frame.kind != GOAWAY);
        asked && std::iter::from_fn(next).any(|frame| frame.kind == PING)
    }

    /// Why the other side gives the connection up.
    pub(crate) fn reason(&mut self) -> u32 {
        let last = self.until(GOAWAY).payload;
        u32::from_be_bytes([last[4], last[5], last[6], last[7]])
    }
}
