//! Edges that share capacity through a modelled store: the participants of `core`, unchanged, and
//! the ways between them and the store.
//!
//! ```text
//! participant --request, after half a round trip--> store
//!             <--answer--------------------------------'|
//!             <--watch: every change, in order-----------'
//! ```
//! A request, an answer or a watch may be lost; a request may come twice. A watch that is lost
//! begins anew with all that there is. While the store is away nothing reaches it.

use std::collections::BTreeMap;

use loadline_core::{
    cluster::{
        Action, Event, Participant, RequestId, Revision, Settings, Share,
        participant::{Observation, SharedService},
    },
    time::{Duration, Instant},
};

use crate::{random::Random, store::Store};

/// How edges share.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// As each edge has them, but for the name.
    pub settings: Settings,
    /// From each edge to the store and back; the last one holds for all further edges.
    pub rtts: Vec<Duration>,
    /// The mean of what comes on top of each way, exponential.
    pub jitter: Duration,
    /// The share of messages that are lost, 0 to 1.
    pub loss: f64,
    /// The share of requests that come twice, 0 to 1.
    pub duplicates: f64,
    /// What goes wrong, and when.
    pub faults: Vec<ClusterFault>,
    /// Whether edges have shared before: nobody waits for the leases of those who may have had a
    /// table that is gone.
    pub has_tables: bool,
}

/// Something that goes wrong between edges and the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterFault {
    /// When it begins.
    pub at: Instant,
    /// How long it lasts.
    pub lasts: Duration,
    /// What it is.
    pub what: ClusterTrouble,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterTrouble {
    /// The store does nothing; afterwards it has another leader.
    StoreAway,
    /// This edge and the store do not reach each other.
    CutOff(usize),
    /// This edge is killed, and begins anew afterwards.
    Killed(usize),
    /// This edge leaves in order, and begins anew afterwards.
    Leaves(usize),
    /// The participant of this edge hangs, and the edge does not know; events for it wait.
    Stalls(usize),
}

/// What the edges themselves do.
pub trait Edges {
    /// What an edge counts.
    fn observe(&mut self, now: Instant, edge: usize) -> Vec<Observation>;

    /// An edge may use so much of a group from now on.
    fn share(&mut self, now: Instant, edge: usize, place: (&str, &str), share: Share);

    /// The shares of an edge may be used until then; for ever if none.
    fn until(&mut self, now: Instant, edge: usize, until: Option<Instant>);
}

/// A cluster on its way.
#[derive(Debug)]
pub struct ClusterRun {
    cluster: Cluster,
    services: Vec<SharedService>,
    store: Store,
    nodes: Vec<Node>,
    messages: BTreeMap<(Instant, u64), Message>,
    sent: u64,
    /// How many faults keep the store away.
    stopped: u32,
    random: Random,
}

/// An edge and its watch.
#[derive(Debug, Default)]
struct Node {
    participant: Option<Participant>,
    /// Number of the process, so that events for an earlier process are dropped.
    process: u32,
    /// The revision up to which the watch has sent; none while it has not begun.
    watched: Option<Revision>,
    /// The watch is a stream: what was sent later comes later.
    arrives: Instant,
    /// How many faults cut it off now, and how many hold its participant up.
    cut: u32,
    stalled: u32,
    /// What came while it was held up.
    waiting: Vec<Event>,
}

#[derive(Debug)]
enum Message {
    Request(usize, u32, Action),
    ToEdge(usize, u32, Event),
    /// The watch is opened.
    Watch(usize, u32),
    Fault(usize, bool),
}

impl ClusterRun {
    /// A cluster at its beginning: all edges start at once.
    pub fn new(
        cluster: Cluster,
        edges: usize,
        services: Vec<SharedService>,
        seed: u64,
        all: &mut impl Edges,
    ) -> Self {
        let mut run = Self {
            store: store(&cluster, &services),
            services,
            nodes: (0..edges).map(|_| Node::default()).collect(),
            messages: BTreeMap::new(),
            sent: 0,
            stopped: 0,
            random: Random::stream(seed, STREAM),
            cluster,
        };
        for index in 0..run.cluster.faults.len() {
            let ClusterFault { at, lasts, .. } = run.cluster.faults[index];
            run.post(at, Message::Fault(index, true));
            run.post(at + lasts, Message::Fault(index, false));
        }
        for edge in 0..edges {
            run.start(Instant::ZERO, edge, all);
        }
        run
    }

    /// When something happens next.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        let running = self.nodes.iter().filter(|node| node.stalled == 0);
        let participants = running.filter_map(|node| node.participant.as_ref());
        let deadlines = participants.filter_map(Participant::next_deadline);
        let messages = self.messages.keys().next().map(|(at, _)| *at);
        let ends = self.store.next_end().filter(|_| !self.store_is_away());
        deadlines.chain(messages).chain(ends).min()
    }

    /// Lets everything happen that is due.
    pub fn advance(&mut self, now: Instant, edges: &mut impl Edges) {
        if !self.store_is_away() {
            self.store.expire(now);
        }
        while let Some(entry) = self.messages.first_entry().filter(|it| it.key().0 <= now) {
            let message = entry.remove();
            self.deliver(now, message, edges);
        }
        for edge in 0..self.nodes.len() {
            let node = &self.nodes[edge];
            let due = node.participant.as_ref().and_then(Participant::next_deadline);
            let due = due.filter(|_| node.stalled == 0);
            if due.is_some_and(|due| due <= now) {
                let observed = edges.observe(now, edge);
                self.tell(now, edge, Event::Observed(observed), edges);
            }
        }
        self.watch(now);
    }

    /// The store of the cluster as it is now.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Deletes the table of a service, as an operator could.
    pub fn delete_table(&mut self, service: &str) {
        self.store.delete_table(service);
    }

    /// The participant of an edge; none while its process is not there.
    #[must_use]
    pub fn participant(&self, edge: usize) -> Option<&Participant> {
        self.nodes[edge].participant.as_ref()
    }

    fn deliver(&mut self, now: Instant, message: Message, edges: &mut impl Edges) {
        match message {
            Message::Request(edge, process, action) => self.request(now, (edge, process), action),
            Message::ToEdge(edge, process, event) => {
                if self.nodes[edge].process == process {
                    self.tell(now, edge, event, edges);
                }
            }
            Message::Watch(edge, process) => self.open_watch(now, edge, process),
            Message::Fault(index, begins) => self.fault(now, index, begins, edges),
        }
    }

    /// A request reaches the store.
    fn request(&mut self, now: Instant, (edge, process): (usize, u32), action: Action) {
        if self.store_is_away() || self.nodes[edge].cut > 0 {
            return;
        }
        let id = request_id(&action);
        let answer = self.store.take(now, action);
        if let Some((id, answer)) = id.zip(answer)
            && !self.loses()
        {
            let at = now + self.way(edge);
            self.post(at, Message::ToEdge(edge, process, Event::Answered(id, answer)));
        }
    }

    /// Sends every change to every watch that is open.
    fn watch(&mut self, now: Instant) {
        if self.store_is_away() {
            return;
        }
        for edge in 0..self.nodes.len() {
            let node = &self.nodes[edge];
            let Some(watched) = node.watched.filter(|_| node.cut == 0) else { continue };
            let changes: Vec<_> = self.store.changes_since(watched).cloned().collect();
            let process = node.process;
            for (revision, change) in changes {
                if self.loses() {
                    self.break_watch(now, edge);
                    break;
                }
                self.stream(now, edge, process, Event::Changed(revision, vec![change]));
                self.nodes[edge].watched = Some(revision);
            }
        }
    }

    fn open_watch(&mut self, now: Instant, edge: usize, process: u32) {
        let node = &self.nodes[edge];
        if node.process != process || node.watched.is_some() {
            return;
        }
        if self.store_is_away() || node.cut > 0 {
            self.post(now + RECONNECT, Message::Watch(edge, process));
            return;
        }
        let contents = self.store.contents();
        self.nodes[edge].watched = Some(contents.revision);
        self.stream(now, edge, process, Event::Read(contents));
    }

    fn break_watch(&mut self, now: Instant, edge: usize) {
        self.nodes[edge].watched = None;
        let process = self.nodes[edge].process;
        self.post(now + RECONNECT, Message::Watch(edge, process));
    }

    /// Sends something after all that was sent before.
    fn stream(&mut self, now: Instant, edge: usize, process: u32, event: Event) {
        let at = (now + self.way(edge)).max(self.nodes[edge].arrives);
        self.nodes[edge].arrives = at;
        self.post(at, Message::ToEdge(edge, process, event));
    }

    /// Tells a participant something, and does what it wants.
    fn tell(&mut self, now: Instant, edge: usize, event: Event, edges: &mut impl Edges) {
        let node = &mut self.nodes[edge];
        if node.stalled > 0 {
            node.waiting.push(event);
            return;
        }
        let Some(participant) = &mut node.participant else { return };
        participant.handle(now, event);
        let actions: Vec<Action> = std::iter::from_fn(|| participant.poll(now)).collect();
        let process = self.nodes[edge].process;
        for action in actions {
            match &action {
                Action::Share { service, group, share } => {
                    edges.share(now, edge, (service, group), *share);
                    continue;
                }
                Action::Until(until) => {
                    edges.until(now, edge, *until);
                    continue;
                }
                // There is no connection.
                _ if self.nodes[edge].watched.is_none() => continue,
                _ => {}
            }
            let copies = 1 + u32::from(self.random.uniform() < self.cluster.duplicates);
            for _ in 0..copies {
                if !self.loses() {
                    let at = now + self.way(edge);
                    self.post(at, Message::Request(edge, process, action.clone()));
                }
            }
        }
    }

    fn fault(&mut self, now: Instant, index: usize, begins: bool, edges: &mut impl Edges) {
        match (self.cluster.faults[index].what, begins) {
            (ClusterTrouble::StoreAway, true) => {
                (0..self.nodes.len()).for_each(|edge| self.break_watch(now, edge));
                self.away(1);
            }
            (ClusterTrouble::StoreAway, false) => {
                self.away(-1);
                self.store.change_leader(now);
            }
            (ClusterTrouble::CutOff(edge), true) => {
                self.nodes[edge].cut += 1;
                self.break_watch(now, edge);
            }
            (ClusterTrouble::CutOff(edge), false) => self.nodes[edge].cut -= 1,
            (ClusterTrouble::Leaves(edge), true) => {
                self.tell(now, edge, Event::Leave, edges);
                self.stop(now, edge, edges);
            }
            (ClusterTrouble::Killed(edge), true) => self.stop(now, edge, edges),
            (ClusterTrouble::Stalls(edge), true) => self.nodes[edge].stalled += 1,
            (ClusterTrouble::Stalls(edge), false) => {
                self.nodes[edge].stalled -= 1;
                for event in std::mem::take(&mut self.nodes[edge].waiting) {
                    self.tell(now, edge, event, edges);
                }
            }
            (ClusterTrouble::Leaves(edge) | ClusterTrouble::Killed(edge), false) => {
                self.start(now, edge, edges);
            }
        }
    }

    fn stop(&mut self, now: Instant, edge: usize, edges: &mut impl Edges) {
        for service in &self.services {
            for group in &service.groups {
                edges.share(now, edge, (&service.name, group), Share::NONE);
            }
        }
        self.nodes[edge].participant = None;
        self.nodes[edge].process += 1;
        self.nodes[edge].watched = None;
        self.nodes[edge].waiting.clear();
    }

    fn start(&mut self, now: Instant, edge: usize, edges: &mut impl Edges) {
        if self.nodes[edge].participant.is_some() {
            return;
        }
        edges.until(now, edge, None);
        let name = format!("edge-{edge}");
        let settings = Settings { name, ..self.cluster.settings.clone() };
        self.nodes[edge].participant = Some(Participant::new(settings));
        self.nodes[edge].process += 1;
        self.nodes[edge].watched = None;
        let process = self.nodes[edge].process;
        self.post(now, Message::Watch(edge, process));
        self.tell(now, edge, Event::Configured(self.services.clone()), edges);
    }

    fn away(&mut self, by: i32) {
        self.stopped = self.stopped.saturating_add_signed(by);
    }

    fn store_is_away(&self) -> bool {
        self.stopped > 0
    }

    fn loses(&mut self) -> bool {
        self.cluster.loss > 0.0 && self.random.uniform() < self.cluster.loss
    }

    fn way(&mut self, edge: usize) -> Duration {
        let rtts = &self.cluster.rtts;
        let rtt = rtts.get(edge).or(rtts.last()).copied().unwrap_or_default();
        match self.cluster.jitter {
            Duration::ZERO => rtt / 2,
            jitter => rtt / 2 + jitter.scale(self.random.exponential()),
        }
    }

    fn post(&mut self, at: Instant, message: Message) {
        self.sent += 1;
        self.messages.insert((at, self.sent), message);
    }
}

fn store(cluster: &Cluster, services: &[SharedService]) -> Store {
    let mut store = Store::new(cluster.settings.lease);
    if cluster.has_tables {
        let reserved = cluster.settings.floors().sum();
        services.iter().for_each(|service| store.begin(&service.name, reserved));
    }
    store
}

fn request_id(action: &Action) -> Option<RequestId> {
    match action {
        Action::Join(id)
        | Action::KeepAlive(id, _)
        | Action::Report(id, ..)
        | Action::Table { id, .. } => Some(*id),
        Action::Share { .. } | Action::Until(_) | Action::Leave(_) => None,
    }
}

/// A stream of random numbers of its own.
const STREAM: u64 = 1 << 61;

/// After this a watch that was lost is opened anew.
const RECONNECT: Duration = Duration::from_millis(200);
