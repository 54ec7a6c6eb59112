//! Numbers of servers, by which tables and rings know them.
//!
//! A number is of one server for as long as anything may know it by that. Servers of NAT have
//! queues of ports and the first numbers; the others take numbers behind those, and in front where
//! there are no more.

use std::{collections::BTreeMap, ops::RangeInclusive};

use crate::ServerName;

/// Numbers of servers.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    all: u16,
    nat: u16,
    by_name: BTreeMap<ServerName, u16>,
    by_number: BTreeMap<u16, ServerName>,
}

impl Numbers {
    /// Numbers from 1 to `all`, of which those up to `nat` are for servers of NAT.
    #[must_use]
    pub(super) const fn new(all: u16, nat: u16) -> Self {
        Self { all, nat, by_name: BTreeMap::new(), by_number: BTreeMap::new() }
    }

    /// The number of a server, a new one where it has none; none where there are no more.
    pub(super) fn of(&mut self, name: ServerName) -> Option<u16> {
        if let Some(number) = self.by_name.get(&name) {
            return Some(*number);
        }
        let nat = self.nat.min(self.all);
        let number = match name.is_of_nat() {
            true => self.free(1..=nat),
            false => self.free(nat.saturating_add(1)..=self.all).or_else(|| self.free(1..=nat)),
        }?;
        self.by_name.insert(name, number);
        self.by_number.insert(number, name);
        Some(number)
    }

    /// The key of the file that leaves no number for a server.
    pub(super) fn limit(&self, name: ServerName) -> &'static str {
        let of_nat = self.by_name.keys().filter(|known| known.is_of_nat()).count();
        let is_full = self.nat < self.all && of_nat >= usize::from(self.nat);
        if name.is_of_nat() && is_full { "max_nat_servers" } else { "max_servers" }
    }

    /// The server with a number.
    #[must_use]
    pub(super) fn name(&self, number: u16) -> Option<ServerName> {
        self.by_number.get(&number).copied()
    }

    /// Numbers of a server in all services: its connections count whichever service they came by.
    pub(super) fn in_all_services(
        &self,
        ServerName { address, port, .. }: ServerName,
    ) -> impl Iterator<Item = u16> {
        let name = |service| ServerName { address, port, service };
        self.by_name.range(name(None)..=name(Some(u32::MAX))).map(|(_, number)| *number)
    }

    /// Whether a server is known as one of the service with this number.
    pub(super) fn has_service(&self, service: u32) -> bool {
        self.by_name.keys().any(|name| name.service == Some(service))
    }

    /// Nothing knows this number any more.
    pub(super) fn give_back(&mut self, number: u16) {
        if let Some(name) = self.by_number.remove(&number) {
            self.by_name.remove(&name);
        }
    }

    fn free(&self, mut range: RangeInclusive<u16>) -> Option<u16> {
        range.find(|number| !self.by_number.contains_key(number))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn name(host: u8, port: u16) -> ServerName {
        let service = (port == 0).then_some(0);
        ServerName { address: IpAddr::from([10, 0, 0, host]), port, service }
    }

    #[test]
    fn a_server_has_a_number_for_each_service_or_one_for_each_port_of_nat() {
        let mut numbers = Numbers::new(9, 3);
        let of = |service| ServerName { service, ..name(1, 0) };
        let [web, own] = [Some(0), Some(4)].map(|service| numbers.of(of(service)).unwrap());
        let [nat, other] = [80, 81].map(|port| numbers.of(name(1, port)).unwrap());
        numbers.of(name(2, 0)).unwrap();
        let all = |name| numbers.in_all_services(name).collect::<Vec<_>>();
        assert_eq!((all(of(Some(0))), all(name(1, 80))), (vec![web, own], vec![nat]));
        assert_eq!((all(name(1, 81)), numbers.has_service(4)), (vec![other], true));
        assert!(!numbers.has_service(1));
    }

    #[test]
    fn servers_of_nat_have_the_first_numbers_and_the_others_what_is_left() {
        let mut numbers = Numbers::new(4, 2);
        assert_eq!(numbers.of(name(1, 0)), Some(3));
        assert_eq!(numbers.of(name(1, 80)), Some(1), "the same host is another server to NAT");
        assert_eq!(numbers.of(name(1, 81)), Some(2));
        assert_eq!(numbers.of(name(1, 82)), None, "nobody else has a queue of ports");
        assert_eq!(numbers.of(name(2, 0)), Some(4));
        assert_eq!(numbers.of(name(3, 0)), None);
        numbers.give_back(1);
        assert_eq!(numbers.of(name(3, 0)), Some(1), "rather than none");
    }

    #[test]
    fn who_gets_no_number_is_told_which_key_leaves_none() {
        let mut numbers = Numbers::new(4, 2);
        (80..82).for_each(|port| assert!(numbers.of(name(1, port)).is_some()));
        assert_eq!(numbers.limit(name(1, 82)), "max_nat_servers");
        assert_eq!(numbers.limit(name(1, 0)), "max_servers");
        let mut all_of_nat = Numbers::new(2, 2);
        (80..82).for_each(|port| assert!(all_of_nat.of(name(1, port)).is_some()));
        assert_eq!(all_of_nat.limit(name(1, 82)), "max_servers", "it bounds both");
    }

    #[test]
    fn a_number_stays_until_it_is_given_back() {
        let mut numbers = Numbers::new(9, 3);
        let first = numbers.of(name(1, 0));
        assert_eq!(numbers.of(name(1, 0)), first);
        assert_eq!(first.and_then(|number| numbers.name(number)), Some(name(1, 0)));
        numbers.give_back(first.unwrap());
        assert_eq!(numbers.name(first.unwrap()), None);
        assert_eq!(numbers.of(name(2, 0)), first, "another's now");
    }
}
