//! What a plan asks of the tables. A service has a ring of its own for each method and each family
//! by which it is reached: packets keep their family, and NAT servers have numbers of their own.

use std::collections::BTreeMap;

use loadline_core::{
    decide::plan::Plan,
    fleet::forwarding::{Affinity, Method, Times},
};

use super::targets::{Target, targets};
use crate::{Frontend, ServerName};

/// A service by one method, for one family.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ForwardedService {
    /// The name of the service.
    pub(super) service: String,
    /// How its packets are forwarded.
    pub(super) method: Method,
    /// Whether they are of IPv6.
    pub(super) v6: bool,
}

/// What is wanted of a forwarded service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) frontends: Vec<Frontend>,
    pub(super) targets: Vec<Target>,
    pub(super) times: Times,
    pub(super) affinity: Affinity,
}

impl ForwardedService {
    /// What a server is known by in this service, which has this number.
    pub(super) fn name(&self, number: u32, target: &Target) -> ServerName {
        let address = target.address.ip();
        match self.method {
            Method::Nat => ServerName { address, port: target.address.port(), service: None },
            Method::Mac | Method::Ipip => ServerName { address, port: 0, service: Some(number) },
        }
    }

    /// Whether packets of this service can go to such a server. A link address would serve both
    /// families, but a server is checked in its own alone.
    fn leads_to(&self, target: &Target) -> bool {
        target.address.is_ipv6() == self.v6
    }
}

/// All forwarded services of a plan.
pub(super) fn forwarded_services(plan: &Plan) -> BTreeMap<ForwardedService, Wanted> {
    let mut forwarded_services: BTreeMap<ForwardedService, Wanted> = BTreeMap::new();
    for frontend in &plan.fleet.forwarding.frontends {
        let Some(service) = plan.fleet.services.get(frontend.service) else { continue };
        let (method, v6) = (frontend.method, frontend.address.is_ipv6());
        let forwarded = ForwardedService { service: service.name.clone(), method, v6 };
        let given = Frontend { address: frontend.address, protocol: frontend.protocol };
        if let Some(known) = forwarded_services.get_mut(&forwarded) {
            known.frontends.push(given);
            continue;
        }
        let mut targets = targets(plan, frontend.service);
        targets.retain(|target| forwarded.leads_to(target));
        let (times, affinity) = (service.flow_times, service.affinity);
        let wanted = Wanted { frontends: vec![given], targets, times, affinity };
        forwarded_services.insert(forwarded, wanted);
    }
    forwarded_services
}

/// New services that go on as services that are no more, of which they have a frontend by the same
/// method: for the connections only the servers have changed. Connections of `nat` need no service.
pub(super) fn taken_over<'a>(
    before: impl Iterator<Item = (&'a ForwardedService, &'a [Frontend])>,
    wanted: &BTreeMap<ForwardedService, Wanted>,
) -> BTreeMap<ForwardedService, ForwardedService> {
    let before: BTreeMap<&ForwardedService, &[Frontend]> = before.collect();
    let mut found: BTreeMap<ForwardedService, ForwardedService> = BTreeMap::new();
    for (gone, frontends) in &before {
        if gone.method == Method::Nat || wanted.contains_key(*gone) {
            continue;
        }
        let heir = wanted.iter().find(|(new, wanted)| {
            let is_alike = (new.method, new.v6) == (gone.method, gone.v6);
            let is_new = !before.contains_key(new) && !found.contains_key(*new);
            is_alike && is_new && wanted.frontends.iter().any(|it| frontends.contains(it))
        });
        if let Some((new, _)) = heir {
            found.insert(new.clone(), (*gone).clone());
        }
    }
    found
}

/// Frontends that have got another service or method, which does not know the connections that they
/// had. Connections of `nat` are known whatever service they came by.
pub(super) fn moved<'a>(
    before: impl Iterator<Item = (&'a ForwardedService, &'a [Frontend])>,
    wanted: &'a BTreeMap<ForwardedService, Wanted>,
) -> Vec<(Frontend, &'a ForwardedService)> {
    let is_other = |(known, frontends): &(&ForwardedService, &[Frontend])| {
        wanted.get(*known).is_none_or(|wanted| wanted.frontends != **frontends)
    };
    let changed = before.filter(is_other);
    let each = changed.flat_map(|(known, frontends)| frontends.iter().map(move |it| (known, it)));
    let moved = each.filter_map(|(known, frontend)| {
        let (other, _) = wanted.iter().find(|(_, it)| it.frontends.contains(frontend))?;
        let is_kept = other == known || [known, other].iter().all(|it| it.method == Method::Nat);
        (!is_kept).then_some((*frontend, other))
    });
    moved.collect()
}

#[cfg(test)]
mod tests {
    use loadline_core::{
        decide::controller::{Controller, Output},
        fleet::{
            Edge, Fleet, Group, Server, Service,
            forwarding::{self, Forwarding, Protocol},
        },
        time::Instant,
    };

    use super::*;

    #[test]
    fn packets_of_a_family_go_to_servers_of_that_family_alone_by_which_they_are_checked() {
        let servers = ["10.0.1.1:80", "10.0.1.2:80", "[fd00::1:3]:80"];
        let servers = servers.map(|address| Server::at(address.parse().unwrap()));
        let groups = vec![Group::within("near", servers.into())];
        let service = Service { groups, ..Service::named("web") };
        let mut fleet = Fleet::of(Edge::within("near"), Vec::new(), vec![service]);
        let frontends = Method::ALL.into_iter().zip(0_u16..).flat_map(|(method, host)| {
            let both = [format!("10.0.0.{host}:80"), format!("[fd00::{host}]:80")];
            both.map(|address| forwarding::Frontend {
                address: address.parse().unwrap(),
                protocol: Protocol::Tcp,
                method,
                service: 0,
            })
        });
        fleet.forwarding = Forwarding { frontends: frontends.collect(), ..Forwarding::default() };
        let Some(Output::Publish(plan)) = Controller::new(Instant::ZERO, fleet).poll() else {
            panic!("no plan")
        };
        let found = forwarded_services(&plan);
        assert_eq!(found.len(), 6);
        for (forwarded, wanted) in found {
            let is_v6 = wanted.targets.iter().map(|target| target.address.is_ipv6());
            let expected = if forwarded.v6 { vec![true] } else { vec![false; 2] };
            assert_eq!(is_v6.collect::<Vec<_>>(), expected, "{forwarded:?}");
        }
    }

    #[test]
    fn a_new_service_goes_on_as_one_that_is_no_more_of_which_it_has_a_listener() {
        let of =
            |name: &str, method| ForwardedService { service: name.to_owned(), method, v6: false };
        let at =
            |host: u8| Frontend { address: ([10, 0, 0, host], 80).into(), protocol: Protocol::Tcp };
        let taken = |before: &[(ForwardedService, Vec<Frontend>)],
                     after: &[(ForwardedService, Vec<Frontend>)]| {
            let wanted = |frontends: &Vec<Frontend>| Wanted {
                frontends: frontends.clone(),
                targets: Vec::new(),
                times: Times::default(),
                affinity: Affinity::default(),
            };
            let wanted = after.iter().map(|(of, frontends)| (of.clone(), wanted(frontends)));
            let before = before.iter().map(|(of, frontends)| (of, &**frontends));
            let found = taken_over(before, &wanted.collect());
            found.into_iter().map(|(new, gone)| (new.service, gone.service)).collect::<Vec<_>>()
        };
        let [blue, green, red] = ["blue", "green", "red"].map(|name| of(name, Method::Mac));
        let one = |of: &ForwardedService| (of.clone(), vec![at(1)]);
        let pair = |new: &str, gone: &str| vec![(new.to_owned(), gone.to_owned())];
        assert_eq!(taken(&[one(&blue)], &[one(&green)]), pair("green", "blue"));
        let more = [(green.clone(), vec![at(1), at(2)])];
        assert_eq!(taken(&[one(&blue)], &more), pair("green", "blue"));
        // One that has connections of its own, one that stays, another method, another address.
        let other = [(green.clone(), vec![at(2)])];
        assert!(taken(&[one(&blue), other[0].clone()], &more).is_empty());
        let rest = (blue.clone(), vec![at(3)]);
        assert!(taken(&[(blue.clone(), vec![at(1), at(3)])], &[one(&green), rest]).is_empty());
        assert!(taken(&[one(&blue)], &[one(&of("green", Method::Ipip))]).is_empty());
        assert!(taken(&[one(&blue)], &other).is_empty());
        let nat = ["blue", "green"].map(|name| one(&of(name, Method::Nat)));
        assert!(taken(&nat[..1], &nat[1..]).is_empty(), "connections are known without it");
        // Of two that are no more only one.
        let both = [one(&blue), (red, vec![at(2)])];
        assert_eq!(taken(&both, &more), pair("green", "blue"));
    }

    #[test]
    fn a_listener_that_gets_another_service_or_method_is_told_of_but_where_nat_stays() {
        let of =
            |name: &str, method| ForwardedService { service: name.to_owned(), method, v6: false };
        let address = "10.0.0.100:80".parse().unwrap();
        let frontends = vec![Frontend { address, protocol: Protocol::Tcp }];
        let told = |before: &ForwardedService, after: &ForwardedService| {
            let wanted = Wanted {
                frontends: frontends.clone(),
                targets: Vec::new(),
                times: Times::default(),
                affinity: Affinity::default(),
            };
            let wanted = BTreeMap::from([(after.clone(), wanted)]);
            moved([(before, &*frontends)].into_iter(), &wanted).len()
        };
        let [blue, green] = ["blue", "green"].map(|name| of(name, Method::Mac));
        let [nat, other] = ["blue", "green"].map(|name| of(name, Method::Nat));
        assert_eq!((told(&blue, &blue), told(&nat, &other)), (0, 0));
        assert_eq!((told(&blue, &green), told(&blue, &nat), told(&nat, &blue)), (1, 1, 1));
    }
}
