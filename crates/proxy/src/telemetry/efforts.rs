//! The current effort of compression of each worker, for metrics.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU8, Ordering::Relaxed},
};

use loadline_core::compress::Effort;

/// The efforts of all workers, as numbers of [`Effort::ALL`].
#[derive(Debug, Default)]
pub(crate) struct Efforts(Mutex<Vec<Arc<AtomicU8>>>);

impl Efforts {
    /// A place for one more worker, which begins with the most.
    pub(crate) fn enlist(&self) -> Arc<AtomicU8> {
        let effort = Arc::<AtomicU8>::default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(effort.clone());
        effort
    }

    /// The least of them, counted down from 3 for the most to 0 for none.
    pub(crate) fn least(&self) -> u8 {
        let efforts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lowest = efforts.iter().map(|effort| effort.load(Relaxed)).max();
        Effort::Off as u8 - lowest.unwrap_or_default()
    }
}
