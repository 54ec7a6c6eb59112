//! What was purged, and which responses on disk that concerns.
//!
//! Purges are numbered. A response carries the number of the last purge that had come when it was
//! asked for, its *epoch*: later ones concern it, earlier ones do not. So a purge is one entry
//! here, however much it names, and nothing on disk has to be found for it. Entries are forgotten
//! once no response that they could concern is left: those up to the *floor*.

use alloc::{
    borrow::ToOwned as _, boxed::Box, collections::BTreeMap, string::ToString as _, vec::Vec,
};
use core::ops::Bound;

use crate::{state::Purge, time::UnixTime};

/// The purges in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purges {
    /// Marks by name, one map for each kind in [`Named::ALL`].
    names: [BTreeMap<Box<[u8]>, Marks>; 3],
    epoch: u64,
    floor: u64,
    /// Size of all records, in bytes.
    bytes: u64,
}

/// What a purge says of the responses that it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Keep,
    /// Responses are stale since then.
    Stale(UnixTime),
    /// Responses are not used again.
    Gone,
}

/// What a purge names responses by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A whole URL.
    Url,
    /// The beginning of URLs.
    Prefix,
    /// A tag that responses have.
    Tag,
}

/// A purge with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeRecord {
    /// Responses with a smaller epoch are concerned.
    pub number: u64,
    /// When it came.
    pub at: UnixTime,
    /// Kind of `name`.
    pub named: Named,
    /// Whether responses are only marked stale.
    pub soft: bool,
    /// The URL, prefix or tag.
    pub name: Box<[u8]>,
}

/// The last purges of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Marks {
    hard: Option<Mark>,
    soft: Option<Mark>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    number: u64,
    at: UnixTime,
}

impl Purges {
    /// None yet, where those up to `floor` are forgotten and the last one had the number `epoch`.
    #[must_use]
    pub fn between(floor: u64, epoch: u64) -> Self {
        Self { epoch, floor, ..Self::default() }
    }

    /// The number of the last one.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Purges up to this number are forgotten.
    #[must_use]
    pub const fn floor(&self) -> u64 {
        self.floor
    }

    /// What a record of all of them takes, about: [`PURGE_BYTES`] and the name for each.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many names there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.iter().map(BTreeMap::len).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds one that has come. It replaces an earlier one of the same kind and name.
    pub fn add(&mut self, purge: &PurgeRecord) {
        let mark = Mark { number: purge.number, at: purge.at };
        let of_kind = &mut self.names[purge.named as usize];
        let marks = of_kind.entry(purge.name.clone()).or_default();
        let place = if purge.soft { &mut marks.soft } else { &mut marks.hard };
        if place.is_none() {
            self.bytes += PURGE_BYTES + purge.name.len() as u64;
        }
        if place.is_none_or(|before| before.number < mark.number) {
            *place = Some(mark);
        }
        self.epoch = self.epoch.max(purge.number);
    }

    /// The verdict of all purges on a response with this epoch.
    #[must_use]
    pub fn verdict<'a>(
        &self,
        url: &[u8],
        tags: impl IntoIterator<Item = &'a [u8]>,
        epoch: u64,
    ) -> Verdict {
        if epoch < self.floor {
            // It could be concerned by one that is forgotten.
            return Verdict::Gone;
        }
        if epoch >= self.epoch {
            return Verdict::Keep;
        }
        let [urls, prefixes, of_tags] = &self.names;
        let mut verdict = Verdict::Keep;
        let marks = urls.get(url).into_iter().chain(of_prefixes(prefixes, url));
        marks.for_each(|marks| verdict = verdict.and(marks, epoch));
        if !of_tags.is_empty() {
            let marks = tags.into_iter().filter_map(|tag| of_tags.get(tag));
            marks.for_each(|marks| verdict = verdict.and(marks, epoch));
        }
        verdict
    }

    /// Forgets those up to this number: no response with a smaller epoch is left.
    pub fn forget(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
        let (mut bytes, floor) = (0, self.floor);
        for names in &mut self.names {
            names.retain(|name, marks| {
                let counts = |mark: &Mark| mark.number > floor;
                (marks.hard, marks.soft) = (marks.hard.filter(counts), marks.soft.filter(counts));
                let count = u64::from(marks.hard.is_some()) + u64::from(marks.soft.is_some());
                bytes += count * (PURGE_BYTES + name.len() as u64);
                count > 0
            });
        }
        self.bytes = bytes;
    }

    /// Counts these as coming after those of `earlier`, which are taken in.
    #[must_use]
    pub fn behind(&self, mut earlier: Self) -> Self {
        let last = earlier.epoch;
        for mut purge in self.records() {
            purge.number += last;
            earlier.add(&purge);
        }
        earlier
    }

    /// All of them, in no order.
    pub fn records(&self) -> impl Iterator<Item = PurgeRecord> {
        Named::ALL.into_iter().zip(&self.names).flat_map(|(named, names)| {
            names.iter().flat_map(move |(name, marks)| {
                [(marks.hard, false), (marks.soft, true)].into_iter().filter_map(
                    move |(mark, soft)| {
                        let Mark { number, at } = mark?;
                        Some(PurgeRecord { number, at, named, soft, name: name.clone() })
                    },
                )
            })
        })
    }
}

impl Verdict {
    /// The verdict together with the purges of one name, on a response with this epoch.
    fn and(self, marks: &Marks, epoch: u64) -> Self {
        let counts = |mark: &Mark| mark.number > epoch;
        if self == Self::Gone || marks.hard.as_ref().is_some_and(counts) {
            return Self::Gone;
        }
        match (self, marks.soft.filter(counts)) {
            (Self::Stale(since), Some(mark)) => Self::Stale(since.min(mark.at)),
            (_, Some(mark)) => Self::Stale(mark.at),
            (before, None) => before,
        }
    }
}

impl Named {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Url, Self::Prefix, Self::Tag];
}

impl PurgeRecord {
    /// The record of a purge; none for one that names nothing, or more than one thing.
    #[must_use]
    pub fn of(purge: &Purge, number: u64, at: UnixTime) -> Option<Self> {
        let (named, name) = match purge {
            Purge { url: Some(url), prefix: None, tag: None, .. } => (Named::Url, url),
            Purge { url: None, prefix: Some(prefix), tag: None, .. } => (Named::Prefix, prefix),
            Purge { url: None, prefix: None, tag: Some(tag), .. } => (Named::Tag, tag),
            _ => return None,
        };
        let name = name.to_string().into_bytes().into();
        Some(Self { number, at, named, soft: purge.soft, name })
    }

    /// That of what is stored for a URL.
    #[must_use]
    pub fn of_url(url: &[u8], number: u64, at: UnixTime) -> Self {
        Self { number, at, named: Named::Url, soft: false, name: url.to_owned().into() }
    }
}

/// The marks of all names that a URL begins with.
fn of_prefixes<'m>(
    names: &'m BTreeMap<Box<[u8]>, Marks>,
    url: &[u8],
) -> impl Iterator<Item = &'m Marks> {
    let mut found = Vec::new();
    let mut end = Some(url.len());
    while let Some(length) = end {
        // The last name that is no greater is a prefix, or shares what a shorter one could be.
        let range = (Bound::Unbounded, Bound::Included(&url[..length]));
        let Some((name, marks)) = names.range::<[u8], _>(range).next_back() else { break };
        let common = name.iter().zip(url).take_while(|(one, other)| one == other).count();
        end = Some(common);
        if common == name.len() {
            found.push(marks);
            end = common.checked_sub(1);
        }
    }
    found.into_iter()
}

/// What a record of a purge takes beside its name.
pub const PURGE_BYTES: u64 = 34;

#[cfg(test)]
mod tests {
    use std::{format, string::String};

    use proptest::prelude::*;

    use super::*;

    fn record(number: u64, named: Named, soft: bool, name: &str) -> PurgeRecord {
        let at = UnixTime::from_secs(number as i64);
        PurgeRecord { number, at, named, soft, name: name.as_bytes().into() }
    }

    /// What a list of all purges says, looked at one by one.
    fn plain(all: &[PurgeRecord], url: &str, tags: &[String], epoch: u64) -> Verdict {
        let mut verdict = Verdict::Keep;
        for purge in all.iter().filter(|purge| purge.number > epoch) {
            let concerns = match purge.named {
                Named::Url => *url.as_bytes() == *purge.name,
                Named::Prefix => url.as_bytes().starts_with(&purge.name),
                Named::Tag => tags.iter().any(|tag| *tag.as_bytes() == *purge.name),
            };
            match (concerns, purge.soft, verdict) {
                (false, ..) | (_, _, Verdict::Gone) => {}
                (true, false, _) => verdict = Verdict::Gone,
                (true, true, Verdict::Keep) => verdict = Verdict::Stale(purge.at),
                (true, true, Verdict::Stale(_)) => {}
            }
        }
        verdict
    }

    fn purge() -> impl Strategy<Value = (Named, bool, String)> {
        let named = prop::sample::select(Named::ALL.to_vec());
        (named, any::<bool>(), "[ab]{0,4}")
    }

    proptest! {
        #[test]
        fn a_verdict_is_that_of_all_purges_one_by_one(
            given in prop::collection::vec(purge(), 0..20),
            url in "[ab]{0,5}", tags in prop::collection::vec("[ab]{0,3}", 0..3),
            epoch in 0..22u64,
        ) {
            let mut all = Vec::new();
            let mut purges = Purges::default();
            for (number, (named, soft, name)) in (1..).zip(given) {
                let purge = record(number, named, soft, &name);
                purges.add(&purge);
                all.push(purge);
            }
            let texts = || tags.iter().map(String::as_bytes);
            let (found, expected) =
                (purges.verdict(url.as_bytes(), texts(), epoch), plain(&all, &url, &tags, epoch));
            match (found, expected) {
                // Of several of one name the last one is kept.
                (Verdict::Stale(found), Verdict::Stale(first)) => prop_assert!(found >= first),
                (found, expected) => prop_assert_eq!(found, expected),
            }
            let told: u64 = purges.records().map(|it| PURGE_BYTES + it.name.len() as u64).sum();
            prop_assert_eq!(purges.bytes(), told);
        }

        #[test]
        fn what_is_forgotten_changes_nothing_for_what_is_left(
            given in prop::collection::vec(purge(), 0..20),
            url in "[ab]{0,5}", floor in 0..22u64, epoch in 0..22u64,
        ) {
            let mut purges = Purges::default();
            for (number, (named, soft, name)) in (1..).zip(given) {
                purges.add(&record(number, named, soft, &name));
            }
            let before = purges.verdict(url.as_bytes(), [], epoch);
            purges.forget(floor);
            let after = purges.verdict(url.as_bytes(), [], epoch);
            prop_assert_eq!(after, if epoch < floor { Verdict::Gone } else { before });
            let told: u64 = purges.records().map(|it| PURGE_BYTES + it.name.len() as u64).sum();
            prop_assert_eq!(purges.bytes(), told);
        }

        #[test]
        fn those_of_a_process_come_behind_those_that_were_recorded(
            given in prop::collection::vec(purge(), 0..20), split in 0..20usize,
            url in "[ab]{0,5}", epoch in 0..22u64,
        ) {
            let split = split.min(given.len());
            let mut whole = Purges::default();
            let [mut recorded, mut since] = [Purges::default(), Purges::default()];
            for (at, (named, soft, name)) in given.iter().enumerate() {
                let purge = record(at as u64 + 1, *named, *soft, name);
                whole.add(&purge);
                let of = if at < split { &mut recorded } else { &mut since };
                let number = if at < split { at + 1 } else { at - split + 1 };
                of.add(&PurgeRecord { number: number as u64, ..purge });
            }
            let both = since.behind(recorded);
            prop_assert_eq!(
                both.verdict(url.as_bytes(), [], epoch), whole.verdict(url.as_bytes(), [], epoch)
            );
        }
    }

    #[test]
    fn ten_thousand_prefixes_are_not_looked_at_one_by_one() {
        let mut purges = Purges::default();
        for number in 1..=10_000 {
            let name = format!("http://h/{number:05}/");
            purges.add(&record(number, Named::Prefix, false, &name));
        }
        assert_eq!(of_prefixes(&purges.names[1], b"http://h/05000/a").count(), 1);
        assert_eq!(purges.verdict(b"http://h/05000/a", [], 4_999), Verdict::Gone);
        assert_eq!(purges.verdict(b"http://h/05000/a", [], 5_000), Verdict::Keep);
        assert_eq!(purges.verdict(b"http://h/10001/a", [], 0), Verdict::Keep);
    }
}
