//! Rates: the difference of two states, divided by the time between them.
//!
//! `rate = (count now - count before) / seconds`. A count that is less than before began anew (its
//! server left and came back) and is taken as it stands. A quantile is found by its rank in the
//! bins of the histogram and interpolated inside its bin.

use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};

use super::{Counts, Forwarding, Group, Histogram, Limits, Rates, Service, ServiceCounter, State};
use crate::decide::ending::Ending;

/// What rates are measured from: the counts of an earlier state, and nothing else of it.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    uptime_s: f64,
    services: BTreeMap<String, Arc<ServiceBaseline>>,
    forwarding: Option<Forwarding>,
}

#[derive(Clone, Debug, Default)]
struct ServiceBaseline {
    counts: Counts,
    groups: BTreeMap<String, GroupBaseline>,
}

#[derive(Clone, Debug, Default)]
struct GroupBaseline {
    overflowed: u64,
    /// Address and requests of each server, in the order of the state.
    servers: Vec<(String, u64)>,
}

impl From<State> for Baseline {
    fn from(state: State) -> Self {
        let service = |it: Service| {
            let groups = it.groups.into_iter().map(GroupBaseline::of).collect();
            (it.name, Arc::new(ServiceBaseline { counts: it.counts, groups }))
        };
        Self {
            uptime_s: state.uptime_s,
            services: state.services.into_iter().map(service).collect(),
            forwarding: state.forwarding,
        }
    }
}

impl Baseline {
    /// The same with what `earlier` has of services that are not there now: counts of one that is
    /// removed go on when it comes back.
    #[must_use]
    pub fn after(mut self, earlier: &Self) -> Self {
        let is_gone = |(name, _): &(&String, &Arc<ServiceBaseline>)| {
            !self.services.contains_key(name.as_str())
        };
        let gone = earlier.services.iter().filter(is_gone);
        let gone: Vec<_> = gone.map(|(name, it)| (name.clone(), it.clone())).collect();
        self.services.extend(gone);
        self
    }
}

impl GroupBaseline {
    fn of(group: Group) -> (String, Self) {
        let servers = group.servers.into_iter().map(|it| (it.address, it.requests)).collect();
        (group.name, Self { overflowed: group.overflowed, servers })
    }

    /// The place of a server, which is mostly the one after the last that was found.
    fn find(&self, address: &str, after: usize) -> Option<usize> {
        let (before, rest) = self.servers.split_at(after.min(self.servers.len()));
        let is_it = |it: &(String, u64)| it.0 == address;
        let place = rest.iter().position(is_it).map(|place| before.len() + place);
        place.or_else(|| before.iter().position(is_it))
    }
}

impl State {
    /// Fills in rates, fullness and headroom by comparing with an earlier state.
    pub fn measure_since(&mut self, earlier: &Baseline) {
        let seconds = self.uptime_s - earlier.uptime_s;
        for service in &mut self.services {
            let before = earlier.services.get(&service.name);
            service.measure(before.map(|it| &**it), seconds);
        }
        if let Some(forwarding) = &mut self.forwarding {
            forwarding.measure(earlier.forwarding.as_ref(), seconds);
        }
    }
}

impl Service {
    fn measure(&mut self, before: Option<&ServiceBaseline>, seconds: f64) {
        let none = Counts::default();
        self.rates = rates(&self.counts, before.map_or(&none, |it| &it.counts), seconds);
        for group in &mut self.groups {
            group.measure(before.and_then(|it| it.groups.get(&group.name)), seconds);
        }
    }
}

impl Group {
    fn measure(&mut self, before: Option<&GroupBaseline>, seconds: f64) {
        self.load.rate_per_s = 0.0;
        let mut next = 0;
        for server in &mut self.servers {
            let found = before.and_then(|it| Some((it, it.find(&server.address, next)?)));
            let requests = found.map_or(0, |(it, place)| it.servers[place].1);
            next = found.map_or(next, |(_, place)| place + 1);
            server.load.rate_per_s = rate(server.requests, requests, seconds);
            self.load.rate_per_s += server.load.rate_per_s;
        }
        let overflowed = before.map_or(0, |it| it.overflowed);
        self.overflow_per_s = rate(self.overflowed, overflowed, seconds);
        let (limits, load) = (&self.limits, &self.load);
        let used = load.utilization.unwrap_or(0.0);
        let in_flight = limits.in_flight.map(f64::from);
        let pairs = [
            (load.rate_per_s, limits.rate_per_s),
            (f64::from(load.in_flight), in_flight),
            (used, limits.utilization),
        ];
        let parts = pairs.into_iter().filter_map(|(load, limit)| quotient(load, limit?));
        self.fullness = parts.reduce(f64::max);
        self.headroom = Limits {
            rate_per_s: limits.rate_per_s.map(|limit| (limit - load.rate_per_s).max(0.0)),
            in_flight: limits.in_flight.map(|limit| limit.saturating_sub(load.in_flight)),
            utilization: limits.utilization.map(|limit| (limit - used).max(0.0)),
        };
    }
}

impl Histogram {
    /// How many times are counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The time, in seconds, that this part of all times does not exceed; none where there are
    /// none. In the open bin it is the last bound: more is not known.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let count = self.count();
        let rank = part * count as f64;
        let mut below = 0.0;
        for (bin, n) in self.counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            let n = *n as f64;
            if below + n >= rank {
                let low = bin.checked_sub(1).and_then(|bin| self.bounds_s.get(bin).copied());
                let low = low.unwrap_or(0.0);
                let high = self.bounds_s.get(bin).copied().unwrap_or(low);
                return Some(low + (high - low) * ((rank - below) / n).clamp(0.0, 1.0));
            }
            below += n;
        }
        None
    }

    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.counts.iter().copied().chain(core::iter::repeat(0));
        let counts: Vec<u64> = self
            .counts
            .iter()
            .zip(before)
            .map(|(now, before)| now.saturating_sub(before))
            .collect();
        let sum_s = (self.sum_s - earlier.sum_s).max(0.0);
        Self { bounds_s: self.bounds_s.clone(), counts, sum_s }
    }
}

fn rates(now: &Counts, before: &Counts, seconds: f64) -> Rates {
    let ended = |ending: Ending| {
        let count = |counts: &Counts| counts.endings.get(ending.name()).copied().unwrap_or(0);
        rate(count(now), count(before), seconds)
    };
    let counted = |it: ServiceCounter| rate(now.counters[it], before.counters[it], seconds);
    let by_ending = Ending::ALL.map(|ending| (String::from(ending.name()), ended(ending)));
    let duration = now.duration.since(&before.duration);
    let quantile = |part| duration.quantile(part).map(|seconds| seconds * 1e3);
    Rates {
        requests_per_s: by_ending.iter().map(|(_, rate)| rate).sum(),
        errors_per_s: Ending::ALL.into_iter().filter(|it| it.is_failure()).map(ended).sum(),
        overflow_per_s: counted(ServiceCounter::Overflowed),
        retries_per_s: counted(ServiceCounter::Retries),
        p50_ms: quantile(0.5),
        p99_ms: quantile(0.99),
        endings_per_s: BTreeMap::from_iter(by_ending.into_iter().filter(|(_, rate)| *rate > 0.0)),
    }
}

pub(super) fn rate(now: u64, before: u64, seconds: f64) -> f64 {
    let more = now.checked_sub(before).unwrap_or(now);
    if seconds > 0.0 { more as f64 / seconds } else { 0.0 }
}

/// Full where nothing is allowed and something is there; nothing of nothing says nothing.
fn quotient(load: f64, limit: f64) -> Option<f64> {
    match (load > 0.0, limit > 0.0) {
        (_, true) => Some(load / limit),
        (true, false) => Some(1.0),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Server;
    use super::*;
    use alloc::vec;

    fn histogram(counts: [u64; 3]) -> Histogram {
        Histogram { bounds_s: vec![0.01, 0.02], counts: counts.to_vec(), sum_s: 0.0 }
    }

    #[test]
    fn quantiles_are_interpolated_inside_their_bin() {
        assert_eq!(histogram([0, 0, 0]).quantile(0.5), None);
        assert_eq!(histogram([10, 0, 0]).quantile(0.5), Some(0.005));
        assert_eq!(histogram([50, 50, 0]).quantile(0.75), Some(0.015));
        assert_eq!(histogram([1, 0, 9]).quantile(0.99), Some(0.02), "no more is known");
    }

    #[test]
    fn a_count_that_began_anew_is_taken_as_it_stands() {
        assert!((rate(30, 10, 2.0) - 10.0).abs() < 1e-9);
        assert!((rate(4, 10, 2.0) - 2.0).abs() < 1e-9);
        assert!(rate(4, 1, 0.0).abs() < 1e-9);
    }

    #[test]
    fn a_service_that_was_removed_comes_back_without_all_that_it_ever_did() {
        let state = |uptime_s, complete: Option<u64>| {
            let service = |count| {
                let endings = [(String::from("complete"), count)].into();
                let counts = Counts { endings, ..Counts::default() };
                Service { name: String::from("web"), counts, ..Service::default() }
            };
            let services = complete.map(service).into_iter().collect();
            State { uptime_s, services, ..State::default() }
        };
        let first = Baseline::from(state(1.0, Some(1_000)));
        let removed = Baseline::from(state(2.0, None)).after(&first);
        let longer = Baseline::from(state(3.0, None)).after(&removed);
        let mut back = state(4.0, Some(1_005));
        back.measure_since(&longer);
        assert!((back.services[0].rates.requests_per_s - 5.0).abs() < 1e-9);
    }

    #[test]
    fn a_server_that_comes_or_leaves_changes_no_rate_of_the_others() {
        let group = |servers: &[(&str, u64)]| {
            let server = |(address, requests): &(&str, u64)| Server {
                address: String::from(*address),
                requests: *requests,
                ..Server::default()
            };
            Group { servers: servers.iter().map(server).collect(), ..Group::default() }
        };
        let (_, before) =
            GroupBaseline::of(group(&[("a", 10), ("gone", 50), ("b", 20), ("c", 30)]));
        let mut now = group(&[("c", 31), ("new", 7), ("a", 12), ("b", 23)]);
        now.measure(Some(&before), 1.0);
        let rates: Vec<u64> = now.servers.iter().map(|it| it.load.rate_per_s as u64).collect();
        assert_eq!(rates, [1, 7, 2, 3]);
    }

    #[test]
    fn headroom_ends_at_zero_and_the_fullest_limit_counts() {
        let limits = Limits { rate_per_s: Some(100.0), in_flight: Some(4), utilization: None };
        let server = Server { requests: 120, ..Server::default() };
        let mut group = Group { limits, servers: vec![server], ..Group::default() };
        group.load.in_flight = 3;
        group.measure(None, 1.0);
        assert_eq!(group.fullness, Some(1.2));
        assert_eq!(group.headroom.rate_per_s, Some(0.0));
        assert_eq!(group.headroom.in_flight, Some(1));
    }

    #[test]
    fn errors_are_those_that_neither_a_client_nor_maintenance_caused() {
        let endings = [
            ("complete", 4),
            ("client-gone", 3),
            ("maintenance", 2),
            ("shed", 2),
            ("server-reset", 1),
        ];
        let endings = endings.map(|(name, n)| (String::from(name), n)).into();
        let now = Counts { endings, ..Counts::default() };
        let rates = rates(&now, &Counts::default(), 1.0);
        assert!((rates.requests_per_s - 12.0).abs() < 1e-9);
        assert!((rates.errors_per_s - 3.0).abs() < 1e-9);
        assert_eq!(rates.endings_per_s.len(), 5);
    }
}
