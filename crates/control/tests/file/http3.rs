//! HTTP/3 of a listener, and what its TLS must have for it.

use loadline_control::parse;

fn file(listener: &str, suites: &str) -> String {
    format!(
        "[[listener]]\nbind = \":8443\"\nservice = \"web\"\nprotocol = \"https\"\n{listener}\n\
         tls = {{ certificates = [\"a.pem\"], suites = [{suites}] }}\n\
         [[service.web.group]]\nservers = [\"10.0.0.1:80\"]\n"
    )
}

#[test]
fn http3_that_is_asked_for_and_cannot_be_is_warned_of() {
    let needed = "\"TLS13_AES_128_GCM_SHA256\"";
    for (listener, expected) in [
        ("accept_proxy = true\nhttp3 = true", Some("no HTTP/3 with `accept_proxy`")),
        ("http_version = \"2\"\nhttp3 = true", Some("no HTTP/3 with `http_version`")),
        ("accept_proxy = true", None),
        ("accept_proxy = true\nhttp3 = false", None),
        ("http3 = true", None),
        ("http3 = false\nquic_congestion = \"cubic\"", Some("`quic_congestion` without HTTP/3")),
        ("http_version = \"1.1\"\nhttp2 = {}", Some("`http2` with http_version = \"1.1\"")),
        ("http3 = true\nquic_congestion = \"cubic\"", None),
        ("http_version = \"2\"\nhttp2 = { streams = 10 }", None),
    ] {
        let loaded = parse("http3.toml", &file(listener, needed)).unwrap();
        let told = loaded.warnings.iter().find(|it| it.line() == 6).map(ToString::to_string);
        assert_eq!(told.as_deref(), expected, "{listener}: {:?}", loaded.warnings);
    }
    let clear = "[[listener]]\nbind = \":8080\"\nservice = \"web\"\nhttp3 = true\n\
                 [[service.web.group]]\nservers = [\"10.0.0.1:80\"]\n";
    let warnings = parse("clear.toml", clear).unwrap().warnings;
    assert_eq!(warnings[0].to_string(), "no HTTP/3 without TLS");
}

#[test]
fn http3_at_a_port_of_which_another_listener_has_that_of_udp_is_warned_of() {
    let all = ["127.0.0.1:8443", "[::1]:8443", "0.0.0.0:8443", "[::]:8443", "127.0.0.1:8444"];
    let [v4, v6, all_v4, all_v6, other] = all;
    let listener = |bind: &str, http3: &str| {
        format!(
            "[[listener]]\nbind = \"{bind}\"\nservice = \"web\"\nprotocol = \"https\"\n{http3}\n\
             tls = {{ certificates = [\"a.pem\"] }}\n"
        )
    };
    let service = "[[service.web.group]]\nservers = [\"10.0.0.1:80\"]\n";
    for (first, second, http3, is_warned) in [
        (all_v4, v4, "", true),
        (v4, all_v4, "", true),
        (all_v6, v4, "", true),
        (all_v6, v6, "", true),
        (all_v6, all_v4, "", true),
        (all_v4, v4, "http3 = false", false),
        (all_v4, all_v6, "", false),
        (v4, all_v6, "", false),
        (all_v4, v6, "", false),
        (all_v4, other, "", false),
    ] {
        let text = listener(first, "") + &listener(second, http3) + service;
        let warnings = parse("udp.toml", &text).unwrap().warnings;
        let told = warnings.iter().any(|it| it.message().contains("has its UDP port"));
        assert_eq!(told, is_warned, "{first}, {second}: {warnings:?}");
    }
}

#[test]
fn http_in_clear_at_port_443_is_warned_of() {
    let file = |listener: &str| {
        format!(
            "[[listener]]\n{listener}\nservice = \"web\"\n\
             [[service.web.group]]\nservers = [\"10.0.0.1:80\"]\n"
        )
    };
    for (listener, is_warned) in [
        ("bind = \":443\"", true),
        ("bind = [\":80\", \"[::]:443\"]\nprotocol = \"http\"", true),
        ("bind = \":80\"", false),
        ("bind = \":8443\"", false),
        ("bind = \":443\"\nprotocol = \"tcp\"", false),
        ("bind = \":443\"\nprotocol = \"https\"\ntls = { certificates = [\"a.pem\"] }", false),
    ] {
        let warnings = parse("clear.toml", &file(listener)).unwrap().warnings;
        let told = warnings.iter().any(|it| it.message().contains("at the port of HTTPS"));
        assert_eq!(told, is_warned, "{listener}: {warnings:?}");
    }
}

#[test]
fn suites_that_the_minimum_version_leaves_none_of_are_refused_at_their_place() {
    let of_both = "\"TLS13_AES_128_GCM_SHA256\", \"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\"";
    let old = "\"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\"";
    let of_listener = |suites: &str| {
        let text = file("http3 = false", suites);
        text.replace("suites =", "min_version = \"1.3\", suites =")
    };
    let of_service = |suites: &str| {
        let tls = format!("tls = {{ min_version = \"1.3\", suites = [{suites}] }}");
        let group = "[[service.web.group]]";
        file("", "").replace(group, &format!("[service.web]\n{tls}\n{group}"))
    };
    for text in [of_listener(of_both), of_listener(""), of_service(of_both), of_service("")] {
        assert!(parse("tls.toml", &text).is_ok(), "{text}");
    }
    for text in [of_listener(old), of_service(old)] {
        let errors = parse("tls.toml", &text).expect_err(&text);
        let [error] = errors.errors() else { panic!("{:?}", errors.errors()) };
        assert_eq!(error.message(), "min_version = \"1.3\" with `suites` of TLS 1.2 alone");
        assert!(error.help_text().contains("TLS13_AES_128_GCM_SHA256"), "{}", error.help_text());
        let line = text.lines().nth(error.line() - 1).expect("a line of the file");
        assert!(line[error.column() - 1..].starts_with(&format!("[{old}]")), "{line}");
    }
}

#[test]
fn suites_without_that_of_quic_are_warned_of_where_http3_is_wanted() {
    let (other, needed) = ("\"TLS13_AES_256_GCM_SHA384\"", "\"TLS13_AES_128_GCM_SHA256\"");
    let both = format!("{other}, {needed}");
    for (listener, suites, is_warned) in [
        ("", other, true),
        ("http3 = false", other, false),
        ("http_version = \"2\"", other, false),
        ("", needed, false),
        ("", &both, false),
    ] {
        let loaded = parse("http3.toml", &file(listener, suites)).unwrap();
        let told = loaded.warnings.iter().any(|it| {
            it.line() == 6 && it.to_string().contains("no HTTP/3 without TLS13_AES_128_GCM_SHA256")
        });
        assert_eq!(told, is_warned, "{listener} {suites}: {:?}", loaded.warnings);
    }
}
