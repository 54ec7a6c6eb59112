//! `acme` of a listener's TLS: names, authorities, and what does not go together.

use loadline_control::parse;
use loadline_core::fleet::acme::{Acme, Challenge, Storage};

/// A file whose listener says this, with `more` behind it.
fn file(listener: &str, more: &str) -> String {
    format!(
        "[[listener]]\nbind = \":8443\"\nservice = \"web\"\n{listener}\n{more}\n\
         [[service.web.group]]\nservers = [\"10.0.0.1:80\"]\n"
    )
}

fn https(acme: &str) -> String {
    format!("protocol = \"https\"\ntls = {{ acme = {acme} }}")
}

fn read(listener: &str, more: &str) -> Acme {
    let loaded = parse("acme.toml", &file(listener, more)).expect("it is right");
    loaded.fleet.listeners[0].tls.clone().and_then(|tls| tls.acme).expect("it has `acme`")
}

#[test]
fn an_email_address_will_do_where_routes_name_hosts() {
    let routes = "routes = [{ host = [\"a.test\", \"*.b.test\"], service = \"web\" }, \
                  { host = \"a.test\", path = \"/x\", service = \"web\" }, \
                  { host = \"C.test\", service = \"web\" }]";
    let listener = format!("{}\n{routes}", https("\"you@example.com\""));
    let acme = read(&listener, "");
    let mut names = acme.names.clone();
    names.sort();
    assert_eq!(names, ["a.test", "c.test"]);
    assert_eq!(acme.issuer.email.as_deref(), Some("you@example.com"));
    assert_eq!(acme.issuer.directory, "https://acme-v02.api.letsencrypt.org/directory");
    assert_eq!(acme.issuer.challenge, Challenge::TlsAlpn01, "nothing is taken in clear");
    let in_clear = "[[listener]]\nbind = \":80\"\nservice = \"web\"";
    assert_eq!(read(&listener, in_clear).issuer.challenge, Challenge::Http01);
}

#[test]
fn http_01_that_nobody_chose_is_warned_of_without_a_listener_on_port_80() {
    let warnings = |challenge: &str, bind: &str| {
        let in_clear = format!("[[listener]]\nbind = {bind}\nservice = \"web\"");
        let acme = https(&format!("{{ names = [\"a.test\"]{challenge} }}"));
        parse("acme.toml", &file(&acme, &in_clear)).expect("it is right").warnings
    };
    let told = warnings("", "\":8080\"");
    assert!(told.iter().any(|it| it.message().contains("on port 80")), "{told:?}");
    for (challenge, bind) in [
        ("", "\":80\""),
        ("", "[\":8080\", \":80\"]"),
        (", challenge = \"http-01\"", "\":8080\""),
        (", challenge = \"tls-alpn-01\"", "\":8080\""),
    ] {
        let told = warnings(challenge, bind);
        assert!(!told.iter().any(|it| it.message().contains("on port 80")), "{bind}: {told:?}");
    }
}

#[test]
fn staging_and_other_authorities_are_kept_apart() {
    let staging = read(&https("{ names = [\"a.test\"], staging = true }"), "");
    assert!(staging.issuer.directory.contains("staging"));
    let other = read(&https("{ names = [\"A.test\"], directory = \"https://ca.test/dir\" }"), "");
    assert_eq!(other.names, ["a.test"]);
    assert_ne!(other.issuer.folder(), staging.issuer.folder());
}

#[test]
fn edges_of_a_cluster_share_certificates_unless_the_file_says_otherwise() {
    let cluster = "[cluster]\netcd = [\"https://10.0.0.1:2379\"]";
    let of = |acme: &str, more| read(&https(acme), more).issuer.storage;
    assert_eq!(of("{ names = [\"a.test\"] }", ""), Storage::Disk);
    assert_eq!(of("{ names = [\"a.test\"] }", cluster), Storage::Cluster);
    let on_disk = "{ names = [\"a.test\"], storage = \"disk\" }";
    assert_eq!(of(on_disk, cluster), Storage::Disk);
    let two = |storage: &str| {
        let another = format!(
            "{cluster}\n[[listener]]\nbind = \":9443\"\nservice = \"web\"\nprotocol = \"https\"\n\
             tls = {{ acme = {{ names = [\"b.test\"], state_dir = \"/other\"{storage} }} }}"
        );
        parse("acme.toml", &file(&https("{ names = [\"a.test\"] }"), &another))
    };
    let errors = two("").expect_err("the store has one account");
    assert!(errors.errors().iter().any(|it| it.message().contains("told something else")));
    assert!(two(", storage = \"disk\"").is_ok());
}

#[test]
fn what_cannot_be_is_said_at_its_place() {
    let named = |more: &str| https(&format!("{{ names = [\"a.test\"]{more} }}"));
    let another = "[[listener]]\nbind = \":9443\"\nservice = \"web\"\nprotocol = \"https\"\n\
                   tls = { acme = { names = [\"b.test\"], email = \"b@b.test\" } }";
    for (listener, more, message) in [
        (https("\"you\""), "", "no email address"),
        (https("\"you@example.com\""), "", "without a name"),
        (https("{ names = [\"*.a.test\"] }"), "", "is a wildcard"),
        (https("{ names = [\"10.0.0.1\"] }"), "", "is an address"),
        (https("{ names = [\"localhost\"] }"), "", "is no name"),
        (named(", directory = \"http://ca.test\""), "", "no directory of ACME"),
        (named(", directory = \"https://ca.test\", staging = true"), "", "each names an authority"),
        (named(", challenge = \"http-01\""), "", "without a listener that takes HTTP"),
        (named(", challenge = \"dns-01\""), "", "dns-01"),
        (named(", storage = \"cluster\""), "", "of an edge that is alone"),
        (named(", storage = \"etcd\""), "", "etcd"),
        (named(", external_account = { kid = \"k\" }"), "", "needs both"),
        (named(""), another, "told something else"),
        (named("").replace("https", "tls"), "", "without HTTP"),
        ("protocol = \"https\"\ntls = {}".to_owned(), "", "without a certificate"),
    ] {
        let errors = parse("acme.toml", &file(&listener, more)).expect_err(message);
        let found =
            errors.errors().iter().any(|it| it.message().contains(message) && it.line() > 0);
        assert!(found, "{message}: {errors:?}");
    }
}
