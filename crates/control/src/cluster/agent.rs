//! An edge's part in its cluster: it is there for as long as its lease, and takes what was
//! published. Whatever goes wrong, it is told, counted and tried again, and the edge goes on.

mod admission;
mod joining;

use std::{
    collections::BTreeSet,
    convert::Infallible,
    future::pending,
    time::{Duration, Instant},
};

use tokio::{
    sync::{mpsc, oneshot},
    time::{MissedTickBehavior, interval, sleep},
};

use self::joining::Lease;
use super::{
    Disk, EdgeEntry, Fault, Published, Refusal, Settings, Version, View,
    disk::drawn,
    etcd::{
        Client, Stream,
        message::{LeaseRequest, LeaseResponse, WatchResponse},
    },
    keys::{self, Keys, ValueError},
    known::Known,
};

pub use admission::fetch_published;

/// A configuration that is to be put in force as by a reload.
#[derive(Debug)]
pub struct Offer {
    /// What was published: the version and its text.
    pub published: Published,
    /// For the result: in force, or what is wrong with it.
    pub answer: oneshot::Sender<Result<(), String>>,
}

/// This edge, as the others see it.
pub struct Identity {
    /// The region it is in.
    pub region: String,
    /// The version of loadline.
    pub release: String,
    /// Where its admin interface listens.
    pub admin: Option<String>,
    /// The names of its services, now.
    pub services: Box<dyn Fn() -> Vec<String> + Send + Sync>,
}

/// The agent of an edge in its cluster.
pub struct Agent {
    settings: Settings,
    keys: Keys,
    disk: Disk,
    view: View,
    identity: Identity,
    offers: mpsc::Sender<Offer>,
    /// The version that runs here; 0 where none does.
    running: u64,
    /// The digest of its text.
    digest: Option<String>,
    /// The version that was last compared with it, and the revision at which it was put in force.
    considered: Option<(u64, i64)>,
    /// The configuration it began with, until that is stored.
    begun_with: Option<Published>,
    refused: Option<Refusal>,
    known: Known,
    lease: Option<Lease>,
    /// All leases that this process has had: the store may hold an older one for longer than asked.
    leases: BTreeSet<i64>,
    /// What the other edges were last told, and the lease.
    told: Option<(i64, EdgeEntry)>,
    /// Whether this process has ever joined.
    has_joined: bool,
    taking: Option<Taking>,
}

/// A version on its way into force.
struct Taking {
    published: Published,
    answer: oneshot::Receiver<Result<(), String>>,
}

impl Agent {
    /// An agent of an edge that runs this configuration beside its own file, if any. What is
    /// published goes to `offers`.
    #[must_use]
    pub fn new(
        settings: Settings,
        disk: Disk,
        view: View,
        running: Option<Published>,
        identity: Identity,
        offers: mpsc::Sender<Offer>,
    ) -> Self {
        let keys = Keys { prefix: settings.prefix.clone() };
        let version = running.as_ref().map_or(0, |it| it.version);
        let digest = running.as_ref().map(Published::digest);
        view.change(|state| {
            state.name.clone_from(&settings.name);
            state.configuration = version;
        });
        Self {
            settings,
            keys,
            disk,
            view,
            identity,
            offers,
            running: version,
            digest,
            considered: None,
            begun_with: running,
            refused: None,
            known: Known::default(),
            lease: None,
            leases: BTreeSet::new(),
            told: None,
            has_joined: false,
            taking: None,
        }
    }

    /// Takes part in the cluster until it is told to leave.
    pub async fn run(mut self, mut leave: oneshot::Receiver<()>) {
        if let Some(published) = self.begun_with.take() {
            self.keep(&published);
        }
        let (mut first, mut failures) = (0, 0);
        loop {
            let begun = Instant::now();
            let connected = tokio::select! {
                connected = Client::connect(&self.settings, first) => connected,
                _ = &mut leave => return,
            };
            let fault = match connected {
                Ok((client, index)) => {
                    first = index + 1;
                    let ended = tokio::select! {
                        ended = self.session(&client) => ended,
                        _ = &mut leave => return self.leave(&client).await,
                    };
                    match ended {
                        Ok(never) => match never {},
                        Err(fault) => fault,
                    }
                }
                Err(error) => error.into(),
            };
            // A token ends where it is not used for minutes; one more is asked for.
            if !fault.is_old_token() {
                self.tell(&fault);
            }
            self.view.change(|state| (state.endpoint, state.joined) = (None, false));
            failures = if begun.elapsed() > CALM { 0 } else { failures + 1 };
            tokio::select! {
                () = self.pause(wait(failures)) => {}
                _ = &mut leave => return,
            }
        }
    }

    /// Does its part over one connection.
    async fn session(&mut self, client: &Client) -> Result<Infallible, Fault> {
        let revision = self.read_all(client).await?;
        self.enter(client).await?;
        let mut marker = client.watch(&self.keys.marker(), revision + 1).await?;
        let mut members = client.watch(&self.keys.members(), revision + 1).await?;
        let mut current = client.watch(&self.keys.current(), revision + 1).await?;
        self.view.change(|state| state.endpoint = Some(client.endpoint().to_owned()));
        let mut renewals = None;
        let mut ticks = interval(Duration::from_nanos(self.settings.lease.as_nanos() / 3));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if self.known.take_unmarked() {
                self.enter(client).await?;
            }
            self.consider(client).await?;
            self.show();
            tokio::select! {
                heard = marker.next() => self.heed(heard?)?,
                heard = members.next() => self.heed(heard?)?,
                heard = current.next() => self.heed(heard?)?,
                heard = next(&mut renewals) => self.renewed(heard?, &mut renewals)?,
                _ = ticks.tick() => self.keep_up(client, &mut renewals).await?,
                outcome = taken(&mut self.taking) => {
                    self.conclude(outcome);
                    self.keep_up(client, &mut renewals).await?;
                }
            }
        }
    }

    /// Sees to it that this edge and the keys belong together, and lets its other parts know.
    async fn enter(&mut self, client: &Client) -> Result<(), Fault> {
        let admitted = self.admit(client).await;
        match &admitted {
            Ok(()) => self.view.admit(!self.is_another()),
            Err(Fault::Foreign { .. }) => self.view.admit(false),
            Err(_) => {}
        }
        admitted
    }

    /// Reads who is there and what is in force, as of the revision.
    async fn read_all(&mut self, client: &Client) -> Result<i64, Fault> {
        let members = client.prefix(&self.keys.members()).await?;
        let current = client.range(&self.keys.current(), "").await?;
        // It may be another store, whose numbers and revisions say nothing of what runs here.
        (self.known, self.considered) = (Known::default(), None);
        for it in members.kvs.iter().chain(&current.kvs) {
            if let Err(error) = self.known.learn(&self.keys, it) {
                self.tell(&error.into());
            }
        }
        Ok(members.header.map_or(0, |header| header.revision))
    }

    fn heed(&mut self, heard: Option<WatchResponse>) -> Result<(), Fault> {
        let heard = heard.ok_or_else(|| Fault::Watch("the store has ended it".to_owned()))?;
        if heard.canceled || heard.compact_revision > 0 {
            return Err(Fault::Watch(heard.cancel_reason));
        }
        for event in &heard.events {
            if let Err(error) = self.known.follow(&self.keys, event) {
                let fault = Fault::from(error);
                self.view.single_fault(fault.kind(), &fault.to_string(), fault.help());
            }
        }
        Ok(())
    }

    /// Begins with the version in force where another one runs.
    async fn consider(&mut self, client: &Client) -> Result<(), Fault> {
        let current = self.known.current_since();
        let Some((version, _)) = current else { return Ok(()) };
        if self.taking.is_some() || self.considered == current {
            return Ok(());
        }
        self.considered = current;
        let published = match read_version(client, &self.keys, version).await? {
            Ok(Version { text, .. }) => Published { version, text, name: None },
            Err(error) => {
                self.refuse_unreadable(version, error);
                return Ok(());
            }
        };
        let digest = Some(published.digest());
        if version == self.running && digest == self.digest {
            self.refused = None;
            return Ok(());
        }
        let is_refused = |it: &Refusal| it.version == version && it.digest == digest;
        if self.refused.as_ref().is_some_and(is_refused) {
            return Ok(());
        }
        let (answer, answered) = oneshot::channel();
        let offer = Offer { published: published.clone(), answer };
        if self.offers.send(offer).await.is_ok() {
            self.taking = Some(Taking { published, answer: answered });
        }
        Ok(())
    }

    /// Remembers what became of a version.
    fn conclude(&mut self, outcome: Result<(), String>) {
        let Some(Taking { published, .. }) = self.taking.take() else { return };
        let version = published.version;
        match outcome {
            Ok(()) => {
                tracing::info!(version, "cluster: the published configuration is in force");
                (self.running, self.digest) = (version, Some(published.digest()));
                self.refused = None;
                self.keep(&published);
            }
            Err(reason) => {
                tracing::error!(
                    version,
                    running = self.running,
                    "cluster: the published configuration is refused, nothing has changed: \
                     {reason}"
                );
                let digest = Some(published.digest());
                self.refuse(Refusal { version, digest, reason });
            }
        }
    }

    /// Keeps it for the next start.
    fn keep(&mut self, published: &Published) {
        if let Err(error) = self.disk.keep_published(published) {
            self.event(&error.into());
        }
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.view.change(|state| state.refusals += 1);
        self.refused = Some(refusal);
    }

    /// Refuses a version that nobody can read, unless it has the number of the one that runs.
    fn refuse_unreadable(&mut self, version: u64, error: ValueError) {
        if version == self.running {
            self.refused = None;
            return;
        }
        let refusal = Refusal { version, digest: None, reason: error.to_string() };
        if self.refused.as_ref() != Some(&refusal) {
            self.refuse(refusal);
            self.event(&error.into());
        }
    }

    /// Copies what is known to the view.
    fn show(&self) {
        let current = self.known.current().unwrap_or(0);
        let refused = self.refused.as_ref().filter(|it| it.version == current);
        self.view.change(|state| {
            state.edges = self.known.edges() as u64;
            state.configuration = self.running;
            state.published = current;
            state.refused = refused.map(|it| it.reason.clone());
        });
    }

    fn event(&self, fault: &Fault) {
        self.view.event(fault.kind(), &fault.to_string(), fault.help());
    }

    fn tell(&self, fault: &Fault) {
        self.view.fault(fault.kind(), &fault.to_string(), fault.help());
    }

    /// Waits, and meanwhile concludes what was begun.
    async fn pause(&mut self, time: Duration) {
        let wait = sleep(time);
        tokio::pin!(wait);
        loop {
            tokio::select! {
                () = &mut wait => return,
                outcome = taken(&mut self.taking) => self.conclude(outcome),
            }
        }
    }
}

/// The text of a version, or why there is none.
pub(super) async fn read_version(
    client: &Client,
    keys: &Keys,
    version: u64,
) -> Result<Result<Version, ValueError>, Fault> {
    let key = keys.version(version);
    let found = client.range(&key, "").await?;
    Ok(match found.kvs.first() {
        Some(it) => keys::read("a configuration", &key, &it.value),
        None => {
            let why = "it is not there".to_owned();
            Err(ValueError { key, what: "a configuration", why })
        }
    })
}

/// What became of the version that is being taken; for ever where none is.
async fn taken(taking: &mut Option<Taking>) -> Result<(), String> {
    match taking {
        Some(taking) => {
            (&mut taking.answer).await.unwrap_or_else(|_| Err("this process is ending".to_owned()))
        }
        None => pending().await,
    }
}

/// The next renewal; for ever where there is no lease.
async fn next(
    renewals: &mut Option<Stream<LeaseResponse>>,
) -> Result<Option<LeaseResponse>, Fault> {
    match renewals {
        Some(renewals) => Ok(renewals.next().await?),
        None => pending().await,
    }
}

/// How long to wait after so many failures in a row: longer each time, and not all at once.
pub(super) fn wait(failures: u32) -> Duration {
    let longest = FIRST_WAIT * 2_u32.pow(failures.min(5));
    longest.mul_f64(rand::random_range(0.5..1.0))
}

/// A connection that lasted this long was a good one.
pub(super) const CALM: Duration = Duration::from_secs(10);
/// The waits are up to 32 times this, 6.4 s.
const FIRST_WAIT: Duration = Duration::from_millis(200);
