//! Who watches the dashboard: no more than a few at once, none of whom holds a place for nothing.
//!
//! Each is sent the same, but has a connection with a picture on its way, which may be large. A
//! place whose holder has taken nothing for a while is given to who comes when all are taken.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

/// Those who watch.
#[derive(Debug, Default)]
pub(crate) struct Viewers {
    /// When each took something last. Who is gone has dropped it.
    places: Mutex<Vec<Weak<Mutex<Instant>>>>,
}

/// A place among those who watch, until it is dropped or given to another.
#[derive(Debug)]
pub(super) struct Viewer {
    /// The list of places refers to it as long as this place is its holder's.
    taken: Arc<Mutex<Instant>>,
}

impl Viewers {
    /// A place, if one is free.
    pub(super) fn enter(&self) -> Option<Viewer> {
        self.enter_at(Instant::now())
    }

    fn enter_at(&self, now: Instant) -> Option<Viewer> {
        let mut places = lock(&self.places);
        places.retain(|place| place.strong_count() > 0);
        if places.len() >= AT_ONCE {
            let is_idle = |taken: &Mutex<Instant>| now - *lock(taken) >= PATIENCE;
            places.retain(|place| place.upgrade().is_some_and(|taken| !is_idle(&taken)));
        }
        (places.len() < AT_ONCE).then(|| {
            let taken = Arc::new(Mutex::new(now));
            places.push(Arc::downgrade(&taken));
            Viewer { taken }
        })
    }
}

impl Viewer {
    /// Notes that its holder takes something now; false where another has the place.
    pub(super) fn takes(&self) -> bool {
        self.takes_at(Instant::now())
    }

    fn takes_at(&self, now: Instant) -> bool {
        *lock(&self.taken) = now;
        Arc::weak_count(&self.taken) > 0
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// More than people put on their walls.
const AT_ONCE: usize = 64;

/// Whoever reads takes at least a heartbeat in this time.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_than_may_watch_gets_a_place_of_who_is_gone_or_reads_nothing() {
        let (viewers, now) = (Viewers::default(), Instant::now());
        let mut all: Vec<Viewer> = (0..AT_ONCE).filter_map(|_| viewers.enter_at(now)).collect();
        assert_eq!(all.len(), AT_ONCE);
        assert!(viewers.enter_at(now).is_none());
        all.pop();
        all.extend(viewers.enter_at(now));
        assert_eq!(all.len(), AT_ONCE);
        let later = now + PATIENCE;
        assert!(all[1..].iter().all(|viewer| viewer.takes_at(later)));
        assert!(viewers.enter_at(later - Duration::from_secs(1)).is_none(), "it may still read");
        let next = viewers.enter_at(later);
        assert!(next.is_some_and(|next| next.takes_at(later)));
        assert!(!all[0].takes_at(later), "another has its place");
        assert!(all[1..].iter().all(|viewer| viewer.takes_at(later)));
    }
}
