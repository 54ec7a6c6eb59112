//! The length of a response that ends with its head, which HTTP/1 needs and a stream does not.

use super::Socket;

impl Socket {
    /// Whether a response has a length for HTTP/1 alone: its server did not send it.
    pub(crate) fn adds_length(&self) -> bool {
        matches!(self, Self::Call(call) if call.adds_length())
    }

    /// Leaves the length out of the head of the response, where that is sent on a stream.
    pub(crate) fn hide_length(&mut self) {
        match self {
            Self::Stream(stream) => stream.hide_length(),
            Self::Quic(stream) => stream.hide_length(),
            _ => {}
        }
    }
}
