//! Which of several targets is next: smooth weighted round robin.
//!
//! With weights 5, 1, 1 the turns are a a b a c a a: exact over every round of as many turns as the
//! weights sum to, the same in every run, and never all of one target together.
//! Each turn every target gains its weight; the one with the most is chosen and pays the sum.
//!
//! Targets of one weight are chosen one after another, so that a turn costs as much as there are
//! different weights, however many the targets are.

use std::{
    cell::{Cell, RefCell},
    cmp::Reverse,
    collections::BTreeMap,
};

use crate::plan::Share;

/// The turns of targets with weights.
#[derive(Debug)]
pub struct Turns {
    alike: RefCell<Vec<Alike>>,
    /// Of all weights.
    sum: i64,
    /// Turns of others before the next, and before each after it.
    others: (Cell<u32>, u32),
}

/// The targets of one weight, in their order.
#[derive(Debug)]
struct Alike {
    weight: i64,
    targets: Vec<usize>,
    /// Index of the target that is chosen next; all before it were chosen in this round.
    next: usize,
    /// Credit of that target.
    credit: i64,
}

impl Turns {
    /// Turns in these proportions. Where all are zero, the first is always chosen.
    #[must_use]
    pub fn new(weights: impl Iterator<Item = u32>) -> Self {
        let mut alike: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (target, weight) in weights.enumerate() {
            alike.entry(weight).or_default().push(target);
        }
        let of = |(weight, targets): (u32, Vec<usize>)| Alike {
            weight: i64::from(weight),
            targets,
            next: 0,
            credit: 0,
        };
        let alike: Vec<_> = alike.into_iter().map(of).collect();
        let sum = alike.iter().map(|alike| alike.weight * alike.targets.len() as i64).sum();
        Self { alike: RefCell::new(alike), sum, others: (Cell::new(0), 0) }
    }

    /// Those of them that are dealt to one of several generators.
    pub(crate) fn dealt(self, share: Share) -> Self {
        Self { others: (Cell::new(share.number), share.of - 1), ..self }
    }

    /// The number of the next target.
    #[must_use]
    pub fn next(&self) -> usize {
        if self.sum == 0 {
            return 0;
        }
        let (before, between) = &self.others;
        for _ in 0..before.replace(*between) {
            self.turn();
        }
        self.turn()
    }

    fn turn(&self) -> usize {
        let alike = &mut *self.alike.borrow_mut();
        alike.iter_mut().for_each(|alike| alike.credit += alike.weight);
        let most = alike.iter_mut().max_by_key(|alike| (alike.credit, Reverse(alike.first())));
        most.map_or(0, |chosen| chosen.take(self.sum))
    }
}

impl Alike {
    fn first(&self) -> usize {
        self.targets[self.next]
    }

    /// Chooses the first, which pays `sum`.
    fn take(&mut self, sum: i64) -> usize {
        let chosen = self.first();
        self.next += 1;
        if self.next == self.targets.len() {
            self.next = 0;
            self.credit -= sum;
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_target_has_its_share_in_every_round_and_never_in_one_block() {
        let turns = Turns::new([5, 1, 1].into_iter());
        for _ in 0..3 {
            let round: Vec<_> = (0..7).map(|_| turns.next()).collect();
            assert_eq!(round, [0, 0, 1, 0, 2, 0, 0]);
        }
    }

    #[test]
    fn several_generators_take_the_turns_that_one_would() {
        let part = |number| {
            let turns = Turns::new([5, 1, 1].into_iter()).dealt(Share { number, of: 3 });
            (0..7).map(|_| turns.next()).collect::<Vec<_>>()
        };
        let whole = Turns::new([5, 1, 1].into_iter());
        let parts = [part(0), part(1), part(2)];
        for number in 0..21 {
            assert_eq!(parts[number % 3][number / 3], whole.next(), "turn {number}");
        }
    }

    #[test]
    fn a_target_of_weight_zero_is_never_chosen_beside_others() {
        let turns = Turns::new([0, 2, 1].into_iter());
        let round: Vec<_> = (0..6).map(|_| turns.next()).collect();
        assert_eq!(round, [1, 2, 1, 1, 2, 1]);
    }

    /// As they are defined: every target by itself.
    fn one_by_one(weights: &[u32], turns: usize) -> Vec<usize> {
        let mut credits = vec![0; weights.len()];
        let sum = weights.iter().copied().map(i64::from).sum::<i64>();
        let mut turn = || {
            let mut chosen = 0;
            for (number, weight) in weights.iter().enumerate() {
                credits[number] += i64::from(*weight);
                if credits[number] > credits[chosen] {
                    chosen = number;
                }
            }
            credits[chosen] -= sum;
            chosen
        };
        (0..turns).map(|_| turn()).collect()
    }

    proptest! {
        #[test]
        fn targets_of_one_weight_take_the_turns_that_each_would_by_itself(
            weights in prop::collection::vec(0u32..6, 1..20),
        ) {
            let turns = Turns::new(weights.iter().copied());
            let taken: Vec<_> = (0..200).map(|_| turns.next()).collect();
            prop_assert_eq!(taken, one_by_one(&weights, 200));
        }
    }
}
