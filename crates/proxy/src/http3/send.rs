//! What a stream takes: heads, payload, trailers, the end.

use std::{
    future::Future,
    io, mem,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use bytes::Bytes;
use h3::{error::StreamError, server::RequestStream};
use http::{HeaderMap, Response};

use super::quic::SendStream;

type Half = RequestStream<SendStream, Bytes>;

type Sending = Pin<Box<dyn Future<Output = (Half, Result<(), StreamError>)>>>;

/// The sending half of a stream. Dropped before its end it is reset.
pub(super) enum Sender {
    Ready(Half),
    Busy(Sending),
    /// Reset, or broken.
    Gone,
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
            Self::Gone => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            Self::Busy(sending) => {
                let (half, sent) = ready!(sending.as_mut().poll(cx));
                *self = if sent.is_ok() { Self::Ready(half) } else { Self::Gone };
                Poll::Ready(sent.map_err(|_| io::ErrorKind::BrokenPipe.into()))
            }
        }
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
}

async fn send(half: &mut Half, part: Part) -> Result<(), StreamError> {
    if let Some(head) = part.head {
        half.send_response(head).await?;
    }
    if !part.data.is_empty() {
        half.send_data(part.data).await?;
    }
    if let Some(trailers) = part.trailers {
        half.send_trailers(trailers).await?;
    }
    if part.ends {
        half.finish().await?;
    }
    Ok(())
}
