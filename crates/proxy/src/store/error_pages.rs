//! The error pages of a bucket, as they were a moment ago: services may have different ones in the
//! same bucket.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use loadline_core::{
    fleet::Page,
    time::{Duration, Instant},
};
use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    time::timeout,
};

/// The pages of one bucket, each by its path. Reading takes no lock.
#[derive(Debug, Default)]
pub(crate) struct ErrorPages {
    /// In the order in which they were first asked for.
    slots: ArcSwap<Vec<Arc<Slot>>>,
}

/// The right to ask for an error page: one request has it at a time.
pub(crate) type PageTurn = OwnedMutexGuard<()>;

/// The error page of a store, as it was a moment ago.
#[derive(Debug)]
pub(crate) struct ErrorPage {
    until: Instant,
    /// The page; none if the object does not exist.
    pub(crate) page: Option<Page>,
    /// The `Content-Encoding` of that, in a line of a head; empty without one.
    pub(crate) coding: String,
}

#[derive(Debug, Default)]
struct Slot {
    path: String,
    page: ArcSwapOption<ErrorPage>,
    /// Held by the request that asks for the page.
    asks: Arc<Mutex<()>>,
}

impl ErrorPages {
    /// The one at this path, if it was asked for a moment ago; the one before while another request
    /// asks for it.
    pub(crate) fn get(&self, path: &str, now: Instant) -> Option<Arc<ErrorPage>> {
        let slot = self.find(path)?;
        let kept = slot.page.load_full()?;
        (now < kept.until || slot.asks.try_lock().is_err()).then_some(kept)
    }

    /// The right to ask for the one at this path; none where another request does, and either the
    /// page before serves or it takes too long.
    pub(crate) async fn turn(&self, path: &str, limit: Duration) -> Option<PageTurn> {
        let slot = self.slot(path);
        if let Ok(turn) = slot.asks.clone().try_lock_owned() {
            return Some(turn);
        }
        if slot.page.load().is_some() {
            return None;
        }
        timeout(limit.to_std(), slot.asks.clone().lock_owned()).await.ok()
    }

    /// Whether nobody has to ask for the one at this path.
    pub(crate) fn has(&self, path: &str, now: Instant) -> bool {
        self.kept(path).is_some_and(|it| now < it.until)
    }

    /// Keeps the one before, since there is no other to be had; none if there was none.
    pub(crate) fn keep_old(&self, path: &str, now: Instant) {
        let old = self.kept(path);
        let old = old.map(|it| (it.page.clone(), it.coding.clone())).unwrap_or_default();
        self.keep(path, old, now);
    }

    /// Keeps the one at this path for some seconds; none where there is no such object.
    pub(crate) fn keep(&self, path: &str, (page, coding): (Option<Page>, String), now: Instant) {
        let kept = ErrorPage { until: now + LIFETIME, page, coding };
        self.slot(path).page.store(Some(Arc::new(kept)));
    }

    fn kept(&self, path: &str) -> Option<Arc<ErrorPage>> {
        self.find(path)?.page.load_full()
    }

    fn find(&self, path: &str) -> Option<Arc<Slot>> {
        self.slots.load().iter().find(|it| it.path == path).cloned()
    }

    /// Where the one at this path is kept, which is made where it is not there yet.
    fn slot(&self, path: &str) -> Arc<Slot> {
        if let Some(slot) = self.find(path) {
            return slot;
        }
        let made = Arc::new(Slot { path: path.to_owned(), ..Slot::default() });
        self.slots.rcu(|slots| {
            if slots.iter().any(|it| it.path == path) {
                return slots.clone();
            }
            let newest = slots.iter().skip((slots.len() + 1).saturating_sub(MOST));
            Arc::new(newest.cloned().chain([made.clone()]).collect::<Vec<_>>())
        });
        self.find(path).unwrap_or(made)
    }
}

/// As CloudFront caches errors by default.
const LIFETIME: Duration = Duration::from_secs(10);

/// Pages that are kept of one bucket, of 1 MiB at most each.
const MOST: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> (Option<Page>, String) {
        let page = Page { content_type: "text/html".into(), body: text.as_bytes().into() };
        (Some(page), String::new())
    }

    #[test]
    fn each_path_has_its_own_page_and_the_oldest_leaves_where_there_are_too_many() {
        let (pages, now) = (ErrorPages::default(), Instant::ZERO);
        let text = |path: &str| {
            let kept = pages.get(path, now)?;
            Some(String::from_utf8_lossy(&kept.page.as_ref()?.body).into_owned())
        };
        for number in 0..MOST {
            pages.keep(&format!("/{number}"), page(&format!("page {number}")), now);
        }
        for number in 0..MOST {
            assert_eq!(text(&format!("/{number}")), Some(format!("page {number}")));
        }
        pages.keep("/one-more", page("one more"), now);
        assert_eq!((text("/0"), text("/one-more")), (None, Some("one more".to_owned())));
        assert_eq!(text("/1"), Some("page 1".to_owned()));
        assert_eq!(pages.slots.load().len(), MOST);
    }
}
