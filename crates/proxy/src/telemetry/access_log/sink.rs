//! Destinations of the access log: standard output, a file, or a syslog collector.
//!
//! Used by the thread of the log alone, so it may wait. A collector is sent one datagram a line:
//! over UDP (RFC 5426) in the format of RFC 5424, and over a Unix socket as syslog(3) writes it,
//! which is what journald and rsyslog read there. Its socket is made again after an error, as the
//! collector may have been started again.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
        net::UnixDatagram,
    },
    path::{Path, PathBuf},
    process, time,
};

use loadline_core::fleet::LogTarget;
use rustix::{
    fs::{OFlags, fcntl_setfl},
    io::Errno,
};

use super::{
    count,
    stamp::{Stamps, Style},
};

/// An open place for lines.
#[derive(Debug)]
pub(super) struct Sink {
    way: Way,
    /// The last write failed, which has been told.
    failing: bool,
    /// The last line was written in part.
    torn: bool,
    /// When the file is opened again by its name, since that has failed.
    retry: Option<time::Instant>,
}

#[derive(Debug)]
enum Way {
    Stdout,
    File { path: PathBuf, file: File },
    Syslog(Syslog),
}

impl Sink {
    /// Opens it. A collector need not be there yet.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(super) fn open(target: &LogTarget) -> io::Result<Self> {
        let way = match target {
            LogTarget::Stdout => Way::Stdout,
            LogTarget::File(path) => Way::File { path: path.into(), file: append_to(path)? },
            LogTarget::SyslogSocket(path) => Way::Syslog(Syslog::new(Collector::Unix(path.into()))),
            LogTarget::SyslogUdp(address) => Way::Syslog(Syslog::new(Collector::Udp(*address))),
        };
        Ok(Self { way, failing: false, torn: false, retry: None })
    }

    /// Writes lines: how many of them are lost.
    pub(super) fn write(&mut self, lines: &[u8]) -> u64 {
        let torn = &mut self.torn;
        let (lost, written) = match &mut self.way {
            // Past the buffer of the standard library, which would keep what could not be written.
            Way::Stdout => append(lines, torn, |bytes| Ok(rustix::io::write(io::stdout(), bytes)?)),
            Way::File { file, .. } => append(lines, torn, |bytes| file.write(bytes)),
            Way::Syslog(syslog) => syslog.write(lines),
        };
        self.tell(&written);
        lost
    }

    /// Opens the file again by its name; goes on with the old one if that fails, which is told once
    /// until it does not.
    pub(super) fn reopen(&mut self, now: time::Instant) {
        let Way::File { path, file } = &mut self.way else { return };
        match append_to(&*path) {
            Ok(opened) => {
                self.torn &= identity(&opened) == identity(file);
                *file = opened;
                self.retry = None;
            }
            Err(error) => {
                if self.retry.replace(now + RETRY).is_none() {
                    let path = path.display();
                    tracing::warn!(
                        %error, %path,
                        "access log not reopened, lines go to the old one; tried each second"
                    );
                }
            }
        }
    }

    /// When the file is to be opened again, since that has failed.
    pub(super) const fn retry(&self) -> Option<time::Instant> {
        self.retry
    }

    /// Says that lines are lost, once until they are not.
    fn tell(&mut self, written: &io::Result<()>) {
        if let (Err(error), false) = (written, self.failing) {
            tracing::warn!(%error, "access log lines are lost");
        }
        self.failing = written.is_err();
    }
}

/// Writes lines: how many are lost, and why. A line that was torn before is ended first.
fn append(
    lines: &[u8],
    torn: &mut bool,
    mut write: impl FnMut(&[u8]) -> io::Result<usize>,
) -> (u64, io::Result<()>) {
    if *torn && let (_, Err(error)) = write_part(b"\n", torn, &mut write) {
        return (count(lines), Err(error));
    }
    let (part, written) = write_part(lines, torn, &mut write);
    (count(&lines[part..]), written)
}

/// Writes bytes: how many of them, and why no more.
fn write_part(
    bytes: &[u8],
    torn: &mut bool,
    write: &mut impl FnMut(&[u8]) -> io::Result<usize>,
) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match write(&bytes[written..]) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(more) => {
                written += more;
                *torn = bytes[..written].last() != Some(&b'\n');
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

/// Which file it is, whatever its name.
fn identity(file: &File) -> Option<(u64, u64)> {
    file.metadata().ok().map(|about| (about.dev(), about.ino()))
}

/// Opens a file to append to. A pipe of this name must not keep anybody waiting for its reader.
fn append_to(path: impl AsRef<Path>) -> io::Result<File> {
    let path = path.as_ref();
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.create(true).append(true).custom_flags(nonblocking);
    let file = options.open(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) if is_pipe(path) => io::Error::new(
            error.kind(),
            "no process reads this pipe (FIFO): start its reader first",
        ),
        _ => error,
    })?;
    fcntl_setfl(&file, OFlags::APPEND)?;
    Ok(file)
}

fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

#[derive(Debug)]
struct Syslog {
    collector: Collector,
    socket: Option<Socket>,
    stamps: Stamps,
    host: String,
    datagram: Vec<u8>,
}

#[derive(Debug)]
enum Collector {
    Unix(PathBuf),
    Udp(SocketAddr),
}

#[derive(Debug)]
enum Socket {
    Unix(UnixDatagram),
    Udp(UdpSocket),
}

impl Syslog {
    fn new(collector: Collector) -> Self {
        Self {
            collector,
            socket: None,
            stamps: Stamps::new(Style::Rfc3339),
            host: host(),
            datagram: Vec::new(),
        }
    }

    /// Sends each line: how many are lost, and the last reason.
    fn write(&mut self, lines: &[u8]) -> (u64, io::Result<()>) {
        let since = time::SystemTime::now().duration_since(time::UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(since.as_millis()).unwrap_or(0);
        let (mut lost, mut last) = (0, Ok(()));
        for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            self.compose(now, line);
            // Once more with a new socket: the collector may have been started again.
            let sent = self.send().or_else(|_| {
                self.socket = None;
                self.send()
            });
            if let Err(error) = sent {
                self.socket = None;
                lost += 1;
                last = Err(error);
            }
        }
        (lost, last)
    }

    /// Makes the message of a line: `<PRI>1 TIME HOST APP PROCID MSGID - LINE`, for a collector of
    /// this machine `<PRI>APP[PROCID]: LINE`, to which it adds time and host.
    fn compose(&mut self, now: u64, line: &[u8]) {
        let Self { collector, datagram, stamps, host, .. } = self;
        datagram.clear();
        // Writing into memory cannot fail.
        let _ = match collector {
            Collector::Unix(_) => write!(datagram, "<{PRIORITY}>loadline[{}]: ", process::id()),
            Collector::Udp(_) => {
                let _ = write!(datagram, "<{PRIORITY}>1 ");
                stamps.add(datagram, now);
                write!(datagram, " {host} loadline {} access - ", process::id())
            }
        };
        datagram.extend_from_slice(&line[..line.len().min(LINE_MAX)]);
    }

    fn send(&mut self) -> io::Result<()> {
        let socket = match &mut self.socket {
            Some(socket) => socket,
            none => none.insert(self.collector.connect()?),
        };
        match socket {
            Socket::Unix(socket) => socket.send(&self.datagram),
            Socket::Udp(socket) => socket.send(&self.datagram),
        }
        .map(|_| ())
    }
}

impl Collector {
    fn connect(&self) -> io::Result<Socket> {
        match self {
            Self::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                Ok(Socket::Unix(socket))
            }
            Self::Udp(address) => {
                let any: SocketAddr = match address {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                Ok(Socket::Udp(socket))
            }
        }
    }
}

/// The name of this machine, `-` where it has none that a message may hold.
fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    let fits =
        !name.is_empty() && name.len() <= 255 && name.bytes().all(|it| it.is_ascii_graphic());
    if fits { name.to_owned() } else { "-".to_owned() }
}

/// Facility local0 (16), severity informational (6): 16 x 8 + 6 (RFC 5424, 6.2.1).
const PRIORITY: u32 = 134;

/// What is sent of a line at most: more than collectors take as a rule, less than a datagram holds.
const LINE_MAX: usize = 8 << 10;

/// From one failed attempt to open the file again to the next.
const RETRY: time::Duration = time::Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn received(datagram: &[u8]) -> (String, String) {
        let text = std::str::from_utf8(datagram).unwrap();
        let (header, line) = text.split_once(" access - ").unwrap();
        let parts: Vec<&str> = header.split(' ').collect();
        assert_eq!((parts[0], parts.len()), ("<134>1", 5), "{header}");
        assert!(parts[1].ends_with('Z') && parts[1].len() == 24, "{header}");
        assert_eq!(parts[4], process::id().to_string());
        (parts[3].to_owned(), line.to_owned())
    }

    #[test]
    fn a_collector_gets_a_datagram_for_each_line() {
        let collector = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let target = LogTarget::SyslogUdp(collector.local_addr().unwrap());
        let mut sink = Sink::open(&target).unwrap();
        assert_eq!(sink.write(b"one\ntwo\n"), 0);
        let mut buffer = [0; 1024];
        for expected in ["one", "two"] {
            let count = collector.recv(&mut buffer).unwrap();
            assert_eq!(received(&buffer[..count]), ("loadline".into(), expected.into()));
        }
    }

    #[test]
    fn lines_for_a_collector_that_is_away_are_lost_and_it_is_found_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let target = LogTarget::SyslogSocket(path.display().to_string());
        let mut sink = Sink::open(&target).unwrap();
        assert_eq!(sink.write(b"one\ntwo\n"), 2);
        for _ in 0..2 {
            let collector = UnixDatagram::bind(&path).unwrap();
            assert_eq!(sink.write(b"three\n"), 0);
            let mut buffer = [0; 1024];
            let count = collector.recv(&mut buffer).unwrap();
            assert!(buffer[..count].ends_with(b": three"));
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_collector_of_this_machine_gets_lines_as_syslog_3_writes_them() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let collector = UnixDatagram::bind(&path).unwrap();
        let mut sink = Sink::open(&LogTarget::SyslogSocket(path.display().to_string())).unwrap();
        assert_eq!(sink.write(b"one\n"), 0);
        let mut buffer = [0; 1024];
        let count = collector.recv(&mut buffer).unwrap();
        let expected = format!("<134>loadline[{}]: one", process::id());
        assert_eq!(std::str::from_utf8(&buffer[..count]), Ok(&*expected));
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_an_error_that_says_so_and_keeps_nobody_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        let target = LogTarget::File(path.display().to_string());
        let told = Sink::open(&target).unwrap_err().to_string();
        assert!(told.contains("start its reader first"), "{told}");
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let mut reader = OpenOptions::new();
        let mut reader = reader.read(true).custom_flags(nonblocking).open(&path).unwrap();
        let mut sink = Sink::open(&target).unwrap();
        assert_eq!(sink.write(b"one\n"), 0);
        let mut buffer = [0; 4];
        io::Read::read_exact(&mut reader, &mut buffer).unwrap();
        assert_eq!(&buffer, b"one\n");
        let Way::File { file, .. } = &sink.way else { panic!("a file") };
        let flags = rustix::fs::fcntl_getfl(file).unwrap();
        assert!(!flags.contains(OFlags::NONBLOCK), "a slow reader loses no lines: {flags:?}");
    }

    #[test]
    fn a_line_that_a_full_disk_tears_destroys_no_other_and_is_counted_as_lost() {
        let (mut disk, room, mut torn) = (Vec::new(), Cell::new(6), false);
        let mut write = |bytes: &[u8]| {
            let part = &bytes[..bytes.len().min(room.get())];
            disk.extend_from_slice(part);
            room.set(room.get() - part.len());
            if part.is_empty() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(part.len()) }
        };
        let mut append = |lines: &[u8]| append(lines, &mut torn, &mut write).0;
        assert_eq!(append(b"one\ntwo\nthree\n"), 2);
        assert_eq!(append(b"four\n"), 1);
        room.set(100);
        assert_eq!(append(b"five\n"), 0);
        room.set(4);
        assert_eq!(append(b"six\nseven\n"), 1);
        room.set(100);
        assert_eq!(append(b"eight\n"), 0);
        assert_eq!(String::from_utf8(disk).unwrap(), "one\ntw\nfive\nsix\neight\n");
    }

    #[test]
    fn a_torn_line_is_ended_in_its_own_file_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (path, moved) = (directory.path().join("log"), directory.path().join("log.1"));
        let mut sink = Sink::open(&LogTarget::File(path.display().to_string())).unwrap();
        sink.torn = true;
        sink.reopen(time::Instant::now());
        assert!(sink.torn, "it is the same");
        fs::rename(&path, &moved).unwrap();
        sink.reopen(time::Instant::now());
        assert_eq!(sink.write(b"one\n"), 0);
        assert_eq!(fs::read_to_string(path).unwrap(), "one\n");
    }

    #[test]
    fn a_file_that_cannot_be_opened_again_is_tried_a_second_later() {
        let directory = tempfile::tempdir().unwrap();
        let (folder, moved) = (directory.path().join("logs"), directory.path().join("logs.1"));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("log");
        let mut sink = Sink::open(&LogTarget::File(path.display().to_string())).unwrap();
        fs::rename(&folder, &moved).unwrap();
        let now = time::Instant::now();
        sink.reopen(now);
        assert_eq!(sink.retry(), Some(now + RETRY));
        sink.write(b"one\n");
        fs::create_dir(&folder).unwrap();
        sink.reopen(now + RETRY);
        assert_eq!(sink.retry(), None);
        sink.write(b"two\n");
        assert_eq!(fs::read_to_string(moved.join("log")).unwrap(), "one\n");
        assert_eq!(fs::read_to_string(path).unwrap(), "two\n");
    }

    #[test]
    fn a_file_that_was_moved_away_is_opened_again() {
        let directory = tempfile::tempdir().unwrap();
        let (path, moved) = (directory.path().join("log"), directory.path().join("log.1"));
        let mut sink = Sink::open(&LogTarget::File(path.display().to_string())).unwrap();
        sink.write(b"one\n");
        fs::rename(&path, &moved).unwrap();
        sink.write(b"two\n");
        sink.reopen(time::Instant::now());
        sink.write(b"three\n");
        assert_eq!(fs::read_to_string(moved).unwrap(), "one\ntwo\n");
        assert_eq!(fs::read_to_string(path).unwrap(), "three\n");
    }
}
