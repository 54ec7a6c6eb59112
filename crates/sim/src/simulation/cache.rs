//! Requests and the cache of their edge.

use loadline_core::{cache::is_server_error, decide::request::Event as Heard, time::Duration};

use crate::{
    arrivals::Arrivals,
    cache::{EdgeCache, Lookup, Object, Objects},
    random::Random,
    scenario::{Cache, Scenario, Source},
    simulation::{Answered, Client, Simulation},
    slab::Handle,
    trace::{Outcome, Step},
};

impl Simulation {
    /// What the cache of an edge says of a request; nothing where there is none.
    pub(super) fn look_up(&mut self, edge: usize, client: Client) -> Lookup {
        let Some((object, of)) = object_of(&self.scenario, client) else { return Lookup::Passes };
        let counts = self.observer.counts(client.since);
        match self.caches.get_mut(edge) {
            Some(Some(cache)) => cache.look_up(self.now, object, of, counts),
            _ => Lookup::Passes,
        }
    }

    /// A request is answered from the cache of its edge, at once.
    pub(super) fn answer_from_cache(&mut self, client: Client) {
        self.note(client, Step::Hit);
        let response = self.now.since(client.since) + self.distance_of(client);
        let times = (response, Duration::ZERO);
        self.observer.answered(client.source as usize, (client.since, self.now), times);
        self.is_served(client, Outcome::Served);
    }

    /// A request waits for an object that is on its way.
    pub(super) fn join_fetch(&mut self, edge: usize, handle: Handle) {
        let Some(client) = self.requests.get(handle).map(|request| request.client) else { return };
        let object = object_of(&self.scenario, client).map(|(object, _)| object);
        let Some((cache, object)) = self.caches[edge].as_mut().zip(object) else { return };
        cache.join(object, handle);
        self.note(client, Step::Joined);
    }

    /// Whether what a request asks for is stored and may be used where servers fail.
    pub(super) fn has_instead(&self, edge: usize, client: Client) -> bool {
        let object = object_of(&self.scenario, client).map(|(object, _)| object);
        let cache = self.caches.get(edge).and_then(Option::as_ref);
        object.zip(cache).is_some_and(|(object, cache)| cache.has_instead(self.now, object))
    }

    /// The response to a request that fetches for the cache has come from its server. Those that
    /// waited for it get the same; where it is an error they ask for themselves, unless something
    /// stored is used instead.
    pub(super) fn fetched(&mut self, fetch: Answered, status: u16) {
        let (edge, client) = (fetch.edge as usize, fetch.client);
        let fails = is_server_error(status);
        let instead = fails && self.has_instead(edge, client);
        let Some((object, of)) = object_of(&self.scenario, client) else { return };
        let Some(Some(cache)) = self.caches.get_mut(edge) else { return };
        let waiting = match fails {
            true => cache.not_fetched(object),
            false => cache.fetched(self.now, object, of),
        };
        if fails {
            cache.pass(self.now, object);
        }
        self.give(fetch, status, instead);
        for handle in waiting {
            if fails && !instead {
                self.ask_itself(handle);
            } else if let Some(waited) = self.requests.remove(handle) {
                self.note(waited.client, Step::Response(status));
                self.give(waited.answered(), status, instead);
            }
        }
    }

    /// A request that fetches for the cache has failed at its edge. All that waited for it have,
    /// too, unless something stored is used instead.
    pub(super) fn not_fetched(&mut self, fetch: Answered, status: u16, instead: bool) {
        let object = object_of(&self.scenario, fetch.client).map(|(object, _)| object);
        let cache = self.caches.get_mut(fetch.edge as usize).and_then(Option::as_mut);
        let Some((object, cache)) = object.zip(cache) else { return };
        let waiting = cache.not_fetched(object);
        self.give(fetch, status, instead);
        for handle in waiting {
            // Some may have given up.
            let Some(waited) = self.requests.remove(handle) else { continue };
            self.note(waited.client, Step::Refused(status, None));
            self.give(waited.answered(), status, instead);
        }
    }

    /// Gives a client, if it is still there, what is stored, or the response.
    fn give(&mut self, request: Answered, status: u16, stored: bool) {
        if request.abandoned {
            return;
        }
        if !stored {
            return self.answered(request, status);
        }
        let counts = self.observer.counts(request.client.since);
        let cache = self.caches.get_mut(request.edge as usize).and_then(Option::as_mut);
        cache.into_iter().for_each(|cache| cache.answers_stale(counts));
        self.answer_from_cache(request.client);
    }

    /// A request that has waited for an object goes to a server, if it has not given up.
    fn ask_itself(&mut self, handle: Handle) {
        if self.requests.get(handle).is_some() {
            self.tell(handle, Heard::Arrived);
        }
    }

    /// Notes at the cache of its edge that a request is sent to a server for the first time.
    pub(super) fn count_fetch(&mut self, edge: usize, client: Client) {
        let Some(Some(cache)) = self.caches.get_mut(edge) else { return };
        let Some((object, of)) = object_of(&self.scenario, client) else { return };
        cache.is_sent(object, of, self.observer.counts(client.since));
    }

    /// Empties the caches of the edges in a region, or in all.
    pub(super) fn lose_caches(&mut self, region: Option<&String>, stays_out: bool) {
        for cache in self.caches_in(region) {
            cache.lose(stays_out);
        }
    }

    pub(super) fn restore_caches(&mut self, region: Option<&String>) {
        self.caches_in(region).for_each(EdgeCache::is_back);
    }

    fn caches_in<'a>(
        &'a mut self,
        region: Option<&'a String>,
    ) -> impl Iterator<Item = &'a mut EdgeCache> {
        let edges = self.scenario.edges.iter().map(|fleet| &fleet.edge.region);
        let caches = edges.zip(&mut self.caches);
        let there = caches.filter(move |(here, _)| region.is_none_or(|region| region == *here));
        there.filter_map(|(_, cache)| cache.as_mut())
    }
}

/// The caches of the edges as they are when the run begins.
pub(super) fn caches(scenario: &Scenario) -> Vec<Option<EdgeCache>> {
    let mut caches: Vec<Option<EdgeCache>> = Vec::new();
    for cache in &scenario.caches {
        caches.resize_with(scenario.edges.len(), || None);
        let region = &scenario.edges[cache.edge].edge.region;
        let mut filled = EdgeCache::new(*cache, region);
        warm(scenario, *cache, &mut filled);
        caches[cache.edge] = Some(filled);
    }
    caches
}

/// Lets a cache see requests of the sources of its edge, each as often as it asks.
fn warm(scenario: &Scenario, cache: Cache, filled: &mut EdgeCache) {
    let objects = |source: &Source| scenario.objects.get(source.service)?.as_ref();
    let sources = scenario.sources.iter().filter(|source| source.edge == cache.edge);
    let sources = sources.filter_map(|source| Some((source, objects(source)?)));
    let mut sum = 0.0;
    let sources: Vec<(f64, usize, &Objects)> = sources
        .map(|(source, objects)| {
            sum += weight(&source.arrivals);
            (sum, source.service, objects)
        })
        .collect();
    let mut random = Random::stream(scenario.seed, WARMING + cache.edge as u64);
    for _ in 0..cache.warm {
        let draw = random.uniform() * sum;
        let Some((_, service, objects)) = sources.iter().find(|it| draw < it.0) else { return };
        let object = objects.draw(*service, &mut random);
        filled.warm(object, objects, random.uniform());
    }
}

/// In proportion to the requests of a source per second, as it begins.
fn weight(arrivals: &Arrivals) -> f64 {
    match arrivals {
        Arrivals::Open { stages, .. } => {
            let first = stages
                .first()
                .map_or(0.0, |stage| stage.from.as_per_sec_f64().max(stage.to.as_per_sec_f64()));
            first.max(f64::MIN_POSITIVE)
        }
        Arrivals::Closed { users, .. } => f64::from(*users),
        Arrivals::Listed(times) => {
            let lasts = times.last().map_or(0.0, |last| last.as_secs_f64());
            times.len() as f64 / lasts.max(1.0)
        }
    }
}

/// The object that a client asks for, with the objects of the service.
fn object_of(scenario: &Scenario, client: Client) -> Option<(Object, &Objects)> {
    let service = scenario.sources[client.source as usize].service;
    let objects = scenario.objects.get(service)?.as_ref()?;
    Some((objects.draw(service, &mut Random::stream(client.work, POPULARITY)), objects))
}

/// The stream of a request's work from which its object is drawn.
const POPULARITY: u64 = 2;

/// Their streams of random numbers are behind those of the antagonists.
const WARMING: u64 = 3 << 61;
