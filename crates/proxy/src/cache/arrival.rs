//! A response that is coming in, and everybody who reads it meanwhile.
//!
//! One fetch appends, any number of readers on all workers take at their own pace: none waits for
//! another, and none has to stay for the fetch to go on. States: *awaited* (no head yet), *coming*,
//! *whole*, *failed*.
//!
//! What may be stored is kept whole, so that whoever asks while it comes gets it from its
//! beginning. What may not, or is too long, is kept in a *window*: the fetch goes on only while
//! less than [`WINDOW`] waits for the slowest reader, nobody joins any more, and without readers
//! it is given up.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use loadline_core::{
    cache::Metadata,
    decide::{ending::Ending, reason::Reason},
};

use super::{
    fetch::Via,
    object::{Object, Response},
    pieces::Pieces,
};

/// A response that is coming in.
#[derive(Debug, Default)]
pub(crate) struct Arrival(Mutex<State>);

/// How the wait for a response ended.
#[derive(Clone, Debug)]
pub(crate) enum Begun {
    /// An interim response has come (RFC 9110 section 15.2), with this head; more is to come.
    Interim(Bytes),
    /// Its head has come; its body is to be read. What the rules know of it, if it is stored, and
    /// the lines that are for whoever it is fetched for and are not stored.
    Response(Arc<Response>, Option<Metadata>, Option<Arc<[u8]>>),
    /// It is on disk, from where its body comes; whether that is kept whole.
    Disk(Arc<Response>, Metadata, bool),
    /// What is stored is good, whole as it is; the lines that are for whoever it was validated for.
    Stored(Arc<Object>, Option<Arc<[u8]>>),
    /// What was stored is good for whoever it was validated for, and is not stored any more.
    Refused(Arc<Object>),
    /// What was stored is not; whoever waits has to begin anew.
    Again,
    /// There is none.
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
    is_whole: bool,
    /// How it ended before it was whole.
    failed: Option<Failed>,
    /// Only what readers have not taken is kept.
    in_window: bool,
    readers: Readers,
    fetch: Option<Waker>,
}

#[derive(Debug, Default)]
struct Readers {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Slot {
    /// How far it has read; none for a slot that nobody has.
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

impl Arrival {
    /// Somebody who reads it from its beginning; none if that is gone.
    pub(crate) fn read(self: &Arc<Self>) -> Option<Reader> {
        let mut state = self.lock();
        if state.in_window {
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
        state.in_window = matches!(begun, Begun::Response(_, None, _) | Begun::Disk(_, _, false));
        state.is_whole = !matches!(begun, Begun::Response(..) | Begun::Disk(..));
        (state.begun, state.via) = (Some(begun), via);
        state.readers.wake();
    }

    /// More of the body has come.
    pub(crate) fn append(&self, bytes: Bytes) {
        let mut state = self.lock();
        state.pieces.push(bytes);
        state.readers.wake();
    }

    /// Keeps no more from now on than its readers still have to take.
    pub(crate) fn shrink(&self) {
        let mut state = self.lock();
        state.in_window = true;
        state.trim();
    }

    /// All of it has come: its pieces.
    pub(crate) fn finish(&self) -> Box<[Bytes]> {
        let mut state = self.lock();
        let pieces = if state.in_window { Box::default() } else { state.pieces.seal() };
        state.is_whole = true;
        state.readers.wake();
        pieces
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
        state.readers.wake();
    }

    /// Whether the fetch may read more; an error if nobody wants it.
    pub(crate) fn poll_room(&self, cx: &Context<'_>) -> Poll<Result<(), Abandoned>> {
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nobody wants a response any more that cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abandoned;

impl State {
    /// Forgets what every reader has taken, and lets the fetch go on.
    fn trim(&mut self) {
        if self.in_window {
            let taken = self.readers.slowest().unwrap_or(self.pieces.end());
            self.pieces.forget(taken);
            self.fetch.take().into_iter().for_each(Waker::wake);
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

    fn slowest(&self) -> Option<u64> {
        self.slots.iter().filter_map(|slot| slot.at).min()
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
    /// Somebody who reads what nobody else joins.
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

    /// All before this place has been taken; it is not before what was taken already.
    pub(crate) fn seek(&mut self, place: u64) {
        self.advance(place.saturating_sub(self.at));
    }

    /// So many bytes have been taken.
    pub(crate) fn advance(&mut self, count: u64) {
        self.at += count;
        let mut state = self.arrival.lock();
        state.readers.slots[self.slot].at = Some(self.at);
        state.trim();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.arrival.lock();
        state.readers.slots[self.slot] = Slot { at: None, waker: None };
        state.readers.free.push(self.slot);
        state.trim();
    }
}

/// What waits for the slowest reader of a body that is not kept.
pub(crate) const WINDOW: u64 = 256 << 10;
