//! Reading bodies: which of the bytes that come belong to the body, and when it ends.
//!
//! The reader never copies data. A proxy passes on what [`BodyReader::feed`] accepts, chunk
//! framing and all; who wants the payload alone takes it from [`BodyReader::feed_data`]. Trailers,
//! of which some may have to be left out, are the exception: they are held back until all have come
//! ([`Progress::passed`], [`BodyReader::write_trailers`]).

use std::sync::Arc;

use crate::chunked::Chunked;
use crate::error::ParseError;
use crate::fields::Underscores;
use crate::framing::Framing;
use crate::head::HeadLimits;
use crate::trailers::Trailers;

/// What became of the bytes that were fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that belong to this body; the rest is the next message.
    pub consumed: usize,
    /// Bytes to pass on unchanged: all those consumed, except trailers, which are held back.
    pub passed: usize,
    /// Whether the body is complete.
    pub finished: bool,
}

impl Progress {
    /// Whether trailers that were held back are to be passed on now: those of
    /// [`BodyReader::write_trailers`].
    #[must_use]
    pub const fn has_trailers(self) -> bool {
        self.finished && self.passed < self.consumed
    }
}

/// The state of one body.
#[derive(Debug, Clone)]
pub struct BodyReader {
    state: State,
    /// Only there if the body has trailers.
    trailers: Option<Box<Trailers>>,
    underscores: Underscores,
    /// The bounds of its trailers.
    limits: HeadLimits,
    /// Names of trailers that are left out.
    hidden: Option<Arc<[String]>>,
    /// How much more may come whose length no head has told; [`UNLIMITED`] if there is no limit.
    room: u64,
    /// White space may follow the size of a chunk.
    may_pad: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Finished,
    Length { left: u64 },
    UntilClose,
    Chunked(Chunked),
}

impl BodyReader {
    /// A reader for a body framed like this. Does not allocate.
    #[inline]
    #[must_use]
    pub const fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Finished,
            Framing::Length(left) => State::Length { left },
            Framing::Chunked => State::Chunked(Chunked::START),
            Framing::UntilClose => State::UntilClose,
        };
        Self {
            state,
            trailers: None,
            underscores: Underscores::Keep,
            limits: HeadLimits::DEFAULT,
            hidden: None,
            room: UNLIMITED,
            may_pad: false,
        }
    }

    /// The same for a body of `max` bytes at most, without its framing.
    ///
    /// # Errors
    /// [`ParseError::BodyTooLarge`] if it is known to be longer. Of a chunked body [`feed`] says so
    /// before the first chunk that is beyond the limit, of one until close with the first bytes.
    ///
    /// [`feed`]: Self::feed
    pub fn limited(mut self, max: u64) -> Result<Self, ParseError> {
        if let State::Length { left } = self.state
            && left > max
        {
            return Err(ParseError::BodyTooLarge);
        }
        self.room = max;
        Ok(self)
    }

    /// The same with what becomes of trailers whose names have an underscore.
    pub(crate) const fn with_underscores(mut self, underscores: Underscores) -> Self {
        self.underscores = underscores;
        self
    }

    /// The same for the body of a response, of which old servers pad the sizes of chunks.
    pub(crate) const fn padded(mut self) -> Self {
        self.may_pad = true;
        self
    }

    /// The same with bounds for its trailers.
    pub(crate) const fn with_limits(mut self, limits: HeadLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The same without trailers of these names, in any case.
    #[must_use]
    pub fn without_trailers(mut self, names: Vec<String>) -> Self {
        self.hidden = (!names.is_empty()).then(|| names.into());
        self
    }

    /// Whether the body is complete.
    #[inline]
    #[must_use]
    pub const fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished)
    }

    /// Takes the next bytes of the connection. All of them are consumed unless the body ends.
    ///
    /// # Errors
    /// If the chunked coding or the trailers break a rule: nothing of `bytes` should be passed on.
    #[inline]
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Progress, ParseError> {
        self.feed_data(bytes, |_| ())
    }

    /// As [`feed`](Self::feed), and gives each contiguous piece of payload in `bytes` to `data`:
    /// the body without its chunk framing.
    ///
    /// # Errors
    /// As [`feed`](Self::feed).
    #[inline]
    pub fn feed_data(
        &mut self,
        bytes: &[u8],
        mut data: impl FnMut(&[u8]),
    ) -> Result<Progress, ParseError> {
        let consumed = match self.state {
            State::Finished => 0,
            State::UntilClose => {
                self.take_room(bytes.len() as u64)?;
                data(bytes);
                bytes.len()
            }
            State::Length { left } => {
                let (piece, left) = split(bytes, left);
                data(piece);
                self.state = if left == 0 { State::Finished } else { State::Length { left } };
                piece.len()
            }
            State::Chunked(chunked) => return self.feed_chunked(chunked, bytes, data),
        };
        Ok(Progress { consumed, passed: consumed, finished: self.is_finished() })
    }

    fn feed_chunked(
        &mut self,
        mut chunked: Chunked,
        bytes: &[u8],
        mut data: impl FnMut(&[u8]),
    ) -> Result<Progress, ParseError> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match chunked {
                Chunked::Data { left } => {
                    let (piece, left) = split(&bytes[at..], left);
                    data(piece);
                    at += piece.len();
                    chunked = if left == 0 { Chunked::DataCr } else { Chunked::Data { left } };
                }
                Chunked::Trailers => {
                    let consumed = at + self.feed_trailers(&bytes[at..])?;
                    let passed = if self.trailers.is_some() { at } else { consumed };
                    return Ok(Progress { consumed, passed, finished: self.is_finished() });
                }
                syntax => {
                    chunked = syntax.step(byte, self.may_pad)?;
                    at += 1;
                    if let Chunked::Data { left } = chunked {
                        self.take_room(left)?;
                    }
                }
            }
        }
        self.state = State::Chunked(chunked);
        Ok(Progress { consumed: at, passed: at, finished: false })
    }

    fn take_room(&mut self, bytes: u64) -> Result<(), ParseError> {
        if self.room != UNLIMITED {
            self.room = self.room.checked_sub(bytes).ok_or(ParseError::BodyTooLarge)?;
        }
        Ok(())
    }

    fn feed_trailers(&mut self, bytes: &[u8]) -> Result<usize, ParseError> {
        self.state = State::Chunked(Chunked::Trailers);
        if self.trailers.is_none() && bytes.starts_with(b"\r\n") {
            self.state = State::Finished;
            return Ok(2);
        }
        let new = || Box::new(Trailers::new(self.underscores, self.limits, self.hidden.clone()));
        let (consumed, complete) = self.trailers.get_or_insert_with(new).feed(bytes)?;
        if complete {
            self.state = State::Finished;
        }
        Ok(consumed)
    }

    /// Takes the end of the connection.
    ///
    /// # Errors
    /// [`ParseError::TruncatedBody`] unless the body was complete or ends with the connection.
    pub const fn end_of_stream(&mut self) -> Result<(), ParseError> {
        match self.state {
            State::Finished => Ok(()),
            State::UntilClose => {
                self.state = State::Finished;
                Ok(())
            }
            State::Length { .. } | State::Chunked(_) => Err(ParseError::TruncatedBody),
        }
    }

    /// How many of the next bytes are payload for certain, and may be moved without a look at
    /// them (by splice): the rest of a counted body or of a chunk; until close, `u64::MAX` or the
    /// rest of what is allowed.
    #[must_use]
    pub const fn payload_ahead(&self) -> u64 {
        match self.state {
            State::Length { left } | State::Chunked(Chunked::Data { left }) => left,
            State::UntilClose => self.room,
            State::Finished | State::Chunked(_) => 0,
        }
    }

    /// Notes that `count` bytes were moved past the reader; at most
    /// [`payload_ahead`](Self::payload_ahead).
    pub const fn skip(&mut self, count: u64) {
        match self.state {
            State::Length { left } if count < left => {
                self.state = State::Length { left: left - count };
            }
            State::Length { .. } => self.state = State::Finished,
            State::Chunked(Chunked::Data { left }) if count < left => {
                self.state = State::Chunked(Chunked::Data { left: left - count });
            }
            State::Chunked(Chunked::Data { .. }) => self.state = State::Chunked(Chunked::DataCr),
            State::UntilClose if self.room != UNLIMITED => self.room -= count,
            State::Finished | State::UntilClose | State::Chunked(_) => {}
        }
    }

    /// Appends the trailers that were held back, as they are to be passed on. They are not longer
    /// than what came.
    #[cold]
    pub fn write_trailers(&self, out: &mut Vec<u8>) {
        self.trailers.iter().for_each(|trailers| trailers.write(out));
    }

    /// The trailers, once the body is complete and if it had any.
    #[must_use]
    pub fn trailers(&self) -> Option<&Trailers> {
        self.trailers.as_deref().filter(|trailers| self.is_finished() && !trailers.is_empty())
    }
}

/// No limit.
const UNLIMITED: u64 = u64::MAX;

/// The part of `bytes` within the next `left`, and what is left after it.
#[inline]
fn split(bytes: &[u8], left: u64) -> (&[u8], u64) {
    let length = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
    (&bytes[..length], left - length as u64)
}
