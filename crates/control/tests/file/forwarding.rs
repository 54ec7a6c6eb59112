//! Listeners whose packets are forwarded: what is read, and what is refused with its reason.

use loadline_control::{Loaded, LocalOnly, describe, parse_with};
use loadline_core::{
    fleet::forwarding::{Datapath, Forwarding, Frontend, Method, Protocol, XdpMode},
    time::Duration,
};

const RIGHT: &str = r#"[l4]
interface = "eth0"
return_addresses = ["10.0.0.9"]

[[listener]]
bind = "10.0.0.100:80"
protocol = "tcp"
forward = "nat"
service = "web"

[service.web]
fin_timeout = "15s"

[[service.web.group]]
servers = ["10.0.0.1:80", { address = "10.0.0.2:80", mac = "02:00:00:00:00:02" }]
"#;

fn parse(text: &str) -> Loaded {
    parse_with("forward.toml", text, &LocalOnly).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// The line and the words of every error, or of every warning where there is no error.
fn told(text: &str) -> Vec<(usize, String)> {
    let found = match parse_with("forward.toml", text, &LocalOnly) {
        Ok(loaded) => loaded.warnings,
        Err(errors) => errors.errors().to_vec(),
    };
    found.iter().map(|one| (one.line(), format!("{one}; {}", one.help_text()))).collect()
}

#[test]
fn a_listener_with_forward_is_none_of_the_proxy() {
    let loaded = parse(RIGHT);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let fleet = loaded.fleet;
    assert!(fleet.listeners.is_empty());
    let return_addresses = vec!["10.0.0.9".parse().unwrap()];
    let datapath = Datapath { return_addresses, ..Datapath::on("eth0".to_owned()) };
    let address = "10.0.0.100:80".parse().unwrap();
    let frontend = Frontend { address, protocol: Protocol::Tcp, method: Method::Nat, service: 0 };
    let frontends = vec![frontend];
    let expected = Forwarding { datapath: Some(datapath), frontends, standby: None };
    assert_eq!(fleet.forwarding, expected);
    let times = fleet.services[0].flow_times;
    assert_eq!((times.fin, times.stale), (Duration::from_secs(15), Duration::from_secs(300)));
    let links: Vec<_> = fleet.services[0].groups[0].servers.iter().map(|it| it.link).collect();
    assert_eq!(links, [None, Some([2, 0, 0, 0, 0, 2])]);
    assert!(describe(&fleet).starts_with("10.0.0.100:80: tcp packets go to web by nat\n"));
}

#[test]
fn a_forwarded_service_in_maintenance_is_said_to_drop_connections_and_not_to_answer_503() {
    let stopped = RIGHT.replace("fin_timeout = \"15s\"", "maintenance = { enabled = true }");
    let words = describe(&parse(&stopped).fleet);
    assert!(words.contains("in maintenance: new connections are dropped"), "{words}");
    assert!(!words.contains("503"), "{words}");
}

#[test]
fn one_file_has_the_same_service_by_the_proxy_and_by_packets() {
    let more = "[[listener]]\nbind = \"10.0.0.100:8080\"\nservice = \"web\"\n\
        [[listener]]\nbind = \"10.0.0.100:80\"\nprotocol = \"udp\"\nforward = \"mac\"\n\
        service = \"web\"\n[service.web]";
    let loaded = parse(
        &RIGHT.replace("[service.web]", more).replace("eth0\"", "e0\"\nxdp_mode = \"generic\""),
    );
    assert_eq!(loaded.fleet.listeners.len(), 1);
    let ways = loaded.fleet.forwarding.frontends.iter().map(|it| (it.protocol, it.method));
    let expected = [(Protocol::Tcp, Method::Nat), (Protocol::Udp, Method::Mac)];
    assert_eq!(ways.collect::<Vec<_>>(), expected);
    assert_eq!(loaded.fleet.forwarding.datapath.unwrap().mode, XdpMode::Generic);
}

#[test]
fn what_needs_connections_of_ours_has_no_effect_where_packets_are_forwarded() {
    for key in [
        "retry = { attempts = 1 }",
        "timeouts = { connect = \"1s\" }",
        "ejection = false",
        "when_full = \"shed\"",
        "send_proxy = \"v1\"",
    ] {
        let text = RIGHT.replace("[service.web]", &format!("[service.web]\n{key}"));
        let told = told(&text);
        let [(line, said)] = told.as_slice() else { panic!("{key}: {told:?}") };
        assert!(*line == 12 && said.contains("whose packets are forwarded"), "{key}: {said}");
        let proxied = "[[listener]]\nbind = \":8080\"\nprotocol = \"tcp\"\nservice = \"web\"\n";
        assert_eq!(
            self::told(&text.replace("[service.web]", &format!("{proxied}[service.web]"))),
            []
        );
    }
}

#[test]
fn what_checks_are_made_by_has_an_effect_where_packets_are_forwarded() {
    for keys in [
        "http_version = \"2\"\nhealth = { grpc = true }",
        "http_version = \"2\"\nhealth = { http = \"/healthz\" }",
        "send_proxy = \"v1\"\nhealth = { tcp = true }",
    ] {
        let text = RIGHT.replace("[service.web]", &format!("[service.web]\n{keys}"));
        assert_eq!(told(&text), [], "{keys}");
    }
}

#[test]
fn a_slow_start_and_the_time_of_clients_have_an_effect_where_packets_are_forwarded() {
    for keys in [
        "slow_start = \"10s\"\npolicy = \"lowest-latency\"",
        "sticky = { hash = \"client-address\", time = \"10m\" }",
    ] {
        let text = RIGHT.replace("[service.web]", &format!("[service.web]\n{keys}"));
        assert_eq!(told(&text), [], "{keys}");
    }
}

#[test]
fn what_reads_bytes_needs_the_proxy() {
    let keys = [
        "routes = [{ path = \"/\", service = \"web\" }]",
        "names = [{ name = \"a.example\", service = \"web\" }]",
        "tls = { certificates = [\"a.pem\"] }",
    ];
    for key in keys {
        let found =
            told(&RIGHT.replace("service = \"web\"\n", &format!("service = \"web\"\n{key}\n")));
        let [(10, words)] = found.as_slice() else { panic!("{key}: {found:?}") };
        assert!(words.contains("a rule on the first bytes needs the proxy"), "{words}");
    }
    for key in [
        "accept_proxy = true",
        "max_connections = 5",
        "http2 = {}",
        "forwarded = \"off\"",
        "trusted_proxies = \"10.0.0.1\"",
        "underscore_headers = \"keep\"",
    ] {
        let found =
            told(&RIGHT.replace("service = \"web\"\n", &format!("service = \"web\"\n{key}\n")));
        let [(10, words)] = found.as_slice() else { panic!("{key}: {found:?}") };
        assert!(words.contains("connections are the servers' own"), "{words}");
    }
    for protocol in ["http", "https", "tls", "tls-passthrough"] {
        let found = told(&RIGHT.replace("\"tcp\"", &format!("\"{protocol}\"")));
        let [(7, words)] = found.as_slice() else { panic!("{protocol}: {found:?}") };
        assert!(words.contains("read by the proxy alone"), "{words}");
    }
}

#[test]
fn what_does_not_go_together_is_told_at_its_place() {
    let cases = [
        ("interface = \"eth0\"\n", "", 1, "without `interface`"),
        ("\"eth0\"", "\"eth 0\"", 2, "not the name of an interface"),
        ("[\"10.0.0.9\"]", "[\"10.0.0.9:80\"]", 3, "not the address of a host"),
        ("[\"10.0.0.9\"]", "[\"10.0.0.9\", \"10.0.0.9\"]", 3, "is named above"),
        ("[\"10.0.0.9\"]", "[\"fd00::9\"]", 8, "without a return address of IPv4"),
        ("[\"10.0.0.9\"]", "[\"10.0.0.9\"]\nfirst_port = 65000\nports = 600", 5, "at most 536"),
        ("\"10.0.0.100:80\"", "\":80\"", 6, "leaves open where packets go"),
        ("\"10.0.0.100:80\"", "\"10.0.0.100:0\"", 6, "leaves open where packets go"),
        ("\"10.0.0.100:80\"", "\"127.0.0.1:80\"", 6, "no packets come in to `127.0.0.1`"),
        ("\"10.0.0.100:80\"", "\"224.0.0.1:80\"", 6, "no packets come in to `224.0.0.1`"),
        ("\"10.0.0.100:80\"", "\"255.255.255.255:80\"", 6, "no packets come in to"),
        ("\"10.0.0.100:80\"", "\"10.0.0.9:80\"", 6, "is in `return_addresses` as well"),
        ("\"10.0.0.100:80\"", "\"10.0.0.2:8080\"", 6, "is the address of a server of `web`"),
        ("[\"10.0.0.9\"]", "[\"10.0.0.2\"]", 6, "`10.0.0.2` in `return_addresses` is a server"),
        ("[\"10.0.0.9\"]", "[\"127.0.0.1\"]", 3, "not the address of a host"),
        (
            "return_addresses = [\"10.0.0.9\"]\n\n[[listener]]\nbind = \"10.0.0.100:80\"\n\
             protocol = \"tcp\"\nforward = \"nat\"",
            "tunnel_addresses = [\"10.0.0.100\"]\n[[listener]]\nbind = \"10.0.0.100:80\"\n\
             protocol = \"tcp\"\nforward = \"ipip\"",
            5,
            "is in `tunnel_addresses` as well",
        ),
        (
            "\"nat\"",
            "\"mac\"\nservice = \"web\"\n[[listener]]\nbind = \"10.0.0.100:80\"\n\
             protocol = \"tcp\"",
            11,
            "is bound by a listener above",
        ),
        ("\"nat\"", "\"dsr\"", 8, "not a forwarding method"),
        ("\"nat\"", "\"proxy\"", 1, "no listener with `forward`"),
        ("100:80\"", "100:8080\"\nforward = \"mac\"", 6, "port 8080 here"),
        ("\"web\"", "\"wob\"", 9, "no service `wob`"),
        ("02:00:00:00:00:02", "02:00:00:00:00", 15, "not a link address"),
        (
            "fin_timeout",
            "sticky = { cookie = \"lb\", key = \"0123456789abcdef\" }\nfin_timeout",
            9,
            "by what `nat` does not read",
        ),
        ("servers =", "max_rate = \"5/s\"\nservers =", 9, "which `nat` does not keep"),
    ];
    for (right, slip, line, words) in cases {
        let slipped = RIGHT.replacen(right, slip, 1);
        let slipped = match slip.contains("forward = \"mac\"") {
            true => slipped.replace("forward = \"nat\"\n", ""),
            false => slipped,
        };
        let found = told(&slipped);
        let fits = |(at, said): &(usize, String)| *at == line && said.contains(words);
        assert!(found.iter().any(fits), "{slip}: {found:?}");
    }
    let without = told(&RIGHT.replace("[l4]\ninterface = \"eth0\"\nreturn_addresses", "# "));
    assert!(without[0].0 == 6 && without[0].1.contains("without `[l4]`"), "{without:?}");
}

#[test]
fn one_slip_in_the_table_of_forwarding_is_one_error() {
    for (right, slip, line) in [
        ("\"eth0\"", "\"eth 0\"", 2),
        ("interface = \"eth0\"\n", "", 1),
        ("[\"10.0.0.9\"]", "[\"10.0.0.9:80\"]", 3),
    ] {
        let found = told(&RIGHT.replacen(right, slip, 1));
        assert!(found.len() == 1 && found[0].0 == line, "{slip}: {found:?}");
    }
}

#[test]
fn a_missing_return_address_is_shown_in_the_family_of_its_listener() {
    let v6 = RIGHT
        .replace("\"10.0.0.100:80\"", "\"[fd00::100]:80\"")
        .replace("\"10.0.0.1:80\", {", "\"[fd00::1]:80\", {");
    let found = told(&v6);
    let [(8, words)] = found.as_slice() else { panic!("{found:?}") };
    assert!(words.contains("return_addresses = [\"fd00::9\"]"), "{words}");
    let v4 = told(&RIGHT.replace("[\"10.0.0.9\"]", "[\"fd00::9\"]"));
    assert!(v4[0].1.contains("return_addresses = [\"10.0.0.9\"]"), "{v4:?}");
}

#[test]
fn more_services_or_addresses_than_the_tables_have_room_for_are_refused() {
    let mac = "[[listener]]\nbind = \"10.0.0.100:80\"\nprotocol = \"udp\"\nforward = \"mac\"\n\
        service = \"web\"\n[service.web]";
    let two = RIGHT.replace("[service.web]", mac);
    assert_eq!(told(&two), []);
    let found = told(&two.replacen("\n[[listener]]", "max_services = 1\n[[listener]]", 1));
    let [(4, words)] = found.as_slice() else { panic!("{found:?}") };
    assert!(words.contains("write max_services = 2"), "{words}");

    // With the service address itself, and the one of responses.
    let ports = |count: u32| {
        let binds: Vec<String> = (1..=count).map(|port| format!("\"10.0.0.100:{port}\"")).collect();
        RIGHT.replace("\"10.0.0.100:80\"", &format!("[{}]", binds.join(", ")))
    };
    assert_eq!(told(&ports(1_022)), []);
    let found = told(&ports(1_023));
    let [(1, words)] = found.as_slice() else { panic!("{found:?}") };
    assert!(words.contains("write max_services = 129"), "{words}");
    let more = ports(1_023).replace("\n[[listener]]", "max_services = 129\n[[listener]]");
    assert_eq!(told(&more), []);
}

#[test]
fn more_servers_than_the_tables_have_room_for_are_refused() {
    let with = |count: u32| {
        let servers: Vec<String> =
            (1..=count).map(|host| format!("\"10.0.1.{host}:80\"")).collect();
        RIGHT.replace("\"10.0.0.1:80\", {", &format!("{}, {{", servers.join(", ")))
    };
    let also_mac = |text: &str| {
        let mac = "[[listener]]\nbind = \"10.0.0.100:80\"\nprotocol = \"udp\"\n\
            forward = \"mac\"\nservice = \"web\"\n[service.web]";
        text.replace("[service.web]", mac)
    };
    assert_eq!(told(&with(63)), []);
    let found = told(&with(64));
    let [(1, words)] = found.as_slice() else { panic!("{found:?}") };
    assert!(words.contains("65 servers with `nat`; write max_nat_servers = 65"), "{words}");

    let limited = |key: &str, text: &str| text.replacen("\n[[", &format!("{key}\n[["), 1);
    assert_eq!(told(&limited("max_servers = 20", &also_mac(&with(9)))), []);
    let found = told(&limited("max_servers = 19", &also_mac(&with(9))));
    let [(4, words)] = found.as_slice() else { panic!("{found:?}") };
    assert!(words.contains("20 servers whose packets") && words.contains("max_servers = 20"));

    // Of `mac` in both families, each server counts for its own.
    let both = also_mac(&with(9)).replace(
        "bind = \"10.0.0.100:80\"\nprotocol = \"udp\"",
        "bind = [\"10.0.0.100:80\", \"[fd00::100]:80\"]\nprotocol = \"udp\"",
    );
    let both = both.replace("\"10.0.1.1:80\"", "\"10.0.1.1:80\", \"[fd00::1:1]:80\"");
    assert_eq!(told(&limited("max_servers = 21", &both)), []);
}

#[test]
fn packets_keep_their_family() {
    let v6 = RIGHT
        .replace("\"10.0.0.100:80\"", "\"[fd00::100]:80\"")
        .replace("0.9\"", "0.9\", \"fd00::9\"");
    let found = told(&v6);
    assert!(found.len() == 1 && found[0].1.contains("no server of IPv6"), "{found:?}");
}

/// A service for datagrams whose servers are given as they are.
fn datagrams(servers: &str) -> String {
    RIGHT.replace("\"tcp\"", "\"udp\"").replace(
        "\"10.0.0.1:80\", { address = \"10.0.0.2:80\", mac = \"02:00:00:00:00:02\" }",
        servers,
    )
}

#[test]
fn servers_are_known_by_a_number_of_their_own_in_ids_of_quic_or_none_is() {
    let server =
        |host: u8, id: u16| format!("{{ address = \"10.0.0.{host}:80\", quic_server_id = {id} }}");
    let two = |first: u16, second: u16| format!("{}, {}", server(1, first), server(2, second));
    let fleet = parse(&format!("[edge]\nquic_server_id = 65535\n{}", datagrams(&two(7, 8)))).fleet;
    assert_eq!(fleet.edge.quic_server_id, Some(65_535));
    let ids = fleet.services[0].groups[0].servers.iter().map(|it| it.quic_server_id);
    assert_eq!(ids.collect::<Vec<_>>(), [Some(7), Some(8)]);

    let same = told(&datagrams(&two(7, 7)));
    let expected = "quic_server_id = 7 at 10.0.0.1:80 and at 10.0.0.2:80";
    assert!(same[0].0 == 6 && same[0].1.contains(expected), "{same:?}");
    let some = told(&datagrams(&format!("{}, \"10.0.0.2:80\"", server(1, 7))));
    let expected = "no quic_server_id at 10.0.0.2:80, but at other servers";
    assert!(some[0].0 == 6 && some[0].1.contains(expected), "{some:?}");
    let tcp = RIGHT.replace("\"10.0.0.1:80\", {", &format!("{}, {{", server(1, 7)));
    assert!(told(&tcp).is_empty(), "connections of TCP have no ids");
    assert!(!told(&datagrams(&two(0, 8))).is_empty());
}
