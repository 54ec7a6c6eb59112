//! One HTTP/1.1 exchange after another, on new and on kept connections.
//!
//! A kept connection may be closed by its server just when a request is written to it. Where that
//! happens before a byte of an answer came, the request is sent once more on a new connection, as
//! browsers do, and counted once, by what became of it there; the connection counts as stale.

use std::{cell::RefCell, io, net::SocketAddr, rc::Rc};

use loadline_http1::{BodyReader, ResponseHead, Status};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout_at},
};

use crate::{
    outcome::{Outcome, Shortage},
    plan::LoadPlan,
    request::Request,
    tally::{Answer, Tally},
};

/// Sends the request of a plan, as often as asked.
pub(crate) struct Client {
    address: SocketAddr,
    request: Request,
    timeout: std::time::Duration,
    keepalive: bool,
    count_by: Option<String>,
    tally: Rc<Tally>,
}

/// An open connection with the buffers to read answers.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Box<[u8]>,
    head: ResponseHead,
}

/// Connections at rest; the one used last is taken first, so that the fewest are kept warm.
#[derive(Default)]
pub(crate) struct Pool(RefCell<Vec<Connection>>);

/// Why an exchange did not give a whole answer.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// The connection ended before a byte of an answer.
    Silent,
    /// It ended in this class.
    Ended(Outcome),
}

impl Client {
    /// A client for `plan` that connects to `address`.
    pub(crate) fn new(
        plan: &LoadPlan,
        request: Request,
        address: SocketAddr,
        tally: Rc<Tally>,
    ) -> Self {
        Self {
            address,
            request,
            timeout: plan.timeout.to_std(),
            keepalive: plan.keepalive,
            count_by: plan.count_by.clone(),
            tally,
        }
    }

    /// Sends the request, on `kept` if there is one, and reads the answer. What is left in `kept`
    /// can be used again; it should have been open a moment ago.
    pub(crate) async fn fetch(&self, pool: &Pool) -> Result<Answer, Outcome> {
        let mut kept = pool.take();
        let result = self.fetch_on(&mut kept).await;
        if let Some(connection) = kept {
            pool.put(connection);
        }
        result
    }

    /// Connections for one user of a closed loop, or for all requests of an open one.
    pub(crate) fn pool(&self) -> Rc<Pool> {
        Rc::default()
    }

    async fn fetch_on(&self, kept: &mut Option<Connection>) -> Result<Answer, Outcome> {
        let deadline = Instant::now() + self.timeout;
        if let Some(mut connection) = kept.take() {
            match self.ask(&mut connection, deadline).await {
                Ok((answer, again)) => {
                    *kept = Some(connection).filter(|_| again);
                    return Ok(answer);
                }
                Err(Failure::Ended(outcome)) => return Err(outcome),
                Err(Failure::Silent) => self.tally.count_stale(),
            }
        }
        let mut connection = self.connect(deadline).await?;
        match self.ask(&mut connection, deadline).await {
            Ok((answer, again)) => {
                *kept = Some(connection).filter(|_| again);
                Ok(answer)
            }
            Err(Failure::Ended(outcome)) => Err(outcome),
            Err(Failure::Silent) => Err(Outcome::Reset),
        }
    }

    async fn connect(&self, deadline: Instant) -> Result<Connection, Outcome> {
        match timeout_at(deadline, TcpStream::connect(self.address)).await {
            Ok(Ok(stream)) => {
                self.tally.count_connection("HTTP/1.1");
                Ok(Connection::new(stream))
            }
            Ok(Err(error)) => {
                if let Some(shortage) = Shortage::of(&error) {
                    self.tally.count_shortage(shortage);
                }
                Err(Outcome::of_connect_error(&error))
            }
            Err(_) => Err(Outcome::ConnectTimeout),
        }
    }

    /// One exchange, and whether the connection can be used for another.
    async fn ask(
        &self,
        connection: &mut Connection,
        deadline: Instant,
    ) -> Result<(Answer, bool), Failure> {
        match timeout_at(deadline, connection.exchange(&self.request, self.count_by.as_deref()))
            .await
        {
            Ok(Ok((answer, again))) => Ok((answer, again && self.keepalive)),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(Failure::Ended(Outcome::Timeout)),
        }
    }
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        // Without this a long body's last segment waits for the acknowledgement of the one
        // before. Where it cannot be set the connection is broken, and the exchange will say so.
        let _ = stream.set_nodelay(true);
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Self { stream, buffer, head: ResponseHead::default() }
    }

    /// Whether nothing has come since the last answer, neither an end nor bytes nobody asked for.
    pub(crate) fn is_open(&self) -> bool {
        let read = self.stream.try_read(&mut [0]);
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    async fn exchange(
        &mut self,
        request: &Request,
        count_by: Option<&str>,
    ) -> Result<(Answer, bool), Failure> {
        if self.stream.write_all(&request.bytes).await.is_err() {
            return Err(Failure::Silent);
        }
        let (head_bytes, filled) = self.read_head(request).await?;
        let head_end = self.head.head_len();
        let counted = count_by.map(|name| {
            let value = self.head.fields().get(&self.buffer, name).unwrap_or(b"(absent)");
            String::from_utf8_lossy(value).into_owned()
        });
        let (body_bytes, clean) = self.read_body(head_end, filled).await?;
        let bytes = head_bytes + body_bytes;
        let answer = Answer { status: self.head.status(), bytes, counted, ..Answer::default() };
        Ok((answer, clean && self.head.keep_alive()))
    }

    /// Reads until a final head is at the start of the buffer. Returns the bytes of all heads
    /// read, interim ones included, and how far the buffer is filled.
    async fn read_head(&mut self, request: &Request) -> Result<(u64, usize), Failure> {
        let mut filled = 0;
        let mut bytes = 0;
        self.head.reset();
        loop {
            let count = match self.stream.read(&mut self.buffer[filled..]).await {
                Ok(0) | Err(_) if filled == 0 && bytes == 0 => return Err(Failure::Silent),
                Ok(0) | Err(_) => return Err(Failure::Ended(Outcome::Reset)),
                Ok(count) => count,
            };
            filled += count;
            while let Status::Complete(length) = self
                .head
                .parse(&self.buffer[..filled], request.method)
                .map_err(|_| Failure::Ended(Outcome::BadAnswer))?
            {
                bytes += length as u64;
                if !self.head.is_interim() {
                    return Ok((bytes, filled));
                }
                self.buffer.copy_within(length..filled, 0);
                filled -= length;
            }
        }
    }

    /// Reads the body, of which `buffer[start..end]` is already there. Returns its length as sent
    /// and whether nothing came after it.
    async fn read_body(&mut self, start: usize, end: usize) -> Result<(u64, bool), Failure> {
        const BAD: Failure = Failure::Ended(Outcome::BadAnswer);
        let mut body = BodyReader::new(self.head.framing());
        let mut bytes = 0;
        let (mut start, mut end) = (start, end);
        loop {
            let progress = body.feed(&self.buffer[start..end]).map_err(|_| BAD)?;
            bytes += progress.consumed as u64;
            if progress.finished {
                return Ok((bytes, progress.consumed == end - start));
            }
            let read = self.stream.read(&mut self.buffer).await;
            (start, end) = (0, read.map_err(|_| Failure::Ended(Outcome::Reset))?);
            if end == 0 {
                let whole = body.end_of_stream();
                return whole.map(|()| (bytes, false)).map_err(|_| Failure::Ended(Outcome::Reset));
            }
        }
    }
}

impl Pool {
    /// The connection put back last that is still open.
    pub(crate) fn take(&self) -> Option<Connection> {
        let mut kept = self.0.borrow_mut();
        while let Some(connection) = kept.pop() {
            if connection.is_open() {
                return Some(connection);
            }
        }
        None
    }

    /// Puts a connection to rest.
    pub(crate) fn put(&self, connection: Connection) {
        self.0.borrow_mut().push(connection);
    }
}

/// Holds the longest head that is accepted, and some of a body beside a usual one.
const BUFFER_BYTES: usize = 16 * 1024;
