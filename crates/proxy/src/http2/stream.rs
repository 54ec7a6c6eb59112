//! One stream as a socket: what is read from it is a request in HTTP/1, what is written to it has
//! to be the response in HTTP/1.
//!
//! States of the response: *awaited* (interim heads may come, then the head), *begun* (its body is
//! on the way), *over*.

use std::{
    io,
    net::SocketAddr,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use h2::{RecvStream, server::SendResponse};
use http::{Method, Request};
use loadline_core::decide::reason::Reason;
use loadline_http1::{self as http1, ResponseHead, Status};

use super::{
    backlog::Backlogs,
    head::{ANY, answer, final_answer, write_request},
    incoming::Incoming,
    outgoing::Outgoing,
    streams::Place,
    websocket,
};

/// A stream that a client opened.
#[derive(Debug)]
pub(crate) struct Stream {
    request: Incoming,
    /// What decides whether the response has a body.
    method: http1::Method,
    answer: ResponseState,
    /// The client has sent a key for a WebSocket.
    has_key: bool,
    place: Place,
}

#[derive(Debug)]
enum ResponseState {
    Awaited(SendResponse<Bytes>),
    Begun(Outgoing),
    Over,
}

impl Stream {
    /// A stream whose head has come. `draws` are 128 random bits.
    pub(super) fn new(
        request: Request<RecvStream>,
        respond: SendResponse<Bytes>,
        draws: [u64; 2],
        (place, backlogs): (Place, &Rc<Backlogs>),
    ) -> Box<Self> {
        let (parts, receive) = request.into_parts();
        let mut text = Vec::with_capacity(TEXT_BYTES);
        let coding = if websocket::is_asked_for(&parts) {
            websocket::write_upgrade(&mut text, &parts, draws)
        } else {
            write_request(&mut text, &parts, receive.is_end_stream())
        };
        let is_head = parts.method == Method::HEAD;
        Box::new(Self {
            request: Incoming::new(text, coding, backlogs.hold(receive)),
            method: if is_head { http1::Method::Head } else { http1::Method::Other },
            answer: ResponseState::Awaited(respond),
            has_key: websocket::has_key(&parts),
            place,
        })
    }

    /// Reads of the request; 0 at its end.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.request.poll_read(cx, into)
    }

    /// Writes of the response. A head has to be written in one piece.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.answer {
            ResponseState::Awaited(_) => Poll::Ready(self.begin(bytes)),
            ResponseState::Begun(body) => body.poll_write(cx, bytes),
            ResponseState::Over => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Ready when the client has reset the stream, or is gone.
    pub(crate) fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.answer {
            ResponseState::Awaited(respond) => respond.poll_reset(cx).map(|_| ()),
            ResponseState::Begun(body) => body.poll_reset(cx),
            ResponseState::Over => Poll::Pending,
        }
    }

    /// Why the stream is over, once it has been reset.
    pub(crate) fn why_reset(&mut self) -> Reason {
        self.request.fault().map_or(Reason::ClientGone, Reason::of_client)
    }

    /// The address that the client opened the connection to, if that is known.
    pub(crate) fn destination(&self) -> Option<SocketAddr> {
        self.place.destination()
    }

    /// Ends the response. Without one, or with half of one, the stream is reset.
    pub(crate) fn shut(&mut self) {
        if let ResponseState::Begun(body) = &mut self.answer {
            body.shut();
        }
    }

    /// Ends the stream so that nobody takes what there was of the response for the whole.
    pub(crate) fn reset(&mut self) {
        if let ResponseState::Begun(body) = &mut self.answer {
            body.reset();
        }
    }

    /// Sends the head at the beginning of `bytes`: its length.
    fn begin(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let ResponseState::Awaited(respond) = &mut self.answer else { return Ok(0) };
        let mut head = ResponseHead::new(ANY);
        let Ok(Status::Complete(length)) = head.parse(bytes, self.method) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        if head.is_interim() {
            let interim = answer(&head, bytes, head.status())?;
            respond.send_informational(interim).map_err(io::Error::other)?;
            return Ok(length);
        }
        let (answer, body) = final_answer(&head, bytes, self.has_key)?;
        let is_whole = body.is_finished();
        let sent = respond.send_response(answer, is_whole);
        let send = sent.map_err(io::Error::other)?;
        self.place.was_answered = true;
        self.answer = match is_whole {
            true => ResponseState::Over,
            false => ResponseState::Begun(Outgoing::new(send, body)),
        };
        Ok(length)
    }
}

/// Most heads are shorter.
const TEXT_BYTES: usize = 512;
