//! Every server with what its checks and its errors say of it, by its number.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use core::net::SocketAddr;

use crate::{
    ejection::Ejected,
    fleet::{Fleet, HealthCheck},
    health::Health,
    ledger::{Ledger, ServerId},
    state::Condition,
    time::{Duration, Instant},
    turn::Turn,
    units::Ratio,
};

/// All servers of the fleet.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    members: BTreeMap<ServerId, Member>,
}

/// One server.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub place: Place,
    pub address: SocketAddr,
    pub health: Health,
    pub ejected: Ejected,
    /// Why its last check failed; none while it is healthy.
    pub down_for: Option<Arc<str>>,
    /// Round-trip time as the checks measured it, moved only by changes worth a new plan.
    pub rtt: Option<Duration>,
    /// When it last became healthy; the origin for servers that were there from the start.
    pub up_since: Instant,
    checks: Checks,
    /// Whether its weight lets it take part at all.
    takes_part: bool,
    priority: u16,
}

/// Where a server stands in the file, as indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub service: usize,
    pub group: usize,
    pub server: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checks {
    Off,
    DueAt(Instant),
    UnderWay,
}

impl Member {
    /// Whether it may be given requests.
    pub(crate) fn is_healthy(&self) -> bool {
        self.health.is_healthy() && !self.ejected.is_out()
    }

    /// How it is and why, for whoever asks.
    fn condition(&self) -> (Condition, Option<Arc<str>>) {
        match self.health {
            Health::Down { .. } => (Condition::Down, self.down_for.clone()),
            _ if self.ejected.is_out() => {
                let evidence = self.ejected.evidence().map(|it| it.to_string().into());
                let reason = self.ejected.reason().map(|reason| reason.text().into());
                (Condition::Ejected, evidence.or(reason))
            }
            Health::Up { .. } => (Condition::Up, None),
            Health::Starting => (Condition::Unchecked, None),
        }
    }

    /// Takes the result of a check in; true if a server is down for another reason than before.
    pub(crate) fn checked(
        &mut self,
        now: Instant,
        passed: Result<Duration, String>,
        check: &HealthCheck,
    ) -> bool {
        self.health = self.health.after(passed.is_ok(), check);
        self.checks = Checks::DueAt(now + self.health.interval(check));
        match passed {
            Ok(rtt) => {
                self.ejected.vouch();
                if self.rtt.is_none_or(|old| is_news(old, rtt)) {
                    self.rtt = Some(rtt);
                }
                if self.health.is_healthy() {
                    self.down_for = None;
                }
                false
            }
            Err(_) if self.health.is_healthy() => false,
            Err(why) => {
                let differs = self.down_for.as_deref() != Some(&*why);
                if differs {
                    self.down_for = Some(why.into());
                }
                differs
            }
        }
    }

    /// When its ejection ends; none while nobody knows whether it answers at all.
    fn returns_at(&self) -> Option<Instant> {
        let checked = self.checks != Checks::Off && self.health.is_healthy();
        let in_doubt = checked && !self.ejected.is_vouched();
        self.ejected.until().filter(|_| !in_doubt)
    }

    /// Lets it back in, slowly where the service starts servers slowly.
    pub(crate) fn end_ejection(&mut self, now: Instant) {
        self.ejected.end(now);
        self.up_since = now;
    }

    /// Brings the next check forward.
    pub(crate) fn check_now(&mut self, now: Instant) {
        if let Checks::DueAt(_) = self.checks {
            self.checks = Checks::DueAt(now);
        }
    }

    /// The part of its weight it is given: grows with time since it came up, from a tenth.
    fn share(&self, now: Instant, slow_start: Duration) -> Ratio {
        if !self.is_healthy() {
            return Ratio::ZERO;
        }
        if !self.is_starting(now, slow_start) {
            return Ratio::ONE;
        }
        let up = now.since(self.up_since);
        Ratio::part(up.as_nanos(), slow_start.as_nanos()).max(SLOW_START_MIN)
    }

    fn is_starting(&self, now: Instant, slow_start: Duration) -> bool {
        self.up_since > Instant::ZERO && now.since(self.up_since) < slow_start
    }
}

impl Roster {
    /// Takes the servers of a fleet in, keeps what is known of those that were there, forgets the
    /// others.
    pub(crate) fn enlist(&mut self, now: Instant, fleet: &Fleet, ledger: &mut Ledger) {
        let mut known = core::mem::take(&mut self.members);
        let is_first = known.is_empty();
        for (place, address) in places(fleet) {
            let service = &fleet.services[place.service];
            let group = &service.groups[place.group];
            let id = ledger.server(&service.name, &group.name, address).id();
            let up_since = if is_first { Instant::ZERO } else { now };
            let mut member =
                known.remove(&id).unwrap_or_else(|| Member::new(place, address, up_since));
            member.place = place;
            member.takes_part = group.servers[place.server].weight > 0;
            member.priority = group.servers[place.server].priority;
            member.checks = match (&service.health, member.checks) {
                (None, _) => Checks::Off,
                (Some(_), Checks::Off) => Checks::DueAt(now),
                (Some(_), ordered) => ordered,
            };
            if service.health.is_none() {
                (member.health, member.down_for) = (Health::Starting, None);
            }
            self.members.insert(id, member);
        }
    }

    pub(crate) fn get(&self, server: ServerId) -> Option<&Member> {
        self.members.get(&server)
    }

    pub(crate) fn get_mut(&mut self, server: ServerId) -> Option<&mut Member> {
        self.members.get_mut(&server)
    }

    /// The servers of a group that take part now.
    pub(crate) fn taking_part(
        &self,
        service: usize,
        group: usize,
    ) -> impl Iterator<Item = (ServerId, &Member)> {
        let here = move |place: &Place| place.service == service && place.group == group;
        let members = self.members.iter().filter(move |(_, member)| here(&member.place));
        let members = members.map(|(id, member)| (*id, member));
        members.filter(|(_, member)| member.takes_part && member.is_healthy())
    }

    /// How many servers of a group are out by ejection, and how many there are.
    pub(crate) fn ejected_of_group(&self, service: usize, group: usize) -> (usize, usize) {
        let members = || self.group(service, group);
        (members().filter(|m| m.ejected.is_out()).count(), members().count())
    }

    /// How many servers of a service are out by ejection, and how many there are.
    pub(crate) fn ejected_of(&self, service: usize) -> (usize, usize) {
        let members = || self.members.values().filter(move |m| m.place.service == service);
        (members().filter(|m| m.ejected.is_out()).count(), members().count())
    }

    /// Lets servers back in whose time is over; gives those.
    pub(crate) fn expire_ejections(&mut self, now: Instant) -> Vec<&Member> {
        let over = |member: &Member| member.returns_at().is_some_and(|until| until <= now);
        let back = self.members.values_mut().filter(|member| over(member)).map(|member| {
            member.end_ejection(now);
            &*member
        });
        back.collect()
    }

    /// The healthy share of a group, as far as its servers take part.
    pub(crate) fn healthy_share(&self, service: usize, group: usize) -> Ratio {
        let members = self.group(service, group).filter(|member| member.takes_part);
        Turn::of(members.map(|it| (it.priority, it.is_healthy()))).healthy_share()
    }

    /// The part of its weight each server of a group is given, in the order of the file.
    pub(crate) fn shares(
        &self,
        now: Instant,
        service: usize,
        group: usize,
        slow_start: Duration,
    ) -> Vec<Ratio> {
        let mut members: Vec<&Member> = self.group(service, group).collect();
        members.sort_by_key(|member| member.place.server);
        members.iter().map(|member| member.share(now, slow_start)).collect()
    }

    /// The servers of a group, in the order of the file.
    pub(crate) fn ids(&self, service: usize, group: usize) -> Vec<ServerId> {
        let here = |place: &Place| place.service == service && place.group == group;
        let members = self.members.iter().filter(|(_, member)| here(&member.place));
        let mut ids: Vec<(usize, ServerId)> =
            members.map(|(id, member)| (member.place.server, *id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }

    /// Whether a server is still to be checked for the first time.
    pub(crate) fn awaits_first_checks(&self) -> bool {
        let waits = |member: &Member| member.checks != Checks::Off;
        self.members.values().any(|member| waits(member) && member.health == Health::Starting)
    }

    /// How each server of a group is and why, in the order of the file.
    pub(crate) fn conditions(
        &self,
        service: usize,
        group: usize,
    ) -> Vec<(Condition, Option<Arc<str>>)> {
        let mut members: Vec<&Member> = self.group(service, group).collect();
        members.sort_by_key(|member| member.place.server);
        members.iter().map(|member| member.condition()).collect()
    }

    /// Whether a healthy server of the service has less than its weight yet.
    pub(crate) fn is_starting(&self, now: Instant, service: usize, slow_start: Duration) -> bool {
        let mut members = self.members.values().filter(|m| m.place.service == service);
        members.any(|member| member.is_healthy() && member.is_starting(now, slow_start))
    }

    /// The shortest measured round-trip time of a group.
    pub(crate) fn measured_rtt(&self, service: usize, group: usize) -> Option<Duration> {
        self.group(service, group).filter_map(|member| member.rtt).min()
    }

    /// The servers to check now; each counts as being checked from here on.
    pub(crate) fn due_checks(&mut self, now: Instant) -> Vec<(ServerId, Member)> {
        let due = |checks| matches!(checks, Checks::DueAt(at) if at <= now);
        let members = self.members.iter_mut().filter(|(_, member)| due(member.checks));
        let ordered = members.map(|(id, member)| {
            member.checks = Checks::UnderWay;
            (*id, member.clone())
        });
        ordered.collect()
    }

    /// The next check or return.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let deadlines = |member: &Member| {
            let check = match member.checks {
                Checks::DueAt(at) => Some(at),
                Checks::Off | Checks::UnderWay => None,
            };
            check.into_iter().chain(member.returns_at())
        };
        self.members.values().flat_map(deadlines).min()
    }

    /// Panics where members and fleet differ.
    pub(crate) fn check_invariants(&self, fleet: &Fleet) {
        assert_eq!(self.members.len(), places(fleet).count(), "a member for each server");
        for member in self.members.values() {
            let service = &fleet.services[member.place.service];
            let server = &service.groups[member.place.group].servers[member.place.server];
            assert_eq!(server.address, member.address);
            assert_eq!(service.health.is_some(), member.checks != Checks::Off);
        }
    }

    fn group(&self, service: usize, group: usize) -> impl Iterator<Item = &Member> {
        let here = move |place: &Place| place.service == service && place.group == group;
        self.members.values().filter(move |member| here(&member.place))
    }
}

impl Member {
    fn new(place: Place, address: SocketAddr, up_since: Instant) -> Self {
        Self {
            place,
            address,
            health: Health::default(),
            ejected: Ejected::default(),
            down_for: None,
            rtt: None,
            up_since,
            checks: Checks::Off,
            takes_part: true,
            priority: 0,
        }
    }
}

fn places(fleet: &Fleet) -> impl Iterator<Item = (Place, SocketAddr)> {
    let services = fleet.services.iter().enumerate();
    services.flat_map(|(s, service)| {
        let groups = service.groups.iter().enumerate();
        groups.flat_map(move |(g, group)| {
            let servers = group.servers.iter().enumerate();
            servers
                .map(move |(n, server)| (Place { service: s, group: g, server: n }, server.address))
        })
    })
}

/// Whether a round-trip time differs by more than noise: a fifth and a millisecond.
fn is_news(old: Duration, new: Duration) -> bool {
    let gap = old.max(new).saturating_sub(old.min(new));
    gap > Duration::from_millis(1) && gap > old / 5
}

/// The least part of its weight a healthy server is given.
const SLOW_START_MIN: Ratio = Ratio::percent(10);
