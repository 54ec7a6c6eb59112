//! Sends a stored response to a client.

use std::{
    future::poll_fn,
    io::{self, Write as _},
    ops::Deref,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use loadline_core::{
    cache::{CacheStatus, Fields, Forward, Metadata, Outcome},
    decide::{ending::Ending, ledger::ServerId, reason::Reason},
    time::{Duration, UnixTime},
};
use loadline_http1::{Forwarded, Method};
use loadline_linux::arena::Arena;
use smallvec::SmallVec;

use super::{
    Exchange, Next,
    compressed::Compressed,
    sliced::{Slice, Sliced},
};
use crate::{
    cache::{
        Answer, Asked, BROKEN, Body, COPIED, CacheResult, DiskBody, Failed, Object, Part, Reader,
        Response, Wanted, asks_for_all, request_fields, write,
    },
    http::rules::field_name,
    runtime::yield_once::yield_once,
};

/// Where a body comes from.
pub(super) enum Source {
    Object(Arc<Object>),
    /// A compressed form of an object.
    Coded(Bytes),
    Arrival(Reader),
    /// The compressed form of a body that is coming in.
    Compressed(Box<Compressed>),
    Disk(DiskBody),
    Sliced(Box<Sliced>),
}

/// What the client is told beside the stored response.
#[derive(Debug)]
pub(super) struct Given {
    outcome: Outcome,
    metadata: Option<Metadata>,
    now: UnixTime,
    /// A server was asked for this client.
    is_from_server: bool,
    is_from_disk: bool,
    /// The client has neither conditions nor a range.
    asks_for_all: bool,
    /// Header lines for this client alone.
    withheld: Option<Arc<[u8]>>,
    /// The server that its session is with from now on.
    server: Option<ServerId>,
}

/// How the end of a body is known to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Length,
    Chunks,
    Close,
}

/// Why a body did not get through.
#[derive(Clone, Copy, Debug)]
pub(super) enum Broken {
    Client(Reason),
    Source(Failed),
}

/// Bytes of a body.
enum Piece<'o> {
    Stored(&'o [u8]),
    Arrived(Bytes),
}

impl Given {
    /// For a response in memory.
    pub(super) fn hit(metadata: &Metadata, now: UnixTime) -> Self {
        let metadata = Some(*metadata);
        Self::new(Outcome::Hit, metadata, now, false)
    }

    /// The same for a client of whose request these are the fields.
    pub(super) fn to(self, fields: Fields<'_>) -> Self {
        Self { asks_for_all: asks_for_all(fields), ..self }
    }

    /// The same with lines that are for this client alone.
    pub(super) fn with(self, withheld: Option<Arc<[u8]>>) -> Self {
        Self { withheld, ..self }
    }

    /// The same of a server that keeps the client's session.
    pub(super) fn of_server(self, server: Option<ServerId>) -> Self {
        Self { server, ..self }
    }

    /// For a response on disk.
    pub(super) fn hit_on_disk(metadata: &Metadata, now: UnixTime) -> Self {
        Self { is_from_disk: true, ..Self::hit(metadata, now) }
    }

    /// For a response that was fetched.
    pub(super) const fn new(
        outcome: Outcome,
        metadata: Option<Metadata>,
        now: UnixTime,
        is_from_server: bool,
    ) -> Self {
        Self {
            outcome,
            metadata,
            now,
            is_from_server,
            is_from_disk: false,
            asks_for_all: false,
            withheld: None,
            server: None,
        }
    }

    /// For what is stored in part: servers are asked for the rest.
    fn in_part(self) -> Self {
        let (why, status) = (Forward::Partial, None);
        let outcome = Outcome::Forwarded { why, status, stored: false, collapsed: false };
        Self { outcome, is_from_server: true, ..self }
    }

    /// Whether nobody else is to have it as it comes: it was fetched for this client, and is not
    /// stored or has to be validated for the next one.
    fn is_for_one(&self) -> bool {
        let is_for_others = |it: Metadata| !it.needs_validation && it.is_fresh(self.now);
        self.is_from_server && !self.metadata.is_some_and(is_for_others)
    }

    /// As it is counted.
    fn result(&self) -> CacheResult {
        match self.outcome {
            Outcome::Hit => match &self.metadata {
                Some(metadata) if !metadata.is_fresh(self.now) => CacheResult::Stale,
                _ => CacheResult::Hit,
            },
            Outcome::Forwarded { collapsed: true, .. } => CacheResult::Collapsed,
            Outcome::Forwarded { status: Some(304), .. } => CacheResult::Revalidated,
            Outcome::Forwarded { .. } => CacheResult::Miss,
        }
    }

    const fn ending(&self) -> Ending {
        if self.is_from_server { Ending::Complete } else { Ending::Cached }
    }

    /// Appends what is told of it.
    fn write(self, tells_status: bool, text: &mut Vec<u8>) {
        self.withheld.iter().for_each(|lines| text.extend_from_slice(lines));
        let age = self.metadata.map_or(Duration::ZERO, |metadata| metadata.age(self.now));
        let seconds = age.as_nanos() / 1_000_000_000;
        if self.outcome == Outcome::Hit || seconds > 0 {
            write(text, b"Age", itoa::Buffer::new().format(seconds).as_bytes());
        }
        if tells_status {
            let ttl = self.metadata.map(|metadata| metadata.ttl(self.now));
            let (cache, outcome) = (NAME, self.outcome);
            let detail = self.is_from_disk.then_some("disk");
            text.extend_from_slice(b"Cache-Status: ");
            CacheStatus { cache, outcome, ttl, key: None, detail }.write(text);
            text.extend_from_slice(b"\r\n");
        }
    }
}

impl Exchange<'_> {
    /// Gives a response to the client, or what of it the client asks for: how that ended.
    pub(super) async fn give(
        &mut self,
        wanted: &Wanted,
        response: &Response,
        source: Source,
        mut given: Given,
    ) -> (Ending, Next) {
        let mut source = source.in_slices(wanted, response, given.is_from_server);
        let length = source.length(response);
        let mut answer = if given.asks_for_all {
            Answer::whole(response, length)
        } else {
            let mut fields = request_fields(&self.request.text);
            if self.request.method == Method::Head {
                // `Range` is for GET alone: RFC 9110 section 14.2.
                fields.retain(|field| !field.is("range"));
            }
            let received = given.metadata.map_or(given.now, |metadata| metadata.received);
            let draw = self.worker.random.draw();
            let is_at_hand = !matches!(source, Source::Arrival(_));
            let now = given.now;
            let asked = Asked { fields: Fields(&fields), received, now, is_at_hand, draw };
            Answer::of(response, length, &asked)
        };
        if given.outcome == Outcome::Hit && self.lacks_slices(&source, &answer.body).await {
            if self.wants_nothing_else() {
                return (Ending::Cached, self.tell_status(504, None, false).await);
            }
            given = given.in_part();
        }
        source.count_hit();
        let is_for_one = given.is_for_one();
        source = self.code((wanted, response), &mut answer, source, is_for_one).await;
        let mut text = answer.head;
        let (result, ended, server) = (given.result(), given.ending(), given.server);
        given.write(wanted.caching().status, &mut text);
        let end = self.frame(&answer.body, source.length(response), &mut text);
        let keep_alive = self.request.keep_alive && end != End::Close && !self.is_leaving();
        self.finish_head(keep_alive, server, &mut text);
        self.record.status = answer.status;
        self.record.cache = Some(result);
        let body = match self.request.method {
            Method::Head => Body::None,
            _ => answer.body,
        };
        // Responses of one turn go out behind one another: a client that has been woken by the
        // first takes the others without being woken again.
        yield_once().await;
        let sent = self.send_body(text, &mut source, &body, end).await;
        if let Source::Compressed(compressed) = source {
            self.conclude(*compressed);
        }
        match sent {
            Ok(()) => (ended, if keep_alive { Next::KeepAlive } else { self.closing() }),
            Err(broken) => {
                let next = if end == End::Close { Next::Reset } else { Next::Close };
                (self.broken(broken), next)
            }
        }
    }

    fn broken(&mut self, broken: Broken) -> Ending {
        let (ending, reason) = match broken {
            Broken::Client(reason) => (reason.ending(), Some(reason)),
            Broken::Source(failed) => (failed.ending, failed.reason),
        };
        self.record.reason = reason;
        ending
    }

    /// Says how the end of the body is known.
    fn frame(&self, body: &Body, whole: Option<u64>, text: &mut Vec<u8>) -> End {
        match (body, body.length(whole)) {
            (Body::None, _) => End::Length,
            (_, Some(length)) => {
                write(text, b"Content-Length", itoa::Buffer::new().format(length).as_bytes());
                End::Length
            }
            (_, None) if self.request.version.is_http10() => End::Close,
            (_, None) => {
                write(text, b"Transfer-Encoding", b"chunked");
                End::Chunks
            }
        }
    }

    /// Completes a head by what is the listener's, the rule's and the client's, whose session is
    /// with this server.
    fn finish_head(&self, keep_alive: bool, server: Option<ServerId>, text: &mut Vec<u8>) {
        let own = self.own_lines();
        leave_out(text, &own);
        text.extend_from_slice(&own);
        let connection: &[u8] = match (keep_alive, self.request.version.is_http10()) {
            (false, _) => b"Connection: close\r\n",
            (true, true) => b"Connection: keep-alive\r\n",
            (true, false) => b"",
        };
        text.extend_from_slice(connection);
        text.extend_from_slice(b"\r\n");
        if let Some(changes) = &self.request.changes {
            let _ = changes.of_answer(Forwarded::Rewritten, b"", text);
        }
        let service = self.driver.route.service_context();
        if let (Some(sessions), Some(server)) = (&service.sessions, server) {
            let session = self.request.session;
            let _ = sessions.keep(server, session, (Forwarded::Rewritten, b""), text);
            session.count(server, &service.cells);
        }
    }

    async fn send_body(
        &mut self,
        mut text: Vec<u8>,
        source: &mut Source,
        body: &Body,
        end: End,
    ) -> Result<(), Broken> {
        let copied = self.copy_body(&mut text, source, body, end).await;
        match copied {
            // It has kept others waiting, and is not waited for again.
            Err(Broken::Source(Failed { ending: Ending::ClientTimeout, .. })) => {}
            // The client sees what has come of a body that breaks off.
            Ok(()) | Err(Broken::Source(_)) => {
                self.write_all(&text, b"").await.map_err(Broken::Client)?;
            }
            Err(Broken::Client(_)) => {}
        }
        copied
    }

    /// Sends a body behind `text`, where what is left over stays.
    async fn copy_body(
        &mut self,
        text: &mut Vec<u8>,
        source: &mut Source,
        body: &Body,
        end: End,
    ) -> Result<(), Broken> {
        match body {
            Body::None => {}
            Body::Whole => self.copy(text, source, (0, u64::MAX), end == End::Chunks).await?,
            Body::Parts(parts, after) => {
                for Part { before, from, length } in parts {
                    text.extend_from_slice(before);
                    self.copy(text, source, (*from, *length), false).await?;
                }
                text.extend_from_slice(after);
            }
        }
        if end == End::Chunks && *body == Body::Whole {
            text.extend_from_slice(b"0\r\n\r\n");
        }
        Ok(())
    }

    /// Sends these bytes of the body behind `text`, of which what is left over goes before what
    /// follows.
    async fn copy(
        &mut self,
        text: &mut Vec<u8>,
        source: &mut Source,
        (mut from, mut length): (u64, u64),
        in_chunks: bool,
    ) -> Result<(), Broken> {
        source.seek(from);
        let mut turn = 0;
        while length > 0 {
            let piece = match source {
                Source::Object(object) => Piece::Stored(object.after(from)),
                Source::Coded(form) => {
                    let from = usize::try_from(from).unwrap_or(usize::MAX);
                    Piece::Stored(form.get(from..).unwrap_or_default())
                }
                Source::Arrival(reader) => Piece::Arrived(self.arriving(reader, text).await?),
                Source::Compressed(body) => Piece::Stored(self.compressed(body, text).await?),
                Source::Disk(body) => self.read(body, from, text).await?,
                Source::Sliced(sliced) => {
                    let until = from.saturating_add(length);
                    Piece::Arrived(self.of_slices(sliced, (from, until), text).await?)
                }
            };
            let most = usize::try_from(length).unwrap_or(usize::MAX).min(piece.len());
            if most == 0 {
                return Ok(());
            }
            if in_chunks {
                // Behind a head, or behind the chunk before.
                write!(text, "{most:x}\r\n").expect("a vector takes all that is written");
            }
            if most <= COPIED && !in_chunks {
                text.extend_from_slice(&piece[..most]);
            } else {
                self.write_all(text, &piece[..most]).await.map_err(Broken::Client)?;
                text.clear();
            }
            if in_chunks {
                text.extend_from_slice(b"\r\n");
            }
            (from, length) = (from + most as u64, length - most as u64);
            turn += most;
            if turn >= TURN {
                turn = 0;
                yield_once().await;
            }
            drop(piece);
            self.record.count_slice(source, most as u64);
            source.advance(most as u64);
        }
        Ok(())
    }

    /// The next piece of a body that is coming in; empty at its end. While it is waited for, what
    /// goes before is sent.
    pub(super) async fn arriving(
        &mut self,
        reader: &Reader,
        text: &mut Vec<u8>,
    ) -> Result<Bytes, Broken> {
        if poll_fn(|cx| Poll::Ready(reader.poll_piece(cx).is_pending())).await {
            self.write_all(text, b"").await.map_err(Broken::Client)?;
            text.clear();
        }
        // How long a server may take is for its fetch to say.
        self.timer.arm(Duration::ZERO);
        let piece = poll_fn(|cx| match reader.poll_piece(cx) {
            Poll::Pending => {
                let reset = self.client.socket.poll_reset(cx);
                reset.map(|()| Err(Broken::Client(Reason::ClientGone)))
            }
            piece => piece.map_err(Broken::Source),
        });
        Ok(piece.await?.unwrap_or_default())
    }

    /// The next piece of a body on disk; empty at its end.
    async fn read(
        &mut self,
        body: &mut DiskBody,
        from: u64,
        text: &mut Vec<u8>,
    ) -> Result<Piece<'static>, Broken> {
        if !body.has(from) {
            self.write_all(text, b"").await.map_err(Broken::Client)?;
            text.clear();
        }
        self.timer.arm(Duration::ZERO);
        let piece = body.after(from).await.map_err(|_| Broken::Source(BROKEN))?;
        Ok(Piece::Arrived(piece))
    }

    /// Sends all of both, one behind the other. Each byte that the client takes gives it as much
    /// time again.
    pub(super) async fn write_all(&mut self, text: &[u8], piece: &[u8]) -> Result<(), Reason> {
        self.timer.arm(self.listener_context.timeouts.idle);
        let mut sent = 0;
        let worker = self.worker;
        if self.client.socket.is_plain()
            && let Some((file, offset)) = worker.shared.store.file_of(piece)
        {
            let place = (&**file, offset);
            return poll_fn(|cx| self.poll_send_all(cx, (text, piece), place, &mut sent)).await;
        }
        poll_fn(|cx| self.poll_write_all(cx, [text, piece], &mut sent)).await
    }

    /// The same of a piece that is in a file.
    fn poll_send_all(
        &mut self,
        cx: &mut Context<'_>,
        (text, piece): (&[u8], &[u8]),
        (file, offset): (&Arena, u64),
        sent: &mut usize,
    ) -> Poll<Result<(), Reason>> {
        while *sent < text.len() + piece.len() {
            let socket = &mut self.client.socket;
            let written = match sent.checked_sub(text.len()) {
                None => socket.poll_write_more(cx, &text[*sent..]),
                Some(of_piece) => {
                    let most = (piece.len() - of_piece).min(TURN);
                    socket.poll_send_file(cx, file, (offset + of_piece as u64, most))
                }
            };
            ready!(self.poll_written(written, sent))?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_all(
        &mut self,
        cx: &mut Context<'_>,
        [text, piece]: [&[u8]; 2],
        sent: &mut usize,
    ) -> Poll<Result<(), Reason>> {
        while *sent < text.len() + piece.len() {
            let socket = &mut self.client.socket;
            let written = match sent.checked_sub(text.len()) {
                None if piece.is_empty() => socket.poll_write(cx, &text[*sent..]),
                None => socket.poll_write_both(cx, [&text[*sent..], piece]),
                Some(of_piece) => socket.poll_write(cx, &piece[of_piece..]),
            };
            ready!(self.poll_written(written, sent))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Counts what the client has taken.
    fn poll_written(
        &mut self,
        written: Poll<io::Result<usize>>,
        sent: &mut usize,
    ) -> Poll<Result<(), Reason>> {
        if written.is_pending() && self.client.is_late(self.timer) {
            return Poll::Ready(Err(Reason::ClientTimeout));
        }
        let Ok(count @ 1..) = ready!(written) else {
            return Poll::Ready(Err(Reason::ClientGone));
        };
        *sent += count;
        let before = self.record.bytes;
        self.record.bytes += count as u64;
        if before < TRUSTED && self.record.bytes >= TRUSTED {
            self.client.socket.take_freely();
        }
        self.timer.arm(self.listener_context.timeouts.idle);
        Poll::Ready(Ok(()))
    }
}

impl Source {
    /// The same, where it is the first of several slices with those that follow. One that is coming
    /// in may be fetched for this client.
    fn in_slices(self, wanted: &Wanted, response: &Response, is_fetched: bool) -> Self {
        match (self, Sliced::of(wanted, response)) {
            (Self::Object(object), Some(sliced)) => {
                Self::Sliced(Box::new(sliced.beginning_with(Slice::Object(object), false)))
            }
            (Self::Arrival(reader), Some(sliced)) => {
                let slice = Slice::Arrival(reader);
                Self::Sliced(Box::new(sliced.beginning_with(slice, is_fetched)))
            }
            // It is read again by its index, as every other slice.
            (Self::Disk(_), Some(sliced)) => Self::Sliced(Box::new(sliced)),
            (source, _) => source,
        }
    }

    /// Counts that what is stored is sent; of slices, the first one.
    fn count_hit(&mut self) {
        match self {
            Self::Object(object) => object.count_hit(),
            Self::Sliced(sliced) => sliced.count_hit(),
            Self::Coded(_) | Self::Arrival(_) | Self::Compressed(_) | Self::Disk(_) => {}
        }
    }

    fn length(&self, response: &Response) -> Option<u64> {
        match self {
            Self::Object(object) => Some(object.length()),
            Self::Disk(body) => Some(body.length),
            Self::Coded(form) => Some(form.len() as u64),
            Self::Compressed(_) => None,
            Self::Arrival(_) | Self::Sliced(_) => response.length.complete(),
        }
    }

    /// Goes on from there.
    fn seek(&mut self, from: u64) {
        if let (Self::Arrival(reader), 1..) = (self, from) {
            reader.advance(from);
        }
    }

    fn advance(&mut self, count: u64) {
        if let Self::Arrival(reader) = self {
            reader.advance(count);
        }
    }
}

impl Deref for Piece<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Stored(bytes) => bytes,
            Self::Arrived(bytes) => bytes,
        }
    }
}

/// Takes the fields out of a head that `lines` give: a listener's replace a server's.
fn leave_out(text: &mut Vec<u8>, lines: &[u8]) {
    let end = |byte: &u8| *byte == b'\n';
    let names: SmallVec<[&[u8]; 2]> = lines.split_inclusive(end).map(field_name).collect();
    let is_given = |line: &[u8]| {
        let is_of = |name: &&[u8]| {
            line.get(name.len()) == Some(&b':') && line[..name.len()].eq_ignore_ascii_case(name)
        };
        names.iter().any(is_of)
    };
    let mut begins = memchr::memchr_iter(b'\n', text).map(|at| at + 1);
    if !names.is_empty() && begins.any(|begin| is_given(&text[begin..])) {
        let old = std::mem::take(text);
        let kept = old.split_inclusive(end).filter(|line| !is_given(line));
        kept.for_each(|line| text.extend_from_slice(line));
    }
}

/// What this cache calls itself in `Cache-Status`.
const NAME: &str = "loadline";

/// Whoever has taken so much reads at a pace at which the kernel's own limits hold less than
/// waking for every 128 KB costs (see `relay`).
const TRUSTED: u64 = 512 << 10;

/// What is sent before other connections get their turn.
const TURN: usize = 2 << 20;
