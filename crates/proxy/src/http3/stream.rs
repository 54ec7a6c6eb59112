//! One stream as a socket: what is read from it is a request in HTTP/1, what is written to it has
//! to be the response in HTTP/1.
//!
//! States of the response are those of HTTP/2: *awaited*, *begun*, *over*.

use std::{
    fmt, io,
    net::SocketAddr,
    rc::Rc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h3::server::RequestStream;
use http::{Method, Request, header::CONTENT_LENGTH};
use loadline_http1::{self as http1, BodyReader, ResponseHead, Status};

use super::{
    arrivals::StreamControl,
    priority::Priority,
    quic::BidiStream,
    receive::Receiver,
    send::{Part, Sender},
};
use crate::{
    http2::{
        ANY, Incoming, Place, answer, fields, final_answer, has_key, has_length, write_request,
        write_upgrade,
    },
    runtime::timer::Timer,
};

/// A stream that a client opened.
pub(crate) struct Stream {
    request: Incoming<Receiver>,
    /// What decides whether the response has a body.
    method: http1::Method,
    answer: ResponseState,
    send: Sender,
    /// Bytes that were taken and have not been reported as written.
    owed: usize,
    /// The client has sent a key for a WebSocket.
    has_key: bool,
    place: Place,
    control: Rc<StreamControl>,
}

/// What belongs to a stream whose head has come.
pub(super) struct Opened {
    pub(super) place: Place,
    pub(super) control: Rc<StreamControl>,
    /// 128 random bits.
    pub(super) draws: [u64; 2],
}

enum ResponseState {
    Awaited,
    Begun(BodyReader),
    Over,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("owed", &self.owed).finish_non_exhaustive()
    }
}

impl Stream {
    /// A stream whose head has come; the timer bounds how long it may take to be known whether it
    /// has a body.
    pub(super) async fn open(
        request: Request<()>,
        stream: RequestStream<BidiStream, Bytes>,
        opened: Opened,
        timer: &Timer,
    ) -> Box<Self> {
        let Opened { place, control, draws } = opened;
        let (parts, ()) = request.into_parts();
        control.set_client_priority(Priority::of(&parts.headers));
        let (send, receive) = stream.split();
        let receiver = Receiver::open((receive, control.clone()), &parts, timer).await;
        let mut text = Vec::with_capacity(TEXT_BYTES);
        let coding = match control.is_websocket() && !has_length(&parts) {
            true => write_upgrade(&mut text, &parts, draws),
            false => write_request(&mut text, &parts, receiver.is_over),
        };
        let is_head = parts.method == Method::HEAD;
        Box::new(Self {
            request: Incoming::new(text, coding, receiver),
            method: if is_head { http1::Method::Head } else { http1::Method::Other },
            answer: ResponseState::Awaited,
            send: Sender::Ready(send),
            owed: 0,
            has_key: has_key(&parts),
            place,
            control,
        })
    }

    /// Reads of the request; 0 at its end.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let read = self.request.poll_read(cx, into);
        // Who takes nothing of a WebSocket any more need not end it as well.
        if read.is_pending() && self.control.is_websocket() && self.poll_reset(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        read
    }

    /// Writes of the response. A head has to be written in one piece. The next call must go on
    /// behind what was written, and once this has been pending begin with the same bytes.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.owed == 0 {
            let part = match self.answer {
                ResponseState::Awaited => self.take_head(bytes)?,
                ResponseState::Begun(_) => self.take_body(bytes)?,
                ResponseState::Over => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            };
            self.control.set_payload(part.data.clone());
            self.send.begin(part);
        }
        let unsent = self.control.unsent();
        let is_through = self.send.poll(cx)?.is_ready();
        let left = match self.control.unsent() {
            _ if is_through => 0,
            // Behind the last byte of a body trailers may wait.
            left if left < unsent => left.max(1),
            _ => self.owed,
        };
        let gone = self.owed - left;
        self.owed = left;
        if is_through || gone > 0 { Poll::Ready(Ok(gone)) } else { Poll::Pending }
    }

    /// The status that the client was told instead of a head longer than it takes.
    pub(crate) const fn told_instead(&self) -> Option<u16> {
        self.send.told_instead()
    }

    /// Ready when the client has taken the stream back, or is gone.
    pub(crate) fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_gone = ready!(self.control.poll_stopped(cx));
        if is_gone { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Whether responses of its connection that go first have been sent of since this was asked
    /// last, while this one waited.
    pub(crate) fn was_passed_over(&self) -> bool {
        self.control.take_passed_over()
    }

    /// The address that the client opened the connection to, if that is known.
    pub(crate) fn destination(&self) -> Option<SocketAddr> {
        self.place.destination()
    }

    /// Leaves the length out of the head of the response, which ends with it.
    pub(crate) const fn hide_length(&mut self) {
        self.place.hides_length = true;
    }

    /// Ends the response. Without one the stream is reset, with half of one a little later.
    pub(crate) fn shut(&mut self) {
        let is_whole = match &mut self.answer {
            ResponseState::Over => return,
            ResponseState::Begun(body) => self.owed == 0 && body.end_of_stream().is_ok(),
            ResponseState::Awaited => false,
        };
        self.answer = ResponseState::Over;
        if is_whole { self.send.end() } else { self.cut() }
    }

    /// Ends the stream so that nobody takes what there was of the response for the whole.
    pub(crate) fn reset(&mut self) {
        self.cut();
    }

    /// Breaks the response off. quinn drops what it has not sent of a stream that is reset, so one
    /// that has begun is kept for a moment; not for a client that broke a rule.
    fn cut(&mut self) {
        if self.place.was_answered && self.control.refusal().is_none() {
            self.control.keep_cut(self.send.take());
        } else {
            self.send.reset();
        }
    }

    /// Takes the head at the beginning of `bytes`.
    fn take_head(&mut self, bytes: &[u8]) -> io::Result<Part> {
        if self.control.refusal().is_some() {
            // The stream is reset with what its request was refused for.
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut head = ResponseHead::new(ANY);
        let Ok(Status::Complete(length)) = head.parse(bytes, self.method) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        self.owed = length;
        if head.is_interim() {
            let head = Some(answer(&head, bytes, head.status())?);
            return Ok(Part { head, ..Part::default() });
        }
        let (mut answer, body) = final_answer(&head, bytes, self.has_key)?;
        if self.place.hides_length {
            answer.headers_mut().remove(CONTENT_LENGTH);
        }
        self.control.set_server_priority(Priority::of(answer.headers()));
        self.place.was_answered = true;
        let ends = body.is_finished();
        self.answer = match ends {
            true => ResponseState::Over,
            false => ResponseState::Begun(body),
        };
        Ok(Part { head: Some(answer), ends, ..Part::default() })
    }

    /// Takes a piece of the body.
    fn take_body(&mut self, bytes: &[u8]) -> io::Result<Part> {
        let ResponseState::Begun(body) = &mut self.answer else { return Ok(Part::default()) };
        let piece = &bytes[..bytes.len().min(PIECE)];
        let mut payload = Vec::with_capacity(piece.len());
        let fed = body.feed_data(piece, |data| payload.extend_from_slice(data));
        match fed {
            Ok(progress) if progress.consumed > 0 => self.owed = progress.consumed,
            // Something behind the body.
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        let ends = body.is_finished();
        let trailers = body.trailers().filter(|_| ends).map(|it| fields(it.iter()));
        if ends {
            self.answer = ResponseState::Over;
        }
        Ok(Part { data: payload.into(), trailers, ends, ..Part::default() })
    }
}

/// Most heads are shorter.
const TEXT_BYTES: usize = 512;

/// Taken at a time.
const PIECE: usize = 16 << 10;
