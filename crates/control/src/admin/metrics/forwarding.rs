//! Metrics of packet forwarding. There are no samples of them where nothing is forwarded.

use std::collections::BTreeMap;

use loadline_core::state::{ForwardedServer, State, Traffic};

use super::{Family, Read, Samples};

fn verdicts(state: &State, samples: &mut Samples<'_, u64>, value: impl Fn(&Traffic) -> u64) {
    for (verdict, traffic) in state.forwarding.iter().flat_map(|it| &it.verdicts) {
        samples.add(&[verdict], value(traffic));
    }
}

/// Of a server that a service reaches by several methods, or over both families, the sum.
fn servers(state: &State, samples: &mut Samples<'_, u64>, value: impl Fn(&ForwardedServer) -> u64) {
    let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for server in state.forwarding.iter().flat_map(|it| &it.servers) {
        let key = (&*server.address, server.service.as_deref().unwrap_or_default());
        *sums.entry(key).or_default() += value(server);
    }
    sums.into_iter().for_each(|((server, service), sum)| samples.add(&[server, service], sum));
}

fn exhausted(state: &State, samples: &mut Samples<'_, u64>) {
    let of = |name: &str| state.forwarding.as_ref()?.verdicts.get(name).copied();
    if let Some(traffic) = of("drop-nat-ports") {
        samples.add(&[], traffic.packets);
    }
}

const VERDICT: &[&str] = &["verdict"];
const SERVER: &[&str] = &["server"];
const FORWARDED: &[&str] = &["server", "service"];

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
        labels: SERVER,
        read: Read::Gauge(|state, to| {
            for server in state.forwarding.iter().flat_map(|it| &it.servers) {
                if let Some(ports) = server.free_ports {
                    to.add(&[&server.address], ports as f64);
                }
            }
        }),
    },
    Family {
        name: "forwarding_server_packets",
        help: "Packets forwarded to the server",
        labels: FORWARDED,
        read: Read::Counter(|state, to| servers(state, to, |it| it.packets)),
    },
    Family {
        name: "forwarding_server_bytes",
        help: "Bytes of these packets, without the link header",
        labels: FORWARDED,
        read: Read::Counter(|state, to| servers(state, to, |it| it.bytes)),
    },
    Family {
        name: "forwarding_server_connections",
        help: "New TCP connections to the server, SYN retransmissions included",
        labels: FORWARDED,
        read: Read::Counter(|state, to| servers(state, to, |it| it.opened)),
    },
];

#[cfg(test)]
mod tests {
    use loadline_core::state::Forwarding;

    use super::{
        super::{Detail, Format, tests::text},
        *,
    };

    #[test]
    fn a_server_of_two_services_has_a_sample_for_each_and_one_of_two_methods_their_sum() {
        let server = |service: Option<&str>, packets| ForwardedServer {
            address: "10.0.0.1".to_owned(),
            service: service.map(str::to_owned),
            packets,
            ..ForwardedServer::default()
        };
        let servers = vec![server(Some("mail"), 1), server(Some("web"), 2), server(Some("web"), 4)];
        let forwarding = Some(Forwarding { servers, ..Forwarding::default() });
        let state = State { forwarding, ..State::default() };
        let text = text(state, Detail::Servers, Format::Prometheus);
        let of = |service: &str| {
            let name = "loadline_forwarding_server_packets_total";
            let head = format!("{name}{{server=\"10.0.0.1\",service=\"{service}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&head).map(str::to_owned))
        };
        assert_eq!(of("mail").as_deref(), Some("1"), "{text}");
        assert_eq!(of("web").as_deref(), Some("6"), "{text}");
    }
}
