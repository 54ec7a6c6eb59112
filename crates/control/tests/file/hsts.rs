//! `hsts` of a listener's TLS: two forms, and what it cannot be.

use loadline_control::parse;

fn file(protocol: &str, hsts: &str, routes: &str) -> String {
    format!(
        "[[listener]]\nbind = \":8443\"\nservice = \"web\"\nprotocol = \"{protocol}\"\n\
         tls = {{ certificates = [\"a.pem\"], hsts = {hsts} }}\nroutes = [{routes}]\n\
         [[service.web.group]]\nservers = [\"10.0.0.1:80\"]\n"
    )
}

#[test]
fn a_time_is_enough_and_a_table_says_more() {
    for (hsts, header) in [
        ("\"365d\"", "max-age=31536000"),
        ("{ max_age = \"0s\" }", "max-age=0"),
        ("{ max_age = \"1h\", include_subdomains = true }", "max-age=3600; includeSubDomains"),
        (
            "{ max_age = \"400d\", include_subdomains = true, preload = true }",
            "max-age=34560000; includeSubDomains; preload",
        ),
    ] {
        let loaded = parse("hsts.toml", &file("https", hsts, "")).unwrap();
        let said = loaded.fleet.listeners[0].tls.as_ref().unwrap().hsts.unwrap().to_string();
        assert_eq!(said, header, "{hsts}");
    }
}

#[test]
fn what_it_cannot_be_is_said_at_its_place() {
    let year = "\"365d\"";
    let set =
        "{ service = \"web\", answer_headers = { set = { strict-transport-security = \"a\" } } }";
    let own = "{ answer = { headers = { Strict-Transport-Security = \"max-age=9\" } } }";
    for (protocol, hsts, routes, line, message) in [
        ("https", "{ preload = true }", "", 5, "without `max_age`"),
        ("https", "{ max_age = \"365d\", preload = true }", "", 5, "not for all names below"),
        ("https", "\"forever\"", "", 5, "`forever` is not a duration"),
        ("https", "\"500ms\"", "", 5, "`500ms` is not in whole seconds"),
        ("https", "{ max_age = \"999ms\" }", "", 5, "`999ms` is not in whole seconds"),
        ("tls", year, "", 5, "does not read HTTP"),
        ("https", year, set, 6, "says this already"),
        ("https", year, own, 6, "says this already"),
    ] {
        let errors = parse("hsts.toml", &file(protocol, hsts, routes)).expect_err(hsts);
        let errors = errors.errors();
        let found = errors.iter().any(|it| it.message().contains(message) && it.line() == line);
        assert!(found, "{hsts} {routes}: {errors:?}");
    }
}
