//! The proxy as the administration sees it, and what was changed over its file.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use loadline_core::{
    discovery::Lists,
    fleet::{Fleet, Source},
    overrides::{Override, OverrideError, Overrides},
    state::{Flow, State},
    time::{Duration, Instant},
};
use tokio::sync::Notify;

use crate::discovery::{self, Answer, Clock, NameServers};

/// A running proxy.
pub trait Engine: Send + Sync + 'static {
    /// What it does now; rates may be absent.
    fn state(&self) -> State;

    /// Puts another file in force.
    ///
    /// # Errors
    /// What is wrong with it, for people; nothing has changed then.
    fn reload(&self, fleet: Fleet) -> Result<(), String>;

    /// Puts a fleet in force that differs from the last in weights, scalers and capacities alone.
    fn amend(&self, fleet: Fleet);

    /// The flows of packet forwarding that are written down, in no order.
    ///
    /// # Errors
    /// Why they cannot be read, for people.
    fn flows(&self) -> Result<Vec<Flow>, String>;
}

/// A proxy with its file and with what was changed over it.
pub struct Site {
    engine: Box<dyn Engine>,
    load: Box<dyn Fn() -> Result<(Fleet, NameServers), String> + Send + Sync>,
    clock: Clock,
    kept: Mutex<Kept>,
    reloaded: Notify,
}

struct Kept {
    file: Fleet,
    names: NameServers,
    lists: Lists,
    overrides: Overrides,
}

impl Kept {
    /// What the file and its lists say.
    fn listed(&self) -> Fleet {
        self.lists.applied_to(&self.file)
    }

    /// What is in force.
    fn whole(&self) -> Fleet {
        self.overrides.applied_to(&self.listed())
    }
}

impl Site {
    /// A proxy that runs with `file` and `lists`. `load` reads the file again, or says what is
    /// wrong with it.
    pub fn new(
        engine: impl Engine,
        ((file, names), lists): ((Fleet, NameServers), Lists),
        load: impl Fn() -> Result<(Fleet, NameServers), String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            engine: Box::new(engine),
            load: Box::new(load),
            clock: Clock::start(),
            kept: Mutex::new(Kept { file, names, lists, overrides: Overrides::default() }),
            reloaded: Notify::new(),
        }
    }

    /// Reads the file and its lists again, puts them in force and forgets what was changed over
    /// them.
    ///
    /// # Errors
    /// What is wrong with one of them; nothing has changed then.
    pub fn reload(&self) -> Result<(), String> {
        let (file, names) = (self.load)()?;
        let before = self.kept().lists.clone();
        // Nobody is held up while names that are new are asked for.
        let lists = discovery::begin_again(before, &file, &names, self.clock.now());
        let lists = lists.map_err(|error| error.to_string())?;
        let next = Kept { file, names, lists, overrides: Overrides::default() };
        let mut kept = self.kept();
        self.engine.reload(next.listed())?;
        *kept = next;
        self.reloaded.notify_one();
        Ok(())
    }

    /// The names to ask for now, and whom.
    pub(crate) fn names_due(&self) -> (Vec<Source>, NameServers) {
        let mut kept = self.kept();
        (kept.lists.due(self.clock.now()), kept.names.clone())
    }

    /// How long it is until the next name is due; [`Duration::MAX`] where none will be.
    pub(crate) fn next_name_due(&self) -> Duration {
        match self.kept().lists.next_due() {
            Instant::NEVER => Duration::MAX,
            due => due.since(self.clock.now()),
        }
    }

    /// Waits for a reload: names may be due that were not.
    pub(crate) async fn reloaded(&self) {
        self.reloaded.notified().await;
    }

    /// Takes an answer about a name in, and puts what it changes in force.
    pub(crate) fn found(&self, source: &Source, answer: Answer) {
        let kept = &mut *self.kept();
        let (lists, terms) = (&mut kept.lists, &kept.names.terms);
        if discovery::answered(lists, self.clock.now(), source, answer, terms) {
            self.engine.amend(kept.whole());
        }
    }

    /// Reads the lists of servers again that are files. What one of them says is put in force as a
    /// whole, or nothing of it.
    pub fn relist(&self) {
        let mut kept = self.kept();
        if discovery::reread(&mut kept.lists, self.clock.now()) {
            self.engine.amend(kept.whole());
        }
    }

    /// Reads the files again that the configuration names, certificates and the like, and leaves
    /// everything else as it is.
    ///
    /// # Errors
    /// Which one cannot be used; nothing has changed then.
    pub fn renew(&self) -> Result<(), String> {
        let kept = self.kept();
        self.engine.reload(kept.whole())
    }

    /// Makes changes again that were made in a process before this one. Those of something that the
    /// file no longer has are left out.
    pub fn restore(&self, changes: Vec<Override>) {
        for change in changes {
            let told = change.to_string().replace('\n', " ");
            match self.change(change) {
                Ok(()) => tracing::info!(change = %told, "taken over"),
                Err(error) => tracing::warn!(change = %told, %error, "not taken over"),
            }
        }
    }

    /// What the file says.
    #[must_use]
    pub fn file(&self) -> Fleet {
        self.kept().file.clone()
    }

    pub(crate) fn flows(&self) -> Result<Vec<Flow>, String> {
        self.engine.flows()
    }

    pub(crate) fn state(&self) -> State {
        let mut state = self.engine.state();
        let kept = self.kept();
        kept.lists.tell(self.clock.now(), &kept.file, &mut state);
        state
    }

    /// Changes something until the next reload.
    pub(crate) fn change(&self, change: Override) -> Result<(), OverrideError> {
        let mut kept = self.kept();
        let listed = kept.listed();
        kept.overrides.set(&listed, change)?;
        self.engine.amend(kept.overrides.applied_to(&listed));
        Ok(())
    }

    /// The changes in force.
    #[must_use]
    pub fn changes(&self) -> Vec<Override> {
        self.kept().overrides.iter().cloned().collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site").finish_non_exhaustive()
    }
}
