//! Encoders that a worker keeps for the next response: making one costs as much as compressing
//! some kilobytes. And how hard they may try, by how busy the worker is.

use std::{
    cell::{Cell, RefCell},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
};

use loadline_core::{
    compress::{Algorithm, Effort, Governor, PERIOD},
    fleet::Levels,
    time::{Duration, Instant},
    units::Ratio,
};
use loadline_linux::{clock::thread_time, proc};

use super::encoder::{Encoder, EncoderFailed};

/// The encoders of one worker that nobody uses.
#[derive(Debug)]
pub(crate) struct Encoders {
    free: RefCell<Vec<Encoder>>,
    governor: Cell<Governor>,
    /// Whether a level was asked for since the worker was looked at.
    in_use: Cell<bool>,
    /// When the worker was looked at, and the time that it had wanted until then.
    looked: Cell<(Instant, Duration)>,
    /// Where others read the effort.
    told: Arc<AtomicU8>,
}

impl Encoders {
    /// None yet; the effort is told in `told`.
    pub(crate) fn new(told: Arc<AtomicU8>) -> Self {
        Self {
            free: RefCell::default(),
            governor: Cell::default(),
            in_use: Cell::new(false),
            looked: Cell::default(),
            told,
        }
    }

    /// The level at which a response is compressed that begins now; none where it is not.
    pub(crate) fn level(&self, algorithm: Algorithm, levels: Levels) -> Option<i32> {
        self.in_use.set(true);
        self.governor.get().effort().level(algorithm, levels)
    }

    /// Looks how busy the worker is, every now and then while anything is compressed, or would be
    /// if the worker had not been too busy.
    pub(crate) fn look(&self, now: Instant) {
        let ((before, wanted), mut governor) = (self.looked.get(), self.governor.get());
        let elapsed = now.since(before);
        let is_unused = !self.in_use.get() && governor.effort() == Effort::Full;
        if is_unused || elapsed < PERIOD {
            return;
        }
        self.in_use.set(false);
        let wants = wanted_time();
        self.looked.set((now, wants));
        let busy = wants.saturating_sub(wanted).as_nanos();
        governor.observe((before, now), Ratio::part(busy, elapsed.as_nanos()));
        self.governor.set(governor);
        self.told.store(governor.effort() as u8, Relaxed);
    }

    /// An encoder for a body, whose size helps where it is known.
    pub(crate) fn take(
        &self,
        algorithm: Algorithm,
        level: i32,
        size: Option<u64>,
    ) -> Result<Encoder, EncoderFailed> {
        let mut free = self.free.borrow_mut();
        match free.iter().rposition(|encoder| encoder.kind() == (algorithm, level)) {
            Some(place) => {
                let mut encoder = free.swap_remove(place);
                encoder.pledge(size)?;
                Ok(encoder)
            }
            None => Encoder::new(algorithm, level, size),
        }
    }

    /// Takes an encoder back; one whose body broke off is not used again.
    pub(crate) fn give(&self, encoder: Encoder) {
        let mut free = self.free.borrow_mut();
        if let Some(encoder) = encoder.renewed() {
            if free.len() == KEPT {
                // Those that fit what is asked for now come last.
                free.remove(0);
            }
            free.push(encoder);
        }
    }
}

/// How long this thread has run or waited for a core; where the kernel does not tell the latter,
/// how long it has run.
fn wanted_time() -> Duration {
    let scheduled = proc::text("/proc/thread-self/schedstat");
    let scheduled = scheduled.and_then(|text| proc::scheduled(&text));
    scheduled.map_or_else(thread_time, |[ran, waited]| ran + waited)
}

/// At most 8 MB a worker, at the default levels.
const KEPT: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_was_overloaded_compresses_again_though_nothing_is_asked_for() {
        let told = Arc::<AtomicU8>::default();
        let encoders = Encoders::new(told.clone());
        let mut governor = Governor::default();
        let mut now = Instant::ZERO;
        while governor.effort() != Effort::Off {
            governor.observe((now, now + PERIOD), Ratio::percent(100));
            now = now + PERIOD;
        }
        encoders.governor.set(governor);
        encoders.looked.set((now, wanted_time()));
        // A test takes no share worth naming of so much time.
        encoders.look(now + Duration::from_secs(60));
        let levels = Levels::default();
        assert_eq!(encoders.level(Algorithm::Gzip, levels), Some(levels.gzip.cast_signed()));
        assert_eq!(told.load(Relaxed), Effort::Full as u8);
    }
}
