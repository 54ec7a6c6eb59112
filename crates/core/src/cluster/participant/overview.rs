//! What a participant shows of itself.

use alloc::vec::Vec;

use crate::{
    cluster::participant::{Participant, local::Local},
    state::{SharedGroup, SharedService, Sharing},
    time::Instant,
};

/// What has happened since the process began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) allotments: u64,
    pub(super) slices: u64,
    /// When a table was told of last.
    pub(super) allotted: Option<Instant>,
}

impl Participant {
    /// For people and metrics.
    #[must_use]
    pub fn overview(&self, now: Instant) -> Sharing {
        let Counts { allotments, slices, allotted } = self.counts;
        let leased = self.is_joined(now);
        Sharing {
            leased,
            elected: leased && self.is_elected(),
            edges: self.sessions().count() as u64,
            allotments,
            slices,
            allotted_s: allotted.map(|at| now.since(at).as_secs_f64()),
            mismatch: self.is_mismatch(),
            fault: None,
            services: self.locals.iter().map(Local::overview).collect(),
        }
    }

    /// The name of the edge that computes shares, as far as an edge with a lease knows.
    #[must_use]
    pub fn elected(&self, now: Instant) -> Option<&str> {
        let view = self.view.as_ref().filter(|_| self.is_joined(now))?;
        let report = view.reports.get(&view.elected()?)?;
        Some(&report.name)
    }

    /// Whether another edge keeps other floors than this one, or a table does, so that nobody moves
    /// shares; or there are more edges than floors are kept for. Groups may be given more than they
    /// have.
    #[must_use]
    pub fn is_mismatch(&self) -> bool {
        let floors = self.settings.floors();
        let mut tables = self.locals.iter().filter_map(|local| self.table(&local.name));
        self.others_differ()
            || self.sessions().count() > floors.edges as usize
            || tables.any(|table| table.reserved != floors.sum())
    }

    /// Whether another edge says that it keeps other floors than this one.
    pub(super) fn others_differ(&self) -> bool {
        let floors = self.settings.floors();
        self.sessions().filter_map(|(_, report)| report.floors).any(|told| told != floors)
    }
}

impl Local {
    fn overview(&self) -> SharedService {
        let group = |(name, share)| SharedGroup { name, share };
        let groups: Vec<SharedGroup> = self.shares().map(group).collect();
        SharedService { name: self.name.clone(), demand: self.wanted() as f64 / 1e3, groups }
    }
}
