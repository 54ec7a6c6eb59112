//! One stream as a socket: what is read from it is a request in HTTP/1, what is written to it has
//! to be the response in HTTP/1.
//!
//! States of the response: *awaited* (interim heads may come, then the head), *begun* (its body is
//! on the way), *over*.

use std::{
    cell::{RefCell, RefMut},
    future::poll_fn,
    io,
    net::SocketAddr,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration as StdDuration,
};

use bytes::Bytes;
use loadline_core::{decide::reason::Reason, time::Instant};
use loadline_http1::{self as http1, BodyReader, Framing, Known, ResponseHead, Status};

use super::{
    head::{ANY, ends_here},
    hpack::Encoder,
    incoming::{Incoming, Receive},
    protocol::{ErrorCode, Opened, Protocol, WaitsFor},
    request_head::Head,
    response_body::ResponseBody,
    streams::Place,
};
use crate::{io::peer::Peer, runtime::timer::Timer};

/// A stream that a client opened.
#[derive(Debug)]
pub(crate) struct Stream {
    request: Incoming<Receiver>,
    /// What decides whether the response has a body.
    method: http1::Method,
    answer: ResponseState,
    /// The client has sent a key for a WebSocket.
    has_key: bool,
    place: Place,
    handle: Handle,
}

/// What a connection and the sockets of its streams share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) protocol: RefCell<Protocol>,
    pub(super) client: RefCell<Peer>,
}

impl Shared {
    /// Sends what waits for the socket. Over TLS records are sealed first, and go together.
    pub(super) fn poll_send(&self, cx: &mut Context<'_>, now: Instant) -> Poll<io::Result<()>> {
        let (mut protocol, socket) =
            (self.protocol.borrow_mut(), &mut self.client.borrow_mut().socket);
        while !protocol.unsent().is_empty() {
            match ready!(socket.poll_write_corked(cx, [protocol.unsent(), b""]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => protocol.advance(count, now),
            }
        }
        socket.poll_flush(cx)
    }
}

/// A stream of the connection, which forgets it when this is dropped.
#[derive(Debug)]
pub(super) struct Handle {
    shared: Rc<Shared>,
    slot: usize,
}

/// The receiving half of a stream.
#[derive(Debug)]
pub(super) struct Receiver {
    shared: Rc<Shared>,
    slot: usize,
}

/// A request whose head has come.
#[derive(Debug)]
pub(super) struct Request {
    head: Head,
    handle: Handle,
    is_bodiless: bool,
}

#[derive(Debug)]
enum ResponseState {
    Awaited,
    Begun(ResponseBody),
    Over,
}

impl Handle {
    pub(super) fn protocol(&self) -> RefMut<'_, Protocol> {
        self.shared.protocol.borrow_mut()
    }

    pub(super) const fn slot(&self) -> usize {
        self.slot
    }

    /// How much payload can be written at once.
    pub(super) fn room(&self, now: Instant) -> usize {
        self.make_room(now);
        self.protocol().room(self.slot)
    }

    /// Ready when up to `most` bytes of payload may be written: how many.
    pub(super) fn poll_room(
        &self,
        most: usize,
        cx: &Context<'_>,
        now: Instant,
    ) -> Poll<Result<usize, Reason>> {
        self.make_room(now);
        self.protocol().poll_room(self.slot, most, cx)
    }

    /// Sends what waits for the socket where that makes room: what has just been read goes on while
    /// it is in the processor's cache.
    fn make_room(&self, now: Instant) {
        let is_full = self.protocol().is_full();
        let driver = if is_full { self.protocol().driver().cloned() } else { None };
        if let Some(driver) = driver {
            // What is wrong with the socket the driver sees.
            let _ = self.shared.poll_send(&mut Context::from_waker(&driver), now);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.protocol().forget(self.slot);
    }
}

impl Receive for Receiver {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Reason>>> {
        self.shared.protocol.borrow_mut().poll_data(self.slot, cx)
    }

    fn poll_trailers(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, Reason>> {
        let trailers = self.shared.protocol.borrow_mut().take_trailers_of(self.slot);
        Poll::Ready(Ok(Some(trailers)))
    }
}

impl Request {
    pub(super) fn new(Opened { slot, head }: Opened, shared: &Rc<Shared>) -> Self {
        let handle = Handle { shared: shared.clone(), slot };
        Self { head, handle, is_bodiless: false }
    }

    /// Whether the next frame has to tell if there is a body: the end of a GET may come in a frame
    /// of its own. What has a body by its method may wait for the head of the response.
    pub(super) const fn is_undecided(&self) -> bool {
        self.head.may_lack_body
    }

    /// Waits until that is known, or the timer expires.
    pub(super) async fn decide(&mut self, timer: &Timer) {
        let handle = &self.handle;
        let come = poll_fn(|cx| match handle.protocol().poll_bodiless(handle.slot, cx) {
            Poll::Pending if timer.has_expired() => Poll::Ready(Ok(false)),
            come => come,
        });
        // What is wrong is seen again.
        self.is_bodiless = come.await.unwrap_or(false);
    }
}

impl Stream {
    /// A stream whose head has come.
    pub(super) fn new(request: Request, place: Place) -> Box<Self> {
        let Request { head, handle, is_bodiless } = request;
        let head = if is_bodiless { head.without_body() } else { head };
        let Head { text, coding, method, has_key, .. } = head;
        let receiver = Receiver { shared: handle.shared.clone(), slot: handle.slot };
        Box::new(Self {
            request: Incoming::new(text, coding, receiver),
            method,
            answer: ResponseState::Awaited,
            has_key,
            place,
            handle,
        })
    }

    /// Reads of the request; 0 at its end.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.request.poll_read(cx, into)
    }

    /// Writes of the response. A head has to be written in one piece.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.answer {
            ResponseState::Awaited => Poll::Ready(self.begin(bytes)),
            ResponseState::Begun(body) => {
                body.poll_write(&self.handle, cx, (bytes, self.place.now()))
            }
            ResponseState::Over => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// How much of the response can be written at once; nothing while others wait for that.
    pub(crate) fn room(&self) -> usize {
        match &self.answer {
            ResponseState::Awaited => self.handle.room(self.place.now()),
            ResponseState::Begun(body) => body.room(&self.handle, self.place.now()),
            ResponseState::Over => usize::MAX,
        }
    }

    /// Ready when it is this stream's turn to write some of the body: how much.
    pub(crate) fn poll_room(&self, cx: &Context<'_>) -> Poll<usize> {
        match &self.answer {
            ResponseState::Begun(body) => body.poll_room(&self.handle, cx, self.place.now()),
            ResponseState::Awaited | ResponseState::Over => Poll::Ready(usize::MAX),
        }
    }

    /// Keeps room that a write leaves for what is read next, until it is returned.
    pub(crate) const fn keep_room(&mut self) {
        if let ResponseState::Begun(body) = &mut self.answer {
            body.keep_room();
        }
    }

    /// Leaves room that was kept to other streams.
    pub(crate) fn return_room(&mut self) {
        if let ResponseState::Begun(body) = &mut self.answer {
            body.return_room(&self.handle);
        }
    }

    /// How much has gone of what a write was given that is pending, or was given up.
    pub(crate) const fn begun(&self) -> usize {
        match &self.answer {
            ResponseState::Begun(body) => body.begun(),
            ResponseState::Awaited | ResponseState::Over => 0,
        }
    }

    /// How long ago a client for which something waits made room for some of it, for this stream or
    /// for those whose turn comes first; none where it has not yet.
    pub(crate) fn since_taken(&self) -> Option<StdDuration> {
        let waits_for = self.handle.protocol().waits_for(self.handle.slot);
        let since = match waits_for {
            WaitsFor::Stream(granted_at) => granted_at?,
            WaitsFor::Connection(widened_at) => widened_at,
            WaitsFor::Socket => {
                let since = self.handle.shared.client.borrow().socket.since_taken();
                return Some(since.unwrap_or_default());
            }
        };
        Some(self.place.now().since(since).to_std())
    }

    /// Whether the client may not go on, since other requests of its connection hold what may come.
    pub(crate) fn is_held_back(&self) -> bool {
        self.handle.protocol().is_held_back()
    }

    /// Ready when the client has reset the stream, or is gone.
    pub(crate) fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.answer {
            ResponseState::Awaited | ResponseState::Begun(_) => {
                self.handle.protocol().poll_fault(self.handle.slot, cx)
            }
            ResponseState::Over => Poll::Pending,
        }
    }

    /// Whether the client had taken its request back before it could be answered.
    pub(crate) fn is_taken_back(&self) -> bool {
        self.handle.protocol().fault(self.handle.slot).is_some()
    }

    /// Why the stream is over, once it has been reset.
    pub(crate) fn why_reset(&self) -> Reason {
        let fault = self.handle.protocol().fault(self.handle.slot);
        fault.map_or(Reason::ClientGone, Reason::of_client)
    }

    /// The address that the client opened the connection to, if that is known.
    pub(crate) fn destination(&self) -> Option<SocketAddr> {
        self.place.destination()
    }

    /// Leaves the length out of the head of the response, which ends with it.
    pub(crate) const fn hide_length(&mut self) {
        self.place.hides_length = true;
    }

    /// Ends the response. Without one, or with half of one, the stream is reset.
    pub(crate) fn shut(&mut self) {
        if let ResponseState::Begun(body) = &mut self.answer {
            body.shut(&self.handle);
        }
    }

    /// Ends the stream so that nobody takes what there was of the response for the whole. Dropping
    /// it would say that the client itself has taken its request back (CANCEL).
    pub(crate) fn reset(&mut self) {
        if !matches!(self.answer, ResponseState::Over) {
            self.handle.protocol().reset(self.handle.slot, ErrorCode::INTERNAL_ERROR);
        }
    }

    /// Sends the head at the beginning of `bytes`: its length.
    fn begin(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut head = ResponseHead::new(ANY);
        let Ok(Status::Complete(length)) = head.parse(bytes, self.method) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let is_switch = head.tunnels();
        let is_interim = head.is_interim();
        // To an extended CONNECT, 200 says what 101 does in HTTP/1 (RFC 8441, 5).
        let status = if is_switch { 200 } else { head.status() };
        let body = match is_switch {
            true => BodyReader::new(Framing::UntilClose),
            false => head.body(),
        };
        let is_whole = !is_interim && body.is_finished();
        // It answers a key that the client knows nothing of.
        let hides_key = is_switch && !self.has_key;
        let hides_length = self.place.hides_length;
        let write = |encoder: &mut Encoder, out: &mut Vec<u8>| {
            encoder.status(out, status);
            write_fields(encoder, out, (&head, bytes), (hides_key, hides_length));
        };
        self.handle
            .protocol()
            .write_head(self.handle.slot, is_whole, write)
            .map_err(io::Error::other)?;
        if is_interim {
            return Ok(length);
        }
        self.place.was_answered = true;
        self.handle.protocol().note_answered(self.handle.slot);
        self.answer = match is_whole {
            true => ResponseState::Over,
            false => ResponseState::Begun(ResponseBody::new(body)),
        };
        Ok(length)
    }
}

/// Appends the fields of a response, but those that belong to a connection.
fn write_fields(
    encoder: &mut Encoder,
    out: &mut Vec<u8>,
    (head, bytes): (&ResponseHead, &[u8]),
    (hides_key, hides_length): (bool, bool),
) {
    for field in head.fields().as_slice() {
        let (name, value) = (field.name.of(bytes), field.value.of(bytes));
        let is_hidden = hides_length && field.known == Known::ContentLength
            || hides_key && name.eq_ignore_ascii_case(b"sec-websocket-accept");
        if !ends_here(field.known) && field.known != Known::Underscored && !is_hidden {
            encoder.field(out, name, value);
        }
    }
}
