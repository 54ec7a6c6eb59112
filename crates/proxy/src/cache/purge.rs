//! What is taken out of the store on somebody's word, and what there is to tell of it.
//!
//! A purge looks at every key, under a lock that lookups share. What it names and is under way when
//! it comes goes to those who wait for it, and is not stored: it may be of before the change. A
//! purge by tag does that to all fetches, since nobody knows yet which tags they will bring.

use std::sync::{
    Arc,
    atomic::Ordering::{AcqRel, Relaxed},
};

use loadline_core::{
    cache::Metadata,
    state::{self, CachedObject, Purge, Purged},
    time::UnixTime,
};
use loadline_http1::ResponseHead;

use super::{
    disk,
    object::{Object, fields_of},
    store::{Key, Store, What},
    wanted::Wanted,
};

impl Store {
    /// Takes out what `purge` names, or marks it stale. Waits until the disk has recorded it.
    pub(crate) fn purge(&self, purge: &Purge, now: UnixTime) -> Purged {
        let next = || self.epoch.fetch_add(1, AcqRel) + 1;
        // Before memory is looked at: what leaves it meanwhile is on its way to the disk.
        let recording = match &*self.disk() {
            Some(disk) => Some(disk.purge(next, disk::Purged::By(purge))),
            None => {
                next();
                None
            }
        };
        // First those under way: what one of them has stored since is found below.
        let names_one = purge.tag.is_none() && purge.prefix.is_none();
        let url = purge.url.as_ref().filter(|_| names_one).map(String::as_bytes);
        let fetches = self.close_all(url, |key| purge.tag.is_some() || names_url(purge, key));
        let found: Vec<(Key, What, bool)> = {
            let table = self.read();
            let named = table.iter().filter(|known| match (&known.what, &purge.tag) {
                (What::Object(object), Some(tag)) => object.response.has_tag(tag.as_bytes()),
                (What::Branch(_) | What::Unstorable(_), Some(_)) => false,
                (_, None) => names_url(purge, &known.key),
            });
            let found = named.map(|it| (it.key.clone(), it.what.clone(), table.leads_to(&it.key)));
            found.collect()
        };
        let mut objects = 0;
        for (key, what, leads) in found {
            // What was made invalid before is in nobody's way, and only waits to be evicted.
            objects += u64::from(leads && matches!(what, What::Object(_)));
            match (what, purge.soft) {
                (What::Object(object), true) => {
                    let mut metadata: Metadata = object.metadata;
                    metadata.mark_stale(now);
                    self.replace(&key, &object, object.with(metadata), None);
                }
                (What::Branch(_) | What::Unstorable(_), true) => {}
                (_, false) => self.remove(&key),
            }
        }
        let unrecorded = recording.and_then(|recording| recording.wait().err());
        Purged { objects, fetches, unrecorded }
    }

    /// Forgets what the response with this head to a request that may have changed something makes
    /// invalid.
    pub(crate) fn invalidate_by(&self, wanted: &Wanted, head: &ResponseHead, bytes: &[u8]) {
        for url in wanted.invalidated(head.status(), &fields_of(head, bytes)) {
            self.invalidate(&url);
        }
    }

    /// Forgets what is stored for a URL.
    pub(crate) fn invalidate(&self, url: &[u8]) {
        self.close_all(Some(url), |_| false);
        // What is under longer keys is not found any more.
        self.remove(url);
        if let Some(disk) = &*self.disk() {
            disk.invalidate(|| self.epoch.fetch_add(1, AcqRel) + 1, url);
        }
    }

    /// What it holds.
    pub(crate) fn state(&self) -> state::Cache {
        let memory_bytes = self.limits().memory.get();
        let table = self.read();
        let (objects, bytes) = (table.objects(), table.bytes().get());
        drop(table);
        state::Cache {
            objects,
            bytes,
            arriving_bytes: self.arriving.bytes(),
            sending_bytes: self.pinned.bytes(),
            memory_bytes,
            fetches: self.fetch_count(),
            evicted: self.evicted.load(Relaxed),
            disk: self.disk().as_ref().map(|disk| disk.state()),
        }
    }

    /// The responses that were used most, so many at most.
    pub(crate) fn top(&self, most: usize, now: UnixTime) -> Vec<CachedObject> {
        let mut all: Vec<(Key, Arc<Object>)> = {
            let table = self.read();
            let found = table.iter().filter(|known| table.leads_to(&known.key));
            let objects = found.filter_map(|known| match &known.what {
                What::Object(object) => Some((known.key.clone(), object.clone())),
                What::Branch(_) | What::Unstorable(_) => None,
            });
            objects.collect()
        };
        all.sort_by_key(|(_, object)| std::cmp::Reverse(object.hits.load(Relaxed)));
        all.truncate(most);
        all.iter().map(|(key, object)| told(key, object, now)).collect()
    }
}

fn told(key: &[u8], object: &Object, now: UnixTime) -> CachedObject {
    CachedObject {
        url: String::from_utf8_lossy(url_of(key)).into_owned(),
        status: object.response.status,
        bytes: object.length(),
        hits: object.hits.load(Relaxed),
        age_s: object.metadata.age(now).as_nanos() / 1_000_000_000,
        ttl_s: object.metadata.ttl(now),
    }
}

/// Whether a purge names what is under a key by its URL.
fn names_url(purge: &Purge, key: &[u8]) -> bool {
    let url = url_of(key);
    let begins = |prefix: &String| url.starts_with(prefix.as_bytes());
    purge.url.as_ref().is_some_and(|wanted| wanted.as_bytes() == url)
        || purge.prefix.as_ref().is_some_and(begins)
}

/// The URL of a key.
pub(super) fn url_of(key: &[u8]) -> &[u8] {
    key.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use loadline_core::{cache::Fields, fleet::CacheLimits, units};

    use super::*;
    use crate::{
        cache::{
            Response, object::Length, selectors::Selectors, store::Join, testing::fresh, unix_now,
        },
        runtime::clock::Clock,
    };

    const KEY: &[u8] = b"http://x/a";

    /// An object that is fresh for an hour.
    fn object() -> Arc<Object> {
        let response = Response {
            status: 200,
            text: b"HTTP/1.1 200 OK\r\n"[..].into(),
            length: Length::Whole(5),
            variant: b"web"[..].into(),
            selectors: Selectors { tags: Box::new([b"a"[..].into()]), ..Selectors::none() }.into(),
        };
        let pieces = [Bytes::from_static(b"hello")];
        Arc::new(Object::new(Arc::new(response), fresh(), pieces, 0))
    }

    #[test]
    fn what_was_asked_before_a_purge_does_not_freshen_what_the_purge_has_seen() {
        let size = units::Bytes::new(1 << 20);
        let store = Store::new(CacheLimits { memory: size, max_object: size }, Clock::start());
        let (key, old) = (Key::from(KEY), object());
        assert!(store.store(&key, &old, store.asks()));
        let is_replaced = |since| {
            store.replace(&key, &old, old.with(old.metadata), Some(since));
            let found = store.peek(&key, b"web", Fields(&[])).unwrap();
            !Arc::ptr_eq(&found, &old)
        };
        let since = store.asks();
        // As a purge does before it looks at what is stored.
        store.close_all(Some(KEY), |_| false);
        assert!(!is_replaced(since));
        assert!(is_replaced(store.asks()));
    }

    #[test]
    fn what_has_come_and_is_not_yet_stored_when_it_is_purged_is_not_stored_after_it() {
        let size = units::Bytes::new(1 << 20);
        let limits = CacheLimits { memory: size, max_object: size };
        let none = Purge { url: None, prefix: None, tag: None, soft: false };
        let url = Purge { url: Some("http://x/a".into()), ..none.clone() };
        let tag = Purge { tag: Some("a".into()), ..none.clone() };
        let prefix = Purge { prefix: Some("http://x/".into()), ..none.clone() };
        let other = Purge { url: Some("http://x/b".into()), ..none };
        for (purge, is_named) in [
            (None, false),
            (Some(url), true),
            (Some(tag), true),
            (Some(prefix), true),
            (Some(other), false),
        ] {
            let store = Store::new(limits, Clock::start());
            let key = Key::from(KEY);
            let Join::Begin(reader) = store.join(&key, || false) else { panic!("nobody fetches") };
            let closed = store.close(&key, reader.arrival()).unwrap();
            if let Some(purge) = &purge {
                let purged = store.purge(purge, unix_now());
                assert_eq!((purged.objects, purged.fetches), (0, 0), "it sees nothing of it");
            }
            assert_eq!(store.store(&key, &object(), closed), !is_named, "{purge:?}");
            let found = store.find(&key, b"web", Fields(&[])).what;
            assert_eq!(found.is_some(), !is_named, "{purge:?}");
        }
    }
}
