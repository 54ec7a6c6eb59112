//! What the handlers share: the site, its last minutes, and the token.

use std::{
    fmt, mem,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::body::Bytes;
use loadline_core::state::{Baseline, Part, Service, State};
use loadline_linux::clock::thread_time;
use tokio::sync::{Semaphore, watch};

use super::{
    Detail,
    dashboard::Viewers,
    history::{History, Sample},
    metrics::{AT_ONCE, Extent, Source},
    site::{LiveConfiguration, Survey},
    token::Token,
};

pub(crate) struct AdminContext {
    pub(crate) site: Arc<LiveConfiguration>,
    pub(crate) token: Token,
    pub(crate) detail: Detail,
    /// A turn for each of those who read the metrics.
    pub(crate) scrapes: Arc<Semaphore>,
    /// A place for each of those who watch the dashboard.
    pub(crate) viewers: Viewers,
    /// The picture of the last look, as it is sent to all who watch.
    pub(crate) pictures: watch::Sender<Bytes>,
    seen: Mutex<Seen>,
    /// Told where another process serves.
    left: watch::Sender<()>,
}

/// The last looks.
#[derive(Default)]
struct Seen {
    /// The look before the last: rates are measured from there, over one to two seconds.
    before: Arc<Baseline>,
    last: Arc<Baseline>,
    history: History,
    looked: Option<Look>,
    /// When somebody last wanted to know.
    asked: Option<Instant>,
}

/// When the last look was, and how much processor time it took.
#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    took: Duration,
}

impl AdminContext {
    pub(crate) fn new(site: Arc<LiveConfiguration>, token: Token, detail: Detail) -> Self {
        let scrapes = Arc::new(Semaphore::new(AT_ONCE));
        let seen = Mutex::new(Seen::default());
        let (pictures, left) = (watch::Sender::new(Bytes::new()), watch::Sender::new(()));
        let viewers = Viewers::default();
        let context = Self { site, token, detail, scrapes, viewers, pictures, seen, left };
        context.look();
        context
    }

    /// Takes the state of this second into the memory, unless a look is dear and was lately; tells
    /// whether it did.
    pub(crate) fn look_again(&self) -> bool {
        let seen = self.seen();
        // A look holds every service, a scrape a few: who scrapes is not to wake one meanwhile.
        let is_scraped = self.scrapes.available_permits() < AT_ONCE;
        let was_asked = seen.asked.is_some_and(|asked| asked.elapsed() < WATCHED);
        let is_watched = self.pictures.receiver_count() > 0 || (was_asked && !is_scraped);
        let is_due =
            seen.looked.is_none_or(|look| look.at.elapsed() >= pause(look.took, is_watched));
        drop(seen);
        if is_due {
            self.look();
        }
        is_due
    }

    pub(crate) fn look(&self) {
        let at = Instant::now();
        let ((), took) = processor_time(|| self.remember(at));
        self.seen().looked = Some(Look { at, took });
    }

    fn remember(&self, at: Instant) {
        let mut state = self.site.state(Part::Whole);
        let mut seen = self.seen();
        state.measure_since(&seen.last);
        let since = seen.looked.map_or(TICK, |look| at - look.at);
        seen.history.take(&state, since.as_secs_f64().round().max(1.0) as usize);
        let last = Baseline::from(state).after(&seen.last);
        seen.before = mem::replace(&mut seen.last, Arc::new(last));
    }

    /// Counts the processor time in that it takes to show a look: the next comes the later.
    pub(crate) fn took(&self, longer: Duration) {
        if let Some(look) = &mut self.seen().looked {
            look.took += longer;
        }
    }

    /// Lets whoever watches know that another process serves.
    pub(crate) fn leave(&self) {
        self.left.send_replace(());
    }

    /// Hears of the end.
    pub(crate) fn left(&self) -> watch::Receiver<()> {
        self.left.subscribe()
    }

    /// The state now, with rates since the look before the last.
    pub(crate) fn state(&self) -> State {
        let mut state = self.site.state(Part::Whole);
        let before = self.asked();
        state.measure_since(&before);
        state
    }

    /// A service now, with rates since the look before the last.
    pub(crate) fn service(&self, name: &str) -> Option<Service> {
        let mut state = self.site.service(name)?;
        let before = self.asked();
        state.measure_since(&before);
        state.services.pop()
    }

    /// What there is to tell, with rates since the look before the last.
    pub(crate) fn survey(self: &Arc<Self>) -> Measured {
        Measured { context: self.clone(), survey: self.site.survey() }
    }

    fn asked(&self) -> Arc<Baseline> {
        let mut seen = self.seen();
        seen.asked = Some(Instant::now());
        seen.before.clone()
    }

    /// The last minutes of a service, the oldest second first.
    pub(crate) fn samples(&self, service: &str) -> Vec<Sample> {
        self.seen().history.of(service)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A survey with what the admin interface knows beside it.
pub(crate) struct Measured {
    context: Arc<AdminContext>,
    survey: Box<dyn Survey>,
}

impl Source for Measured {
    type Piece = State;

    fn edge(&self) -> State {
        let mut edge = self.survey.edge();
        edge.measure_since(&self.context.asked());
        edge
    }

    fn service_count(&self) -> usize {
        self.survey.service_count()
    }

    fn piece(&self, places: Range<usize>, extent: Extent) -> State {
        let tell = |part| self.context.site.services(&*self.survey, places, part);
        match extent {
            Extent::Now(part) => tell(part),
            Extent::Measured(part) => {
                let mut state = tell(part);
                state.measure_since(&self.context.asked());
                state
            }
        }
    }
}

impl fmt::Debug for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Measured").finish_non_exhaustive()
    }
}

/// The processor time of this thread that something takes: not what it waits for a processor.
pub(crate) fn processor_time<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = thread_time();
    let done = work();
    (done, thread_time().saturating_sub(begin).to_std())
}

/// Time from one look to the next, so that looking takes 0.5 % of a core, 10 % while somebody
/// watches: a second, unless there are thousands of servers.
fn pause(took: Duration, is_watched: bool) -> Duration {
    // A tick comes a little early or late.
    let least = TICK / 2;
    (took * if is_watched { 10 } else { 200 }).clamp(least, PAUSE_MAX)
}

/// Time from one chance to look to the next: as often as people see a change, as seldom as costs
/// nothing.
pub(crate) const TICK: Duration = Duration::from_secs(1);

/// Somebody who has asked in this time may ask again.
const WATCHED: Duration = Duration::from_secs(10);

/// The dashboard has five minutes.
const PAUSE_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_look_that_waits_for_a_processor_puts_the_next_off_no_further() {
        // Off the processor for so long, as on a busy machine.
        let ((), took) = processor_time(|| thread::sleep(Duration::from_millis(100)));
        assert!(pause(took, false) < Duration::from_secs(5), "{took:?}");
    }

    #[test]
    fn a_look_that_takes_long_is_taken_seldom_unless_somebody_watches() {
        let ms = Duration::from_millis;
        assert_eq!(pause(ms(1), false), ms(500), "at each tick");
        assert_eq!(pause(ms(100), false), ms(20_000));
        assert_eq!(pause(ms(100), true), ms(1_000));
        assert_eq!(pause(ms(5_000), false), PAUSE_MAX);
    }
}
