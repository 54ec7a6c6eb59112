//! Reading bodies: which of the bytes that come belong to the body, and when it ends.
//!
//! The reader never copies data. A proxy passes on what [`BodyReader::feed`] accepts, chunk
//! framing and all; who wants the payload alone takes it from [`BodyReader::feed_data`].

use crate::chunked::Chunked;
use crate::error::ParseError;
use crate::framing::Framing;
use crate::trailers::Trailers;

/// What became of the bytes that were fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// So many of them belong to this body; what follows is the next message.
    pub consumed: usize,
    /// Whether the body is complete.
    pub finished: bool,
}

/// The state of one body.
#[derive(Debug, Clone)]
pub struct BodyReader {
    state: State,
    /// Only there if the body has trailers.
    trailers: Option<Box<Trailers>>,
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
        Self { state, trailers: None }
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
                data(bytes);
                bytes.len()
            }
            State::Length { left } => {
                let (piece, left) = split(bytes, left);
                data(piece);
                self.state = if left == 0 { State::Finished } else { State::Length { left } };
                piece.len()
            }
            State::Chunked(chunked) => self.feed_chunked(chunked, bytes, data)?,
        };
        Ok(Progress { consumed, finished: self.is_finished() })
    }

    fn feed_chunked(
        &mut self,
        mut chunked: Chunked,
        bytes: &[u8],
        mut data: impl FnMut(&[u8]),
    ) -> Result<usize, ParseError> {
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
                    at += self.feed_trailers(&bytes[at..])?;
                    return Ok(at);
                }
                syntax => {
                    chunked = syntax.step(byte)?;
                    at += 1;
                }
            }
        }
        self.state = State::Chunked(chunked);
        Ok(at)
    }

    fn feed_trailers(&mut self, bytes: &[u8]) -> Result<usize, ParseError> {
        self.state = State::Chunked(Chunked::Trailers);
        if self.trailers.is_none() && bytes.starts_with(b"\r\n") {
            self.state = State::Finished;
            return Ok(2);
        }
        let (consumed, complete) = self.trailers.get_or_insert_default().feed(bytes)?;
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
    /// them (by splice): the rest of a counted body or of a chunk. `u64::MAX` until close.
    #[must_use]
    pub const fn payload_ahead(&self) -> u64 {
        match self.state {
            State::Length { left } | State::Chunked(Chunked::Data { left }) => left,
            State::UntilClose => u64::MAX,
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
            State::Finished | State::UntilClose | State::Chunked(_) => {}
        }
    }

    /// The trailers, once the body is complete and if it had any.
    #[must_use]
    pub fn trailers(&self) -> Option<&Trailers> {
        self.trailers.as_deref().filter(|trailers| self.is_finished() && !trailers.is_empty())
    }
}

/// The part of `bytes` within the next `left`, and what is left after it.
#[inline]
fn split(bytes: &[u8], left: u64) -> (&[u8], u64) {
    let length = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
    (&bytes[..length], left - length as u64)
}
