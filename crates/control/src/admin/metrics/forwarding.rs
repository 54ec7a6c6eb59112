//! Metrics of packet forwarding. There are no samples of them where nothing is forwarded.

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

/// One number in the tables each, so that no counter falls when another number is let go. A server
/// of a service that was removed has none: several would be alike.
const FORWARDED: Subject<ForwardedServer> = Subject {
    labels: &["server", "service", "method"],
    each: |state, to| {
        for server in state.forwarding.iter().flat_map(|it| &it.servers) {
            let service = server.service.as_deref().unwrap_or_default();
            let method = server.method.as_deref();
            method.into_iter().for_each(|it| to(&[&server.address, service, it], server));
        }
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
    fn a_counter_of_a_server_does_not_fall_when_another_method_of_its_service_lets_it_go() {
        let server = |service: Option<&str>, method: Option<&str>, packets| ForwardedServer {
            address: "10.0.0.1".to_owned(),
            service: service.map(str::to_owned),
            method: method.map(str::to_owned),
            packets,
            ..ForwardedServer::default()
        };
        let mut servers = vec![
            server(Some("mail"), Some("mac"), 1),
            server(Some("web"), Some("mac"), 2),
            server(Some("web"), Some("ipip"), 4),
            server(None, Some("nat"), 8),
            server(None, None, 16),
        ];
        let samples = |servers: &[ForwardedServer]| {
            let forwarding = Some(Forwarding { servers: servers.into(), ..Forwarding::default() });
            let state = State { forwarding, ..State::default() };
            let text = text(state, Detail::Servers, Format::Prometheus);
            let head = "loadline_forwarding_server_packets_total{server=\"10.0.0.1\",";
            let lines = text.lines().filter_map(|line| line.strip_prefix(head));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let mut expected = vec![
            "service=\"mail\",method=\"mac\"} 1",
            "service=\"web\",method=\"mac\"} 2",
            "service=\"web\",method=\"ipip\"} 4",
            "service=\"\",method=\"nat\"} 8",
        ];
        assert_eq!(samples(&servers), expected);
        servers.remove(1);
        expected.remove(1);
        assert_eq!(samples(&servers), expected, "what the others have stays");
    }
}
