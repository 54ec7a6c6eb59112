//! Bytes from a client, cut into frames. All that has come is taken at once, whatever it ends with.

use loadline_core::time::Instant;

use super::{
    ErrorCode, Protocol,
    frame::{
        ACK, CONTINUATION, DATA, END_STREAM, FrameHeader, GOAWAY, HEADER, HEADERS, LONGEST, PADDED,
        PING, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE,
    },
    heads::Block,
};
use crate::runtime::random::Random;

/// Where in the frames the reader is.
#[derive(Debug)]
pub(super) struct Reader {
    /// Bytes of the preface that have come.
    greeted: usize,
    /// A header of which part has come.
    header: [u8; HEADER],
    come: usize,
    stage: Stage,
    /// The payload of a frame of which part has come.
    partial: Vec<u8>,
    /// SETTINGS have come, which must be first (RFC 9113, 3.4).
    has_settings: bool,
    /// A header block that goes on in the next frame.
    pub(super) block: Option<Block>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Header,
    /// The payload of a frame that is wanted whole.
    Whole(FrameHeader),
    Data(Data),
}

/// A frame DATA of which part has come.
#[derive(Clone, Copy, Debug)]
struct Data {
    stream: u32,
    /// Bytes of it that are still to come, with its padding.
    left: usize,
    padding: usize,
    is_padding_told: bool,
    ends: bool,
}

impl Reader {
    pub(super) const fn new() -> Self {
        Self {
            greeted: 0,
            header: [0; HEADER],
            come: 0,
            stage: Stage::Header,
            partial: Vec::new(),
            has_settings: false,
            block: None,
        }
    }
}

impl Protocol {
    /// Whether the client has begun as it must.
    pub(in super::super) const fn is_greeted(&self) -> bool {
        self.reader.greeted == PREFACE.len()
    }

    /// Takes bytes of the client at `now`: how many. What is left is to be given again when the
    /// requests have been accepted that have come. `random` is for the keys of WebSockets.
    ///
    /// # Errors
    /// The code of the rule that was broken: the connection is over.
    pub(in super::super) fn receive(
        &mut self,
        bytes: &[u8],
        now: Instant,
        random: &Random,
    ) -> Result<usize, ErrorCode> {
        self.out.now = now;
        let mut at = self.take_preface(bytes)?;
        while at < bytes.len() && self.opened.len() < TURN {
            at += self.step(&bytes[at..], now, random)?;
        }
        Ok(at)
    }

    fn take_preface(&mut self, bytes: &[u8]) -> Result<usize, ErrorCode> {
        let wanted = &PREFACE[self.reader.greeted..];
        let count = wanted.len().min(bytes.len());
        if bytes[..count] != wanted[..count] {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        self.reader.greeted += count;
        Ok(count)
    }

    /// Takes what belongs together at the beginning of `bytes`, which are some: how much.
    fn step(&mut self, bytes: &[u8], now: Instant, random: &Random) -> Result<usize, ErrorCode> {
        let frame = match self.reader.stage {
            Stage::Header => return self.take_header(bytes, now, random),
            Stage::Data(data) => return self.take_data(data, bytes, now),
            Stage::Whole(frame) => frame,
        };
        let before = self.reader.partial.len();
        let count = (frame.length - before).min(bytes.len());
        if count == frame.length {
            self.reader.stage = Stage::Header;
            self.take_frame(frame, &bytes[..count], random)?;
            return Ok(count);
        }
        self.reader.partial.extend_from_slice(&bytes[..count]);
        if before + count == frame.length {
            self.reader.stage = Stage::Header;
            let payload = std::mem::take(&mut self.reader.partial);
            self.take_frame(frame, &payload, random)?;
        }
        Ok(count)
    }

    fn take_header(
        &mut self,
        bytes: &[u8],
        now: Instant,
        random: &Random,
    ) -> Result<usize, ErrorCode> {
        let reader = &mut self.reader;
        let count = (HEADER - reader.come).min(bytes.len());
        reader.header[reader.come..reader.come + count].copy_from_slice(&bytes[..count]);
        reader.come += count;
        if reader.come < HEADER {
            return Ok(count);
        }
        reader.come = 0;
        let frame = FrameHeader::parse(reader.header);
        reader.check_order(frame)?;
        match frame.kind {
            DATA => self.begin_data(frame, now)?,
            _ if frame.length == 0 => self.take_frame(frame, b"", random)?,
            _ => self.reader.stage = Stage::Whole(frame),
        }
        Ok(count)
    }

    fn take_frame(
        &mut self,
        frame: FrameHeader,
        payload: &[u8],
        random: &Random,
    ) -> Result<(), ErrorCode> {
        match frame.kind {
            HEADERS => self.take_headers(frame, payload, random),
            CONTINUATION => self.take_continuation(frame, payload, random),
            WINDOW_UPDATE => self.take_window_update(frame, payload),
            RST_STREAM => self.take_reset(frame, payload),
            SETTINGS => self.take_settings(frame, payload),
            PING => self.take_ping(frame, payload),
            GOAWAY => self.take_goaway(frame, payload),
            PRIORITY => self.take_priority(frame, payload),
            PUSH_PROMISE => Err(ErrorCode::PROTOCOL_ERROR),
            // RFC 9113, 5.5: what is not known is ignored.
            _ => Ok(()),
        }
    }

    fn begin_data(&mut self, frame: FrameHeader, now: Instant) -> Result<(), ErrorCode> {
        let FrameHeader { length, stream, .. } = frame;
        let ends = frame.has(END_STREAM);
        if !frame.has(PADDED) {
            self.weigh(length, ends, now)?;
        }
        if self.is_unopened(stream) {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        if !self.window.admit(length) {
            return Err(ErrorCode::FLOW_CONTROL_ERROR);
        }
        let refused = self.streams.open_mut(stream).map(|open| match open.has_received_end {
            true => Some(ErrorCode::STREAM_CLOSED),
            false if open.window.admit(length) => None,
            false => Some(ErrorCode::FLOW_CONTROL_ERROR),
        });
        match refused {
            Some(None) => {}
            Some(Some(code)) => self.reset_for(stream, code)?,
            // It may have been on its way when we have reset the stream (RFC 9113, 5.1).
            None if self.reset.contains(&stream) => {}
            None => self.reset_for(stream, ErrorCode::STREAM_CLOSED)?,
        }
        let is_padding_told = !frame.has(PADDED);
        if !is_padding_told && length == 0 {
            return Err(ErrorCode::FRAME_SIZE_ERROR);
        }
        let data = Data { stream, left: length, padding: 0, is_padding_told, ends };
        self.go_on(data)
    }

    /// Takes part of a frame DATA, some of which is still to come: how much.
    fn take_data(
        &mut self,
        mut data: Data,
        bytes: &[u8],
        now: Instant,
    ) -> Result<usize, ErrorCode> {
        let mut at = 0;
        if !data.is_padding_told {
            (data.padding, data.is_padding_told) = (usize::from(bytes[0]), true);
            (at, data.left) = (1, data.left - 1);
            self.release(data.stream, 1);
            self.weigh(data.left.saturating_sub(data.padding), data.ends, now)?;
        }
        let payload = data.left.checked_sub(data.padding).ok_or(ErrorCode::PROTOCOL_ERROR)?;
        let piece = payload.min(bytes.len() - at);
        self.take_payload(data.stream, &bytes[at..at + piece])?;
        (at, data.left) = (at + piece, data.left - piece);
        if data.left == data.padding {
            let padding = data.padding.min(bytes.len() - at);
            self.release(data.stream, padding);
            at += padding;
            (data.left, data.padding) = (data.left - padding, data.padding - padding);
        }
        self.go_on(data)?;
        Ok(at)
    }

    /// Counts a frame DATA by whether it brings something, padding aside.
    fn weigh(&mut self, payload: usize, ends: bool, now: Instant) -> Result<(), ErrorCode> {
        if payload > 0 {
            self.empty.lower();
        } else if !ends && self.empty.rise(now) {
            return Err(ErrorCode::ENHANCE_YOUR_CALM);
        }
        Ok(())
    }

    /// Waits for the rest of a frame DATA, or for the next one where that was all.
    fn go_on(&mut self, data: Data) -> Result<(), ErrorCode> {
        if data.left > 0 {
            self.reader.stage = Stage::Data(data);
            return Ok(());
        }
        self.reader.stage = Stage::Header;
        if data.ends { self.end_received(data.stream) } else { Ok(()) }
    }

    fn take_payload(&mut self, id: u32, piece: &[u8]) -> Result<(), ErrorCode> {
        if piece.is_empty() {
            return Ok(());
        }
        let Some(stream) = self.streams.open_mut(id) else {
            self.release_connection(piece.len());
            return Ok(());
        };
        if let Some(announced) = &mut stream.announced {
            let Some(left) = announced.checked_sub(piece.len() as u64) else {
                // RFC 9113, 8.1.1: more than its Content-Length.
                self.release_connection(piece.len());
                return self.reset_for(id, ErrorCode::PROTOCOL_ERROR);
            };
            *announced = left;
        }
        stream.received.extend_from_slice(piece);
        stream.wake_reader();
        Ok(())
    }

    /// Takes the end of what a client sends on a stream.
    pub(super) fn end_received(&mut self, id: u32) -> Result<(), ErrorCode> {
        let Some(slot) = self.streams.find(id) else { return Ok(()) };
        let Some(stream) = self.streams.get_mut(slot) else { return Ok(()) };
        if stream.announced.is_some_and(|left| left > 0) {
            return self.reset_for(id, ErrorCode::PROTOCOL_ERROR);
        }
        stream.has_received_end = true;
        stream.wake_reader();
        let is_left = stream.is_left;
        if stream.is_over() {
            self.note_closed(id);
        }
        if is_left {
            self.forget(slot);
        }
        Ok(())
    }

    /// Whether a client has not opened a stream, nor may have.
    pub(super) const fn is_unopened(&self, id: u32) -> bool {
        id.is_multiple_of(2) || id > self.newest
    }
}

impl Reader {
    /// Whether a frame may come now (RFC 9113, 3.4, 4.2 and 6.10).
    fn check_order(&mut self, frame: FrameHeader) -> Result<(), ErrorCode> {
        if frame.length > LONGEST {
            return Err(ErrorCode::FRAME_SIZE_ERROR);
        }
        let is_settings = frame.kind == SETTINGS && !frame.has(ACK);
        if !std::mem::replace(&mut self.has_settings, true) && !is_settings {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        let is_due = match &self.block {
            Some(block) => frame.kind == CONTINUATION && frame.stream == block.stream,
            None => frame.kind != CONTINUATION,
        };
        is_due.then_some(()).ok_or(ErrorCode::PROTOCOL_ERROR)
    }
}

/// What a client begins with (RFC 9113, 3.4).
pub(in super::super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Requests that wait to be accepted before more is taken.
const TURN: usize = 50;
