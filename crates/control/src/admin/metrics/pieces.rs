//! A text that is sent while it is written, so that no more than a few pieces of it exist at once.
//!
//! Who writes has a thread of its own and waits there, holding nothing, until the reader has taken
//! a piece. A reader who has not taken the whole after a while is given up.

use std::{fmt, io, mem, time::Duration};

use axum::body::{Body, Bytes};
use tokio::{
    runtime::Handle,
    sync::mpsc::{self, OwnedPermit, Sender},
    time::{Instant, timeout_at},
};
use tokio_stream::wrappers::ReceiverStream;

/// Where the text is written.
pub(crate) struct Pieces {
    piece: String,
    to: Sender<io::Result<Bytes>>,
    runtime: Handle,
    deadline: Instant,
}

impl Pieces {
    /// A body of what `write` writes, on a thread where it may block; it breaks off where it is
    /// not read in [`PATIENCE`].
    pub(crate) fn body(
        write: impl FnOnce(&mut dyn fmt::Write) -> fmt::Result + Send + 'static,
    ) -> Body {
        Self::body_within(PATIENCE, write)
    }

    fn body_within(
        patience: Duration,
        write: impl FnOnce(&mut dyn fmt::Write) -> fmt::Result + Send + 'static,
    ) -> Body {
        let (to, pieces) = mpsc::channel(AHEAD + 1);
        // A place in the line is kept for the failure: without one the reader would take what he
        // has for the whole.
        let last = to.clone().try_reserve_owned();
        let deadline = Instant::now() + patience;
        let mut sink = Self { piece: String::new(), to, runtime: Handle::current(), deadline };
        tokio::task::spawn_blocking(move || {
            let written = write(&mut sink).and_then(|()| sink.send());
            if let (Err(_), Ok(last)) = (written, last) {
                OwnedPermit::send(last, Err(io::ErrorKind::TimedOut.into()));
            }
        });
        Body::from_stream(ReceiverStream::new(pieces))
    }

    fn send(&mut self) -> fmt::Result {
        let piece = Bytes::from(mem::take(&mut self.piece));
        self.piece.reserve(PIECE);
        let sent = self.runtime.block_on(timeout_at(self.deadline, self.to.send(Ok(piece))));
        sent.map_or(Err(fmt::Error), |sent| sent.map_err(|_| fmt::Error))
    }
}

impl fmt::Write for Pieces {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.piece.push_str(text);
        if self.piece.len() < PIECE { Ok(()) } else { self.send() }
    }
}

/// Bytes of a piece: some hundred lines.
const PIECE: usize = 64 << 10;

/// Pieces that are written before the first is taken.
const AHEAD: usize = 2;

/// For the whole text to be taken. After that each piece that is not taken at once is the last.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Texts that are written at once; who comes then waits for a turn.
pub(crate) const AT_ONCE: usize = 4;

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    };

    use tokio_stream::StreamExt as _;

    use super::*;

    /// Writes lines and counts them.
    fn lines(count: usize) -> (Arc<AtomicUsize>, Body) {
        lines_within(PATIENCE, count)
    }

    fn lines_within(patience: Duration, count: usize) -> (Arc<AtomicUsize>, Body) {
        let written = Arc::new(AtomicUsize::new(0));
        let counted = written.clone();
        let body = Pieces::body_within(patience, move |to| {
            (0..count).try_for_each(|_| {
                to.write_str(LINE)?;
                counted.fetch_add(1, SeqCst);
                Ok(())
            })
        });
        (written, body)
    }

    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test)
    }

    #[test]
    fn a_text_is_written_no_further_than_it_is_read_and_arrives_whole() {
        run(async {
            let (written, body) = lines(100_000);
            let mut pieces = body.into_data_stream();
            let mut read = 0;
            while let Some(piece) = pieces.next().await {
                read += piece.unwrap().len();
                let ahead = (written.load(SeqCst) * LINE.len()).saturating_sub(read);
                assert!(ahead <= (AHEAD + 2) * (PIECE + LINE.len()), "{ahead} bytes wait");
            }
            assert_eq!(read, 100_000 * LINE.len());
        });
    }

    #[test]
    fn a_text_that_nobody_reads_any_more_is_not_written_to_its_end() {
        run(async {
            let (written, body) = lines(100_000);
            let mut pieces = body.into_data_stream();
            assert!(pieces.next().await.is_some());
            drop(pieces);
            // It ends when the writer does: only then nobody has the counter but us.
            while Arc::strong_count(&written) > 1 {
                tokio::task::yield_now().await;
            }
            assert!(written.load(SeqCst) < 100_000);
        });
    }

    #[test]
    fn a_text_of_which_somebody_reads_a_little_now_and_then_breaks_off_in_the_end() {
        run(async {
            let (written, body) = lines_within(Duration::from_millis(200), 100_000);
            let mut pieces = body.into_data_stream();
            let mut failed = false;
            while let Some(piece) = pieces.next().await {
                failed = piece.is_err();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            assert!(failed && written.load(SeqCst) < 100_000);
        });
    }

    #[test]
    fn a_text_that_breaks_off_is_not_taken_for_a_whole_one() {
        run(async {
            let body = Pieces::body(|to| {
                to.write_str(LINE)?;
                Err(fmt::Error)
            });
            let mut pieces = body.into_data_stream();
            assert!(pieces.any(|piece| piece.is_err()).await);
        });
    }

    const LINE: &str = "loadline_in_flight{service=\"a\",group=\"b\",server=\"10.0.0.1:80\"} 0.0\n";
}
