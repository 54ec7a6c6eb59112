//! Edges that are cut off, killed and slow share a certificate: whatever happens, only who has the
//! lock asks the authority, and what can be renewed is.

use std::{vec, vec::Vec};

use proptest::prelude::*;

use super::*;
use crate::acme::Lifetime;

const EDGES: usize = 3;
const LEASE_S: u64 = 10;
/// The longest that a request is on its way.
const MARGIN_S: u64 = 2;
const LIFETIME_S: u64 = 900;

/// What happens next; the number is that of an edge.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Pass(u64),
    Look(usize),
    Act(usize),
    /// It acts, and the answer of the store is lost.
    ActUnheard(usize),
    Renew(usize),
    RenewUnheard(usize),
    CutOff(usize),
    Reconnect(usize),
    Kill(usize),
    Start(usize),
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    use Happening::*;
    let edge = || 0..EDGES;
    let one = prop_oneof![
        3 => (0..20_u64).prop_map(Pass),
        6 => edge().prop_map(Look),
        12 => edge().prop_map(Act),
        2 => edge().prop_map(ActUnheard),
        4 => edge().prop_map(Renew),
        1 => edge().prop_map(RenewUnheard),
        1 => edge().prop_map(CutOff),
        2 => edge().prop_map(Reconnect),
        1 => edge().prop_map(Kill),
        2 => edge().prop_map(Start),
    ];
    proptest::collection::vec(one, 0..300)
}

/// The certificate as the store has it.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    revision: u64,
    certificate: Option<Lifetime>,
    order: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Locked {
    revision: u64,
    ends_s: u64,
}

/// How far an edge is that has the lock.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Begun(Record),
    /// The order is asked for, or made and not yet stored.
    Ordering(u64),
    Stored(u64),
    Issued(Lifetime),
}

#[derive(Clone, Copy, Debug)]
struct Work {
    lock: u64,
    until: Instant,
    stage: Stage,
}

#[derive(Clone, Debug)]
struct Edge {
    is_alive: bool,
    reaches_store: bool,
    seen: Option<(Record, bool)>,
    work: Option<Work>,
}

/// A request for an order on its way to the authority.
#[derive(Clone, Copy, Debug)]
struct OnItsWay {
    order: u64,
    lock: u64,
    arrives_s: u64,
}

struct World {
    now_s: u64,
    revision: u64,
    record: Record,
    lock: Option<Locked>,
    edges: Vec<Edge>,
    on_their_way: Vec<OnItsWay>,
    /// Orders that the authority has made.
    made: Vec<u64>,
    asked_for: u64,
    issued: u64,
    /// Works that were given up or killed before their order was stored.
    lost: u64,
}

impl World {
    fn new() -> Self {
        let edge = Edge { is_alive: true, reaches_store: true, seen: None, work: None };
        Self {
            now_s: 1_000,
            revision: 1,
            record: Record::default(),
            lock: None,
            edges: vec![edge; EDGES],
            on_their_way: Vec::new(),
            made: Vec::new(),
            asked_for: 0,
            issued: 0,
            lost: 0,
        }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + Duration::from_secs(self.now_s)
    }

    fn until(&self) -> Instant {
        let [lease, margin] = [LEASE_S, MARGIN_S].map(Duration::from_secs);
        leased_until(self.now(), lease, margin)
    }

    fn happen(&mut self, it: Happening) {
        match it {
            Happening::Pass(seconds) => (0..seconds).for_each(|_| self.second()),
            Happening::Look(edge) => self.look(edge),
            Happening::Act(edge) => self.act(edge, true),
            Happening::ActUnheard(edge) => self.act(edge, false),
            Happening::Renew(edge) => self.renew(edge, true),
            Happening::RenewUnheard(edge) => self.renew(edge, false),
            Happening::CutOff(edge) => self.edges[edge].reaches_store = false,
            Happening::Reconnect(edge) => self.edges[edge].reaches_store = true,
            Happening::Kill(edge) => {
                self.edges[edge].is_alive = false;
                self.edges[edge].seen = None;
                self.give_up(edge);
            }
            Happening::Start(edge) => self.edges[edge].is_alive = true,
        }
    }

    fn second(&mut self) {
        self.now_s += 1;
        let now_s = self.now_s;
        let arrived = self.on_their_way.extract_if(.., |it| it.arrives_s <= now_s);
        for OnItsWay { order, lock, .. } in arrived.collect::<Vec<_>>() {
            self.assert_locked_by(lock);
            assert_eq!(self.record.order, None, "an order is under way already");
            self.made.push(order);
        }
        self.lock.take_if(|lock| lock.ends_s <= now_s);
    }

    /// What the authority is asked is asked by who has the lock.
    fn assert_locked_by(&self, revision: u64) {
        assert_eq!(self.lock.map(|lock| lock.revision), Some(revision), "it has the lock");
    }

    fn look(&mut self, edge: usize) {
        let seen = (self.record, self.lock.is_some());
        let edge = &mut self.edges[edge];
        if edge.is_alive && edge.reaches_store {
            edge.seen = Some(seen);
        }
    }

    fn give_up(&mut self, edge: usize) {
        let work = self.edges[edge].work.take();
        self.lost += u64::from(work.is_some_and(|work| matches!(work.stage, Stage::Ordering(_))));
    }

    fn act(&mut self, edge: usize, is_heard: bool) {
        let Edge { is_alive, reaches_store, seen, work } = self.edges[edge].clone();
        match work {
            _ if !is_alive => {}
            Some(work) if work.until <= self.now() => self.give_up(edge),
            Some(work) => self.go_on(edge, work),
            None => {
                let Some((record, is_locked)) = seen.filter(|_| reaches_store) else { return };
                let lock = if is_locked { Lock::Others } else { Lock::Free };
                if state(&record, lock).task(self.now_s) == Task::Lock {
                    self.take_lock(edge, record, is_heard);
                }
            }
        }
    }

    fn take_lock(&mut self, edge: usize, seen: Record, is_heard: bool) {
        if self.lock.is_some() || self.record.revision != seen.revision {
            return;
        }
        self.revision += 1;
        let lock = self.revision;
        self.lock = Some(Locked { revision: lock, ends_s: self.now_s + LEASE_S });
        let work = Work { lock, until: self.until(), stage: Stage::Begun(seen) };
        self.edges[edge].work = Some(work).filter(|_| is_heard);
    }

    fn go_on(&mut self, edge: usize, work: Work) {
        let stage = match work.stage {
            Stage::Begun(record) => match state(&record, Lock::Held).task(self.now_s) {
                Task::Attempt => record.order.map_or_else(|| self.order(work.lock), Stage::Stored),
                _ => return self.unlock(edge, work.lock),
            },
            Stage::Ordering(order) if !self.made.contains(&order) => return,
            Stage::Ordering(order) => {
                let record = Record { order: Some(order), ..self.record };
                if !self.write(edge, work.lock, record) {
                    return;
                }
                Stage::Stored(order)
            }
            Stage::Stored(order) => {
                self.assert_locked_by(work.lock);
                assert_eq!(self.record.order, Some(order));
                let (not_before_s, not_after_s) = (self.now_s, self.now_s + LIFETIME_S);
                Stage::Issued(Lifetime { not_before_s, not_after_s, suggested: None })
            }
            Stage::Issued(certificate) => {
                let record = Record { certificate: Some(certificate), order: None, ..self.record };
                if self.write(edge, work.lock, record) {
                    self.issued += 1;
                    self.unlock(edge, work.lock);
                }
                return;
            }
        };
        self.edges[edge].work = Some(Work { stage, ..work });
    }

    /// A request of which nobody knows when it arrives.
    fn order(&mut self, lock: u64) -> Stage {
        self.asked_for += 1;
        let order = self.asked_for;
        let arrives_s = self.now_s + order % MARGIN_S + 1;
        self.on_their_way.push(OnItsWay { order, lock, arrives_s });
        Stage::Ordering(order)
    }

    /// Whether it is written; who has lost the lock meanwhile writes nothing.
    fn write(&mut self, edge: usize, lock: u64, record: Record) -> bool {
        if !self.edges[edge].reaches_store {
            return false;
        }
        if self.lock.is_none_or(|it| it.revision != lock) {
            self.give_up(edge);
            return false;
        }
        self.revision += 1;
        self.record = Record { revision: self.revision, ..record };
        true
    }

    fn unlock(&mut self, edge: usize, lock: u64) {
        self.edges[edge].work = None;
        if self.edges[edge].reaches_store {
            self.lock.take_if(|it| it.revision == lock);
        }
    }

    fn renew(&mut self, edge: usize, is_heard: bool) {
        let (now_s, until) = (self.now_s, self.until());
        let Edge { is_alive: true, reaches_store: true, work: Some(work), .. } =
            &mut self.edges[edge]
        else {
            return;
        };
        let held = self.lock.as_mut().filter(|it| it.revision == work.lock);
        if let Some(lock) = held {
            lock.ends_s = now_s + LEASE_S;
            work.until = if is_heard { until } else { work.until };
        }
    }

    /// All is well for so many seconds.
    fn be_well(&mut self, seconds: u64) {
        for edge in &mut self.edges {
            (edge.is_alive, edge.reaches_store) = (true, true);
        }
        for _ in 0..seconds {
            for edge in 0..EDGES {
                self.look(edge);
                self.renew(edge, true);
                self.act(edge, true);
            }
            self.second();
        }
    }
}

fn state(record: &Record, lock: Lock) -> CertificateState {
    let due_s = record.certificate.map_or(0, |it| it.renewal_s(u64::MAX / 2));
    CertificateState { lock, due_s, ask_s: None, is_unstored: false }
}

/// A lock of whoever was killed, and a certificate in ten steps, each waiting for the one before.
const SOON_S: u64 = LEASE_S + 20;

proptest! {
    #[test]
    fn there_is_one_order_at_a_time_and_none_twice(happenings in happenings()) {
        let mut world = World::new();
        for happening in happenings {
            // That it has the lock who asks is asserted where it is asked.
            world.happen(happening);
        }
        let made = world.made.len() as u64;
        let under_way = world.edges.iter().filter(|it| it.work.is_some()).count() as u64;
        let stored = u64::from(world.record.order.is_some());
        prop_assert!(made <= world.issued + world.lost + stored + under_way, "{made} orders");
    }

    #[test]
    fn what_can_be_renewed_in_time_is(happenings in happenings()) {
        let mut world = World::new();
        for happening in happenings {
            world.happen(happening);
        }
        let certificate = world.record.certificate;
        let due_s = certificate.map_or(world.now_s, |it| it.latest_s().max(world.now_s));
        world.be_well(due_s - world.now_s + SOON_S);
        let renewed = world.record.certificate.expect("there is one");
        prop_assert!(certificate.is_none_or(|it| renewed.not_before_s > it.not_before_s));
        prop_assert!(renewed.not_after_s > world.now_s);
        // From then on one order does for each.
        let (made, issued) = (world.made.len() as u64, world.issued);
        world.be_well(3 * LIFETIME_S);
        prop_assert!(world.issued > issued + 2);
        prop_assert!(world.made.len() as u64 - made <= world.issued - issued + 1);
        prop_assert!(world.record.certificate.is_some_and(|it| it.not_after_s > world.now_s));
    }
}

#[test]
fn who_does_not_reach_the_store_or_has_no_lock_asks_nobody() {
    let all = [Lock::Sole, Lock::Free, Lock::Held, Lock::Others, Lock::Unknown];
    let tasks =
        |state: CertificateState| all.map(|lock| CertificateState { lock, ..state }.task(100));
    let never = Task::Wait(u64::MAX);
    let due =
        CertificateState { lock: Lock::Free, due_s: 100, ask_s: Some(200), is_unstored: false };
    assert_eq!(tasks(due), [Task::Attempt, Task::Lock, Task::Attempt, never, never]);
    let asks = CertificateState { due_s: 200, ask_s: Some(100), ..due };
    assert_eq!(tasks(asks), [Task::RenewalInfo, Task::Lock, Task::RenewalInfo, never, never]);
    let idle = CertificateState { due_s: 300, ..due };
    let later = Task::Wait(200);
    assert_eq!(tasks(idle), [later, later, later, never, never]);
    let unstored = CertificateState { is_unstored: true, ..idle };
    assert_eq!(tasks(unstored)[1..3], [Task::Lock, Task::Store]);
    assert_eq!(tasks(CertificateState { is_unstored: true, ..due })[2], Task::Attempt);
}
