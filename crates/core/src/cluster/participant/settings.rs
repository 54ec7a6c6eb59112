//! What an operator says about sharing.

use alloc::string::String;

use crate::{
    cluster::{allot::Floors, share::Share},
    time::Duration,
    units::Ratio,
};

/// What the operator says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What people call this edge.
    pub name: String,
    /// How long a session lasts without a sign of life.
    pub lease: Duration,
    /// By how much earlier than the store an edge ends its lease: what clocks may differ in speed,
    /// and the time for which a member of the store that was deposed may still renew leases.
    pub margin: Duration,
    /// The part of every group that each edge may use without the store.
    pub floor: Ratio,
    /// How many edges there may be; their floors are the whole of a group at most.
    pub edges: u32,
    /// What is used when the lease has ended.
    pub when_away: WhenAway,
}

/// What an edge uses that has no lease any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenAway {
    /// Its floor, so that no group is given more than its capacity.
    #[default]
    Floor,
    /// What it had. Others may be given the same: a group is then given at most what the edges that
    /// are away had, once more.
    Keep,
}

impl WhenAway {
    /// The name in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Keep => "keep",
        }
    }
}

impl Settings {
    /// The floor of one edge.
    #[must_use]
    pub fn floor(&self) -> Share {
        Share::part(self.floor.as_ppm().into(), 1_000_000)
    }

    /// The floors of all.
    #[must_use]
    pub fn floors(&self) -> Floors {
        Floors { each: self.floor(), edges: self.edges }
    }
}
