//! What quinn takes of the responses of a connection before its client has acknowledged it.
//!
//! It is twice what the path is known to carry, so that a client that takes nothing is kept little
//! for, and a fast one waits for nothing. Responses share it: where it is full, the urgent goes
//! first into what becomes free. quinn itself orders only what it has taken.

use std::{
    cell::{Cell, RefCell},
    mem,
    rc::Rc,
    task::Waker,
    time::Duration,
};

use super::{
    arrivals::StreamControl,
    config::{SEND_BYTES, SEND_START},
};

/// The room of a connection.
pub(super) struct SendRoom {
    quinn: quinn::Connection,
    size: Cell<u64>,
    /// Responses that wait.
    waiting: RefCell<Vec<Waiting>>,
}

struct Waiting {
    /// As `Priority::order` has it.
    order: i32,
    waker: Waker,
    control: Rc<StreamControl>,
}

/// The share of one response in the room.
pub(super) struct RoomShare {
    room: Rc<SendRoom>,
    control: Rc<StreamControl>,
    waits: bool,
    has_yielded: bool,
}

impl SendRoom {
    pub(super) fn new(quinn: quinn::Connection) -> Rc<Self> {
        Rc::new(Self { quinn, size: Cell::new(SEND_START), waiting: RefCell::default() })
    }

    pub(super) fn share(self: &Rc<Self>, control: Rc<StreamControl>) -> RoomShare {
        RoomShare { room: self.clone(), control, waits: false, has_yielded: false }
    }
}

impl RoomShare {
    /// Makes the room larger if the path has become so, and has those who wait ask again: they may
    /// be more urgent.
    pub(super) fn widen(&self) -> bool {
        let SendRoom { quinn, size, .. } = &*self.room;
        let most = most(quinn.rtt());
        if size.get() >= most {
            return false;
        }
        let wanted = quinn.congestion_state().window().saturating_mul(2).min(most);
        if wanted <= size.get() {
            return false;
        }
        size.set(wanted);
        quinn.set_send_window(wanted);
        self.room.waiting.borrow().iter().for_each(|it| it.waker.wake_by_ref());
        true
    }

    /// Whether a more urgent response waits and is to have its turn before this one of `order`,
    /// which is woken again behind it. Once for each write: what the other waits for may be its
    /// client, who takes nothing of it.
    pub(super) fn yields(&mut self, order: i32, waker: &Waker) -> bool {
        let is_second = self.room.waiting.borrow().iter().any(|it| it.order > order);
        self.has_yielded = is_second && !self.has_yielded;
        if self.has_yielded {
            waker.wake_by_ref();
        }
        self.has_yielded
    }

    /// The response of `order` waits for room.
    pub(super) fn wait(&mut self, order: i32, waker: &Waker) {
        self.leave();
        let (waker, control) = (waker.clone(), self.control.clone());
        self.room.waiting.borrow_mut().push(Waiting { order, waker, control });
        self.waits = true;
    }

    /// Notes that data of the response of `order` was sent. Where it had to wait for that,
    /// responses of the same or a later order wait for their turn, not for their client.
    pub(super) fn go_on(&mut self, order: i32) {
        let has_waited = self.leave();
        self.control.go_on();
        if has_waited {
            let waiting = self.room.waiting.borrow();
            let behind = waiting.iter().filter(|it| it.order <= order);
            behind.for_each(|it| it.control.pass_over());
        }
    }

    /// Waits no longer: whether it did.
    fn leave(&mut self) -> bool {
        let waits = mem::take(&mut self.waits);
        if waits {
            let mut waiting = self.room.waiting.borrow_mut();
            if let Some(at) = waiting.iter().position(|it| Rc::ptr_eq(&it.control, &self.control)) {
                waiting.swap_remove(at);
            }
        }
        waits
    }
}

/// What a path of this round-trip time may have at most. More than 800 Mbit/s need is of no use
/// there, and has left the processor's caches when it is sent: 10 MB to a client on the same
/// machine cost 15.3 ms with 4 MiB, and 14.0 with [`SEND_NEAR`].
fn most(rtt: Duration) -> u64 {
    let bytes = rtt.as_micros().saturating_mul(BYTES_PER_MICROSECOND);
    u64::try_from(bytes).unwrap_or(SEND_BYTES).clamp(SEND_NEAR, SEND_BYTES)
}

/// 800 Mbit/s.
const BYTES_PER_MICROSECOND: u128 = 100;

/// The most where the round trip takes no time.
const SEND_NEAR: u64 = 1 << 20;

impl Drop for RoomShare {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_far_client_may_have_more_on_its_way_than_a_near_one() {
        let cases =
            [(0, 1 << 20), (5, 1 << 20), (20, 2_000_000), (330, 4 << 20), (60_000, 4 << 20)];
        for (millis, bytes) in cases {
            assert_eq!(most(Duration::from_millis(millis)), bytes, "{millis} ms");
        }
    }
}
