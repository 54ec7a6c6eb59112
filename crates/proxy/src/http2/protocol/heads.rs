//! Header blocks from a client (RFC 9113, 4.3 and 8): requests that begin, and trailers.

use bytes::BytesMut;

use super::{
    ErrorCode, Limits, Opened, Protocol,
    frame::{END_HEADERS, END_STREAM, FrameHeader, HAS_PRIORITY, stream_id, unpadded},
    table::{Slot, Stream},
    window::ReceiveWindow,
};
use crate::{
    http2::{
        field_syntax::write_trailer,
        hpack::{Decoder, Undecodable},
    },
    runtime::random::Random,
};

/// A header block of which part has come.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    ends: bool,
    /// The stream depends on itself (RFC 7540, 5.3.1).
    is_circular: bool,
    fragments: Vec<u8>,
    frames: usize,
}

impl Protocol {
    pub(super) fn take_headers(
        &mut self,
        frame: FrameHeader,
        payload: &[u8],
        random: &Random,
    ) -> Result<(), ErrorCode> {
        self.empty.lower();
        let id = frame.stream;
        if id.is_multiple_of(2) {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        let mut fragment = unpadded(frame, payload)?;
        let mut is_circular = false;
        if frame.has(HAS_PRIORITY) {
            let [a, b, c, d, _, rest @ ..] = fragment else {
                return Err(ErrorCode::FRAME_SIZE_ERROR);
            };
            is_circular = stream_id([*a, *b, *c, *d]) == id;
            fragment = rest;
        }
        let ends = frame.has(END_STREAM);
        let mut block = Block { stream: id, ends, is_circular, fragments: Vec::new(), frames: 0 };
        if frame.has(END_HEADERS) {
            return self.take_block(&block, fragment, random);
        }
        block.fragments.extend_from_slice(fragment);
        self.reader.block = Some(block);
        Ok(())
    }

    pub(super) fn take_continuation(
        &mut self,
        frame: FrameHeader,
        payload: &[u8],
        random: &Random,
    ) -> Result<(), ErrorCode> {
        let Some(mut block) = self.reader.block.take() else {
            return Err(ErrorCode::PROTOCOL_ERROR);
        };
        block.frames += 1;
        let most = self.limits.longest_block();
        if block.frames > FRAMES_MIN + most / FRAME_MIN
            || block.fragments.len() + payload.len() > most
        {
            return Err(ErrorCode::ENHANCE_YOUR_CALM);
        }
        block.fragments.extend_from_slice(payload);
        if frame.has(END_HEADERS) {
            let fragments = std::mem::take(&mut block.fragments);
            return self.take_block(&block, &fragments, random);
        }
        self.reader.block = Some(block);
        Ok(())
    }

    /// Takes a whole block. All are decoded, as those that follow refer to them.
    fn take_block(
        &mut self,
        block: &Block,
        fragments: &[u8],
        random: &Random,
    ) -> Result<(), ErrorCode> {
        let id = block.stream;
        if let Some(slot) = self.streams.find(id) {
            return self.take_trailers(block, slot, fragments);
        }
        if id > self.newest {
            return self.open(block, fragments, random);
        }
        if self.reset.contains(&id) {
            return self.decode_trailers(fragments).map(|_| ());
        }
        let was_open = self.closed.contains(&id);
        Err(if was_open { ErrorCode::STREAM_CLOSED } else { ErrorCode::PROTOCOL_ERROR })
    }

    fn open(&mut self, block: &Block, fragments: &[u8], random: &Random) -> Result<(), ErrorCode> {
        let (most, Self { decoder, head, .. }) = (self.limits.longest_block(), &mut *self);
        decode(decoder, fragments, most, |name, value| head.field(name, value))?;
        let head = head.finish(block.ends, || [random.draw(), random.draw()]);
        let id = block.stream;
        self.newest = id;
        let most = self.limits.streams as usize;
        if self.streams.open() >= most {
            self.reset_left();
        }
        let is_one_too_many = self.streams.open() >= most;
        if self.last.is_some() || is_one_too_many {
            self.refused += usize::from(self.last.is_none());
            self.write_reset(id, ErrorCode::REFUSED_STREAM);
            return Ok(());
        }
        let Some(head) = head.ok().filter(|_| !block.is_circular) else {
            self.malformed += 1;
            return self.reset_for(id, ErrorCode::PROTOCOL_ERROR);
        };
        let stream = Stream {
            id,
            has_received_end: block.ends,
            has_sent_end: false,
            is_left: false,
            is_answered: false,
            fault: None,
            window: ReceiveWindow::new(self.stream_window()),
            received: BytesMut::new(),
            trailers: Vec::new(),
            announced: head.content_length,
            send_window: i64::from(self.peer.window),
            granted: 0,
            granted_at: None,
            is_queued: false,
            wanted: 0,
            reader: None,
            writer: None,
        };
        let slot = self.streams.insert(stream);
        self.opened.push_back(Opened { slot, head });
        Ok(())
    }

    fn take_trailers(
        &mut self,
        block: &Block,
        slot: Slot,
        fragments: &[u8],
    ) -> Result<(), ErrorCode> {
        let trailers = self.decode_trailers(fragments)?;
        let Some(stream) = self.streams.get_mut(slot) else { return Ok(()) };
        if stream.has_received_end {
            return self.reset_for(block.stream, ErrorCode::STREAM_CLOSED);
        }
        let Some(text) = trailers.filter(|_| block.ends && !block.is_circular) else {
            return self.reset_for(block.stream, ErrorCode::PROTOCOL_ERROR);
        };
        stream.trailers = text;
        self.end_received(block.stream)
    }

    /// Trailers in the syntax of HTTP/1; none if they are malformed.
    fn decode_trailers(&mut self, fragments: &[u8]) -> Result<Option<Vec<u8>>, ErrorCode> {
        let longest = self.limits.longest_head as usize;
        let (mut text, mut is_malformed) = (Vec::new(), false);
        decode(&mut self.decoder, fragments, self.limits.longest_block(), |name, value| {
            // The parser refuses what is too long by itself.
            if text.len() <= longest {
                is_malformed |= write_trailer(&mut text, name, value).is_err();
            }
        })?;
        Ok((!is_malformed).then_some(text))
    }

    /// The size of a new stream's window: before the client has acknowledged our settings it may
    /// use the one that all connections begin with.
    pub(super) fn stream_window(&self) -> u32 {
        let window = self.limits.window;
        if self.is_settled { window } else { window.max(super::WINDOW_FIRST) }
    }
}

impl Limits {
    /// The size of the longest head that is read at all.
    const fn longest_block(self) -> usize {
        self.longest_head as usize * HEADS + HEADS_MORE
    }
}

/// Decodes a block whose fields may be `most` bytes.
fn decode(
    decoder: &mut Decoder,
    fragments: &[u8],
    most: usize,
    field: impl FnMut(&[u8], &[u8]),
) -> Result<(), ErrorCode> {
    decoder.decode(fragments, most, field).map_err(|why| match why {
        Undecodable::TooLong => ErrorCode::ENHANCE_YOUR_CALM,
        _ => ErrorCode::COMPRESSION_ERROR,
    })
}

/// A head may be so many times as long as the longest, and by so many bytes longer, for the parser
/// to refuse it (431).
const HEADS: usize = 4;
const HEADS_MORE: usize = 64 << 10;

/// Frames of a header block (CVE-2024-27316): some, and one for each so many bytes.
const FRAMES_MIN: usize = 8;
const FRAME_MIN: usize = 1 << 10;
