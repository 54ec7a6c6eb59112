//! A client that speaks frames.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Poll, Wake},
};

use loadline_core::time::Instant;
use proptest::{collection::vec, prelude::*};

use super::{frame::*, *};
use crate::runtime::random::Random;

mod exchange;
mod states;

/// A client with the server's side of its connection.
struct Client {
    protocol: Protocol,
    random: Random,
    /// How much of what is unsent has been looked at.
    seen: usize,
}

/// A frame as it comes from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

const LIMITS: Limits =
    Limits { streams: 8, window: 100_000, connection_window: 200_000, longest_head: 8_192 };

/// `:method: GET`, `:scheme: https`, `:path: /`, `:authority: a`.
const GET: &[u8] = &[0x82, 0x87, 0x84, 1, 1, b'a'];
const POST: &[u8] = &[0x83, 0x87, 0x84, 1, 1, b'a'];
/// `x: y`.
const FIELD: &[u8] = &[0, 1, b'x', 1, b'y'];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    FrameHeader::new(kind, flags, stream).write(&mut out, payload);
    out
}

fn headers(stream: u32, flags: u8, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, stream, block)
}

fn window_update(stream: u32, more: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &more.to_be_bytes())
}

fn settings(all: &[(u16, u32)]) -> Vec<u8> {
    let bytes =
        |(name, value): &(u16, u32)| [&name.to_be_bytes()[..], &value.to_be_bytes()[..]].concat();
    frame(SETTINGS, 0, 0, &all.iter().flat_map(bytes).collect::<Vec<_>>())
}

fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

const WINDOW: u16 = 4;

/// Counts how often it was woken.
#[derive(Debug, Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Client {
    /// One whose preface and settings have come.
    fn new(limits: Limits, all: &[(u16, u32)]) -> Self {
        let mut client = Self::silent(limits);
        client.send(PREFACE).unwrap();
        client.send(&settings(all)).unwrap();
        client.send(&frame(SETTINGS, ACK, 0, b"")).unwrap();
        client.frames();
        client
    }

    fn silent(limits: Limits) -> Self {
        Self { protocol: Protocol::new(limits), random: Random::new(), seen: 0 }
    }

    /// Sends bytes, all of which are to be taken.
    fn send(&mut self, bytes: &[u8]) -> Result<(), ErrorCode> {
        let taken = self.protocol.receive(bytes, Instant::ZERO, &self.random)?;
        assert_eq!(taken, bytes.len());
        Ok(())
    }

    /// Sends a request: its slot.
    fn open(&mut self, stream: u32, flags: u8, block: &[u8]) -> Slot {
        self.send(&headers(stream, flags, block)).unwrap();
        self.protocol.accept().unwrap().slot
    }

    /// The frames that have come since this was last asked.
    fn frames(&mut self) -> Vec<Seen> {
        let mut frames = Vec::new();
        let mut rest = &self.protocol.unsent()[self.seen..];
        while let Some((header, after)) = rest.split_first_chunk::<HEADER>() {
            let header = FrameHeader::parse(*header);
            let (payload, after) = after.split_at(header.length);
            let FrameHeader { kind, flags, stream, .. } = header;
            frames.push(Seen { kind, flags, stream, payload: payload.to_vec() });
            rest = after;
        }
        assert!(rest.is_empty(), "half a frame");
        self.seen = self.protocol.unsent().len();
        frames
    }

    /// Lets the socket take up to so many bytes.
    fn take(&mut self, most: usize) {
        let count = most.min(self.protocol.unsent().len());
        self.seen -= count.min(self.seen);
        self.protocol.advance(count, Instant::ZERO);
    }

    /// What the streams reset, or the connection's end, say: stream and code.
    fn codes(&mut self) -> Vec<(u32, u32)> {
        let resets = self.frames().into_iter().filter(|seen| seen.kind == RST_STREAM);
        resets.map(|seen| (seen.stream, only_word(&seen.payload).unwrap())).collect()
    }

    fn stream(&mut self, slot: Slot) -> &mut table::Stream {
        self.protocol.streams.get_mut(slot).unwrap()
    }

    /// Has a stream write so much, if it may: how much it wrote.
    fn write(&mut self, slot: Slot, most: usize, waker: &Waker) -> Poll<Result<usize, Reason>> {
        let cx = Context::from_waker(waker);
        let room = std::task::ready!(self.protocol.poll_room(slot, most, &cx))?.min(PIECE);
        let fill = |out: &mut Vec<u8>| {
            out.resize(out.len() + room, b'.');
            Ok::<_, Reason>(false)
        };
        self.protocol.write_data(slot, fill)?;
        self.protocol.return_room(slot);
        Poll::Ready(Ok(room))
    }

    fn write_now(&mut self, slot: Slot, most: usize) -> Option<usize> {
        match self.write(slot, most, Waker::noop()) {
            Poll::Ready(room) => room.ok(),
            Poll::Pending => None,
        }
    }

    /// Has a stream write until it has to wait for the client.
    fn write_all(&mut self, slot: Slot) {
        while self.write_now(slot, PIECE).is_some() {
            self.take(usize::MAX);
        }
    }

    fn end(&mut self, slot: Slot) {
        self.protocol.write_data(slot, |_| Ok::<_, Reason>(true)).unwrap();
    }

    /// All that has come on a stream and was not taken.
    fn read(&mut self, slot: Slot) -> Vec<u8> {
        let mut all = Vec::new();
        let cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(Ok(piece))) = self.protocol.poll_data(slot, &cx) {
            all.extend_from_slice(&piece);
        }
        all
    }

    /// Nothing has come that nobody has taken, and nothing is granted.
    fn assert_at_rest(&self) {
        assert_eq!(self.protocol.window.untaken(), 0, "all has been given back");
        let (_, reserved, waiting) = self.protocol.out.state();
        assert_eq!((reserved, waiting), (0, 0), "nobody has room, nor waits for it");
    }
}
