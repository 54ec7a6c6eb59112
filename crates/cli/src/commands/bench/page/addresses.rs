//! Of a host with several addresses, the one that requests went to.

use std::{collections::BTreeMap, net::SocketAddr};

use loadline_measure::record::{HostAddress, LoadRecord};

/// Which address requests went to, of each host that has several. Those of this machine are the
/// same server.
pub(crate) fn one_of_several(record: &LoadRecord) -> Option<String> {
    let mut hosts: BTreeMap<(&str, u64), Vec<&str>> = BTreeMap::new();
    for HostAddress { host, address, known } in &record.addresses {
        if *known > 1 && !is_loopback(address) {
            hosts.entry((host.as_str(), *known)).or_default().push(address);
        }
    }
    let told = hosts.iter().take(MOST_HOSTS).map(|((host, known), used)| {
        format!("{host} has {known} addresses, all requests go to {}", used.join(" and "))
    });
    let told = told.collect::<Vec<_>>().join("; ");
    (!told.is_empty()).then_some(told)
}

fn is_loopback(address: &str) -> bool {
    address.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback())
}

/// The others are in the record.
const MOST_HOSTS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_several_addresses_is_told_with_the_one_that_was_loaded() {
        let of = |host: &str, address: &str, known| HostAddress {
            host: host.to_owned(),
            address: address.to_owned(),
            known,
        };
        let told = |addresses| one_of_several(&LoadRecord { addresses, ..LoadRecord::default() });
        let one = of("service:80", "192.0.2.1:80", 4);
        let expected = "service:80 has 4 addresses, all requests go to 192.0.2.1:80";
        assert_eq!(told(vec![one.clone()]).as_deref(), Some(expected));
        let both = told(vec![one, of("service:80", "192.0.2.2:80", 4)]).unwrap();
        assert!(both.ends_with("go to 192.0.2.1:80 and 192.0.2.2:80"), "of two agents: {both}");
        let alone = of("single:80", "192.0.2.3:80", 1);
        assert_eq!(told(vec![alone, of("localhost:80", "[::1]:80", 2)]), None);
    }
}
