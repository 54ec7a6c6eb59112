//! Clients: when they come, what they do about failures, when they go.

use loadline_core::{
    decide::request::{Event as Heard, Kind, Machine, Subject},
    time::{Duration, Instant},
};

use crate::{
    arrivals::{Arrivals, users_times},
    cache::Lookup,
    events::Event,
    observer::Ended,
    random::Random,
    simulation::{Answered, Client, Request, Simulation},
    slab::Handle,
    trace::{Outcome, Step},
};

impl Simulation {
    pub(super) fn plan_first_arrivals(&mut self, source: usize) {
        match &self.scenario.sources[source].arrivals {
            Arrivals::Open { .. } | Arrivals::Listed(_) => self.plan_arrival(source),
            Arrivals::Closed { .. } => self.change_users(source),
        }
    }

    /// Lets as many users of a closed loop be there as the traffic of this time says: those who
    /// come ask within the time that one thinks, those who leave do so instead of asking again.
    pub(super) fn change_users(&mut self, source: usize) {
        let of = &self.scenario.sources[source];
        let Arrivals::Closed { users, think, .. } = of.arrivals else { return };
        let wanted = users_times(users, self.traffic_factor(of));
        let clients = &mut self.sources[source];
        clients.wanted_users = wanted;
        let come = wanted.saturating_sub(clients.users);
        clients.users += come;
        for user in 0..come {
            let at = self.now + think.scale(f64::from(user) / f64::from(come));
            self.events.plan(at, Event::Arrival { source: source as u32 });
        }
    }

    fn plan_arrival(&mut self, source: usize) {
        let clients = &mut self.sources[source];
        let at = match (&mut clients.clock, &self.scenario.sources[source].arrivals) {
            (Some(clock), _) => clock.next(&mut clients.random),
            (None, Arrivals::Listed(times)) => {
                let listed = times.get(clients.listed).map(|time| Instant::ZERO + *time);
                clients.listed += 1;
                listed
            }
            (None, _) => None,
        };
        let end = Instant::ZERO + self.scenario.lasts;
        if let Some(at) = at.filter(|at| *at < end) {
            self.events.plan(at, Event::Arrival { source: source as u32 });
        }
    }

    pub(super) fn arrival(&mut self, source: usize) {
        if self.now >= Instant::ZERO + self.scenario.lasts {
            return;
        }
        let clients = &mut self.sources[source];
        let arrivals = &self.scenario.sources[source].arrivals;
        if matches!(arrivals, Arrivals::Closed { requests: Some(all), .. } if clients.came >= *all)
        {
            return;
        }
        if clients.users > clients.wanted_users {
            clients.users -= 1;
            return;
        }
        clients.came += 1;
        // Drawn from the number of the request: whatever happened before, it is the same request.
        let stream = (source as u64 + 1) << 40;
        let mut own = Random::stream(self.scenario.seed, stream + clients.came);
        let who = own.draw() % u64::from(self.scenario.sources[source].clients.max(1));
        let key = Random::stream(stream, who).draw();
        let (since, work) = (self.now, own.draw());
        self.observer.came(since);
        if !matches!(self.scenario.sources[source].arrivals, Arrivals::Closed { .. }) {
            self.plan_arrival(source);
        }
        self.wanted += 1;
        let (source, number) = (source as u32, self.wanted);
        self.ask(Client { source, number, since, tries: 0, key, work });
    }

    pub(super) fn try_again(&mut self, client: Handle) {
        if let Some(client) = self.retries.remove(client) {
            self.ask(client);
        }
    }

    /// Sends the request of a client to its edge.
    fn ask(&mut self, client: Client) {
        let edge = self.sources[client.source as usize].edge;
        let asks = Step::Asks {
            source: client.source,
            edge: edge.map(|edge| edge as u32),
            tries: client.tries,
        };
        self.note(client, asks);
        let Some(edge) = edge else {
            return self.fail(client, Ended::Unreachable);
        };
        let source = &self.scenario.sources[client.source as usize];
        // The response has to be on its way before the client goes.
        let distance = self.distance_of(client);
        let gives_up = source.gives_up.map(|after| after.saturating_sub(distance));
        if gives_up == Some(Duration::ZERO) {
            self.note(client, Step::GivesUp);
            return self.fail(client, Ended::GaveUp);
        }
        let cached =
            if self.caches.is_empty() { Lookup::Passes } else { self.look_up(edge, client) };
        if cached == Lookup::Hit {
            return self.answer_from_cache(client);
        }
        let stick = self.directed(edge);
        let source = &self.scenario.sources[client.source as usize];
        // Where something is stored in its place it waits for no capacity.
        let is_spare = cached == Lookup::Fetches && self.has_instead(edge, client);
        let subject = Subject {
            kind: if is_spare { Kind::Copy } else { Kind::Message },
            key: client.key,
            class: source.class,
            stick,
            idempotent: true,
        };
        let request = Request {
            machine: Machine::new(subject),
            client,
            fetches: cached == Lookup::Fetches,
            abandoned: false,
            under_way: false,
            edge: edge as u32,
            service: source.service as u32,
            sent: self.now,
            attempt: 0,
            group: 0,
            station: 0,
            due: None,
            position: None,
            until: Instant::ZERO,
            timer: None,
        };
        let request = self.requests.insert(request);
        if let Some(after) = gives_up {
            self.events.plan(self.now + after, Event::GivesUp(request));
        }
        if cached == Lookup::Joins {
            return self.join_fetch(edge, request);
        }
        self.tell(request, Heard::Arrived);
    }

    /// From a client to the edge at which it comes in now, and back.
    pub(super) fn distance_of(&self, client: Client) -> Duration {
        let source = client.source as usize;
        self.scenario.sources[source].distance + self.sources[source].detour
    }

    /// The client of a request waits no longer.
    pub(super) fn gives_up(&mut self, handle: Handle) {
        let Some(request) = self.requests.get_mut(handle).filter(|it| !it.abandoned) else {
            return;
        };
        if request.fetches {
            // Others may wait for it, and the cache does.
            request.abandoned = true;
            let client = request.client;
            self.note(client, Step::GivesUp);
            return self.fail(client, Ended::GaveUp);
        }
        self.leave(handle);
        self.cast_off(handle);
        if let Some(request) = self.requests.remove(handle) {
            let Request { edge, service, client, machine, .. } = request;
            drop(machine);
            self.note(client, Step::GivesUp);
            self.notify(edge as usize, service as usize);
            self.fail(client, Ended::GaveUp);
        }
    }

    /// A request has got the response of its server.
    pub(super) fn succeed(&mut self, request: Answered, status: u16) {
        match request.fetches {
            true => self.fetched(request, status),
            false => self.answered(request, status),
        }
    }

    /// A client has got a response, of a server or of its edge.
    pub(super) fn answered(&mut self, Answered { client, sent, .. }: Answered, status: u16) {
        if status >= 500 {
            return self.fail(client, Ended::Status(status));
        }
        let distance = self.distance_of(client);
        let service = self.now.since(sent);
        let response = self.now.since(client.since) + distance;
        self.observer.answered(
            client.source as usize,
            (client.since, self.now),
            (response, service),
        );
        self.is_served(client, Outcome::Served);
    }

    /// A request has failed: its client tries once more, or has failed.
    pub(super) fn fail(&mut self, client: Client, how: Ended) {
        let retry = self.scenario.sources[client.source as usize].retry;
        let distance = self.distance_of(client);
        if client.tries >= retry.times {
            self.observer.failed(client.source as usize, (client.since, self.now), how);
            let outcome = match how {
                Ended::Status(status) => Outcome::Status(status),
                Ended::GaveUp => Outcome::GaveUp,
                Ended::Unreachable => Outcome::Unreachable,
            };
            return self.is_served(client, outcome);
        }
        self.observer.retried(client.since);
        self.note(client, Step::Retries);
        let longest = retry.after * (1 << client.tries.min(20));
        // Of its own, so that what comes afterwards does not depend on who tries again.
        let mut random = Random::stream(client.work, RETRIES + u64::from(client.tries));
        let wait = longest.scale(0.5 + 0.5 * random.uniform());
        let waits = self.retries.insert(Client { tries: client.tries + 1, ..client });
        let after = distance + wait.max(Duration::from_nanos(1));
        self.events.plan(self.now + after, Event::Retry(waits));
    }

    /// A client is done: a user of a closed loop thinks, then sends the next request.
    pub(super) fn is_served(&mut self, client: Client, outcome: Outcome) {
        self.note(client, Step::Over(outcome));
        let source = &self.scenario.sources[client.source as usize];
        if let Arrivals::Closed { think, .. } = source.arrivals {
            let distance = self.distance_of(client);
            let at_once = outcome != Outcome::Served || self.now == client.since;
            let least = if at_once { LEAST_ROUND } else { Duration::ZERO };
            let after = (think.max(Duration::from_nanos(1)) + distance).max(least);
            self.events.plan(self.now + after, Event::Arrival { source: client.source });
        }
    }
}

/// From a request that fails, or that a cache answers, to the next one of its user: about what the
/// round trip takes on one machine. Without it a user would ask a thousand million times a second.
const LEAST_ROUND: Duration = Duration::from_micros(100);

/// First random stream of a request's work for the waits before retries; it comes after that of the
/// object.
const RETRIES: u64 = 3;
