//! A response that is coming in, and everybody who reads it meanwhile.
//!
//! One fetch appends, any number of readers on all workers take at their own pace: none waits for
//! another, and none has to stay for the fetch to go on. States: *awaited* (no head yet), *coming*,
//! *whole*, *failed*.
//!
//! What may be stored is kept whole, so that whoever asks while it comes gets it from its
//! beginning. What may not, or is too long, is kept in a *window*: the fetch goes on only while
//! less than [`WINDOW`] waits for the slowest reader, nobody joins any more, and without readers
//! it is given up. Readers who keep others waiting there are [cut](State::wait_no_longer).

use std::{
    collections::BTreeMap,
    future::poll_fn,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use loadline_core::{
    cache::Metadata,
    decide::{ending::Ending, reason::Reason},
};
use tokio::time::timeout;

use super::{
    fetch::Via,
    object::{Object, Response},
    pieces::Pieces,
    reserved::Reserved,
};

/// A response that is coming in.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// The later it was begun, the higher.
    number: u64,
    state: Mutex<State>,
}

/// What the rules know of a response that they let be stored, and whether it is stored.
pub(crate) type Known = (Metadata, bool);

/// How the wait for a response ended.
#[derive(Clone, Debug)]
pub(crate) enum Begun {
    /// An interim response has come (RFC 9110 section 15.2), with this head; more is to come.
    Interim(Bytes),
    /// Its head has come; its body is to be read. The lines are for whoever it is fetched for, and
    /// are not stored.
    Response(Arc<Response>, Option<Known>, Option<Arc<[u8]>>),
    /// It is on disk, from where its body comes; whether that is kept whole.
    Disk(Arc<Response>, Metadata, bool),
    /// What is stored is good, whole as it is; the lines that are for whoever it was validated for.
    Stored(Arc<Object>, Option<Arc<[u8]>>),
    /// The stored response is good for the client it was validated for, and is no longer stored.
    Refused(Arc<Object>),
    /// The stored response is not good; whoever waits has to begin anew.
    Again,
    /// There is no response.
    Failed(Failed),
}

/// How a fetch failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) ending: Ending,
    pub(crate) reason: Option<Reason>,
}

#[derive(Debug, Default)]
struct State {
    begun: Option<Begun>,
    /// Heads of interim responses, for who waits for the final one.
    interims: Vec<Bytes>,
    via: Via,
    pieces: Pieces,
    /// The memory that they take.
    reserved: Option<Reserved>,
    is_whole: bool,
    /// Why the body ended before it was whole.
    failed: Option<Failed>,
    /// Only what readers have not taken is kept.
    in_window: bool,
    readers: Readers,
    fetch: Option<Waker>,
    /// For how many [`TICK`]s slower readers have kept others waiting since this place.
    held: (u32, u64),
}

#[derive(Debug, Default)]
struct Readers {
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// How many of them are where, in a window.
    places: BTreeMap<u64, usize>,
}

#[derive(Debug)]
struct Slot {
    /// How far it has read; none for a slot that nobody has, or whose reader is cut.
    at: Option<u64>,
    waker: Option<Waker>,
}

/// Somebody who reads a response that is coming in; dropping it is going away.
#[derive(Debug)]
pub(crate) struct Reader {
    arrival: Arc<Arrival>,
    slot: usize,
    /// How many interim responses it knows.
    interims: usize,
    at: u64,
}

impl Default for Arrival {
    fn default() -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Self { number: NUMBERS.fetch_add(1, Relaxed), state: Mutex::default() }
    }
}

impl Arrival {
    /// The later it was begun, the higher.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// A reader from the beginning; none if that is gone.
    pub(crate) fn read(self: &Arc<Self>) -> Option<Reader> {
        self.read_if(|_| true)
    }

    /// The same, and none if the head of a response has come that may be stored and is not
    /// `is_usable`.
    pub(crate) fn read_if(
        self: &Arc<Self>,
        is_usable: impl FnOnce(&Metadata) -> bool,
    ) -> Option<Reader> {
        let mut state = self.lock();
        let may_read = match &state.begun {
            Some(Begun::Response(_, Some((metadata, _)), _)) => is_usable(metadata),
            _ => true,
        };
        if state.in_window || !may_read {
            return None;
        }
        let slot = state.readers.enter();
        drop(state);
        Some(Reader { arrival: self.clone(), slot, interims: 0, at: 0 })
    }

    /// An interim response has come.
    pub(crate) fn interim(&self, head: Bytes) {
        let mut state = self.lock();
        state.interims.push(head);
        state.readers.wake();
    }

    /// The head has come. Where it is not stored, nobody joins any more.
    pub(crate) fn begin(&self, begun: Begun, via: Via) {
        let mut state = self.lock();
        if matches!(begun, Begun::Response(_, None, _) | Begun::Disk(_, _, false)) {
            state.enter_window();
        }
        state.is_whole = !matches!(begun, Begun::Response(..) | Begun::Disk(..));
        (state.begun, state.via) = (Some(begun), via);
        state.readers.wake();
    }

    /// Memory has been taken for more of the body.
    pub(super) fn reserve(&self, more: Reserved) {
        let mut state = self.lock();
        match &mut state.reserved {
            Some(reserved) => reserved.add(more),
            none => *none = Some(more),
        }
    }

    /// For how much of it memory has been taken.
    pub(super) fn reserved(&self) -> u64 {
        self.lock().reserved.as_ref().map_or(0, Reserved::bytes)
    }

    /// More of the body has come.
    pub(crate) fn append(&self, bytes: Bytes) {
        let mut state = self.lock();
        state.pieces.push(bytes);
        state.readers.wake();
    }

    /// Keeps no more from now on than its readers still have to take.
    pub(crate) fn shrink(&self) {
        self.lock().enter_window();
    }

    /// All of it has come: its pieces, if it was kept, which are counted elsewhere from here on.
    pub(crate) fn finish(&self) -> Box<[Bytes]> {
        let mut state = self.lock();
        state.is_whole = true;
        state.readers.wake();
        if state.in_window {
            return Box::default();
        }
        state.reserved = None;
        state.pieces.seal()
    }

    /// Keeps the same bytes in other pieces, those of what is stored.
    pub(crate) fn replace(&self, pieces: &[Bytes]) {
        let mut state = self.lock();
        if !state.in_window {
            let mut stored = Pieces::default();
            pieces.iter().for_each(|piece| stored.push(piece.clone()));
            state.pieces = stored;
        }
    }

    /// Nothing more will come; has no effect on what is whole, or has failed already.
    pub(crate) fn fail(&self, failed: Failed, via: Via) {
        let mut state = self.lock();
        if state.is_whole {
            return;
        }
        if state.begun.is_none() {
            (state.begun, state.via) = (Some(Begun::Failed(failed)), via);
        }
        state.failed.get_or_insert(failed);
        // It is of no use to who might join.
        state.enter_window();
        state.readers.wake();
    }

    /// Waits until the fetch may read more; an error if nobody wants it.
    pub(crate) async fn room(&self) -> Result<(), Abandoned> {
        loop {
            match timeout(TICK, poll_fn(|cx| self.poll_room(cx))).await {
                Ok(room) => return room,
                Err(_) => self.lock().wait_no_longer(),
            }
        }
    }

    fn poll_room(&self, cx: &Context<'_>) -> Poll<Result<(), Abandoned>> {
        let mut state = self.lock();
        if !state.in_window {
            return Poll::Ready(Ok(()));
        }
        let Some(slowest) = state.readers.slowest() else { return Poll::Ready(Err(Abandoned)) };
        let is_full = state.pieces.end().saturating_sub(slowest) >= WINDOW;
        state.fetch = Some(cx.waker().clone());
        if is_full { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    /// How long the body is as far as it has come.
    pub(crate) fn len(&self) -> u64 {
        self.lock().pieces.end()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nobody panics while holding it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nobody wants a response any more that cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abandoned;

impl State {
    fn enter_window(&mut self) {
        if !mem::replace(&mut self.in_window, true) {
            self.readers.count();
            self.trim();
        }
    }

    /// A reader goes on to this place, or goes away.
    fn move_to(&mut self, slot: usize, at: Option<u64>) {
        let before = mem::replace(&mut self.readers.slots[slot].at, at);
        if self.in_window && self.readers.recount(before, at) {
            self.trim();
        }
    }

    /// Forgets what every reader has taken, and lets the fetch go on.
    fn trim(&mut self) {
        let taken = self.readers.slowest().unwrap_or(self.pieces.end());
        self.pieces.forget(taken);
        let held = self.pieces.held();
        self.reserved.iter_mut().for_each(|reserved| reserved.shrink(held));
        self.fetch.take().into_iter().for_each(Waker::wake);
    }

    /// The fetch has waited for a [`TICK`]. Where those who have taken all that there is wait with
    /// it, and less than a window has come in [`TICKS`] of them, those who are a window behind are
    /// cut.
    fn wait_no_longer(&mut self) {
        let (ticks, since) = self.held;
        let end = self.pieces.end();
        if !self.readers.wait_at(end) {
            self.held = (0, end);
        } else if end >= since + WINDOW {
            self.held = (1, end);
        } else if ticks + 1 < TICKS {
            self.held = (ticks + 1, since);
        } else {
            self.held = (0, end);
            self.cut(end.saturating_sub(WINDOW));
        }
    }

    /// Cuts readers who have taken no more than this.
    fn cut(&mut self, most: u64) {
        for slot in 0..self.readers.slots.len() {
            if self.readers.slots[slot].at.is_some_and(|at| at <= most) {
                self.move_to(slot, None);
                self.readers.slots[slot].waker.take().into_iter().for_each(Waker::wake);
            }
        }
    }
}

impl Readers {
    fn enter(&mut self) -> usize {
        let slot = Slot { at: Some(0), waker: None };
        match self.free.pop() {
            Some(free) => {
                self.slots[free] = slot;
                free
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        }
    }

    /// Counts the readers at each place.
    fn count(&mut self) {
        for at in self.slots.iter().filter_map(|slot| slot.at) {
            *self.places.entry(at).or_default() += 1;
        }
    }

    /// Counts one who has moved: whether the slowest of them is another, or further on.
    fn recount(&mut self, before: Option<u64>, at: Option<u64>) -> bool {
        let slowest = self.slowest();
        if let Some(at) = at {
            *self.places.entry(at).or_default() += 1;
        }
        if let Some(before) = before
            && let Some(count) = self.places.get_mut(&before)
        {
            *count -= 1;
            if *count == 0 {
                self.places.remove(&before);
            }
        }
        self.slowest() != slowest
    }

    fn slowest(&self) -> Option<u64> {
        self.places.keys().next().copied()
    }

    /// Whether one waits who has taken all up to this place.
    fn wait_at(&self, end: u64) -> bool {
        self.slots.iter().any(|slot| slot.at == Some(end) && slot.waker.is_some())
    }

    /// Wakes all who wait.
    fn wake(&mut self) {
        self.slots.iter_mut().filter_map(|slot| slot.waker.take()).for_each(Waker::wake);
    }

    fn wait(&mut self, slot: usize, cx: &Context<'_>) {
        let waker = &mut self.slots[slot].waker;
        match waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => *waker = Some(cx.waker().clone()),
        }
    }
}

impl Reader {
    /// A reader of a response that nobody else joins.
    pub(crate) fn alone() -> Self {
        let arrival = Arc::<Arrival>::default();
        let slot = arrival.lock().readers.enter();
        Self { arrival, slot, interims: 0, at: 0 }
    }

    /// What it reads.
    pub(crate) fn arrival(&self) -> &Arc<Arrival> {
        &self.arrival
    }

    /// Waits for the head, after those of interim responses, or for there being none.
    pub(crate) fn poll_begun(&mut self, cx: &Context<'_>) -> Poll<(Begun, Via)> {
        let mut state = self.arrival.lock();
        if let Some(head) = state.interims.get(self.interims) {
            self.interims += 1;
            return Poll::Ready((Begun::Interim(head.clone()), state.via));
        }
        if let Some(begun) = &state.begun {
            return Poll::Ready((begun.clone(), state.via));
        }
        state.readers.wait(self.slot, cx);
        Poll::Pending
    }

    /// What comes next of the body; none at its end.
    pub(crate) fn poll_piece(&self, cx: &Context<'_>) -> Poll<Result<Option<Bytes>, Failed>> {
        let mut state = self.arrival.lock();
        if state.readers.slots[self.slot].at.is_none() {
            return Poll::Ready(Err(TOO_SLOW));
        }
        if let Some(piece) = state.pieces.after(self.at) {
            return Poll::Ready(Ok(Some(piece)));
        }
        match state.failed {
            _ if state.is_whole => return Poll::Ready(Ok(None)),
            Some(failed) => return Poll::Ready(Err(failed)),
            None => state.readers.wait(self.slot, cx),
        }
        Poll::Pending
    }

    /// How long the body is, if all of it has come.
    pub(crate) fn whole_length(&self) -> Option<u64> {
        let state = self.arrival.lock();
        state.is_whole.then(|| state.pieces.end())
    }

    /// All before this place has been taken; it is not before what was taken already.
    pub(crate) fn seek(&mut self, place: u64) {
        self.advance(place.saturating_sub(self.at));
    }

    /// So many bytes have been taken.
    pub(crate) fn advance(&mut self, count: u64) {
        self.at += count;
        let mut state = self.arrival.lock();
        if state.readers.slots[self.slot].at.is_some() {
            state.move_to(self.slot, Some(self.at));
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.arrival.lock();
        state.move_to(self.slot, None);
        state.readers.slots[self.slot].waker = None;
        state.readers.free.push(self.slot);
    }
}

/// What waits for the slowest reader of a body that is not kept.
pub(crate) const WINDOW: u64 = 256 << 10;

/// How often it is looked whether readers keep others waiting.
const TICK: Duration = Duration::from_secs(1);

/// Most [`TICK`]s for which a reader may keep others waiting while it takes less than a window.
const TICKS: u32 = 5;

/// The ending of readers who kept others waiting.
const TOO_SLOW: Failed =
    Failed { ending: Ending::ClientTimeout, reason: Some(Reason::ClientTimeout) };
