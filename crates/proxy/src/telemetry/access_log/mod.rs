//! The access log: a line for each request. `format` writes it, `sink` takes it.
//!
//! Workers write into a buffer of their own and hand it over when it is full or a tick has passed.
//! One thread takes the buffers and writes them. The channel between them is bounded: if the disk
//! or the collector does not keep up, lines are counted and dropped, and traffic goes on. A line
//! costs its worker no system call, no allocation and no lock of its own; the wall clock is read
//! once a tick, and the times of lines are reckoned from there.
//!
//! Of a request's headers only `Referer` and `User-Agent` are ever looked at, so that no
//! credentials can come into a log; where the file says so, queries stay out as well.

mod escape;
mod format;
mod line;
mod sink;
mod stamp;

use std::{
    cell::RefCell,
    io,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread, time,
};

use loadline_core::{
    decide::ending::{Ending, Fault},
    fleet::AccessLog,
    time::Instant,
    units::Ratio,
};

use crate::runtime::{clock::Clock, random::Random};
use sink::Sink;

pub use format::Writer;
pub use line::{Came, Line, Times};

pub(crate) use line::{Asked, without_secrets, without_user};

/// The way to the thread that writes.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) settings: AccessLog,
    /// Of 2^64 requests that ended well, how many have a line.
    kept: u64,
    channel: SyncSender<Message>,
    signs: Arc<Signs>,
}

/// What is known on both sides of the channel, whether or not a message fits into it.
#[derive(Debug, Default)]
struct Signs {
    /// Lines that were given up.
    dropped: AtomicU64,
    /// The file is to be opened again by its name.
    reopen: AtomicBool,
}

#[derive(Debug)]
enum Message {
    Lines(Vec<u8>),
    /// Look at the signs.
    Wake,
    /// Answer when everything before this is written.
    Flush(SyncSender<()>),
}

impl Log {
    /// Opens what `settings` name and starts the thread.
    ///
    /// # Errors
    /// If the file cannot be opened or the thread not be started.
    pub(crate) fn open(settings: &AccessLog) -> io::Result<Self> {
        let sink = Sink::open(&settings.to)?;
        let (channel, messages) = sync_channel(CHUNKS_WAITING);
        let log = Self::to(settings, channel);
        let signs = log.signs.clone();
        let thread = thread::Builder::new().name("access-log".into());
        thread.spawn(move || write_lines(sink, &messages, &signs))?;
        Ok(log)
    }

    fn to(settings: &AccessLog, channel: SyncSender<Message>) -> Self {
        let kept = match settings.successes {
            Ratio::ONE => u64::MAX,
            share => (share.as_f64() * 2f64.powi(64)) as u64,
        };
        Self { settings: settings.clone(), kept, channel, signs: Arc::default() }
    }

    /// Whether lines say what clients' handshakes have told.
    pub(crate) fn tells_tls(&self) -> bool {
        self.settings.fields.iter().any(|field| field.is_of_tls())
    }

    /// Lines that were given up.
    pub(crate) fn dropped(&self) -> u64 {
        self.signs.dropped.load(Relaxed)
    }

    /// Has the file opened again by its name, for whoever moved it away.
    pub(crate) fn reopen(&self) {
        self.signs.reopen.store(true, SeqCst);
        // Where the channel is full the thread has messages to take, and looks before each.
        let _ = self.channel.try_send(Message::Wake);
    }

    /// Waits until everything handed over so far is written, or for a second.
    pub(crate) fn flush(&self) {
        let deadline = time::Instant::now() + FLUSH_MAX;
        let (done, written) = sync_channel(1);
        let mut message = Message::Flush(done);
        while let Err(TrySendError::Full(again)) = self.channel.try_send(message) {
            // A disk that takes longer is no reason not to stop.
            if time::Instant::now() >= deadline {
                return;
            }
            message = again;
            thread::sleep(FLUSH_POLL);
        }
        let _ = written.recv_timeout(deadline.saturating_duration_since(time::Instant::now()));
    }

    /// Whether a request that ended like this has a line.
    pub(crate) fn wants(&self, ending: Ending, status: u16, random: &Random) -> bool {
        let well = ending.fault() == Fault::None && status < 400;
        self.kept == u64::MAX || !well || random.draw() < self.kept
    }

    fn hand_over(&self, lines: Vec<u8>) {
        let count = count(&lines);
        if self.channel.try_send(Message::Lines(lines)).is_err() {
            self.signs.dropped.fetch_add(count, Relaxed);
        }
    }
}

fn count(lines: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', lines).count() as u64
}

fn write_lines(mut sink: Sink, messages: &Receiver<Message>, signs: &Signs) {
    while let Some(message) = next(messages, sink.retry()) {
        let now = time::Instant::now();
        let is_due = sink.retry().is_some_and(|due| due <= now);
        if signs.reopen.swap(false, SeqCst) || is_due {
            sink.reopen(now);
        }
        match message {
            Message::Lines(lines) => {
                signs.dropped.fetch_add(sink.write(&lines), Relaxed);
            }
            Message::Wake => {}
            // Whoever asked may have stopped waiting.
            Message::Flush(done) => drop(done.send(())),
        }
    }
}

/// The next message, or one to look at the signs once it is `due`; none when nobody sends any more.
fn next(messages: &Receiver<Message>, due: Option<time::Instant>) -> Option<Message> {
    let Some(due) = due else { return messages.recv().ok() };
    match messages.recv_timeout(due.saturating_duration_since(time::Instant::now())) {
        Err(RecvTimeoutError::Timeout) => Some(Message::Wake),
        received => received.ok(),
    }
}

/// Lines of one worker that have not been handed over.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "a request holds a pointer rather than what was asked")]
pub(crate) struct LogBuffer {
    writer: RefCell<Option<Writer>>,
    /// Memory for what was asked, of requests that have ended.
    spare: RefCell<Vec<Box<Asked>>>,
}

impl LogBuffer {
    /// Adds a line.
    pub(crate) fn add(&self, log: &Log, clock: Clock, line: &Line<'_>) {
        let mut writer = self.writer.borrow_mut();
        let writer = writer.get_or_insert_with(|| {
            let mut writer = Writer::new(log.settings.format).telling(&log.settings.fields);
            writer.set_clock(wall_of_zero(clock));
            writer
        });
        writer.add(line);
        if writer.len() >= CHUNK_BYTES {
            log.hand_over(writer.take());
        }
    }

    /// Hands over what there is, and looks at the wall clock.
    pub(crate) fn flush(&self, log: &Log, clock: Clock) {
        if let Some(writer) = &mut *self.writer.borrow_mut() {
            writer.set_clock(wall_of_zero(clock));
            if writer.len() > 0 {
                log.hand_over(writer.take());
            }
        }
    }

    /// Memory for what is asked.
    pub(crate) fn take_asked(&self) -> Box<Asked> {
        self.spare.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes it back.
    pub(crate) fn give_asked(&self, asked: Box<Asked>) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE && asked.is_small() {
            spare.push(asked);
        }
    }
}

/// What the wall clock showed when `clock` showed zero, in milliseconds since 1970.
fn wall_of_zero(clock: Clock) -> u64 {
    let since = time::SystemTime::now().duration_since(time::UNIX_EPOCH).unwrap_or_default();
    let wall = u64::try_from(since.as_millis()).unwrap_or(0);
    wall.saturating_sub(clock.now().since(Instant::ZERO).as_nanos() / 1_000_000)
}

/// Bytes a worker collects before it hands them over.
const CHUNK_BYTES: usize = 32 << 10;

/// Chunks that may wait for the writer: 8 MiB, or a second of 60,000 requests.
const CHUNKS_WAITING: usize = 256;

/// The longest that the end of the process waits for lines to be written.
const FLUSH_MAX: time::Duration = time::Duration::from_secs(1);

/// How often it looks whether the channel has room.
const FLUSH_POLL: time::Duration = time::Duration::from_millis(5);

/// Requests under way whose memory is worth keeping for the next.
const SPARE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_core::fleet::LogTarget;

    fn log(successes: Ratio, waiting: usize) -> (Log, Receiver<Message>) {
        let (channel, messages) = sync_channel(waiting);
        let settings = AccessLog { successes, ..AccessLog::to(LogTarget::Stdout) };
        (Log::to(&settings, channel), messages)
    }

    #[test]
    fn a_writer_that_does_not_keep_up_costs_lines_and_nothing_else() {
        let (log, messages) = log(Ratio::ONE, 1);
        log.hand_over(b"one\n".to_vec());
        log.hand_over(b"two\nthree\n".to_vec());
        assert_eq!(log.dropped(), 2);
        log.flush();
        log.reopen();
        drop(messages);
    }

    #[test]
    fn a_file_that_was_moved_away_is_opened_again_though_the_writer_does_not_keep_up() {
        let directory = tempfile::tempdir().unwrap();
        let (path, moved) = (directory.path().join("log"), directory.path().join("log.1"));
        let sink = Sink::open(&LogTarget::File(path.display().to_string())).unwrap();
        let (log, messages) = log(Ratio::ONE, 1);
        log.hand_over(b"one\n".to_vec());
        std::fs::rename(&path, &moved).unwrap();
        log.reopen();
        let signs = log.signs.clone();
        drop(log);
        write_lines(sink, &messages, &signs);
        assert_eq!(std::fs::read_to_string(path).unwrap(), "one\n");
    }

    #[test]
    fn a_file_that_could_not_be_opened_again_is_written_as_soon_as_it_can() {
        let directory = tempfile::tempdir().unwrap();
        let (folder, moved) = (directory.path().join("logs"), directory.path().join("logs.1"));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("log");
        let sink = Sink::open(&LogTarget::File(path.display().to_string())).unwrap();
        let (log, messages) = log(Ratio::ONE, 4);
        let signs = log.signs.clone();
        let writer = thread::spawn(move || write_lines(sink, &messages, &signs));
        std::fs::rename(&folder, &moved).unwrap();
        log.reopen();
        log.hand_over(b"one\n".to_vec());
        log.flush();
        std::fs::create_dir(&folder).unwrap();
        let deadline = time::Instant::now() + time::Duration::from_secs(15);
        while !path.exists() {
            assert!(time::Instant::now() < deadline, "nobody tries again");
            thread::sleep(FLUSH_POLL);
        }
        log.hand_over(b"two\n".to_vec());
        drop(log);
        writer.join().unwrap();
        assert_eq!(std::fs::read_to_string(moved.join("log")).unwrap(), "one\n");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "two\n");
    }

    #[test]
    fn of_what_ends_well_a_share_is_told_and_of_what_does_not_all() {
        let (log, _messages) = log(Ratio::from_f64(0.1), 1);
        let random = Random::new();
        let told =
            |ending, status| (0..10_000).filter(|_| log.wants(ending, status, &random)).count();
        for ending in [Ending::Complete, Ending::Cached, Ending::Ruled, Ending::Idle] {
            assert!((800..1200).contains(&told(ending, 200)), "{ending:?}");
        }
        assert_eq!(told(Ending::Complete, 404), 10_000);
        assert_eq!(told(Ending::ServerReset, 502), 10_000);
        assert_eq!(told(Ending::ClientGone, 0), 10_000);
    }
}
