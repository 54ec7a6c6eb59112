//! What the handlers share: the site, its last minutes, and the token.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loadline_core::state::State;
use tokio::sync::{Semaphore, watch};

use super::{
    Detail,
    history::{History, Sample},
    metrics::AT_ONCE,
    site::Site,
    token::Token,
};

pub(crate) struct Desk {
    pub(crate) site: Arc<Site>,
    pub(crate) token: Token,
    pub(crate) detail: Detail,
    /// A turn for each of those who read the metrics.
    pub(crate) scrapes: Arc<Semaphore>,
    seen: Mutex<Seen>,
    looked: watch::Sender<()>,
}

/// The last looks.
#[derive(Default)]
struct Seen {
    /// The look before the last: rates are measured from there, over one to two seconds.
    before: State,
    last: State,
    history: History,
}

impl Desk {
    pub(crate) fn new(site: Arc<Site>, token: Token, detail: Detail) -> Self {
        let state = site.state();
        let seen = Seen { before: state.clone(), last: state, history: History::default() };
        let scrapes = Arc::new(Semaphore::new(AT_ONCE));
        let looked = watch::Sender::new(());
        Self { site, token, detail, scrapes, seen: Mutex::new(seen), looked }
    }

    /// Takes the state of this second into the memory.
    pub(crate) fn look(&self) {
        let mut state = self.site.state();
        let mut seen = self.seen();
        state.measure_since(&seen.last);
        seen.history.take(&state);
        seen.before = std::mem::replace(&mut seen.last, state);
        self.looked.send_replace(());
    }

    /// Hears of each look.
    pub(crate) fn looks(&self) -> watch::Receiver<()> {
        self.looked.subscribe()
    }

    /// The state now, with rates over the last one to two seconds.
    pub(crate) fn state(&self) -> State {
        let mut state = self.site.state();
        state.measure_since(&self.seen().before);
        state
    }

    /// The last minutes of a service, the oldest second first.
    pub(crate) fn samples(&self, service: &str) -> Vec<Sample> {
        self.seen().history.of(service)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
