//! The rate limits of all routes, kept across reloads.
//!
//! A limit is known by its listener's address, by the conditions of its route and by what it
//! counts. While these stay, what clients have been given stays given, whatever else of the file is
//! another; rate, burst and the number of keys may be too ([`Limiter::followed_by`]).

use alloc::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    vec::Vec,
};
use core::net::SocketAddr;

use super::{Conditions, LimitKey, Limiter, Routes, Rule, limit::Raised};
use crate::{fleet::Fleet, time::Instant};

/// The limits of the routes of one listener, in the order of the file; empty where there are none.
pub type RouteLimiters = Arc<[Option<Limiter>]>;

/// All limits, with the routes by which they are known.
#[derive(Debug, Default)]
pub(crate) struct Limiters {
    /// The addresses and routes of listeners, in the order of their limits.
    listeners: Vec<(SocketAddr, Routes)>,
    in_force: Arc<[RouteLimiters]>,
    /// Those with a higher rate than before, which [`Limiters::raise`] has yet to make known.
    raised: Vec<Raised>,
}

/// What a limit of a listener is known by. Of those that are the same in it the first is known as
/// the first.
type LimitId<'a> = (&'a LimitKey, &'a Conditions);

impl Limiters {
    /// Puts the limits of `fleet` in force; those that it no longer has are forgotten. To be
    /// followed by [`Limiters::raise`], right before anybody is told of them.
    pub(crate) fn settle(&mut self, now: Instant, fleet: &Fleet) {
        // On port 0 there may be several listeners with the same address, known by their order.
        let mut before: BTreeMap<SocketAddr, VecDeque<(Routes, RouteLimiters)>> = BTreeMap::new();
        for ((bind, routes), limiters) in self.listeners.drain(..).zip(&*self.in_force) {
            before.entry(bind).or_default().push_back((routes, limiters.clone()));
        }
        let mut in_force = Vec::with_capacity(fleet.listeners.len());
        for listener in &fleet.listeners {
            let known = before.get_mut(&listener.bind).and_then(VecDeque::pop_front);
            in_force.push(match known {
                Some((routes, limiters)) if routes.is_same_as(&listener.routes) => limiters,
                known => self.limiters(now, &listener.routes, known.as_ref()),
            });
            self.listeners.push((listener.bind, listener.routes.clone()));
        }
        self.in_force = in_force.into();
    }

    /// The limits of the routes of a listener, which follow those that it had before.
    fn limiters(
        &mut self,
        now: Instant,
        routes: &Routes,
        before: Option<&(Routes, RouteLimiters)>,
    ) -> RouteLimiters {
        let known = before.into_iter().flat_map(|(routes, limiters)| {
            let rules = routes.rules();
            let limiter = move |rank: usize| limiters[rules[rank].0].as_ref();
            limits(rules).into_iter().filter_map(move |(id, rank)| Some((id, limiter(rank)?)))
        });
        let mut known = known.peekable();
        let (rules, mut limiters) = (routes.rules(), Vec::new());
        for (id, rank) in limits(rules) {
            let (place, rule) = &rules[rank];
            let Some(limit) = &rule.limit else { continue };
            while known.next_if(|(other, _)| *other < id).is_some() {}
            let limiter = match known.next_if(|(other, _)| *other == id) {
                None => Limiter::new(limit),
                Some((_, known)) => {
                    let (limiter, raised) = known.followed_by(limit, now);
                    self.raised.extend(raised);
                    limiter
                }
            };
            limiters.resize(rules.len(), None);
            limiters[*place] = Some(limiter);
        }
        limiters.into()
    }

    /// Says what is owed in the rates in force where they are higher than before.
    pub(crate) fn raise(&mut self, now: Instant) {
        self.raised.drain(..).for_each(|raised| raised.settle(now));
    }

    /// All limits with what has been let through, copied.
    pub(crate) fn snapshot(&self) -> Self {
        let copy = |limiter: &Option<Limiter>| limiter.as_ref().map(Limiter::snapshot);
        let in_force = self.in_force.iter().map(|of| of.iter().map(copy).collect()).collect();
        Self { listeners: self.listeners.clone(), in_force, raised: Vec::new() }
    }

    /// In the order of the listeners of the fleet.
    pub(crate) fn in_force(&self) -> &Arc<[RouteLimiters]> {
        &self.in_force
    }
}

/// What the limits of some rules are known by, in its order, with the ranks of the rules.
fn limits(rules: &[(usize, Rule)]) -> Vec<(LimitId<'_>, usize)> {
    let limited = rules.iter().enumerate().filter_map(|(rank, (_, rule))| {
        let limit = rule.limit.as_ref()?;
        Some(((&limit.by, &rule.when), rank))
    });
    let mut limits: Vec<_> = limited.collect();
    limits.sort_unstable();
    limits
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::ToString, vec};
    use core::ptr;

    use super::*;
    use crate::{
        fleet::{Edge, Listener, Services, forwarding::Forwarding},
        rules::{Action, Network, Networks, Path, RateLimit, Split},
        units::Rate,
    };

    fn rule(path: &str, by: LimitKey) -> Rule {
        Rule {
            limit: Some(RateLimit { rate: Rate::per_sec(1), burst: 1, by, keys: 64 }),
            ..Rule::new(
                Conditions { paths: vec![Path::prefix(path).unwrap()], ..Conditions::default() },
                Action::Service(Split::all(0)),
            )
        }
    }

    fn fleet(rules: Vec<Rule>) -> Fleet {
        let bind = ([127, 0, 0, 1], 80).into();
        Fleet {
            edge: Edge::within("here"),
            forwarding: Forwarding::default(),
            listeners: vec![Listener { routes: Routes::new(rules), ..Listener::new(bind, 0) }]
                .into(),
            services: Services::NONE,
        }
    }

    /// A route for the clients of a list of so many networks, with a limit.
    fn listed(networks: u32) -> Rule {
        let networks = (0..networks).map(|n| format!("10.0.{}.{}", n >> 8, n & 0xff));
        let networks: Networks = networks.map(|it| it.parse::<Network>().unwrap()).collect();
        let when = Conditions { sources: Some(networks), ..Conditions::default() };
        Rule { when, ..rule("/", LimitKey::Client) }
    }

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    /// Whether the limit of a route lets a request of one client through.
    fn take(limiters: &Limiters, listener: usize, place: usize) -> bool {
        limiters.in_force()[listener][place].as_ref().unwrap().take(u64::MAX / 3, NOW).is_ok()
    }

    #[test]
    fn a_limit_is_known_by_its_conditions_wherever_its_route_stands() {
        let mut limiters = Limiters::default();
        limiters.settle(NOW, &fleet(vec![rule("/a", LimitKey::Client)]));
        assert!(take(&limiters, 0, 0) && !take(&limiters, 0, 0));
        let more = ["/b", "/a", "/a"].map(|path| rule(path, LimitKey::Client));
        limiters.settle(NOW, &fleet(more.into()));
        assert!(take(&limiters, 0, 0), "another route");
        assert!(!take(&limiters, 0, 1), "the one before");
        assert!(take(&limiters, 0, 2), "the second of its kind");
        limiters.settle(NOW, &fleet(vec![rule("/a", LimitKey::Header("key".to_string()))]));
        assert!(take(&limiters, 0, 0), "another count");
    }

    #[test]
    fn a_limit_of_a_route_with_a_long_list_of_networks_takes_no_memory_for_the_list() {
        let mut limiters = Limiters::default();
        let before = fleet(vec![listed(10_000)]);
        limiters.settle(NOW, &before);
        let (_, known) = &limiters.listeners[0];
        assert!(ptr::eq(known.rules(), before.listeners[0].routes.rules()), "the route itself");
        assert!(take(&limiters, 0, 0) && !take(&limiters, 0, 0));
        limiters.settle(NOW, &fleet(vec![listed(10_000)]));
        assert!(!take(&limiters, 0, 0), "the same list, read again");
        limiters.settle(NOW, &fleet(vec![listed(9_999)]));
        assert!(take(&limiters, 0, 0), "another list");
    }

    #[test]
    fn listeners_that_share_routes_have_limits_of_their_own() {
        let mut limiters = Limiters::default();
        let fleet = || {
            let mut fleet = fleet(vec![rule("/a", LimitKey::Client)]);
            let routes = fleet.listeners[0].routes.for_another_listener();
            let bind = ([127, 0, 0, 1], 81).into();
            fleet.listeners.push(Listener { routes, ..Listener::new(bind, 0) });
            fleet
        };
        limiters.settle(NOW, &fleet());
        assert!(take(&limiters, 0, 0) && !take(&limiters, 0, 0));
        limiters.settle(NOW, &fleet());
        assert!(!take(&limiters, 0, 0), "spent before the reload");
        assert!(take(&limiters, 1, 0), "nobody came there");
    }

    #[test]
    fn listeners_with_the_same_address_are_known_by_their_order() {
        let mut limiters = Limiters::default();
        let fleet = || {
            let mut fleet = fleet(vec![rule("/a", LimitKey::Client)]);
            fleet.listeners.push(fleet.listeners[0].clone());
            fleet
        };
        limiters.settle(NOW, &fleet());
        assert!(take(&limiters, 1, 0) && !take(&limiters, 1, 0));
        limiters.settle(NOW, &fleet());
        assert!(take(&limiters, 0, 0), "nobody came there");
        assert!(!take(&limiters, 1, 0), "spent before the reload");
    }

    #[test]
    fn limits_of_routes_that_stay_are_the_same_though_another_listener_is_inserted() {
        let mut limiters = Limiters::default();
        let mut fleet = fleet(vec![rule("/a", LimitKey::Client)]);
        limiters.settle(NOW, &fleet);
        let before = limiters.in_force()[0].clone();
        let new = Listener::new(([127, 0, 0, 1], 81).into(), 0);
        fleet.listeners = vec![new, fleet.listeners[0].clone()].into();
        limiters.settle(NOW, &fleet);
        assert!(limiters.in_force()[0].is_empty());
        assert!(Arc::ptr_eq(&limiters.in_force()[1], &before));
    }

    #[test]
    fn routes_without_a_limit_take_no_place_among_the_limits() {
        let mut limiters = Limiters::default();
        let unlimited = Rule { limit: None, ..rule("/a", LimitKey::Client) };
        limiters.settle(Instant::ZERO, &fleet(vec![unlimited; 3]));
        assert!(limiters.in_force()[0].is_empty());
    }
}
