//! What the elected edge does: computes shares from reports, and moves tables towards them.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use crate::{
    cluster::{
        allot::{EdgeDemand, Floors, GroupCapacity, allot},
        participant::view::View,
        share::Share,
        table::{GroupReport, SessionId, Table},
    },
    time::{Duration, Instant},
};

/// Target shares of one service, and the inputs they were computed from.
#[derive(Debug, Default)]
pub(super) struct Goal {
    computed: Option<Instant>,
    basis: Vec<EdgeDemand>,
    capacities: Vec<GroupCapacity>,
    /// By group and session.
    targets: BTreeMap<String, BTreeMap<SessionId, Share>>,
}

impl Goal {
    /// Computes it anew, if reports have changed and it was not done within `gap`.
    pub(super) fn update(
        &mut self,
        (now, gap): (Instant, Duration),
        view: &View,
        service: &str,
        floors: Floors,
    ) {
        if self.computed.is_some_and(|at| now < at + gap / 4) {
            return;
        }
        let (names, edges, capacities) = inputs(view, service);
        if self.computed.is_some() && self.basis == edges && self.capacities == capacities {
            return;
        }
        let shares = allot(&edges, &capacities, floors);
        let targets = names.into_iter().enumerate().map(|(group, name)| {
            let of = edges.iter().zip(&shares).map(|(edge, row)| (edge.session, row[group]));
            (name, of.collect())
        });
        self.targets = targets.collect();
        (self.basis, self.capacities) = (edges, capacities);
        self.computed = Some(now);
    }

    /// The table that comes after one, where anything is to be moved.
    pub(super) fn table(&self, view: &View, service: &str, table: &Table) -> Option<Table> {
        let mut next = table.next(service, &view.reports);
        let mut changed = false;
        for (group, targets) in &self.targets {
            let mut targets = targets.clone();
            targets.retain(|session, _| view.reports.contains_key(session));
            changed |= next.retarget(group, &targets);
        }
        changed.then_some(next)
    }
}

/// The groups of a service by name, what edges want, and what groups have.
fn inputs(view: &View, service: &str) -> (Vec<String>, Vec<EdgeDemand>, Vec<GroupCapacity>) {
    let edges = view.reports.iter();
    let edges: Vec<_> = edges
        .filter_map(|(session, report)| Some((*session, report.services.get(service)?)))
        .collect();
    let mut known: BTreeMap<&str, Vec<&GroupReport>> = BTreeMap::new();
    for (_, report) in &edges {
        for (group, of) in &report.groups {
            known.entry(group).or_default().push(of);
        }
    }
    let capacities = known.values().map(|reports| GroupCapacity {
        rate: median(reports.iter().filter_map(|report| report.capacity)),
        // Who cannot send there does not know how many servers are left.
        places: reports
            .iter()
            .filter(|report| report.distance.is_some())
            .filter_map(|report| report.places)
            .max(),
    });
    let capacities = capacities.collect();
    let names = known.keys().map(|name| String::from(*name)).collect();
    let demands = edges.iter().map(|(session, report)| EdgeDemand {
        session: *session,
        demand: report.demand,
        margin: report.margin,
        distances: known
            .keys()
            .map(|group| Some(report.groups.get(*group)?.distance?.div_ceil(STEP)))
            .collect(),
    });
    (names, demands.collect(), capacities)
}

fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// Microseconds: nearer than this is as near, so that edges of one region are equal.
const STEP: u32 = 1_000;
