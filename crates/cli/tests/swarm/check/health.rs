//! A server that is down or ejected gets no requests: down after `fall` failed checks in a row,
//! until `rise` have passed; ejected for as long as the notice says, or until an HTTP check passes
//! where it did not respond. No more servers of a service are ejected at a time than `share_max`
//! allows. A server that has passed its checks and is not ejected any more is in use again: the
//! time of an ejection, the next check and [`RETURN`] after it was ejected.

use std::{collections::BTreeMap, net::SocketAddr};

use loadline_core::{
    decide::controller::Change,
    fleet::Probe,
    time::{Duration, Instant},
};
use loadline_sim::{
    Scenario,
    trace::{Fact, Place, Step, What},
};

use super::{Checker, End};
use crate::account::{Account, ejection};

/// What an edge knows of a server.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    failed: u32,
    passed: u32,
    is_down: bool,
    ejected_until: Option<Instant>,
    /// It is ejected because it did not respond.
    is_silent: bool,
}

pub(super) struct Health {
    places: BTreeMap<SocketAddr, Place>,
    known: BTreeMap<(usize, Place), Known>,
    seen: Instant,
}

impl Health {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let mut places = BTreeMap::new();
        for (service, of) in scenario.edges[0].services.iter().enumerate() {
            for (group, of) in of.groups.iter().enumerate() {
                for (server, of) in of.servers.iter().enumerate() {
                    let (service, group) = (service as u32, group as u16);
                    let place = Place { service, group, server: server as u16 };
                    places.insert(of.address, place);
                }
            }
        }
        Self { places, known: BTreeMap::new(), seen: Instant::ZERO }
    }

    fn checked(&mut self, account: &Account, edge: usize, server: Place, passed: bool) {
        let Some(rules) = &account.service(server.service as usize).health else { return };
        let known = self.known.entry((edge, server)).or_default();
        (known.failed, known.passed) =
            if passed { (0, known.passed + 1) } else { (known.failed + 1, 0) };
        let responds = passed && known.is_silent && matches!(rules.probe, Probe::Http { .. });
        if responds {
            known.ejected_until = None;
        }
        known.is_down = match known.is_down {
            true => known.passed < rules.rise,
            false => known.failed >= rules.fall,
        };
    }

    fn noticed(
        &mut self,
        account: &Account,
        (edge, now): (usize, Instant),
        notice: &loadline_core::decide::controller::Notice,
    ) -> Result<(), String> {
        let Some((server, time)) = ejection(notice) else { return Ok(()) };
        let Some(place) = self.places.get(&server) else { return Ok(()) };
        let known = self.known.entry((edge, *place)).or_default();
        known.ejected_until = Some(now + time);
        known.is_silent = matches!(notice.change, Change::Silent(..));
        let of = account.service(place.service as usize);
        let Some(rules) = &of.ejection else { return Err(format!("{server} is ejected")) };
        let all: usize = of.groups.iter().map(|group| group.servers.len()).sum();
        let out = self.known.iter().filter(|((at, it), known)| {
            let of_service = *at == edge && it.service == place.service;
            of_service && known.ejected_until.is_some_and(|until| now < until)
        });
        let (out, most) = (out.count(), all as f64 * rules.share_max.as_f64() + 1e-6);
        if out as f64 > most {
            return Err(format!("{out} of {all} servers are ejected, at most {most:.1} may be"));
        }
        Ok(())
    }
}

impl Checker for Health {
    fn see(&mut self, account: &Account, fact: &Fact) -> Result<(), String> {
        self.seen = fact.at;
        match &fact.what {
            What::Checked { edge, server, passed } => {
                self.checked(account, *edge as usize, *server, *passed);
                Ok(())
            }
            What::Noticed { edge, notice } => {
                self.noticed(account, (*edge as usize, fact.at), notice)
            }
            What::Request(number, Step::Sent { server, .. }) => {
                let edge = account.requests.get(number).map_or(0, |request| request.edge);
                match self.known.get(&(edge, *server)) {
                    Some(known) if known.is_down => Err(format!(
                        "request {number} is sent to {server:?}, whose last {} checks failed",
                        known.failed
                    )),
                    Some(Known { ejected_until: Some(until), .. }) if fact.at < *until => Err(
                        format!("request {number} is sent to {server:?}, ejected until {until:?}"),
                    ),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, account: &Account, _: &End<'_>) -> Result<(), String> {
        for ((edge, place), known) in &self.known {
            let service = account.service(place.service as usize);
            let server = &service.groups[usize::from(place.group)].servers;
            let server = &server[usize::from(place.server)];
            let interval = service.health.as_ref().map_or(Duration::ZERO, |check| check.interval);
            let over = |until: Instant| until + interval * 2 + RETURN < self.seen;
            let passes = service.health.as_ref().is_none_or(|check| known.passed >= check.rise);
            let must = passes
                && !known.is_down
                && known.ejected_until.is_none_or(over)
                && server.weight > 0
                && server.priority == 0;
            if must && !account.group(*edge, *place).in_use.contains(&place.server) {
                return Err(format!("{} is not in use again: {known:?}", server.address));
            }
        }
        Ok(())
    }
}

/// How long it may take until a server is in use that may be.
const RETURN: Duration = Duration::from_secs(2);
