//! A stream to a server as a socket: what is written to it has to be a request in HTTP/1, what is
//! read from it is the response in HTTP/1.
//!
//! States of the response: *unasked* (until the link is open), *awaited* (interim heads may come,
//! then the head; the request's body goes up meanwhile), *begun* (its body comes down), *broken*.
//! A WebSocket is a call as well: its request becomes an extended CONNECT, and of the response that
//! accepts it a switch of protocols. Frames of any length follow in both directions.
//!
//! Dropping a call that is not through resets its stream (CANCEL), so that the server learns of a
//! client that has gone. One whose response is whole is *finished* instead: END_STREAM may come in
//! a frame of its own, a moment later.

use std::{
    future::poll_fn,
    io, mem,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker, ready},
};

use h2::{Reason, RecvStream, client::ResponseFuture};
use http::{Response, header::CONTENT_LENGTH};
use loadline_core::{decide::reason::Reason as Why, time::Duration};
use loadline_http1::{BodyReader, Framing, Known, Method, RequestHead, Status};
use tokio::task::spawn_local;

use super::{
    head::{ANY, request, write_answer, write_interim},
    incoming::{Coding, Incoming},
    link::{Link, Seat},
    outgoing::Outgoing,
    websocket::{self, Accept},
};
use crate::runtime::timer::Timer;

/// A request to a server, and its response.
#[derive(Debug)]
pub(crate) struct Call {
    /// The body, once the head has gone; nothing where there is none.
    body: Option<Outgoing>,
    to_head: bool,
    /// The response has no length but the one that HTTP/1 needs.
    adds_length: bool,
    /// The `Sec-WebSocket-Accept` for a client whose WebSocket is accepted.
    accept: Option<Accept>,
    answer: ResponseState,
    /// Interim heads that are to be read before the response.
    interim: Vec<u8>,
    fate: StreamFailure,
    seat: Seat,
}

#[derive(Debug)]
enum ResponseState {
    Unasked,
    Awaited(ResponseFuture),
    Begun(Incoming),
    Broken,
}

/// What is known of a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamFailure {
    /// No more than of any broken connection.
    Unknown,
    /// Nothing was sent: the link did not open, or HTTP/2 cannot say the request.
    Unsent(Why),
    /// The server has not acted on it: it refused the stream, had none left, or left before it.
    Refused,
    /// The server reset this stream; the link is in order. Or the link has ended for what came, or
    /// may have come, on this stream.
    Reset,
    /// The link has ended for what came on another stream.
    Lost,
}

impl StreamFailure {
    /// Whether the server cannot have acted on the request (RFC 9113, 8.7).
    pub(crate) const fn is_undone(self) -> bool {
        matches!(self, Self::Unsent(_) | Self::Refused)
    }
}

impl Call {
    /// A call over `link`.
    pub(super) fn over(link: &Rc<Link>) -> Box<Self> {
        Box::new(Self {
            body: None,
            to_head: false,
            adds_length: false,
            accept: None,
            answer: ResponseState::Unasked,
            interim: Vec::new(),
            fate: StreamFailure::Unknown,
            seat: link.enter(),
        })
    }

    /// What is known of the call if it failed.
    pub(crate) const fn fate(&self) -> StreamFailure {
        self.fate
    }

    /// Whether the response, which has ended with its head, came without the length that it has.
    pub(crate) const fn adds_length(&self) -> bool {
        self.adds_length
    }

    /// Whether the link is not open yet.
    pub(crate) fn is_opening(&self) -> bool {
        self.seat.link().is_opening()
    }

    /// Lets nobody call over the same link from now on.
    pub(crate) fn retire(&self) {
        self.seat.link().retire();
    }

    /// Writes of the request. Its head has to be written in one piece.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let ResponseState::Unasked = self.answer {
            let asked = ready!(self.poll_ask(cx, bytes));
            return Poll::Ready(asked.map_err(|fate| self.fail(fate, fate.reason())));
        }
        match &mut self.body {
            Some(body) => body.poll_write(cx, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Reads of the response; 0 at its end.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if let ResponseState::Awaited(answer) = &mut self.answer {
            match poll_head(answer, cx, &mut self.interim) {
                Poll::Ready(Ok(head)) => self.begin(head),
                Poll::Ready(Err(error)) => {
                    let stream = answer.stream_id().as_u32();
                    return Poll::Ready(Err(self.lose(&error, stream)));
                }
                Poll::Pending if self.interim.is_empty() => return Poll::Pending,
                Poll::Pending => {}
            }
        }
        if !self.interim.is_empty() {
            let count = self.interim.len().min(into.len());
            into[..count].copy_from_slice(&self.interim[..count]);
            self.interim.drain(..count);
            return Poll::Ready(Ok(count));
        }
        match &mut self.answer {
            ResponseState::Begun(answer) => answer.poll_read(cx, into),
            // Of answers only a switch of protocols cannot be written in HTTP/1.
            _ => Poll::Ready(Err(io::Error::other(Why::SwitchInHttp2))),
        }
    }

    /// Lets the stream end behind a response of which nothing is missing: a server whose stream was
    /// reset would take its response for lost. Nobody waits for that.
    pub(crate) fn finish(&mut self) {
        let ResponseState::Begun(mut answer) =
            mem::replace(&mut self.answer, ResponseState::Broken)
        else {
            return;
        };
        if answer.poll_end(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        let seat = self.seat.again();
        spawn_local(async move {
            let timer = Timer::here(&seat.link().timers).await;
            timer.arm(END_WAIT);
            poll_fn(|cx| match answer.poll_end(cx) {
                Poll::Pending if timer.has_expired() => Poll::Ready(()),
                ended => ended,
            })
            .await;
            drop((answer, seat));
        });
    }

    /// Ends the request.
    pub(crate) fn shut(&mut self) {
        self.body.iter_mut().for_each(Outgoing::shut);
    }

    /// Sends the head at the beginning of `bytes` when the link is open: its length.
    fn poll_ask(&mut self, cx: &Context<'_>, bytes: &[u8]) -> Poll<Result<usize, StreamFailure>> {
        let link = self.seat.link();
        let opened = ready!(link.poll_open(cx));
        let mut requests = opened
            .map_err(|failed| failed.map_or(StreamFailure::Refused, StreamFailure::Unsent))?;
        let unsayable = StreamFailure::Unsent(Why::ClientBad);
        let mut head = RequestHead::new(ANY);
        let Ok(Status::Complete(length)) = head.parse(bytes) else {
            return Poll::Ready(Err(unsayable));
        };
        let mut request = request(&head, bytes, link.is_secure).ok_or(unsayable)?;
        let mut body = head.body();
        // Behind a body no WebSocket begins: the server is asked without the Upgrade, which it may
        // ignore anyway (RFC 9110, 7.8).
        if head.upgrade() && head.framing() == Framing::None {
            let offered = requests.is_extended_connect_protocol_enabled();
            let protocol = head.fields().get_known(bytes, Known::Upgrade).filter(|_| offered);
            let accept = protocol.and_then(|protocol| websocket::connect(&mut request, protocol));
            self.accept = Some(accept.ok_or(StreamFailure::Unsent(Why::NoUpgrade))?);
            body = BodyReader::new(Framing::UntilClose);
        }
        let is_whole = body.is_finished();
        let Ok((answer, send)) = requests.send_request(request, is_whole) else {
            // The server has left, or all numbers for streams are used up.
            link.retire();
            return Poll::Ready(Err(StreamFailure::Refused));
        };
        self.seat.begin(answer.stream_id().as_u32());
        self.to_head = head.method() == Method::Head;
        self.body = (!is_whole).then(|| Outgoing::new(send, body));
        self.answer = ResponseState::Awaited(answer);
        Poll::Ready(Ok(length))
    }

    fn begin(&mut self, answer: Response<RecvStream>) {
        let (parts, receive) = answer.into_parts();
        let is_over = receive.is_end_stream();
        let receive = self.seat.link().backlogs.hold(receive);
        let mut text = Vec::with_capacity(TEXT_BYTES);
        if let Some(accept) = self.accept.take().filter(|_| parts.status.is_success()) {
            accept.write(&mut text, parts.headers);
            self.answer = ResponseState::Begun(Incoming::new(text, Coding::Plain, receive));
            return;
        }
        self.adds_length = is_over && !parts.headers.contains_key(CONTENT_LENGTH);
        self.answer = match write_answer(&mut text, &parts, is_over, self.to_head) {
            Some(coding) => ResponseState::Begun(Incoming::new(text, coding, receive)),
            None => ResponseState::Broken,
        };
    }

    /// The request, which had this stream, gets no response.
    fn lose(&mut self, error: &h2::Error, stream: u32) -> io::Error {
        let link = self.seat.link();
        if error.is_go_away() {
            link.retire();
        }
        let reason = link.backlogs.why(error, stream);
        let is_innocent = reason == Why::ConnectionViolated && !link.backlogs.is_suspect(stream);
        let fate = if is_innocent { StreamFailure::Lost } else { StreamFailure::of(error) };
        self.fail(fate, reason)
    }

    fn fail(&mut self, fate: StreamFailure, reason: Why) -> io::Error {
        self.fate = fate;
        self.answer = ResponseState::Broken;
        io::Error::other(reason)
    }
}

impl StreamFailure {
    /// Why a call failed whose request was not sent.
    const fn reason(self) -> Why {
        match self {
            Self::Unsent(reason) => reason,
            Self::Unknown | Self::Refused | Self::Reset | Self::Lost => Why::Http2Leaving,
        }
    }

    fn of(error: &h2::Error) -> Self {
        // A stream hears of the server's GOAWAY only if it is behind the last one processed.
        let is_left = error.is_go_away() && error.is_remote();
        match error.reason() {
            _ if is_left => Self::Refused,
            Some(Reason::REFUSED_STREAM) if error.is_remote() => Self::Refused,
            _ if error.is_reset() || error.is_go_away() => Self::Reset,
            _ => Self::Unknown,
        }
    }
}

/// Waits for the head of a response; interim ones that come first are appended to `interim`.
fn poll_head(
    answer: &mut ResponseFuture,
    cx: &mut Context<'_>,
    interim: &mut Vec<u8>,
) -> Poll<Result<Response<RecvStream>, h2::Error>> {
    while let Poll::Ready(Some(head)) = answer.poll_informational(cx) {
        write_interim(interim, &head?);
    }
    Pin::new(answer).poll(cx)
}

/// How long the end of a stream is waited for behind its response.
const END_WAIT: Duration = Duration::from_secs(1);

/// Most heads are shorter.
const TEXT_BYTES: usize = 512;
