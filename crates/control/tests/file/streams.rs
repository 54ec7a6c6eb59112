//! Listeners that speak no HTTP: names, headers, and what does not go together.

use loadline_control::{LocalOnly, parse_with};
use loadline_core::fleet::{Probe, Protocol, ProxyVersion};

/// A file with a listener of these lines and two services.
fn file(listener: &str) -> String {
    format!(
        "[[listener]]\nbind = \":8443\"\nservice = \"a\"\n{listener}\n\
         [service.a]\nsend_proxy = \"v1\"\n[[service.a.group]]\nservers = [\"10.0.0.1:80\"]\n\
         [service.b]\n[[service.b.group]]\nservers = [\"10.0.0.2:80\"]\n"
    )
}

/// The line of the only error or warning, and its words.
fn found(listener: &str) -> (usize, String) {
    found_in(&file(listener))
}

/// The same for a whole file.
fn found_in(text: &str) -> (usize, String) {
    let found = match parse_with("stream.toml", text, &LocalOnly) {
        Ok(loaded) => loaded.warnings,
        Err(errors) => errors.errors().to_vec(),
    };
    let unused = |message: &str| message.contains("no listener names the service `b`");
    let found: Vec<_> = found.into_iter().filter(|it| !unused(it.message())).collect();
    let [one] = found.as_slice() else { panic!("{text}: {found:?}") };
    (one.line(), format!("{one}; {}", one.help_text()))
}

#[test]
fn connections_go_where_the_most_particular_name_says() {
    let listener = "protocol = \"tls-passthrough\"\naccept_proxy = true\n\
        names = [{ name = \"*.Example.com\", service = \"b\" }]";
    let loaded = parse_with("stream.toml", &file(listener), &LocalOnly).unwrap();
    assert!(loaded.warnings.is_empty(), "both services are named: {:?}", loaded.warnings);
    let listener = &loaded.fleet.listeners[0];
    assert_eq!((listener.protocol, listener.accept_proxy), (Protocol::TlsPassthrough, true));
    assert_eq!(listener.names.find("www.example.com"), Some(1));
    assert_eq!(listener.names.find("www.example.org"), None);
    let versions: Vec<_> = loaded.fleet.services.iter().map(|it| it.send_proxy).collect();
    assert_eq!(versions, [Some(ProxyVersion::V1), None]);
}

#[test]
fn what_does_not_go_together_is_told_at_its_place() {
    let named = |name: &str, service: &str| {
        format!(
            "protocol = \"tls-passthrough\"\n\
             names = [{{ name = \"{name}\", service = \"{service}\" }}]"
        )
    };
    let cases = [
        (named("a.example", "c"), 5, "no service `c`"),
        (named("a.example:443", "b"), 5, "not a server name"),
        (named("a.*.example", "b"), 5, "not a server name"),
        (named("", "b"), 5, "not a server name"),
        ("names = [{ name = \"a\", service = \"b\" }]".to_owned(), 4, "tls-passthrough"),
        ("protocol = \"tls-passthrough\"\nnames = [{ name = \"a\" }]".to_owned(), 5, "`service`"),
        ("protocol = \"tls\"".to_owned(), 4, "`tls` without a certificate"),
        ("protocol = \"tcp\"\nlimits = { fields = 5 }".to_owned(), 5, "reads no HTTP"),
        ("protocol = \"tcp\"\nforwarded = \"off\"".to_owned(), 5, "reads no HTTP"),
        ("protocol = \"tcp\"\nmax_body = \"1MB\"".to_owned(), 5, "reads no HTTP"),
        ("protocol = \"tcp\"\ntimeouts = { keep_alive = \"5s\" }".to_owned(), 5, "reads no HTTP"),
        ("protocol = \"tcp\"\ntimeouts = { body_rate = \"2kb/s\" }".to_owned(), 5, "reads no HTTP"),
        ("protocol = \"tcp\"\ntrusted_proxies = \"10.0.0.1\"".to_owned(), 5, "reads no HTTP"),
        ("protocol = \"tcp\"\nunderscore_headers = \"keep\"".to_owned(), 5, "reads no HTTP"),
        ("protocol = \"udp\"".to_owned(), 4, "`udp` without `forward`"),
        ("protocol = \"tcp\"\naccept_proxy = 1".to_owned(), 5, "a boolean"),
        ("protocol = \"tcp\"\ntls = { certificates = [\"a.pem\"] }".to_owned(), 5, "ends no TLS"),
    ];
    for (listener, line, words) in cases {
        let (at, said) = found(&listener);
        assert!(at == line && said.contains(words), "{listener}: line {at}: {said}");
    }
    let (_, said) = found_in(&file("protocol = \"http\"").replace("v1\"", "v1\"\nprewarm = 4"));
    assert!(said.contains("`prewarm` with `send_proxy`"), "{said}");
    let twice = "protocol = \"tls-passthrough\"\nnames = [\n{ name = \"a\", service = \"b\" },\n\
        { name = \"A\", service = \"a\" },\n]";
    let (at, said) = found(twice);
    assert!(at == 7 && said.contains("`a` is named above"), "{at}: {said}");
}

#[test]
fn keys_of_a_service_to_which_no_http_comes_are_told_to_have_no_effect() {
    let of = |protocol: &str, key: &str| {
        format!(
            "[[listener]]\nbind = \":8443\"\nservice = \"a\"\nprotocol = \"{protocol}\"\n\
             [service.a]\npolicy = \"maglev\"\n{key}\n\
             [[service.a.group]]\nservers = [\"10.0.0.1:80\"]\n"
        )
    };
    let by_http = "[[listener]]\nbind = \":8080\"\nservice = \"a\"\n[service.a]";
    for key in [
        "hash = \"path\"",
        "http_version = \"2\"",
        "prewarm = 1",
        "timeouts = { head = \"1s\" }",
        "timeouts = { keep_alive = \"1s\" }",
        "retry = { on = [\"5xx\"] }",
        "ejection = { excess_5xx = \"10%\" }",
        "maintenance = { retry_after = \"1m\" }",
    ] {
        let (line, said) = found_in(&of("tcp", key));
        assert!(line == 7 && said.contains("to which no HTTP comes"), "{key}: {line}: {said}");
        for text in [of("http", key), of("tcp", key).replace("[service.a]", by_http)] {
            let loaded = parse_with("stream.toml", &text, &LocalOnly).unwrap();
            assert!(loaded.warnings.is_empty(), "{text}: {:?}", loaded.warnings);
        }
    }
    let limited = of("tcp", "").replace("servers =", "max_utilization = \"80%\"\nservers =");
    assert!(found_in(&limited).1.contains("`max_utilization` of `a`"));
    for key in ["hash = \"client-address\"", "timeouts = { idle = \"1s\" }", "class = \"high\""] {
        let loaded = parse_with("stream.toml", &of("tcp", key), &LocalOnly).unwrap();
        assert!(loaded.warnings.is_empty(), "{key}: {:?}", loaded.warnings);
    }
}

#[test]
fn keys_of_packets_are_told_to_have_no_effect_where_none_are_forwarded() {
    let (line, said) = found_in(
        "[[listener]]\nbind = \":8443\"\nservice = \"a\"\n[service.a]\nfin_timeout = \"15s\"\n\
         [[service.a.group]]\nservers = [\"10.0.0.1:80\"]\n",
    );
    assert!(line == 5 && said.contains("whose packets nobody forwards"), "{line}: {said}");
    let (line, said) = found_in(
        "[[listener]]\nbind = \":8443\"\nservice = \"a\"\n[service.a]\n\
         [[service.a.group]]\nservers = [{ address = \"10.0.0.1:80\", quic_server_id = 7 }]\n",
    );
    assert!(line == 6 && said.contains("`quic_server_id` of `a`"), "{line}: {said}");
}

#[test]
fn the_time_of_clients_is_told_to_have_no_effect_where_no_packets_are_forwarded() {
    let (line, said) = found_in(
        "[[listener]]\nbind = \":8443\"\nservice = \"a\"\n[service.a]\n\
         sticky = { hash = \"client-address\", time = \"10m\" }\n\
         [[service.a.group]]\nservers = [\"10.0.0.1:80\"]\n",
    );
    assert!(line == 5 && said.contains("`sticky.time` of `a`, whose packets"), "{line}: {said}");
}

#[test]
fn a_slow_start_that_the_policy_does_not_make_is_told_to_have_no_effect() {
    let of = |keys: &str| {
        format!(
            "[[listener]]\nbind = \":8443\"\nservice = \"a\"\n[service.a]\n{keys}\n\
             [[service.a.group]]\nservers = [\"10.0.0.1:80\"]\n"
        )
    };
    for keys in [
        "slow_start = \"10s\"\npolicy = \"maglev\"",
        "slow_start = \"10s\"\npolicy = \"bounded-hash\"",
        "slow_start = \"10s\"\npolicy = \"lowest-latency\"",
        "slow_start = \"10s\"\nsticky = { hash = \"client-address\" }",
        "slow_start = \"10s\"\nsticky = { header = \"X-User\" }",
    ] {
        let (line, said) = found_in(&of(keys));
        assert!(line == 5 && said.starts_with("`slow_start` with "), "{keys}: {line}: {said}");
    }
    for keys in [
        "slow_start = \"0s\"\npolicy = \"maglev\"",
        "slow_start = \"10s\"\npolicy = \"power-of-two\"",
        "slow_start = \"10s\"\nsticky = { cookie = \"lb\", key = \"0123456789abcdef\" }",
    ] {
        let loaded = parse_with("stream.toml", &of(keys), &LocalOnly).unwrap();
        assert!(loaded.warnings.is_empty(), "{keys}: {:?}", loaded.warnings);
    }
}

#[test]
fn a_check_by_grpc_is_for_servers_that_are_asked_in_http() {
    let with = |protocol: &str| {
        format!(
            "[[listener]]\nbind = \":8443\"\nservice = \"a\"\nprotocol = \"{protocol}\"\n\
             [service.a]\nhttp_version = \"2\"\n\
             health = {{ grpc = \"a.B\", host = \"a.test\" }}\n\
             [[service.a.group]]\nservers = [\"10.0.0.1:80\"]\n"
        )
    };
    let loaded = parse_with("stream.toml", &with("http"), &LocalOnly).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let health = loaded.fleet.services[0].health.as_ref().unwrap();
    let (service, host) = ("a.B".to_owned(), Some("a.test".to_owned()));
    assert_eq!(health.probe, Probe::Grpc { service, host });
    let (line, said) = found_in(&with("tcp"));
    assert!(line == 3 && said.contains("gRPC") && said.contains("tcp = true"), "{line}: {said}");
}
