//! One line for each request, when switched on.
//!
//! ```text
//! 2026-11-21T04:00:00.123Z 10.0.0.9:41234 GET "/a?b" HTTP/2.0 200 1324
//!     web/near/10.0.0.11:80 complete 0 0.0 0.2 38.1 38.3      (one line)
//! ```
//! The time of the request's head; the client; method, target and version; the status the client
//! was told (`-` for none) and the bytes sent to it, heads included; service, group and server (`-`
//! where none was chosen); the [`Ending`]; further attempts; then milliseconds from the head of the
//! request to the first pick of a server (time in the queue), to the request being sent, to the
//! head of the answer, and to the end (`-` for what did not happen).
//!
//! Workers format into a buffer of their own and hand it over when it is full or a tick has
//! passed. One thread writes. The channel between them is bounded: if the disk does not keep up,
//! lines are counted and dropped, and traffic goes on.

use std::{
    cell::RefCell,
    fmt::{self, Write as _},
    fs::OpenOptions,
    io::{self, Write},
    net::SocketAddr,
    sync::{
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{self, SystemTime},
};

use loadline_core::{
    ending::Ending,
    fleet::LogTarget,
    time::{Duration, Instant},
};

/// The way to the thread that writes.
#[derive(Debug)]
pub(crate) struct Log {
    channel: SyncSender<Message>,
    dropped: AtomicU64,
}

#[derive(Debug)]
enum Message {
    Lines(Vec<u8>),
    /// Answer when everything before this is written.
    Flush(SyncSender<()>),
}

impl Log {
    /// Opens `target` and starts the thread.
    ///
    /// # Errors
    /// If the file cannot be opened or the thread not be started.
    pub(crate) fn open(target: &LogTarget) -> io::Result<Self> {
        let out: Box<dyn Write + Send> = match target {
            LogTarget::Stdout => Box::new(io::stdout()),
            LogTarget::File(path) => {
                Box::new(OpenOptions::new().create(true).append(true).open(path)?)
            }
        };
        let (channel, messages) = sync_channel(CHUNKS_WAITING);
        let thread = thread::Builder::new().name("access-log".into());
        thread.spawn(move || write_lines(out, &messages))?;
        Ok(Self { channel, dropped: AtomicU64::new(0) })
    }

    /// Lines that were given up.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Waits until everything handed over so far is written, or for a second.
    pub(crate) fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.channel.send(Message::Flush(done)).is_ok() {
            // A disk that takes longer is no reason not to stop.
            let _ = written.recv_timeout(time::Duration::from_secs(1));
        }
    }

    fn hand_over(&self, lines: Vec<u8>) {
        let count = lines.iter().filter(|&&byte| byte == b'\n').count() as u64;
        if self.channel.try_send(Message::Lines(lines)).is_err() {
            self.dropped.fetch_add(count, Relaxed);
        }
    }
}

fn write_lines(mut out: Box<dyn Write + Send>, messages: &Receiver<Message>) {
    while let Ok(message) = messages.recv() {
        match message {
            Message::Lines(lines) => {
                if let Err(error) = out.write_all(&lines).and_then(|()| out.flush()) {
                    tracing::warn!(%error, "access log lines lost");
                }
            }
            // Whoever asked may have stopped waiting.
            Message::Flush(done) => drop(done.send(())),
        }
    }
}

/// What a line says.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) client: SocketAddr,
    pub(crate) method: &'a str,
    pub(crate) target: &'a str,
    /// The protocol of the client, `-` where it is not known or none.
    pub(crate) version: &'a str,
    /// 0 where the client was told nothing.
    pub(crate) status: u16,
    pub(crate) bytes: u64,
    pub(crate) service: &'a str,
    /// Name of the group, and the server.
    pub(crate) server: Option<(&'a str, SocketAddr)>,
    pub(crate) ending: Ending,
    pub(crate) retries: u32,
    pub(crate) times: Times,
}

/// When what happened to a request; none for what did not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// Its head was complete.
    pub(crate) received: Instant,
    /// A server was picked for the first time.
    pub(crate) picked: Option<Instant>,
    /// It was sent; only measured for the access log.
    pub(crate) sent: Option<Instant>,
    /// The head of the answer had come.
    pub(crate) answered: Option<Instant>,
    /// Its end.
    pub(crate) ended: Instant,
}

/// Lines of one worker that have not been handed over.
#[derive(Debug, Default)]
pub(crate) struct LogBuffer {
    lines: RefCell<Vec<u8>>,
}

impl LogBuffer {
    /// Adds a line.
    pub(crate) fn add(&self, log: &Log, line: &Line<'_>) {
        let lines = &mut *self.lines.borrow_mut();
        let age = line.times.ended.since(line.times.received);
        let time = SystemTime::now().checked_sub(age.to_std()).unwrap_or(SystemTime::UNIX_EPOCH);
        // Writing into memory cannot fail.
        let _ = writeln!(lines, "{} {line}", Timestamp(time));
        if lines.len() >= CHUNK_BYTES {
            log.hand_over(std::mem::take(lines));
        }
    }

    /// Hands over what there is.
    pub(crate) fn flush(&self, log: &Log) {
        let lines = self.lines.take();
        if !lines.is_empty() {
            log.hand_over(lines);
        }
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} \"{}\" ", self.client, self.method, self.target)?;
        write!(f, "{} ", self.version)?;
        match self.status {
            0 => f.write_char('-')?,
            status => write!(f, "{status}")?,
        }
        write!(f, " {} {}/", self.bytes, self.service)?;
        match self.server {
            Some((group, server)) => write!(f, "{group}/{server}")?,
            None => f.write_char('-')?,
        }
        write!(f, " {} {}", self.ending.name(), self.retries)?;
        let times = &self.times;
        for instant in [times.picked, times.sent, times.answered, Some(times.ended)] {
            match instant {
                Some(instant) => write!(f, " {}", Millis(instant.since(times.received)))?,
                None => f.write_str(" -")?,
            }
        }
        Ok(())
    }
}

/// Milliseconds with one decimal.
struct Millis(Duration);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0.as_nanos() + 50_000) / 100_000;
        write!(f, "{}.{}", tenths / 10, tenths % 10)
    }
}

/// A point in time as RFC 3339 with milliseconds, in UTC.
struct Timestamp(SystemTime);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.0.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        write!(f, ".{:03}Z", since.subsec_millis())
    }
}

/// The Gregorian date `days` after 1970-01-01: years are counted from 1 March of year 0, so that
/// the leap day is the last of its year (Howard Hinnant's `civil_from_days`).
const fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + (month <= 2) as u64, month, day)
}

/// Bytes a worker collects before it hands them over.
const CHUNK_BYTES: usize = 32 << 10;

/// Chunks that may wait for the writer: 8 MiB, or a second of 60,000 requests.
const CHUNKS_WAITING: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_happened_and_when() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let line = Line {
            client: SocketAddr::from(([10, 0, 0, 9], 4000)),
            method: "GET",
            target: "/a",
            version: "HTTP/1.1",
            status: 200,
            bytes: 1324,
            service: "web",
            server: Some(("near", SocketAddr::from(([10, 0, 0, 1], 80)))),
            ending: Ending::Complete,
            retries: 1,
            times: Times {
                received: at(10),
                picked: Some(at(10)),
                sent: None,
                answered: Some(at(48)),
                ended: at(49),
            },
        };
        let expected = "10.0.0.9:4000 GET \"/a\" HTTP/1.1 200 1324 web/near/10.0.0.1:80 complete 1 \
             0.0 - 38.0 39.0";
        assert_eq!(line.to_string(), expected);
    }

    #[test]
    fn timestamps_know_leap_years() {
        let at = |secs| Timestamp(SystemTime::UNIX_EPOCH + time::Duration::from_secs(secs));
        assert_eq!(at(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_400).to_string(), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_795_233_599).to_string(), "2026-11-21T03:59:59.000Z");
    }

    #[test]
    fn a_writer_that_does_not_keep_up_costs_lines_and_nothing_else() {
        let (channel, messages) = sync_channel(1);
        let log = Log { channel, dropped: AtomicU64::new(0) };
        log.hand_over(b"one\n".to_vec());
        log.hand_over(b"two\nthree\n".to_vec());
        assert_eq!(log.dropped(), 2);
        drop(messages);
    }
}
