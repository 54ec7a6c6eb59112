//! The streams of a connection as they come, with the state of each that h3 does not keep.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h3::{error::Code, quic::StreamId};

use super::{extended::Protocol, frames::Qpack, priority::Priority, send::Sender};

/// Resolves when a stream's client has taken everything, to false, or wants no more, to true.
pub(super) type Stopped = Pin<Box<dyn Future<Output = bool>>>;

/// A stream that has come in, beside what h3 has of it.
pub(super) struct Arrival {
    pub(super) control: Rc<StreamControl>,
    /// Whether its handshake was not over: what it says may have been recorded and sent again.
    pub(super) is_early: bool,
}

/// What is decided and learnt of a stream while h3 has it.
pub(super) struct StreamControl {
    id: u64,
    /// As the client wants it, and as the server does.
    priorities: Cell<[Priority; 2]>,
    /// What clients say later on, and how much of that has been seen.
    updates: Rc<Updates>,
    seen: Cell<u64>,
    /// Streams of a higher one are sent first.
    order: Cell<i32>,
    /// Whether it is ended, rather than reset, when h3 gives it up: h3 has answered by itself.
    ends: Cell<bool>,
    /// The error code that its request was refused with.
    refusal: Cell<Option<u64>>,
    /// With which it is reset where its request was not refused.
    abort: Cell<Code>,
    protocol: Cell<Option<Protocol>>,
    /// Empty DATA frames that h3 has been given, and takes for the end of the body.
    empty: Cell<u32>,
    /// Bytes of DATA that h3 has been given, and not been asked for.
    unread: Cell<u64>,
    /// Responses that go first have been sent of while this one waited.
    is_passed_over: Cell<bool>,
    /// How often that was so when it was asked, since data of it was sent.
    times_passed_over: Cell<u32>,
    /// What h3 was given last to send.
    payload: Cell<Bytes>,
    /// Bytes of it that quinn has not taken.
    unsent: Cell<usize>,
    taking: RefCell<Taking>,
    /// It has been reset.
    is_reset: Cell<bool>,
    /// What is to be reset once what has been written of it has had time to leave.
    cut: Cell<Option<Box<Sender>>>,
}

/// Whether the client of a stream still takes it.
enum Taking {
    /// Nobody wants to know.
    Unknown,
    Going(Stopped),
    /// It has taken everything, or wants no more: true.
    Over(bool),
}

/// What the client of a connection has said of priorities after its requests, or before.
#[derive(Default)]
struct Updates {
    /// Number of updates so far.
    count: Cell<u64>,
    /// The latest, by the id of the stream.
    latest: RefCell<BTreeMap<u64, Priority>>,
}

impl StreamControl {
    /// The control of a stream without a known priority.
    pub(super) fn new() -> Rc<Self> {
        Self::of(0, Rc::default(), Taking::Unknown)
    }

    fn of(id: u64, updates: Rc<Updates>, taking: Taking) -> Rc<Self> {
        Rc::new(Self {
            id,
            priorities: Cell::default(),
            updates,
            seen: Cell::new(0),
            order: Cell::new(0),
            ends: Cell::new(true),
            refusal: Cell::new(None),
            abort: Cell::new(Code::H3_INTERNAL_ERROR),
            protocol: Cell::new(None),
            empty: Cell::new(0),
            unread: Cell::new(0),
            is_passed_over: Cell::new(false),
            times_passed_over: Cell::new(0),
            payload: Cell::default(),
            unsent: Cell::new(0),
            taking: RefCell::new(taking),
            is_reset: Cell::new(false),
            cut: Cell::default(),
        })
    }

    /// Ready when the client has taken everything, with false, or wants or gets no more, with true.
    /// quinn does not tell when the client has heard of a reset.
    pub(super) fn poll_stopped(&self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.is_reset.get() {
            return Poll::Ready(true);
        }
        let mut taking = self.taking.borrow_mut();
        let wants_no_more = match &mut *taking {
            Taking::Unknown => return Poll::Pending,
            Taking::Going(stopped) => ready!(stopped.as_mut().poll(cx)),
            Taking::Over(wants_no_more) => *wants_no_more,
        };
        *taking = Taking::Over(wants_no_more);
        Poll::Ready(wants_no_more)
    }

    /// What the head of the request says of its priority.
    pub(super) fn set_client_priority(&self, client: Priority) {
        let [_, server] = self.priorities.get();
        self.set_priorities([client, server]);
        // What was said by a frame counts more.
        self.seen.set(0);
    }

    /// Sets the priority from the head of the response, which takes precedence.
    pub(super) fn set_server_priority(&self, server: Priority) {
        let [client, _] = self.priorities.get();
        self.set_priorities([client, server]);
    }

    fn set_priorities(&self, [client, server]: [Priority; 2]) {
        self.priorities.set([client, server]);
        self.order.set(client.under(server).order(self.id));
    }

    /// Resets the stream if it is given up before its end.
    pub(super) fn reset_unless_ended(&self) {
        self.ends.set(false);
    }

    pub(super) fn order(&self) -> i32 {
        let count = self.updates.count.get();
        if self.seen.replace(count) != count
            && let Some(client) = self.updates.latest.borrow().get(&self.id)
        {
            let [_, server] = self.priorities.get();
            self.set_priorities([*client, server]);
        }
        self.order.get()
    }

    /// Whether it is ended when it is given up.
    pub(super) fn ends(&self) -> bool {
        self.ends.get()
    }

    /// Has a response that is broken off say with which code its request was refused.
    pub(super) fn refuse(&self, code: u64) {
        self.refusal.set(Some(code));
    }

    /// With which code its request was refused, if it was.
    pub(super) fn refusal(&self) -> Option<u64> {
        self.refusal.get()
    }

    /// Has a response that is broken off say why, unless its request was refused.
    pub(super) fn abort_with(&self, code: Code) {
        self.abort.set(code);
    }

    /// The code of a response that is broken off.
    pub(super) fn abort_code(&self) -> u64 {
        self.refusal.get().unwrap_or(self.abort.get().value())
    }

    /// Notes that the stream was reset.
    pub(super) fn set_reset(&self) {
        self.is_reset.set(true);
    }

    /// Whether it was reset.
    pub(super) fn is_reset(&self) -> bool {
        self.is_reset.get()
    }

    /// Keeps a response that is broken off, which is reset when it is dropped.
    pub(super) fn keep_cut(&self, sender: Sender) {
        self.cut.set(Some(Box::new(sender)));
    }

    /// The response that was broken off.
    pub(super) fn take_cut(&self) -> Option<Box<Sender>> {
        self.cut.take()
    }

    pub(super) fn set_protocol(&self, protocol: Option<Protocol>) {
        self.protocol.set(protocol);
    }

    pub(super) fn add_empty(&self, count: u32) {
        self.empty.set(self.empty.get().saturating_add(count));
    }

    /// Whether what h3 takes for the end of the body is an empty DATA frame.
    pub(super) fn take_empty(&self) -> bool {
        let count = self.empty.get();
        self.empty.set(count.saturating_sub(1));
        count > 0
    }

    /// h3 has been given so many bytes of DATA.
    pub(super) fn add_unread(&self, count: u64) {
        self.unread.set(self.unread.get() + count);
    }

    /// h3 has given out so many of them.
    pub(super) fn take_unread(&self, count: usize) {
        self.unread.set(self.unread.get().saturating_sub(count as u64));
    }

    /// Whether h3 has some to give out.
    pub(super) fn has_unread(&self) -> bool {
        self.unread.get() > 0
    }

    /// Data of it was sent.
    pub(super) fn go_on(&self) {
        self.is_passed_over.set(false);
        self.times_passed_over.set(0);
    }

    /// Responses that go first have been sent of while it waits.
    pub(super) fn pass_over(&self) {
        self.is_passed_over.set(true);
    }

    /// Whether that is so since this was asked last; not without end, as the client may see to it
    /// that it is.
    pub(super) fn take_passed_over(&self) -> bool {
        let times = self.times_passed_over.get();
        let is_passed_over = self.is_passed_over.take() && times < PASSED_OVER_MAX;
        self.times_passed_over.set(times + u32::from(is_passed_over));
        is_passed_over
    }

    /// What h3 is given to send next.
    pub(super) fn set_payload(&self, payload: Bytes) {
        self.unsent.set(payload.len());
        self.payload.set(payload);
    }

    /// quinn has taken so many bytes of it.
    pub(super) fn take_unsent(&self, count: usize) {
        self.unsent.set(self.unsent.get().saturating_sub(count));
    }

    /// How many bytes of it quinn has not taken.
    pub(super) fn unsent(&self) -> usize {
        self.unsent.get()
    }

    /// What h3 wants to send of that, to be sent without a copy; none where it is something else.
    pub(super) fn payload(&self, piece: &[u8]) -> Option<Bytes> {
        let payload = self.payload.take();
        let (all, part) = (payload.as_ptr_range(), piece.as_ptr_range());
        let is_of_it = all.start <= part.start && part.end <= all.end;
        let piece = is_of_it.then(|| payload.slice_ref(piece));
        self.payload.set(payload);
        piece
    }

    /// Whether its head asks for a WebSocket.
    pub(super) fn is_websocket(&self) -> bool {
        self.protocol.get() == Some(Protocol::WebSocket)
    }

    /// Whether its head asks for another protocol, be it one that is not offered.
    pub(super) fn has_protocol(&self) -> bool {
        self.protocol.get().is_some()
    }
}

/// The streams that come in.
pub(super) struct Arrivals {
    last: Cell<Option<Arrival>>,
    /// The id behind it.
    next: Cell<u64>,
    /// The id behind the last one that has come, be it refused.
    come: Cell<u64>,
    /// How many the client may have open at a time.
    streams: u64,
    /// The first id that is refused.
    end: Cell<u64>,
    /// The longest frame with a head.
    longest_head: usize,
    updates: Rc<Updates>,
    /// The code of the rule of the connection that the client has broken, for which it is closed.
    breached_by: Cell<Option<Code>>,
    /// Whether the client has opened the streams of its encoder and of its decoder.
    qpack: [Cell<bool>; 2],
}

impl Arrivals {
    pub(super) fn new(longest_head: usize, streams: u32) -> Rc<Self> {
        let (next, come, end) = (Cell::new(0), Cell::new(0), Cell::new(u64::MAX));
        let streams = streams.into();
        let (updates, breached_by) = (Rc::default(), Cell::new(None));
        let (last, qpack) = Default::default();
        Rc::new(Self { last, next, come, streams, end, longest_head, updates, breached_by, qpack })
    }

    /// What is decided of the stream `id`, which has come.
    pub(super) fn control(&self, id: u64, stopped: Stopped) -> Rc<StreamControl> {
        self.come.set(id + ID_STEP);
        StreamControl::of(id, self.updates.clone(), Taking::Going(stopped))
    }

    /// Whether the client may open the stream `id`, or has: with each that is over, one more.
    pub(super) fn may_open(&self, id: u64) -> bool {
        id < self.come.get() + self.streams * ID_STEP
    }

    /// The client wants the stream `id` to have this priority from now on. It may come before the
    /// request; of what is said of too many at a time the oldest stream is forgotten.
    pub(super) fn update(&self, id: u64, priority: Priority) {
        let mut latest = self.updates.latest.borrow_mut();
        latest.insert(id, priority);
        if latest.len() > UPDATES {
            latest.pop_first();
        }
        self.updates.count.set(self.updates.count.get() + 1);
    }

    /// Notes a stream of QPACK; false if it is not the first of its type.
    pub(super) fn enter(&self, qpack: Qpack) -> bool {
        let [encoder, decoder] = &self.qpack;
        let has_one = if qpack == Qpack::Encoder { encoder } else { decoder };
        !has_one.replace(true)
    }

    pub(super) fn breach(&self, code: Code) {
        self.breached_by.set(Some(code));
    }

    pub(super) fn breached_by(&self) -> Option<Code> {
        self.breached_by.get()
    }

    /// Lets `arrival` be taken.
    pub(super) fn put(&self, arrival: Arrival) {
        self.last.set(Some(arrival));
    }

    /// The longest frame with a head.
    pub(super) const fn longest_head(&self) -> usize {
        self.longest_head
    }

    /// The last one that has come.
    pub(super) fn take(&self) -> Option<Arrival> {
        self.last.take()
    }

    /// Refuses streams beyond `more` of them: what GOAWAY has to say.
    pub(super) fn end_after(&self, more: u64) -> StreamId {
        self.end.set(self.next.get() + more * ID_STEP);
        StreamId::try_from(self.end.get()).expect("ids of streams are far from their end")
    }

    /// Whether a stream is answered, rather than refused.
    pub(super) fn admits(&self, id: u64) -> bool {
        if id >= self.end.get() {
            return false;
        }
        self.next.set(id + ID_STEP);
        true
    }
}

/// So many deadlines of a response pass while others are sent, one after another.
const PASSED_OVER_MAX: u32 = 30;

/// Changes of priority that are remembered for a connection.
const UPDATES: usize = 256;

/// Difference of stream ids between a client's requests (RFC 9000, 2.1).
const ID_STEP: u64 = 4;

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[test]
    fn a_response_is_passed_over_so_often_and_no_more_until_data_of_it_is_sent() {
        let control = StreamControl::new();
        let times = || {
            let asked = (0..100).map(|_| {
                control.pass_over();
                control.take_passed_over()
            });
            asked.take_while(|is_passed_over| *is_passed_over).count()
        };
        assert!(!control.take_passed_over(), "nobody has gone first");
        assert_eq!((times(), times()), (PASSED_OVER_MAX as usize, 0));
        control.go_on();
        assert_eq!(times(), PASSED_OVER_MAX as usize);
    }

    #[test]
    fn a_client_may_open_as_many_streams_as_the_limit_says_beyond_those_that_have_come() {
        let arrivals = Arrivals::new(1_000, 10);
        let may_open = || [36, 40, 44].map(|id| arrivals.may_open(id));
        assert_eq!(may_open(), [true, false, false]);
        arrivals.control(0, Box::pin(ready(false)));
        assert_eq!(may_open(), [true, true, false]);
    }
}
