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
        ("protocol = \"tls\"".to_owned(), 1, "`tls` without a certificate"),
        ("protocol = \"tcp\"\nlimits = { fields = 5 }".to_owned(), 5, "reads no HTTP"),
        ("protocol = \"tcp\"\nforwarded = \"off\"".to_owned(), 5, "reads no HTTP"),
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
