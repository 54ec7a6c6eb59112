//! HTTP/1.1 over one connection: a request, its response, and the next request.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use loadline_core::time::{Duration, Instant};
use loadline_http1::{BodyReader, HeadLimits, Method, ParseError, ResponseHead, Status};
use loadline_linux::clock;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use crate::{
    connect::Wire, outcome::Outcome, phases::PhaseTimes, request::Request, tally::WholeResponse,
    tls,
};

/// An open connection with the buffers to read answers.
pub(crate) struct Connection {
    wire: Wire,
    buffer: Vec<u8>,
    head: ResponseHead,
    /// What opening it took, which is a round trip at least.
    connect: Duration,
    /// The end of the last response; none before the first.
    idle_since: Option<Instant>,
}

/// Why an exchange did not give a whole response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server has not looked at the request, which can be sent again.
    Unprocessed,
    /// The exchange ended in this class.
    Ended(Outcome),
    /// It ended in this class for this reason.
    WithReason(Outcome, String),
}

impl Failure {
    /// The class of a request that is not sent again.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Unprocessed => Outcome::Reset,
            Self::Ended(outcome) | Self::WithReason(outcome, _) => outcome,
        }
    }

    /// What came is no HTTP/1.1, or has a head beyond the limits.
    fn bad(error: ParseError) -> Self {
        Self::WithReason(Outcome::BadAnswer, format!("bad response: {error}"))
    }
}

/// How a kept connection ended, on which a request was sent and no byte of a response came.
#[derive(Clone, Copy, Debug)]
struct SilentEnd {
    /// Whether the server closed it before any of the request had reached it.
    before_request: bool,
    /// From the last response to the request.
    idle: Duration,
    /// From the request to the end.
    took: Duration,
    /// What opening the connection took.
    connect: Duration,
}

impl SilentEnd {
    /// Whether the request may be sent again, since the server did not fail at it: none of it had
    /// come when the server closed the connection; or the connection was idle for long, so that its
    /// end most likely crossed the request, and the request may come twice (RFC 9110, section
    /// 9.2.2).
    fn may_send_again(self, method: Method) -> bool {
        let crossed = self.idle >= SHORTEST_KEEPALIVE && self.took <= self.connect + SERVER_DELAY;
        self.before_request || (crossed && method.is_idempotent())
    }
}

/// What `read_head` leaves behind.
struct HeadRead {
    /// The bytes of all heads, interim ones included.
    bytes: u64,
    /// How far the buffer is filled.
    filled: usize,
    /// When the first of them came.
    first_byte: Instant,
    /// Whether the last of them came later than that.
    in_parts: bool,
}

impl Connection {
    /// A connection over `wire`, on which nothing has been sent. To open it took `connect`.
    pub(crate) fn new(wire: Wire, connect: Duration) -> Self {
        let (buffer, head) = (vec![0; BUFFER_BYTES], ResponseHead::new(HEAD_LIMITS));
        Self { wire, buffer, head, connect, idle_since: None }
    }

    /// Whether nothing has come since the last response, neither an end nor bytes nobody asked for.
    pub(crate) async fn is_open(&mut self) -> bool {
        self.wire.is_quiet().await
    }

    /// Sends the request and reads the response; says also whether the connection can be used for
    /// another. A server may respond before it has all of the request, and take no more of it.
    ///
    /// # Errors
    /// [`Failure`] where there is no whole response; the connection is of no more use then.
    pub(crate) async fn exchange(
        &mut self,
        request: &Request,
    ) -> Result<(WholeResponse, bool), Failure> {
        let mut upload = Upload { rest: &request.bytes, ended: None };
        let read = self.read_head(request, &mut upload).await?;
        let head_end = self.head.head_len();
        let counted = request.count_by.as_ref().map(|name| {
            let value = self.head.fields().get(&self.buffer, name.as_str());
            String::from_utf8_lossy(value.unwrap_or(ABSENT)).into_owned()
        });
        let (body_bytes, clean, ended) = self.read_body(head_end, &read, &mut upload).await?;
        self.idle_since = Some(ended.unwrap_or(read.first_byte));
        let (sent, whole) = upload.ended.unwrap_or((read.first_byte, false));
        let phases = PhaseTimes {
            first_byte: Some(read.first_byte.since(sent)),
            body: Some(ended.map_or(Duration::ZERO, |ended| ended.since(read.first_byte))),
            ..PhaseTimes::default()
        };
        let (status, head_bytes) = (self.head.status(), read.bytes);
        let bytes = head_bytes + body_bytes;
        let answer = WholeResponse { status, bytes, head_bytes, counted, phases };
        Ok((answer, whole && clean && self.head.keep_alive()))
    }

    /// Reads what comes to behind what the buffer holds; what is left of the request goes out
    /// meanwhile.
    async fn read(&mut self, filled: usize, upload: &mut Upload<'_>) -> io::Result<usize> {
        let Self { wire, buffer, .. } = self;
        poll_fn(|cx| {
            upload.go_on(wire, cx);
            let mut space = ReadBuf::new(&mut buffer[filled..]);
            ready!(Pin::new(&mut *wire).poll_read(cx, &mut space))?;
            Poll::Ready(Ok(space.filled().len()))
        })
        .await
    }

    /// Reads until a final head is at the start of the buffer.
    async fn read_head(
        &mut self,
        request: &Request,
        upload: &mut Upload<'_>,
    ) -> Result<HeadRead, Failure> {
        let mut read = HeadRead { bytes: 0, filled: 0, first_byte: Instant::ZERO, in_parts: false };
        self.head.reset();
        loop {
            if read.filled == self.buffer.len() {
                self.buffer.resize((read.filled * 2).min(HEAD_LIMITS.bytes), 0);
            }
            let count = match self.read(read.filled, upload).await {
                Ok(0) => return Err(self.cut_off(&read, None, (request, &*upload))),
                Err(error) => return Err(self.cut_off(&read, Some(&error), (request, &*upload))),
                Ok(count) => count,
            };
            if read.first_byte == Instant::ZERO {
                read.first_byte = clock::now();
            } else {
                read.in_parts = true;
            }
            read.filled += count;
            while let Status::Complete(length) = self.parse_head(read.filled, request.method)? {
                read.bytes += length as u64;
                if !self.head.is_interim() {
                    return Ok(read);
                }
                self.buffer.copy_within(length..read.filled, 0);
                read.filled -= length;
            }
        }
    }

    /// Parses the head at the start of the buffer. The parser takes no folded line, which a user
    /// agent has to read as one with spaces (RFC 9112, section 5.2).
    fn parse_head(&mut self, filled: usize, method: Method) -> Result<Status, Failure> {
        let bytes = &mut self.buffer[..filled];
        let mut parsed = self.head.parse(bytes, method);
        // A value that is folded is an error of another kind where its field may not be empty.
        if parsed.is_err() && unfold(bytes) {
            parsed = self.head.parse(bytes, method);
        }
        parsed.map_err(Failure::bad)
    }

    /// The connection was closed before the head was whole, or ended in this error. It was silent
    /// only where TLS had no word to say either: a server of TLS 1.3 refuses a client's certificate
    /// when the client takes the handshake for done.
    fn cut_off(
        &self,
        read: &HeadRead,
        error: Option<&io::Error>,
        (request, upload): (&Request, &Upload<'_>),
    ) -> Failure {
        let failure = error.map_or(Failure::Ended(Outcome::Reset), tls::failure_of);
        let is_silent =
            read.first_byte == Instant::ZERO && failure == Failure::Ended(Outcome::Reset);
        let Some(idle_since) = self.idle_since.filter(|_| is_silent) else { return failure };
        let now = clock::now();
        let sent = upload.ended.map_or(now, |(sent, _)| sent);
        let end = SilentEnd {
            before_request: is_orderly(error) && self.is_unacknowledged(request, upload),
            idle: sent.since(idle_since),
            took: now.since(sent),
            connect: self.connect,
        };
        if end.may_send_again(request.method) { Failure::Unprocessed } else { failure }
    }

    /// Whether nothing of the request is acknowledged. The end of a connection, other than a reset,
    /// acknowledges what had come until then.
    fn is_unacknowledged(&self, request: &Request, upload: &Upload<'_>) -> bool {
        // After a reset a failed write has told of it, and reading finds an end like any other.
        let was_reset = upload.ended.is_some_and(|(_, whole)| !whole);
        let written = request.bytes.len() - upload.rest.len();
        !was_reset && self.wire.unacknowledged() >= written
    }

    /// Reads the body, of which the buffer holds what there is from `start`. Returns its length as
    /// sent, whether nothing came after it, and when it ended if it did not come with the first
    /// byte of all.
    async fn read_body(
        &mut self,
        start: usize,
        head: &HeadRead,
        upload: &mut Upload<'_>,
    ) -> Result<(u64, bool, Option<Instant>), Failure> {
        let mut body = BodyReader::new(self.head.framing());
        let (mut start, mut end) = (start, head.filled);
        let (mut bytes, mut apart) = (0, head.in_parts);
        loop {
            let progress = body.feed(&self.buffer[start..end]).map_err(Failure::bad)?;
            bytes += progress.consumed as u64;
            if progress.finished {
                let clean = progress.consumed == end - start;
                return Ok((bytes, clean, apart.then(clock::now)));
            }
            apart = true;
            let read = self.read(0, upload).await;
            (start, end) = (0, read.map_err(|error| tls::failure_of(&error))?);
            if end == 0 {
                let whole = body.end_of_stream();
                let ended = (bytes, false, Some(clock::now()));
                return whole.map(|()| ended).map_err(|_| Failure::Ended(Outcome::Reset));
            }
        }
    }
}

/// A request on its way.
struct Upload<'a> {
    /// What is not sent yet.
    rest: &'a [u8],
    /// When all was sent, or no more could be, and whether it was all.
    ended: Option<(Instant, bool)>,
}

impl Upload<'_> {
    /// Sends as much as the connection takes.
    fn go_on(&mut self, wire: &mut Wire, cx: &mut Context<'_>) {
        if self.ended.is_none()
            && let Poll::Ready(sent) = self.poll(wire, cx)
        {
            self.ended = Some((clock::now(), sent.is_ok()));
        }
    }

    fn poll(&mut self, wire: &mut Wire, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.rest.is_empty() {
            let count = ready!(Pin::new(&mut *wire).poll_write(cx, self.rest))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.rest = &self.rest[count..];
        }
        Pin::new(wire).poll_flush(cx)
    }
}

/// Stands for the value of a field that a response does not have.
pub(crate) const ABSENT: &[u8] = b"(absent)";

/// Whether a connection was closed rather than reset; with TLS perhaps without its own farewell.
fn is_orderly(error: Option<&io::Error>) -> bool {
    error.is_none_or(|error| error.kind() == io::ErrorKind::UnexpectedEof)
}

/// Puts spaces in the place of line breaks that fold a field line, in as much of a head as has
/// come. False where there are none.
#[cold]
fn unfold(head: &mut [u8]) -> bool {
    // What follows the status line continues no field.
    let first = head.windows(2).position(|pair| pair == b"\r\n").map_or(head.len(), |at| at + 2);
    let fields = &mut head[first..];
    let end = fields.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(fields.len());
    let mut has_folds = false;
    for at in 0..end.saturating_sub(2) {
        if matches!(&fields[at..at + 3], [b'\r', b'\n', b' ' | b'\t']) {
            fields[at..at + 2].fill(b' ');
            has_folds = true;
        }
    }
    has_folds
}

/// Holds a usual head and some of a body; it grows for a longer head.
const BUFFER_BYTES: usize = 16 * 1024;

/// The longest head that is accepted.
const HEAD_LIMITS: HeadLimits = HeadLimits { bytes: 256 * 1024, fields: 1_000 };

/// A connection that was idle for less was not closed for that: of the servers in use none has a
/// default below the two seconds of gunicorn.
const SHORTEST_KEEPALIVE: Duration = Duration::from_secs(1);

/// What a server may take beside the round trip to close a connection that it has given up.
const SERVER_DELAY: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{LoadPlan, Until};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
        time::{sleep, timeout},
    };

    /// What becomes of a response whose parts are sent 50 ms apart.
    async fn answer_of(parts: &[&str]) -> Result<WholeResponse, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let plan = LoadPlan::closed(&address.to_string(), 1, Until::Requests(1)).unwrap();
        let request = Request::of(&plan, &plan.targets[0].0).unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let mut connection = Connection::new(Wire::Plain(stream), Duration::ZERO);
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let _ = stream.read(&mut [0; 1024]).await.unwrap();
            for (number, part) in parts.iter().enumerate() {
                if number > 0 {
                    sleep(APART).await;
                    // The client has its turn first where both waited.
                    tokio::task::yield_now().await;
                }
                stream.write_all(part.as_bytes()).await.unwrap();
            }
            stream
        };
        let both = async { tokio::join!(connection.exchange(&request), serve) };
        let (answered, _) = timeout(std::time::Duration::from_secs(10), both).await.unwrap();
        answered.map(|(answer, _)| answer)
    }

    async fn phases_of(parts: &[&str]) -> PhaseTimes {
        answer_of(parts).await.unwrap().phases
    }

    #[tokio::test]
    async fn a_response_with_folded_field_lines_is_a_good_one() {
        for parts in [
            &["HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\tc\r\nContent-Length:\r\n 4\r\n\r\n\r\n o"][..],
            &["HTTP/1.1 200 OK\r\nX: a\r\n", " b\r\nContent-Length: 4\r\n\r\nfour"],
        ] {
            let answer = answer_of(parts).await.unwrap();
            assert_eq!((answer.status, answer.bytes - answer.head_bytes), (200, 4), "{parts:?}");
        }
        for bad in [
            "HTTP/1.1 200 OK\r\n X: a\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n 0\r\n\r\n",
        ] {
            let failure = answer_of(&[bad]).await.unwrap_err();
            assert_eq!(failure.outcome(), Outcome::BadAnswer, "{bad}");
        }
    }

    /// As curl's time_starttransfer: the first byte of all, of an interim response too.
    #[tokio::test]
    async fn the_time_after_the_first_byte_is_the_bodys_also_where_the_rest_of_the_head_is_late() {
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let phases = phases_of(&[whole]).await;
        assert_eq!(phases.body, Some(Duration::ZERO));
        for parts in [
            &["HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\n\r\nok"][..],
            &["HTTP/1.1 103 Early Hints\r\n\r\n", whole],
            &["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "ok"],
        ] {
            let phases = phases_of(parts).await;
            let apart = Some(Duration::from_std(APART));
            assert!(phases.body >= apart, "{parts:?}: {phases:?}");
        }
    }

    const APART: std::time::Duration = std::time::Duration::from_millis(50);

    #[test]
    fn a_request_is_sent_again_only_where_the_server_did_not_fail_at_it() {
        let ms = Duration::from_millis;
        let (idle, took, connect) = (ms(5_000), ms(1), ms(0));
        let timed_out = SilentEnd { before_request: false, idle, took, connect };
        assert!(timed_out.may_send_again(Method::Get));
        assert!(!timed_out.may_send_again(Method::Post), "it may have been processed");
        let distant = SilentEnd { took: ms(300), connect: ms(300), ..timed_out };
        assert!(distant.may_send_again(Method::Get));
        for failed in
            [SilentEnd { idle: ms(10), ..timed_out }, SilentEnd { took: ms(300), ..timed_out }]
        {
            assert!(!failed.may_send_again(Method::Get), "{failed:?}");
            let unseen = SilentEnd { before_request: true, ..failed };
            assert!(unseen.may_send_again(Method::Post), "{unseen:?}");
        }
    }

    /// What becomes of a POST on a kept connection that the server closes with the answer before
    /// it, or with the request read.
    async fn second_post(reads_it: bool) -> Failure {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut plan = LoadPlan::closed(&address.to_string(), 1, Until::Requests(1)).unwrap();
        plan.method = "POST".to_owned();
        let request = Request::of(&plan, &plan.targets[0].0).unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let mut connection = Connection::new(Wire::Plain(stream), Duration::ZERO);
        let (mut server, _) = listener.accept().await.unwrap();
        let first = async {
            let _ = server.read(&mut [0; 1024]).await.unwrap();
            server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        };
        let (answered, ()) = tokio::join!(connection.exchange(&request), first);
        assert!(answered.unwrap().1, "the connection can be used again");
        if !reads_it {
            drop(server);
            return connection.exchange(&request).await.unwrap_err();
        }
        let second = async {
            let _ = server.read(&mut [0; 1024]).await.unwrap();
            drop(server);
        };
        let (failed, ()) = tokio::join!(connection.exchange(&request), second);
        failed.unwrap_err()
    }

    #[tokio::test]
    async fn the_kernel_tells_whether_a_request_came_before_its_connection_was_closed() {
        assert_eq!(second_post(false).await, Failure::Unprocessed);
        assert_eq!(second_post(true).await, Failure::Ended(Outcome::Reset));
    }
}
