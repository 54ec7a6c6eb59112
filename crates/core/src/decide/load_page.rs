//! What every server of a group has to do, side by side.
//!
//! A policy that compares all servers reads this of each of them for every request. In the
//! [state](crate::decide::ledger::ServerState) of a server it would be on a cache line of its own;
//! here it is four to a line. Four servers share a line that a request on any of them writes, too:
//! no more than all of them share the counts of their group, which each request writes as well.
//!
//! A page is kept as long as any of its servers is known. An entry is given to one server only: one
//! that comes later, in the place of one that has gone, has another.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::{array, ops::Range};

use crate::decide::atomic::{AtomicU32, AtomicU64};

/// What one server has to do.
#[derive(Debug, Default)]
pub(crate) struct ServerLoad {
    /// Requests in flight.
    pub in_flight: AtomicU32,
    /// Its finish tag, as in fair queueing: requests it was given per weight. Of servers that are
    /// tied the one with the least is chosen.
    pub tag: AtomicU64,
}

const _: () = assert!(size_of::<ServerLoad>() == 16);

/// The loads of some servers of one group.
#[derive(Debug)]
pub(crate) struct LoadPage([ServerLoad; ON_A_PAGE]);

impl LoadPage {
    pub(crate) fn get(&self, at: u8) -> &ServerLoad {
        &self.0[usize::from(at) % ON_A_PAGE]
    }
}

/// Where the load of a server is.
#[derive(Clone, Debug)]
pub(crate) struct LoadEntry {
    pub page: Arc<LoadPage>,
    pub at: u8,
}

/// Gives each server of a group an entry, in the order in which they become known.
#[derive(Debug, Default)]
pub(crate) struct LoadPages {
    last: Option<LoadEntry>,
}

impl LoadPages {
    pub(crate) fn entry(&mut self) -> LoadEntry {
        let next = match self.last.take() {
            Some(LoadEntry { page, at }) if usize::from(at) + 1 < ON_A_PAGE => {
                LoadEntry { page, at: at + 1 }
            }
            _ => {
                let page = Arc::new(LoadPage(array::from_fn(|_| ServerLoad::default())));
                LoadEntry { page, at: 0 }
            }
        };
        self.last = Some(next.clone());
        next
    }
}

/// The loads of the servers of a plan, in its order.
#[derive(Debug)]
pub(crate) struct Loads {
    /// Entries of a page that follow each other.
    runs: Box<[(Arc<LoadPage>, Range<u8>)]>,
}

impl Loads {
    pub(crate) fn of(entries: impl Iterator<Item = LoadEntry>) -> Self {
        let mut runs: Vec<(Arc<LoadPage>, Range<u8>)> = Vec::new();
        for LoadEntry { page, at } in entries {
            match runs.last_mut() {
                Some((last, run)) if Arc::ptr_eq(last, &page) && run.end == at => run.end += 1,
                _ => runs.push((page, at..at + 1)),
            }
        }
        Self { runs: runs.into() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ServerLoad> {
        let entries = |run: &Range<u8>| usize::from(run.start)..usize::from(run.end);
        self.runs.iter().flat_map(move |(page, run)| &page.0[entries(run)])
    }
}

/// Four cache lines: a group of a few servers wastes less than it takes otherwise.
const ON_A_PAGE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use core::{ptr, sync::atomic::Ordering::Relaxed};

    fn load(entry: &LoadEntry) -> &ServerLoad {
        entry.page.get(entry.at)
    }

    #[test]
    fn loads_are_those_of_the_entries_in_their_order_whichever_are_missing() {
        let mut pages = LoadPages::default();
        let all: Vec<LoadEntry> = (0..50).map(|_| pages.entry()).collect();
        let places = [0..3, 5..6, 7..30, 40..50, 30..31].into_iter().flatten();
        let entries: Vec<LoadEntry> = places.map(|place| all[place].clone()).collect();
        let loads = Loads::of(entries.iter().cloned());
        assert_eq!(loads.iter().count(), entries.len());
        assert!(loads.iter().zip(&entries).all(|(it, entry)| ptr::eq(it, load(entry))));
        assert!(loads.runs.len() <= 7, "{:?}", loads.runs);
    }

    #[test]
    fn no_two_servers_have_the_same_entry() {
        let mut pages = LoadPages::default();
        let entries: Vec<LoadEntry> = (0..40).map(|_| pages.entry()).collect();
        entries.iter().zip(0..).for_each(|(it, n)| load(it).in_flight.store(n, Relaxed));
        let counts = entries.iter().map(|entry| load(entry).in_flight.load(Relaxed));
        assert!(counts.eq(0..40));
    }
}
