//! Reads the counters of shared groups, for the reports of an edge.

use alloc::{string::String, vec::Vec};
use core::sync::atomic::Ordering::Relaxed;

use crate::{
    cluster::participant::{GroupObservation, Observation, SharedService},
    decide::plan::{GroupPlan, ServicePlan},
    fleet::{Capacity, Fleet, Group, Service},
    time::Duration,
};

/// What of a fleet can be shared: groups with a rate or requests in flight to be given as a whole.
/// Services without such a group are left out.
#[must_use]
pub fn shared_services(fleet: &Fleet) -> Vec<SharedService> {
    let services = fleet.services.iter().map(|service| SharedService {
        name: service.name.clone(),
        groups: shared_groups(service)
            .map(|(_, group)| group.name.clone())
            .collect::<Vec<String>>(),
    });
    services.filter(|service| !service.groups.is_empty()).collect()
}

fn shared_groups(service: &Service) -> impl Iterator<Item = (usize, &Group)> {
    service.groups.iter().enumerate().filter(|(_, group)| group.capacity.is_shared())
}

/// What is counted of the services of [`shared_services`], in the same order. `plans` are those of
/// the services of the fleet.
pub fn observations<'a>(
    fleet: &Fleet,
    plans: impl Iterator<Item = &'a ServicePlan>,
) -> Vec<Observation> {
    let services = fleet.services.iter().zip(plans).filter_map(|(service, plan)| {
        let groups: Vec<GroupObservation> =
            shared_groups(service).map(|(index, group)| plan.observe(index, group)).collect();
        let asked = [0, plan.state().asked.load(Relaxed), 0];
        (!groups.is_empty()).then_some(Observation { asked, groups })
    });
    services.collect()
}

impl Capacity {
    /// Whether edges can share it: it has a rate or requests in flight to be given as a whole.
    pub(crate) const fn is_shared(&self) -> bool {
        self.max_rate.is_some() || self.max_in_flight.is_some()
    }
}

impl ServicePlan {
    /// The group at this index of the file.
    fn observe(&self, index: usize, group: &Group) -> GroupObservation {
        let in_flight = self.census.get(index).map_or(0, |group| group.state.in_flight());
        let plan = self.groups.iter().find(|plan| usize::from(plan.index) == index);
        GroupObservation { in_flight, ..plan.map_or_else(|| unplanned(group), GroupPlan::observe) }
    }
}

impl GroupPlan {
    fn observe(&self) -> GroupObservation {
        let whole = self.whole.as_ref().unwrap_or(&self.limits);
        let places = Some(whole.in_flight).filter(|places| *places < u32::MAX);
        let rate = whole.rate.as_ref().map(|rate| per_thousand_seconds(rate.interval(), 1));
        let held = self.state.held.get();
        let held = Some(held).filter(|held| *held > Duration::ZERO);
        // Requests that last for hours leave a rate of one at least, or the group would have none.
        let by_places = |(places, held): (u32, Duration)| {
            per_thousand_seconds(held, places).max(u64::from(places > 0))
        };
        let by_places = places.zip(held).map(by_places);
        GroupObservation {
            distance: Some(self.distance),
            capacity: [rate, by_places].into_iter().flatten().min(),
            places,
            in_flight: 0,
        }
    }
}

/// A group that no request can be sent to. Those in flight go on, so its places are counted.
fn unplanned(group: &Group) -> GroupObservation {
    let places = group.capacity.max_in_flight.map(u64::from);
    let places = places.map(|places| group.scaler.of(places).max(1) as u32);
    GroupObservation { places, ..GroupObservation::default() }
}

/// Requests per interval, as requests per thousand seconds.
fn per_thousand_seconds(interval: Duration, requests: u32) -> u64 {
    let nanos = 1_000_000_000_000 * u128::from(requests) / u128::from(interval.as_nanos().max(1));
    u64::try_from(nanos).unwrap_or(u64::MAX)
}
