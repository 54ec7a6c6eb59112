//! Lines of the log on their way to the thread that writes them.
//!
//! States: *taking* (everything is taken), *dropping* (it was full: nothing is taken until it is
//! half empty, so that few notices tell of many dropped lines).

use std::{
    collections::VecDeque,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// A bounded queue that makes nobody wait but its reader.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    /// All that were ever dropped.
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Whether the reader has lines that may not be written yet.
    writing: bool,
    /// How many were dropped that nobody has told of.
    untold: u64,
}

impl Queue {
    /// Adds lines at the end, or drops them.
    pub(super) fn add(&self, lines: &[u8]) {
        let mut waiting = self.lock();
        if waiting.untold > 0 || waiting.bytes >= BYTES_MAX {
            waiting.untold += 1;
            self.dropped.fetch_add(1, Relaxed);
            return;
        }
        waiting.bytes += lines.len();
        waiting.lines.push_back(lines.to_vec());
        self.changed.notify_all();
    }

    /// Waits for the first lines and takes them out. Those taken before are written.
    pub(super) fn next(&self) -> Vec<u8> {
        let mut waiting = self.lock();
        waiting.writing = false;
        loop {
            if let Some(lines) = waiting.lines.pop_front() {
                waiting.bytes -= lines.len();
                waiting.writing = true;
                return lines;
            }
            self.changed.notify_all();
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// How many were dropped that are to be told of, once there is room again; zero before.
    pub(super) fn take_untold(&self) -> u64 {
        let mut waiting = self.lock();
        if waiting.bytes > BYTES_MAX / 2 {
            return 0;
        }
        std::mem::take(&mut waiting.untold)
    }

    /// Lines that were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Waits until everything is written, or for so long.
    pub(super) fn flush(&self, most: Duration) {
        let is_busy = |waiting: &mut Waiting| waiting.writing || !waiting.lines.is_empty();
        let waited = self.changed.wait_timeout_while(self.lock(), most, is_busy);
        drop(waited);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What may wait: thousands of lines.
const BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread, time::Instant};

    use super::*;

    #[test]
    fn lines_are_dropped_and_counted_while_nobody_reads_and_taken_again_when_half_are_written() {
        let queue = Queue::default();
        let line = [b'a'; BYTES_MAX / 4];
        (0..6).for_each(|_| queue.add(&line));
        assert_eq!(queue.dropped(), 2);
        assert_eq!((queue.next().len(), queue.take_untold()), (line.len(), 0));
        queue.add(b"dropped as well: those before it are not told of");
        assert_eq!((queue.next().len(), queue.take_untold()), (line.len(), 3));
        queue.add(b"last");
        let rest: Vec<usize> = (0..3).map(|_| queue.next().len()).collect();
        assert_eq!((rest, queue.take_untold()), (vec![line.len(), line.len(), 4], 0));
        assert_eq!(queue.dropped(), 3);
    }

    #[test]
    fn the_end_waits_for_lines_to_be_written_but_not_for_ever() {
        let queue = Arc::new(Queue::default());
        queue.flush(Duration::from_secs(60));
        queue.add(b"one");
        let start = Instant::now();
        queue.flush(Duration::from_millis(20));
        assert!(start.elapsed() >= Duration::from_millis(20), "nobody reads");
        queue.next();
        let start = Instant::now();
        queue.flush(Duration::from_millis(20));
        assert!(start.elapsed() >= Duration::from_millis(20), "it may not be written yet");
        queue.add(b"two");
        let reader = queue.clone();
        thread::spawn(move || {
            loop {
                reader.next();
            }
        });
        queue.flush(Duration::from_secs(60));
        assert!(queue.lock().lines.is_empty() && !queue.lock().writing);
    }
}
