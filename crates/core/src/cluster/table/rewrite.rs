//! How one table follows from another.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::cluster::{
    allot::fill,
    share::Share,
    table::{Entry, Report, ServiceReport, SessionId, Table},
};

/// The reports of all sessions that there are.
pub type Reports = BTreeMap<SessionId, Report>;

impl Table {
    /// The next table, with what is free by now: sessions that ended are left out, and bounds
    /// follow shares that their sessions say they have seen.
    #[must_use]
    pub fn next(&self, service: &str, reports: &Reports) -> Self {
        let mut next = Self { version: self.version + 1, ..self.clone() };
        for (group, entries) in &mut next.groups {
            entries.retain(|entry| reports.contains_key(&entry.session));
            for entry in &mut *entries {
                let report = reports.get(&entry.session);
                let report = report.and_then(|report| report.services.get(service));
                entry.bound = entry.bound_now(report, group);
            }
            entries.retain(|entry| entry.bound > Share::NONE);
        }
        next
    }

    /// Gives a session more of a group, as far as that is free. What it got.
    pub fn take(&mut self, group: &str, session: SessionId, more: Share) -> Share {
        let more = more.min(self.free(group));
        if more > Share::NONE {
            let entry = self.entry(group, session);
            let share = entry.share + more;
            entry.share = share.min(entry.bound + more);
            entry.bound = entry.bound.max(entry.share);
        }
        more
    }

    /// Moves the shares of a group towards what they are to be. Nothing is lowered where that gives
    /// room to nobody, so that a small change here does not have to be acknowledged there.
    /// Whether anything has changed.
    pub fn retarget(&mut self, group: &str, targets: &BTreeMap<SessionId, Share>) -> bool {
        let sum = targets.values().map(|share| share.parts()).sum();
        let spare = self.pool().saturating_sub(Share::from_parts(sum));
        let raised: Vec<(SessionId, Share)> = targets
            .iter()
            .map(|(session, target)| (*session, *target))
            .filter(|(session, target)| is_worth(self.share(group, *session), *target))
            .collect();
        let lacks = raised
            .iter()
            .map(|(session, target)| target.saturating_sub(self.bound(group, *session)).parts());
        let lacks: Vec<u64> = lacks.collect();
        let free = self.free(group).parts();
        let all = lacks.iter().sum::<u64>();
        let mut changed = false;
        if free < all.saturating_add(spare.parts() / 2) {
            changed |= self.lower(group, targets);
        }
        for ((session, target), got) in raised.into_iter().zip(fill(free, &lacks)) {
            let entry = self.entry(group, session);
            let share = target.min(entry.bound + Share::from_parts(got));
            // Crumbs are not worth a table.
            if share > entry.share && (share == target || is_worth(entry.share, share)) {
                entry.share = share;
                entry.bound = entry.bound.max(share);
                changed = true;
            }
        }
        if let Some(entries) = self.groups.get_mut(group) {
            entries.retain(|entry| entry.bound > Share::NONE);
        }
        changed
    }

    fn lower(&mut self, group: &str, targets: &BTreeMap<SessionId, Share>) -> bool {
        let version = self.version;
        let mut changed = false;
        for entry in self.groups.get_mut(group).into_iter().flatten() {
            // Who has come since they were computed keeps what it took.
            let target = targets.get(&entry.session).copied().unwrap_or(entry.share);
            if is_worth(target, entry.share) {
                entry.share = target;
                entry.since = version;
                changed = true;
            }
        }
        changed
    }

    fn pool(&self) -> Share {
        Share::WHOLE.saturating_sub(self.reserved)
    }

    fn bound(&self, group: &str, session: SessionId) -> Share {
        let entries = self.groups.get(group).into_iter().flatten();
        let mut entries = entries.filter(|entry| entry.session == session);
        entries.next().map_or(Share::NONE, |entry| entry.bound)
    }

    fn entry(&mut self, group: &str, session: SessionId) -> &mut Entry {
        let entries = self.groups.entry(group.into()).or_default();
        let at = entries.binary_search_by_key(&session, |entry| entry.session);
        let at = at.unwrap_or_else(|at| {
            entries.insert(at, Entry::none(session));
            at
        });
        &mut entries[at]
    }
}

impl Entry {
    fn none(session: SessionId) -> Self {
        Self { session, share: Share::NONE, bound: Share::NONE, since: 0 }
    }

    /// The most that the session may still be using, by what it reports.
    #[must_use]
    pub fn bound_now(&self, report: Option<&ServiceReport>, group: &str) -> Share {
        let Some(report) = report.filter(|report| report.seen >= self.since) else {
            return self.bound;
        };
        let held = report.groups.get(group).map_or(Share::NONE, |group| group.held);
        self.bound.min(self.share.max(held))
    }
}

/// Whether the way from the lesser share to the greater is worth a table and an acknowledgement.
fn is_worth(lesser: Share, greater: Share) -> bool {
    greater.saturating_sub(lesser).parts() > greater.parts() / WORTH
}

/// Changes of less than this part of a share are left until there is more.
const WORTH: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn reports(seen: &[(i64, u64)]) -> Reports {
        let report = |(session, seen): &(i64, u64)| {
            let service = ServiceReport { seen: *seen, ..ServiceReport::default() };
            let services = [(String::from("web"), service)].into();
            (SessionId(*session), Report { services, ..Report::default() })
        };
        seen.iter().map(report).collect()
    }

    fn targets(parts: &[(i64, u64)]) -> BTreeMap<SessionId, Share> {
        parts.iter().map(|(session, part)| (SessionId(*session), Share::part(*part, 100))).collect()
    }

    fn percent(share: Share) -> u64 {
        (share.parts() * 100 + Share::WHOLE.parts() / 2) / Share::WHOLE.parts()
    }

    #[test]
    fn what_one_gives_up_is_free_when_it_has_seen_so_and_not_before() {
        let mut table = Table { version: 1, ..Table::default() };
        assert!(table.retarget("near", &targets(&[(1, 90)])));
        let mut table = table.next("web", &reports(&[(1, 1), (2, 0)]));
        assert!(table.retarget("near", &targets(&[(1, 40), (2, 60)])));
        assert_eq!(percent(table.share("near", SessionId(1))), 40, "lowered at once");
        assert_eq!(percent(table.share("near", SessionId(2))), 10, "what was free");
        assert!(table.is_sound());

        let mut late = table.next("web", &reports(&[(1, 1), (2, 2)]));
        assert!(!late.retarget("near", &targets(&[(1, 40), (2, 60)])), "it has not been seen");

        let mut next = table.next("web", &reports(&[(1, 2), (2, 2)]));
        assert!(next.retarget("near", &targets(&[(1, 40), (2, 60)])));
        assert_eq!(percent(next.share("near", SessionId(2))), 60);
        assert!(next.is_sound());
    }

    #[test]
    fn what_a_session_had_is_free_when_it_has_ended() {
        let mut table = Table { version: 1, ..Table::default() };
        table.retarget("near", &targets(&[(1, 100)]));
        assert_eq!(table.take("near", SessionId(2), Share::WHOLE), Share::NONE);
        let mut table = table.next("web", &reports(&[(2, 0)]));
        assert_eq!(percent(table.take("near", SessionId(2), Share::WHOLE)), 100);
        assert!(table.is_sound());
    }

    #[test]
    fn requests_in_flight_hold_what_a_share_no_longer_covers() {
        let mut table = Table { version: 1, ..Table::default() };
        table.retarget("near", &targets(&[(1, 80)]));
        let mut table = table.next("web", &reports(&[(1, 1)]));
        table.retarget("near", &targets(&[(1, 10), (2, 90)]));
        let mut seen = reports(&[(1, 2), (2, 2)]);
        let held = |share| super::super::GroupReport { held: share, ..Default::default() };
        let service = |seen: &mut Reports, share| {
            let report = seen.get_mut(&SessionId(1)).and_then(|it| it.services.get_mut("web"));
            report.map(|it| it.groups.insert("near".into(), held(share)))
        };
        let _ = service(&mut seen, Share::part(50, 100));
        assert_eq!(percent(table.next("web", &seen).free("near")), 30);
        let _ = service(&mut seen, Share::NONE);
        assert_eq!(percent(table.next("web", &seen).free("near")), 70);
    }
}
