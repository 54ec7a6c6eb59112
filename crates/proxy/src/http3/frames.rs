//! What the frames of a stream say, before h3 has them.
//!
//! h3 0.0.8 has all of a frame in memory before it reads it, unless it is DATA: a frame that says
//! that it is longer than a head may be is refused before it comes (RFC 9114, section 7.1). A known
//! frame whose payload ends within an integer it takes for one that has not come whole, and keeps
//! all that follows: that is refused, too. Heads and trailers in which pseudo-headers are where
//! none may be, or twice, or that need a table that is not there, it takes; unknown frames before
//! SETTINGS, a limit of pushes that shrinks, pushes that are cancelled, streams of pushes and of
//! QPACK, and changes of priority it does not look at.

use std::mem;

use h3::error::Code;

use super::{
    extended::varint,
    field_lines::{Section, check},
};

/// The frames that have come, as far as they are known.
#[derive(Debug)]
pub(super) struct Frames {
    /// What a frame other than DATA may have.
    max: u64,
    of: Of,
    stage: Stage,
    /// The integer that comes, as far as it has come, and how many bytes of it are missing.
    integer: u64,
    missing: u8,
    /// Payload of a frame that came in several pieces.
    payload: Vec<u8>,
    /// What PRIORITY_UPDATE says of streams, until it is taken.
    updates: Vec<(u64, Box<[u8]>)>,
    /// Empty DATA frames of a body, until they are taken.
    empty: u32,
    /// Bytes of DATA, until they are taken.
    data: u64,
    /// A frame has begun.
    has_begun: bool,
    /// No more of the body comes.
    has_trailers: bool,
}

/// A rule that a client broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Breach {
    Stream(Code),
    Connection(Code),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// A request; which section comes next.
    Request(Section),
    /// The client's control stream, and the last limit of pushes; or any other of one direction.
    Control(u64),
}

/// A stream of QPACK (RFC 9204, 4.2), by its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Qpack {
    Encoder = 2,
    Decoder = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The type of a stream of one direction.
    Stream,
    /// The type of a frame.
    Type,
    /// The length of a frame of this type.
    Length(u64),
    /// So much of a frame of this type is to come.
    Payload(u64, u64),
    /// Instructions for the dynamic table, which has no room.
    Encoder,
    /// What is said of a dynamic table that is not used; whether an integer goes on.
    Decoder(bool),
    /// A stream without frames.
    Other,
}

impl Frames {
    /// Frames of a request stream.
    pub(super) fn of_request(max: u64) -> Self {
        let (of, stage) = (Of::Request(Section::Head), Stage::Type);
        let (payload, updates) = (Vec::new(), Vec::new());
        Self {
            max,
            of,
            stage,
            integer: 0,
            missing: 0,
            payload,
            updates,
            empty: 0,
            data: 0,
            has_begun: false,
            has_trailers: false,
        }
    }

    /// Frames of a unidirectional stream, which may be the control stream.
    pub(super) fn of_uni(max: u64) -> Self {
        Self { of: Of::Control(0), stage: Stage::Stream, ..Self::of_request(max) }
    }

    /// Takes what comes next.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Result<(), Breach> {
        while let Some((&first, rest)) = bytes.split_first() {
            match self.stage {
                Stage::Other => return Ok(()),
                Stage::Encoder => return take_instructions(bytes),
                Stage::Decoder(goes_on) => {
                    self.stage = Stage::Decoder(take_cancellations(bytes, goes_on)?);
                    return Ok(());
                }
                Stage::Payload(kind, left) => {
                    let count = usize::try_from(left).map_or(bytes.len(), |it| it.min(bytes.len()));
                    let (part, rest) = bytes.split_at(count);
                    bytes = rest;
                    self.take_payload(kind, part, left - count as u64)?;
                }
                _ => {
                    bytes = rest;
                    if self.complete(first) {
                        self.enter()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes the end of the stream.
    ///
    /// # Errors
    /// That of a stream that has to stay open as long as the connection (RFC 9204, 4.2).
    pub(super) fn end(&self) -> Result<(), Breach> {
        match self.qpack() {
            Some(_) => Err(Breach::Connection(Code::H3_CLOSED_CRITICAL_STREAM)),
            None => Ok(()),
        }
    }

    /// Which stream of QPACK it is, once that is known.
    pub(super) const fn qpack(&self) -> Option<Qpack> {
        match self.stage {
            Stage::Encoder => Some(Qpack::Encoder),
            Stage::Decoder(_) => Some(Qpack::Decoder),
            _ => None,
        }
    }

    /// What PRIORITY_UPDATE has said since: the id of a stream, and the value of the field.
    pub(super) fn updates(&mut self) -> Vec<(u64, Box<[u8]>)> {
        mem::take(&mut self.updates)
    }

    /// How many empty DATA frames of a body have come since.
    pub(super) fn empty(&mut self) -> u32 {
        mem::take(&mut self.empty)
    }

    /// How many bytes of DATA have come since.
    pub(super) fn data(&mut self) -> u64 {
        mem::take(&mut self.data)
    }

    /// Whether a request that ends here is cut off in a frame behind its head.
    pub(super) fn is_cut_off(&self) -> bool {
        self.of == Of::Request(Section::Trailers) && (self.stage != Stage::Type || self.missing > 0)
    }

    /// Takes a byte of an integer (RFC 9000, section 16); true with its last.
    fn complete(&mut self, byte: u8) -> bool {
        if self.missing == 0 {
            self.missing = 1 << (byte >> 6);
            self.integer = u64::from(byte & 0x3f);
        } else {
            self.integer = self.integer << 8 | u64::from(byte);
        }
        self.missing -= 1;
        self.missing == 0
    }

    /// Goes on behind an integer.
    fn enter(&mut self) -> Result<(), Breach> {
        let integer = self.integer;
        self.stage = match self.stage {
            Stage::Stream if integer == CONTROL => Stage::Type,
            Stage::Stream if integer == PUSH => {
                return Err(Breach::Connection(Code::H3_STREAM_CREATION_ERROR));
            }
            Stage::Stream if integer == Qpack::Encoder as u64 => Stage::Encoder,
            Stage::Stream if integer == Qpack::Decoder as u64 => Stage::Decoder(false),
            Stage::Type => {
                self.begin(integer)?;
                Stage::Length(integer)
            }
            Stage::Length(kind) if kind != DATA && integer > self.max => {
                return Err(Breach::Stream(Code::H3_EXCESSIVE_LOAD));
            }
            Stage::Length(kind) if integer == 0 => {
                let is_of_body = self.of == Of::Request(Section::Trailers) && !self.has_trailers;
                self.empty += u32::from(kind == DATA && is_of_body);
                return self.take_payload(kind, &[], 0);
            }
            Stage::Length(kind) => Stage::Payload(kind, integer),
            _ => Stage::Other,
        };
        Ok(())
    }

    /// Begins a frame of this type, if it may be where it is (RFC 9114, 6.2.1 and 7.2).
    fn begin(&mut self, kind: u64) -> Result<(), Breach> {
        let is_first = !mem::replace(&mut self.has_begun, true);
        let (is_allowed, code) = match self.of {
            Of::Control(_) if is_first => (kind == SETTINGS, Code::H3_MISSING_SETTINGS),
            Of::Control(_) => (kind != PUSH_PROMISE, Code::H3_FRAME_UNEXPECTED),
            Of::Request(_) => {
                (kind != PUSH_PROMISE && !is_of_control(kind), Code::H3_FRAME_UNEXPECTED)
            }
        };
        if is_allowed { Ok(()) } else { Err(Breach::Connection(code)) }
    }

    /// Takes a piece of a frame, of which `left` bytes are missing then.
    fn take_payload(&mut self, kind: u64, part: &[u8], left: u64) -> Result<(), Breach> {
        let is_read = match self.of {
            Of::Request(_) => kind == HEADERS,
            Of::Control(_) => is_of_control(kind),
        };
        if kind == DATA {
            self.data += part.len() as u64;
        }
        self.stage = if left == 0 { Stage::Type } else { Stage::Payload(kind, left) };
        if is_read && left == 0 && self.payload.is_empty() {
            return self.read(kind, part);
        }
        if is_read {
            self.payload.extend_from_slice(part);
        }
        if is_read && left == 0 {
            let payload = mem::take(&mut self.payload);
            return self.read(kind, &payload);
        }
        Ok(())
    }

    /// Reads a frame that is whole.
    fn read(&mut self, kind: u64, payload: &[u8]) -> Result<(), Breach> {
        match self.of {
            Of::Request(section) => {
                self.of = Of::Request(Section::Trailers);
                self.has_trailers = section == Section::Trailers;
                check(payload, section).map_err(|code| match code {
                    Code::QPACK_DECOMPRESSION_FAILED => Breach::Connection(code),
                    code => Breach::Stream(code),
                })
            }
            Of::Control(_) if kind == SETTINGS => check_settings(payload),
            Of::Control(before) => self.read_control(kind, payload, before),
        }
    }

    /// Reads a frame of the control stream that begins with an id; `before` is the last limit of
    /// pushes.
    fn read_control(&mut self, kind: u64, mut payload: &[u8], before: u64) -> Result<(), Breach> {
        let id = varint(&mut payload).ok_or(Breach::Connection(Code::H3_FRAME_ERROR))?;
        match kind {
            PRIORITY_UPDATE if id % 4 == 0 => self.updates.push((id, payload.into())),
            CANCEL_PUSH | GOAWAY | MAX_PUSH_ID if !payload.is_empty() => {
                return Err(Breach::Connection(Code::H3_FRAME_ERROR));
            }
            GOAWAY => {}
            MAX_PUSH_ID if id >= before => self.of = Of::Control(id),
            // No stream of a request, a push, of which there is none, or a limit that shrinks.
            _ => return Err(Breach::Connection(Code::H3_ID_ERROR)),
        }
        Ok(())
    }
}

/// Looks at the values of settings. What is cut off in them is for h3 to refuse.
fn check_settings(mut payload: &[u8]) -> Result<(), Breach> {
    while let (Some(id), Some(value)) = (varint(&mut payload), varint(&mut payload)) {
        if id == ENABLE_CONNECT_PROTOCOL && value > 1 {
            return Err(Breach::Connection(Code::H3_SETTINGS_ERROR));
        }
    }
    Ok(())
}

/// Takes instructions of an encoder. The one for a table that may have no entries is that it shall
/// have room for none (RFC 9204, 4.3.1).
fn take_instructions(bytes: &[u8]) -> Result<(), Breach> {
    match bytes.iter().all(|byte| *byte == NO_CAPACITY) {
        true => Ok(()),
        false => Err(Breach::Connection(Code::QPACK_ENCODER_STREAM_ERROR)),
    }
}

/// Takes instructions of a decoder; whether the last goes on. Where no table is used there is
/// nothing to acknowledge, and only streams to be given up (RFC 9204, 4.4).
fn take_cancellations(bytes: &[u8], mut goes_on: bool) -> Result<bool, Breach> {
    for &byte in bytes {
        goes_on = match byte {
            _ if goes_on => byte & 0x80 != 0,
            0x40..=0x7f => byte == 0x7f,
            _ => return Err(Breach::Connection(Code::QPACK_DECODER_STREAM_ERROR)),
        };
    }
    Ok(goes_on)
}

/// Whether frames of this type are of control streams alone.
const fn is_of_control(kind: u64) -> bool {
    matches!(
        kind,
        CANCEL_PUSH | SETTINGS | GOAWAY | MAX_PUSH_ID | PRIORITY_UPDATE | PRIORITY_UPDATE_OF_PUSH
    )
}

/// Types of streams of one direction (RFC 9114, 6.2).
const CONTROL: u64 = 0;
const PUSH: u64 = 1;

/// Types of frames (RFC 9114, 7.2, and RFC 9218, 7.2).
const DATA: u64 = 0;
const HEADERS: u64 = 1;
const CANCEL_PUSH: u64 = 3;
const SETTINGS: u64 = 4;
const PUSH_PROMISE: u64 = 5;
const GOAWAY: u64 = 7;
const MAX_PUSH_ID: u64 = 0xd;
const PRIORITY_UPDATE: u64 = 0xf_0700;
const PRIORITY_UPDATE_OF_PUSH: u64 = 0xf_0701;

/// The setting that allows extended CONNECT: 0 or 1 (RFC 9220, 3).
const ENABLE_CONNECT_PROTOCOL: u64 = 8;

/// Set Dynamic Table Capacity, to 0.
const NO_CAPACITY: u8 = 0x20;

#[cfg(test)]
mod tests {
    use super::*;

    /// HEADERS of two bytes, DATA of 2^30 - 1 of which one has come.
    const REQUEST: &[u8] = &[1, 2, 0, 0, 0, 0xbf, 0xff, 0xff, 0xff, 9];

    const LOAD: Result<(), Breach> = Err(Breach::Stream(Code::H3_EXCESSIVE_LOAD));
    const MESSAGE: Result<(), Breach> = Err(Breach::Stream(Code::H3_MESSAGE_ERROR));
    const ID: Result<(), Breach> = Err(Breach::Connection(Code::H3_ID_ERROR));
    const UNEXPECTED: Result<(), Breach> = Err(Breach::Connection(Code::H3_FRAME_UNEXPECTED));

    /// What comes of a stream in pieces of this size.
    fn taken(frames: &mut Frames, stream: &[u8], size: usize) -> Result<(), Breach> {
        stream.chunks(size).try_for_each(|piece| frames.take(piece))
    }

    #[test]
    fn data_may_be_of_any_length_and_what_comes_in_pieces_is_read_the_same() {
        for size in 1..=REQUEST.len() {
            let mut frames = Frames::of_request(2);
            assert_eq!(taken(&mut frames, REQUEST, size), Ok(()), "{size}");
            assert_eq!(frames.stage, Stage::Payload(DATA, (1 << 30) - 2), "{size}");
        }
    }

    #[test]
    fn empty_data_is_counted_between_the_head_and_the_trailers() {
        let head: &[u8] = &[1, 2, 0, 0];
        let empty: &[u8] = &[0, 0, 0x40, 0, 0x80, 0, 0, 0];
        let stream = [head, empty, &[0, 1, b'x', 0x21, 0], empty, head, empty].concat();
        for size in 1..=stream.len() {
            let mut frames = Frames::of_request(10);
            assert_eq!(taken(&mut frames, &stream, size), Ok(()), "{size}");
            assert_eq!([frames.empty(), frames.empty()], [4, 0], "{size}");
        }
    }

    #[test]
    fn a_request_is_cut_off_anywhere_but_between_two_frames() {
        let head: &[u8] = &[1, 2, 0, 0];
        let ends = |rest: &[u8]| {
            let mut frames = Frames::of_request(10);
            frames.take(&[head, rest].concat()).unwrap();
            !frames.is_cut_off()
        };
        assert!([&[][..], &[0, 0], &[0, 1, b'x'], &[0x21, 0]].into_iter().all(ends));
        let cut: [&[u8]; 5] = [&[0], &[0x40], &[0, 0x40], &[0, 2], &[0, 2, b'x']];
        assert!(!cut.into_iter().any(ends));
    }

    #[test]
    fn another_frame_that_is_too_long_is_refused_by_its_length_alone() {
        assert_eq!(Frames::of_request(1).take(REQUEST), LOAD);
        let mut frames = Frames::of_request(100);
        // A frame without payload, then trailers of 16 kB.
        assert_eq!(frames.take(&[0x21, 0, 1, 0x7f]), Ok(()));
        assert_eq!(frames.take(&[0xff]), LOAD);
    }

    #[test]
    fn of_one_direction_only_the_control_stream_has_frames() {
        assert_eq!(Frames::of_uni(100).take(&[0, 4, 0x7f, 0xff]), LOAD);
        assert_eq!(Frames::of_uni(100).take(&[0, 4, 0, 0x21, 0x7f, 0xff]), LOAD);
        assert_eq!(Frames::of_uni(100).take(&[0x21, 4, 0x7f, 0xff, 0xff, 0xff]), Ok(()));
        assert_eq!(Frames::of_uni(100).end(), Ok(()));
    }

    #[test]
    fn the_streams_of_qpack_say_nothing_of_a_table_without_room_and_do_not_end() {
        const ENCODER: Result<(), Breach> =
            Err(Breach::Connection(Code::QPACK_ENCODER_STREAM_ERROR));
        const DECODER: Result<(), Breach> =
            Err(Breach::Connection(Code::QPACK_DECODER_STREAM_ERROR));
        let vectors: [(&[u8], _); 12] = [
            (&[2], Ok(())),
            (&[2, 0x20, 0x20], Ok(())),
            (&[2, 0x21], ENCODER),
            (&[2, 0x3f, 0xe1, 0x1f], ENCODER),
            (&[2, 0xc0, 1, b'a'], ENCODER),
            (&[2, 0x41, b'a', 1, b'b'], ENCODER),
            (&[2, 0x20, 0], ENCODER),
            (&[3], Ok(())),
            (&[3, 0x44, 0x7f, 0x81, 1, 0x48], Ok(())),
            (&[3, 0x80], DECODER),
            (&[3, 0x7f, 0x81, 1, 0x84], DECODER),
            (&[3, 1], DECODER),
        ];
        let closed = Err(Breach::Connection(Code::H3_CLOSED_CRITICAL_STREAM));
        for (stream, expected) in vectors {
            for size in 1..=stream.len() {
                let mut frames = Frames::of_uni(100);
                assert_eq!(taken(&mut frames, stream, size), expected, "{stream:x?} {size}");
                assert_eq!(frames.end(), closed);
            }
        }
    }

    #[test]
    fn on_a_request_stream_no_frame_of_a_control_stream_is_taken_whatever_its_length() {
        let types: [&[u8]; 7] =
            [&[3], &[4], &[5], &[7], &[0xd], &[0x80, 0x0f, 7, 0], &[0x80, 0x0f, 7, 1]];
        for kind in types {
            for payload in [&[][..], &[0], &[1, 0], &[0xbf, 0xff, 0xff, 0xff]] {
                let frame = [kind, payload].concat();
                let behind = [&[1, 2, 0, 0], &frame[..]].concat();
                for size in 1..=behind.len() {
                    for stream in [&frame, &behind] {
                        let told = taken(&mut Frames::of_request(100), stream, size);
                        assert_eq!(told, UNEXPECTED, "{stream:x?} {size}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_frame_with_an_id_that_ends_too_early_or_too_late_is_refused() {
        let error = Err(Breach::Connection(Code::H3_FRAME_ERROR));
        for kind in [&[3][..], &[7], &[0xd], &[0x80, 0x0f, 7, 0], &[0x80, 0x0f, 7, 1]] {
            // Behind the id of a stream, or of a push, may be its priority.
            let count = if kind.len() == 1 { 5 } else { 3 };
            let payloads: [&[u8]; 5] =
                [&[0], &[1, 0x40], &[3, 0x80, 0, 0], &[2, 8, 0], &[3, 0x40, 8, 0]];
            for payload in payloads.into_iter().take(count) {
                let stream = [&[0, 4, 0], kind, payload].concat();
                for size in 1..=stream.len() {
                    let told = taken(&mut Frames::of_uni(100), &stream, size);
                    assert_eq!(told, error, "{stream:x?} {size}");
                }
            }
        }
        assert_eq!(Frames::of_uni(100).take(&[0, 4, 0, 7, 1, 0, 7, 2, 0x40, 0]), Ok(()));
    }

    #[test]
    fn a_client_promises_no_push() {
        for frame in [&[5, 0][..], &[5, 3, 0, 0, 0], &[5, 0xbf, 0xff, 0xff, 0xff]] {
            let stream = [&[0, 4, 0], frame].concat();
            assert_eq!(Frames::of_uni(100).take(&stream), UNEXPECTED);
        }
    }

    #[test]
    fn a_control_stream_begins_with_settings_and_with_nothing_else() {
        let missing = Err(Breach::Connection(Code::H3_MISSING_SETTINGS));
        for first in [&[0x21, 0][..], &[7, 1, 0], &[0, 1, 0], &[0x80, 0x0f, 7, 0, 1, 0]] {
            let stream = [&[0][..], first, &[4, 0]].concat();
            for size in 1..=stream.len() {
                assert_eq!(taken(&mut Frames::of_uni(100), &stream, size), missing, "{size}");
            }
        }
        assert_eq!(Frames::of_uni(100).take(&[0, 4, 0, 0x21, 0]), Ok(()));
    }

    #[test]
    fn a_setting_of_two_values_has_no_third() {
        let settings = |value| [0, 4, 4, 6, 0x10, 8, value];
        assert_eq!(Frames::of_uni(100).take(&settings(0)), Ok(()));
        assert_eq!(Frames::of_uni(100).take(&settings(1)), Ok(()));
        let error = Err(Breach::Connection(Code::H3_SETTINGS_ERROR));
        assert_eq!(Frames::of_uni(100).take(&settings(2)), error);
        assert_eq!(Frames::of_uni(100).take(&[0, 4, 1, 8]), Ok(()), "for h3 to refuse");
    }

    #[test]
    fn data_is_counted_as_it_comes() {
        let stream = [&[1, 2, 0, 0, 0, 3][..], b"one", &[0, 0, 0x21, 1, 9, 0, 9], b"two"].concat();
        for size in 1..=stream.len() {
            let mut frames = Frames::of_request(10);
            assert_eq!(taken(&mut frames, &stream, size), Ok(()), "{size}");
            assert_eq!([frames.data(), frames.data()], [6, 0], "{size}");
        }
    }

    #[test]
    fn a_pseudo_header_in_trailers_is_refused_however_it_comes() {
        // `:path /` by its place in the table, in the head and in the trailers.
        let head: &[u8] = &[1, 3, 0, 0, 0xc1];
        let stream = [head, &[0, 1, b'x'], head].concat();
        for size in 1..=stream.len() {
            assert_eq!(taken(&mut Frames::of_request(10), head, size), Ok(()), "{size}");
            assert_eq!(taken(&mut Frames::of_request(10), &stream, size), MESSAGE, "{size}");
        }
    }

    #[test]
    fn a_client_neither_opens_pushes_nor_takes_back_how_many_it_allows() {
        let creation = Err(Breach::Connection(Code::H3_STREAM_CREATION_ERROR));
        assert_eq!(Frames::of_uni(100).take(&[1]), creation);
        assert_eq!(Frames::of_uni(100).take(&[0, 4, 0, 0xd, 1, 5, 0xd, 1, 5]), Ok(()));
        assert_eq!(Frames::of_uni(100).take(&[0, 4, 0, 0xd, 1, 5, 0xd, 1, 4]), ID);
    }

    #[test]
    fn a_client_neither_cancels_nor_prefers_a_push_for_none_is_promised() {
        for push in [&[3, 1, 0][..], &[0x80, 0x0f, 7, 1, 4, 0, b'u', b'=', b'0']] {
            let stream = [&[0, 4, 0, 0xd, 1, 5], push].concat();
            for size in 1..=stream.len() {
                assert_eq!(taken(&mut Frames::of_uni(100), &stream, size), ID, "{size}");
            }
        }
    }

    #[test]
    fn changes_of_priority_are_kept_until_they_are_taken() {
        let update = |id| [&[0x80, 0x0f, 7, 0, 4, id][..], b"u=0"].concat();
        for size in 1..=10 {
            let mut frames = Frames::of_uni(100);
            let stream = [&[0, 4, 0][..], &update(8), &update(4)].concat();
            assert_eq!(taken(&mut frames, &stream, size), Ok(()), "{size}");
            let said = |id| (id, b"u=0".as_slice().into());
            assert_eq!(frames.updates(), [said(8), said(4)]);
            assert_eq!(frames.updates(), []);
        }
        assert_eq!(Frames::of_uni(100).take(&[&[0, 4, 0][..], &update(6)].concat()), ID);
    }
}
