//! The server of the least cost among many, found by looking at those that have changed.
//!
//! It is as good as that of [`best_of_all`](super::least::best_of_all), among equals of equal tags
//! by chance too. The servers are in blocks; of each its best is remembered, with the count of its
//! changes at that time ([`Changes`]). A choice looks again at blocks of another count, then at the
//! best of each: with a hundred servers at some thirty places, with a thousand at some three
//! hundred.
//!
//! While one worker looks at a block, others that need it look for themselves.

use alloc::boxed::Box;
use core::{
    ops::Range,
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use crate::decide::{
    ledger::changes::{Changes, block},
    plan::ServerPlan,
    policy::{draw::part, least::Best},
};

/// What is remembered of the servers of a group.
#[derive(Debug)]
pub(crate) struct LeastOfMany {
    blocks: Box<[Block]>,
}

impl LeastOfMany {
    /// Of these servers, whose changes are counted from now on.
    pub(super) fn new(servers: &[ServerPlan]) -> Self {
        servers.iter().for_each(|server| server.state.group.changes.watch());
        let mut begin = 0;
        let blocks = servers.chunk_by(|one, other| of(one) == of(other)).map(|chunk| {
            let places = begin..begin + chunk.len();
            begin = places.end;
            Block::new(of(&chunk[0]), places)
        });
        Self { blocks: blocks.collect() }
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
        let changes = &server.state.group.changes;
        let better = |best: Best, block: &Block| {
            best.better(block.best(changes, || block.look(servers, draw, &cost)))
        };
        // A random server, so that blocks of few begin less often.
        let first = part(draw, servers.len() as u64);
        let start = self.blocks.partition_point(|block| u64::from(block.end) <= first);
        let best = self.blocks[start..].iter().fold(Best::NONE, better);
        self.blocks[..start].iter().fold(best, better)
    }
}

fn of(server: &ServerPlan) -> usize {
    block(server.state.id())
}

/// Servers whose changes are counted together, and the best of them when they were looked at last.
#[derive(Debug)]
struct Block {
    /// The count of changes then, or [`UNKNOWN`].
    seen: AtomicU32,
    begin: u16,
    end: u16,
    place: AtomicU32,
    number: u32,
    cost: AtomicU64,
    tag: AtomicU64,
    /// The largest tag of the block.
    newest: AtomicU64,
}

impl Block {
    const fn new(number: usize, places: Range<usize>) -> Self {
        Self {
            seen: AtomicU32::new(UNKNOWN),
            begin: places.start as u16,
            end: places.end as u16,
            place: AtomicU32::new(0),
            number: number as u32,
            cost: AtomicU64::new(0),
            tag: AtomicU64::new(0),
            newest: AtomicU64::new(0),
        }
    }

    /// The best of its servers, by `look` where they have changed since they were looked at.
    fn best(&self, changes: &Changes, look: impl FnOnce() -> Best) -> Best {
        let count = changes.of(self.number as usize);
        let is_known = count < LOOKING;
        if is_known && count == self.seen.load(Acquire) {
            let (cost, tag) = (self.cost.load(Relaxed), self.tag.load(Relaxed));
            return Best {
                cost: u128::from(cost) << 64 | u128::from(tag),
                place: self.place.load(Relaxed) as usize,
                newest: self.newest.load(Relaxed),
            };
        }
        let remembers = is_known && self.seen.swap(LOOKING, Acquire) != LOOKING;
        let best = look();
        if remembers {
            self.cost.store((best.cost >> 64) as u64, Relaxed);
            self.tag.store(best.cost as u64, Relaxed);
            self.place.store(best.place as u32, Relaxed);
            self.newest.store(best.newest, Relaxed);
            self.seen.store(count, Release);
        }
        best
    }

    /// The best of its servers; of those that are alike the first from a random place on.
    fn look(
        &self,
        servers: &[ServerPlan],
        draw: u64,
        cost: impl Fn(usize, &ServerPlan) -> u64,
    ) -> Best {
        let (begin, end) = (usize::from(self.begin), usize::from(self.end));
        let start = begin + part(draw.rotate_left(32), (end - begin) as u64) as usize;
        let best = Best::NONE.or_of(&servers[start..end], start, &cost);
        best.or_of(&servers[begin..start], begin, &cost)
    }
}

/// Not a count: a worker looks.
const LOOKING: u32 = u32::MAX - 1;

/// Not a count: nobody has looked.
const UNKNOWN: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::policy::{
        draw::splitmix64,
        least::{Steps, choose_best, least, tag},
        testing::{draws, everyone, servers},
    };
    use alloc::vec::Vec;
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
        servers.iter().for_each(|server| server.state.tag.store(u64::MAX / 2, Relaxed));
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
