//! The promise on a model: flows, a flow table and servers that come, go and come back.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Few, so that flows and changes meet in the same entries.
const POSITIONS: u32 = 4;
const SERVERS: u16 = 5;
const STALE: Duration = Duration::from_millis(1_000);

#[derive(Clone, Debug)]
enum Step {
    /// A packet of this flow; it opens a connection where the flow is over or new and speaks TCP.
    Packet(u32),
    /// The flow ends, and its ports are free for another.
    End(u32),
    /// New connections go where this says.
    Assign([u16; POSITIONS as usize]),
    Settle,
    /// A server crashes with its connections, or is back.
    Flip(u16),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..24u32).prop_map(Step::Packet),
        2 => (0..24u32).prop_map(Step::End),
        2 => prop::array::uniform4(1..=SERVERS).prop_map(Step::Assign),
        3 => Just(Step::Settle),
        1 => (1..=SERVERS).prop_map(Step::Flip),
        3 => (1..700u64).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..300)
}

/// What an onlooker knows of a flow.
#[derive(Clone, Copy, Debug)]
struct Alive {
    server: u16,
    last: Instant,
}

struct World {
    now: Instant,
    ring: Ring,
    table: BTreeMap<u32, Alive>,
    flows: BTreeMap<u32, Alive>,
    down: Vec<u16>,
}

impl World {
    fn new() -> Self {
        Self {
            now: Instant::ZERO,
            ring: Ring::new(&[1, 2, 3, 1]),
            table: BTreeMap::new(),
            flows: BTreeMap::new(),
            down: Vec::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Packet(flow) => self.packet(*flow),
            Step::End(flow) => drop(self.flows.remove(flow)),
            Step::Assign(table) => self.ring.assign(self.now, table),
            Step::Settle => self.settle(),
            Step::Wait(millis) => self.now = self.now + Duration::from_millis(*millis),
            Step::Flip(server) => {
                let was_down = self.down.contains(server);
                self.down.retain(|down| down != server);
                if !was_down {
                    self.down.push(*server);
                    self.flows.retain(|_, flow| flow.server != *server);
                }
            }
        }
    }

    fn packet(&mut self, flow: u32) {
        let entry = self.ring.entries()[(flow % POSITIONS) as usize];
        let alive = self.flows.get(&flow).filter(|alive| self.now.since(alive.last) <= STALE);
        // Every second flow is UDP, where nothing says that it begins.
        let opens = alive.is_none() && flow.is_multiple_of(2);
        let known = self.table.get(&flow).map(|known| known.server);
        let choice = entry.choose(known, opens, |server| !self.down.contains(&server));
        let Some(Choice { server, is_new }) = choice else { return };
        if let Some(alive) = alive {
            assert_eq!(server, alive.server, "flow {flow} moved; {entry:?}, table {known:?}");
        }
        let seen = Alive { server, last: self.now };
        if is_new || (entry.is_recorded() && known.is_some()) {
            self.table.insert(flow, seen);
        }
        self.flows.insert(flow, seen);
    }

    fn settle(&mut self) {
        self.table.retain(|_, known| self.now.since(known.last) <= STALE);
        let flows: Vec<_> =
            self.table.iter().map(|(flow, known)| (flow % POSITIONS, known.server)).collect();
        let settled =
            self.ring.settle(self.now, STALE + Duration::from_nanos(1), flows.into_iter());
        self.table.retain(|flow, _| !settled.contains(&(flow % POSITIONS)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever comes, goes and comes back, and however often: a flow that is alive stays on its
    /// server unless that crashed.
    #[test]
    fn no_flow_that_is_alive_moves(steps in steps()) {
        let mut world = World::new();
        steps.iter().for_each(|step| world.step(step));
    }

    /// Once nothing changes any more and old flows have ended, the table is not asked any more.
    #[test]
    fn every_entry_settles_at_last(steps in steps()) {
        let mut world = World::new();
        steps.iter().for_each(|step| world.step(step));
        for _ in 0..3 {
            world.step(&Step::Wait(1_001));
            world.step(&Step::Settle);
        }
        prop_assert!(world.ring.entries().iter().all(|entry| !entry.is_recorded()));
        prop_assert!(world.table.is_empty(), "{:?}", world.table);
    }
}

#[test]
fn an_entry_is_packed_as_the_forwarder_reads_it() {
    let entry = Entry::new(0x1234, 0x7fff, true);
    assert_eq!(entry.to_bits(), 0xffff_1234);
    assert_eq!((entry.current(), entry.base(), entry.is_recorded()), (0x1234, 0x7fff, true));
    assert_eq!(Entry::settled(7).to_bits(), 0x0007_0007);
}

#[test]
fn the_table_has_the_numbers_of_the_members_and_nobody_without_weight() {
    let member = |number: u16, weight| RingServer {
        address: SocketAddr::from(([10, 0, 0, number as u8], 80)),
        weight,
        number,
    };
    let table = table(&[member(30, 2), member(10, 1), member(20, 0)]);
    let count = |number| table.iter().filter(|entry| **entry == number).count();
    assert_eq!(table.len(), RING_SIZE);
    assert!(count(30).abs_diff(2 * count(10)) < 4, "{} {}", count(30), count(10));
    assert_eq!(count(30) + count(10), RING_SIZE);
    assert!(super::table(&[member(1, 0)]).iter().all(|entry| *entry == 0));
}

#[test]
fn one_server_more_takes_its_share_and_moves_hardly_anybody_else() {
    let member = |number: u16| RingServer {
        address: SocketAddr::from(([10, 0, 0, number as u8], 80)),
        weight: 1,
        number,
    };
    let before = table(&(1..=10).map(member).collect::<Vec<_>>());
    let after = table(&(1..=11).map(member).collect::<Vec<_>>());
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
    let needless = moved.clone().filter(|(_, after)| **after != 11).count();
    let share = RING_SIZE / 11 + 1;
    assert!(moved.count() - needless <= share);
    assert!(needless * 100 < RING_SIZE, "{needless} of {RING_SIZE} moved to an old server");
}
