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
