//! The rate limits of all routes, kept across reloads.
//!
//! A limit is known by its listener's address, by the conditions of its route and by what it
//! counts. While these stay, what clients have been given stays given, whatever else of the file is
//! another; rate, burst and the number of keys may be too ([`Limiter::followed_by`]).

use alloc::{collections::BTreeMap, format, string::String, sync::Arc, vec, vec::Vec};
use core::net::SocketAddr;

use super::{LimitKey, Limiter, limit::Raised};
use crate::{fleet::Fleet, time::Instant};

/// The limits of the routes of one listener, in the order of the file.
pub type RouteLimiters = Arc<[Option<Limiter>]>;

/// All limits, by what they are known by.
#[derive(Debug, Default)]
pub(crate) struct Limiters {
    known: BTreeMap<LimitId, Limiter>,
    in_force: Arc<[RouteLimiters]>,
    /// Those with a higher rate than before, which [`Limiters::raise`] has yet to make known.
    raised: Vec<Raised>,
}

/// What a limit is known by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LimitId {
    bind: SocketAddr,
    /// How many listeners with the same address come before: there are several on port 0.
    nth_listener: usize,
    /// The conditions of its route, written out.
    when: String,
    by: LimitKey,
    /// How many limits of the listener that are the same in all this come before.
    nth: usize,
}

impl Limiters {
    /// Puts the limits of `fleet` in force; those that it no longer has are forgotten. To be
    /// followed by [`Limiters::raise`], right before anybody is told of them.
    pub(crate) fn settle(&mut self, now: Instant, fleet: &Fleet) {
        let before = core::mem::take(&mut self.known);
        let mut in_force: Vec<RouteLimiters> = Vec::with_capacity(fleet.listeners.len());
        let mut same: BTreeMap<SocketAddr, usize> = BTreeMap::new();
        for listener in &fleet.listeners {
            let bind = listener.bind;
            let count = same.entry(bind).or_default();
            let nth_listener = *count;
            *count += 1;
            let rules = listener.routes.rules();
            let mut limiters = vec![None; rules.len()];
            for (place, rule) in rules {
                let Some(limit) = &rule.limit else { continue };
                let (when, by) = (format!("{:?}", rule.when), limit.by.clone());
                let mut id = LimitId { bind, nth_listener, when, by, nth: 0 };
                while self.known.contains_key(&id) {
                    id.nth += 1;
                }
                let limiter = match before.get(&id) {
                    None => Limiter::new(limit),
                    Some(known) => {
                        let (limiter, raised) = known.followed_by(limit, now);
                        self.raised.extend(raised);
                        limiter
                    }
                };
                self.known.insert(id, limiter.clone());
                limiters[*place] = Some(limiter);
            }
            in_force.push(limiters.into());
        }
        self.in_force = in_force.into();
    }

    /// Says what is owed in the rates in force where they are higher than before.
    pub(crate) fn raise(&mut self, now: Instant) {
        self.raised.drain(..).for_each(|raised| raised.settle(now));
    }

    /// All limits with what has been let through, copied.
    pub(crate) fn snapshot(&self) -> Self {
        let known = self.known.iter().map(|(id, limiter)| (id.clone(), limiter.snapshot()));
        let copy = |limiter: &Option<Limiter>| limiter.as_ref().map(Limiter::snapshot);
        let in_force = self.in_force.iter().map(|of| of.iter().map(copy).collect());
        Self { known: known.collect(), in_force: in_force.collect(), raised: Vec::new() }
    }

    /// In the order of the listeners of the fleet.
    pub(crate) fn in_force(&self) -> &Arc<[RouteLimiters]> {
        &self.in_force
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::{
        fleet::{Edge, Listener, Services, forwarding::Forwarding},
        rules::{Action, Conditions, Path, RateLimit, Routes, Rule, Split},
        time::Duration,
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
            listeners: vec![Listener { routes: Routes::new(rules), ..Listener::new(bind, 0) }],
            services: Services::NONE,
        }
    }

    #[test]
    fn a_limit_is_known_by_its_conditions_wherever_its_route_stands() {
        let (now, key) = (Instant::ZERO + Duration::from_secs(1), u64::MAX / 3);
        let mut limiters = Limiters::default();
        let take = |limiters: &Limiters, place: usize| {
            limiters.in_force()[0][place].as_ref().unwrap().take(key, now).is_ok()
        };
        limiters.settle(now, &fleet(vec![rule("/a", LimitKey::Client)]));
        assert!(take(&limiters, 0) && !take(&limiters, 0));
        let more = ["/b", "/a", "/a"].map(|path| rule(path, LimitKey::Client));
        limiters.settle(now, &fleet(more.into()));
        assert!(take(&limiters, 0), "another route");
        assert!(!take(&limiters, 1), "the one before");
        assert!(take(&limiters, 2), "the second of its kind");
        limiters.settle(now, &fleet(vec![rule("/a", LimitKey::Header("key".to_string()))]));
        assert!(take(&limiters, 0), "another count");
    }
}
