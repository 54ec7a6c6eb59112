//! A connection of quinn in the shape h3 wants.
//!
//! Five things are ours. A stream that is dropped before its end was sent is reset: quinn would
//! end it, and half a response would look whole. Of each stream that comes in it is told when its
//! client has taken all of it or wants no more. The client's streams of QPACK, which h3 0.0.8 does
//! not read, are looked at. Of a body h3 has no more than one piece: it reads one whenever it is
//! asked, also where it has much to give out. And what GOAWAY says is true: streams from the id in
//! it on are refused, those below are answered (h3 0.0.8 names the last one that it answers).

use std::{
    future::Future,
    io,
    mem::{self, MaybeUninit},
    pin::{Pin, pin},
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use h3::{
    error::Code,
    quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf},
};
use quinn::{ConnectionError, ReadError, VarInt, WriteError};
use tokio::io::ReadBuf;

use super::{
    arrivals::{Arrival, Arrivals, Stopped, StreamControl},
    extended::Opening,
    frames::{Breach, Frames},
    priority::Priority,
    send_room::{RoomShare, SendRoom},
};

type Waiting<T> = Option<Pin<Box<dyn Future<Output = Result<T, ConnectionError>>>>>;

/// A connection.
pub(super) struct Connection {
    quinn: quinn::Connection,
    bidi: Waiting<(quinn::SendStream, quinn::RecvStream)>,
    uni: Waiting<quinn::RecvStream>,
    opener: OpenStreams,
    arrivals: Rc<Arrivals>,
    room: Rc<SendRoom>,
}

impl Connection {
    pub(super) fn new(quinn: quinn::Connection, arrivals: Rc<Arrivals>) -> Self {
        let opener = OpenStreams { quinn: quinn.clone(), bidi: None, uni: None };
        let room = SendRoom::new(quinn.clone());
        Self { quinn, bidi: None, uni: None, opener, arrivals, room }
    }

    /// How long a frame may be unless it is DATA. A head that is somewhat too long is answered with
    /// 431.
    fn frame_max(&self) -> u64 {
        2 * self.arrivals.longest_head() as u64
    }
}

impl quic::Connection<Bytes> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = OpenStreams;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RecvStream, ConnectionErrorIncoming>> {
        let come =
            poll(&mut self.uni, cx, &self.quinn, |quinn| async move { quinn.accept_uni().await });
        let frames = Frames::of_uni(self.frame_max());
        let of_uni = |quinn| {
            let mut stream = RecvStream::new(quinn, frames);
            let (quinn, arrivals) = (self.quinn.clone(), self.arrivals.clone());
            stream.0.whole = Some(Whole { quinn, arrivals, is_known: false });
            stream
        };
        come.map(|come| come.map(of_uni).map_err(of_connection))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream, ConnectionErrorIncoming>> {
        loop {
            let come =
                poll(
                    &mut self.bidi,
                    cx,
                    &self.quinn,
                    |quinn| async move { quinn.accept_bi().await },
                );
            let (send, receive) = ready!(come).map_err(of_connection)?;
            let id = send.id().into();
            let control = self.arrivals.control(id, stopped(&send));
            let arrival = Arrival { control: control.clone(), is_early: receive.is_0rtt() };
            let mut receive = RecvStream::new(receive, Frames::of_request(self.frame_max()));
            receive.0.opening = Some(Opening::new(self.arrivals.longest_head()));
            receive.0.control = Some(control.clone());
            let room = self.room.share(control.clone());
            let mut stream = BidiStream { receive, send: SendStream::new(send, control) };
            stream.send.0.room = Some(room);
            if self.arrivals.admits(id) {
                self.arrivals.put(arrival);
                return Poll::Ready(Ok(stream));
            }
            let code = Code::H3_REQUEST_REJECTED.value();
            quic::RecvStream::stop_sending(&mut stream, code);
            quic::SendStream::reset(&mut stream, code);
        }
    }

    fn opener(&self) -> OpenStreams {
        OpenStreams { quinn: self.quinn.clone(), bidi: None, uni: None }
    }
}

impl quic::OpenStreams<Bytes> for Connection {
    type BidiStream = BidiStream;
    type SendStream = SendStream;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream, StreamErrorIncoming>> {
        self.opener.poll_open_bidi(cx)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream, StreamErrorIncoming>> {
        self.opener.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.opener.close(code, reason);
    }
}

/// Opens streams of a connection.
pub(super) struct OpenStreams {
    quinn: quinn::Connection,
    bidi: Waiting<(quinn::SendStream, quinn::RecvStream)>,
    uni: Waiting<quinn::SendStream>,
}

impl quic::OpenStreams<Bytes> for OpenStreams {
    type BidiStream = BidiStream;
    type SendStream = SendStream;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream, StreamErrorIncoming>> {
        let open =
            poll(&mut self.bidi, cx, &self.quinn, |quinn| async move { quinn.open_bi().await });
        let (send, receive) = ready!(open).map_err(of_stream)?;
        let send = SendStream::new(send, StreamControl::new());
        // Nothing comes on it: only clients open such streams in HTTP/3.
        let receive = RecvStream::new(receive, Frames::of_request(0));
        Poll::Ready(Ok(BidiStream { send, receive }))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream, StreamErrorIncoming>> {
        let open =
            poll(&mut self.uni, cx, &self.quinn, |quinn| async move { quinn.open_uni().await });
        let with_control = |send| SendStream::new(send, StreamControl::new());
        open.map(|open| open.map(with_control).map_err(of_stream))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        // Where it is over already, quinn would forget why.
        if self.quinn.close_reason().is_none() {
            self.quinn.close(varint(code.value()), reason);
        }
    }
}

/// Both directions of a stream.
pub(super) struct BidiStream {
    send: SendStream,
    receive: RecvStream,
}

impl quic::BidiStream<Bytes> for BidiStream {
    type SendStream = SendStream;
    type RecvStream = RecvStream;

    fn split(self) -> (SendStream, RecvStream) {
        (self.send, self.receive)
    }
}

impl quic::RecvStream for BidiStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.receive.poll_data(cx)
    }

    fn stop_sending(&mut self, code: u64) {
        self.receive.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.receive.recv_id()
    }
}

impl quic::SendStream<Bytes> for BidiStream {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(cx)
    }

    fn reset(&mut self, code: u64) {
        self.send.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

/// The receiving direction. What is not wanted any more is refused when it is dropped. It is a
/// pointer, for h3 moves a stream several times for each request.
pub(super) struct RecvStream(Box<Receiving>);

struct Receiving {
    quinn: quinn::RecvStream,
    frames: Frames,
    /// Of a stream with a head.
    opening: Option<Opening>,
    /// Of a request.
    control: Option<Rc<StreamControl>>,
    /// Only in unidirectional streams.
    whole: Option<Whole>,
}

/// The connection that a stream says something of.
struct Whole {
    quinn: quinn::Connection,
    arrivals: Rc<Arrivals>,
    /// That it is a stream of QPACK has been noted.
    is_known: bool,
}

impl Receiving {
    /// Notes that it is a stream of QPACK; an error if there is one of that type.
    fn note_qpack(&mut self) -> Result<(), Breach> {
        let (Some(qpack), Some(whole)) = (self.frames.qpack(), &mut self.whole) else {
            return Ok(());
        };
        if mem::replace(&mut whole.is_known, true) || whole.arrivals.enter(qpack) {
            return Ok(());
        }
        Err(Breach::Connection(Code::H3_STREAM_CREATION_ERROR))
    }

    /// Notes what is said of priorities; an error for a stream that the client may not open yet
    /// (RFC 9218, 7.2).
    fn note_updates(&mut self) -> Result<(), Breach> {
        let Some(Whole { arrivals, .. }) = &self.whole else { return Ok(()) };
        for (id, value) in self.frames.updates() {
            if !arrivals.may_open(id) {
                return Err(Breach::Connection(Code::H3_ID_ERROR));
            }
            arrivals.update(id, Priority::of_value(&value));
        }
        Ok(())
    }
}

impl RecvStream {
    fn new(quinn: quinn::RecvStream, frames: Frames) -> Self {
        Self(Box::new(Receiving { quinn, frames, opening: None, control: None, whole: None }))
    }

    /// Why nothing more comes. A client that takes its request back has no response either.
    fn note(&self, error: ReadError) -> StreamErrorIncoming {
        if let (ReadError::Reset(_), Some(control)) = (&error, &self.0.control) {
            control.abort_with(Code::H3_REQUEST_CANCELLED);
        }
        of_read(error)
    }

    /// Looks at what has come before h3 does.
    fn look(&mut self, bytes: &[u8]) -> Result<(), StreamErrorIncoming> {
        let taken = match bytes {
            [] => self.0.frames.end(),
            _ => self.0.frames.take(bytes),
        };
        let taken = taken.and_then(|()| self.0.note_qpack());
        let taken = taken.and_then(|()| self.0.note_updates());
        if let Some(control) = &self.0.control {
            control.add_empty(self.0.frames.empty());
            control.add_unread(self.0.frames.data());
        }
        let code = match taken {
            Ok(()) if bytes.is_empty() && self.0.frames.is_cut_off() => {
                // Whoever answers the stream closes the connection.
                self.0.control.iter().for_each(|it| it.refuse(Code::H3_FRAME_ERROR.value()));
                return Err(unknown(io::Error::other("a frame is cut off")));
            }
            Ok(()) => return Ok(()),
            Err(Breach::Stream(code) | Breach::Connection(code)) => code,
        };
        if let (Err(Breach::Connection(_)), Some(Whole { quinn, arrivals, .. })) =
            (taken, &self.0.whole)
        {
            arrivals.breach(code);
            quinn.close(varint(code.value()), b"");
        } else {
            quic::RecvStream::stop_sending(self, code.value());
        }
        Err(unknown(io::Error::other("against a rule of HTTP/3")))
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        if self.0.control.as_ref().is_some_and(|control| control.has_unread()) {
            // It goes on with what it has.
            return Poll::Pending;
        }
        loop {
            let mut space = [const { MaybeUninit::uninit() }; PIECE];
            let mut read = ReadBuf::uninit(&mut space);
            match ready!(self.0.quinn.poll_read_buf(cx, &mut read)) {
                Err(ReadError::Reset(_)) if self.0.frames.qpack().is_some() => read.clear(),
                done => done.map_err(|error| self.note(error))?,
            }
            self.look(read.filled())?;
            if self.0.frames.qpack().is_some() {
                // h3 does not read it further than to its type: it never learns of that, and
                // reads on.
                continue;
            }
            let (filled, is_end) = (read.filled(), read.filled().is_empty());
            let Some(opening) = &mut self.0.opening else {
                return Poll::Ready(Ok((!is_end).then(|| Bytes::copy_from_slice(filled))));
            };
            let piece = if is_end { opening.rest() } else { opening.take(filled) };
            if let Some(control) = &self.0.control {
                control.set_protocol(opening.protocol);
            }
            if opening.is_over() {
                self.0.opening = None;
            }
            if is_end || !piece.is_empty() {
                return Poll::Ready(Ok((!piece.is_empty()).then_some(piece)));
            }
        }
    }

    fn stop_sending(&mut self, code: u64) {
        if let Some(control) = self.0.control.as_ref().filter(|_| code != Code::H3_NO_ERROR.value())
        {
            control.refuse(code);
        }
        // Fails where all of it has come.
        let _ = self.0.quinn.stop(varint(code));
    }

    fn recv_id(&self) -> StreamId {
        id(self.0.quinn.id())
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        let _ = self.0.quinn.stop(varint(Code::H3_NO_ERROR.value()));
    }
}

/// The sending direction, as small.
pub(super) struct SendStream(Box<Sending>);

struct Sending {
    quinn: quinn::SendStream,
    writing: Option<WriteBuf<Bytes>>,
    is_over: bool,
    has_begun: bool,
    control: Rc<StreamControl>,
    /// As quinn knows it.
    order: i32,
    /// Of a response.
    room: Option<RoomShare>,
}

impl SendStream {
    fn new(quinn: quinn::SendStream, control: Rc<StreamControl>) -> Self {
        let (writing, room, order) = (None, None, 0);
        let (is_over, has_begun) = (false, false);
        Self(Box::new(Sending { quinn, writing, is_over, has_begun, control, order, room }))
    }
}

impl quic::SendStream<Bytes> for SendStream {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        let this = &mut *self.0;
        let order = this.control.order();
        if order != mem::replace(&mut this.order, order) {
            // Fails where it has ended.
            let _ = this.quinn.set_priority(order);
        }
        while let Some(data) = this.writing.as_mut().filter(Buf::has_remaining) {
            if this.room.as_mut().is_some_and(|room| room.yields(order, cx.waker())) {
                return Poll::Pending;
            }
            match poll_write(&mut this.quinn, cx, (data.chunk(), &this.control)) {
                Poll::Ready(written) => {
                    data.advance(written.map_err(of_write)?);
                    this.room.iter_mut().for_each(|room| room.go_on(order));
                }
                Poll::Pending if this.room.as_ref().is_some_and(RoomShare::widen) => {}
                Poll::Pending => {
                    this.room.iter_mut().for_each(|room| room.wait(order, cx.waker()));
                    return Poll::Pending;
                }
            }
        }
        this.writing = None;
        this.control.set_payload(Bytes::new());
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.0.writing.is_some() {
            return Err(unknown(io::Error::other("written to before it was ready")));
        }
        self.0.writing = Some(data.into());
        self.0.has_begun = true;
        Ok(())
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.0.is_over = true;
        Poll::Ready(self.0.quinn.finish().map_err(unknown))
    }

    fn reset(&mut self, code: u64) {
        self.0.is_over = true;
        self.0.control.set_reset();
        // Fails where it has ended.
        let _ = self.0.quinn.reset(varint(code));
    }

    fn send_id(&self) -> StreamId {
        id(self.0.quinn.id())
    }
}

/// Writes a piece, without a copy where it is payload.
fn poll_write(
    quinn: &mut quinn::SendStream,
    cx: &mut Context<'_>,
    (piece, control): (&[u8], &StreamControl),
) -> Poll<Result<usize, WriteError>> {
    match control.payload(piece) {
        Some(payload) => {
            let mut payload = [payload];
            let written = pin!(quinn.write_chunks(&mut payload)).poll(cx);
            written.map_ok(|written| {
                control.take_unsent(written.bytes);
                written.bytes
            })
        }
        None => Pin::new(quinn).poll_write(cx, piece),
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        let refusal = self.0.control.refusal();
        // What h3 has written by itself, as 431, is for the client to have.
        let is_ended = self.0.control.ends() && (self.0.has_begun || refusal.is_none());
        if !self.0.is_over && !is_ended {
            let code = self.0.control.abort_code();
            quic::SendStream::reset(self, code);
        }
    }
}

fn stopped(send: &quinn::SendStream) -> Stopped {
    let stopped = send.stopped();
    Box::pin(async move { !matches!(stopped.await, Ok(None)) })
}

/// Goes on with what is waited for, or begins to wait.
fn poll<T, F: Future<Output = Result<T, ConnectionError>> + 'static>(
    waiting: &mut Waiting<T>,
    cx: &mut Context<'_>,
    quinn: &quinn::Connection,
    begin: impl FnOnce(quinn::Connection) -> F,
) -> Poll<Result<T, ConnectionError>> {
    let wait = waiting.get_or_insert_with(|| Box::pin(begin(quinn.clone())));
    let done = ready!(wait.as_mut().poll(cx));
    *waiting = None;
    Poll::Ready(done)
}

fn varint(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

fn id(id: quinn::StreamId) -> StreamId {
    StreamId::try_from(u64::from(id)).expect("both are integers of 62 bits")
}

fn of_connection(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            ConnectionErrorIncoming::ApplicationClose { error_code: close.error_code.into() }
        }
        ConnectionError::TimedOut => ConnectionErrorIncoming::Timeout,
        error => ConnectionErrorIncoming::Undefined(Arc::new(error)),
    }
}

fn of_stream(error: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: of_connection(error) }
}

fn of_read(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(code) => StreamErrorIncoming::StreamTerminated { error_code: code.into() },
        ReadError::ConnectionLost(error) => of_stream(error),
        error => unknown(error),
    }
}

fn of_write(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(code) => {
            StreamErrorIncoming::StreamTerminated { error_code: code.into() }
        }
        WriteError::ConnectionLost(error) => of_stream(error),
        error => unknown(error),
    }
}

fn unknown(error: impl std::error::Error + Send + Sync + 'static) -> StreamErrorIncoming {
    StreamErrorIncoming::Unknown(Box::new(error))
}

/// Read at a time.
const PIECE: usize = 16 << 10;
