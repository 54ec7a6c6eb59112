//! Where the dynamic table of an encoder has a field, in constant time.
//!
//! Hashes lead to four places each with numbers of entries, and whether an entry is what was looked
//! for, its bytes say. So neither an old place nor an equal hash does more harm than that a field
//! is not found, and the hash need not withstand who seeks equal ones.

use super::dynamic_table::Table;

/// Numbers of entries by hashes of them.
#[derive(Debug)]
pub(super) struct Lookup {
    /// Empty until there is an entry.
    sets: Vec<Set>,
}

type Set = [Place; 4];

#[derive(Clone, Copy, Default, Debug)]
struct Place {
    /// The hash's highest bits.
    tag: u16,
    /// The entry's number, its lowest bits; a table has 128 at most.
    number: u16,
}

impl Lookup {
    pub(super) const fn new() -> Self {
        Self { sets: Vec::new() }
    }

    /// How many entries are newer than one with this hash that `is_it` by name and value.
    #[inline]
    pub(super) fn find(
        &self,
        table: &Table,
        hash: u64,
        is_it: impl Fn(&[u8], &[u8]) -> bool,
    ) -> Option<u32> {
        let set = self.sets.get(hash as usize % SETS)?;
        let tag = tag(hash);
        let next = table.inserted() as u16;
        for place in set {
            if place.tag == tag {
                let newer = u32::from(next.wrapping_sub(place.number).wrapping_sub(1));
                if table.get(newer).is_some_and(|(name, value)| is_it(name, value)) {
                    return Some(newer);
                }
            }
        }
        None
    }

    /// Notes the newest entry of the table, in the place of the oldest.
    pub(super) fn note(&mut self, table: &Table, hash: u64) {
        if self.sets.is_empty() {
            self.sets = vec![Set::default(); SETS];
        }
        let Some(set) = self.sets.get_mut(hash as usize % SETS) else { return };
        let next = table.inserted() as u16;
        let noted = Place { tag: tag(hash), number: next.wrapping_sub(1) };
        // An entry of the same name is newer now.
        let place = set.iter_mut().max_by_key(|place| {
            (place.tag == noted.tag, next.wrapping_sub(place.number).wrapping_sub(1))
        });
        if let Some(place) = place {
            *place = noted;
        }
    }
}

const fn tag(hash: u64) -> u16 {
    (hash >> 48) as u16
}

/// A table of the usual 40 entries seldom has five in one set.
const SETS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: u64 = 0x0123_4567_89ab_cdef;

    #[test]
    fn an_entry_is_found_until_it_is_gone() {
        let mut table = Table::new();
        let mut lookup = Lookup::new();
        let is_first = |name: &[u8], value: &[u8]| name == b"a" && value == b"1";
        assert_eq!(lookup.find(&table, HASH, is_first), None);
        table.insert(b"a", b"1");
        lookup.note(&table, HASH);
        assert_eq!(lookup.find(&table, HASH, is_first), Some(0));
        table.insert(b"b", b"2");
        lookup.note(&table, HASH);
        // The newer one has its place, as their hashes are equal.
        assert_eq!(lookup.find(&table, HASH, is_first), None);
        assert_eq!(lookup.find(&table, HASH, |name, _| name == b"b"), Some(0));
        table.resize(0);
        assert_eq!(lookup.find(&table, HASH, |_, _| true), None);
    }
}
