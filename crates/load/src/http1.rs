//! HTTP/1.1 over one connection: a request, its response, and the next request.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use loadline_core::time::{Duration, Instant};
use loadline_http1::{BodyReader, ResponseHead, Status};
use loadline_linux::clock;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use crate::{
    connect::Wire, outcome::Outcome, phases::PhaseTimes, request::Request, tally::WholeResponse,
    tls,
};

/// An open connection with the buffers to read answers.
pub(crate) struct Connection {
    wire: Wire,
    buffer: Box<[u8]>,
    head: ResponseHead,
}

/// Why an exchange did not give a whole response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The connection ended before a byte of a response.
    Silent,
    /// The exchange ended in this class.
    Ended(Outcome),
    /// TLS ended it in this class, for this reason.
    Tls(Outcome, String),
}

impl Failure {
    /// The class of a failed request on a new connection: a connection closed without a response
    /// counts as reset.
    pub(crate) fn on_new(self) -> Outcome {
        match self {
            Self::Silent => Outcome::Reset,
            Self::Ended(outcome) | Self::Tls(outcome, _) => outcome,
        }
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

impl HeadRead {
    /// The connection ended here, like this. Without a word only where TLS had none to say
    /// either: a server of TLS 1.3 refuses a client's certificate when the client takes the
    /// handshake for done.
    fn cut_off(&self, failure: Failure) -> Failure {
        let is_reset = failure == Failure::Ended(Outcome::Reset);
        if is_reset && self.first_byte == Instant::ZERO { Failure::Silent } else { failure }
    }
}

impl Connection {
    /// A connection over `wire`, on which nothing has been sent.
    pub(crate) fn new(wire: Wire) -> Self {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Self { wire, buffer, head: ResponseHead::default() }
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
        let (sent, whole) = upload.ended.unwrap_or((read.first_byte, false));
        let phases = PhaseTimes {
            first_byte: Some(read.first_byte.since(sent)),
            body: Some(ended.map_or(Duration::ZERO, |ended| ended.since(read.first_byte))),
            ..PhaseTimes::default()
        };
        let bytes = read.bytes + body_bytes;
        let answer = WholeResponse { status: self.head.status(), bytes, counted, phases };
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
            let count = match self.read(read.filled, upload).await {
                Ok(0) => return Err(read.cut_off(Failure::Ended(Outcome::Reset))),
                Err(error) => return Err(read.cut_off(tls::failure_of(&error))),
                Ok(count) => count,
            };
            if read.first_byte == Instant::ZERO {
                read.first_byte = clock::now();
            } else {
                read.in_parts = true;
            }
            read.filled += count;
            while let Status::Complete(length) = self
                .head
                .parse(&self.buffer[..read.filled], request.method)
                .map_err(|_| Failure::Ended(Outcome::BadAnswer))?
            {
                read.bytes += length as u64;
                if !self.head.is_interim() {
                    return Ok(read);
                }
                self.buffer.copy_within(length..read.filled, 0);
                read.filled -= length;
            }
        }
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
        const BAD: Failure = Failure::Ended(Outcome::BadAnswer);
        let mut body = BodyReader::new(self.head.framing());
        let (mut start, mut end) = (start, head.filled);
        let (mut bytes, mut apart) = (0, head.in_parts);
        loop {
            let progress = body.feed(&self.buffer[start..end]).map_err(|_| BAD)?;
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

/// Holds the longest head that is accepted, and some of a body beside a usual one.
const BUFFER_BYTES: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{LoadPlan, Until};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
        time::{sleep, timeout},
    };

    /// The phases of a response whose parts are sent 50 ms apart.
    async fn phases_of(parts: &[&str]) -> PhaseTimes {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let plan = LoadPlan::closed(&address.to_string(), 1, Until::Requests(1)).unwrap();
        let request = Request::of(&plan, &plan.targets[0].0).unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let mut connection = Connection::new(Wire::Plain(stream));
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
        answered.unwrap().0.phases
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
}
