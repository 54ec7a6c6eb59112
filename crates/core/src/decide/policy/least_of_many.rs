//! The server of the least cost among many, found by looking at those that have changed.
//!
//! It is as good as that of [`best_of_all`](super::least::best_of_all), and among equals of equal
//! tags the first from a random place on. What each server had when it was looked at last is
//! remembered, and who won among each eight of them, and among eight of those, up to the last: a
//! server that has changed ([`Changes`]) is looked at again, and so are the eight it is of, in each
//! round. From one choice to the next two servers change, if requests end as often as they come.
//!
//! While one worker looks, others look at all servers.
//!
//! Source: D. Knuth, The Art of Computer Programming 3, 5.4.1: trees of selection.

use alloc::{boxed::Box, vec, vec::Vec};
use core::{mem, ops::Range};

use spin::Mutex;

use crate::decide::{
    ledger::changes::{Changes, PER_WORD, SLOTS, differing, slot},
    plan::ServerPlan,
    policy::{
        draw::part,
        least::{Best, TAG_MAX, best_of_all, cost_with_limit, tag},
    },
};

/// What is remembered of the servers of a group.
#[derive(Debug)]
pub(crate) struct LeastOfMany {
    /// The words in which changes of these servers are counted.
    words: Box<[u8]>,
    /// The places of servers, by the slots of their counts.
    places: Box<[u16]>,
    /// Where the places of each slot begin, and the end of the last.
    begins: Box<[u16]>,
    memory: Mutex<Memory>,
}

#[derive(Debug)]
struct Memory {
    /// The counts of changes then, in the order of the words.
    seen: Box<[u64]>,
    servers: usize,
    /// Entries of the servers, then the winners of each round, down to one.
    entries: Box<[Entry]>,
    /// The largest tag of all.
    newest: u64,
    /// The place from which on equals come first.
    start: usize,
    /// Nobody has been looked at.
    is_blank: bool,
}

/// Cost of a server, then its tag, then its distance from the start. The least wins.
type Entry = u128;

impl LeastOfMany {
    /// Of these servers, whose changes are counted from now on.
    pub(super) fn new(servers: &[ServerPlan]) -> Self {
        servers.iter().for_each(|server| server.state.group.changes.watch());
        let mut places = Vec::from_iter(0..servers.len() as u16);
        let slot_of = |place: &u16| slot(servers[usize::from(*place)].state.id());
        places.sort_by_key(slot_of);
        let begin = |slot: usize| places.partition_point(|place| slot_of(place) < slot) as u16;
        let mut words = Vec::from_iter(places.iter().map(|it| (slot_of(it) / PER_WORD) as u8));
        words.dedup();
        Self {
            memory: Mutex::new(Memory::blank(servers.len(), words.len())),
            words: words.into(),
            begins: (0..=SLOTS).map(begin).collect(),
            places: places.into(),
        }
    }

    /// The best, where `cost` is below 2^63; it depends on the server alone, and changes only when
    /// a change is counted.
    pub(super) fn best(
        &self,
        servers: &[ServerPlan],
        draw: u64,
        cost: impl Fn(usize, &ServerPlan) -> u64,
    ) -> Best {
        let Some(server) = servers.first() else { return Best::NONE };
        let Some(mut memory) = self.memory.try_lock() else {
            return best_of_all(servers, draw, cost);
        };
        let look = |place: usize| {
            let server = &servers[place];
            (cost_with_limit(server, cost(place, server)), tag(server))
        };
        self.look_again(&mut memory, &server.state.group.changes, look);
        if mem::take(&mut memory.is_blank) {
            memory.begin(draw, look);
        }
        memory.best()
    }

    /// Looks at servers that have changed; notes the counts alone where nobody has been looked at.
    fn look_again(
        &self,
        memory: &mut Memory,
        changes: &Changes,
        look: impl Fn(usize) -> (u64, u64),
    ) {
        for (at, word) in self.words.iter().enumerate() {
            let word = usize::from(*word);
            let count = changes.of(word);
            let seen = mem::replace(&mut memory.seen[at], count);
            if seen == count || memory.is_blank {
                continue;
            }
            for slot in differing(word, seen, count) {
                for place in &self.places[self.of_slot(slot)] {
                    let place = usize::from(*place);
                    memory.replace(place, look(place));
                }
            }
        }
    }

    fn of_slot(&self, slot: usize) -> Range<usize> {
        usize::from(self.begins[slot])..usize::from(self.begins[slot + 1])
    }
}

impl Memory {
    fn blank(servers: usize, words: usize) -> Self {
        let (mut entries, mut round) = (servers, servers);
        while round > 1 {
            round = round.div_ceil(HEAT);
            entries += round;
        }
        Self {
            seen: vec![0; words].into(),
            servers,
            entries: vec![Entry::MAX; entries].into(),
            newest: 0,
            start: 0,
            is_blank: true,
        }
    }

    /// Looks at all servers.
    fn begin(&mut self, draw: u64, look: impl Fn(usize) -> (u64, u64)) {
        self.start = part(draw, self.servers as u64) as usize;
        for place in 0..self.servers {
            self.entries[place] = self.entry(place, look(place));
        }
        self.newest = self.newest();
        (0..self.servers).step_by(HEAT).for_each(|place| self.run_heats(place));
    }

    fn entry(&self, place: usize, (cost, tag): (u64, u64)) -> Entry {
        let behind = if place < self.start { place + self.servers } else { place } - self.start;
        let tag = tag.min(TAG_MAX);
        Entry::from(cost) << 64 | Entry::from(tag << ORDER_BITS | behind as u64)
    }

    fn newest(&self) -> u64 {
        self.entries[..self.servers].iter().map(|entry| tag_of(*entry)).max().unwrap_or(0)
    }

    /// Takes in what a server that has changed has.
    fn replace(&mut self, place: usize, (cost, tag): (u64, u64)) {
        let entry = self.entry(place, (cost, tag));
        let before = mem::replace(&mut self.entries[place], entry);
        self.newest = match tag < tag_of(before) {
            // Turns have begun anew.
            true => self.newest(),
            false => self.newest.max(tag),
        };
        self.run_heats(place);
    }

    /// Finds who wins the heats of an entry, from round to round.
    fn run_heats(&mut self, place: usize) {
        let (mut begin, mut length, mut place) = (0, self.servers, place);
        while length > 1 {
            let heat = place / HEAT;
            let first = begin + heat * HEAT;
            let end = (first + HEAT).min(begin + length);
            let winner = self.entries[first..end].iter().copied().fold(Entry::MAX, Entry::min);
            begin += length;
            self.entries[begin + heat] = winner;
            (length, place) = (length.div_ceil(HEAT), heat);
        }
    }

    fn best(&self) -> Best {
        let cost = self.entries.last().copied().unwrap_or(Entry::MAX);
        let place = (cost as u16 as usize + self.start) % self.servers;
        Best { cost, place, newest: self.newest }
    }
}

const fn tag_of(entry: Entry) -> u64 {
    entry as u64 >> ORDER_BITS
}

/// How many are compared with each other: two lines of a cache.
const HEAT: usize = 8;

/// Of an entry, for the order of equals.
const ORDER_BITS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::policy::{
        draw::splitmix64,
        least::{Steps, choose_best, least, tag},
        testing::{draws, everyone, servers},
    };
    use alloc::vec::Vec;
    use core::{cell::Cell, sync::atomic::Ordering::Relaxed};
    use proptest::prelude::*;

    const EQUAL: Steps<'_> = Steps { each: &[], longest: 1 };

    fn in_flight(_: usize, server: &ServerPlan) -> u64 {
        u64::from(server.state.in_flight())
    }

    fn choose<'a>(
        many: &LeastOfMany,
        servers: &'a [ServerPlan],
        draw: u64,
        open: impl Fn(&ServerPlan) -> bool,
    ) -> Option<&'a ServerPlan> {
        let best = many.best(servers, draw, in_flight);
        choose_best(servers, best, draw, open, in_flight, &EQUAL)
    }

    /// Requests are taken by the choice or by chance, and end in any order.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Choose(u64),
        Take(usize),
        End(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => any::<u64>().prop_map(Step::Choose),
            1 => any::<usize>().prop_map(Step::Take),
            3 => any::<usize>().prop_map(Step::End),
        ]
    }

    proptest! {
        /// Whatever happened before, it costs as much and has as early a turn as what is found by
        /// looking at all.
        #[test]
        fn the_choice_is_as_good_as_by_looking_at_all(
            limits in prop::collection::vec(1u32..6, 1..120),
            closed: u64,
            steps in prop::collection::vec(step(), 1..300),
        ) {
            let mut servers = servers(&Vec::from_iter(limits.iter().map(|_| 1)));
            for (server, limit) in servers.iter_mut().zip(&limits) {
                server.limits.in_flight = *limit;
            }
            let many = LeastOfMany::new(&servers);
            let mut under_way: Vec<usize> = Vec::new();
            let is_open = |server: &ServerPlan| {
                closed >> (server.index % 64) & 1 == 0
                    && server.state.in_flight() < server.limits.in_flight
            };
            for step in steps {
                match step {
                    Step::Choose(draw) => {
                        let open = servers.iter().filter(|server| is_open(server));
                        let best = open.map(|server| (server.state.in_flight(), tag(server))).min();
                        let before = Vec::from_iter(servers.iter().map(tag));
                        let chosen = choose(&many, &servers, draw, is_open);
                        let of_chosen = chosen.map(|server| {
                            let at = usize::from(server.index);
                            (server.state.in_flight(), before[at])
                        });
                        prop_assert_eq!(of_chosen, best);
                        if let Some(server) = chosen {
                            prop_assert!(server.state.reserve(server.limits.in_flight));
                            under_way.push(usize::from(server.index));
                        }
                    }
                    Step::Take(at) => {
                        let server = &servers[at % servers.len()];
                        if server.state.reserve(server.limits.in_flight) {
                            under_way.push(usize::from(server.index));
                        }
                    }
                    Step::End(at) => {
                        let at = at.checked_rem(under_way.len());
                        let server = at.map(|at| under_way.swap_remove(at));
                        server.into_iter().for_each(|at| servers[at].state.release());
                    }
                }
            }
        }
    }

    #[test]
    fn a_full_server_that_costs_least_is_passed_without_asking_all_others() {
        let mut servers = servers(&[1; 60]);
        servers.iter().for_each(|server| server.state.in_flight.store(50, Relaxed));
        servers[7].limits.in_flight = 10;
        servers[7].state.in_flight.store(10, Relaxed);
        let many = LeastOfMany::new(&servers);
        let asked = Cell::new(0);
        let open = |server: &ServerPlan| {
            asked.set(asked.get() + 1);
            server.state.in_flight() < server.limits.in_flight
        };
        for draw in draws().take(100) {
            assert_ne!(choose(&many, &servers, draw, open).unwrap().index, 7);
        }
        assert_eq!(asked.get(), 100);
    }

    /// As many edges begin at the same moment, and each knows of its own requests only.
    #[test]
    fn the_first_choices_of_many_edges_are_spread_over_all_servers() {
        let mut counts = [0; 100];
        for edge in 0..20_000u64 {
            let servers = servers(&[1; 100]);
            let draw = splitmix64(edge);
            let many = LeastOfMany::new(&servers);
            let chosen = choose(&many, &servers, draw, everyone);
            counts[chosen.map_or(0, |server| usize::from(server.index))] += 1;
        }
        let (fewest, most) = (counts.iter().min(), counts.iter().max());
        assert!(fewest > Some(&130) && most < Some(&270), "200 each: {counts:?}");
    }

    #[test]
    fn turns_are_those_of_looking_at_all() {
        let weights = [1; 60];
        let (one, other) = (servers(&weights), servers(&weights));
        let many = LeastOfMany::new(&one);
        let (mut by_many, mut by_all) = ([0; 60], [0; 60]);
        for draw in draws().take(6_000) {
            let chosen = choose(&many, &one, draw, everyone).unwrap();
            chosen.state.group.changes.count(chosen.state.id());
            by_many[usize::from(chosen.index)] += 1;
            let chosen = least(&other, draw, everyone, in_flight, &EQUAL).unwrap();
            by_all[usize::from(chosen.index)] += 1;
        }
        assert_eq!((by_many, by_all), ([100; 60], [100; 60]));
    }

    /// Numbers have an end: what is remembered of tags holds no longer then.
    #[test]
    fn turns_that_begin_anew_are_known_to_who_remembers_the_old_ones() {
        let servers = servers(&[1; 60]);
        servers.iter().for_each(|server| server.state.tag.store(TAG_MAX, Relaxed));
        let many = LeastOfMany::new(&servers);
        let mut counts = [0; 60];
        for draw in draws().take(61) {
            let chosen = choose(&many, &servers, draw, everyone).unwrap();
            chosen.state.group.changes.count(chosen.state.id());
            counts[usize::from(chosen.index)] += 1;
        }
        assert_eq!(counts.iter().max(), Some(&2), "{counts:?}");
        assert!(servers.iter().all(|server| tag(server) <= 2));
    }
}
