//! What is stored, by key, and in which order it leaves.
//!
//! A key and what is under it are in the place that the eviction gives them. Beside that there are
//! only the numbers of the places, by the hashes of keys: 5 bytes a key, with an eighth of them
//! free at least.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::atomic::Ordering::Relaxed,
};

use hashbrown::HashTable;
use loadline_core::{
    cache::eviction::{Eviction, Slot},
    units::Bytes,
};

use super::{
    disk::Disk,
    object::{ALLOCATION, Object},
    pinned::Pinned,
    purge::url_of,
    store::{Key, What},
};

/// A key, and what is known under it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) key: Key,
    pub(super) what: What,
}

impl Known {
    /// 1 for an object, 0 for anything else.
    fn object(&self) -> u64 {
        u64::from(matches!(self.what, What::Object(_)))
    }
}

/// All that is known.
#[derive(Debug)]
pub(super) struct Table {
    slots: HashTable<Slot>,
    known: Eviction<Known>,
    hasher: RandomState,
    /// How many keys have an object.
    objects: u64,
    /// Counts no pages that are counted here.
    pinned: Pinned,
}

impl Table {
    /// An empty one for so many bytes.
    pub(super) fn new(capacity: Bytes, pinned: Pinned) -> Self {
        let (slots, hasher) = (HashTable::new(), RandomState::new());
        Self { slots, known: Eviction::new(capacity), hasher, objects: 0, pinned }
    }

    /// How many objects there are.
    pub(super) const fn objects(&self) -> u64 {
        self.objects
    }

    /// What all of it takes.
    pub(super) fn bytes(&self) -> Bytes {
        self.known.bytes()
    }

    /// All of it, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Known> {
        self.slots.iter().filter_map(|slot| self.known.get(*slot))
    }

    /// The entry under a key.
    pub(super) fn get(&self, key: &[u8]) -> Option<&What> {
        Some(&self.known.get(self.slot(key)?)?.what)
    }

    /// What is under a key, which is asked for.
    pub(super) fn hit(&self, key: &[u8]) -> Option<&What> {
        let slot = self.slot(key)?;
        self.known.hit(slot);
        Some(&self.known.get(slot)?.what)
    }

    /// Whether an entry of so many bytes is not too large.
    pub(super) fn takes(&self, bytes: Bytes) -> bool {
        bytes <= self.known.object_max()
    }

    /// Inserts an entry under a new key and gives the evicted ones; gives the entry back if it is
    /// too large.
    pub(super) fn insert(&mut self, new: Known, bytes: Bytes) -> Result<Vec<Known>, Known> {
        if !self.takes(bytes) {
            return Err(new);
        }
        let (hash, mut evicted) = (self.hash(&new.key), Vec::new());
        let object = new.object();
        self.count(&new);
        let slot = self.known.insert(new, hash, bytes, &mut evicted);
        let evicted = self.unlink(evicted);
        if let Ok(slot) = slot {
            self.objects += object;
            let Self { slots, known, hasher, .. } = self;
            let again = |slot: &Slot| known.get(*slot).map_or(0, |it| hasher.hash_one(&it.key[..]));
            slots.insert_unique(hash, slot, again);
        }
        Ok(evicted)
    }

    /// Sets the bytes of a key and gives the evicted entries; none if that is too much, or the key
    /// is not there.
    pub(super) fn set_bytes(&mut self, key: &[u8], bytes: Bytes) -> Option<Vec<Known>> {
        let (slot, mut evicted) = (self.slot(key)?, Vec::new());
        self.known.set_bytes(slot, bytes, &mut evicted).ok()?;
        Some(self.unlink(evicted))
    }

    /// Sets the capacity, and the part of it usable at present; gives the evicted entries.
    pub(super) fn resize(&mut self, capacity: Bytes, room: Bytes) -> Vec<Known> {
        let mut evicted = Vec::new();
        if capacity != self.known.capacity() {
            self.known.resize(capacity, &mut evicted);
        }
        self.known.hold_to(room, &mut evicted);
        self.unlink(evicted)
    }

    /// Takes out what is under a key.
    pub(super) fn remove(&mut self, key: &[u8]) -> Option<Known> {
        let hash = self.hash(key);
        let Self { slots, known, .. } = self;
        let is_it = |slot: &Slot| is_at(known, *slot, key);
        let (slot, _) = slots.find_entry(hash, is_it).ok()?.remove();
        let removed = known.remove(slot);
        self.objects -= removed.as_ref().map_or(0, Known::object);
        removed.iter().for_each(|known| self.count_no_more(known));
        removed
    }

    /// Counts so many pages more of an object that is here.
    pub(super) fn count_more(&self, object: &Object, pages: u32) {
        object.counted.fetch_add(pages, Relaxed);
        self.pinned.take(pages);
    }

    fn count(&self, known: &Known) {
        if let What::Object(object) = &known.what {
            self.count_more(object, object.pages());
        }
    }

    fn count_no_more(&self, known: &Known) {
        if let What::Object(object) = &known.what {
            self.pinned.add(object.counted.swap(0, Relaxed));
        }
    }

    /// Offers what had to leave to the disk. It does so before the lock is free: whoever takes a
    /// URL out finds what there is of it in memory or on its way to the disk.
    pub(super) fn offer(&self, evicted: &[Known], disk: Option<&Disk>) {
        let Some(disk) = disk else { return };
        // A branch may have left together with what it leads to.
        let branch = |known: &Known| Some((known.key.clone(), known.what.branch_number()?));
        let branches: HashMap<Key, u64> = evicted.iter().filter_map(branch).collect();
        for Known { key, what } in evicted {
            if let What::Object(object) = what
                && self.leads(key, |url| branches.get(url).copied())
            {
                disk.offer(url_of(key), object);
            }
        }
    }

    /// Whether what is under a key can be found: its branch may have been taken out.
    pub(super) fn leads_to(&self, key: &[u8]) -> bool {
        self.leads(key, |_| None)
    }

    fn leads(&self, key: &[u8], left: impl Fn(&[u8]) -> Option<u64>) -> bool {
        let url = url_of(key);
        let Some(number) = key.get(url.len() + 1..).and_then(|rest| rest.first_chunk()) else {
            return true;
        };
        let branch = self.get(url).and_then(What::branch_number).or_else(|| left(url));
        branch == Some(u64::from_be_bytes(*number))
    }

    fn slot(&self, key: &[u8]) -> Option<Slot> {
        self.slots.find(self.hash(key), |slot| is_at(&self.known, *slot, key)).copied()
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Forgets the places of what has left.
    fn unlink(&mut self, evicted: Vec<(Slot, Known)>) -> Vec<Known> {
        let unlink = |(slot, known): (Slot, Known)| {
            let hash = self.hasher.hash_one(&known.key[..]);
            if let Ok(place) = self.slots.find_entry(hash, |other| *other == slot) {
                place.remove();
            }
            known
        };
        let gone: Vec<Known> = evicted.into_iter().map(unlink).collect();
        self.objects -= gone.iter().map(Known::object).sum::<u64>();
        gone.iter().for_each(|known| self.count_no_more(known));
        gone
    }
}

fn is_at(known: &Eviction<Known>, slot: Slot, key: &[u8]) -> bool {
    known.get(slot).is_some_and(|known| *known.key == *key)
}

/// What a key takes beside its bytes: its places, a fifth of them free, and its allocation.
pub(super) const ENTRY_BYTES: usize =
    (size_of::<Slot>() + 1) * 5 / 4 + Eviction::<Known>::bytes_per_object() + 2 * ALLOCATION;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use loadline_core::time::{Duration, Instant};
    use proptest::prelude::*;

    use super::*;

    fn until(number: u64) -> What {
        What::Unstorable(Instant::ZERO + Duration::from_nanos(number))
    }

    fn number(what: &What) -> u64 {
        match what {
            What::Unstorable(at) => at.as_nanos(),
            What::Object(_) | What::Branch(_) => unreachable!("there is nothing else"),
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Put(u8, u16),
        Remove(u8),
        Grow(u8, u16),
        Resize(u16),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (any::<u8>(), 1..300u16).prop_map(|(key, bytes)| Step::Put(key, bytes)),
            2 => any::<u8>().prop_map(Step::Remove),
            1 => (any::<u8>(), 1..300u16).prop_map(|(key, bytes)| Step::Grow(key, bytes)),
            1 => (500..3_000u16).prop_map(Step::Resize),
        ]
    }

    proptest! {
        /// Whatever leaves is told, and places that others have taken lead nobody astray.
        #[test]
        fn each_key_leads_to_what_was_put_there_last_until_it_has_left(
            steps in prop::collection::vec(step(), 1..400),
        ) {
            let mut table = Table::new(Bytes::new(2_000), Pinned::default());
            let mut there: BTreeMap<u8, u64> = BTreeMap::new();
            for (at, step) in (0u64..).zip(steps) {
                let left = match step {
                    Step::Put(key, bytes) => {
                        let before = table.remove(&[key]).map(|it| number(&it.what));
                        prop_assert_eq!(before, there.remove(&key));
                        let new = Known { key: [key].into(), what: until(at) };
                        let put = table.insert(new, Bytes::new(bytes.into()));
                        if put.is_ok() {
                            there.insert(key, at);
                        }
                        put.unwrap_or_default()
                    }
                    Step::Remove(key) => {
                        let removed = table.remove(&[key]).map(|it| number(&it.what));
                        prop_assert_eq!(removed, there.remove(&key));
                        Vec::new()
                    }
                    Step::Grow(key, bytes) => {
                        table.set_bytes(&[key], Bytes::new(bytes.into())).unwrap_or_default()
                    }
                    Step::Resize(bytes) => {
                        table.resize(Bytes::new(2_000), Bytes::new(bytes.into()))
                    }
                };
                for known in left {
                    prop_assert_eq!(there.remove(&known.key[0]), Some(number(&known.what)));
                }
                let counted = (table.known.len(), table.iter().count());
                prop_assert_eq!(counted, (there.len(), there.len()));
                for key in 0..=u8::MAX {
                    let found = table.hit(&[key]).map(number);
                    prop_assert_eq!(found, there.get(&key).copied());
                }
            }
        }
    }
}
