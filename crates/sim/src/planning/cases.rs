//! What may be lost, one thing at a time.

use std::{iter, net::SocketAddr, sync::Arc};

use loadline_core::{
    fleet::{Capacity, Fleet, Group, ServerAddress, Service},
    time::{Duration, Instant},
    units::Rate,
};

use super::{has_use, in_use, takes_part};
use crate::{
    OutageKind, Scenario,
    arrivals::{Arrivals, Stage},
    scenario::{Fault, Selector, ServerModel, Trouble},
};

/// Something that is lost for a whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What it is called in results.
    pub name: String,
    /// Servers that do not respond, and the edges of the region if it is one.
    pub whom: Selector,
}

/// A loss in its scenario.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) scenario: Scenario,
}

impl Loss {
    /// Each region in which there are servers that are not drained, or one of several edges.
    #[must_use]
    pub fn of_regions(scenario: &Scenario) -> Vec<Self> {
        let services = scenario.services();
        let groups = services.iter().flat_map(|service| &service.groups);
        let groups = groups.filter(|group| has_use(group));
        let has_others = scenario.edges.len() > 1;
        let edges = scenario.edges.iter().filter(|_| has_others).map(|fleet| &fleet.edge.region);
        let mut regions: Vec<&String> = groups.map(|group| &group.region).chain(edges).collect();
        regions.sort_unstable();
        regions.dedup();
        let loss = |region: &String| Self {
            name: format!("region {region}"),
            whom: Selector { region: Some(region.clone()), ..Selector::default() },
        };
        regions.into_iter().map(loss).collect()
    }

    /// Each group that is not drained.
    #[must_use]
    pub fn of_groups(fleet: &Fleet) -> Vec<Self> {
        let loss = |service: &Service, group: &str| Self {
            name: format!("group {}/{group}", service.name),
            whom: Selector {
                service: Some(service.name.clone()),
                group: Some(group.to_owned()),
                ..Selector::default()
            },
        };
        let groups = fleet.services.iter().flat_map(|service| {
            let groups = service.groups.iter().filter(|group| has_use(group));
            groups.map(move |group| loss(service, &group.name))
        });
        groups.collect()
    }

    /// Of each group the first server of each kind, of those that requests go to while all are
    /// healthy. Servers are of one kind that have the same weight, limits and model.
    #[must_use]
    pub fn of_servers(scenario: &Scenario) -> Vec<Self> {
        let services = scenario.services();
        let groups = services
            .iter()
            .flat_map(|service| service.groups.iter().map(move |group| (service, group)));
        groups.flat_map(|of| of_kinds(scenario, of)).collect()
    }

    /// The first service of which nothing is left without it.
    #[must_use]
    pub fn leaves_nothing_of<'f>(&self, fleet: &'f Fleet) -> Option<&'f str> {
        let has_servers = |service: &&Service| service.groups.iter().any(has_use);
        let all_lost = |service: &&Service| {
            service.groups.iter().all(|group| {
                let names = (group.name.as_str(), group.region.as_str());
                let lost = |address| self.whom.fits(&service.name, names, address);
                let mut servers = group.servers.iter().filter(|server| takes_part(server));
                servers.all(|server| lost(server.address))
            })
        };
        let mut services = fleet.services.iter().filter(has_servers);
        services.find(all_lost).map(|service| service.name.as_str())
    }
}

/// What servers have in common of which one is as good as another.
#[derive(PartialEq)]
struct Kind<'s> {
    weight: u32,
    capacity: Capacity,
    model: Option<&'s Arc<ServerModel>>,
}

fn of_kinds(scenario: &Scenario, of: (&Service, &Group)) -> Vec<Loss> {
    let mut kinds: Vec<(Kind<'_>, SocketAddr)> = Vec::new();
    for server in in_use(of.1) {
        let model = scenario.model_of(of, server.address);
        let kind = Kind { weight: server.weight, capacity: server.capacity, model };
        if !kinds.iter().any(|(known, _)| *known == kind) {
            kinds.push((kind, server.address));
        }
    }
    let are_alike = kinds.len() == 1;
    let loss = |(_, address): (Kind<'_>, SocketAddr)| {
        let group = &of.1.name;
        let name = match are_alike {
            true => format!("a server of {group}"),
            false => format!("server {} of {group}", ServerAddress(address)),
        };
        Loss { name, whom: Selector { server: Some(address), ..Selector::default() } }
    };
    kinds.into_iter().map(loss).collect()
}

/// The scenario as it is, and with each loss before its beginning. It begins when health checks
/// have long noticed: what a loss costs until then, no capacity prevents. Where nothing is checked,
/// requests are answered before the loss: of silence nobody can say that it is too long where
/// nothing is known of a server and its group.
pub(super) fn cases(scenario: &Scenario, losses: &[Loss]) -> Vec<Case> {
    let settled = scenario.edges.first().map_or(Duration::ZERO, |it| settled(it));
    let are_checked = scenario.edges.iter().flat_map(|fleet| &fleet.services).all(is_checked);
    let (at, settled) = match are_checked {
        true => (FIRST, settled),
        false => (Instant::ZERO + HEALTHY, settled + HEALTHY),
    };
    let lost = losses.iter().map(|loss| {
        let mut scenario = scenario.clone();
        let what = Trouble::Outage(OutageKind::Unreachable);
        let (name, lost) = lost(&scenario, loss);
        let faults = lost.into_iter().map(|whom| Fault { at, lasts: None, what, whom });
        delay(&mut scenario, settled, are_checked);
        scenario.faults.extend(faults);
        Case { name: format!("without {name}"), scenario }
    });
    let whole = Case { name: "nothing lost".to_owned(), scenario: scenario.clone() };
    iter::once(whole).chain(lost).collect()
}

/// Delays listed arrivals, stages and faults by this time. Until then faults that hold from the
/// beginning hold already, and such sources ask nothing if the services `are_checked`: a request
/// that a lost server leaves unanswered would come again in the middle of what is counted.
fn delay(scenario: &mut Scenario, by: Duration, are_checked: bool) {
    let lasts = scenario.lasts;
    for source in &mut scenario.sources {
        match &mut source.arrivals {
            Arrivals::Listed(times) => {
                let until = if are_checked { Duration::ZERO } else { by };
                let before = evenly(lasts / times.len().max(1) as u64, until);
                *times = before.chain(times.iter().map(|time| *time + by)).collect();
            }
            Arrivals::Open { stages, .. } => {
                let rate = if are_checked { Rate::default() } else { settling(stages) };
                let first = Stage { from: rate, to: rate, lasts: by };
                *stages = iter::once(first).chain(stages.iter().copied()).collect();
            }
            Arrivals::Closed { .. } => {}
        }
    }
    for fault in &mut scenario.faults {
        match fault.at > FIRST {
            true => fault.at = fault.at + by,
            false => fault.lasts = fault.lasts.map(|lasts| lasts + by),
        }
    }
    scenario.warm_up = scenario.warm_up + by;
    scenario.lasts = scenario.lasts + by;
}

/// From the beginning to this end, one each interval.
fn evenly(interval: Duration, end: Duration) -> impl Iterator<Item = Duration> {
    let interval = interval.max(Duration::from_nanos(1));
    (0_u64..).map(move |n| interval * n).take_while(move |at| *at < end)
}

/// The first rate above 0: without health checks it takes requests to notice a loss.
fn settling(stages: &[Stage]) -> Rate {
    let mut rates = stages.iter().flat_map(|stage| [stage.from, stage.to]);
    rates.find(|rate| *rate > Rate::default()).unwrap_or_default()
}

fn is_checked(service: &Service) -> bool {
    service.health.is_some()
}

/// What a loss takes, and its name. A loss of the only edge's region takes its servers alone, since
/// otherwise nobody would serve.
fn lost(scenario: &Scenario, loss: &Loss) -> (String, Vec<Selector>) {
    let region = loss.whom.region.as_ref();
    let is_lost = |fleet: &Arc<Fleet>| region == Some(&fleet.edge.region);
    if !scenario.edges.iter().all(is_lost) {
        return (loss.name.clone(), vec![loss.whom.clone()]);
    }
    let services = scenario.services();
    let of_region = services.iter().flat_map(|service| {
        let groups = service.groups.iter().filter(|group| Some(&group.region) == region);
        groups.map(|group| Selector {
            service: Some(service.name.clone()),
            group: Some(group.name.clone()),
            ..Selector::default()
        })
    });
    (format!("the servers of {}", loss.name), of_region.collect())
}

/// After which time health checks have noticed a loss for certain, or requests have where nothing
/// is checked.
fn settled(fleet: &Fleet) -> Duration {
    let checks = fleet.services.iter().map(|service| {
        let check = service.health.as_ref();
        check.map_or(UNCHECKED, |check| {
            let fall = u64::from(check.fall);
            let usual = (check.interval * fall + check.timeout) * 2;
            // The next check begins when one has waited for its timeout.
            usual.max(check.interval + (check.timeout + check.fast_interval) * fall)
        })
    });
    checks.max().unwrap_or(UNCHECKED)
}

/// What goes wrong from the beginning begins then at the latest.
const FIRST: Instant = Instant::from_nanos(1);

/// Where nothing is checked, requests are answered for so long before a loss, ...
const HEALTHY: Duration = Duration::from_secs(5);

/// ... and notice silence and errors after it.
const UNCHECKED: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_noticed_by_requests_before_traffic_that_begins_with_none() {
        let second = Duration::from_secs(1);
        let stage = |from, to| Stage {
            from: Rate::per_sec(from),
            to: Rate::per_sec(to),
            lasts: second * 60,
        };
        for (stages, rate) in [
            (&[stage(0, 100), stage(100, 300)][..], 100),
            (&[stage(0, 0), stage(20, 300)], 20),
            (&[stage(30, 10)], 30),
            (&[stage(0, 0)], 0),
        ] {
            assert_eq!(settling(stages), Rate::per_sec(rate), "{stages:?}");
        }
    }
}
