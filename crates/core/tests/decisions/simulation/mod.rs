//! Edges and servers in simulated time, on the code that decides in the proxy: each edge has a
//! controller, its plan and its queue, each request a machine, and the servers are shared.
//!
//! The same seed gives the same run.

pub(crate) mod draws;
pub(crate) mod station;
pub(crate) mod traffic;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
    net::SocketAddr,
    sync::Arc,
};

use draws::Draws;
use loadline_core::{
    decide::{
        controller::{Change, Controller, Input},
        ending::Ending,
        plan::{Plan, QueuePlace},
        queue::{Left, Next, Position, WaitQueue},
        reason::Reason,
        request::{Action, At, Event, Failed, Kind, Machine, Progress, Subject},
    },
    fleet::{Class, Service},
    time::{Duration, Instant},
    units::Ratio,
};
use station::{Station, instant};

/// All of it.
pub(crate) struct Simulation {
    edges: Vec<Edge>,
    pub(crate) stations: BTreeMap<SocketAddr, Station>,
    requests: Vec<Request>,
    /// What happens next, and in which order where it is at the same time.
    events: BinaryHeap<Reverse<(Instant, u64, What)>>,
    happened: u64,
    /// Requests that are to poll the queue in which they wait.
    woken: VecDeque<usize>,
    ended: usize,
    /// What the controllers told, and when.
    pub(crate) changes: Vec<(Instant, Change)>,
    /// What a server answers.
    statuses: Box<dyn FnMut(Instant, SocketAddr) -> u16>,
    /// Whether responses tell the utilization of their server.
    reports: bool,
    pub(crate) now: Instant,
    draws: Draws,
}

/// A place where requests come in.
struct Edge {
    controller: Controller,
    plan: Arc<Plan>,
    queue: WaitQueue<QueuePlace, usize>,
}

struct Request {
    machine: Machine,
    edge: usize,
    class: Class,
    position: Option<Position>,
    /// When it polls the queue, though nobody wakes it.
    timer: Option<Instant>,
    work: (f64, bool),
    outcome: Outcome,
}

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) came: Instant,
    /// When it was answered, and by which group and server; none if it was refused.
    pub(crate) answered: Option<(Instant, (usize, usize))>,
    pub(crate) refused: Option<Reason>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Arrives(usize),
    /// A server that works in batches begins the next one.
    Begins(SocketAddr),
    IsAnswered(usize),
    IsOverdue(usize),
    /// The timer of a request that waits.
    Expires(usize),
    /// The controller of this edge has something to do.
    Ticks(usize),
}

impl Simulation {
    /// So many edges before the servers of a service, each server a station of its own.
    pub(crate) fn new(service: &Service, edges: usize, station: &Station, seed: u64) -> Self {
        let edge = |_| {
            let (controller, plan) = crate::fleets::started(service.clone());
            Edge { controller, plan, queue: WaitQueue::default() }
        };
        let servers = service.groups.iter().flat_map(|group| &group.servers);
        Self {
            edges: (0..edges).map(edge).collect(),
            stations: servers.map(|server| (server.address, station.clone())).collect(),
            requests: Vec::new(),
            events: BinaryHeap::new(),
            happened: 0,
            woken: VecDeque::new(),
            ended: 0,
            changes: Vec::new(),
            statuses: Box::new(|_, _| 200),
            reports: false,
            now: Instant::ZERO,
            draws: Draws(seed),
        }
    }

    /// Lets each response have the status that `statuses` gives.
    pub(crate) fn answer_with(
        &mut self,
        statuses: impl FnMut(Instant, SocketAddr) -> u16 + 'static,
    ) {
        self.statuses = Box::new(statuses);
    }

    /// Lets each response tell the utilization of its server.
    pub(crate) fn report_utilization(&mut self) {
        self.reports = true;
    }

    /// Plans a request that comes to an edge.
    pub(crate) fn arrive(&mut self, at: f64, edge: usize, work: (f64, bool)) {
        self.arrive_as(Class::Normal, at, edge, work);
    }

    /// The same of a class.
    pub(crate) fn arrive_as(&mut self, class: Class, at: f64, edge: usize, work: (f64, bool)) {
        let draw = self.draws.next();
        let kind = Kind::Message;
        let subject = Subject { kind, key: draw, class, stick: None, idempotent: true };
        let outcome = Outcome { came: instant(at), answered: None, refused: None };
        let machine = Machine::new(subject);
        let (position, timer) = (None, None);
        self.requests.push(Request { machine, edge, class, position, timer, work, outcome });
        self.plan(instant(at), What::Arrives(self.requests.len() - 1));
    }

    /// Lets the first edge check a server as often as it takes to be up or down.
    pub(crate) fn check(&mut self, server: usize, passes: bool) {
        let id = self.edges[0].plan.staying().nth(server).expect("it has so many servers");
        for _ in 0..2 {
            let passed = passes.then(|| crate::fleets::passed(1)).ok_or_else(|| "503".into());
            self.hear(0, Input::Checked { server: id, passed });
        }
    }

    /// Gives the first edge another configuration of the service.
    pub(crate) fn reload(&mut self, service: Service) {
        self.hear(0, Input::Reload(crate::fleets::fleet(service).into()));
    }

    /// Lets everything happen until `end`.
    pub(crate) fn run_until(&mut self, end: Instant) {
        while self.events.peek().is_some_and(|Reverse((at, ..))| *at <= end) {
            self.step();
        }
        self.now = end;
    }

    /// Lets so many requests be in flight at a time at the first edge until so many have come, and
    /// says what became of each. `next` gives when the next comes, from now, and its work.
    pub(crate) fn keep_in_flight(
        &mut self,
        users: usize,
        requests: usize,
        mut next: impl FnMut(&mut Draws, f64) -> (f64, f64),
    ) -> Vec<Outcome> {
        loop {
            while self.requests.len() < requests && self.requests.len() < self.ended + users {
                let (at, work) = next(&mut self.draws, station::seconds(self.now));
                self.arrive(at, 0, (work, true));
                self.step();
            }
            if !self.step() {
                return self.run();
            }
        }
    }

    /// Lets the next thing happen; false if there is none.
    fn step(&mut self) -> bool {
        let Some(Reverse((at, _, what))) = self.events.pop() else { return false };
        self.now = at;
        self.happen(what);
        while let Some(request) = self.woken.pop_front() {
            self.poll(request);
        }
        true
    }

    /// Lets everything happen, and says what became of each request, in the order they were
    /// planned.
    pub(crate) fn run(&mut self) -> Vec<Outcome> {
        while self.step() {}
        for request in &self.requests {
            let Outcome { answered, refused, .. } = request.outcome;
            assert!(answered.is_some() != refused.is_some(), "each request ends in one way");
        }
        self.requests.iter().map(|request| request.outcome).collect()
    }

    /// The plan of an edge.
    pub(crate) fn plan_of(&self, edge: usize) -> &Plan {
        &self.edges[edge].plan
    }

    fn plan(&mut self, at: Instant, what: What) {
        self.happened += 1;
        self.events.push(Reverse((at, self.happened, what)));
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Arrives(request) => self.tell(request, Event::Arrived),
            What::Begins(server) => self.begin_batch(server),
            What::IsAnswered(request) => self.answer(request),
            What::IsOverdue(request) if self.requests[request].position.is_some() => {
                self.tell(request, Event::Overdue);
            }
            What::IsOverdue(_) => {}
            What::Expires(request) if self.requests[request].timer == Some(self.now) => {
                self.requests[request].timer = None;
                self.poll(request);
            }
            What::Expires(_) => {}
            What::Ticks(edge) => self.hear(edge, Input::Tick),
        }
    }

    fn answer(&mut self, index: usize) {
        let permit = self.requests[index].machine.permit().expect("a server answers");
        let (place, server) = (permit.place(), permit.address());
        if self.reports {
            let station = self.stations.get_mut(&server).expect("a station each");
            permit.report_utilization(self.now, Ratio::from_f64(station.utilization(self.now)));
        }
        let status = (self.statuses)(self.now, server);
        self.tell(index, Event::Head { status, untouched: true });
        let goes_elsewhere = self.requests[index].machine.permits().count() > 1;
        if !goes_elsewhere {
            self.requests[index].outcome.answered = Some((self.now, place));
            self.ended += 1;
        }
        self.tell(index, Event::Ended(Ending::Complete));
        let edge = self.requests[index].edge;
        let first = self.edges[edge].queue.notify();
        self.woken.extend(first);
    }

    /// Lets a request that waits do what its queue says.
    fn poll(&mut self, index: usize) {
        let request = &mut self.requests[index];
        let Some(position) = request.position else { return };
        match self.edges[request.edge].queue.poll(position, self.now, index) {
            Next::Pick => {
                self.tell(index, Event::First);
                // It has a server, or hears when to ask again.
                self.woken.push_back(index);
            }
            Next::Wait(Some(at)) if request.timer.is_none_or(|timer| at < timer) => {
                request.timer = Some(at);
                self.plan(at, What::Expires(index));
            }
            Next::Wait(_) => {}
            Next::Displaced => self.tell(index, Event::Displaced),
        }
    }

    /// Tells a request what has happened, and does what it says.
    fn tell(&mut self, index: usize, event: Event) {
        let request = &mut self.requests[index];
        let edge = &mut self.edges[request.edge];
        let at = At {
            now: self.now,
            draw: self.draws.next(),
            plan: Some(&edge.plan.services[0]),
            lag: Duration::ZERO,
        };
        let action = request.machine.handle(&at, event);
        if let Some(report) = request.machine.poll_report() {
            self.hear(self.requests[index].edge, report);
        }
        let request = &mut self.requests[index];
        let edge = &mut self.edges[request.edge];
        match action {
            Action::Send => self.send(index),
            Action::End => self.end(index),
            Action::Displace => {
                let left = edge.queue.displace(request.class);
                let place = left.map(|Left { place, wakers }| {
                    self.woken.extend(wakers.into_iter().flatten());
                    place
                });
                self.tell(index, Event::Room(place));
            }
            Action::Join { place, until } => {
                request.position = Some(edge.queue.join(request.class, place));
                self.woken.push_back(index);
                self.plan(until, What::IsOverdue(index));
            }
            Action::Wait(until) => {
                let position = request.position;
                position.into_iter().for_each(|position| edge.queue.no_room(position, until));
            }
            _ => {}
        }
    }

    fn send(&mut self, index: usize) {
        self.leave(index);
        let request = &self.requests[index];
        let permit = request.machine.permit().expect("it was sent");
        let (group, _) = permit.place();
        let groups = &self.edges[request.edge].plan.services[0].groups;
        let distance = groups.iter().find(|it| usize::from(it.index) == group);
        let way = distance.map_or(Duration::ZERO, |group| group.distance) / 2;
        let server = permit.address();
        let station = self.stations.get_mut(&server).expect("a station each");
        if permit.state().in_flight() > station.connections {
            let progress = Progress { crowded: true, ..Progress::NOTHING };
            let failed = Failed { reason: Reason::NoConnection, progress };
            return self.tell(index, Event::Failed(failed));
        }
        if let Some(batches) = &mut station.batches {
            batches.waiting.push_back(index);
            if !std::mem::replace(&mut batches.is_busy, true) {
                self.plan(self.now, What::Begins(server));
            }
            return;
        }
        let end = station.serve(self.now + way, request.work) + way;
        self.plan(end, What::IsAnswered(index));
    }

    /// Begins the next batch before anything can come in place of what is answered.
    fn begin_batch(&mut self, server: SocketAddr) {
        let station = self.stations.get_mut(&server).expect("a station each");
        let (batch, lasts) = station.batches.as_mut().expect("it works in batches").begin();
        if batch.is_empty() {
            return;
        }
        let end = self.now + Duration::from_nanos((lasts * 1e9) as u64);
        self.plan(end, What::Begins(server));
        batch.into_iter().for_each(|index| self.plan(end, What::IsAnswered(index)));
    }

    fn end(&mut self, index: usize) {
        self.leave(index);
        let request = &mut self.requests[index];
        request.outcome.refused = request.machine.failure().map(|failure| failure.reason);
        self.ended += 1;
    }

    fn leave(&mut self, index: usize) {
        let request = &mut self.requests[index];
        let position = request.position.take();
        let queue = &mut self.edges[request.edge].queue;
        let left = position.and_then(|position| queue.leave(position));
        self.woken.extend(left.into_iter().flat_map(|left| left.wakers).flatten());
    }

    fn hear(&mut self, edge: usize, input: Input) {
        let Edge { controller, plan, queue } = &mut self.edges[edge];
        controller.handle(self.now, input);
        let outputs = crate::fleets::drain(controller);
        if let Some(newer) = outputs.plan {
            *plan = newer;
            self.woken.extend(queue.notify());
        }
        self.changes.extend(outputs.changes.into_iter().map(|change| (self.now, change)));
        if let Some(due) = controller.next_deadline() {
            self.plan(due.max(self.now), What::Ticks(edge));
        }
    }
}

/// Seconds from the end of a request to the next one of the same user.
pub(crate) const THINK: f64 = 2e-5;
