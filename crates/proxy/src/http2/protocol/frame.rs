//! Frames (RFC 9113, 4.1 and 6): their headers, and those that are written whole.

/// Bytes of a frame before its payload.
pub(super) const HEADER: usize = 9;

/// The longest payload that is taken: what a peer may send unless it is told otherwise.
pub(super) const LONGEST: usize = 16 << 10;

/// A code that tells why a stream or a connection ends (RFC 9113, 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct ErrorCode(pub(in super::super) u32);

impl ErrorCode {
    pub(in super::super) const NO_ERROR: Self = Self(0);
    pub(in super::super) const PROTOCOL_ERROR: Self = Self(1);
    pub(in super::super) const INTERNAL_ERROR: Self = Self(2);
    pub(in super::super) const FLOW_CONTROL_ERROR: Self = Self(3);
    pub(in super::super) const STREAM_CLOSED: Self = Self(5);
    pub(in super::super) const FRAME_SIZE_ERROR: Self = Self(6);
    pub(in super::super) const REFUSED_STREAM: Self = Self(7);
    pub(in super::super) const CANCEL: Self = Self(8);
    pub(in super::super) const COMPRESSION_ERROR: Self = Self(9);
    pub(in super::super) const ENHANCE_YOUR_CALM: Self = Self(11);
}

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

/// Of DATA and HEADERS.
pub(super) const END_STREAM: u8 = 1;
/// Of SETTINGS and PING.
pub(super) const ACK: u8 = 1;
/// Of HEADERS and CONTINUATION.
pub(super) const END_HEADERS: u8 = 4;
/// Of DATA and HEADERS.
pub(super) const PADDED: u8 = 8;
/// Of HEADERS: the fields of PRIORITY are in front.
pub(super) const HAS_PRIORITY: u8 = 0x20;

/// What a frame begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// Bytes of its payload.
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl FrameHeader {
    pub(super) const fn new(kind: u8, flags: u8, stream: u32) -> Self {
        Self { length: 0, kind, flags, stream }
    }

    pub(super) const fn parse([a, b, c, kind, flags, d, e, f, g]: [u8; HEADER]) -> Self {
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        Self { length, kind, flags, stream: stream_id([d, e, f, g]) }
    }

    pub(super) const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// As it is sent, in front of `length` bytes.
    pub(super) fn bytes(self, length: usize) -> [u8; HEADER] {
        let [_, a, b, c] = (length as u32).to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, d, e, f, g]
    }

    /// Appends the whole frame.
    pub(super) fn write(self, out: &mut Vec<u8>, payload: &[u8]) {
        out.extend_from_slice(&self.bytes(payload.len()));
        out.extend_from_slice(payload);
    }
}

/// A stream's number, whose first bit means nothing.
pub(super) const fn stream_id(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes) & 0x7fff_ffff
}

/// The four bytes that `payload` is to be.
pub(super) fn only_word(payload: &[u8]) -> Result<u32, ErrorCode> {
    payload.try_into().map(u32::from_be_bytes).map_err(|_| ErrorCode::FRAME_SIZE_ERROR)
}

/// A payload without its padding (RFC 9113, 6.1), where the frame has some.
pub(super) fn unpadded(frame: FrameHeader, payload: &[u8]) -> Result<&[u8], ErrorCode> {
    if !frame.has(PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(ErrorCode::FRAME_SIZE_ERROR)?;
    let length = rest.len().checked_sub(usize::from(*padding));
    length.map(|length| &rest[..length]).ok_or(ErrorCode::PROTOCOL_ERROR)
}
