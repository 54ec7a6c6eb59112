//! The promise on a model: a network that loses, doubles and reorders, sides that restart, and a
//! standby that knows in the end what the active knows.

use std::mem;

use proptest::prelude::*;

use super::*;
use loadline_core::time::Instant;

/// Few, so that changes meet.
const NUMBERS: u16 = 4;

#[derive(Clone, Debug)]
enum Step {
    Put(Key, Fact),
    Remove(Key),
    /// A NAT connection closes.
    Close(Key),
    /// Milliseconds pass.
    Wait(u8),
    /// The active is replaced by another, to which numbers mean something else.
    Replace,
    /// The standby begins anew.
    Restart,
    /// Nothing passes for a while, in seconds.
    Cut(u8),
}

fn client() -> impl Strategy<Value = SocketAddr> {
    let v4 = (0..2u8, 0..2u16).prop_map(|(ip, port)| SocketAddr::from(([10, 0, 0, ip], port)));
    let v6 = (0..2u16, 0..2u16)
        .prop_map(|(ip, port)| SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, ip], port)));
    prop_oneof![v4, v6]
}

fn entry() -> impl Strategy<Value = Entry> {
    let number = 0..=crate::ring::SERVER_MAX;
    (number.clone(), number, any::<bool>()).prop_map(|(current, base, is_recorded)| {
        if is_recorded { Entry::new(current, base, true) } else { Entry::settled(current) }
    })
}

/// A key with a fact of its kind.
fn fact() -> impl Strategy<Value = (Key, Fact)> {
    let number = 0..NUMBERS;
    let service = prop::option::of(any::<u16>());
    let server = (number.clone(), client(), any::<[u8; 6]>(), any::<bool>(), service).prop_map(
        |(number, at, link, is_up, service)| {
            (Key::Server(number), Fact::Server(Server { at, link, is_up, service }))
        },
    );
    let back = (0..2u8, client())
        .prop_map(|(number, at)| (Key::Return(at.is_ipv6(), number), Fact::Return(at.ip())));
    let service_address = (number.clone(), any::<u16>(), client(), any::<u8>()).prop_map(
        |(number, service, at, protocol)| {
            (
                Key::ServiceAddress(number),
                Fact::ServiceAddress(ServiceAddress { service, at, protocol }),
            )
        },
    );
    // Several datagrams, so that telling everything takes a while.
    let entries = (0..1u16, 490..PARTS, prop::collection::vec(entry(), PART)).prop_map(
        |(service, part, entries)| {
            let entries = entries.into_iter().take(entries_of(part)).collect();
            (Key::Entries { service, part }, Fact::Entries(entries))
        },
    );
    let flow = (0..2u16, client(), number.clone(), 0..RING_SIZE as u32).prop_map(
        |(service_address, client, server, position)| {
            (Key::Flow { service_address, client }, Fact::Flow(Flow { server, position }))
        },
    );
    let nat = (number, 0..3u16, client(), any::<[u8; 6]>(), any::<bool>()).prop_map(
        |(server, port, client, link, is_closed)| {
            let key = Key::Nat { server, port: Port { address: port, port } };
            (key, Fact::Nat(Nat { service_address: 7, client, link, is_closed }))
        },
    );
    prop_oneof![server, back, service_address, entries, flow, nat]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        28 => fact().prop_map(|(key, fact)| Step::Put(key, fact)),
        8 => fact().prop_map(|(key, _)| Step::Remove(key)),
        8 => fact().prop_map(|(key, _)| Step::Close(key)),
        12 => (0..60u8).prop_map(Step::Wait),
        1 => Just(Step::Replace),
        1 => Just(Step::Restart),
        1 => (0..6u8).prop_map(Step::Cut),
    ];
    prop::collection::vec(step, 1..150)
}

/// Both sides and what is between them.
struct World {
    now: Instant,
    facts: Facts,
    sender: Sender,
    receiver: Receiver,
    lives: u64,
    /// What is under way, to the standby or to the active.
    wire: Vec<(bool, Vec<u8>)>,
    /// What becomes of datagrams, in turns; all arrive once where this is empty.
    fates: Vec<u8>,
    sent: usize,
    /// What comes later than it should.
    late: Vec<(bool, Vec<u8>)>,
    /// Everything that ever was sent.
    history: Vec<(bool, Vec<u8>)>,
}

impl World {
    fn new(fates: Vec<u8>) -> Self {
        Self {
            now: Instant::ZERO,
            facts: Facts::new(),
            sender: Sender::new(1, 1_000_000),
            receiver: Receiver::new(2_000_000),
            lives: 1,
            wire: Vec::new(),
            fates,
            sent: 0,
            late: Vec::new(),
            history: Vec::new(),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Put(key, fact) => self.put(key, fact),
            Step::Remove(key) => {
                if self.facts.remove(&key).is_some() {
                    self.sender.changed(key, Extent::Whole);
                }
            }
            Step::Close(key) => {
                if let Some(Fact::Nat(nat)) = self.facts.get_mut(&key) {
                    nat.is_closed = true;
                    self.sender.changed(key, Extent::Closing);
                }
            }
            Step::Wait(millis) => (0..=millis / 10).for_each(|_| self.turn()),
            Step::Replace => {
                self.lives += 1;
                self.sender = Sender::new(self.lives, self.lives * 1_000_000);
                self.facts = self.facts.split_off(&Key::ServiceAddress(NUMBERS / 2));
            }
            Step::Restart => {
                self.lives += 1;
                self.receiver = Receiver::new(self.lives * 2_000_000);
            }
            Step::Cut(seconds) => {
                for _ in 0..u32::from(seconds) * 100 {
                    self.turn();
                    self.wire.clear();
                }
            }
        }
    }

    fn put(&mut self, key: Key, fact: Fact) {
        self.facts.insert(key, fact);
        self.sender.changed(key, Extent::Whole);
    }

    /// 10 ms pass.
    fn turn(&mut self) {
        self.now = self.now + Duration::from_millis(10);
        for (to_standby, bytes) in mem::take(&mut self.wire) {
            self.deliver(to_standby, &bytes);
        }
        while let Some(bytes) = self.sender.poll(self.now, &self.facts) {
            assert!(bytes.len() <= PAYLOAD + 25);
            self.send(true, bytes);
        }
        while let Some((peer, bytes)) = self.receiver.poll(self.now) {
            assert_eq!(peer, 3);
            self.send(false, bytes);
        }
    }

    fn deliver(&mut self, to_standby: bool, bytes: &[u8]) {
        let datagram = Datagram::read(bytes).unwrap();
        if to_standby {
            self.receiver.handle(self.now, 3, &datagram).unwrap();
        } else {
            self.sender.handle(self.now, &datagram);
        }
    }

    fn send(&mut self, to_standby: bool, bytes: Vec<u8>) {
        self.sent += 1;
        self.history.push((to_standby, bytes.clone()));
        let fate = match self.fates.len() {
            0 => 9,
            fates => self.fates[self.sent % fates] % 10,
        };
        match fate {
            0 | 1 => {}
            2 => self.wire.extend([(to_standby, bytes.clone()), (to_standby, bytes)]),
            // It is overtaken; or something of long ago comes once more.
            3 => self.late.push((to_standby, bytes)),
            5 => {
                self.wire.append(&mut self.late);
                self.wire.push((to_standby, bytes));
            }
            4 => {
                let old = self.history[self.sent * 7 % self.history.len()].clone();
                self.wire.extend([(to_standby, bytes), old]);
            }
            _ => self.wire.push((to_standby, bytes)),
        }
    }

    /// Nothing changes or is lost for as long as it may take until both know the same.
    fn rest(&mut self) {
        self.fates.clear();
        self.wire.append(&mut self.late);
        (0..QUIET).for_each(|_| self.turn());
    }

    fn assert_same(&self) {
        assert!(self.sender.is_followed() && self.receiver.is_whole(self.now));
        assert_eq!(self.sender.behind(), Some(0));
        assert_eq!(self.receiver.facts(), &self.facts);
    }
}

/// Turns of 10 ms: the silence after which a side is given up, a call, and time to tell everything.
const QUIET: usize = 450;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is lost, doubled, reordered, sent again by somebody else or restarted.
    #[test]
    fn in_the_end_the_standby_knows_what_the_active_knows(
        steps in steps(),
        fates in prop::collection::vec(any::<u8>(), 50),
    ) {
        let mut world = World::new(fates);
        let mut copy = Facts::new();
        for step in steps {
            if matches!(step, Step::Restart) {
                copy.clear();
            }
            world.step(step);
            follow(&mut copy, &mut world.receiver);
        }
        world.rest();
        world.assert_same();
        follow(&mut copy, &mut world.receiver);
        prop_assert_eq!(&copy, &world.facts);
    }

    #[test]
    fn a_record_is_read_as_it_was_written(facts in prop::collection::vec(fact(), 1..20)) {
        let mut bytes = Vec::new();
        for (key, fact) in &facts {
            write(&mut bytes, key, Some(fact), Extent::Whole);
            write(&mut bytes, key, None, Extent::Whole);
        }
        let mut from = Reader(&bytes);
        for (key, fact) in facts {
            prop_assert_eq!(read(&mut from).unwrap(), (key, Record::Put(fact)));
            prop_assert_eq!(read(&mut from).unwrap(), (key, Record::Remove));
        }
        prop_assert!(from.0.is_empty());
    }

    #[test]
    fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut from = Reader(&bytes);
        while let Ok((key, record)) = read(&mut from) {
            if let Record::Put(fact) = record {
                write(&mut Vec::new(), &key, Some(&fact), Extent::Whole);
            }
        }
        if let Ok(datagram) = Datagram::read(&bytes) {
            prop_assert_eq!(datagram.write(), bytes);
        }
    }
}

/// Does what the changes say, as who holds a copy elsewhere does.
fn follow(copy: &mut Facts, receiver: &mut Receiver) {
    for change in receiver.changes() {
        match change {
            Change::Reset => copy.clear(),
            Change::Fact(key, _) => match receiver.facts().get(&key) {
                Some(fact) => drop(copy.insert(key, fact.clone())),
                None => drop(copy.remove(&key)),
            },
        }
    }
}

fn nat(server: u16, client: SocketAddr) -> (Key, Fact) {
    let key = Key::Nat { server, port: Port { address: 1, port: 40_000 } };
    (key, Fact::Nat(Nat { service_address: 3, client, link: [2, 0, 0, 0, 0, 1], is_closed: false }))
}

fn length(key: &Key, fact: Option<&Fact>, extent: Extent) -> usize {
    let mut bytes = Vec::new();
    write(&mut bytes, key, fact, extent);
    bytes.len()
}

/// IBM's take 43 bytes, at the beginning and at the end.
#[test]
fn records_are_small() {
    let v4 = SocketAddr::from(([198, 51, 100, 7], 50_000));
    let (key, mut fact) = nat(200, v4);
    assert_eq!(length(&key, Some(&fact), Extent::Whole), 19);
    if let Fact::Nat(nat) = &mut fact {
        nat.is_closed = true;
    }
    assert_eq!(length(&key, Some(&fact), Extent::Closing), 6);
    assert_eq!(length(&key, None, Extent::Whole), 6);
    let (key, fact) = nat(200, SocketAddr::from(([0xfd00; 8], 50_000)));
    assert_eq!(length(&key, Some(&fact), Extent::Whole), 31);
    let flow = Fact::Flow(Flow { server: 200, position: 65_000 });
    assert_eq!(
        length(&Key::Flow { service_address: 3, client: v4 }, Some(&flow), Extent::Whole),
        13
    );
}

#[test]
fn a_connection_that_closes_says_no_more_than_that() {
    let mut world = World::new(Vec::new());
    let (key, fact) = nat(1, SocketAddr::from(([198, 51, 100, 7], 50_000)));
    world.put(key, fact);
    world.rest();
    world.assert_same();
    let before = world.history.len();
    world.step(Step::Close(key));
    world.turn();
    let (_, sent) = &world.history[before];
    let Datagram::Data { records, .. } = Datagram::read(sent).unwrap() else { panic!("{sent:?}") };
    assert_eq!(read(&mut Reader(records)), Ok((key, Record::Close)));
    world.rest();
    world.assert_same();
}

#[test]
fn what_was_recorded_and_is_sent_again_changes_nothing() {
    let mut world = World::new(Vec::new());
    world.put(Key::Server(1), Fact::Server(server(1)));
    world.rest();
    let old = world.history.clone();
    world.put(Key::Server(1), Fact::Server(server(2)));
    world.rest();
    world.step(Step::Restart);
    world.rest();
    world.assert_same();
    let joins = world.sender.sent().joins;
    for (to_standby, bytes) in old {
        world.deliver(to_standby, &bytes);
        world.turn();
        world.assert_same();
    }
    assert_eq!(world.sender.sent().joins, joins);
}

#[test]
fn one_that_was_active_before_is_followed_only_when_the_other_is_silent() {
    let call = |epoch, token| Datagram::Call { epoch, token };
    let mut receiver = Receiver::new(5);
    let data = |nonce| Datagram::Data {
        stream: Stream { token: 9, nonce },
        number: 0,
        is_whole: true,
        records: &[],
    };
    let now = Instant::ZERO;
    receiver.handle(now, 1, &call(20, 9)).unwrap();
    assert!(receiver.poll(now).is_some_and(|(peer, _)| peer == 1));
    receiver.handle(now, 1, &data(6)).unwrap();
    assert!(receiver.is_whole(now));
    assert!(receiver.poll(now + Duration::from_secs(1)).is_some());
    receiver.handle(now, 0, &call(10, 8)).unwrap();
    assert_eq!(receiver.poll(now), None);
    let later = now + SILENCE + Duration::from_millis(1);
    receiver.handle(later, 0, &call(10, 8)).unwrap();
    assert!(receiver.poll(later).is_some_and(|(peer, _)| peer == 0));
}

/// A standby that was away for a moment keeps what it knows until it knows better.
#[test]
fn what_is_gone_meanwhile_is_forgotten_and_nothing_else() {
    let mut world = World::new(Vec::new());
    (1..=2).for_each(|n| world.put(Key::Server(n), Fact::Server(server(n as u8))));
    world.rest();
    world.receiver.changes();
    world.step(Step::Cut(5));
    world.step(Step::Remove(Key::Server(2)));
    world.rest();
    world.assert_same();
    let gone = Change::Fact(Key::Server(2), Some(Fact::Server(server(2))));
    assert_eq!(world.receiver.changes(), vec![gone]);
    assert_eq!(world.receiver.received().joins, 2);
}

fn server(last: u8) -> Server {
    Server {
        at: SocketAddr::from(([10, 0, 0, last], 80)),
        link: [2; 6],
        is_up: true,
        service: None,
    }
}
