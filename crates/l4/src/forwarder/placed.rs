//! A server in the tables: what is wanted of it, and what the program was told.

use std::collections::BTreeMap;

use loadline_core::time::{Duration, Instant};

use super::{
    forwarded_services::{ForwardedService, Wanted},
    numbers::Numbers,
    service_numbers::ServiceNumbers,
    targets::Target,
};
use crate::{Server, ServerName, neighbour::Neighbour};

/// A server in the tables.
#[derive(Clone, Debug, Default)]
pub(super) struct Placed {
    pub(super) link: Option<[u8; 6]>,
    /// Whether the file says the link address.
    pub(super) is_fixed: bool,
    is_up: bool,
    /// Whether nobody answers for it any more, which counts once it is no longer checked.
    pub(super) is_silent: bool,
    /// Whether a service has it, be it without new connections.
    pub(super) is_wanted: bool,
    /// Since when it is given no new connections for good.
    pub(super) leaving: Option<Instant>,
    /// How long its connections may stay then.
    drain: Option<Duration>,
    /// Index of the interface that it is reached by, where packets do not leave by that one.
    pub(super) elsewhere: Option<u32>,
    /// How often its link address has been missed in a row.
    pub(super) missed: u32,
    /// What the program was told last.
    pub(super) written: Option<Server>,
}

impl Placed {
    /// A server that only another balancer's file has.
    pub(super) fn adopted(server: &Server, now: Instant) -> Self {
        Self {
            link: Some(server.mac),
            is_fixed: true,
            is_up: server.is_up,
            leaving: Some(now),
            written: Some(*server),
            ..Self::default()
        }
    }

    /// Follows the target of the present plan.
    pub(super) fn follow(&mut self, now: Instant, target: &Target) {
        if target.link.is_some() || self.is_fixed {
            self.link = target.link;
        }
        self.is_fixed = target.link.is_some();
        (self.is_up, self.is_silent) = (target.is_up, false);
        self.is_wanted = true;
        self.drain = target.drain;
        self.leaving = target.is_drained.then(|| self.leaving.unwrap_or(now));
    }

    /// Takes in what the kernel knows of its next hop.
    pub(super) fn meet(&mut self, found: Neighbour) {
        (self.link, self.elsewhere) = match found {
            Neighbour::Known(link) => (Some(link), None),
            Neighbour::Unknown | Neighbour::Silent => (self.link, None),
            Neighbour::Elsewhere(interface) => (None, Some(interface)),
        };
        self.is_silent = match found {
            Neighbour::Silent => !self.is_wanted,
            Neighbour::Unknown => self.is_silent,
            Neighbour::Known(_) | Neighbour::Elsewhere(_) => false,
        };
    }

    /// Notes that no service has the server any more.
    pub(super) fn leave(&mut self, now: Instant) {
        self.is_wanted = false;
        self.leaving.get_or_insert(now);
    }

    /// What the program is to be told of it.
    pub(super) fn server(&self, now: Instant, name: ServerName) -> Server {
        let ServerName { address, port, service } = name;
        let time = self.leaving.map(|since| now.since(since));
        let is_cut = time.zip(self.drain).is_some_and(|(time, drain)| time >= drain);
        Server {
            address,
            port,
            service,
            mac: self.link.unwrap_or_default(),
            is_up: self.is_up && !self.is_silent && !is_cut && self.link.is_some(),
        }
    }

    /// The same in a word.
    pub(super) const fn condition(&self) -> &'static str {
        match (self.leaving, self.is_up) {
            (Some(_), true) => "leaving",
            (Some(_), false) if !self.is_wanted => "leaving",
            (None, true) => "up",
            (_, false) => "down",
        }
    }
}

/// The servers that services want, by their numbers, and those that there is no number for. What
/// several services share is one server: it is up where one of them finds it up.
pub(super) fn wanted_servers(
    wanted: &BTreeMap<ForwardedService, Wanted>,
    services: &ServiceNumbers,
    numbers: &mut Numbers,
) -> (BTreeMap<u16, Target>, Vec<ServerName>) {
    let (mut servers, mut unplaced) = (BTreeMap::<u16, Target>::new(), Vec::new());
    for (forwarded, wanted) in wanted {
        let Some(service) = services.of(forwarded) else { continue };
        for target in &wanted.targets {
            let name = forwarded.name(service, target);
            let Some(number) = numbers.of(name) else {
                unplaced.push(name);
                continue;
            };
            let known = servers.entry(number);
            known.and_modify(|known| known.join(target)).or_insert(*target);
        }
    }
    (servers, unplaced)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use loadline_core::fleet::forwarding::{Affinity, Method, Times};

    use super::*;

    const NAME: ServerName = ServerName {
        address: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        port: 0,
        service: Some(0),
    };

    fn target() -> Target {
        Target {
            address: ([10, 0, 0, 1], 80).into(),
            link: Some([2; 6]),
            quic_server_id: None,
            weight: 1,
            is_up: true,
            is_drained: false,
            drain: None,
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// What services by one method want of a server together, which each finds so.
    fn servers(method: Method, targets: [Target; 2]) -> Vec<Target> {
        let (mut services, mut wanted) = (ServiceNumbers::default(), BTreeMap::new());
        for (service, target) in ["mail", "web"].into_iter().zip(targets) {
            let of = ForwardedService { service: service.to_owned(), method, v6: false };
            let (times, affinity) = (Times::default(), Affinity::default());
            services.give(&of, times, |_| false);
            let frontends = Vec::new();
            wanted.insert(of, Wanted { frontends, targets: vec![target], times, affinity });
        }
        let mut numbers = Numbers::new(9, 3);
        let (servers, unplaced) = wanted_servers(&wanted, &services, &mut numbers);
        assert!(unplaced.is_empty(), "{unplaced:?}");
        servers.into_values().collect()
    }

    #[test]
    fn a_server_that_is_down_in_one_service_is_not_up_there_because_another_finds_it_up() {
        let down = Target { is_up: false, ..target() };
        for method in [Method::Mac, Method::Ipip] {
            assert_eq!(servers(method, [down, target()]), [down, target()], "{method}");
        }
        assert_eq!(servers(Method::Nat, [down, target()]), [target()], "its ports are lent once");
    }

    #[test]
    fn a_server_that_one_service_drains_is_cut_there_although_another_has_it() {
        let drain = Some(Duration::from_secs(5));
        let drained = Target { weight: 0, is_drained: true, drain, ..target() };
        let of = servers(Method::Mac, [drained, target()]);
        let mut placed = [Placed::default(), Placed::default()];
        placed.iter_mut().zip(&of).for_each(|(placed, target)| placed.follow(at(1), target));
        let is_up = placed.map(|placed| placed.server(at(6), NAME).is_up);
        assert_eq!(is_up, [false, true]);
    }

    #[test]
    fn a_server_whose_weight_becomes_0_is_cut_at_its_deadline_and_comes_back_with_its_weight() {
        let drain = Some(Duration::from_secs(30));
        let drained = Target { weight: 0, is_drained: true, drain, ..target() };
        let mut placed = Placed::default();
        placed.follow(at(1), &target());
        assert_eq!(placed.condition(), "up");
        placed.follow(at(10), &drained);
        placed.follow(at(20), &drained);
        assert_eq!(placed.condition(), "leaving");
        assert!(placed.server(at(39), NAME).is_up);
        assert!(!placed.server(at(40), NAME).is_up, "30 s after the drain began");
        assert!(placed.is_wanted, "its number stays");
        placed.follow(at(41), &target());
        assert!(placed.server(at(41), NAME).is_up);
        placed.leave(at(50));
        assert!(!placed.is_wanted && placed.server(at(99), NAME).is_up, "without a limit for ever");
    }

    #[test]
    fn a_server_that_is_reached_by_another_interface_is_given_no_packets() {
        let mut placed = Placed::default();
        placed.follow(at(1), &Target { link: None, ..target() });
        placed.meet(Neighbour::Known([2; 6]));
        assert!(placed.server(at(1), NAME).is_up);
        placed.meet(Neighbour::Unknown);
        assert!(placed.server(at(2), NAME).is_up, "it is where it was until it is found elsewhere");
        placed.meet(Neighbour::Elsewhere(7));
        assert!(!placed.server(at(3), NAME).is_up);
        assert_eq!(placed.elsewhere, Some(7));
    }

    /// With UDP new flows go to it, too, for as long as its entries of the ring are recorded.
    #[test]
    fn a_server_that_was_removed_and_is_switched_off_keeps_no_flows() {
        let mut placed = Placed::default();
        placed.follow(at(1), &Target { link: None, ..target() });
        placed.meet(Neighbour::Known([2; 6]));
        placed.meet(Neighbour::Silent);
        assert!(placed.server(at(2), NAME).is_up, "its checks say whether it is");
        placed.leave(at(3));
        assert!(placed.server(at(3), NAME).is_up);
        for found in [Neighbour::Silent, Neighbour::Unknown] {
            placed.meet(found);
            assert!(!placed.server(at(4), NAME).is_up, "{found:?}: while it is asked for again");
        }
        placed.meet(Neighbour::Known([2; 6]));
        assert!(placed.server(at(5), NAME).is_up);
        placed.meet(Neighbour::Silent);
        placed.follow(at(6), &Target { link: None, ..target() });
        assert!(placed.server(at(6), NAME).is_up, "checked again");
    }

    #[test]
    fn a_server_that_drains_and_fails_its_checks_is_down() {
        let mut placed = Placed::default();
        placed.follow(at(1), &Target { is_up: false, is_drained: true, ..target() });
        assert_eq!(placed.condition(), "down");
        placed.leave(at(2));
        assert_eq!(placed.condition(), "leaving");
    }
}
