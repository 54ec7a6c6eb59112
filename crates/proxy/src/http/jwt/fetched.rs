//! Keys that the control half fetches, and requests that wait for them.
//!
//! ```text
//! worker: the token names a key that is not known --asks, by a number--> control: fetches, or not
//!            ^                                                               |
//!            '--other keys, or all numbers up to this one are answered-------'
//! ```
//! A worker begins to listen before it looks at what was told, so that nothing is told between the
//! two. Whoever asks is counted before the control half is woken, and that looks at the counts each
//! time before it sleeps.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{AcqRel, Acquire, Release},
        },
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use loadline_core::jwt::{KeySet, KeyUrl, Refusal};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout_at},
};

/// The keys of all URLs.
#[derive(Debug, Default)]
pub(crate) struct FetchedKeys {
    /// None leaves: what is no longer named has no keys.
    urls: Mutex<BTreeMap<KeyUrl, Arc<KeysOfUrl>>>,
    asks: Notify,
}

/// What is known of the keys of one URL.
#[derive(Debug, Default)]
pub(crate) struct KeysOfUrl {
    keys: ArcSwapOption<KeySet>,
    /// Whether the URL did not give them when it was asked last.
    is_away: AtomicBool,
    /// How many have asked for a key that is not known.
    asked: AtomicU64,
    /// How many of them have been told.
    answered: watch::Sender<u64>,
}

/// It cannot be known now whether a token is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Away;

impl FetchedKeys {
    pub(crate) fn of(&self, url: &KeyUrl) -> Arc<KeysOfUrl> {
        let mut urls = self.urls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = urls.get(url) {
            return known.clone();
        }
        urls.entry(url.clone()).or_default().clone()
    }

    /// Waits until somebody asks who has not been waited for yet.
    pub(crate) async fn wait_for_asks(&self) {
        self.asks.notified().await;
    }
}

impl KeysOfUrl {
    /// The keys, if there are any.
    pub(crate) fn keys(&self) -> Option<Arc<KeySet>> {
        self.keys.load_full()
    }

    /// How many have asked.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Acquire)
    }

    /// Verifies with these keys from now on. Those who asked for a key that is not among them are
    /// told up to number `answered`.
    pub(crate) fn tell(&self, keys: Option<Arc<KeySet>>, is_away: bool, answered: u64) {
        self.keys.store(keys);
        self.is_away.store(is_away, Release);
        self.answered.send_replace(answered);
    }

    /// Verifies with keys that are to come: tries again with others until they are known to be the
    /// latest, or for as long as [`PATIENCE`].
    ///
    /// # Errors
    /// [`Away`] if the URL does not give them.
    pub(crate) async fn verify<T>(
        &self,
        all: &FetchedKeys,
        mut verify: impl FnMut(&Arc<KeySet>) -> Result<T, Refusal>,
    ) -> Result<Result<T, Refusal>, Away> {
        let deadline = Instant::now() + PATIENCE;
        let mut answered = self.answered.subscribe();
        let mut number = None;
        loop {
            let told = *answered.borrow_and_update();
            let is_away = self.is_away.load(Acquire);
            match self.keys().map(|keys| verify(&keys)) {
                None if is_away => return Err(Away),
                None => {}
                Some(Err(Refusal::UnknownKey)) => {
                    let own = *number.get_or_insert_with(|| self.ask(all));
                    if told >= own {
                        return if is_away { Err(Away) } else { Ok(Err(Refusal::UnknownKey)) };
                    }
                }
                Some(verified) => return Ok(verified),
            }
            if timeout_at(deadline, answered.changed()).await.is_err() {
                return Err(Away);
            }
        }
    }

    /// Asks for a key that is not known. The number under which it is answered.
    fn ask(&self, all: &FetchedKeys) -> u64 {
        let number = self.asked.fetch_add(1, AcqRel) + 1;
        all.asks.notify_one();
        number
    }
}

/// The control half gives a URL up as early as this.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn url() -> KeyUrl {
        KeyUrl { url: "https://issuer/keys".to_owned(), authorities: None }
    }

    fn set() -> Option<Arc<KeySet>> {
        Some(Arc::default())
    }

    #[tokio::test]
    async fn a_request_waits_for_the_first_keys_and_for_those_that_it_asked_for() {
        let all = FetchedKeys::default();
        let keys = all.of(&url());
        let latest = set();
        let verify = |keys: &Arc<KeySet>| match &latest {
            Some(latest) if Arc::ptr_eq(keys, latest) => Ok(()),
            _ => Err(Refusal::UnknownKey),
        };
        let control = async {
            assert_eq!(keys.asked(), 0, "there are none yet");
            keys.tell(set(), false, 0);
            all.wait_for_asks().await;
            assert_eq!(keys.asked(), 1);
            // A fetch that began before has ended; another one begins, and ends.
            keys.tell(set(), false, 0);
            tokio::task::yield_now().await;
            keys.tell(latest.clone(), false, 1);
        };
        let (verified, ()) = tokio::join!(keys.verify(&all, verify), control);
        assert_eq!((verified, keys.asked()), (Ok(Ok(())), 1));
    }

    #[tokio::test]
    async fn a_key_that_is_not_among_the_latest_is_refused_or_cannot_be_known() {
        let all = FetchedKeys::default();
        let keys = all.of(&url());
        keys.tell(set(), false, 0);
        let unknown = |_: &Arc<KeySet>| Err::<(), _>(Refusal::UnknownKey);
        for (is_away, expected) in [(false, Ok(Err(Refusal::UnknownKey))), (true, Err(Away))] {
            let control = async {
                all.wait_for_asks().await;
                keys.tell(set(), is_away, keys.asked());
            };
            let (verified, ()) = tokio::join!(keys.verify(&all, unknown), control);
            assert_eq!(verified, expected);
        }
    }

    #[tokio::test]
    async fn keys_of_a_url_that_is_away_are_not_waited_for_and_others_are_no_news() {
        let all = FetchedKeys::default();
        let keys = all.of(&url());
        keys.tell(None, true, 0);
        assert_eq!(keys.verify(&all, |_| Ok(())).await, Err(Away));
        keys.tell(set(), true, 0);
        let verified = all.of(&url()).verify(&all, |_| Err::<(), _>(Refusal::Expired)).await;
        assert_eq!((verified, keys.asked()), (Ok(Err(Refusal::Expired)), 0));
    }
}
