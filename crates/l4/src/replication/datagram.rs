//! What the two sides say to each other, before it is sealed.

use super::codec::{Malformed, Reader};

/// Bytes of records in a datagram at most: with its own head, the seal and the headers of IPv6 and
/// UDP it fits Ethernet.
pub const PAYLOAD: usize = 1_360;

/// A datagram. A stream is known by two numbers that are used only once: the sender's `token` and
/// the receiver's `nonce`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram<'a> {
    /// The sender is active and has no follower at this address yet.
    Call {
        /// When it became active, by its own clock: the highest is the one to follow.
        epoch: u64,
        /// What to name in `Join`.
        token: u64,
    },
    /// The answer to a call: send me everything.
    Join {
        /// From the call.
        token: u64,
        /// What to name in `Data`.
        nonce: u64,
    },
    /// Facts.
    Data {
        /// Of the stream.
        stream: Stream,
        /// Number in the stream, from 1. Without records it is the last number again, which asks
        /// for an Ack.
        number: u64,
        /// The receiver has been told everything.
        is_whole: bool,
        /// Records, one after another.
        records: &'a [u8],
    },
    /// Which numbers have arrived.
    Ack {
        /// Of the stream.
        stream: Stream,
        /// The newest number that was heard of; what comes later with a lower one is refused.
        newest: u64,
        /// Bit `n`: number `newest - n` was taken.
        taken: u64,
    },
}

/// The name of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The sender's number.
    pub token: u64,
    /// The receiver's number.
    pub nonce: u64,
}

impl<'a> Datagram<'a> {
    /// As bytes.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut to = Vec::with_capacity(64);
        match self {
            Self::Call { epoch, token } => numbers(&mut to, CALL, &[*epoch, *token]),
            Self::Join { token, nonce } => numbers(&mut to, JOIN, &[*token, *nonce]),
            Self::Data { stream, number, is_whole, records } => {
                let kind = if *is_whole { DATA | WHOLE } else { DATA };
                numbers(&mut to, kind, &[stream.token, stream.nonce, *number]);
                to.extend(*records);
            }
            Self::Ack { stream, newest, taken } => {
                numbers(&mut to, ACK, &[stream.token, stream.nonce, *newest, *taken]);
            }
        }
        to
    }

    /// From bytes whose seal was right.
    ///
    /// # Errors
    /// It is none of ours, or of another version.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut from = Reader(bytes);
        let kind = from.byte()?;
        let mut next = || from.take().map(u64::from_be_bytes);
        let read = match kind {
            CALL => Self::Call { epoch: next()?, token: next()? },
            JOIN => Self::Join { token: next()?, nonce: next()? },
            ACK => {
                let stream = Stream { token: next()?, nonce: next()? };
                Self::Ack { stream, newest: next()?, taken: next()? }
            }
            _ if kind & !WHOLE == DATA => {
                let stream = Stream { token: next()?, nonce: next()? };
                let (number, is_whole) = (next()?, kind & WHOLE != 0);
                return Ok(Self::Data { stream, number, is_whole, records: from.0 });
            }
            _ => return Err(Malformed::Kind),
        };
        if from.0.is_empty() { Ok(read) } else { Err(Malformed::Kind) }
    }
}

fn numbers(to: &mut Vec<u8>, kind: u8, numbers: &[u64]) {
    to.push(kind);
    to.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
}

// The first byte: the version of all this in the upper half but for its lowest bit.
const CALL: u8 = 0x21;
const JOIN: u8 = 0x22;
const DATA: u8 = 0x23;
const ACK: u8 = 0x24;
/// A flag of `DATA`.
const WHOLE: u8 = 0x10;
