//! What is promised of the eviction, in stories and in random orders of operations.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::ToString,
    vec::Vec,
};

use proptest::prelude::*;

use super::*;

#[test]
fn what_is_asked_for_once_leaves_and_what_is_asked_for_often_stays() {
    let mut cache = filled(1_000);
    for slot in 0..50 {
        cache.hit(Slot::nth(slot));
        cache.hit(Slot::nth(slot));
    }
    let evicted = insert_all(&mut cache, 1_000..6_000);
    assert_eq!(evicted.len(), 5_000);
    let stayed = (0..50).filter(|id| !evicted.contains(id)).count();
    assert_eq!(stayed, 50, "of those that were hit twice");
}

#[test]
fn an_object_that_comes_back_soon_stays_longer() {
    let mut cache = filled(1_000);
    let evicted = insert_all(&mut cache, 1_000..1_100);
    let back = evicted[0];
    insert_all(&mut cache, back..back + 1);
    let evicted = insert_all(&mut cache, 2_000..2_900);
    assert!(!evicted.contains(&back), "a scan does not displace it");
}

#[test]
fn a_hit_at_a_place_where_nothing_is_does_nothing() {
    let mut cache = filled(1_000);
    assert_eq!(cache.remove(Slot::nth(7)), Some(7));
    cache.hit(Slot::nth(7));
    cache.hit(Slot::nth(123_456));
    assert_eq!((cache.remove(Slot::nth(7)), cache.get(Slot::nth(7))), (None, None));
    assert_eq!((cache.len(), cache.bytes()), (999, Bytes::new(999)));
}

#[test]
fn an_object_larger_than_its_share_is_refused_and_displaces_nothing() {
    let mut cache = filled(1_000);
    let refused = cache.insert(9, hash(9), Bytes::new(126), &mut Vec::new());
    assert_eq!(refused, Err(TooLarge { bytes: Bytes::new(126), max: Bytes::new(125) }));
    let text = refused.expect_err("it is too large").to_string();
    assert!(text.starts_with("an object of 126B is larger than the 125B that one"), "{text}");
    let grown = cache.set_bytes(Slot::nth(0), Bytes::new(126), &mut Vec::new());
    assert!(grown.is_err() && cache.len() == 1_000);
}

#[test]
fn an_object_without_bytes_counts_as_one() {
    let mut cache = Eviction::new(Bytes::new(100));
    let ids = 0..1_000;
    let mut evicted = Vec::new();
    for id in ids {
        cache.insert(id, hash(id), Bytes::new(0), &mut evicted).expect("it is small");
    }
    assert_eq!((cache.len(), evicted.len()), (100, 900));
}

#[test]
fn a_cache_that_has_less_room_for_a_time_takes_objects_as_large_as_before() {
    let mut cache = filled(1_000);
    let mut evicted = Vec::new();
    cache.hold_to(Bytes::new(300), &mut evicted);
    assert_eq!((evicted.len(), cache.bytes()), (700, Bytes::new(300)));
    assert_eq!((cache.capacity(), cache.object_max()), (Bytes::new(1_000), Bytes::new(125)));
    cache.insert(2_000, hash(2_000), Bytes::new(125), &mut evicted).expect("it is an eighth");
    assert!(cache.bytes() <= Bytes::new(300), "{}", cache.bytes());
    cache.hold_to(Bytes::new(2_000), &mut evicted);
    insert_all(&mut cache, 3_000..5_000);
    assert_eq!(cache.bytes(), Bytes::new(1_000), "no more than its capacity");
}

#[test]
fn a_cache_that_is_made_smaller_gives_back_what_has_to_leave() {
    let mut cache = filled(1_000);
    let mut evicted = Vec::new();
    cache.resize(Bytes::new(300), &mut evicted);
    assert_eq!((evicted.len(), cache.bytes()), (700, Bytes::new(300)));
    cache.resize(Bytes::new(0), &mut evicted);
    assert_eq!((evicted.len(), cache.is_empty()), (1_000, true));
    for bytes in [0, 1] {
        assert!(cache.insert(1, hash(1), Bytes::new(bytes), &mut evicted).is_err());
    }
}

#[test]
fn memory_is_what_is_said_of_it() {
    let mut cache = filled(10_000);
    insert_all(&mut cache, 10_000..200_000);
    let ghost = cache.memory().get() as usize - cache.entries.memory();
    assert!((15_000..=18_000).contains(&ghost), "{ghost} bytes for fingerprints");
    // The largest number of objects, and what a table that doubles has beyond it.
    let entries = cache.entries.memory() / Eviction::<u64>::bytes_per_object();
    assert!(entries <= 20_000, "{entries} places for 10,000 objects");
    assert_eq!(Eviction::<u64>::bytes_per_object(), 40);
}

proptest! {
    #[test]
    fn every_object_is_here_or_was_given_back_once(steps in steps()) {
        let mut model = Model::new();
        for step in steps {
            model.follow(step);
            model.check();
        }
    }
}

/// One operation on the cache; places are those of objects that are here, modulo their number.
#[derive(Clone, Copy, Debug)]
enum Step {
    Insert { key: u64, bytes: u64 },
    Hit(usize),
    Remove(usize),
    Grow(usize, u64),
    Resize(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..200_u64, 0..300_u64).prop_map(|(key, bytes)| Step::Insert { key, bytes }),
        8 => any::<usize>().prop_map(Step::Hit),
        1 => any::<usize>().prop_map(Step::Remove),
        1 => (any::<usize>(), 0..300_u64).prop_map(|(at, bytes)| Step::Grow(at, bytes)),
        1 => (0..4_000_u64).prop_map(Step::Resize),
    ];
    proptest::collection::vec(step, 1..400)
}

/// The cache, and what must be in it. Each object has an id of its own; keys come back.
struct Model {
    cache: Eviction<u64>,
    here: BTreeMap<u64, (Slot, u64)>,
    gone: BTreeSet<u64>,
    next: u64,
}

impl Model {
    fn new() -> Self {
        let cache = Eviction::new(Bytes::new(2_000));
        Self { cache, here: BTreeMap::new(), gone: BTreeSet::new(), next: 0 }
    }

    fn follow(&mut self, step: Step) {
        let at = |at: usize| self.here.iter().nth(at % self.here.len().max(1));
        let at = |place: usize| at(place).map(|(id, (slot, _))| (*id, *slot));
        let mut evicted = Vec::new();
        match step {
            Step::Insert { key, bytes } => self.insert(key, bytes, &mut evicted),
            Step::Hit(place) => at(place).into_iter().for_each(|(_, slot)| self.cache.hit(slot)),
            Step::Remove(place) => {
                let Some((id, slot)) = at(place) else { return };
                assert_eq!(self.cache.remove(slot), Some(id));
                self.leave(id);
            }
            Step::Grow(place, bytes) => {
                let Some((id, slot)) = at(place) else { return };
                if self.cache.set_bytes(slot, Bytes::new(bytes), &mut evicted).is_ok() {
                    self.here.insert(id, (slot, bytes.max(1)));
                }
            }
            Step::Resize(capacity) => self.cache.resize(Bytes::new(capacity), &mut evicted),
        }
        evicted.into_iter().for_each(|(_, id)| self.leave(id));
    }

    fn insert(&mut self, key: u64, bytes: u64, evicted: &mut Vec<(Slot, u64)>) {
        let id = self.next;
        self.next += 1;
        let fits = bytes.max(1) <= self.cache.object_max().get();
        let slot = self.cache.insert(id, hash(key), Bytes::new(bytes), evicted);
        assert_eq!(slot.is_ok(), fits);
        assert!(fits || evicted.is_empty());
        if let Ok(slot) = slot {
            self.here.insert(id, (slot, bytes.max(1)));
        }
    }

    fn leave(&mut self, id: u64) {
        assert!(self.here.remove(&id).is_some(), "{id} left and was not here");
        assert!(self.gone.insert(id), "{id} left twice");
    }

    fn check(&self) {
        let bytes: u64 = self.here.values().map(|(_, bytes)| bytes).sum();
        assert_eq!((self.cache.len(), self.cache.bytes().get()), (self.here.len(), bytes));
        assert!(self.cache.bytes() <= self.cache.capacity());
        for (id, (slot, _)) in &self.here {
            assert_eq!(self.cache.get(*slot), Some(id));
        }
        let ghost = self.cache.memory().get() as usize - self.cache.entries.memory();
        assert!(ghost <= 2 * 2_000, "{ghost} bytes for fingerprints of at most 2,000 objects");
    }
}

/// A cache for so many objects of a byte, full of objects 0 and following.
fn filled(objects: u64) -> Eviction<u64> {
    let mut cache = Eviction::new(Bytes::new(objects));
    assert!(insert_all(&mut cache, 0..objects).is_empty());
    cache
}

fn insert_all(cache: &mut Eviction<u64>, ids: core::ops::Range<u64>) -> Vec<u64> {
    let mut evicted = Vec::new();
    for id in ids {
        cache.insert(id, hash(id), Bytes::new(1), &mut evicted).expect("it is small");
    }
    evicted.into_iter().map(|(_, id)| id).collect()
}

fn hash(key: u64) -> u64 {
    (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
