//! The fields that a connection has learnt (RFC 7541, 2.3.2 and 4), the newest first.
//!
//! Texts stand in one piece of memory in the order in which they came, so that each is a slice.
//! Where the memory is full, what is still in the table moves to its beginning. A table that
//! nothing enters has no memory, and none has more than 4 KiB and 1 KiB for its entries.

use super::TABLE_BYTES;

/// Entries are known by how many are newer: 0 is the newest.
#[derive(Debug)]
pub(super) struct Table {
    /// The texts of entries, of some that are gone at first.
    texts: Vec<u8>,
    /// How many bytes of texts have been before the first one here; wraps.
    before: u32,
    /// A ring: entry number `n` is at `n` modulo its length, a power of two.
    entries: Vec<Entry>,
    /// How many entries there have been, the number of the next one; wraps.
    inserted: u32,
    count: u32,
    /// The entries' size, 32 bytes each and their texts.
    size: u32,
    limit: u32,
}

#[derive(Clone, Copy, Default, Debug)]
struct Entry {
    /// How many bytes of texts have been before its own; wraps.
    at: u32,
    name: u16,
    value: u16,
}

impl Table {
    pub(super) const fn new() -> Self {
        Self {
            texts: Vec::new(),
            before: 0,
            entries: Vec::new(),
            inserted: 0,
            count: 0,
            size: 0,
            limit: TABLE_BYTES,
        }
    }

    /// How many entries there have been; wraps.
    pub(super) const fn inserted(&self) -> u32 {
        self.inserted
    }

    pub(super) const fn limit(&self) -> u32 {
        self.limit
    }

    /// Name and value of the entry that so many are newer than.
    #[inline]
    pub(super) fn get(&self, newer: u32) -> Option<(&[u8], &[u8])> {
        if newer >= self.count {
            return None;
        }
        let entry = self.entry(self.inserted.wrapping_sub(newer).wrapping_sub(1))?;
        let text = self.texts.get(entry.at.wrapping_sub(self.before) as usize..)?;
        let (name, rest) = text.split_at_checked(usize::from(entry.name))?;
        Some((name, rest.get(..usize::from(entry.value))?))
    }

    /// Adds a field; the oldest ones go where there is no room for it, and all of them do where
    /// there never could be.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = size(name, value);
        if size > self.limit as usize {
            self.evict(0);
            return;
        }
        // No more than the limit.
        let size = size as u32;
        self.evict(self.limit - size);
        self.make_room(name.len() + value.len());
        let at = self.before.wrapping_add(self.texts.len() as u32);
        self.texts.extend_from_slice(name);
        self.texts.extend_from_slice(value);
        let slot = self.slot(self.inserted);
        if let Some(entry) = self.entries.get_mut(slot) {
            *entry = Entry { at, name: name.len() as u16, value: value.len() as u16 };
            self.inserted = self.inserted.wrapping_add(1);
            self.count += 1;
            self.size += size;
        }
    }

    /// Lets the table be as big as this; the oldest entries go where it is bigger.
    pub(super) fn resize(&mut self, limit: u32) {
        self.limit = limit;
        self.evict(limit);
    }

    /// Removes the oldest entries until the rest is as small as this.
    fn evict(&mut self, most: u32) {
        while self.size > most {
            let Some(entry) = self.entry(self.oldest()) else { return };
            self.size -= OVERHEAD + u32::from(entry.name) + u32::from(entry.value);
            self.count -= 1;
        }
    }

    /// Makes room for one entry more, and for so many bytes of its text.
    fn make_room(&mut self, text: usize) {
        if self.texts.capacity() - self.texts.len() < text {
            let oldest = self.entry(self.oldest()).filter(|_| self.count > 0);
            let gone = oldest.map(|oldest| oldest.at.wrapping_sub(self.before) as usize);
            let gone = gone.unwrap_or(self.texts.len()).min(self.texts.len());
            self.texts.drain(..gone);
            self.before = self.before.wrapping_add(gone as u32);
            // A quarter stays free, so that not every entry has all others move.
            let most = TABLE_BYTES as usize;
            let kept = self.texts.len();
            let wanted = ((kept + text) * 4 / 3).next_power_of_two().clamp(LEAST_TEXT, most);
            if wanted > self.texts.capacity() {
                self.texts.reserve_exact(wanted - kept);
            }
        }
        if self.count as usize == self.entries.len() {
            let mut entries = vec![Entry::default(); (2 * self.entries.len()).max(LEAST_ENTRIES)];
            let mask = entries.len() - 1;
            for newer in 1..=self.count {
                let number = self.inserted.wrapping_sub(newer);
                if let Some(entry) = self.entry(number) {
                    entries[number as usize & mask] = entry;
                }
            }
            self.entries = entries;
        }
    }

    const fn oldest(&self) -> u32 {
        self.inserted.wrapping_sub(self.count)
    }

    #[inline]
    fn entry(&self, number: u32) -> Option<Entry> {
        self.entries.get(self.slot(number)).copied()
    }

    #[inline]
    const fn slot(&self, number: u32) -> usize {
        number as usize & self.entries.len().wrapping_sub(1)
    }
}

/// What a field takes of a table (RFC 7541, 4.1).
pub(super) const fn size(name: &[u8], value: &[u8]) -> usize {
    name.len() + value.len() + OVERHEAD as usize
}

const OVERHEAD: u32 = 32;

/// Most connections never have more than this: a host, a user agent, a date.
const LEAST_TEXT: usize = 256;
const LEAST_ENTRIES: usize = 8;

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// What is in the table, the newest first.
    fn content(table: &Table) -> Vec<(Vec<u8>, Vec<u8>)> {
        (0..).map_while(|newer| table.get(newer)).map(|(a, b)| (a.into(), b.into())).collect()
    }

    #[test]
    fn nothing_is_allocated_before_the_first_entry() {
        let mut table = Table::new();
        table.resize(0);
        table.resize(4096);
        table.insert(&[b'a'; 4096], b"");
        assert_eq!((table.texts.capacity(), table.entries.capacity()), (0, 0));
    }

    #[test]
    fn an_entry_bigger_than_the_table_empties_it() {
        let mut table = Table::new();
        table.insert(b"a", b"1");
        table.insert(b"b", &[b'x'; 4096]);
        assert_eq!(content(&table), []);
        table.insert(b"c", b"3");
        assert_eq!(content(&table), [(b"c".to_vec(), b"3".to_vec())]);
    }

    #[test]
    fn a_table_of_the_smallest_entries_holds_128() {
        let mut table = Table::new();
        for _ in 0..1000 {
            table.insert(b"", b"");
        }
        assert_eq!(content(&table).len(), 128);
        assert_eq!(table.entries.len(), 128);
    }

    proptest! {
        #[test]
        fn it_is_a_queue_of_bounded_size(
            steps in prop::collection::vec((0..5u8, 0..70usize, 0..1500usize, 0..4200u32), 0..200),
        ) {
            let mut table = Table::new();
            let mut model = VecDeque::new();
            let mut limit = 4096;
            for (at, (kind, name, value, bytes)) in steps.into_iter().enumerate() {
                if kind == 0 {
                    limit = bytes.min(4096);
                    table.resize(limit);
                } else {
                    let value = if kind < 4 { value % 60 } else { value };
                    let field = (vec![at as u8; name], vec![!at as u8; value]);
                    table.insert(&field.0, &field.1);
                    model.push_front(field);
                }
                let size = |model: &VecDeque<(Vec<u8>, Vec<u8>)>| -> usize {
                    model.iter().map(|(name, value)| size(name, value)).sum()
                };
                while size(&model) > limit as usize {
                    model.pop_back();
                }
                prop_assert_eq!(content(&table), Vec::from(model.clone()));
                prop_assert_eq!(table.size as usize, size(&model));
                prop_assert!(table.texts.capacity() <= 4096);
            }
        }
    }
}
