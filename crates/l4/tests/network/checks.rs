//! Places for health checks by the links of packets.

use std::net::{IpAddr, SocketAddr};

use loadline_core::{
    fleet::forwarding::{Method, Protocol},
    time::Duration,
};
use loadline_l4::{Check, Checks, Datapath};

use crate::{
    bridge::{at, bridge},
    member,
};

/// More servers than any file has, each checked once a second.
const SERVERS: u32 = 60_000;

#[test]
fn every_server_of_the_largest_file_can_be_checked() {
    let Some(hub) = bridge() else { return };
    let balancer = member(&hub, "balancer", 0, 8);
    balancer.enter(|| {
        let mut checks = Checks::attach("eth0").unwrap();
        let now = Datapath::now();
        for number in 0..2 * SERVERS {
            let [_, _, high, low] = number.to_be_bytes();
            let check = Check {
                server: SocketAddr::new(IpAddr::from([10, 0, high, low]), 80),
                service: at(0, 2, false),
                method: Method::Mac,
                protocol: Protocol::Tcp,
            };
            let now = now + Duration::from_secs((number / SERVERS).into());
            let until = now + Duration::from_secs(1);
            checks.lend(now, ((number % SERVERS) as u16, until), &check).unwrap();
        }
    });
}
