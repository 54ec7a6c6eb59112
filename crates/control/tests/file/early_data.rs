//! `early_data` of a listener's TLS, and what it does not go together with.

use loadline_control::parse;

fn file(protocol: &str, tls: &str) -> String {
    format!(
        "[[listener]]\nbind = \":8443\"\nservice = \"web\"\nprotocol = \"{protocol}\"\n\
         tls = {{ certificates = [\"a.pem\"]{tls} }}\n\
         [[service.web.group]]\nservers = [\"10.0.0.1:80\"]\n"
    )
}

#[test]
fn it_is_off_unless_it_is_switched_on() {
    for (tls, on) in [("", false), (", early_data = false", false), (", early_data = true", true)] {
        let loaded = parse("tls.toml", &file("https", tls)).unwrap();
        assert_eq!(loaded.fleet.listeners[0].tls.as_ref().unwrap().early_data, on, "{tls}");
    }
}

#[test]
fn it_is_refused_where_the_listener_speaks_no_http3() {
    for key in ["http3 = false", "http_version = \"2\"", "accept_proxy = true"] {
        let with = |tls: &str| {
            let text = file("https", tls);
            parse("tls.toml", &text.replace("protocol =", &format!("{key}\nprotocol =")))
        };
        assert!(with("").is_ok(), "{key}");
        let errors = with(", early_data = true").expect_err(key);
        let message = errors.errors()[0].message();
        assert_eq!(message, "`early_data` on a listener without HTTP/3", "{key}");
    }
}

#[test]
fn what_it_does_not_go_with_is_said_at_its_place() {
    for (protocol, with, message) in [
        ("https", ", client_authorities = \"ca.pem\"", "with `client_authorities`"),
        ("https", ", resumption = false", "without `resumption`"),
        ("tls", "", "without HTTP/3"),
    ] {
        let text = file(protocol, &format!("{with}, early_data = true"));
        let errors = parse("tls.toml", &text).expect_err(message);
        let errors = errors.errors();
        let found = errors.iter().any(|it| it.message().contains(message) && it.line() == 5);
        assert!(found, "{message}: {errors:?}");
    }
}
