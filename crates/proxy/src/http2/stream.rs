//! One stream as a socket: what is read from it is a request in HTTP/1, what is written to it has
//! to be the response in HTTP/1.
//!
//! States of the response: *awaited* (interim heads may come, then the head), *begun* (its body is
//! on the way), *over*.

use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use h2::{RecvStream, server::SendResponse};
use http::{Method, Request, header::CONTENT_LENGTH, request::Parts};
use loadline_core::decide::reason::Reason;
use loadline_http1::{self as http1, ResponseHead, Status};

use super::{
    backlog::{Backlogs, Receiver},
    head::{ANY, answer, final_answer, write_request},
    incoming::{Incoming, Receive as _},
    outgoing::Outgoing,
    streams::Place,
    websocket,
};
use crate::runtime::timer::Timer;

/// A stream that a client opened.
#[derive(Debug)]
pub(crate) struct Stream {
    request: Incoming,
    /// What decides whether the response has a body.
    method: http1::Method,
    answer: ResponseState,
    /// The client has sent a key for a WebSocket.
    has_key: bool,
    /// It was over before anybody could answer.
    is_taken_back: bool,
    place: Place,
}

/// A request whose head has come.
#[derive(Debug)]
pub(super) struct Opened {
    parts: Parts,
    receive: Receiver,
    /// What came while it was looked whether there is a body.
    early: Bytes,
    is_over: bool,
    is_taken_back: bool,
}

#[derive(Debug)]
enum ResponseState {
    Awaited(SendResponse<Bytes>),
    Begun(Outgoing),
    Over,
}

impl Opened {
    pub(super) fn new(request: Request<RecvStream>, backlogs: &Rc<Backlogs>) -> Self {
        let (parts, receive) = request.into_parts();
        let is_over = receive.is_end_stream();
        Self {
            parts,
            receive: backlogs.hold(receive),
            early: Bytes::new(),
            is_over,
            is_taken_back: false,
        }
    }

    /// Whether the next frame has to tell if there is a body: the end of a GET may come in a frame
    /// of its own. What has a body by its method may wait for the head of the response.
    pub(super) fn is_undecided(&self) -> bool {
        let may_lack = matches!(self.parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
        may_lack && !self.is_over && !self.parts.headers.contains_key(CONTENT_LENGTH)
    }

    /// Waits until that is known, or the timer expires.
    pub(super) async fn decide(&mut self, timer: &Timer) {
        let first = poll_fn(|cx| match self.receive.poll_data(cx) {
            Poll::Pending if timer.has_expired() => Poll::Ready(None),
            first => first.map(Some),
        });
        match first.await {
            // Trailers may come behind no data at all.
            Some(None) => self.is_over = self.receive.is_over(),
            Some(Some(Ok(early))) => {
                // The end may come as an empty piece.
                self.is_over = early.is_empty() && self.receive.is_over();
                self.early = early;
            }
            // What is wrong is seen again.
            Some(Some(Err(_))) => self.is_taken_back = true,
            None => {}
        }
    }

    /// Whether its stream was over before it was known if there is a body.
    pub(super) const fn is_taken_back(&self) -> bool {
        self.is_taken_back
    }
}

impl Stream {
    /// A stream whose head has come. `draws` are 128 random bits.
    pub(super) fn new(
        opened: Opened,
        respond: SendResponse<Bytes>,
        draws: [u64; 2],
        place: Place,
    ) -> Box<Self> {
        let Opened { parts, receive, early, is_over, is_taken_back } = opened;
        let mut text = Vec::with_capacity(TEXT_BYTES);
        let coding = if websocket::is_asked_for(&parts) {
            websocket::write_upgrade(&mut text, &parts, draws)
        } else {
            write_request(&mut text, &parts, is_over)
        };
        let is_head = parts.method == Method::HEAD;
        Box::new(Self {
            request: Incoming::new(text, coding, receive).with_early(early),
            method: if is_head { http1::Method::Head } else { http1::Method::Other },
            answer: ResponseState::Awaited(respond),
            has_key: websocket::has_key(&parts),
            is_taken_back,
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
            ResponseState::Begun(body) => {
                let written = body.poll_write(cx, bytes);
                if body.has_sent() {
                    self.place.note_sent();
                }
                written
            }
            ResponseState::Over => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// How much has gone of what a write was given that is pending, or was given up.
    pub(crate) fn begun(&self) -> usize {
        match &self.answer {
            ResponseState::Begun(body) => body.begun(),
            ResponseState::Awaited(_) | ResponseState::Over => 0,
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

    /// Whether the client had taken its request back before it could be answered.
    pub(crate) const fn is_taken_back(&self) -> bool {
        self.is_taken_back
    }

    /// Why the stream is over, once it has been reset.
    pub(crate) fn why_reset(&mut self) -> Reason {
        self.request.fault().map_or(Reason::ClientGone, Reason::of_client)
    }

    /// The address that the client opened the connection to, if that is known.
    pub(crate) fn destination(&self) -> Option<SocketAddr> {
        self.place.destination()
    }

    /// Ready when nothing of the response is left that ending it would take back: h2 forgets what
    /// it has not sent of a stream that is reset. Whether it `is_reset` even if it is whole.
    pub(crate) fn poll_out(&mut self, cx: &mut Context<'_>, is_reset: bool) -> Poll<()> {
        let ResponseState::Begun(body) = &mut self.answer else { return Poll::Ready(()) };
        if !is_reset && body.is_through() {
            return Poll::Ready(());
        }
        match self.place.poll_out(cx) {
            Poll::Pending => body.poll_reset(cx),
            out => out,
        }
    }

    /// Ends the response. Without one, or with half of one, the stream is reset.
    pub(crate) fn shut(&mut self) {
        if let ResponseState::Begun(body) = &mut self.answer {
            body.shut();
        }
    }

    /// Ends the stream so that nobody takes what there was of the response for the whole. Dropping
    /// it would say that the client itself has taken its request back (CANCEL).
    pub(crate) fn reset(&mut self) {
        match &mut self.answer {
            ResponseState::Awaited(respond) => respond.send_reset(h2::Reason::INTERNAL_ERROR),
            ResponseState::Begun(body) => body.reset(),
            ResponseState::Over => {}
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
        self.place.note_sent();
        self.answer = match is_whole {
            true => ResponseState::Over,
            false => ResponseState::Begun(Outgoing::new(send, body)),
        };
        Ok(length)
    }
}

/// Most heads are shorter.
const TEXT_BYTES: usize = 512;
