//! The work behind a response: how long it takes and where it waits.
//!
//! | pace | what is done for a request | what limits |
//! |---|---|---|
//! | `Wait` | nothing, for a time | nothing |
//! | `Cores` | nothing, until its virtual core is done | N / service time |
//! | `Burn` | the picture is drawn, and computed on | N threads and the machine |
//!
//! Virtual cores serve the picture that was drawn when the worker began. Drawing it takes 2.5 ms
//! of processor time: a dozen workers that drew at 200 requests a second would take half a core
//! from the proxy and the load generator beside them, and the measurement would be of that.
//!
//! The distance to the caller is part of the work: half before the queue, half after the core. On
//! virtual cores the whole way of a request is known when it comes, so it needs one alarm.

use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use loadline_core::time::{Duration, Instant};
use loadline_linux::{alarm::Alarms, clock};

use crate::{
    burn::Furnace,
    config::Pace,
    cores::{Cores, Load},
    utilization::Utilization,
};

/// What a worker does for each request.
pub(crate) struct Service {
    engine: Engine,
    delay: Duration,
    alarms: Alarms,
    utilization: Option<Mutex<Utilization>>,
}

enum Engine {
    Wait(Duration),
    Cores(Mutex<Cores>),
    Burn(Furnace),
}

impl Service {
    /// An idle service on the runtime of the caller.
    ///
    /// # Errors
    /// The system's, where a thread or a timer cannot be had.
    pub(crate) fn new(pace: Pace, delay: Duration) -> io::Result<Self> {
        let engine = match pace {
            Pace::Wait(time) => Engine::Wait(time),
            Pace::Cores { cores, service } => Engine::Cores(Mutex::new(Cores::new(cores, service))),
            Pace::Burn { cores, service } => Engine::Burn(Furnace::new(cores, service)?),
        };
        let utilization = pace.cores().map(|n| Mutex::new(Utilization::new(n, clock::now())));
        Ok(Self { engine, delay, alarms: Alarms::new()?, utilization })
    }

    /// Works on one request that has come now; gives a picture if one was drawn for it.
    ///
    /// # Errors
    /// The system's, where time cannot be told any more.
    pub(crate) async fn work(&self) -> io::Result<Option<Vec<u8>>> {
        let (there, back) = self.ways();
        let now = clock::now();
        match &self.engine {
            Engine::Wait(time) => self.alarms.until(now + self.delay + *time).await?,
            Engine::Cores(cores) => {
                let end = lock(cores).admit(now, there).end;
                self.alarms.until(end + back).await?;
            }
            Engine::Burn(furnace) => {
                self.alarms.until(now + there).await?;
                let picture = furnace.order().await;
                self.alarms.until(clock::now() + back).await?;
                return picture.map(Some).map_err(io::Error::other);
            }
        }
        Ok(None)
    }

    /// Returns at `instant`.
    ///
    /// # Errors
    /// The system's, where time cannot be told any more.
    pub(crate) async fn until(&self, instant: Instant) -> io::Result<()> {
        self.alarms.until(instant).await
    }

    /// Keeps time for [`work`](Self::work), for ever.
    ///
    /// # Errors
    /// The system's, where time cannot be told any more.
    pub(crate) async fn drive(&self) -> io::Result<()> {
        self.alarms.drive().await
    }

    /// What is being worked on; `open` requests are under way in all.
    pub(crate) fn load(&self, open: u64) -> Load {
        match &self.engine {
            Engine::Wait(_) => Load { in_service: open, ..Load::default() },
            Engine::Cores(cores) => lock(cores).load(clock::now()),
            Engine::Burn(furnace) => furnace.load(),
        }
    }

    /// The recent share of core time spent working, 0.0 to 1.0; nothing without cores.
    pub(crate) fn utilization(&self) -> Option<f64> {
        let utilization = self.utilization.as_ref()?;
        let now: Instant = clock::now();
        Some(lock(utilization).sample(now, self.load(0).busy))
    }

    /// The way of the request and that of the response.
    fn ways(&self) -> (Duration, Duration) {
        let there = self.delay / 2;
        (there, self.delay.saturating_sub(there))
    }
}

/// The value, also where a thread panicked with it: every change to it is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
