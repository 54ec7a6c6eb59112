//! Frames from a client that change windows, settings or streams (RFC 9113, 6.3 to 6.9).

use loadline_core::decide::reason::Reason;

use super::{
    ErrorCode, Protocol,
    frame::{ACK, FrameHeader, PING, SETTINGS, WINDOW_UPDATE, only_word, stream_id},
    outbound::LEAVE_PING,
};

/// What the client has told of itself that matters here.
#[derive(Debug)]
pub(super) struct PeerSettings {
    /// Of a new stream.
    pub(super) window: u32,
    /// The longest payload it takes.
    pub(super) frame: usize,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self { window: WINDOW_FIRST, frame: super::frame::LONGEST }
    }
}

impl Protocol {
    /// Writes our settings, which are the first frame.
    pub(super) fn begin(&mut self) {
        let limits = self.limits;
        let settings = [
            (MAX_CONCURRENT_STREAMS, limits.streams),
            (INITIAL_WINDOW_SIZE, limits.window),
            (MAX_HEADER_LIST_SIZE, limits.longest_head),
            (ENABLE_CONNECT_PROTOCOL, 1),
        ];
        let mut payload = Vec::with_capacity(settings.len() * SETTING);
        for (name, value) in settings {
            payload.extend_from_slice(&name.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        self.write(FrameHeader::new(SETTINGS, 0, 0), &payload);
        if let Some(more) = self.window.grow(limits.connection_window) {
            self.write(FrameHeader::new(WINDOW_UPDATE, 0, 0), &more.to_be_bytes());
        }
    }

    pub(super) fn take_settings(
        &mut self,
        frame: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ErrorCode> {
        if frame.stream != 0 {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        if frame.has(ACK) {
            return self.settle(payload);
        }
        let (settings, rest) = payload.as_chunks::<SETTING>();
        if !rest.is_empty() {
            return Err(ErrorCode::FRAME_SIZE_ERROR);
        }
        let mut window = self.peer.window;
        for [a, b, value @ ..] in settings {
            match (u16::from_be_bytes([*a, *b]), u32::from_be_bytes(*value)) {
                // All streams are gone through for it, so once for a frame.
                (INITIAL_WINDOW_SIZE, value) if i64::from(value) > WINDOW_MAX => {
                    return Err(ErrorCode::FLOW_CONTROL_ERROR);
                }
                (INITIAL_WINDOW_SIZE, value) => window = value,
                (name, value) => self.apply(name, value)?,
            }
        }
        self.resize_windows(window)?;
        self.write(FrameHeader::new(SETTINGS, ACK, 0), b"");
        self.grant();
        Ok(())
    }

    /// Takes the acknowledgement of our settings: the windows of streams are what they say.
    fn settle(&mut self, payload: &[u8]) -> Result<(), ErrorCode> {
        if !payload.is_empty() {
            return Err(ErrorCode::FRAME_SIZE_ERROR);
        }
        if std::mem::replace(&mut self.is_settled, true) {
            return Ok(());
        }
        for slot in self.streams.slots() {
            if let Some(stream) = self.streams.get_mut(slot) {
                stream.window.resize(self.limits.window);
            }
        }
        Ok(())
    }

    fn apply(&mut self, name: u16, value: u32) -> Result<(), ErrorCode> {
        match name {
            HEADER_TABLE_SIZE => self.encoder.set_table_size(value),
            MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&value) => {
                return Err(ErrorCode::PROTOCOL_ERROR);
            }
            MAX_FRAME_SIZE => self.peer.frame = value as usize,
            ENABLE_PUSH | ENABLE_CONNECT_PROTOCOL if value > 1 => {
                return Err(ErrorCode::PROTOCOL_ERROR);
            }
            _ => {}
        }
        Ok(())
    }

    /// Changes the size of the windows towards the client (RFC 9113, 6.9.2).
    fn resize_windows(&mut self, size: u32) -> Result<(), ErrorCode> {
        let change = i64::from(size) - i64::from(std::mem::replace(&mut self.peer.window, size));
        if change == 0 {
            return Ok(());
        }
        for slot in self.streams.slots() {
            self.widen(slot, change)?;
        }
        Ok(())
    }

    pub(super) fn take_window_update(
        &mut self,
        frame: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ErrorCode> {
        let more = i64::from(only_word(payload)? & 0x7fff_ffff);
        let id = frame.stream;
        if id == 0 {
            if more == 0 {
                return Err(ErrorCode::PROTOCOL_ERROR);
            }
            self.out.widened_at = self.out.now;
            if !self.out.widen(more) {
                return Err(ErrorCode::FLOW_CONTROL_ERROR);
            }
            self.grant();
            return Ok(());
        }
        if self.is_unopened(id) {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        let Some(slot) = self.streams.find(id) else { return Ok(()) };
        if more == 0 {
            return self.reset_for(id, ErrorCode::PROTOCOL_ERROR);
        }
        if self.widen(slot, more).is_err() {
            return self.reset_for(id, ErrorCode::FLOW_CONTROL_ERROR);
        }
        self.grant();
        Ok(())
    }

    /// Changes the window of a stream towards the client.
    fn widen(&mut self, slot: usize, change: i64) -> Result<(), ErrorCode> {
        let Some(stream) = self.streams.get_mut(slot) else { return Ok(()) };
        stream.send_window += change;
        // What is granted is part of the window until it is written.
        if stream.send_window + stream.granted as i64 > WINDOW_MAX {
            return Err(ErrorCode::FLOW_CONTROL_ERROR);
        }
        if stream.send_window < 0 {
            let missing = stream.send_window.unsigned_abs() as usize;
            self.revoke(slot, missing);
        }
        self.queue(slot);
        Ok(())
    }

    pub(super) fn take_reset(
        &mut self,
        frame: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ErrorCode> {
        let code = only_word(payload)?;
        let id = frame.stream;
        if self.is_unopened(id) {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        if let Some(slot) = self.streams.find(id) {
            let stream = self.streams.get_mut(slot);
            self.taken_back += usize::from(stream.is_some_and(|stream| !stream.is_answered));
            self.fail(slot, Reason::http2_reset(code));
            self.note_closed(id);
        }
        Ok(())
    }

    pub(super) fn take_ping(
        &mut self,
        frame: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ErrorCode> {
        if frame.stream != 0 {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        if payload.len() != LEAVE_PING.len() {
            return Err(ErrorCode::FRAME_SIZE_ERROR);
        }
        match frame.has(ACK) {
            true => self.is_leave_seen |= payload == LEAVE_PING,
            false => self.write(FrameHeader::new(PING, ACK, 0), payload),
        }
        Ok(())
    }

    /// A client that leaves opens no more streams: the connection ends with those that are open.
    pub(super) const fn take_goaway(
        &mut self,
        frame: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ErrorCode> {
        match (frame.stream, payload.len()) {
            (0, 8..) => {
                self.is_leave_seen = true;
                Ok(())
            }
            (0, _) => Err(ErrorCode::FRAME_SIZE_ERROR),
            _ => Err(ErrorCode::PROTOCOL_ERROR),
        }
    }

    /// Priorities of RFC 7540 are read for their errors alone (RFC 9113, 5.3.2).
    pub(super) fn take_priority(
        &mut self,
        frame: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ErrorCode> {
        let id = frame.stream;
        if id == 0 {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        let code = match *payload {
            [a, b, c, d, _] if stream_id([a, b, c, d]) == id => ErrorCode::PROTOCOL_ERROR,
            [_, _, _, _, _] => return Ok(()),
            _ => ErrorCode::FRAME_SIZE_ERROR,
        };
        // A stream that is not open yet cannot be reset (RFC 9113, 6.4).
        if self.is_unopened(id) { Err(code) } else { self.reset_for(id, code) }
    }
}

/// Of a connection and its streams until settings say otherwise (RFC 9113, 6.9.2).
pub(super) const WINDOW_FIRST: u32 = 65_535;

/// The largest window there can be (RFC 9113, 6.9.1).
pub(super) const WINDOW_MAX: i64 = (1 << 31) - 1;

/// Bytes of a setting: its identifier, and its value (RFC 9113, 6.5.1).
const SETTING: usize = 6;

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;
/// RFC 8441, 3.
const ENABLE_CONNECT_PROTOCOL: u16 = 8;
