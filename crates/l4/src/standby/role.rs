//! Who is active: whoever has an address of the services on one of its interfaces.
//!
//! A VRRP daemon gives them to one balancer and takes them from it. Looking at the interfaces needs
//! no word of the daemon, so none can be missed while loadline starts or is upgraded.

use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;

/// Whether one of these addresses is here; none where the kernel does not say.
pub(super) fn has_any(addresses: &[IpAddr]) -> Option<bool> {
    let here = getifaddrs().ok()?.filter_map(|one| one.address).filter_map(|address| {
        let v4 = address.as_sockaddr_in().map(|it| IpAddr::from(it.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|it| IpAddr::from(it.ip())))
    });
    Some(here.into_iter().any(|address| addresses.contains(&address)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_the_machine_is_found_and_another_is_not() {
        let own = |ip: [u8; 4]| has_any(&[IpAddr::from([192, 0, 2, 1]), IpAddr::from(ip)]);
        assert_eq!(own([127, 0, 0, 1]), Some(true));
        assert_eq!(own([198, 51, 100, 1]), Some(false));
    }
}
