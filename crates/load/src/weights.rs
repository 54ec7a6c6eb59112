//! Which of several targets is next: smooth weighted round robin.
//!
//! With weights 5, 1, 1 the turns are a a b a c a a: exact over every round of as many turns as the
//! weights sum to, the same in every run, and never all of one target together.
//! Each turn every target gains its weight; the one with the most is chosen and pays the sum.

use std::cell::{Cell, RefCell};

use crate::plan::Share;

/// The turns of targets with weights.
#[derive(Debug)]
pub struct Turns {
    weights: Vec<i64>,
    credits: RefCell<Vec<i64>>,
    /// Turns of others before the next, and before each after it.
    others: (Cell<u32>, u32),
}

impl Turns {
    /// Turns in these proportions. Where all are zero, the first is always chosen.
    #[must_use]
    pub fn new(weights: impl Iterator<Item = u32>) -> Self {
        let weights: Vec<_> = weights.map(i64::from).collect();
        let credits = RefCell::new(vec![0; weights.len()]);
        Self { weights, credits, others: (Cell::new(0), 0) }
    }

    /// Those of them that are dealt to one of several generators.
    pub(crate) fn dealt(self, share: Share) -> Self {
        Self { others: (Cell::new(share.number), share.of - 1), ..self }
    }

    /// The number of the next target.
    #[must_use]
    pub fn next(&self) -> usize {
        if self.weights.len() == 1 {
            return 0;
        }
        let (before, between) = &self.others;
        for _ in 0..before.replace(*between) {
            self.turn();
        }
        self.turn()
    }

    fn turn(&self) -> usize {
        let credits = &mut *self.credits.borrow_mut();
        let mut chosen = 0;
        for (number, weight) in self.weights.iter().enumerate() {
            credits[number] += weight;
            if credits[number] > credits[chosen] {
                chosen = number;
            }
        }
        credits[chosen] -= self.weights.iter().sum::<i64>();
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
