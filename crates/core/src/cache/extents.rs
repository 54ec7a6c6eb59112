//! Which parts of a file are free: extents of whole pages, of which neighbours are one.

use alloc::collections::{BTreeMap, BTreeSet};

/// The free extents of a file, in pages. Taking and giving back are `O(log n)` in their number.
#[derive(Debug)]
pub struct Extents {
    /// Pages by the first of them.
    free: BTreeMap<u32, u32>,
    /// The same by length, then by the first page.
    by_length: BTreeSet<(u32, u32)>,
}

/// Pages that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Number of the first page.
    pub first: u32,
    /// How many; at least one.
    pub pages: u32,
}

impl Extent {
    /// The first page behind it.
    const fn end(self) -> u32 {
        self.first + self.pages
    }

    /// The whole huge pages in it, as pages.
    #[must_use]
    pub const fn huge(self) -> Option<Self> {
        let (first, end) =
            (self.first.next_multiple_of(HUGE_PAGE), self.end() / HUGE_PAGE * HUGE_PAGE);
        if first < end { Some(Self { first, pages: end - first }) } else { None }
    }
}

impl Extents {
    /// The free extents of an empty file with this many pages.
    #[must_use]
    pub fn new(pages: u32) -> Self {
        let mut extents = Self { free: BTreeMap::new(), by_length: BTreeSet::new() };
        if pages > 0 {
            extents.insert(Extent { first: 0, pages });
        }
        extents
    }

    /// Takes so many pages, from the shortest extent that has them; or all of the longest extent
    /// where none has. None where there is no page left, or none is wanted. What is as long as a
    /// huge page begins with one where there is room for that.
    pub fn take(&mut self, pages: u32) -> Option<Extent> {
        let shortest = |pages| self.by_length.range((pages, 0)..).next();
        let aligned =
            if pages < HUGE_PAGE { None } else { shortest(pages.saturating_add(HUGE_PAGE - 1)) };
        let fitting = aligned.or_else(|| shortest(pages)).or_else(|| self.by_length.last());
        let &(length, first) = fitting?;
        let start = if aligned.is_some() { first.next_multiple_of(HUGE_PAGE) } else { first };
        let from = Extent { first, pages: length };
        let taken = Extent { first: start, pages: pages.min(from.end() - start) };
        if taken.pages == 0 {
            return None;
        }
        self.remove(from);
        for (first, end) in [(first, start), (taken.end(), from.end())] {
            if first < end {
                self.insert(Extent { first, pages: end - first });
            }
        }
        Some(taken)
    }

    /// Gives back what [`Self::take`] gave.
    pub fn give(&mut self, extent: Extent) {
        let Extent { mut first, mut pages } = extent;
        let before = self.free.range(..first).next_back().map(|(first, pages)| (*first, *pages));
        if let Some((start, length)) = before.filter(|(start, length)| start + length == first) {
            self.remove(Extent { first: start, pages: length });
            (first, pages) = (start, length + pages);
        }
        if let Some(&length) = self.free.get(&(first + pages)) {
            self.remove(Extent { first: first + pages, pages: length });
            pages += length;
        }
        self.insert(Extent { first, pages });
    }

    fn insert(&mut self, Extent { first, pages }: Extent) {
        self.free.insert(first, pages);
        self.by_length.insert((pages, first));
    }

    fn remove(&mut self, Extent { first, pages }: Extent) {
        self.free.remove(&first);
        self.by_length.remove(&(pages, first));
    }
}

/// A huge page, in pages of 4 KiB.
pub const HUGE_PAGE: u32 = 512;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// Of the file in the property test.
    const PAGES: u32 = 4 * HUGE_PAGE;

    fn sizes() -> impl Strategy<Value = u32> {
        prop_oneof![0_u32..20, HUGE_PAGE - 2..2 * HUGE_PAGE]
    }

    #[test]
    fn the_shortest_extent_that_fits_is_taken_and_neighbours_become_one() {
        let mut extents = Extents::new(10);
        let all: Vec<Extent> = (0..5).filter_map(|_| extents.take(2)).collect();
        assert_eq!(extents.take(1), None);
        extents.give(all[0]);
        extents.give(all[2]);
        extents.give(all[3]);
        assert_eq!(extents.take(2), Some(all[0]));
        assert_eq!(extents.take(9), Some(Extent { first: 4, pages: 4 }), "all of the longest");
        assert_eq!(Extents::new(3).take(0), None);
    }

    #[test]
    fn what_is_as_long_as_a_huge_page_begins_with_one_where_there_is_room() {
        let mut extents = Extents::new(3 * HUGE_PAGE);
        let small = extents.take(3).unwrap();
        assert_eq!(small.huge(), None);
        let large = extents.take(HUGE_PAGE + 10).unwrap();
        assert_eq!(large, Extent { first: HUGE_PAGE, pages: HUGE_PAGE + 10 });
        assert_eq!(large.huge(), Some(Extent { first: HUGE_PAGE, pages: HUGE_PAGE }));
        let other = extents.take(HUGE_PAGE - 10).unwrap();
        assert_eq!(other.first, 2 * HUGE_PAGE + 10, "what is shorter begins anywhere");
        let rest = extents.take(HUGE_PAGE).unwrap();
        assert_eq!(rest, Extent { first: 3, pages: HUGE_PAGE - 3 }, "all that is left");
        assert_eq!(extents.take(1), None);
    }

    proptest! {
        #[test]
        fn no_page_is_given_twice_and_none_is_lost(
            steps in prop::collection::vec(
                (any::<bool>(), sizes(), any::<prop::sample::Index>()), 1..200
            ),
        ) {
            let mut extents = Extents::new(PAGES);
            let mut held: Vec<Extent> = Vec::new();
            for (takes, pages, which) in steps {
                if takes {
                    held.extend(extents.take(pages));
                } else if !held.is_empty() {
                    extents.give(held.swap_remove(which.index(held.len())));
                }
                let mut used = [false; PAGES as usize];
                let free = extents.free.iter().map(|(&first, &pages)| Extent { first, pages });
                for extent in held.iter().copied().chain(free) {
                    for page in extent.first..extent.first + extent.pages {
                        prop_assert!(!core::mem::replace(&mut used[page as usize], true));
                    }
                }
                prop_assert!(used.iter().all(|page| *page));
                prop_assert_eq!(extents.free.len(), extents.by_length.len());
            }
            held.into_iter().for_each(|extent| extents.give(extent));
            prop_assert_eq!(extents.take(64), Some(Extent { first: 0, pages: 64 }));
        }
    }
}
