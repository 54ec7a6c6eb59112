//! What is in the store, as plain data; the store writes it as JSON.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::cluster::{allot::Floors, share::Share};

mod rewrite;

pub use rewrite::Reports;

/// A revision of the store: it counts up with every change of anything.
pub type Revision = u64;

/// One lease of one process: the number that the store gave the lease. Never used again.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SessionId(pub i64);

/// What an edge says of itself, at `edges/SESSION`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// What people call the edge.
    pub name: String,
    /// What it takes the floors of all edges to be; none where the edge is of a release that does
    /// not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floors: Option<Floors>,
    /// By the name of the service.
    pub services: BTreeMap<String, ServiceReport>,
}

/// What an edge says of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceReport {
    /// The version of the last table that is in force here. Nothing of an older one is used any
    /// more, but what [`GroupReport::held`] says.
    pub seen: u64,
    /// Requests per thousand seconds that clients want, the highest class first.
    pub demand: [u64; 3],
    /// Margin above `demand`, so that chance refuses few, in the same unit.
    #[serde(default)]
    pub margin: u64,
    /// Groups that it can send to, by name.
    pub groups: BTreeMap<String, GroupReport>,
}

/// What an edge says of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupReport {
    /// The round trip, in microseconds; none where it cannot be reached.
    pub distance: Option<u32>,
    /// Requests per thousand seconds that the group as a whole could take, as far as that is known
    /// here.
    pub capacity: Option<u64>,
    /// Requests that it may have in flight as a whole, if that is limited.
    pub places: Option<u32>,
    /// Share still in use by requests that came under a larger share.
    #[serde(default, skip_serializing_if = "is_none")]
    pub held: Share,
}

fn is_none(share: &Share) -> bool {
    *share == Share::NONE
}

/// Who may use how much of the groups of a service, at `shares/SERVICE`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// One more than that of the table it replaces.
    pub version: u64,
    /// The sum of the floors of all edges that there may be, which is never given by a table.
    pub reserved: Share,
    /// By the name of the group. Who has no entry may use nothing.
    pub groups: BTreeMap<String, Vec<Entry>>,
}

/// The share of one session in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The session. Entries of a group are in the order of their sessions.
    pub session: SessionId,
    /// What it may use once it has seen the table.
    pub share: Share,
    /// What it may still be using: `share` at least.
    pub bound: Share,
    /// The version of the table in which `share` was last lowered.
    pub since: u64,
}

impl Table {
    /// What nobody may be using of a group.
    #[must_use]
    pub fn free(&self, group: &str) -> Share {
        let entries = self.groups.get(group).into_iter().flatten();
        let used = entries.map(|entry| entry.bound.parts()).sum::<u64>();
        Share::WHOLE.saturating_sub(self.reserved).saturating_sub(Share::from_parts(used))
    }

    /// What a session may use of a group, besides its floor.
    #[must_use]
    pub fn share(&self, group: &str, session: SessionId) -> Share {
        let entries = self.groups.get(group).map_or(&[][..], Vec::as_slice);
        let at = entries.binary_search_by_key(&session, |entry| entry.session);
        at.map_or(Share::NONE, |at| entries[at].share)
    }

    /// Whether the bounds of every group are within what may be given, each at least the share,
    /// and each session is there once: true of every table that this code made.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let pool = Share::WHOLE.saturating_sub(self.reserved).parts();
        self.groups.values().all(|entries| {
            let sum = entries.iter().try_fold(0_u64, |sum, it| sum.checked_add(it.bound.parts()));
            sum.is_some_and(|sum| sum <= pool)
                && entries.iter().all(|it| it.share <= it.bound && it.since <= self.version)
                && entries.is_sorted_by(|one, other| one.session < other.session)
        })
    }
}
