//! Carries out what a [`Participant`] wants: requests to the store, and shares of the engine.
//!
//! ```text
//! store --watch--> link --Heard--> Sharing (Participant) --share--> engine
//!                                      |
//!                                      +--request--> store --Heard--> Sharing
//! ```

mod link;
mod request;

use std::{future::Future, pin::Pin, sync::Arc};

use loadline_core::{
    cluster::{
        Action, Answer, Event, Participant, RequestId, Revision, Share,
        observe::{observations, shared_services},
        participant::{Change, Contents, SharedService},
    },
    decide::plan::Plan,
    state::{self, ClusterFault},
    time::Instant,
};
use tokio::{
    sync::{
        Notify,
        mpsc::{self, UnboundedReceiver, UnboundedSender},
        oneshot,
    },
    task::AbortHandle,
    time::sleep,
};

pub(super) use self::link::Places;
use self::request::Requests;
use super::{EtcdError, Settings, View, etcd::Client};

/// The engine whose groups are shared. It begins with the floor of every group.
pub trait Shared: Send + Sync + 'static {
    /// The time by which it decides about requests.
    fn now(&self) -> Instant;

    /// The plan in force.
    fn plan(&self) -> Arc<Plan>;

    /// Gives this edge so much of a group.
    fn share(&self, service: &str, group: &str, share: Share);

    /// Lets shares be used until then, for ever if none.
    fn until(&self, until: Option<Instant>);

    /// Waits until every share that was given is in force.
    fn settled(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// This edge's part in the sharing.
pub struct Sharing {
    settings: Settings,
    view: View,
    participant: Participant,
    engine: Box<dyn Shared>,
    services: Vec<SharedService>,
    /// The configuration of which these are the services.
    configuration: Option<u64>,
    client: Option<Client>,
    requests: Requests,
    told: UnboundedSender<Heard>,
    heard: UnboundedReceiver<Heard>,
    /// Told where a connection is of no use any more.
    broken: Arc<Notify>,
    /// Whoever holds the connection.
    link: Option<AbortHandle>,
    fault: Option<ClusterFault>,
    was_leased: bool,
    is_mismatch: bool,
}

/// An event for the driver.
enum Heard {
    /// A connection, and all that is there.
    Connected(Client, Contents),
    /// What a revision has changed.
    Changed(Revision, Vec<Change>),
    /// The connection has ended.
    Lost,
    /// What became of a request, and whether it was to write something.
    Answered(RequestId, Answer, bool),
    /// The store failed a request.
    Failed(RequestId, EtcdError),
}

impl Sharing {
    /// A part that nobody has heard of yet.
    #[must_use]
    pub fn new(settings: Settings, view: View, engine: impl Shared) -> Self {
        let (told, heard) = mpsc::unbounded_channel();
        Self {
            participant: Participant::new(settings.sharing()),
            services: Vec::new(),
            configuration: None,
            engine: Box::new(engine),
            client: None,
            requests: Requests::new(&settings, told.clone()),
            told,
            heard,
            broken: Arc::default(),
            link: None,
            fault: None,
            was_leased: false,
            is_mismatch: false,
            settings,
            view,
        }
    }

    /// Takes part until it is told to leave, and then leaves in order: nothing of its shares may be
    /// in use any more.
    pub async fn run(mut self, leave: oneshot::Receiver<()>) {
        tokio::select! {
            () = self.take_part() => {}
            _ = leave => {}
        }
        self.link.iter().for_each(AbortHandle::abort);
        self.participant.handle(self.engine.now(), Event::Leave);
        while let Some(action) = self.participant.poll(self.engine.now()) {
            if let (Some(client), Action::Leave(session)) = (&self.client, action)
                && let Err(error) = client.revoke(session.0).await
            {
                tracing::warn!(%error, "cluster: shares not given back, the lease ends by itself");
            }
        }
    }

    async fn take_part(&mut self) {
        // Who shares nothing asks for nothing.
        while shared_services(&self.engine.plan().fleet).is_empty() {
            sleep(IDLE).await;
        }
        let link = link::keep(
            self.settings.clone(),
            self.view.clone(),
            self.told.clone(),
            Arc::clone(&self.broken),
        );
        self.link = Some(tokio::spawn(link).abort_handle());
        loop {
            self.look();
            self.carry_out().await;
            self.show();
            let now = self.engine.now();
            let due = self.participant.next_deadline().map_or(now, |at| at.max(now));
            tokio::select! {
                Some(heard) = self.heard.recv() => self.hear(heard),
                () = sleep(due.since(now).to_std()) => {}
            }
        }
    }

    /// Hands in what is counted, if due; and the shared services, if they have changed.
    fn look(&mut self) {
        let now = self.engine.now();
        if self.participant.next_deadline().is_some_and(|at| now < at) {
            return;
        }
        let plan = self.engine.plan();
        if self.configuration != Some(plan.configuration) {
            self.configuration = Some(plan.configuration);
            self.configure(now, shared_services(&plan.fleet));
        }
        let plans = plan.services.iter().map(|plan| &**plan);
        let observed = observations(&plan.fleet, plans);
        self.participant.handle(now, Event::Observed(observed));
    }

    fn configure(&mut self, now: Instant, services: Vec<SharedService>) {
        if services == self.services {
            return;
        }
        let floor = self.participant.settings().floor();
        // One that comes back has its floor again, whatever the others have been given meanwhile.
        let is_gone = |service: &str, group: &String| {
            let after = services.iter().find(|it| it.name == service);
            after.is_none_or(|after| !after.groups.contains(group))
        };
        for service in &self.services {
            for group in service.groups.iter().filter(|group| is_gone(&service.name, group)) {
                self.engine.share(&service.name, group, floor);
            }
        }
        self.services.clone_from(&services);
        self.participant.handle(now, Event::Configured(services));
    }

    fn hear(&mut self, heard: Heard) {
        let now = self.engine.now();
        let event = match heard {
            Heard::Connected(client, contents) => {
                self.client = Some(client);
                Event::Read(contents)
            }
            Heard::Changed(revision, changes) => Event::Changed(revision, changes),
            Heard::Answered(id, answer, is_write) => {
                if is_write && matches!(answer, Answer::Done | Answer::Written(_)) {
                    self.wrote();
                }
                Event::Answered(id, answer)
            }
            Heard::Failed(id, error) => {
                self.failed(&error);
                Event::Answered(id, Answer::Failed)
            }
            Heard::Lost => {
                self.client = None;
                return;
            }
        };
        self.participant.handle(now, event);
    }

    /// Something was written.
    fn wrote(&mut self) {
        self.view.change(|state| state.writes += 1);
        if let Some(fault) = self.fault.take() {
            tracing::info!("cluster: capacity is shared again, after: {}", fault.message);
        }
    }

    /// The store did not do something, which is tried again.
    fn failed(&mut self, error: &EtcdError) {
        if !error.is_of_the_request() {
            // The link tells of it, where it meets it with another connection.
            tracing::debug!("sharing: {error}");
            self.broken.notify_waiters();
            return;
        }
        let fault = ClusterFault { kind: error.kind().to_owned(), message: error.to_string() };
        if self.fault.as_ref().is_none_or(|told| told.kind != fault.kind) {
            self.view.event(
                error.kind(),
                &format!("capacity is not shared: {error}"),
                error.help(),
            );
        }
        self.fault = Some(fault);
    }

    /// Does what is to be done, in order: a share is in force before anybody is told of it.
    async fn carry_out(&mut self) {
        let mut is_settled = true;
        while let Some(action) = self.participant.poll(self.engine.now()) {
            match action {
                Action::Share { service, group, share } => {
                    self.engine.share(&service, &group, share);
                    is_settled = false;
                }
                Action::Until(until) => {
                    self.engine.until(until);
                    is_settled = false;
                }
                action => {
                    if !is_settled {
                        self.engine.settled().await;
                        is_settled = true;
                    }
                    // Where nobody answers it is tried again.
                    if let Some(client) = &self.client {
                        self.requests.begin(client, action);
                    }
                }
            }
        }
    }

    /// Lets others see what is known, and tells what an operator has to know.
    fn show(&mut self) {
        let now = self.engine.now();
        let sharing = self.participant.overview(now);
        if sharing.leased != self.was_leased {
            self.was_leased = sharing.leased;
            if sharing.leased {
                tracing::info!("cluster: takes part in the sharing of capacity");
            } else {
                let away = self.participant.settings().when_away.name();
                tracing::warn!(away, "cluster: no lease of the store: capacity is not shared");
            }
        }
        if sharing.mismatch && !self.is_mismatch {
            self.view.event("mismatch", MISMATCH, Some(MISMATCH_HELP));
        }
        self.is_mismatch = sharing.mismatch;
        let fault = self.fault.clone();
        let shown = state::Sharing { fault, ..sharing };
        let elected = self.participant.elected(now).map(str::to_owned);
        self.view.change(|state| (state.sharing, state.elected) = (Some(shown), elected));
    }
}

/// While nothing is shared.
const IDLE: std::time::Duration = std::time::Duration::from_secs(1);

const MISMATCH: &str = "edges differ in `floor` or `max_edges`, or there are more of them than \
                        `max_edges`: shares are not moved while they differ, and a group may be \
                        given too much";
const MISMATCH_HELP: &str = "write the same in [cluster] of each edge; after a change at all of \
                             them, remove the keys below PREFIX/sharing/shares/";
