//! CORS: which pages see the responses that no server gives.

use std::sync::Arc;

use loadline_core::{
    fleet::Maintenance,
    rules::{
        Action, Authentication, BasicAuth, Cors, DirectResponse, ForwardAuth, LimitKey, Origin,
        PasswordHash, RateLimit, Rule, Split, Template,
    },
    time::Duration,
    units::{Bytes, Rate},
};

use crate::{
    ports::reserved,
    support::{Proxy, answer, rule, under},
};

const VERSIONS: [&str; 2] = ["--http1.1", "--http2-prior-knowledge"];

const PAGE: [&str; 2] = ["-H", "Origin: https://app.test"];

fn shared(path: &str, action: Action) -> Rule {
    let cors = Cors {
        origins: vec![Origin::parse("https://app.test").unwrap()],
        methods: vec![],
        headers: None,
        exposed: vec!["Retry-After".into()],
        credentials: true,
        max_age: Duration::from_secs(5),
    };
    Rule { cors: Some(cors), ..rule(under(path), action) }
}

/// Routes whose requests get a response that no server gives, and its status.
fn refusing() -> Vec<(&'static str, Rule)> {
    let service = |path: &str| shared(path, Action::Service(Split::all(0)));
    let hash = PasswordHash::parse("$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5");
    let users = [("alice".to_owned(), hash.unwrap())].into();
    let basic = BasicAuth { realm: "staff".into(), users, pass_authorization: false };
    let by = LimitKey::Client;
    let limit = RateLimit { rate: Rate::milli_per_sec(1), burst: 1, by, keys: 64 };
    let says_itself = |name: &str| (name.to_owned(), Template::literal("https://other.test"));
    let denied = DirectResponse {
        headers: vec![says_itself("Access-Control-Allow-Origin")],
        ..answer(403, "no")
    };
    let asking = Authentication::Forward(Arc::new(ForwardAuth::new(1)));
    vec![
        (
            "401",
            Rule {
                authentication: Some(Authentication::Basic(Arc::new(basic))),
                ..service("/basic")
            },
        ),
        ("503", Rule { authentication: Some(asking), ..service("/asked") }),
        ("502", shared("/away", Action::Service(Split::all(1)))),
        ("403", shared("/denied", Action::Respond(denied))),
        ("413", Rule { max_body: Some(Bytes::new(1)), ..service("/long") }),
        ("429", Rule { limit: Some(limit), ..service("/limited") }),
    ]
}

#[test]
fn a_page_sees_the_refusals_of_a_route_as_it_sees_the_responses_of_its_servers() {
    let away = reserved();
    for version in VERSIONS {
        let rules = refusing().into_iter().map(|(_, rule)| rule).collect();
        let proxy = Proxy::beside(rules, away, |_| ());
        proxy.curl(&[version], "/limited");
        for (status, path) in [
            ("401", "/basic"),
            ("503", "/asked"),
            ("502", "/away"),
            ("403", "/denied"),
            ("413", "/long"),
            ("429", "/limited"),
        ] {
            let told = proxy.curl(&[&[version, "-d", "body"], &PAGE[..]].concat(), path);
            let names = told.to_ascii_lowercase();
            assert!(names.contains(&format!(" {status}")), "{version} {path}: {told}");
            for line in [
                "access-control-allow-origin: https://app.test\r\n",
                "access-control-allow-credentials: true\r\n",
                "access-control-expose-headers: retry-after\r\n",
                "vary: origin\r\n",
            ] {
                assert_eq!(names.matches(line).count(), 1, "{version} {path}: {told}");
            }
            assert_eq!(names.matches("-allow-origin").count(), 1, "{version} {path}: {told}");
        }
        let stranger = proxy.curl(&[version, "-H", "Origin: https://other.test"], "/denied");
        assert!(!stranger.to_ascii_lowercase().contains("access-control"), "{stranger}");
        let own = proxy.curl(&[version, "-d", "body"], "/long");
        let own = own.to_ascii_lowercase();
        assert!(own.contains(" 413") && !own.contains("access-control"), "{own}");
    }
}

#[test]
fn a_page_sees_that_its_service_is_in_maintenance() {
    let away = reserved();
    let rules = vec![shared("/", Action::Service(Split::all(0)))];
    let proxy = Proxy::beside(rules, away, |fleet| {
        fleet.services[0].maintenance =
            Some(Maintenance { enabled: true, ..Maintenance::default() });
    });
    let told = proxy.curl(&PAGE, "/");
    assert!(told.contains(" 503"), "{told}");
    assert!(told.contains("Access-Control-Allow-Origin: https://app.test\r\n"), "{told}");
}

#[test]
fn what_a_page_of_the_same_origin_leaves_in_a_browsers_cache_is_good_for_pages_of_others() {
    let away = reserved();
    let gone = Action::Respond(answer(410, "gone"));
    let for_all = |mut rule: Rule| {
        let cors = rule.cors.as_mut().unwrap();
        (cors.origins, cors.credentials) = (vec![Origin::Any], false);
        rule
    };
    let rules = vec![
        for_all(shared("/all", Action::Service(Split::all(0)))),
        for_all(shared("/gone", gone.clone())),
        shared("/named", gone),
    ];
    let proxy = Proxy::beside(rules, away, |_| ());
    for path in ["/all", "/gone"] {
        for page in [&[][..], &PAGE] {
            let told = proxy.curl(page, path);
            for line in [
                "Access-Control-Allow-Origin: *\r\n",
                "Access-Control-Expose-Headers: Retry-After\r\n",
            ] {
                assert_eq!(told.matches(line).count(), 1, "{path}: {told}");
            }
        }
    }
    let told = proxy.curl(&[], "/named");
    assert!(told.contains("Vary: Origin\r\n") && !told.contains("Access-Control"), "{told}");
}
