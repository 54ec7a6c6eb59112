//! Computes shares from demands and distances: a pure function, whatever the order of edges.
//!
//! 1. *How much each is served.* Class after class, the highest first, so that no edge is given
//!    less than another but where it wants less (max-min fairness).
//! 2. *Where.* So that the sum of all distances is the least (`flow`): nearest first, but an edge
//!    with a good second choice makes room for one without.
//! 3. *What chance needs.* What is left is given, nearest first, up to the margin that each edge
//!    asks for, or in proportion to it: random arrivals of just its share would be refused in part.
//! 4. *What is left of a group then.* Half of it goes, in proportion to demand, to the edges that
//!    would overflow there first, so that one whose demand rises need not wait. The other half
//!    stays free, for whoever runs short first.
//!
//! Edges at the same distances from everything count as one, and divide what they get; so they are
//! treated alike. The floor of an edge at its nearest group is used before anything is asked for.

use alloc::{collections::BTreeMap, vec, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::cluster::{share::Share, table::SessionId};

mod fill;
mod flow;

pub use fill::fill;
use flow::Flow;

/// What one edge wants of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeDemand {
    /// Whose it is; each once.
    pub session: SessionId,
    /// Requests per thousand seconds, the highest class first.
    pub demand: [u64; 3],
    /// Margin above `demand`, so that chance refuses few, in the same unit.
    pub margin: u64,
    /// How far each group is, in the order of the groups, in any unit; none where it cannot be
    /// reached.
    pub distances: Vec<Option<u32>>,
}

/// What a group has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCapacity {
    /// Requests per thousand seconds; where nobody knows, it is taken to be enough for all.
    pub rate: Option<u64>,
    /// Requests in flight, if limited: shares are then whole places.
    pub places: Option<u32>,
}

/// What no allotment gives away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floors {
    /// What each edge may use of each group without asking.
    pub each: Share,
    /// How many edges there may be.
    pub edges: u32,
}

impl Floors {
    /// Sum of all floors; the whole at most.
    #[must_use]
    pub fn sum(&self) -> Share {
        Share::from_parts(self.each.parts().saturating_mul(u64::from(self.edges)))
    }
}

/// The shares beyond the floor of each edge, in the order of `edges`, of each group, in the order
/// of `groups`. Those of a group are [`Share::WHOLE`] less all floors at most.
///
/// `distances` that are missing count as none.
#[must_use]
pub fn allot(edges: &[EdgeDemand], groups: &[GroupCapacity], floors: Floors) -> Vec<Vec<Share>> {
    let mut order: Vec<usize> = (0..edges.len()).collect();
    order.sort_by_key(|edge| edges[*edge].session);
    let edges: Vec<&EdgeDemand> = order.iter().map(|edge| &edges[*edge]).collect();
    let pool = Share::WHOLE.saturating_sub(floors.sum());
    let rates = rates(&edges, groups, pool);
    let routed = route(&edges, &rates, floors.each, pool);
    let mut sorted = vec![vec![Share::NONE; groups.len()]; edges.len()];
    for (group, capacity) in groups.iter().enumerate() {
        let column: Vec<u64> = routed.iter().map(|row| row[group]).collect();
        let mut parts = in_parts(&column, pool.of(rates[group]), pool);
        spare(&mut parts, group, &edges, &routed, (&rates, pool));
        if let Some(places) = capacity.places {
            whole_places(&mut parts, places, floors.each, pool);
        }
        sorted.iter_mut().zip(parts).for_each(|(row, parts)| row[group] = Share::from_parts(parts));
    }
    let mut given = vec![Vec::new(); edges.len()];
    order.into_iter().zip(sorted).for_each(|(edge, row)| given[edge] = row);
    given
}

/// Rate of each group. Where it is unknown, all demand and margins fit into the pool, so that
/// rounding cuts nobody off.
fn rates(edges: &[&EdgeDemand], groups: &[GroupCapacity], pool: Share) -> Vec<u64> {
    let asked = edges.iter().flat_map(|edge| edge.demand.into_iter().chain([edge.margin]));
    let all = asked.fold(1, u64::saturating_add);
    let enough = u128::from(all) * u128::from(Share::WHOLE.parts());
    let enough = enough.div_ceil(pool.parts().max(1).into());
    let enough = u64::try_from(enough).unwrap_or(RATE_MAX);
    groups.iter().map(|group| group.rate.unwrap_or(enough).min(RATE_MAX)).collect()
}

/// Edges that are equally far from everything.
struct Location {
    distances: Vec<Option<u32>>,
    edges: Vec<usize>,
}

fn locations(edges: &[&EdgeDemand], groups: usize) -> Vec<Location> {
    let mut locations: BTreeMap<Vec<Option<u32>>, Vec<usize>> = BTreeMap::new();
    for (at, edge) in edges.iter().enumerate() {
        let mut distances = edge.distances.clone();
        distances.resize(groups, None);
        locations.entry(distances).or_default().push(at);
    }
    locations.into_iter().map(|(distances, edges)| Location { distances, edges }).collect()
}

/// What each edge is to be given of each group beyond its floor, in requests per thousand seconds.
fn route(edges: &[&EdgeDemand], rates: &[u64], floor: Share, pool: Share) -> Vec<Vec<u64>> {
    let locations = locations(edges, rates.len());
    let distances = locations.iter().map(|location| location.distances.clone()).collect();
    let mut flow = Flow::new(distances, rates.iter().map(|rate| pool.of(*rate)).collect());
    let mut floors = floors_in_use(edges, &locations, rates, floor, flow.left());
    let mut served = vec![0_u64; edges.len()];
    for class in 0..3 {
        let wanted = edges.iter().zip(&mut floors).map(|(edge, floor)| {
            let demand = edge.demand[class].min(RATE_MAX);
            let by_floor = demand.min(*floor);
            *floor -= by_floor;
            demand - by_floor
        });
        let mut wanted: Vec<u64> = wanted.collect();
        serve(&mut flow, &locations, &mut wanted, &mut served);
    }
    let mut routed = divide(&flow, &locations, &served);
    let margins = margins(edges, &locations, flow.rest());
    let cells = routed.iter_mut().flatten().zip(margins.iter().flatten());
    cells.for_each(|(routed, margin)| *routed += margin);
    routed
}

/// Margin of each edge, out of what demand has left, so that nobody's demand is sent farther to
/// make room for another's margin.
fn margins(edges: &[&EdgeDemand], locations: &[Location], mut rest: Flow) -> Vec<Vec<u64>> {
    let asked: Vec<u64> = edges.iter().map(|edge| edge.margin.min(RATE_MAX)).collect();
    let all = asked.iter().sum::<u64>();
    let most = u128::from(rest.left().min(all));
    let part = |margin: &u64| (u128::from(*margin) * most).checked_div(all.into()).unwrap_or(0);
    let mut wanted: Vec<u64> = asked.iter().map(|margin| part(margin) as u64).collect();
    let mut spared = vec![0; edges.len()];
    serve(&mut rest, locations, &mut wanted, &mut spared);
    divide(&rest, locations, &spared)
}

/// What each edge takes by its floors: that of its nearest group, or those of all groups in its
/// reach where demand exceeds `capacity`.
fn floors_in_use(
    edges: &[&EdgeDemand],
    locations: &[Location],
    rates: &[u64],
    floor: Share,
    capacity: u64,
) -> Vec<u64> {
    let all = edges.iter().flat_map(|edge| edge.demand).fold(0, u64::saturating_add);
    let mut floors: Vec<u64> = vec![0; edges.len()];
    for location in locations {
        let reached = location.distances.iter().enumerate();
        let reached = reached.filter_map(|(group, far)| Some(((*far)?, group)));
        let of = |(_, group): (u32, usize)| floor.of(rates[group]);
        let floor = match all > capacity {
            true => reached.map(of).sum(),
            false => reached.min().map_or(0, of),
        };
        location.edges.iter().for_each(|edge| floors[*edge] = floor);
    }
    floors
}

/// Serves what is wanted as far as it goes, evenly.
fn serve(flow: &mut Flow, locations: &[Location], wanted: &mut [u64], served: &mut [u64]) {
    loop {
        let level = fill(flow.left(), wanted);
        let mut progress = false;
        for (at, location) in locations.iter().enumerate() {
            let asked: Vec<u64> = location.edges.iter().map(|edge| level[*edge]).collect();
            let all = asked.iter().sum::<u64>();
            let got = flow.send(at, all);
            progress |= got > 0;
            for (edge, part) in location.edges.iter().zip(fill(got, &asked)) {
                served[*edge] += part;
                wanted[*edge] -= part;
                if got < all {
                    // What is in its reach is full.
                    wanted[*edge] = 0;
                }
            }
        }
        if !progress || wanted.iter().all(|wanted| *wanted == 0) {
            return;
        }
    }
}

/// What each location got of each group, divided between its edges as they were served.
fn divide(flow: &Flow, locations: &[Location], served: &[u64]) -> Vec<Vec<u64>> {
    let groups = flow.groups();
    let mut routed = vec![vec![0; groups]; served.len()];
    for (at, location) in locations.iter().enumerate() {
        let all = location.edges.iter().map(|edge| served[*edge]).sum::<u64>();
        for edge in &location.edges {
            for (group, routed) in routed[*edge].iter_mut().enumerate() {
                let part = u128::from(flow.sent(at, group)) * u128::from(served[*edge]);
                *routed = part.checked_div(u128::from(all)).unwrap_or(0) as u64;
            }
        }
    }
    routed
}

/// Rates as parts of the whole; together `pool` at most.
fn in_parts(column: &[u64], rate: u64, pool: Share) -> Vec<u64> {
    let part = |it: &u64| u128::from(*it) * u128::from(pool.parts());
    column.iter().map(|it| part(it).checked_div(u128::from(rate)).unwrap_or(0) as u64).collect()
}

/// Adds to the parts of a group what nobody wants of it, but for the half that stays free.
fn spare(
    parts: &mut [u64],
    group: usize,
    edges: &[&EdgeDemand],
    routed: &[Vec<u64>],
    (rates, pool): (&[u64], Share),
) {
    let left = pool.parts().saturating_sub(parts.iter().sum());
    let is_full = |group: usize| {
        let used = routed.iter().map(|row| row[group]).sum::<u64>();
        let all = pool.of(rates[group]);
        // However little a group has, it is not full while nobody asks for anything.
        rates[group] == 0 || used > 0 && used + ROUNDING.min(all / 32) >= all
    };
    let open: Vec<usize> = (0..rates.len()).filter(|group| !is_full(*group)).collect();
    let weight = |edge: &&EdgeDemand| {
        let distance = |group: &usize| edge.distances.get(*group).copied().flatten();
        let near = open.iter().filter_map(|group| Some((distance(group)?, *group))).min();
        let all = edge.demand.into_iter().fold(1, u64::saturating_add);
        if near.is_some_and(|(_, near)| near == group) { all.min(RATE_MAX) } else { 0 }
    };
    let weights: Vec<u64> = edges.iter().map(weight).collect();
    let all: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    for (parts, weight) in parts.iter_mut().zip(weights) {
        let extra = u128::from(left / 2) * u128::from(weight);
        *parts += extra.checked_div(all).unwrap_or(0) as u64;
    }
}

/// Makes whole places of parts and floors, by the largest remainder: a part of a place is of no
/// use to anybody.
fn whole_places(parts: &mut [u64], places: u32, floor: Share, pool: Share) {
    if places == 0 {
        parts.fill(0);
        return;
    }
    let scaled = |parts: &u64| u128::from(*parts + floor.parts()) * u128::from(places);
    let exact: Vec<u128> = parts.iter().map(scaled).collect();
    let whole = |exact: u128| (exact >> 40) as u64;
    let rest = |exact: u128| exact & u128::from(Share::WHOLE.parts() - 1);
    let cost = |count: u64| Share::part(count, places.into()).saturating_sub(floor).parts();
    let mut counts: Vec<u64> = exact.iter().map(|exact| whole(*exact)).collect();
    let mut used: u64 = counts.iter().map(|count| cost(*count)).sum();
    let mut order: Vec<usize> = (0..parts.len()).filter(|at| rest(exact[*at]) > 0).collect();
    order.sort_by_key(|at| (core::cmp::Reverse(rest(exact[*at])), *at));
    for at in order {
        let more = cost(counts[at] + 1) - cost(counts[at]);
        // Who has no demand there is not lifted to a place by its floor alone.
        if parts[at] > 0 && used + more <= pool.parts() {
            counts[at] += 1;
            used += more;
        }
    }
    parts.iter_mut().zip(counts).for_each(|(parts, count)| *parts = cost(count));
}

/// Far more than anything can do, and sums of it do not overflow.
const RATE_MAX: u64 = 1 << 48;

/// What division may leave of a group that is full, in requests per thousand seconds; of a small
/// one, a part.
const ROUNDING: u64 = 256;

#[cfg(test)]
mod tests;
