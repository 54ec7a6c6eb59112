//! Bearer tokens: whose requests come in, whose do not, and what servers, the log and the cache get
//! to see.

use std::{fs, sync::Arc};

use loadline_core::{
    decide::ending::Ending,
    fleet::{AccessLog, LogFormat, LogTarget},
    jwt::{Jwt, RequiredClaim, TokenPlace},
    rules::{Action, Authentication, DirectResponse, HeaderEdits, Rule, Split, Template},
};

use crate::{
    issuer::Issuer,
    support::{Proxy, answer, rule, under},
};

const VERSIONS: [&str; 2] = ["--http1.1", "--http2-prior-knowledge"];

fn by(jwt: Jwt) -> Option<Authentication> {
    Some(Authentication::Jwt(Arc::new(jwt)))
}

/// A route that asks for a token, and tells the server what it says.
fn guarded(path: &str, jwt: Jwt) -> Rule {
    let set = [("X-User", "<$user>"), ("X-Roles", "$jwt_claim_roles")]
        .map(|(name, value)| (name.to_owned(), Template::read(value).unwrap()));
    Rule {
        authentication: by(jwt),
        request: HeaderEdits { set: set.into(), ..HeaderEdits::default() },
        ..rule(under(path), Action::Service(Split::all(1)))
    }
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

#[test]
fn the_bearer_of_a_token_comes_in_and_the_server_is_told_its_claims_and_none_of_the_clients() {
    let issuer = Issuer::new();
    let proxy = Proxy::of(vec![guarded("/", issuer.jwt())]);
    let field = bearer(&issuer.token(",\"sub\":\"alice\",\"roles\":[\"a\",\"b\"]"));
    for version in VERSIONS {
        for _ in 0..2 {
            let told = proxy.curl(&[version, "-H", &field, "-H", "X-User: eve"], "/x");
            assert!(told.contains(" 200") && told.ends_with("one"), "{version}: {told}");
            assert!(told.contains("X-User: <alice>\r\nX-Roles: a,b\r\n"), "{version}: {told}");
            assert!(told.contains("uthorization: Bearer ") && !told.contains("eve"), "{told}");
        }
    }
    let body = ["-H", &field, "--data-binary", "some text"];
    assert!(proxy.curl(&body, "/x").ends_with("one"));
}

#[test]
fn servers_get_no_token_where_the_file_says_so_and_it_may_be_in_another_header_or_a_cookie() {
    let issuer = Issuer::new();
    let jwt = |place| Jwt { pass_authorization: false, place, ..issuer.jwt() };
    let proxy = Proxy::of(vec![
        guarded("/header", jwt(TokenPlace::Header("X-Token".to_owned()))),
        guarded("/cookie", jwt(TokenPlace::Cookie("session".to_owned()))),
        guarded("/", jwt(TokenPlace::Authorization)),
    ]);
    let token = issuer.token("");
    let told = proxy.curl(&["-H", &bearer(&token)], "/");
    assert!(told.ends_with("one") && !told.contains(&token), "{told}");
    let told = proxy.curl(&["-H", &format!("X-Token: {token}"), "-u", "a:b"], "/header");
    assert!(told.ends_with("one") && !told.contains(&token), "{told}");
    assert!(told.contains("uthorization: Basic "), "what is the server's own: {told}");
    let cookie = format!("a=b; session={token}");
    assert!(proxy.curl(&["-b", &cookie], "/cookie").ends_with("one"));
    for path in ["/header", "/cookie"] {
        assert!(proxy.curl(&["-H", &bearer(&token)], path).contains(" 401"), "{path}");
    }
}

#[test]
fn whoever_shows_nothing_or_something_wrong_gets_401_and_no_server_hears_of_it() {
    let issuer = Issuer::new();
    let proxy = Proxy::of(vec![guarded("/", issuer.jwt())]);
    let right = issuer.token("");
    let mut asked = 0;
    for (fields, error) in [
        (vec![], None),
        (vec!["Authorization: Basic YTpi".to_owned()], None),
        (vec![bearer("a.b.c")], Some("the token is malformed")),
        (vec![bearer(&Issuer::new().token(""))], Some("the signature of the token is wrong")),
        (vec![bearer(&issuer.signed("{\"exp\":1,\"iss\":\"us\"}"))], Some("the token has expired")),
        (vec![bearer(&issuer.signed("{\"iss\":\"us\"}"))], Some("the token has no end")),
        (vec![bearer(&issuer.signed("{\"exp\":9e15}"))], Some("the token is of another issuer")),
        (vec![bearer(&right), bearer(&right)], Some("more than one token")),
    ] {
        let fields: Vec<&str> = fields.iter().flat_map(|field| ["-H", field.as_str()]).collect();
        for version in VERSIONS {
            let told = proxy.curl(&[&[version], &*fields].concat(), "/");
            let told = told.to_ascii_lowercase();
            assert!(told.contains(" 401"), "{version}: {told}");
            let challenge = match error {
                None => "www-authenticate: bearer realm=\"api\"\r\n".to_owned(),
                Some(error) => format!(
                    "www-authenticate: bearer realm=\"api\", error=\"invalid_token\", \
                     error_description=\"{error}\"\r\n"
                ),
            };
            assert!(told.contains(&challenge), "{version}, {error:?}: {told}");
            asked += 1;
        }
    }
    proxy.counts(Ending::Unauthorized, asked);
    assert_eq!(proxy.served(), 0);
}

#[test]
fn a_token_without_the_claims_that_are_needed_gets_403() {
    let issuer = Issuer::new();
    let admin = RequiredClaim { name: "role".to_owned(), values: vec!["admin".to_owned()] };
    let proxy = Proxy::of(vec![guarded("/", Jwt { claims: vec![admin], ..issuer.jwt() })]);
    let told = proxy.curl(&["-H", &bearer(&issuer.token(",\"role\":\"user\""))], "/");
    assert!(told.contains(" 403") && told.contains("error=\"insufficient_scope\""), "{told}");
    let told = proxy.curl(&["-H", &bearer(&issuer.token(",\"role\":[\"user\",\"admin\"]"))], "/");
    assert!(told.ends_with("one"), "{told}");
    assert_eq!((proxy.count(Ending::Unauthorized), proxy.served()), (1, 1));
}

#[test]
fn a_listener_asks_for_a_token_but_on_routes_that_let_everybody_in_and_the_log_names_the_subject() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let issuer = Issuer::new();
    let open = rule(under("/open"), Action::Respond(answer(200, "open")));
    let own = "127.0.0.1:9".parse().unwrap();
    let proxy = Proxy::beside(vec![open], own, |fleet| {
        fleet.listeners[0].authentication = by(issuer.jwt());
        let to = LogTarget::File(path.display().to_string());
        fleet.edge.access_log =
            Some(AccessLog { format: LogFormat::Combined, ..AccessLog::to(to) });
    });
    assert!(proxy.get("/open").ends_with("open"));
    assert!(proxy.get("/").starts_with("HTTP/1.1 401"));
    let token = issuer.token(",\"sub\":\"alice\"");
    assert!(proxy.curl(&["-H", &bearer(&token)], "/").ends_with("zero"));
    proxy.stop();
    let log = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert!(
        lines[1].starts_with("127.0.0.1 - - [") && lines[1].contains(" unauthorized "),
        "{log}"
    );
    assert!(lines[2].starts_with("127.0.0.1 - alice ["), "{log}");
}

#[test]
fn a_claim_that_would_end_a_header_is_left_out_of_it() {
    let issuer = Issuer::new();
    let proxy = Proxy::of(vec![guarded("/", issuer.jwt())]);
    let token = issuer.token(",\"sub\":\"a\\r\\nX-Admin: 1\",\"roles\":\"b\"");
    let told = proxy.curl(&["-H", &bearer(&token)], "/");
    assert!(told.contains("X-User: <>\r\nX-Roles: b\r\n") && !told.contains("X-Admin"), "{told}");
}

#[test]
fn a_response_of_the_route_itself_needs_a_token_too() {
    let issuer = Issuer::new();
    let fixed = DirectResponse {
        headers: vec![("X-Sub".to_owned(), Template::read("$jwt_claim_sub").unwrap())],
        ..answer(200, "fixed")
    };
    let fixed = rule(under("/"), Action::Respond(fixed));
    let proxy = Proxy::of(vec![Rule { authentication: by(issuer.jwt()), ..fixed }]);
    assert!(proxy.get("/").starts_with("HTTP/1.1 401"));
    let told = proxy.curl(&["-H", &bearer(&issuer.token(",\"sub\":\"bob\""))], "/");
    assert!(told.contains("X-Sub: bob\r\n") && told.ends_with("fixed"), "{told}");
}
