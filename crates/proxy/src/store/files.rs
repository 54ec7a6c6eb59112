//! Files of this machine as responses.
//!
//! A file is opened below the root alone (openat2 with `RESOLVE_BENEATH`): neither `..` nor a
//! symbolic link leads out, whoever renames what meanwhile. Small files are read with the head into
//! one buffer; the payload of large ones goes from the page cache through a pipe to the client's
//! socket, in slices, as sendfile(2) would move it. What is not in the page cache is read while the
//! worker waits: a slice at a time.

use std::{
    collections::VecDeque,
    fs::{File, Metadata},
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io::{self, Write as _},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::{
            ffi::OsStrExt as _,
            fs::{FileExt as _, MetadataExt as _},
        },
    },
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::SystemTime,
};

use loadline_core::{
    cache::{
        ByteRange, Condition, EntityTag, Field, Fields, Multipart, Request, Response, Wanted,
        format_date, range_counts, unsatisfied_content_range,
    },
    compress::{AcceptEncoding, Algorithm},
    decide::reason::Reason,
    fleet::{Page, Store, StorePlace},
    time::{Duration, UnixTime},
};
use loadline_http1::reason;
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2},
    io::Errno,
    pipe::{SpliceFlags, splice},
};

use super::{
    asked::{Asked, decoded},
    error_pages::ErrorPage,
};
use crate::io::pipe::Pipe;

/// A server's end of an exchange, of which files are the responses.
#[derive(Debug)]
pub(crate) struct FileReply {
    store: Arc<Store>,
    /// The client's own path, where a rule has put another prefix in the place of its own.
    asked_path: Option<Box<[u8]>>,
    /// What is still to be read of the response, once there is a request.
    pieces: VecDeque<Piece>,
    file: Option<File>,
    was_asked: bool,
}

/// A part of a response.
#[derive(Debug)]
enum Piece {
    Text(Vec<u8>),
    /// So many bytes of the file from this one on.
    Payload(u64, u64),
}

impl FileReply {
    /// One that is to be asked for a file of `store`, by another path than the client's own if one
    /// is given.
    pub(crate) const fn of(store: Arc<Store>, asked_path: Option<Box<[u8]>>) -> Self {
        Self { store, asked_path, pieces: VecDeque::new(), file: None, was_asked: false }
    }

    /// One that has a response already: this status, with this page, or else with these lines.
    pub(crate) fn local(
        store: Arc<Store>,
        text: &[u8],
        (status, lines): (u16, &str),
        page: Option<&ErrorPage>,
    ) -> Self {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        let asked = Asked::of(text);
        match page.and_then(|known| Some((known.page.as_ref()?, &*known.coding))) {
            Some(page) => with_page(&mut head, status, page, asked),
            None => short(&mut head, now(), status, lines, asked),
        }
        let pieces = VecDeque::from([Piece::Text(head)]);
        Self { store, asked_path: None, pieces, file: None, was_asked: true }
    }

    /// Takes a request: its head comes first and whole. A body means nothing here.
    ///
    /// # Errors
    /// Where this machine lacks something that a response needs.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.was_asked {
            self.was_asked = true;
            self.answer(Asked::of(bytes), now())?;
        }
        Ok(bytes.len())
    }

    /// Reads more of the response; 0 at its end, and where the file has become shorter.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while let Some(piece) = self.pieces.front_mut() {
            let space = &mut into[count..];
            let (moved, left) = match piece {
                Piece::Text(text) => {
                    let moved = text.len().min(space.len());
                    space[..moved].copy_from_slice(&text[..moved]);
                    text.drain(..moved);
                    (moved, text.len() as u64)
                }
                // What is long is not read as long as it may be spliced.
                Piece::Payload(_, left) if count > 0 && *left > LONG => break,
                Piece::Payload(offset, left) => {
                    let Some(file) = &self.file else { break };
                    let most = space.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    let moved = file.read_at(&mut space[..most], *offset)?;
                    *offset += moved as u64;
                    *left -= moved as u64;
                    (moved, *left)
                }
            };
            count += moved;
            if left > 0 {
                break;
            }
            self.pieces.pop_front();
        }
        Ok(count)
    }

    /// Whether what comes next can go into a pipe.
    pub(crate) fn splices(&self) -> bool {
        matches!(self.pieces.front(), Some(Piece::Payload(..)))
    }

    /// Moves up to `most` bytes into an empty pipe; 0 where the file has become shorter.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn splice_into(&mut self, pipe: &mut Pipe, most: usize) -> io::Result<usize> {
        let (Some(file), Some(Piece::Payload(offset, left))) =
            (&self.file, self.pieces.front_mut())
        else {
            return Ok(0);
        };
        let most = most.min(usize::try_from(*left).unwrap_or(usize::MAX));
        let flags = SpliceFlags::NONBLOCK;
        let moved = splice(file.as_fd(), Some(offset), &pipe.write, None, most, flags)?;
        pipe.held += moved;
        *left -= moved as u64;
        if *left == 0 {
            self.pieces.pop_front();
        }
        Ok(moved)
    }

    fn answer(&mut self, asked: Asked<'_>, now: UnixTime) -> io::Result<()> {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        if !matches!(asked.method, b"GET" | b"HEAD") {
            short(&mut head, now, 405, "Allow: GET, HEAD\r\n", asked);
            self.pieces.push_back(Piece::Text(head));
            return Ok(());
        }
        let path = self.asked_path.as_deref().unwrap_or(asked.path);
        match self.open(asked.path)? {
            // The root, where nothing is left of the path to say so without its slash.
            Found::File(..) if asked.path == b"/" && !path.ends_with(b"/") => {
                self.pieces.push_back(to_directory(path, asked, now));
            }
            Found::File(file, name) => {
                let entity = self.entity(asked, file, name)?;
                self.send(asked, entity, now)?;
            }
            Found::Directory => self.pieces.push_back(to_directory(path, asked, now)),
            Found::Nothing(status) => match self.error_page(status)? {
                Some((file, name)) => self.send_error(asked, status, (file, &name), now)?,
                None => {
                    short(&mut head, now, status, "", asked);
                    self.pieces.push_back(Piece::Text(head));
                }
            },
        }
        Ok(())
    }

    /// The file that is told instead of a bare 404.
    fn error_page(&self, status: u16) -> io::Result<Option<(File, Vec<u8>)>> {
        let Some(page) = self.store.error_page.as_ref().filter(|_| status == 404) else {
            return Ok(None);
        };
        Ok(match self.open(page.as_bytes())? {
            Found::File(file, name) => Some((file, name)),
            Found::Directory | Found::Nothing(_) => None,
        })
    }

    /// What is sent for a file: itself, or what was made of it for clients that accept that.
    fn entity(&self, asked: Asked<'_>, file: File, name: Vec<u8>) -> io::Result<Entity> {
        if !self.store.precompressed {
            return Ok(Entity { file, name, coding: None });
        }
        let modified = file.metadata()?.modified()?;
        let wishes = asked.fields().filter(|field| field.is("accept-encoding"));
        let accepted = AcceptEncoding::parse(wishes.map(|field| field.value));
        let mut left = SMALLEST_FIRST.to_vec();
        while let Some(algorithm) = accepted.choose(&left) {
            left.retain(|other| *other != algorithm);
            let sibling = [&name, algorithm.suffix().as_bytes()].concat();
            let Ok(coded) = self.find(&sibling)? else { continue };
            let metadata = coded.metadata()?;
            // One that is older was made of another file.
            if metadata.is_file() && metadata.modified()? >= modified {
                return Ok(Entity { file: coded, name, coding: Some(algorithm) });
            }
        }
        Ok(Entity { file, name, coding: None })
    }

    /// Finds the file of a path.
    fn open(&self, path: &[u8]) -> io::Result<Found> {
        let Some(mut name) = name(path) else { return Ok(Found::Nothing(404)) };
        if name.is_empty() || name.ends_with(b"/") {
            name.extend_from_slice(self.store.index.as_bytes());
        }
        let file = match self.find(&name)? {
            Ok(file) => file,
            Err(status) => return Ok(Found::Nothing(status)),
        };
        let kind = file.metadata()?.file_type();
        Ok(match (kind.is_file(), kind.is_dir()) {
            (true, _) => Found::File(file, name),
            (_, true) if !path.ends_with(b"/") => Found::Directory,
            _ => Found::Nothing(404),
        })
    }

    /// Opens what has this name below the root; a status where nothing can be sent of it.
    fn find(&self, name: &[u8]) -> io::Result<Result<File, u16>> {
        let StorePlace::Files(path) = &self.store.place else { return Ok(Err(404)) };
        // By its path each time: a root may be a link that a deployment turns to another directory.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root =
            openat(CWD, path.as_str(), flags, Mode::empty()).map_err(|error| match error {
                Errno::MFILE | Errno::NFILE | Errno::NOMEM => error.into(),
                _ => io::Error::other(Reason::StoreMissing),
            })?;
        // A pipe of this name must not keep the worker waiting for its other end.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        match opened(|| openat2(&root, name, flags, Mode::empty(), BELOW)) {
            Ok(file) => Ok(Ok(File::from(file))),
            Err(
                Errno::NOENT
                | Errno::NOTDIR
                | Errno::NAMETOOLONG
                | Errno::LOOP
                | Errno::XDEV
                | Errno::NXIO
                | Errno::INVAL,
            ) => Ok(Err(404)),
            // The errors of drivers are as they like.
            Err(_) if is_special(root.as_fd(), name) => Ok(Err(404)),
            Err(Errno::ACCESS | Errno::PERM) => Ok(Err(403)),
            Err(error) => {
                tell(path, name, error);
                Err(error.into())
            }
        }
    }

    /// Tells a status with a whole file.
    fn send_error(
        &mut self,
        asked: Asked<'_>,
        status: u16,
        (file, name): (File, &[u8]),
        now: UnixTime,
    ) -> io::Result<()> {
        let length = file.metadata()?.len();
        let mut head = Vec::with_capacity(HEAD_BYTES);
        begin(&mut head, status, now);
        add(&mut head, b"Content-Type", content_type(name).as_bytes());
        add(&mut head, b"Content-Length", length.to_string().as_bytes());
        head.extend_from_slice(b"\r\n");
        self.pieces.push_back(Piece::Text(head));
        if asked.method == b"GET" && length > 0 {
            self.file = Some(file);
            self.pieces.push_back(Piece::Payload(0, length));
        }
        Ok(())
    }

    /// Makes the response out of a file, as the request asks for it.
    fn send(
        &mut self,
        asked: Asked<'_>,
        Entity { file, name, coding }: Entity,
        now: UnixTime,
    ) -> io::Result<()> {
        let metadata = file.metadata()?;
        let (tag, modified) = validators(&metadata, coding, now);
        let mut stored =
            vec![Field::new(b"ETag", tag.as_bytes()), Field::new(b"Last-Modified", &modified)];
        if self.store.precompressed {
            stored.push(Field::new(b"Vary", b"Accept-Encoding"));
        }
        let mut head = Vec::with_capacity(HEAD_BYTES);
        let complete = metadata.len();
        match wanted(asked, Fields(&stored), complete, now) {
            Err(304) => {
                begin(&mut head, 304, now);
                stored.iter().for_each(|field| add(&mut head, field.name, field.value));
                head.extend_from_slice(b"\r\n");
            }
            Err(status) => short(&mut head, now, status, "", asked),
            Ok(Wanted::Nothing) => {
                let range = unsatisfied_content_range(complete);
                let line = format!("Content-Range: {}\r\n", String::from_utf8_lossy(&range));
                short(&mut head, now, 416, &line, asked);
            }
            Ok(wanted) => {
                let (status, kind, payload) = payload(&wanted, content_type(&name), complete);
                begin(&mut head, status, now);
                stored.iter().for_each(|field| add(&mut head, field.name, field.value));
                add(&mut head, b"Accept-Ranges", b"bytes");
                if let Some(algorithm) = coding {
                    add(&mut head, b"Content-Encoding", algorithm.coding().as_bytes());
                }
                if let Wanted::Part(range) = wanted {
                    add(&mut head, b"Content-Range", &range.content_range(complete));
                }
                let length: u64 = payload.iter().map(Piece::len).sum();
                add(&mut head, b"Content-Type", &kind);
                add(&mut head, b"Content-Length", length.to_string().as_bytes());
                head.extend_from_slice(b"\r\n");
                if asked.method == b"GET" {
                    self.file = Some(file);
                    self.pieces.extend(payload.into_iter().filter(|piece| piece.len() > 0));
                }
            }
        }
        self.pieces.push_front(Piece::Text(head));
        Ok(())
    }
}

impl Piece {
    const fn len(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Payload(_, length) => *length,
        }
    }
}

/// What is sent of a file.
struct Entity {
    file: File,
    /// The name of the plain one.
    name: Vec<u8>,
    coding: Option<Algorithm>,
}

/// What is at a path.
enum Found {
    /// A file, and its name below the root.
    File(File, Vec<u8>),
    /// A directory, of which the path does not say so.
    Directory,
    /// Nothing to be sent, and the status that says so.
    Nothing(u16),
}

/// The name of a path below the root; none where it can be that of no file there.
fn name(path: &[u8]) -> Option<Vec<u8>> {
    let name = decoded(path);
    let name = &name[name.iter().take_while(|byte| **byte == b'/').count()..];
    let leads_out = name.split(|byte| *byte == b'/').any(|segment| segment == b"..");
    (path.starts_with(b"/") && !leads_out && !name.contains(&0)).then(|| name.to_vec())
}

/// Tag and date of a file as it is now; a coding has tags of its own. A file that was changed a
/// moment ago may be changed once more within the same tick of the file system's clock, so that its
/// tag is weak (RFC 9110, section 8.8.1).
fn validators(metadata: &Metadata, coding: Option<Algorithm>, now: UnixTime) -> (String, [u8; 29]) {
    let modified = UnixTime::from_secs(metadata.mtime());
    let weak = if now.since(modified) >= SETTLED { "" } else { "W/" };
    let (seconds, nanos) = (metadata.mtime(), metadata.mtime_nsec());
    let suffix = coding.map_or("", Algorithm::suffix);
    let tag = format!("{weak}\"{seconds:x}.{nanos:x}-{:x}{suffix}\"", metadata.len());
    // A date that is yet to come says nothing (RFC 9110, section 8.8.2.1).
    (tag, format_date(modified.min(now)))
}

/// Opens a file. `..` in a link is not followed while anything is renamed anywhere, which says
/// nothing about the file.
fn opened<T>(open: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut tries = (1..OPENS_MAX).map(|_| open());
    tries.find(|it| !matches!(it, Err(Errno::AGAIN))).unwrap_or_else(open)
}

/// Whether what has this name is neither a file nor a directory. It is not opened for that.
fn is_special(root: BorrowedFd<'_>, name: &[u8]) -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = openat2(root, name, flags, Mode::empty(), BELOW).map(File::from);
    let kind = found.ok().and_then(|found| found.metadata().ok()).map(|it| it.file_type());
    kind.is_some_and(|kind| !kind.is_file() && !kind.is_dir())
}

/// Says in the log which file cannot be opened, as under a lease of another program: the failure is
/// counted without its name. Not each time, since whoever asks for it may do so again.
#[cold]
fn tell(root: &str, name: &[u8], error: Errno) {
    static TOLD: AtomicI64 = AtomicI64::new(i64::MIN);
    let (now, before) = (now().as_secs(), TOLD.load(Relaxed));
    let is_due = now.saturating_sub(before) >= TELL_AGAIN_SECS;
    if is_due && TOLD.compare_exchange(before, now, Relaxed, Relaxed).is_ok() {
        let file = format!("{root}/{}", String::from_utf8_lossy(name));
        tracing::warn!(?file, "a file cannot be opened: {}", io::Error::from(error));
    }
}

/// What of a file with these fields is sent, or the status of a response without any of it.
fn wanted(
    asked: Asked<'_>,
    stored: Fields<'_>,
    complete: u64,
    now: UnixTime,
) -> Result<Wanted, u16> {
    let fields: Vec<Field<'_>> = asked.fields().collect();
    let request = Request {
        method: asked.method,
        scheme: b"",
        authority: b"",
        target: asked.path,
        fields: Fields(&fields),
        has_content: false,
    };
    match Condition::of(&request, &Response { status: 200, fields: stored }, now) {
        Condition::NotModified => Err(304),
        Condition::Failed => Err(412),
        Condition::Send if asked.method == b"GET" && takes_part(request.fields, stored, now) => {
            Ok(Wanted::of(request.fields, complete))
        }
        Condition::Send => Ok(Wanted::Whole),
    }
}

/// Whether a range counts: not by a tag or a date of a file that may still change unnoticed.
fn takes_part(asked: Fields<'_>, stored: Fields<'_>, now: UnixTime) -> bool {
    let is_weak = stored.single("etag").is_some_and(|tag| EntityTag::parse(tag).weak);
    !(is_weak && asked.has("if-range")) && range_counts(asked, stored, now)
}

/// Status, Content-Type and body of a response with what is wanted of a file.
fn payload(wanted: &Wanted, kind: &str, complete: u64) -> (u16, Vec<u8>, Vec<Piece>) {
    let piece = |range: &ByteRange| Piece::Payload(range.first, range.length());
    match wanted {
        Wanted::Part(range) => (206, kind.into(), vec![piece(range)]),
        Wanted::Parts(ranges) => {
            // Of no file that this is a part of anybody could have known it.
            let boundary = format!("{:016x}", RandomState::new().build_hasher().finish());
            let content_type = Some(kind.as_bytes());
            let frame = Multipart { boundary: &boundary, content_type, complete };
            let framed = |range: &ByteRange| [Piece::Text(frame.head(*range)), piece(range)];
            let end = Piece::Text(frame.end());
            let pieces = ranges.iter().flat_map(framed).chain([end]).collect();
            (206, frame.content_type(), pieces)
        }
        Wanted::Whole | Wanted::Nothing => (200, kind.into(), vec![Piece::Payload(0, complete)]),
    }
}

/// The type that the ending of a name stands for. Text is UTF-8.
fn content_type(name: &[u8]) -> &'static str {
    let path = Path::new(std::ffi::OsStr::from_bytes(name));
    let ending = path.extension().unwrap_or_default().as_bytes();
    let of_stream = STREAMS.iter().find(|(known, _)| ending.eq_ignore_ascii_case(known));
    if let Some((_, kind)) = of_stream {
        return kind;
    }
    match mime_guess::from_path(path).first_raw() {
        Some("text/html") => "text/html; charset=utf-8",
        Some("text/css") => "text/css; charset=utf-8",
        Some("text/javascript" | "application/javascript") => "text/javascript; charset=utf-8",
        Some("text/plain") => "text/plain; charset=utf-8",
        Some(kind) => kind,
        None => "application/octet-stream",
    }
}

fn begin(head: &mut Vec<u8>, status: u16, now: UnixTime) {
    // Writing into memory cannot fail, here and below.
    let _ = write!(head, "HTTP/1.1 {status} {}\r\n", reason(status));
    add(head, b"Date", &format_date(now));
}

fn add(head: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    [name, b": ", value, b"\r\n"].into_iter().for_each(|part| head.extend_from_slice(part));
}

/// A response that says in a word why it is no object.
fn short(head: &mut Vec<u8>, now: UnixTime, status: u16, lines: &str, asked: Asked<'_>) {
    let body = reason(status);
    begin(head, status, now);
    let length = body.len() + 1;
    let _ = write!(head, "{lines}Content-Type: text/plain\r\nContent-Length: {length}\r\n\r\n");
    if asked.method != b"HEAD" {
        let _ = writeln!(head, "{body}");
    }
}

/// Sends a client that asked for `path` to the same with a slash behind it.
fn to_directory(path: &[u8], asked: Asked<'_>, now: UnixTime) -> Piece {
    let last = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let [last, query] = [last, asked.query].map(String::from_utf8_lossy);
    let mut head = Vec::with_capacity(HEAD_BYTES);
    short(&mut head, now, 301, &format!("Location: ./{last}/{query}\r\n"), asked);
    Piece::Text(head)
}

/// A response with a page, and the line of its coding.
fn with_page(head: &mut Vec<u8>, status: u16, (page, coding): (&Page, &str), asked: Asked<'_>) {
    begin(head, status, now());
    let (content_type, length) = (&page.content_type, page.body.len());
    let _ =
        write!(head, "{coding}Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n");
    if asked.method != b"HEAD" {
        head.extend_from_slice(&page.body);
    }
}

/// The time of the machine.
fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    UnixTime::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Endings of HLS (RFC 8216) and DASH, of which the list has others' types or none.
const STREAMS: [(&[u8], &str); 3] = [
    (b"m3u8", "application/vnd.apple.mpegurl"),
    (b"ts", "video/mp2t"),
    (b"m4s", "video/iso.segment"),
];

/// Which of several is sent that a client likes equally: made once, they may take their time.
const SMALLEST_FIRST: [Algorithm; 3] = [Algorithm::Brotli, Algorithm::Zstd, Algorithm::Gzip];

/// Room for a head as they commonly are.
const HEAD_BYTES: usize = 512;

/// Payload from here on is left to splice(2), which moves it without a copy.
const LONG: u64 = 64 << 10;

/// Names do not lead out of the root.
const BELOW: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// How often the log tells of files that cannot be opened.
const TELL_AGAIN_SECS: i64 = 10;

/// Renames follow each other closely where somebody does nothing else.
const OPENS_MAX: u32 = 32;

/// File systems that count whole seconds are the coarsest.
const SETTLED: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn films_in_segments_and_modules_have_the_types_that_players_and_browsers_expect() {
        for (name, told) in [
            ("live/index.m3u8", "application/vnd.apple.mpegurl"),
            ("live/1.ts", "video/mp2t"),
            ("live/1.TS", "video/mp2t"),
            ("live/1.m4s", "video/iso.segment"),
            ("live/1.mp4", "video/mp4"),
            ("app.js", "text/javascript; charset=utf-8"),
            ("app.mjs", "text/javascript; charset=utf-8"),
            ("ts", "application/octet-stream"),
        ] {
            assert_eq!(content_type(name.as_bytes()), told, "{name}");
        }
    }

    #[test]
    fn a_file_behind_a_link_is_opened_again_while_others_are_renamed_but_not_for_ever() {
        let renamed = |times: u32| {
            let opens = Cell::new(0);
            let open = || {
                opens.set(opens.get() + 1);
                if opens.get() > times { Ok(()) } else { Err(Errno::AGAIN) }
            };
            (opened(open), opens.get())
        };
        assert_eq!(renamed(0), (Ok(()), 1));
        assert_eq!(renamed(20), (Ok(()), 21));
        assert_eq!(renamed(u32::MAX), (Err(Errno::AGAIN), OPENS_MAX));
        let missing = opened(|| Err::<(), _>(Errno::NOENT));
        assert_eq!(missing, Err(Errno::NOENT));
    }

    #[test]
    fn what_is_no_file_is_known_without_being_opened() {
        let root = tempfile::tempdir().expect("a directory");
        std::fs::write(root.path().join("file"), b"x").expect("a file");
        std::fs::create_dir(root.path().join("directory")).expect("a directory");
        let socket = std::os::unix::net::UnixListener::bind(root.path().join("socket"));
        socket.expect("a socket");
        let root = File::open(root.path()).expect("a directory");
        let names = ["file", "directory", "socket", "missing"];
        let special = names.map(|name| is_special(root.as_fd(), name.as_bytes()));
        assert_eq!(special, [false, false, true, false]);
    }
}
