//! Metrics of packet forwarding. There are no samples of them where nothing is forwarded.

use std::collections::BTreeMap;

use loadline_core::state::{FlowTable, ForwardedServer, Forwarding, Traffic};

use super::family::{Family, Subject};

const VERDICT: Subject<Traffic> = Subject {
    labels: &["verdict"],
    each: |state, to| {
        let verdicts = state.forwarding.iter().flat_map(|it| &it.verdicts);
        verdicts.for_each(|(verdict, traffic)| to(&[verdict], traffic));
    },
};

const FORWARDING: Subject<Forwarding> =
    Subject { labels: &[], each: |state, to| state.forwarding.iter().for_each(|it| to(&[], it)) };

const PORTS_EXHAUSTED: Subject<Traffic> = Subject {
    labels: &[],
    each: |state, to| {
        let verdicts = state.forwarding.as_ref().map(|it| &it.verdicts);
        let exhausted = verdicts.and_then(|it| it.get("drop-nat-ports"));
        exhausted.into_iter().for_each(|it| to(&[], it));
    },
};

const SERVER: Subject<ForwardedServer> = Subject {
    labels: &["server"],
    each: |state, to| {
        let servers = state.forwarding.iter().flat_map(|it| &it.servers);
        servers.for_each(|server| to(&[&server.address], server));
    },
};

const FLOW_TABLE: Subject<FlowTable> = Subject {
    labels: &["family"],
    each: |state, to| {
        let tables = state.forwarding.iter().flat_map(|it| &it.flow_tables);
        tables.for_each(|table| to(&[&table.family], table));
    },
};

/// Of a server that a service reaches by several methods, or over both families.
#[derive(Default)]
struct Sum {
    packets: u64,
    bytes: u64,
    opened: u64,
}

const FORWARDED: Subject<Sum> = Subject {
    labels: &["server", "service"],
    each: |state, to| {
        let mut sums: BTreeMap<(&str, &str), Sum> = BTreeMap::new();
        for server in state.forwarding.iter().flat_map(|it| &it.servers) {
            let key = (&*server.address, server.service.as_deref().unwrap_or_default());
            let sum = sums.entry(key).or_default();
            sum.packets += server.packets;
            sum.bytes += server.bytes;
            sum.opened += server.opened;
        }
        sums.iter().for_each(|((server, service), sum)| to(&[server, service], sum));
    },
};

/// Every metric there is of it.
pub(super) const FAMILIES: &[&dyn Family] = &[
    &FORWARDING.gauge(
        "forwarding_attached",
        "1 while packets on the interface are forwarded; 0 once it was deleted",
        |it| f64::from(u8::from(it.is_attached())),
    ),
    &VERDICT.counter(
        "forwarding_packets",
        "Packets received for packet forwarding, by verdict",
        |it| it.packets,
    ),
    &VERDICT.counter(
        "forwarding_bytes",
        "Bytes of the frames of these packets, by verdict",
        |it| it.bytes,
    ),
    &FORWARDING.counter(
        "forwarding_connections",
        "New TCP connections, SYN retransmissions included",
        |it| it.opened,
    ),
    &PORTS_EXHAUSTED.counter(
        "forwarding_nat_ports_exhausted",
        "First packets of connections dropped because no NAT port was free",
        |it| it.packets,
    ),
    &SERVER.gauge_if_any("forwarding_nat_ports_free", "Free NAT ports to the server", |it| {
        it.free_ports.map(|ports| ports as f64)
    }),
    &FLOW_TABLE.gauge_if_any(
        "forwarding_flows",
        "Flows that are remembered while servers change; no sample on a standby",
        |it| it.flows.map(|flows| flows as f64),
    ),
    &FLOW_TABLE.gauge(
        "forwarding_flows_limit",
        "Maximum flows that are remembered while servers change",
        |it| it.max_flows as f64,
    ),
    &FORWARDED
        .counter("forwarding_server_packets", "Packets forwarded to the server", |it| it.packets),
    &FORWARDED.counter(
        "forwarding_server_bytes",
        "Bytes of these packets, without the link header",
        |it| it.bytes,
    ),
    &FORWARDED.counter(
        "forwarding_server_connections",
        "New TCP connections to the server, SYN retransmissions included",
        |it| it.opened,
    ),
];

#[cfg(test)]
mod tests {
    use loadline_core::state::State;

    use super::{
        super::{Detail, Format, tests::text},
        *,
    };

    #[test]
    fn the_flows_of_a_family_are_told_beside_the_most_that_are_allowed() {
        let table = |family: &str, flows| FlowTable {
            family: family.to_owned(),
            flows,
            max_flows: 262_144,
        };
        let flow_tables = vec![table("ipv4", Some(131_072)), table("ipv6", None)];
        let forwarding = Some(Forwarding { flow_tables, ..Forwarding::default() });
        let state = State { forwarding, ..State::default() };
        let text = text(state, Detail::Groups, Format::Prometheus);
        let samples = text.lines().filter(|line| line.starts_with("loadline_forwarding_flows"));
        let expected = [
            "loadline_forwarding_flows{family=\"ipv4\"} 131072.0",
            "loadline_forwarding_flows_limit{family=\"ipv4\"} 262144.0",
            "loadline_forwarding_flows_limit{family=\"ipv6\"} 262144.0",
        ];
        assert_eq!(samples.collect::<Vec<_>>(), expected);
    }

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
