//! How it goes with the keys of each URL, for whoever shows it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use loadline_core::state::JwtKeys;

/// How it goes with the keys of each URL. Cheap to copy.
#[derive(Clone, Debug, Default)]
pub struct View(Arc<Mutex<BTreeMap<String, Fetches>>>);

/// What has come of the fetches of a URL.
#[derive(Clone, Debug, Default)]
struct Fetches {
    keys: u64,
    succeeded: Option<Instant>,
    failures: u64,
    fault: Option<String>,
}

impl View {
    /// In the order of their URLs.
    #[must_use]
    pub fn keys(&self) -> Vec<JwtKeys> {
        let urls = self.urls();
        let told = urls.iter().map(|(url, it)| JwtKeys {
            url: url.clone(),
            keys: it.keys,
            age_s: it.succeeded.map(|at| at.elapsed().as_secs_f64()),
            failures: it.failures,
            fault: it.fault.clone(),
        });
        told.collect()
    }

    /// Shows these URLs and no others.
    pub(super) fn follow<'a>(&self, wanted: impl Iterator<Item = &'a str>) {
        let mut urls = self.urls();
        let before = std::mem::take(&mut *urls);
        // One URL may be named with several `ca`.
        let known = |url: &str| before.get(url).cloned().unwrap_or_default();
        *urls = wanted.map(|url| (url.to_owned(), known(url))).collect();
    }

    /// The URL has given so many keys.
    pub(super) fn succeed(&self, url: &str, keys: usize) {
        if let Some(it) = self.urls().get_mut(url) {
            (it.keys, it.succeeded, it.fault) = (keys as u64, Some(Instant::now()), None);
        }
    }

    pub(super) fn fail(&self, url: &str, fault: &str) {
        if let Some(it) = self.urls().get_mut(url) {
            it.failures += 1;
            it.fault = Some(fault.to_owned());
        }
    }

    fn urls(&self) -> MutexGuard<'_, BTreeMap<String, Fetches>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_with_its_last_fault_until_it_gives_keys_or_nothing_names_it() {
        let view = View::default();
        view.follow(["https://a", "https://b"].into_iter());
        view.fail("https://a", "status 500");
        let told = view.keys();
        assert_eq!((told.len(), told[0].failures, told[0].age_s), (2, 1, None));
        assert_eq!(told[0].fault.as_deref(), Some("status 500"));
        view.succeed("https://a", 3);
        view.follow(["https://a"].into_iter());
        let told = view.keys();
        assert_eq!((told.len(), told[0].keys, told[0].failures), (1, 3, 1));
        assert!(told[0].age_s.is_some() && told[0].fault.is_none());
    }
}
