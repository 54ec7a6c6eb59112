//! Spans of requests for a collector of OpenTelemetry, when switched on.
//!
//! A request makes a span of kind server, and one of kind client for each time a server is asked;
//! the `traceparent` that a server gets names the latter. Whether a request is sampled is decided
//! at its head ([`loadline_core::rules::trace`]); one that is not gets its ids all the same, so
//! that the decision reaches its server, and the access log can tell the trace.
//!
//! What has ended goes to a thread of its own through a bounded queue that is never waited for:
//! where the collector does not keep up, spans are counted and dropped, and traffic goes on. The
//! thread looks into the queue now and then, so that no worker ever has to wake it.
//!
//! | | |
//! |---|---|
//! | `trace` | one request: its ids, its headers, what was asked and tried |
//! | `otlp` | requests that have ended as OTLP |
//! | `export` | batches to the collector |

mod export;
mod otlp;
mod trace;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{SyncSender, sync_channel},
    },
    thread, time,
};

use loadline_core::{fleet::Tracing, rules::trace::Sampler};
use tokio::sync::mpsc::{Sender, UnboundedSender, channel, unbounded_channel};

use crate::runtime::clock::Clock;
use export::Exporter;
use trace::RequestSpan;

pub(crate) use trace::{Outcome, Trace};

/// The way to the thread that exports.
#[derive(Debug)]
pub(crate) struct Spans {
    sampler: Sampler,
    queue: Sender<Box<RequestSpan>>,
    flushes: UnboundedSender<SyncSender<()>>,
    counts: Arc<Counts>,
}

/// What became of spans.
#[derive(Debug, Default)]
struct Counts {
    exported: AtomicU64,
    dropped: AtomicU64,
}

impl Spans {
    /// Starts the thread. The collector need not be there yet.
    ///
    /// # Errors
    /// If the thread or its runtime cannot be had.
    pub(crate) fn start(settings: &Tracing, clock: Clock) -> io::Result<Self> {
        let (queue, ended) = channel(settings.queue as usize);
        let (flushes, asked) = unbounded_channel();
        let counts = Arc::new(Counts::default());
        let exporter = Exporter::new(settings.clone(), clock, (ended, asked), counts.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name("spans".into());
        thread.spawn(move || runtime.block_on(exporter.run()))?;
        Ok(Self { sampler: Sampler::of(settings.sample), queue, flushes, counts })
    }

    /// Hands over a request that has ended.
    fn hand_over(&self, told: Box<RequestSpan>) {
        let count = told.spans();
        if self.queue.try_send(told).is_err() {
            self.counts.dropped.fetch_add(count, Relaxed);
        }
    }

    /// Spans that the collector has taken, and those that were given up.
    pub(crate) fn counts(&self) -> [u64; 2] {
        [&self.counts.exported, &self.counts.dropped].map(|count| count.load(Relaxed))
    }

    /// Waits until everything handed over so far is with the collector, or for a second.
    pub(crate) fn flush(&self) {
        let (done, exported) = sync_channel(1);
        if self.flushes.send(done).is_ok() {
            // A collector that takes longer is no reason not to stop.
            let _ = exported.recv_timeout(time::Duration::from_secs(1));
        }
    }
}
