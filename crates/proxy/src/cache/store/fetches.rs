//! Which fetches are under way, and who joins them.
//!
//! A key has the fetches that were begun for it, in that order: a request that may not use what is
//! coming begins one more. Only the last one is joined. What one of them brings is not stored once
//! a later one has come to its end: it is older.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, MutexGuard, PoisonError},
};

use loadline_core::cache::Metadata;
use smallvec::SmallVec;

use super::{Join, Key, Store};
use crate::cache::{arrival::Arrival, purge::url_of, sweeps::Closed};

/// Those of one URL are beside one another.
pub(super) type Fetches = BTreeMap<Key, SmallVec<[Arc<Arrival>; 1]>>;

impl Store {
    /// Joins the fetch for a key, or begins one, unless `has_come` what it would bring.
    pub(crate) fn join(&self, key: &Key, has_come: impl FnOnce() -> bool) -> Join {
        self.join_if(key, |_| true, has_come)
    }

    /// The same, where a response whose head has come is only joined if it `is_usable`.
    pub(crate) fn join_if(
        &self,
        key: &Key,
        is_usable: impl FnOnce(&Metadata) -> bool,
        has_come: impl FnOnce() -> bool,
    ) -> Join {
        let mut fetches = self.fetches();
        let last = fetches.get(key).and_then(|all| all.last());
        if let Some(reader) = last.and_then(|arrival| arrival.read_if(is_usable)) {
            return Join::Other(reader);
        }
        // Whoever ends a fetch stores first, so that nobody fetches again what has just come.
        if has_come() {
            return Join::Again;
        }
        let arrival = Arc::<Arrival>::default();
        let Some(reader) = arrival.read() else { return Join::Again };
        fetches.entry(key.clone()).or_default().push(arrival);
        Join::Begin(reader)
    }

    /// Lets those who ask for `other` join the fetch that is under way for `key`; false where it is
    /// closed.
    pub(crate) fn share(&self, key: &[u8], other: &Key, arrival: &Arc<Arrival>) -> bool {
        let mut fetches = self.fetches();
        if !has(&fetches, key, arrival) {
            return false;
        }
        let all = fetches.entry(other.clone()).or_default();
        let at = all.partition_point(|other| other.number() < arrival.number());
        all.insert(at, arrival.clone());
        true
    }

    /// Whether a fetch is under way for a key, and not closed.
    pub(crate) fn is_open(&self, key: &[u8], arrival: &Arc<Arrival>) -> bool {
        has(&self.fetches(), key, arrival)
    }

    /// Marks the end of a fetch that is not closed, and closes those that were begun before it for
    /// the same; none if it is closed.
    pub(crate) fn ended(&self, key: &[u8], arrival: &Arc<Arrival>) -> Option<Closed> {
        let mut fetches = self.fetches();
        let all = fetches.get_mut(key)?;
        let at = all.iter().position(|other| Arc::ptr_eq(other, arrival))?;
        all.drain(..at);
        Some(self.sweeps.closed())
    }

    /// Closes a fetch: nobody joins it any more; none if it is closed.
    pub(crate) fn close(&self, key: &[u8], arrival: &Arc<Arrival>) -> Option<Closed> {
        let mut fetches = self.fetches();
        let all = fetches.get_mut(key)?;
        let at = all.iter().position(|other| Arc::ptr_eq(other, arrival))?;
        all.remove(at);
        if all.is_empty() {
            fetches.remove(key);
        }
        Some(self.sweeps.closed())
    }

    /// Closes the fetches of this URL, or those whose keys `names` matches: nobody joins them and
    /// nothing of them is stored. Gives their number.
    pub(crate) fn close_all(&self, url: Option<&[u8]>, names: impl Fn(&[u8]) -> bool) -> u64 {
        let mut fetches = self.fetches();
        let named: Vec<Key> = match url {
            Some(url) => {
                let from = (Bound::Included(url), Bound::Unbounded);
                let from = fetches.range::<[u8], _>(from).map(|(key, _)| key);
                from.take_while(|key| url_of(key) == url).cloned().collect()
            }
            None => fetches.keys().filter(|key| names(key)).cloned().collect(),
        };
        let gone: Vec<_> = named.iter().filter_map(|key| fetches.remove(key)).collect();
        // Under the lock: whoever closes a fetch after this is seen here, and whoever has closed
        // one before sees this once the table has been looked at, by the lock of that.
        self.sweeps.note(url);
        distinct(gone.iter().flatten())
    }

    /// How many fetches are under way.
    pub(crate) fn fetch_count(&self) -> u64 {
        distinct(self.fetches().values().flatten())
    }

    fn fetches(&self) -> MutexGuard<'_, Fetches> {
        self.fetches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has(fetches: &Fetches, key: &[u8], arrival: &Arc<Arrival>) -> bool {
    fetches.get(key).is_some_and(|all| all.iter().any(|other| Arc::ptr_eq(other, arrival)))
}

/// How many these are: one may be joined by two keys.
fn distinct<'a>(fetches: impl Iterator<Item = &'a Arc<Arrival>>) -> u64 {
    let mut all: Vec<_> = fetches.map(Arc::as_ptr).collect();
    all.sort_unstable();
    all.dedup();
    all.len() as u64
}
