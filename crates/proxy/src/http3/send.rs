//! What a stream takes: heads, payload, trailers, the end.

use std::{
    future::Future,
    io, mem,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use bytes::Bytes;
use h3::{error::StreamError, server::RequestStream};
use http::{HeaderMap, Response, StatusCode};

use super::quic::SendStream;

type Half = RequestStream<SendStream, Bytes>;

type Sending = Pin<Box<dyn Future<Output = (Half, Result<(), Unsent>)>>>;

/// The sending half of a stream. Dropped before its end it is reset.
pub(super) enum Sender {
    Ready(Half),
    Busy(Sending),
    /// The head was longer than the client takes, who was told this status instead, if that fits:
    /// otherwise 0.
    TooLarge(u16),
    /// Reset, or broken.
    Gone,
}

/// Why something was not sent.
pub(super) enum Unsent {
    TooLarge(u16),
    Broken,
}

impl From<StreamError> for Unsent {
    fn from(_: StreamError) -> Self {
        Self::Broken
    }
}

/// Something to be sent, one behind the other.
#[derive(Default)]
pub(super) struct Part {
    pub(super) head: Option<Response<()>>,
    pub(super) data: Bytes,
    pub(super) trailers: Option<HeaderMap>,
    pub(super) ends: bool,
}

impl Sender {
    /// Begins to send; what was begun before has to be through.
    pub(super) fn begin(&mut self, part: Part) {
        if let Self::Ready(half) = mem::replace(self, Self::Gone) {
            *self = Self::Busy(Box::pin(async move {
                let mut half = half;
                let sent = send(&mut half, part).await;
                (half, sent)
            }));
        }
    }

    /// Ready when what was begun has found room in the client's windows and our memory.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Ready(_) => Poll::Ready(Ok(())),
            Self::TooLarge(_) | Self::Gone => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            Self::Busy(sending) => {
                let (half, sent) = ready!(sending.as_mut().poll(cx));
                *self = match sent {
                    Ok(()) => Self::Ready(half),
                    Err(Unsent::TooLarge(told)) => Self::TooLarge(told),
                    Err(Unsent::Broken) => Self::Gone,
                };
                Poll::Ready(sent.map_err(|_| io::ErrorKind::BrokenPipe.into()))
            }
        }
    }

    /// What the client was told instead of a head longer than it takes.
    pub(super) const fn told_instead(&self) -> Option<u16> {
        if let Self::TooLarge(told) = self { Some(*told) } else { None }
    }

    /// Sends the end, which needs no room.
    pub(super) fn end(&mut self) {
        self.begin(Part { ends: true, ..Part::default() });
        if self.poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.reset();
        }
    }

    pub(super) fn reset(&mut self) {
        *self = Self::Gone;
    }

    /// What is left to be reset, or to be ended.
    pub(super) const fn take(&mut self) -> Self {
        mem::replace(self, Self::Gone)
    }
}

async fn send(half: &mut Half, part: Part) -> Result<(), Unsent> {
    if let Some(head) = part.head {
        let is_interim = head.status().is_informational();
        match half.send_response(head).await {
            Err(StreamError::HeaderTooBig { .. }) if is_interim => {}
            Err(StreamError::HeaderTooBig { .. }) => {
                return Err(Unsent::TooLarge(tell_too_large(half).await));
            }
            sent => sent?,
        }
    }
    if !part.data.is_empty() {
        half.send_data(part.data).await?;
    }
    if let Some(trailers) = part.trailers {
        match half.send_trailers(trailers).await {
            // They may be left out (RFC 9110, 6.5.1).
            Err(StreamError::HeaderTooBig { .. }) => {}
            sent => sent?,
        }
    }
    if part.ends {
        half.finish().await?;
    }
    Ok(())
}

/// Ends a response whose head is longer than the client takes: the status that it is told, 0 where
/// it does not take even that.
async fn tell_too_large(half: &mut Half) -> u16 {
    let mut head = Response::new(());
    *head.status_mut() = StatusCode::BAD_GATEWAY;
    if half.send_response(head).await.is_err() || half.finish().await.is_err() {
        return 0;
    }
    StatusCode::BAD_GATEWAY.as_u16()
}
