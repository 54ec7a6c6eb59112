//! A line of those that wait, by class: who is next, and who goes when it is full.
//!
//! A higher class is always before a lower one; within a class it is first come, first served. A
//! newcomer that finds no place takes that of somebody of a lower class: of the lowest class there
//! is, the one that has waited longest. It has the least of its time left, and would be served
//! after all of the higher classes, if at all; those behind it move up, so that whoever is served
//! in the end has waited less. (Dropping from the front rather than from the tail: Lakshman,
//! Neidhardt and Ott, "The drop from front strategy in TCP and in TCP over ATM", 1996.) Within its
//! own class nobody is displaced: a newcomer that finds only its equals is refused.

use alloc::collections::BTreeMap;

use crate::fleet::Class;

/// Those that wait, each with a `T`.
#[derive(Debug)]
pub struct Line<T> {
    waiting: BTreeMap<Rank, T>,
    joined: u64,
}

/// A place in a [`Line`]. The smallest is the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    class: Class,
    number: u64,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), joined: 0 }
    }
}

impl<T> Line<T> {
    /// Joins behind all of its own class and of higher ones.
    pub fn join(&mut self, class: Class, waiter: T) -> Rank {
        self.joined += 1;
        let rank = Rank { class, number: self.joined };
        self.waiting.insert(rank, waiter);
        rank
    }

    /// Takes somebody out; none if it has been displaced.
    pub fn leave(&mut self, rank: Rank) -> Option<T> {
        self.waiting.remove(&rank)
    }

    /// Takes out whoever gives way to a newcomer of this class, if anybody does.
    pub fn displace(&mut self, newcomer: Class) -> Option<T> {
        let (last, _) = self.waiting.last_key_value()?;
        let lowest = last.class;
        if lowest <= newcomer {
            return None;
        }
        let oldest = Rank { class: lowest, number: 0 };
        let (rank, _) = self.waiting.range(oldest..).next()?;
        let rank = *rank;
        self.waiting.remove(&rank)
    }

    /// Whoever is next.
    pub fn first_mut(&mut self) -> Option<(Rank, &mut T)> {
        self.waiting.iter_mut().next().map(|(rank, waiter)| (*rank, waiter))
    }

    /// Whoever has this place; none if it has been displaced.
    pub fn get_mut(&mut self, rank: Rank) -> Option<&mut T> {
        self.waiting.get_mut(&rank)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn order(mut line: Line<u32>) -> Vec<u32> {
        let mut order = Vec::new();
        while let Some((rank, _)) = line.first_mut() {
            order.extend(line.leave(rank));
        }
        order
    }

    #[test]
    fn higher_classes_go_first_and_equals_in_the_order_they_came() {
        let mut line = Line::default();
        for (class, name) in [(Class::Low, 1), (Class::Normal, 2), (Class::High, 3)] {
            line.join(class, name);
            line.join(class, name + 10);
        }
        assert_eq!(order(line), [3, 13, 2, 12, 1, 11]);
    }

    #[test]
    fn the_oldest_of_the_lowest_class_gives_way_to_a_higher_one_alone() {
        let mut line = Line::default();
        line.join(Class::Normal, 1);
        line.join(Class::Low, 2);
        line.join(Class::Low, 3);
        assert_eq!(line.displace(Class::Low), None);
        assert_eq!(line.displace(Class::Normal), Some(2));
        assert_eq!(line.displace(Class::High), Some(3));
        assert_eq!(line.displace(Class::High), Some(1));
        assert_eq!(line.displace(Class::High), None);
    }

    #[test]
    fn a_place_that_was_taken_is_gone() {
        let mut line = Line::default();
        let rank = line.join(Class::Low, 1);
        assert_eq!(line.displace(Class::High), Some(1));
        assert_eq!(line.get_mut(rank), None);
        assert_eq!(line.leave(rank), None);
    }

    proptest! {
        #[test]
        fn nobody_gives_way_to_an_equal_or_lower_class(
            classes in prop::collection::vec(0usize..3, 1..40),
            newcomer in 0usize..3,
        ) {
            let mut line = Line::default();
            for class in &classes {
                line.join(Class::ALL[*class], *class);
            }
            let lowest = classes.iter().max().copied();
            let displaced = line.displace(Class::ALL[newcomer]);
            prop_assert_eq!(displaced, lowest.filter(|lowest| *lowest > newcomer));
        }
    }
}
