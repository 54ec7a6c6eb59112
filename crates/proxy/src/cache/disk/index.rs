//! Where the record of each response is: 40 to 75 bytes of memory for each.
//!
//! Responses are known by a hash of their URL, and among those of a URL by a *tag*: a hash of what
//! tells them apart, their variant and the values of the fields that they name in `Vary`. A record
//! has all of these, so that a hash that two of them have in common is found when one is read.
//!
//! An entry stays, *dead*, where its record must not be used any more but is still on disk: whoever
//! asks whether there is anything of a URL there is told the truth, which decides whether a purge
//! has to be recorded.

use std::{collections::HashMap, sync::Arc};

use aws_lc_rs::digest::{SHA256, digest};
use loadline_core::cache::{Fields, Vary};

/// Everything that is on disk.
#[derive(Debug, Default)]
pub(super) struct Index {
    first: HashMap<u64, Entry>,
    /// Further entries of URLs that have more than one.
    more: HashMap<u64, Vec<Entry>>,
    varies: Vec<Arc<Vary>>,
    live: u64,
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) segment: u32,
    pub(super) offset: u32,
    pub(super) bytes: u32,
    pub(super) tag: u32,
    /// Index of what it varies by.
    pub(super) vary: u16,
    pub(super) is_dead: bool,
    /// Whether it was read since it was written.
    pub(super) was_read: bool,
}

/// Identifies a response in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ident {
    pub(super) url: u64,
    pub(super) tag: u32,
}

impl Ident {
    pub(super) fn of(url: &[u8], variant: &[u8], secondary: &[u8]) -> Self {
        Self { url: hash(url), tag: tag(variant, secondary) }
    }
}

impl Index {
    /// Those of a URL that may be used, with what each varies by.
    pub(super) fn of_url(&self, url: u64) -> Vec<(Entry, Arc<Vary>)> {
        let live = self.entries(url).filter(|entry| !entry.is_dead);
        let vary = |entry: &Entry| self.varies.get(usize::from(entry.vary)).cloned();
        live.filter_map(|entry| Some((*entry, vary(entry)?))).collect()
    }

    fn entries(&self, url: u64) -> impl Iterator<Item = &Entry> {
        let more = self.more.get(&url).into_iter().flatten();
        self.first.get(&url).into_iter().chain(more)
    }

    fn entry_mut(&mut self, Ident { url, tag }: Ident) -> Option<&mut Entry> {
        let more = self.more.get_mut(&url).into_iter().flatten();
        self.first.get_mut(&url).into_iter().chain(more).find(|entry| entry.tag == tag)
    }

    pub(super) fn get(&self, ident: Ident) -> Option<&Entry> {
        self.entries(ident.url).find(|entry| entry.tag == ident.tag)
    }

    /// Whether anything of a URL may be on disk.
    pub(super) fn has_url(&self, url: u64) -> bool {
        self.first.contains_key(&url)
    }

    /// Whether a record of a URL that varies like this, and has this tag, may be on disk.
    pub(super) fn has(&self, url: u64, is_it: impl Fn(&Vary, u32) -> bool) -> bool {
        let vary = |entry: &Entry| self.varies.get(usize::from(entry.vary));
        self.entries(url).any(|entry| vary(entry).is_some_and(|vary| is_it(vary, entry.tag)))
    }

    /// The number of what a response varies by; none where there are too many.
    pub(super) fn vary(&mut self, vary: &Vary) -> Option<u16> {
        if let Some(at) = self.varies.iter().position(|known| **known == *vary) {
            return u16::try_from(at).ok();
        }
        if self.varies.len() >= VARIES {
            return None;
        }
        self.varies.push(Arc::new(vary.clone()));
        u16::try_from(self.varies.len() - 1).ok()
    }

    /// Puts an entry in place of another with its tag.
    pub(super) fn insert(&mut self, url: u64, entry: Entry) {
        self.live += u64::from(!entry.is_dead);
        if let Some(before) = self.entry_mut(Ident { url, tag: entry.tag }) {
            let was_live = !before.is_dead;
            *before = entry;
            self.live -= u64::from(was_live);
            return;
        }
        if let Some(first) = self.first.insert(url, entry) {
            self.more.entry(url).or_default().push(first);
        }
    }

    /// Lets nobody use a record any more, if it is still this one.
    pub(super) fn kill(&mut self, ident: Ident, is_it: impl Fn(&Entry) -> bool) {
        if let Some(entry) = self.entry_mut(ident).filter(|it| !it.is_dead && is_it(it)) {
            entry.is_dead = true;
            self.live -= 1;
        }
    }

    /// Notes that a record is read.
    pub(super) fn hit(&mut self, ident: Ident) {
        if let Some(entry) = self.entry_mut(ident) {
            entry.was_read = true;
        }
    }

    /// Removes and gives the entries of a URL for which `which` holds.
    pub(super) fn remove(&mut self, url: u64, which: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let mut all: Vec<Entry> = self.first.remove(&url).into_iter().collect();
        all.extend(self.more.remove(&url).into_iter().flatten());
        let (gone, mut kept): (Vec<_>, Vec<_>) = all.into_iter().partition(which);
        self.live -= gone.iter().filter(|entry| !entry.is_dead).count() as u64;
        if let Some(first) = kept.pop() {
            self.first.insert(url, first);
        }
        if !kept.is_empty() {
            self.more.insert(url, kept);
        }
        gone
    }

    /// Responses that may be used.
    pub(super) const fn live(&self) -> u64 {
        self.live
    }

    /// The memory that it takes: a table has a byte beside each place, and an eighth of them free.
    pub(super) fn memory(&self) -> u64 {
        let places = self.first.capacity() * 8 / 7;
        let more = self.more.capacity() * (size_of::<(u64, Vec<Entry>)>() + 1);
        let of_more: usize = self.more.len() * 2 * size_of::<Entry>();
        (places * (size_of::<(u64, Entry)>() + 1) + more + of_more) as u64
    }
}

impl Entry {
    /// Whether both are the same record.
    pub(super) fn is_at(&self, other: &Self) -> bool {
        (self.segment, self.offset) == (other.segment, other.offset)
    }
}

/// The tag of the response that a request selects among those of its URL with this `vary`; none if
/// no request can select it.
pub(super) fn tag_for(vary: &Vary, variant: &[u8], request: Fields<'_>) -> Option<u32> {
    Some(tag(variant, &vary.secondary_key(request)?))
}

fn tag(variant: &[u8], secondary: &[u8]) -> u32 {
    let length = (variant.len() as u32).to_le_bytes();
    hash(&[&length, variant, secondary].concat()) as u32
}

/// The same in every process, as it is on disk; nobody can choose URLs that have it in common.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let digest = digest(&SHA256, bytes);
    let mut first = [0; 8];
    first.copy_from_slice(&digest.as_ref()[..8]);
    u64::from_le_bytes(first)
}

/// Each is looked for among the others.
const VARIES: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(segment: u32, tag: u32) -> Entry {
        Entry { segment, offset: 0, bytes: 9, tag, vary: 0, is_dead: false, was_read: false }
    }

    #[test]
    fn a_url_has_as_many_entries_as_there_are_tags() {
        let mut index = Index::default();
        let vary = index.vary(&Vary::Fields(Box::default())).unwrap();
        assert_eq!(index.vary(&Vary::Fields(Box::default())), Some(vary));
        for tag in 0..3 {
            index.insert(7, entry(1, tag));
        }
        index.insert(7, entry(2, 1));
        assert_eq!((index.live(), index.of_url(7).len()), (3, 3));
        assert_eq!(index.get(Ident { url: 7, tag: 1 }).map(|it| it.segment), Some(2));
        index.kill(Ident { url: 7, tag: 1 }, |it| it.segment == 1);
        assert_eq!(index.live(), 3, "another record");
        index.kill(Ident { url: 7, tag: 1 }, |it| it.segment == 2);
        assert_eq!((index.live(), index.of_url(7).len(), index.has_url(7)), (2, 2, true));
        assert_eq!(index.remove(7, |it| it.segment == 1).len(), 2);
        assert_eq!((index.live(), index.has_url(7)), (0, true), "the dead one is there");
        index.remove(7, |_| true);
        assert!(!index.has_url(7));
    }

    #[test]
    fn an_entry_takes_as_much_memory_as_is_said() {
        assert_eq!(size_of::<(u64, Entry)>(), 32);
        let mut index = Index::default();
        (0..100_000).for_each(|url| index.insert(url, entry(1, 0)));
        let each = index.memory() / 100_000;
        assert!((33..=75).contains(&each), "{each}");
    }
}
