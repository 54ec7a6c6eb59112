//! Purges of what is on disk: their numbers, whom they concern, and who waits until one is
//! recorded.

use std::{sync::mpsc, time::Duration};

use loadline_core::{
    cache::disk::{PurgeRecord, Purges, Verdict},
    state,
};

use super::{Arc, Object, PoisonError, Shared, ToRecord, hash, record::Head, unix_now};

/// Purges by the numbers that they have on disk.
#[derive(Debug)]
pub(super) struct Numbered {
    pub(super) purges: Purges,
    /// What is added to a number of this process; none until the directory is open.
    pub(super) shift: Option<u64>,
    /// The number of the last purge before the disk was there.
    pub(super) first: u64,
    /// More came before the directory was open than are kept.
    pub(super) has_lost: bool,
}

/// What is purged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purged<'p> {
    /// Named by an operator.
    By(&'p state::Purge),
    /// All of a URL.
    Url(&'p [u8]),
}

/// Waits until a purge is recorded on disk.
#[derive(Debug)]
pub(crate) struct Recording(pub(super) Option<mpsc::Receiver<Result<(), String>>>);

impl Recording {
    /// Waits for it.
    ///
    /// # Errors
    /// Why it is not recorded, or not yet: then a restart could undo it.
    pub(crate) fn wait(self) -> Result<(), String> {
        let Some(hears) = self.0 else { return Ok(()) };
        match hears.recv_timeout(PURGE_PATIENCE) {
            Ok(told) => told,
            Err(_) => Err("the disk does not answer".to_owned()),
        }
    }
}

impl Shared {
    /// Adds a purge and has it recorded; false where it names nothing.
    pub(super) fn add_purge(
        &self,
        next: impl FnOnce() -> u64,
        of: Purged<'_>,
        tells: Option<mpsc::Sender<Result<(), String>>>,
    ) -> bool {
        let now = unix_now();
        let mut numbered = self.purges.write().unwrap_or_else(PoisonError::into_inner);
        let number = next() + numbered.shift.unwrap_or(0);
        let purge = match of {
            Purged::By(purge) => PurgeRecord::of(purge, number, now),
            Purged::Url(url) => Some(PurgeRecord::of_url(url, number, now)),
        };
        let Some(purge) = purge else { return false };
        let is_open = numbered.shift.is_some();
        numbered.purges.add(&purge);
        if !is_open && numbered.purges.bytes() > UNOPENED {
            numbered.has_lost = true;
            numbered.purges = Purges::between(number, number);
            self.state().to_record.retain(|it| it.tells.is_some());
        }
        // Together with the number, so that they are recorded in order, and each once.
        let mut state = self.state();
        if let (Purged::Url(url), true) = (of, is_open) {
            // Once that is recorded nothing of the URL is there that no record concerns.
            state.index.remove(hash(url), |_| true);
        }
        state.to_record.push(ToRecord { purge, tells });
        drop(state);
        drop(numbered);
        self.to_write.notify_one();
        true
    }

    /// What purges say of a response that was asked for when this number of purges had come to
    /// this process.
    pub(super) fn verdict(&self, url: &[u8], object: &Object) -> Verdict {
        let numbered = self.purges.read().unwrap_or_else(PoisonError::into_inner);
        let Some(shift) = numbered.shift.filter(|_| object.epoch >= numbered.first) else {
            return Verdict::Gone;
        };
        let tags = object.response.selectors.tags.iter().map(|tag| &**tag);
        numbered.purges.verdict(url, tags, object.epoch + shift)
    }

    /// The object as later purges leave it; none if it was purged.
    pub(super) fn current(&self, url: &[u8], object: Arc<Object>) -> Option<Arc<Object>> {
        match self.verdict(url, &object) {
            Verdict::Gone => None,
            Verdict::Keep => Some(object),
            Verdict::Stale(since) => {
                let mut metadata = object.metadata;
                metadata.mark_stale(since);
                Some(object.with(metadata))
            }
        }
    }

    /// What purges say of what is on disk, and the number of purges of this process by then.
    pub(super) fn verdict_of(&self, head: &Head, epoch: u64) -> (Verdict, u64) {
        let numbered = self.purges.read().unwrap_or_else(PoisonError::into_inner);
        let tags = head.response.selectors.tags.iter().map(|tag| &**tag);
        let verdict = numbered.purges.verdict(&head.url, tags, epoch);
        let own = numbered.purges.epoch().saturating_sub(numbered.shift.unwrap_or(0));
        (verdict, own.max(numbered.first))
    }
}

/// How long whoever purges waits for the disk.
const PURGE_PATIENCE: Duration = Duration::from_secs(2);

/// Purges that are kept for a directory that is not open yet. After more, all that is there is
/// given up.
const UNOPENED: u64 = 1 << 20;
