//! Exports batches of spans to the collector: OTLP over HTTP, in protobuf.
//!
//! States: *collecting* (a tick at a time, so that batches are large and nobody is woken),
//! *sending*, *waiting* (the collector is away or has no time: the batch is sent again, after a
//! second, then two, up to [`PAUSE_MAX`], while the queue fills and what does not fit is dropped
//! and counted). A batch that the collector refuses for good is dropped.

use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed, mpsc::SyncSender},
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, StatusCode,
    header::{CONTENT_TYPE, HOST},
};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use loadline_core::fleet::Tracing;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse as Answer;
use prost::Message as _;
use tokio::{
    net::TcpStream,
    sync::mpsc::{Receiver, UnboundedReceiver},
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{Counts, otlp::Encoder, trace::RequestSpan};
use crate::runtime::clock::Clock;

/// The thread's end of the queue, and all it needs.
pub(super) struct Exporter {
    settings: Tracing,
    encoder: Encoder,
    ended: Receiver<Box<RequestSpan>>,
    flushes: UnboundedReceiver<SyncSender<()>>,
    counts: Arc<Counts>,
    /// The connection to the collector, while there is one.
    collector: Option<SendRequest<Full<Bytes>>>,
    /// Whether spans are dropped or wait, as it was told last; none while they arrive.
    told: Option<Loss>,
}

/// What becomes of a batch that the collector has not taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    Waits,
    Dropped,
}

/// Why a batch is not with the collector.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("it cannot be reached: {0}")]
    Away(#[from] io::Error),
    #[error("it breaks off: {0}")]
    Broken(#[from] hyper::Error),
    #[error("it does not answer in time")]
    Late,
    #[error("it has no time: {0}")]
    Busy(StatusCode),
    #[error("it refuses them: {0}")]
    Refused(StatusCode),
}

impl ExportError {
    const fn loss(&self) -> Loss {
        match self {
            Self::Refused(_) => Loss::Dropped,
            _ => Loss::Waits,
        }
    }
}

impl Exporter {
    pub(super) fn new(
        settings: Tracing,
        clock: Clock,
        (ended, flushes): (Receiver<Box<RequestSpan>>, UnboundedReceiver<SyncSender<()>>),
        counts: Arc<Counts>,
    ) -> Self {
        let encoder = Encoder::new(&settings.service_name, clock);
        Self { settings, encoder, ended, flushes, counts, collector: None, told: None }
    }

    /// Exports until nobody can hand anything over any more.
    pub(super) async fn run(mut self) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let flush = tokio::select! {
                _ = ticks.tick() => None,
                flush = self.flushes.recv() => match flush {
                    None => return,
                    flush => flush,
                },
            };
            self.export_all().await;
            if let Some(done) = flush {
                // Whoever asked may have stopped waiting.
                let _ = done.send(());
            }
        }
    }

    /// Exports what is in the queue.
    async fn export_all(&mut self) {
        loop {
            let mut batch = Vec::new();
            while batch.len() < BATCH
                && let Ok(told) = self.ended.try_recv()
            {
                batch.push(told);
            }
            if batch.is_empty() {
                return;
            }
            let spans: u64 = batch.iter().map(|told| told.spans()).sum();
            let bytes = Bytes::from(self.encoder.batch(&batch).encode_to_vec());
            drop(batch);
            let rejected = self.deliver(bytes).await.unwrap_or(spans).min(spans);
            self.counts.exported.fetch_add(spans - rejected, Relaxed);
            self.counts.dropped.fetch_add(rejected, Relaxed);
        }
    }

    /// Sends a batch until the collector has taken it, except for so many spans; none where it
    /// never will.
    async fn deliver(&mut self, batch: Bytes) -> Option<u64> {
        let mut pause = PAUSE;
        loop {
            let limit = self.settings.timeout.to_std();
            let sent = timeout(limit, self.send(batch.clone())).await;
            let error = match sent.unwrap_or(Err(ExportError::Late)) {
                Ok(rejected) => {
                    self.told = None;
                    return Some(rejected);
                }
                Err(error) => error,
            };
            self.collector = None;
            self.tell(&error);
            if error.loss() == Loss::Dropped {
                return None;
            }
            sleep(pause).await;
            pause = PAUSE_MAX.min(2 * pause);
        }
    }

    /// Sends a batch: how many of its spans are rejected.
    async fn send(&mut self, batch: Bytes) -> Result<u64, ExportError> {
        let mut request = Request::new(Full::new(batch));
        *request.method_mut() = Method::POST;
        *request.uri_mut() =
            self.settings.path.parse().map_err(|error: http::uri::InvalidUri| {
                io::Error::new(io::ErrorKind::InvalidInput, error)
            })?;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        if let Ok(host) = HeaderValue::from_str(&self.settings.collector) {
            headers.insert(HOST, host);
        }
        let response = self.connection().await?.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES).collect().await;
        match status {
            _ if status.is_success() => {
                // A response that cannot be read still says that the spans are taken.
                let answer = body.ok().and_then(|it| Answer::decode(it.to_bytes()).ok());
                let partial = answer.and_then(|it| it.partial_success).unwrap_or_default();
                Ok(u64::try_from(partial.rejected_spans).unwrap_or(0))
            }
            // What may be sent again, as the OTLP specification has it.
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Err(ExportError::Busy(status)),
            _ => Err(ExportError::Refused(status)),
        }
    }

    /// A connection that can take a request.
    async fn connection(&mut self) -> Result<&mut SendRequest<Full<Bytes>>, ExportError> {
        let mut kept = self.collector.take();
        if let Some(collector) = &mut kept
            && collector.ready().await.is_err()
        {
            kept = None;
        }
        let ready = match kept {
            Some(kept) => kept,
            None => {
                let stream = TcpStream::connect(&self.settings.collector).await?;
                let (sender, connection) = handshake(TokioIo::new(stream)).await?;
                // It ends when the sender is dropped; how, the sender is told.
                tokio::spawn(async move { drop(connection.await) });
                sender
            }
        };
        Ok(self.collector.insert(ready))
    }

    /// Says that spans do not arrive, once until they do or something else becomes of them.
    fn tell(&mut self, error: &ExportError) {
        let loss = error.loss();
        if self.told.replace(loss) == Some(loss) {
            return;
        }
        let Tracing { collector, path, .. } = &self.settings;
        let what = match loss {
            Loss::Waits => "spans wait for the collector",
            Loss::Dropped => "spans are dropped at the collector",
        };
        tracing::warn!("{what} http://{collector}{path}: {error}");
    }
}

/// Time from one look into the queue to the next.
const TICK: Duration = Duration::from_millis(200);

/// Requests in a batch: about 500 kB.
const BATCH: usize = 512;

/// The rest before a batch is sent again, at first and at most.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// More than any response to a batch has.
const ANSWER_BYTES: usize = 64 << 10;
