//! What an edge knows of the store: who is there, and which version is in force.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    etcd::message::{Event, KeyValue},
    keys::{self, EdgeEntry, Keys, ValueError},
};

/// What an edge knows of the store.
#[derive(Debug, Default)]
pub(super) struct Known {
    members: BTreeMap<String, Entry>,
    /// The version, and the revision at which it was put in force.
    current: Option<(u64, i64)>,
    /// Whether the identity of the cluster was removed.
    is_unmarked: bool,
    /// The keys whose values nobody can read.
    unreadable: BTreeSet<String>,
}

/// The key of a member.
#[derive(Debug)]
pub(super) struct Entry {
    /// The revision at which it was last changed.
    pub(super) changed: i64,
    pub(super) lease: i64,
    /// None where nobody can read it.
    pub(super) member: Option<EdgeEntry>,
}

impl Known {
    /// Takes a key in that is there.
    ///
    /// # Errors
    /// A value that cannot be read: a member is there all the same, a version is as it was.
    pub(super) fn learn(&mut self, keys: &Keys, it: &KeyValue) -> Result<(), ValueError> {
        let key = String::from_utf8_lossy(&it.key).into_owned();
        let outcome = self.learn_value(keys, &key, it);
        match &outcome {
            Ok(()) => self.unreadable.remove(&key),
            Err(_) => self.unreadable.insert(key),
        };
        outcome
    }

    fn learn_value(&mut self, keys: &Keys, key: &str, it: &KeyValue) -> Result<(), ValueError> {
        if key == keys.current() {
            let version = keys::read("the number of a version", key, &it.value)?;
            self.current = Some((version, it.mod_revision));
            return Ok(());
        }
        let Some(name) = key.strip_prefix(&keys.members()) else { return Ok(()) };
        let read = keys::read("a member", key, &it.value);
        let (member, outcome) = match read {
            Ok(member) => (Some(member), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let entry = Entry { changed: it.mod_revision, lease: it.lease, member };
        self.members.insert(name.to_owned(), entry);
        outcome
    }

    /// Takes in what has become of a key.
    ///
    /// # Errors
    /// See [`Known::learn`].
    pub(super) fn follow(&mut self, keys: &Keys, event: &Event) -> Result<(), ValueError> {
        let Some(it) = &event.kv else { return Ok(()) };
        if event.kind != DELETED {
            return self.learn(keys, it);
        }
        let key = String::from_utf8_lossy(&it.key);
        self.unreadable.remove(&*key);
        if key == keys.current() {
            self.current = None;
        } else if key == keys.marker() {
            self.is_unmarked = true;
        } else if let Some(name) = key.strip_prefix(&keys.members()) {
            self.members.remove(name);
        }
        Ok(())
    }

    /// Whether every value can be read.
    pub(super) fn is_readable(&self) -> bool {
        self.unreadable.is_empty()
    }

    /// The version that is in force.
    pub(super) fn current(&self) -> Option<u64> {
        self.current.map(|(version, _)| version)
    }

    /// The version that is in force, with the revision at which it was put in force.
    pub(super) fn current_since(&self) -> Option<(u64, i64)> {
        self.current
    }

    /// Whether the identity of the cluster was removed since this was asked last.
    pub(super) fn take_unmarked(&mut self) -> bool {
        std::mem::take(&mut self.is_unmarked)
    }

    pub(super) fn entry(&self, name: &str) -> Option<&Entry> {
        self.members.get(name)
    }

    pub(super) fn edges(&self) -> usize {
        self.members.len()
    }

    /// The members but the one of this name.
    pub(super) fn others(&self, name: &str) -> impl Iterator<Item = &EdgeEntry> {
        let others = self.members.iter().filter(move |(other, _)| *other != name);
        others.filter_map(|(_, entry)| entry.member.as_ref())
    }
}

/// The kind of an event.
const DELETED: i32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: &str) -> Event {
        let (key, value) = (key.into(), value.into());
        let kv = KeyValue { key, value, ..KeyValue::default() };
        Event { kind: 0, kv: Some(kv) }
    }

    #[test]
    fn an_edge_is_among_those_that_are_known_until_it_leaves() {
        let (keys, mut known) = (Keys { prefix: "/l/".to_owned() }, Known::default());
        let member = |services: &str| {
            format!(
                "{{\"instance\":\"1\",\"region\":\"here\",\"release\":\"0\",\"admin\":null,\
                 \"configuration\":0,\"refused\":null,\"services\":[{services}]}}"
            )
        };
        known.follow(&keys, &put("/l/members/b", &member("\"web\""))).unwrap();
        known.follow(&keys, &put("/l/members/a", &member(""))).unwrap();
        assert_eq!(known.edges(), 2);
        assert_eq!(known.others("a").flat_map(|it| &it.services).count(), 1);
        let gone = Event { kind: DELETED, ..put("/l/members/b", "") };
        known.follow(&keys, &gone).unwrap();
        assert!(known.entry("a").is_some() && known.entry("b").is_none());
    }

    #[test]
    fn a_version_that_is_put_in_force_again_is_told_from_the_one_of_its_number_before() {
        let (keys, mut known) = (Keys { prefix: "/l/".to_owned() }, Known::default());
        let version = |revision| {
            let mut event = put("/l/configuration/current", "1");
            event.kv.iter_mut().for_each(|it| it.mod_revision = revision);
            event
        };
        known.follow(&keys, &version(3)).unwrap();
        let before = known.current_since();
        known.follow(&keys, &Event { kind: DELETED, ..version(4) }).unwrap();
        assert_eq!(known.current_since(), None);
        known.follow(&keys, &version(5)).unwrap();
        assert_eq!((before, known.current_since()), (Some((1, 3)), Some((1, 5))));
    }

    #[test]
    fn an_identity_that_is_removed_is_noticed_once() {
        let (keys, mut known) = (Keys { prefix: "/l/".to_owned() }, Known::default());
        known.follow(&keys, &put("/l/cluster", "{}")).unwrap();
        assert!(!known.take_unmarked());
        let gone = Event { kind: DELETED, ..put("/l/cluster", "") };
        known.follow(&keys, &gone).unwrap();
        assert!(known.take_unmarked() && !known.take_unmarked());
    }

    #[test]
    fn a_value_that_nobody_can_read_is_told_and_changes_no_version() {
        let (keys, mut known) = (Keys { prefix: "/l/".to_owned() }, Known::default());
        known.follow(&keys, &put("/l/configuration/current", "7")).unwrap();
        let error = known.follow(&keys, &put("/l/configuration/current", "seven")).unwrap_err();
        assert!(error.to_string().contains("`/l/configuration/current`"), "{error}");
        assert_eq!(known.current(), Some(7));
        known.follow(&keys, &put("/l/members/a", "{")).unwrap_err();
        assert_eq!(known.edges(), 1);
        assert!(!known.is_readable());
    }
}
