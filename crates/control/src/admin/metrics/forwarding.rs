//! Metrics of packet forwarding. There are no samples of them where nothing is forwarded.

use loadline_core::state::{ForwardedServer, State, Traffic};

use super::{Family, Read, Samples};

fn verdicts(state: &State, samples: &mut Samples<'_, u64>, value: impl Fn(&Traffic) -> u64) {
    for (verdict, traffic) in state.forwarding.iter().flat_map(|it| &it.verdicts) {
        samples.add(&[verdict], value(traffic));
    }
}

fn servers<T>(
    state: &State,
    samples: &mut Samples<'_, T>,
    value: impl Fn(&ForwardedServer) -> Option<T>,
) {
    for server in state.forwarding.iter().flat_map(|it| &it.servers) {
        if let Some(value) = value(server) {
            samples.add(&[&server.address], value);
        }
    }
}

fn exhausted(state: &State, samples: &mut Samples<'_, u64>) {
    let of = |name: &str| state.forwarding.as_ref()?.verdicts.get(name).copied();
    if let Some(traffic) = of("drop-nat-ports") {
        samples.add(&[], traffic.packets);
    }
}

const VERDICT: &[&str] = &["verdict"];
const FORWARDED: &[&str] = &["server"];

/// Every metric there is of it.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "forwarding_packets",
        help: "Packets received for packet forwarding, by verdict",
        labels: VERDICT,
        read: Read::Counter(|state, to| verdicts(state, to, |it| it.packets)),
    },
    Family {
        name: "forwarding_bytes",
        help: "Bytes of the frames of these packets, by verdict",
        labels: VERDICT,
        read: Read::Counter(|state, to| verdicts(state, to, |it| it.bytes)),
    },
    Family {
        name: "forwarding_connections",
        help: "New TCP connections, SYN retransmissions included",
        labels: &[],
        read: Read::Counter(|state, to| {
            state.forwarding.iter().for_each(|it| to.add(&[], it.opened));
        }),
    },
    Family {
        name: "forwarding_nat_ports_exhausted",
        help: "First packets of connections dropped because no NAT port was free",
        labels: &[],
        read: Read::Counter(exhausted),
    },
    Family {
        name: "forwarding_nat_ports_free",
        help: "Free NAT ports to the server",
        labels: FORWARDED,
        read: Read::Gauge(|state, to| {
            servers(state, to, |it| it.free_ports.map(|ports| ports as f64));
        }),
    },
    Family {
        name: "forwarding_server_packets",
        help: "Packets forwarded to the server",
        labels: FORWARDED,
        read: Read::Counter(|state, to| servers(state, to, |it| Some(it.packets))),
    },
    Family {
        name: "forwarding_server_bytes",
        help: "Bytes of these packets, without the link header",
        labels: FORWARDED,
        read: Read::Counter(|state, to| servers(state, to, |it| Some(it.bytes))),
    },
    Family {
        name: "forwarding_server_connections",
        help: "New TCP connections to the server, SYN retransmissions included",
        labels: FORWARDED,
        read: Read::Counter(|state, to| servers(state, to, |it| Some(it.opened))),
    },
];
