//! A calendar queue: what is due next, in a time that does not grow with how much is planned.
//!
//! Time is cut into days, of which a year has as many as the calendar has pages. What falls into
//! the year ahead is put on the page of its day, in no order; what comes later is kept in a heap
//! until its day is less than a year away. Only the entries of today are sorted, in a heap that
//! has a few:
//!
//! ```text
//! later (heap) --less than a year away--> page of its day (list) --its day--> today (heap)
//! ```
//! How long a day is and how many there are follows from how much is planned and how fast it
//! becomes due. The order of the entries does not depend on it: by time, then as they came.
//!
//! Source: R. Brown, Calendar queues: a fast O(1) priority queue implementation for the simulation
//! event set problem, Communications of the ACM 31 (10), 1988.

use std::{cmp::Ordering, collections::BinaryHeap, iter};

use loadline_linux::prefetch::prefetch;

/// Entries by time.
#[derive(Debug)]
pub(super) struct Calendar<T> {
    /// What is due today, or was due before.
    today: BinaryHeap<Entry<T>>,
    /// By day of the year the first of a list of cards.
    pages: Vec<u32>,
    /// By day of the year, 64 in each, whether its page has any card.
    written: Vec<u64>,
    cards: Vec<Card<T>>,
    /// The first of the list of cards that are blank.
    blank: u32,
    /// How many cards are on pages.
    count: usize,
    /// What is due in a year or later.
    later: BinaryHeap<Entry<T>>,
    /// Which day it is, since the start.
    day: u64,
    /// A day has two to the power of this units of time.
    shift: u32,
    inserted: u64,
    /// When the length of a day was last looked at, by the clock and by the count.
    looked: (u64, u64),
}

/// What is due at a time.
#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    at: u64,
    /// From 1, in the order in which entries were inserted.
    number: u64,
    what: T,
}

/// An entry of a page, and the card that comes after it.
#[derive(Clone, Copy, Debug)]
struct Card<T> {
    entry: Entry<T>,
    next: u32,
}

impl<T> Default for Calendar<T> {
    fn default() -> Self {
        Self {
            today: BinaryHeap::new(),
            pages: vec![NONE; FEWEST_DAYS],
            written: vec![0; FEWEST_DAYS / DAYS_OF_WORD],
            cards: Vec::new(),
            blank: NONE,
            count: 0,
            later: BinaryHeap::new(),
            day: 0,
            shift: FIRST_SHIFT,
            inserted: 0,
            looked: (0, 0),
        }
    }
}

impl<T: Copy> Calendar<T> {
    pub(super) fn insert(&mut self, at: u64, what: T) {
        self.inserted += 1;
        self.put(Entry { at, number: self.inserted, what });
    }

    /// Takes out what is due first.
    pub(super) fn next(&mut self) -> Option<(u64, T)> {
        while self.today.is_empty() {
            if !self.turn() {
                return None;
            }
        }
        let Entry { at, what, .. } = self.today.pop()?;
        if self.inserted - self.looked.1 >= LOOK_AFTER.max(self.len() as u64) {
            self.look(at);
        }
        Some((at, what))
    }

    /// Which day it is, since the start.
    pub(super) const fn day(&self) -> u64 {
        self.day
    }

    /// What is due on a day of the year ahead, in no order; nothing where that is not known yet.
    pub(super) fn on(&self, day: u64) -> impl Iterator<Item = &T> {
        let mut next = self.pages[self.page(day)];
        iter::from_fn(move || {
            let card = self.cards.get(next as usize)?;
            next = card.next;
            Some(&card.entry.what)
        })
    }

    /// Has the first card of a day fetched.
    pub(super) fn prefetch(&self, day: u64) {
        let first = self.pages[self.page(day)];
        self.cards.get(first as usize).into_iter().for_each(prefetch);
    }

    fn len(&self) -> usize {
        self.today.len() + self.count + self.later.len()
    }

    fn put(&mut self, entry: Entry<T>) {
        let ahead = (entry.at >> self.shift).saturating_sub(self.day);
        if ahead == 0 {
            return self.today.push(entry);
        }
        if ahead >= self.pages.len() as u64 {
            return self.later.push(entry);
        }
        let page = self.page(self.day + ahead);
        let card = Card { entry, next: self.pages[page] };
        self.pages[page] = self.keep(card);
        self.written[page / DAYS_OF_WORD] |= 1 << (page % DAYS_OF_WORD);
        self.count += 1;
    }

    /// Writes a card, on a blank one if there is any.
    fn keep(&mut self, card: Card<T>) -> u32 {
        let at = self.blank;
        if at == NONE {
            self.cards.push(card);
            return (self.cards.len() - 1) as u32;
        }
        let place = &mut self.cards[at as usize];
        self.blank = place.next;
        *place = card;
        at
    }

    fn page(&self, day: u64) -> usize {
        // Their number is a power of two.
        (day & (self.pages.len() as u64 - 1)) as usize
    }

    /// Goes on to the next day on which anything is due; false where nothing is.
    fn turn(&mut self) -> bool {
        self.day = match (self.count, self.later.peek()) {
            (0, None) => return false,
            (0, Some(first)) => first.at >> self.shift,
            _ => self.next_written(),
        };
        let page = self.page(self.day);
        self.written[page / DAYS_OF_WORD] &= !(1 << (page % DAYS_OF_WORD));
        let mut next = std::mem::replace(&mut self.pages[page], NONE);
        while next != NONE {
            let at = next;
            let card = &mut self.cards[at as usize];
            next = std::mem::replace(&mut card.next, self.blank);
            self.today.push(card.entry);
            self.blank = at;
            self.count -= 1;
        }
        while self.later.peek().is_some_and(|first| self.is_near(first.at)) {
            let near = self.later.pop();
            near.into_iter().for_each(|entry| self.put(entry));
        }
        true
    }

    /// The next day of the year ahead whose page has a card; one has.
    fn next_written(&self) -> u64 {
        let tomorrow = self.day + 1;
        let from = self.page(tomorrow);
        let mut at = from / DAYS_OF_WORD;
        let mut days = self.written[at] >> (from % DAYS_OF_WORD) << (from % DAYS_OF_WORD);
        // The first word once more at the end: the year goes around.
        for _ in 0..self.written.len() {
            if days != 0 {
                break;
            }
            at = (at + 1) % self.written.len();
            days = self.written[at];
        }
        let page = at * DAYS_OF_WORD + days.trailing_zeros() as usize;
        tomorrow + (page + self.pages.len() - from) as u64 % self.pages.len() as u64
    }

    /// Whether it is less than a year away.
    fn is_near(&self, at: u64) -> bool {
        (at >> self.shift).saturating_sub(self.day) < self.pages.len() as u64
    }

    /// Looks whether days should be longer or shorter, or more or fewer.
    fn look(&mut self, now: u64) {
        let (since, before) = self.looked;
        self.looked = (now, self.inserted);
        // As many become due as are inserted, in the long run.
        let gap = now.saturating_sub(since) / (self.inserted - before).max(1);
        let shift = ((gap | 1).ilog2() + 1).min(LAST_SHIFT);
        let days = (YEAR * self.len()).next_power_of_two().clamp(FEWEST_DAYS, MOST_DAYS);
        let is_near = |one: usize, other: usize| one / 4 < other && other / 4 < one;
        if shift.abs_diff(self.shift) > 1 || !is_near(days, self.pages.len()) {
            self.rewrite(now >> shift, shift, days);
        }
    }

    fn rewrite(&mut self, day: u64, shift: u32, days: usize) {
        let mut entries = Vec::with_capacity(self.len());
        entries.extend(self.today.drain());
        for page in &self.pages {
            let mut next = *page;
            while let Some(card) = self.cards.get(next as usize) {
                entries.push(card.entry);
                next = card.next;
            }
        }
        entries.extend(self.later.drain());
        self.cards.clear();
        self.pages = vec![NONE; days];
        self.written = vec![0; days / DAYS_OF_WORD];
        (self.blank, self.count) = (NONE, 0);
        (self.day, self.shift) = (day, shift);
        entries.into_iter().for_each(|entry| self.put(entry));
    }
}

impl<T> Entry<T> {
    /// Both in one number: it is compared several times for each entry.
    const fn key(&self) -> u128 {
        (self.at as u128) << 64 | self.number as u128
    }
}

impl<T> Ord for Entry<T> {
    /// The earliest is the greatest, so that a heap gives it first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

/// No card.
const NONE: u32 = u32::MAX;

/// A day of a millisecond, until it is known how much happens on one.
const FIRST_SHIFT: u32 = 20;
const LAST_SHIFT: u32 = 62;

/// Days of a year for each entry: what is planned is due within a few times the mean distance.
const YEAR: usize = 4;

/// Days in a word of those that are written.
const DAYS_OF_WORD: usize = u64::BITS as usize;

const FEWEST_DAYS: usize = 256;
const MOST_DAYS: usize = 1 << 22;

/// Insertions between two looks at the length of a day, at least; also at least as many as there
/// are entries, so that rewriting costs no more than inserting did.
const LOOK_AFTER: u64 = 1_024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Some distances between entries, from none at all to longer than any year.
    fn distances() -> impl Strategy<Value = u64> {
        prop_oneof![
            Just(0),
            0u64..1_000,
            0u64..100_000_000,
            (0u32..50).prop_map(|power| 1 << power),
        ]
    }

    /// Distances of what is inserted, and how many are taken out then.
    fn step() -> impl Strategy<Value = (Vec<u64>, usize)> {
        (prop::collection::vec(distances(), 0..40), 0usize..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// Beside a heap that knows of no days, whenever the calendar is rewritten.
        #[test]
        fn it_gives_what_a_heap_gives(steps in prop::collection::vec(step(), 1..200)) {
            let (mut calendar, mut heap) = (Calendar::default(), BinaryHeap::new());
            let (mut now, mut number) = (0, 0u64);
            for (inserted, taken) in steps {
                for distance in inserted {
                    number += 1;
                    calendar.insert(now + distance, number);
                    heap.push(Entry { at: now + distance, number, what: number });
                }
                for _ in 0..taken {
                    let expected = heap.pop().map(|entry: Entry<u64>| (entry.at, entry.what));
                    prop_assert_eq!(calendar.next(), expected);
                    now = expected.map_or(now, |(at, _)| at);
                }
            }
            let rest = iter::from_fn(|| calendar.next()).map(|(_, what)| what);
            let expected = iter::from_fn(|| heap.pop()).map(|entry| entry.what);
            prop_assert_eq!(Vec::from_iter(rest), Vec::from_iter(expected));
        }
    }

    /// Where many come at one instant, days are short and most of them empty.
    #[test]
    fn days_on_which_nothing_is_due_are_passed_in_one_step() {
        let mut calendar = Calendar::default();
        for days in [&[0_u64, 1, 63, 64, 200, 255, 300][..], &[301, 554, 555], &[10_000, 10_001]] {
            days.iter().for_each(|day| calendar.insert(day << FIRST_SHIFT, *day));
            for day in days {
                assert!(*day == 0 || calendar.turn());
                assert_eq!(calendar.day(), *day);
                assert_eq!(calendar.today.pop().map(|entry| entry.what), Some(*day));
            }
        }
        assert!(!calendar.turn());
    }

    /// That is what makes it fast.
    #[test]
    fn a_day_becomes_as_long_as_it_takes_a_few_entries_to_become_due() {
        for distance in [10, 10_000, 10_000_000_000] {
            let mut calendar = Calendar::default();
            (0..10_000).for_each(|n| calendar.insert(n * distance, ()));
            let mut most = 0;
            for turn in 0..100_000 {
                let (at, ()) = calendar.next().expect("as many are inserted");
                calendar.insert(at + 10_000 * distance, ());
                most = if turn < 50_000 { 0 } else { most.max(calendar.today.len()) };
            }
            assert!(most <= 4, "{most} of one day, {distance} apart");
            assert!(calendar.later.is_empty(), "{distance}");
        }
    }
}
