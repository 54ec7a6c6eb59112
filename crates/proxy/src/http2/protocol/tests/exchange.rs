//! Payload in both directions, as the windows allow.

use std::{collections::BTreeMap, sync::Mutex};

use loadline_core::time::Duration;
use proptest::sample::Index;

use super::*;

/// Responses and requests with everything that may happen to them.
struct Exchange {
    client: Client,
    streams: BTreeMap<u32, Both>,
    /// What the client takes of all streams, and of a new one.
    window: i64,
    first: i64,
    /// What the server takes of all streams.
    up: i64,
    next: u32,
}

/// A stream as its client and its session know it.
struct Both {
    /// None once the session has dropped it.
    slot: Option<Slot>,
    /// What the client takes of it.
    window: i64,
    /// What the server takes of it.
    up: i64,
    /// How much has been sent and read, upwards.
    sent: usize,
    read: usize,
    /// How long the response is, how much of it is written, and has come.
    total: usize,
    written: usize,
    come: usize,
    has_ended: bool,
    /// By either side.
    is_reset: bool,
    wakes: Arc<Count>,
    /// How often it was woken when it was last polled.
    polled: Option<usize>,
}

#[derive(Clone, Debug)]
enum Step {
    Open(usize),
    /// Room for all streams, or for one.
    Update(Option<Index>, u32),
    /// The size of windows.
    Resize(u32),
    Reset(Index),
    /// The session drops its socket.
    Drop(Index),
    /// The socket takes bytes.
    Take(usize),
    /// Whoever was woken writes so much at a time.
    Write(usize),
    Send(Index, usize, u8),
    /// The socket is dropped in the middle of a frame that comes.
    SendAndDrop(Index, usize),
    Read(Index),
}

fn step() -> impl Strategy<Value = Step> {
    let one = any::<Index>;
    prop_oneof![
        3 => (0usize..80_000).prop_map(Step::Open),
        3 => (proptest::option::of(one()), 1u32..40_000).prop_map(|(of, by)| Step::Update(of, by)),
        2 => prop_oneof![0u32..200, 0u32..100_000].prop_map(Step::Resize),
        1 => one().prop_map(Step::Reset),
        1 => one().prop_map(Step::Drop),
        4 => (1usize..60_000).prop_map(Step::Take),
        6 => (1usize..20_000).prop_map(Step::Write),
        4 => (one(), 0usize..LONGEST, any::<u8>())
            .prop_map(|(of, bytes, padding)| Step::Send(of, bytes, padding)),
        1 => (one(), 2usize..LONGEST).prop_map(|(of, bytes)| Step::SendAndDrop(of, bytes)),
        4 => one().prop_map(Step::Read),
    ]
}

/// The payload of a stream from here on.
fn payload(stream: u32, from: usize, bytes: usize) -> Vec<u8> {
    (from..from + bytes).map(|at| (at / 7 + stream as usize) as u8).collect()
}

impl Exchange {
    fn new() -> Self {
        Self {
            client: Client::new(LIMITS, &[]),
            streams: BTreeMap::new(),
            window: 65_535,
            first: 65_535,
            up: i64::from(LIMITS.connection_window),
            next: 1,
        }
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Open(total) => self.open(*total),
            Step::Update(of, more) => self.update(of.as_ref(), *more),
            Step::Resize(size) => self.resize(*size),
            Step::Take(bytes) => self.client.take(*bytes),
            Step::Write(most) => self.write(*most),
            Step::Reset(of) => self.reset(of),
            Step::Drop(of) => self.drop(of),
            Step::Send(of, bytes, padding) => self.send(of, *bytes, *padding),
            Step::SendAndDrop(of, bytes) => self.send_and_drop(of, *bytes),
            Step::Read(of) => self.read(of),
        }
        self.look();
        self.check();
    }

    /// One of the streams that the client has not seen the end of.
    fn one(&mut self, of: &Index) -> Option<(u32, &mut Both)> {
        let open = self.streams.iter_mut().filter(|(_, it)| !it.is_reset);
        let mut open: Vec<_> = open.map(|(id, both)| (*id, both)).collect();
        (!open.is_empty()).then(|| open.swap_remove(of.index(open.len())))
    }

    fn open(&mut self, total: usize) {
        let id = self.next;
        self.next += 2;
        self.client.send(&headers(id, 0, POST)).unwrap();
        // None where it is refused.
        let slot = self.client.protocol.accept().map(|opened| opened.slot);
        let stream = Both {
            slot,
            window: self.first,
            up: i64::from(LIMITS.window),
            sent: 0,
            read: 0,
            total,
            written: 0,
            come: 0,
            has_ended: false,
            is_reset: false,
            wakes: Arc::default(),
            polled: None,
        };
        self.streams.insert(id, stream);
    }

    fn update(&mut self, of: Option<&Index>, more: u32) {
        let id = match of {
            None => {
                self.window += i64::from(more);
                0
            }
            Some(of) => {
                let Some((id, stream)) = self.one(of) else { return };
                stream.window += i64::from(more);
                id
            }
        };
        self.client.send(&window_update(id, more)).unwrap();
    }

    fn resize(&mut self, size: u32) {
        let change = i64::from(size) - self.first;
        self.first += change;
        self.streams.values_mut().for_each(|stream| stream.window += change);
        // An earlier size in the same frame is none, and without one it stays.
        self.client.send(&settings(&[(WINDOW, 70_000), (WINDOW, size)])).unwrap();
        self.client.send(&settings(&[])).unwrap();
    }

    fn reset(&mut self, of: &Index) {
        let Some((id, stream)) = self.one(of) else { return };
        stream.is_reset = true;
        self.client.send(&reset(id, 8)).unwrap();
    }

    fn drop(&mut self, of: &Index) {
        let Some((_, stream)) = self.one(of) else { return };
        if let Some(slot) = stream.slot.take() {
            self.client.protocol.forget(slot);
        }
    }

    /// Those that were woken write until they have to wait.
    fn write(&mut self, most: usize) {
        let Self { client, streams, .. } = self;
        for (id, stream) in streams {
            let woken = stream.wakes.0.load(Ordering::Relaxed);
            let Some(slot) = stream.slot.filter(|_| stream.polled != Some(woken)) else { continue };
            stream.polled = Some(woken);
            let waker = Waker::from(stream.wakes.clone());
            let cx = Context::from_waker(&waker);
            while stream.written < stream.total {
                let left = most.min(stream.total - stream.written);
                let Poll::Ready(Ok(room)) = client.protocol.poll_room(slot, left, &cx) else {
                    break;
                };
                assert!((1..=left).contains(&room), "room for something");
                let room = room.min(PIECE);
                let piece = payload(*id, stream.written, room);
                let fill = |out: &mut Vec<u8>| {
                    out.extend_from_slice(&piece);
                    Ok::<_, Reason>(false)
                };
                client.protocol.write_data(slot, fill).unwrap();
                stream.written += room;
            }
            if stream.written == stream.total {
                client.end(slot);
                stream.polled = Some(usize::MAX);
                stream.wakes.0.store(usize::MAX, Ordering::Relaxed);
            }
        }
    }

    /// Sends a frame, if there is room for it.
    fn send(&mut self, of: &Index, bytes: usize, padding: u8) {
        let up = self.up;
        let Some((id, stream)) = self.one(of) else { return };
        let bytes = bytes.min(LONGEST - 256);
        let length = bytes + usize::from(padding) + 1;
        if length as i64 > up.min(stream.up) {
            return;
        }
        stream.up -= length as i64;
        let piece = payload(id, stream.sent, bytes);
        stream.sent += bytes;
        self.up -= length as i64;
        let padded = [&[padding][..], &piece, &vec![0; padding.into()]].concat();
        self.client.send(&frame(DATA, PADDED, id, &padded)).unwrap();
    }

    fn send_and_drop(&mut self, of: &Index, bytes: usize) {
        let up = self.up;
        let Some((id, stream)) = self.one(of) else { return };
        if bytes as i64 > up.min(stream.up) {
            return;
        }
        stream.up -= bytes as i64;
        let slot = stream.slot.take();
        let piece = payload(id, stream.sent, bytes);
        self.up -= bytes as i64;
        let bytes = frame(DATA, 0, id, &piece);
        let (one, other) = bytes.split_at(bytes.len() / 2);
        self.client.send(one).unwrap();
        slot.into_iter().for_each(|slot| self.client.protocol.forget(slot));
        self.client.send(other).unwrap();
    }

    fn read(&mut self, of: &Index) {
        let Self { client, streams, .. } = self;
        let slots = streams.iter_mut().filter(|(_, it)| it.slot.is_some());
        let mut slots: Vec<_> = slots.collect();
        if slots.is_empty() {
            return;
        }
        let (id, stream) = slots.swap_remove(of.index(slots.len()));
        let read = client.read(stream.slot.unwrap());
        assert_eq!(read, payload(*id, stream.read, read.len()));
        stream.read += read.len();
        assert!(stream.is_reset || stream.read == stream.sent, "all is there");
    }

    /// The client looks at what has come.
    fn look(&mut self) {
        for seen in self.client.frames() {
            let Seen { kind, stream: id, payload: bytes, flags } = seen;
            let more = only_word(&bytes).map(i64::from);
            match (kind, self.streams.get_mut(&id)) {
                (WINDOW_UPDATE, None) => self.up += more.unwrap(),
                (WINDOW_UPDATE, Some(stream)) => stream.up += more.unwrap(),
                (RST_STREAM, Some(stream)) => stream.is_reset = true,
                (DATA, Some(stream)) => {
                    self.window -= bytes.len() as i64;
                    stream.window -= bytes.len() as i64;
                    let is_let = bytes.is_empty() || self.window.min(stream.window) >= 0;
                    assert!(is_let, "{id}: {} {}", self.window, stream.window);
                    assert!(bytes.len() <= PIECE && !stream.has_ended, "{id}");
                    assert_eq!(bytes, payload(id, stream.come, bytes.len()), "{id}");
                    stream.come += bytes.len();
                    stream.has_ended = flags & END_STREAM != 0;
                }
                _ => assert!(matches!((kind, flags), (SETTINGS, ACK)), "{kind} {id}"),
            }
        }
        assert!(self.up <= i64::from(LIMITS.connection_window));
    }

    /// Both sides count the same.
    fn check(&mut self) {
        let (window, reserved, _) = self.client.protocol.out.state();
        assert_eq!(window + reserved as i64, self.window, "what the client takes of all");
        let (mut granted, mut untaken) = (0, 0);
        for (id, both) in &self.streams {
            let Some(slot) = both.slot else { continue };
            let stream = self.client.protocol.streams.get_mut(slot).unwrap();
            (granted, untaken) = (granted + stream.granted, untaken + stream.received.len());
            if !both.is_reset {
                assert_eq!(stream.send_window + stream.granted as i64, both.window, "{id}");
                let come = stream.received.len() as i64;
                assert_eq!(stream.window.untaken(), come, "{id}");
                let unsaid = i64::from(LIMITS.window) - come - both.up;
                assert!((0..i64::from(LIMITS.window) / 2).contains(&unsaid), "{id}: {unsaid}");
            }
        }
        assert_eq!(granted, reserved);
        assert_eq!(untaken as i64, self.client.protocol.window.untaken());
    }

    /// Gives all the room there can be: whoever has not been reset ends.
    fn finish(&mut self) {
        self.update(None, 1 << 30);
        self.resize(1 << 20);
        for _ in 0..200 {
            self.write(usize::MAX);
            self.look();
            self.client.take(usize::MAX);
        }
        for (id, stream) in &mut self.streams {
            assert!(stream.is_reset || stream.has_ended && stream.come == stream.total, "{id}");
            if let Some(slot) = stream.slot.take() {
                self.client.protocol.forget(slot);
            }
        }
        self.look();
        self.check();
        self.client.assert_at_rest();
        assert!(self.client.protocol.is_idle());
    }
}

proptest! {
    #[test]
    fn payload_comes_in_order_as_the_windows_allow_whatever_happens(
        steps in vec(step(), 0..150)
    ) {
        let mut exchange = Exchange::new();
        steps.iter().for_each(|step| exchange.run(step));
        exchange.finish();
    }

    #[test]
    fn streams_that_all_have_to_write_do_so_in_turn(
        window in 20_000u32..200_000,
        taken in vec(1usize..40_000, 100..200),
    ) {
        let mut client = Client::new(LIMITS, &[(WINDOW, (1 << 31) - 1)]);
        client.send(&window_update(0, window)).unwrap();
        let woken: Arc<Mutex<VecDeque<Slot>>> = Arc::default();
        for number in 0..LIMITS.streams {
            let slot = client.open(2 * number + 1, END_STREAM, GET);
            woken.lock().unwrap().push_back(slot);
        }
        let mut written = Vec::new();
        for bytes in taken {
            while let Some(slot) = pop(&woken) {
                let waker = Waker::from(Arc::new(Runs(woken.clone(), slot)));
                while client.write(slot, usize::MAX, &waker).is_ready() {}
            }
            written.extend(client.frames().iter().map(|seen| seen.stream));
            client.take(bytes);
            client.send(&window_update(0, bytes as u32)).unwrap();
        }
        // The first has the whole buffer before others come.
        let first = written.iter().take_while(|stream| **stream == 1).count();
        let turns: Vec<_> = written[first..].chunks(LIMITS.streams as usize).collect();
        for (number, turn) in turns.iter().enumerate().skip(1) {
            prop_assert!(turns[0].starts_with(turn), "{number}: {turn:?}");
        }
        prop_assert!(turns.len() > 3);
    }
}

/// Has a session run, behind others.
struct Runs(Arc<Mutex<VecDeque<Slot>>>, Slot);

impl Wake for Runs {
    fn wake(self: Arc<Self>) {
        self.0.lock().unwrap().push_back(self.1);
    }
}

fn pop(woken: &Mutex<VecDeque<Slot>>) -> Option<Slot> {
    woken.lock().unwrap().pop_front()
}

#[test]
fn a_window_that_is_lowered_takes_back_what_was_granted() {
    let mut client = Client::new(LIMITS, &[]);
    let slot = client.open(1, END_STREAM, GET);
    client.write_all(slot);
    client.send(&window_update(1, 20_000)).unwrap();
    client.send(&window_update(0, 1 << 20)).unwrap();
    assert_eq!(client.stream(slot).granted, PIECE);
    client.send(&settings(&[(WINDOW, 45_635)])).unwrap();
    assert_eq!(client.write_now(slot, PIECE), Some(100));
    assert_eq!(client.write_now(slot, PIECE), None);
}

#[test]
fn room_that_would_make_a_window_too_large_with_what_is_granted_is_an_error() {
    let mut client = Client::new(LIMITS, &[]);
    let slot = client.open(1, END_STREAM, GET);
    client.write_all(slot);
    client.send(&window_update(1, 20_000)).unwrap();
    client.send(&window_update(0, 20_000)).unwrap();
    assert_eq!(client.stream(slot).granted, PIECE);
    let most = (1 << 31) - 1 - 20_000;
    client.send(&window_update(0, most)).unwrap();
    assert_eq!(client.send(&window_update(0, 1)), Err(ErrorCode::FLOW_CONTROL_ERROR));
}

#[test]
fn streams_that_are_reset_while_they_wait_leave_no_place_in_the_queue() {
    let mut client = Client::new(LIMITS, &[]);
    let first = client.open(1, END_STREAM, GET);
    client.write_all(first);
    for number in 1..1_000 {
        let id = 2 * number + 1;
        let slot = client.open(id, END_STREAM, GET);
        assert_eq!(client.write_now(slot, PIECE), None);
        client.send(&reset(id, 8)).unwrap();
        client.protocol.forget(slot);
        client.take(usize::MAX);
        assert!(client.protocol.out.state().2 <= 1, "{number}");
    }
}

#[test]
fn uploads_that_nobody_takes_do_not_stop_one_that_is_taken() {
    let mut client = Client::new(LIMITS, &[]);
    client.frames();
    for id in [1, 3] {
        client.open(id, 0, POST);
        client.send(&frame(DATA, 0, id, &[0; 15_000]).repeat(6)).unwrap();
    }
    let slot = client.open(5, 0, POST);
    let (mut connection, mut stream) = (200_000 - 180_000, 100_000);
    for _ in 0..100 {
        let piece = 10_000.min(connection).min(stream);
        assert!(piece > 0, "{connection} {stream}");
        client.send(&frame(DATA, 0, 5, &vec![0; piece])).unwrap();
        (connection, stream) = (connection - piece, stream - piece);
        assert_eq!(client.read(slot).len(), piece);
        for seen in client.frames().iter().filter(|seen| seen.kind == WINDOW_UPDATE) {
            let more = only_word(&seen.payload).unwrap() as usize;
            match seen.stream {
                0 => connection += more,
                _ => stream += more,
            }
        }
    }
}

#[test]
fn room_is_made_when_the_client_says_so() {
    let mut client = Client::new(LIMITS, &[]);
    let slot = client.open(1, END_STREAM, GET);
    client.write_all(slot);
    let now = Instant::ZERO + Duration::from_secs(50);
    let room = [window_update(0, 100), window_update(1, 100)].concat();
    client.protocol.receive(&room, now, &client.random).unwrap();
    assert_eq!(client.protocol.waits_for(slot), WaitsFor::Stream(Some(now)));
}

#[test]
fn room_that_a_stream_leaves_is_for_the_next() {
    let mut client = Client::new(LIMITS, &[]);
    let [one, other] = [1, 3].map(|stream| client.open(stream, END_STREAM, GET));
    client.write_all(one);
    client.send(&window_update(1, 1 << 20)).unwrap();
    let count: Arc<Count> = Arc::default();
    assert!(client.write(other, PIECE, &Waker::from(count.clone())).is_pending());
    client.send(&window_update(0, 100)).unwrap();
    assert_eq!((client.write_now(one, 10), count.0.load(Ordering::Relaxed)), (Some(10), 1));
    assert_eq!(client.write_now(other, PIECE), Some(90));
}

#[test]
fn streams_that_wait_get_equal_shares_and_leave_what_they_do_not_use() {
    let mut client = Client::new(LIMITS, &[(WINDOW, 1 << 20)]);
    client.send(&window_update(0, 1 << 20)).unwrap();
    let [one, other] = [1, 3].map(|stream| client.open(stream, END_STREAM, GET));
    while client.write_now(one, PIECE).is_some() {}
    assert_eq!((client.protocol.room(one), client.protocol.room(other)), (0, 0));
    let cx = Context::from_waker(Waker::noop());
    assert!(client.protocol.poll_room(other, 50_000, &cx).is_pending());
    client.take(usize::MAX);
    assert_eq!((client.protocol.room(one), client.protocol.room(other)), (PIECE, PIECE));
    client.protocol.return_room(one);
    assert_eq!(client.write_now(other, 100), Some(100), "and the rest is left");
    assert_eq!(client.protocol.room(one), SEND_BYTES - 100 - HEADER);
}

#[test]
fn streams_that_write_as_much_as_they_may_when_it_is_their_turn_write_alike() {
    let mut client = Client::new(LIMITS, &[(WINDOW, (1 << 31) - 1)]);
    client.send(&window_update(0, 1 << 30)).unwrap();
    let woken: Arc<Mutex<VecDeque<Slot>>> = Arc::default();
    let slots = [1, 3].map(|stream| client.open(stream, END_STREAM, GET));
    woken.lock().unwrap().extend(slots);
    let mut written = [0; 2];
    for _ in 0..100 {
        while let Some(slot) = pop(&woken) {
            let waker = Waker::from(Arc::new(Runs(woken.clone(), slot)));
            // The socket takes everything while a session writes, as long as that lasts.
            for _ in 0..16 {
                let Poll::Ready(Ok(wrote)) = client.write(slot, PIECE, &waker) else { break };
                written[usize::from(slot == slots[1])] += wrote;
                client.take(usize::MAX);
            }
        }
        client.take(usize::MAX);
        woken.lock().unwrap().extend(slots);
    }
    let [one, other] = written;
    assert!(one.max(other) < one.min(other) * 6 / 5, "{one} {other}");
}

#[test]
fn a_stream_that_waits_alone_gets_a_share_and_then_all_the_room_there_is() {
    let mut client = Client::new(LIMITS, &[(WINDOW, 1 << 20)]);
    client.send(&window_update(0, 1 << 20)).unwrap();
    let slot = client.open(1, END_STREAM, GET);
    while client.write_now(slot, PIECE).is_some() {}
    let cx = Context::from_waker(Waker::noop());
    assert!(client.protocol.poll_room(slot, 50_000, &cx).is_pending());
    client.take(usize::MAX);
    assert_eq!(client.protocol.room(slot), PIECE);
    assert_eq!(client.write_now(slot, PIECE), Some(PIECE));
    assert_eq!(client.protocol.room(slot), SEND_BYTES - PIECE - HEADER);
}

#[test]
fn a_response_that_has_ended_keeps_no_room_from_others() {
    let mut client = Client::new(LIMITS, &[]);
    let slots: Vec<_> = (0..8).map(|number| client.open(2 * number + 1, 0, POST)).collect();
    client.write_all(slots[0]);
    for (number, slot) in slots[..7].iter().enumerate() {
        assert_eq!(client.write_now(*slot, PIECE), None);
        match number % 2 {
            0 => client.end(*slot),
            _ => client.protocol.write_head(*slot, true, |_, _| ()).unwrap(),
        }
    }
    assert_eq!(client.write_now(slots[7], PIECE), None);
    client.take(usize::MAX);
    client.send(&window_update(0, 1 << 20)).unwrap();
    assert_eq!(client.write_now(slots[7], PIECE), Some(PIECE));
    assert_eq!(client.protocol.out.state().1, 0);
}
