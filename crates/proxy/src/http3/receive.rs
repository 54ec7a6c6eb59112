//! The body that a stream brings.

use std::{
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll, Waker, ready},
};

use bytes::{Buf, Bytes};
use h3::{
    error::{Code, StreamError},
    server::RequestStream,
};
use http::{Method, header::CONTENT_LENGTH, request::Parts};
use loadline_core::decide::reason::Reason;

use super::{arrivals::StreamControl, quic::RecvStream};
use crate::{
    http2::{Receive, trailer_text},
    runtime::timer::Timer,
};

/// The receiving half of a stream.
pub(super) struct Receiver {
    half: RequestStream<RecvStream, Bytes>,
    control: Rc<StreamControl>,
    /// What came while it was checked for a body, or what was wrong with it.
    early: Option<Result<Bytes, Reason>>,
    trailers: Option<Vec<u8>>,
    /// No more data comes.
    has_ended: bool,
    /// Nor trailers.
    pub(super) is_over: bool,
    /// Bytes missing of a body with a known length.
    left: Option<u64>,
}

impl Receiver {
    /// Waits until it is known whether a request has a body that does not say so, or the timer
    /// expires. One whose method has a body begins at once: its client may wait for the head of the
    /// response. What is wrong is told to whoever reads.
    pub(super) async fn open(
        (half, control): (RequestStream<RecvStream, Bytes>, Rc<StreamControl>),
        parts: &Parts,
        timer: &Timer,
    ) -> Self {
        let (early, trailers, left) = (None, None, None);
        let (has_ended, is_over) = (false, false);
        let mut receiver = Self { half, control, early, trailers, has_ended, is_over, left };
        if let Some(length) = parts.headers.get(CONTENT_LENGTH) {
            receiver.left = length.to_str().ok().and_then(|length| length.parse().ok());
            return receiver;
        }
        let waits = matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let first = poll_fn(|cx| match receiver.poll(cx) {
            Poll::Pending if !waits || timer.has_expired() => Poll::Ready(None),
            first => first.map(Some),
        });
        match first.await.map(Result::transpose) {
            Some(None) => receiver.look_for_trailers(),
            Some(early) => receiver.early = early,
            None => {}
        }
        receiver
    }

    /// Looks whether trailers come, where no data does.
    fn look_for_trailers(&mut self) {
        self.has_ended = true;
        match self.poll_trailers(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(trailers)) => {
                self.is_over = trailers.is_none();
                self.trailers = trailers;
            }
            Poll::Ready(Err(reason)) => self.early = Some(Err(reason)),
            Poll::Pending => {}
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Reason>> {
        let data = loop {
            let data = ready!(self.half.poll_recv_data(cx)).map_err(|error| reason(&error))?;
            let data = data.map(|mut data| data.copy_to_bytes(data.remaining()));
            self.control.take_unread(data.as_ref().map_or(0, Bytes::len));
            if data.is_some() || !self.control.take_empty() {
                break data;
            }
        };
        if !self.fits(data.as_ref()) {
            self.half.stop_sending(Code::H3_MESSAGE_ERROR);
            return Poll::Ready(Err(Reason::ClientMessageError));
        }
        Poll::Ready(Ok(data))
    }

    /// Whether a piece, or the end, is within the length that was said (RFC 9114, section 4.1.2).
    fn fits(&mut self, data: Option<&Bytes>) -> bool {
        let Some(left) = &mut self.left else { return true };
        let Some(data) = data else { return *left == 0 };
        let rest = left.checked_sub(data.len() as u64);
        *left = rest.unwrap_or_default();
        rest.is_some()
    }
}

impl Receive for Receiver {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Reason>>> {
        if let Some(early) = self.early.take() {
            return Poll::Ready(Some(early));
        }
        if self.has_ended {
            return Poll::Ready(None);
        }
        self.poll(cx).map(Result::transpose)
    }

    fn poll_trailers(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, Reason>> {
        if let Some(trailers) = self.trailers.take() {
            return Poll::Ready(Ok(Some(trailers)));
        }
        let trailers = ready!(self.half.poll_recv_trailers(cx)).map_err(|error| reason(&error))?;
        Poll::Ready(Ok(trailers.as_ref().map(trailer_text)))
    }
}

/// Why nothing comes from a client.
const fn reason(error: &StreamError) -> Reason {
    match error {
        StreamError::RemoteTerminate { .. } => Reason::Reset,
        StreamError::HeaderTooBig { .. } => Reason::TrailersTooLarge,
        // What comes breaks a rule, be it one that h3 does not look at.
        StreamError::StreamError { code, .. } => Reason::http3_violation(code.value()),
        StreamError::Undefined { .. } => Reason::ClientBad,
        _ => Reason::Closed,
    }
}
