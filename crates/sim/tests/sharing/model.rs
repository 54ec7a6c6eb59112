//! Edges with a demand of their own, without requests: only how much may be sent is looked at.

use std::collections::BTreeMap;

use loadline_core::{
    cluster::{
        Participant, Share,
        participant::{GroupObservation, Observation, SharedService},
    },
    time::{Duration, Instant},
};
use loadline_sim::{
    Random,
    cluster::{Cluster, ClusterRun, Edges},
};

/// Requests per second that the group `rate` can take, and `places` too.
pub(crate) const RATE: f64 = 1_000.0;

/// Requests that `places` may have in flight.
pub(crate) const PLACES: u32 = 40;

const SERVICE: &str = "web";
const GROUPS: [&str; 2] = ["places", "rate"];

pub(crate) struct Model {
    pub(crate) run: Option<ClusterRun>,
    pub(crate) now: Instant,
    /// Requests per second, by edge.
    pub(crate) demand: Vec<f64>,
    state: State,
    random: Random,
}

struct State {
    demand: Vec<f64>,
    asked: Vec<f64>,
    since: Vec<Instant>,
    /// By edge and group.
    shares: Vec<BTreeMap<String, Share>>,
    until: Vec<Option<Instant>>,
    /// When each request in flight ends, by edge.
    in_flight: Vec<Vec<Instant>>,
}

impl Edges for State {
    fn observe(&mut self, now: Instant, edge: usize) -> Vec<Observation> {
        let since = std::mem::replace(&mut self.since[edge], now);
        self.asked[edge] += self.demand[edge] * now.since(since).as_secs_f64();
        let group = |index: usize| GroupObservation {
            distance: Some(Duration::from_millis([10, 30][(index + edge) % 2])),
            capacity: Some((RATE * 1e3) as u64),
            places: (index == 0).then_some(PLACES),
            in_flight: if index == 0 { self.in_flight[edge].len() as u32 } else { 0 },
        };
        let groups = vec![group(0), group(1)];
        vec![Observation { asked: [0, self.asked[edge] as u64, 0], groups }]
    }

    fn share(&mut self, _: Instant, edge: usize, (_, group): (&str, &str), share: Share) {
        self.shares[edge].insert(group.to_owned(), share);
    }

    fn until(&mut self, _: Instant, edge: usize, until: Option<Instant>) {
        self.until[edge] = until;
    }
}

impl Model {
    pub(crate) fn new(cluster: Cluster, edges: usize, seed: u64) -> Self {
        let mut state = State {
            demand: vec![0.0; edges],
            asked: vec![0.0; edges],
            since: vec![Instant::ZERO; edges],
            shares: vec![BTreeMap::new(); edges],
            until: vec![None; edges],
            in_flight: vec![Vec::new(); edges],
        };
        let groups = GROUPS.map(str::to_owned).to_vec();
        let services = vec![SharedService { name: SERVICE.to_owned(), groups }];
        let run = ClusterRun::new(cluster, edges, services, seed, &mut state);
        let mut random = Random::stream(seed, 2);
        let demand = (0..edges).map(|_| 3.0 * RATE * random.uniform() + 100.0).collect();
        Self { run: Some(run), now: Instant::ZERO, demand, state, random }
    }

    /// Runs until then, and looks after everything that happens.
    pub(crate) fn run(&mut self, end: Instant, mut look: impl FnMut(&mut Self)) {
        loop {
            let next = self.run.as_ref().and_then(ClusterRun::next);
            let Some(now) = next.map(|next| next.max(self.now)).filter(|now| *now <= end) else {
                self.now = end;
                return;
            };
            self.now = now;
            self.state.demand.clone_from(&self.demand);
            let mut run = self.run.take().expect("there is always one");
            run.advance(now, &mut self.state);
            self.run = Some(run);
            self.admit();
            look(self);
        }
    }

    /// Fills the places that the shares allow, for up to half a second.
    fn admit(&mut self) {
        for edge in 0..self.demand.len() {
            let allowed = self.places(edge);
            let alive = self.run.as_ref().is_some_and(|run| run.participant(edge).is_some());
            let in_flight = &mut self.state.in_flight[edge];
            in_flight.retain(|end| *end > self.now && alive);
            while (in_flight.len() as u32) < allowed {
                let lasts = Duration::from_millis(1 + self.random.draw() % 500);
                in_flight.push(self.now + lasts);
            }
        }
    }

    pub(crate) fn places(&self, edge: usize) -> u32 {
        self.share(edge, "places").of_places(PLACES)
    }

    fn share(&self, edge: usize, group: &str) -> Share {
        if self.state.until[edge].is_some_and(|until| self.now >= until) {
            return Share::NONE;
        }
        self.state.shares[edge].get(group).copied().unwrap_or_default()
    }

    /// Requests per second that the shares of an edge let through.
    pub(crate) fn covered(&self, edge: usize) -> f64 {
        let part = |group| self.share(edge, group).parts() as f64 / Share::WHOLE.parts() as f64;
        GROUPS.into_iter().map(|group| part(group) * RATE).sum()
    }

    pub(crate) fn delete_table(&mut self) {
        self.run.as_mut().into_iter().for_each(|run| run.delete_table(SERVICE));
    }

    pub(crate) fn assert_sums(&self, what: &str) {
        let edges = 0..self.demand.len();
        for group in GROUPS {
            let sum: u64 = edges.clone().map(|edge| self.share(edge, group).parts()).sum();
            assert!(
                sum <= Share::WHOLE.parts(),
                "{what}: {sum} parts of {group} at {:?}",
                self.now
            );
        }
        for table in self.run.iter().flat_map(|run| run.store().tables()) {
            assert!(table.is_sound(), "{what}: {table:?}");
        }
    }

    /// The same without those that keep what they had.
    pub(crate) fn assert_sums_of_joined(&self, what: &str) {
        let Some(run) = &self.run else { return };
        for group in GROUPS {
            let joined = (0..self.demand.len()).filter(|edge| {
                let participant = run.participant(*edge);
                participant.is_some_and(|it| follows(it, self.now))
            });
            let sum: u64 = joined.map(|edge| self.share(edge, group).parts()).sum();
            assert!(
                sum <= Share::WHOLE.parts(),
                "{what}: {sum} parts of {group} at {:?}",
                self.now
            );
        }
    }

    pub(crate) fn assert_in_flight(&self, what: &str) {
        let sum: usize = self.state.in_flight.iter().map(Vec::len).sum();
        assert!(sum <= PLACES as usize, "{what}: {sum} in flight at {:?}", self.now);
    }

    /// Requests per second that are served of what could be.
    fn used(&self) -> (f64, f64) {
        let edges = 0..self.demand.len();
        let used = edges.map(|edge| self.covered(edge).min(self.demand[edge])).sum();
        (used, self.demand.iter().sum::<f64>().min(2.0 * RATE))
    }

    /// Nobody lacks anything while something is free, or lies with somebody who does not want it.
    pub(crate) fn is_all_used(&self) -> bool {
        let (used, possible) = self.used();
        // A place is 25 requests a second here, and floors are a hundredth.
        used >= possible - 0.03 * 2.0 * RATE - 25.0 * self.demand.len() as f64
    }

    pub(crate) fn assert_all_is_used(&self, what: &str) {
        let (used, possible) = self.used();
        let covered: Vec<f64> = (0..self.demand.len()).map(|edge| self.covered(edge)).collect();
        let all = format!("{:?} {covered:?}", self.demand);
        assert!(self.is_all_used(), "{what}: {used} of {possible}: {all}");
    }
}

/// Whether an edge has what the table says, and nothing that it kept.
fn follows(participant: &Participant, now: Instant) -> bool {
    let session = participant.session();
    let table = participant.table(SERVICE);
    let entries = table.into_iter().flat_map(|table| table.groups.values().flatten());
    let is_in_table = entries.into_iter().any(|entry| Some(entry.session) == session);
    participant.is_joined(now) && is_in_table
}
