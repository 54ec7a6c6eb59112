//! The entry of one server: the state of its checks and its errors.

use alloc::{
    boxed::Box,
    string::{String, ToString},
    sync::Arc,
};
use core::net::SocketAddr;

use crate::{
    decide::{
        census::Condition,
        ledger::{ServerId, ServerState},
        priority_tier::Counted,
    },
    fleet::{HealthCheck, Server},
    health::{checks::Health, ejection::Ejected, round_trip::RoundTrip},
    time::{Duration, Instant},
    units::Ratio,
};

/// One server.
#[derive(Clone, Debug)]
pub(crate) struct ServerEntry {
    pub state: Arc<ServerState>,
    pub health: Health,
    pub checks: Checks,
    /// Why its last check failed; none while it is healthy.
    pub down_for: Option<Arc<str>>,
    /// As the checks measured it.
    pub round_trip: RoundTrip,
    /// When it last became healthy, or came back from maintenance; the origin for servers that were
    /// there from the start.
    up_since: Instant,
    /// For how long it had been up then, in the process before this one.
    up_before: Duration,
    /// Its ejection; none if it never was ejected.
    ejected: Option<Box<Ejected>>,
    /// Whether its weight lets it take part at all.
    pub takes_part: bool,
    /// Whether an operator has put it into maintenance.
    in_maintenance: bool,
    /// Whether it has joined a serving group and has not passed its checks yet.
    pub is_joining: bool,
    /// Whether it was up by its checks in the process before this one.
    pub was_up: bool,
    pub priority: u16,
    /// Checks that passed, over and over from zero.
    pub turn: u16,
}

/// Where the checks of a server stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checks {
    Off,
    /// The next one is to come.
    Waiting,
    UnderWay,
}

impl ServerEntry {
    /// A server of which nothing is known yet.
    pub(crate) fn new(state: Arc<ServerState>, up_since: Instant) -> Self {
        state.hear_again();
        Self {
            state,
            health: Health::default(),
            checks: Checks::Off,
            down_for: None,
            round_trip: RoundTrip::default(),
            up_since,
            up_before: Duration::ZERO,
            ejected: None,
            takes_part: true,
            in_maintenance: false,
            is_joining: false,
            was_up: false,
            priority: 0,
            turn: 0,
        }
    }

    /// Takes over what the file, and who has changed it, says of it.
    pub(crate) fn configure(&mut self, server: &Server, check: Option<&HealthCheck>, now: Instant) {
        if self.in_maintenance && !server.in_maintenance {
            self.come_up(now);
        }
        self.in_maintenance = server.in_maintenance;
        self.takes_part = server.weight > 0;
        self.priority = server.priority;
        match (check, self.checks) {
            (None, _) => {
                (self.checks, self.health, self.down_for) = (Checks::Off, Health::Starting, None);
                self.was_up = false;
            }
            (Some(_), Checks::Off) => self.checks = Checks::Waiting,
            (Some(_), Checks::Waiting | Checks::UnderWay) => {}
        }
    }

    pub(crate) fn id(&self) -> ServerId {
        self.state.id()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.state.address()
    }

    /// The state of its ejection.
    pub(crate) fn ejected(&self) -> Ejected {
        self.ejected.as_deref().copied().unwrap_or_default()
    }

    /// The state of its ejection, to change it.
    pub(crate) fn ejected_mut(&mut self) -> &mut Ejected {
        self.ejected.get_or_insert_default()
    }

    pub(crate) fn is_ejected(&self) -> bool {
        self.ejected.as_ref().is_some_and(|ejected| ejected.is_out())
    }

    /// Whether it may be given requests.
    pub(crate) fn is_healthy(&self) -> bool {
        self.health.is_healthy() && !self.is_ejected()
    }

    /// How it counts among those that the group has by its file. One that joins and does not serve
    /// yet takes nothing from what the others can do.
    pub(crate) fn counted(&self) -> Option<Counted> {
        let counted = match self.is_healthy() {
            false if self.is_joining => return None,
            _ if self.in_maintenance => Counted::Unhealthy,
            _ if !self.takes_part => Counted::Drained,
            false => Counted::Unhealthy,
            true => Counted::Healthy,
        };
        Some(counted)
    }

    /// Whether it is still to be checked for the first time.
    pub(crate) fn awaits_first_check(&self) -> bool {
        self.checks != Checks::Off && self.health == Health::Starting
    }

    /// How it is and why, for whoever asks.
    pub(crate) fn condition(&self) -> (Condition, Option<Arc<str>>) {
        match self.health {
            Health::Down { .. } => (Condition::Down, self.down_for.clone()),
            _ if self.is_ejected() => {
                let evidence = self.ejected().evidence().map(|it| it.to_string().into());
                let reason = self.ejected().reason().map(|reason| reason.text().into());
                (Condition::Ejected, evidence.or(reason))
            }
            Health::Starting if !self.was_up => (Condition::Unchecked, None),
            Health::Up { .. } | Health::Starting => (Condition::Up, None),
        }
    }

    /// Takes the result of a check in; true if a server is down for another reason than before.
    pub(crate) fn checked(&mut self, passed: Result<Duration, String>, health: Health) -> bool {
        self.health = health;
        self.is_joining &= !matches!(health, Health::Up { .. });
        self.checks = Checks::Waiting;
        match passed {
            Ok(round_trip) => {
                self.ejected.iter_mut().for_each(|ejected| ejected.vouch());
                self.round_trip.record(round_trip);
                self.turn = self.turn.wrapping_add(1);
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
    pub(crate) fn returns_at(&self) -> Option<Instant> {
        let ejected = self.ejected.as_ref()?;
        let checked = self.checks != Checks::Off && self.health.is_healthy();
        let in_doubt = checked && !ejected.is_vouched();
        ejected.until().filter(|_| !in_doubt)
    }

    /// Lets it back in, slowly where the service starts servers slowly.
    pub(crate) fn end_ejection(&mut self, now: Instant) {
        self.ejected_mut().end(now);
        self.state.silence.set_out(false);
        self.state.hear_again();
        self.come_up(now);
    }

    /// The part of its weight it is given: grows with time since it came up, from a tenth.
    pub(crate) fn share(&self, now: Instant, slow_start: Duration) -> Ratio {
        if !self.is_healthy() {
            return Ratio::ZERO;
        }
        let starting = self.up_for(now).filter(|up| *up < slow_start);
        let part = |up: Duration| Ratio::part(up.as_nanos(), slow_start.as_nanos());
        starting.map_or(Ratio::ONE, |up| part(up).max(SLOW_START_MIN))
    }

    /// Whether it has less than its weight yet, if it is healthy.
    pub(crate) fn is_starting(&self, now: Instant, slow_start: Duration) -> bool {
        self.up_for(now).is_some_and(|up| up < slow_start)
    }

    /// For how long it has been up; none where it was there from the start.
    pub(crate) fn up_for(&self, now: Instant) -> Option<Duration> {
        let since = Some(self.up_since).filter(|since| *since > Instant::ZERO);
        since.map(|since| now.since(since) + self.up_before)
    }

    /// Begins its slow start.
    pub(crate) fn come_up(&mut self, now: Instant) {
        (self.up_since, self.up_before) = (now, Duration::ZERO);
    }

    /// Goes on with the slow start that the process before began so long ago.
    pub(crate) fn start_on(&mut self, now: Instant, up_before: Duration) {
        // At the origin it would have been there from the start.
        (self.up_since, self.up_before) = (now.max(Instant::from_nanos(1)), up_before);
    }
}

/// The least part of its weight a healthy server is given.
const SLOW_START_MIN: Ratio = Ratio::percent(10);
