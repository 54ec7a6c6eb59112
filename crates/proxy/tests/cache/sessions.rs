//! Sessions that a cookie keeps on one server, on a route that caches.

use loadline_core::fleet::{Cookie, SameSite, Secret, Server, Sticky};

use crate::support::{Origin, Proxy, body, field, fleet, response};

/// Two servers, each of which answers with its name, and with these fields.
fn sessions(fields: &str) -> (Proxy, [Origin; 2]) {
    let origins = ["one", "two"].map(|name| Origin::answering(response(fields, name)));
    let mut fleet = fleet(origins[0].address);
    fleet.services[0].groups[0].servers.push(Server::at(origins[1].address));
    fleet.services[0].sticky = Some(Sticky::Cookie(Cookie {
        name: "lb".into(),
        key: Secret::new("0123456789abcdef".into()),
        ttl: None,
        path: "/".into(),
        secure: false,
        same_site: SameSite::Lax,
    }));
    (Proxy::of(fleet), origins)
}

#[test]
fn a_client_whose_responses_may_not_be_stored_stays_on_its_server() {
    for fields in ["Cache-Control: private\r\n", "Cache-Control: no-store\r\n"] {
        let (proxy, _origins) = sessions(fields);
        let first = proxy.get("/login", "");
        let cookie = field(&first, "set-cookie").expect("a session").split(';').next().unwrap();
        for number in 0..20 {
            let next = proxy.get(&format!("/{number}"), &format!("Cookie: {cookie}\r\n"));
            assert_eq!(body(&next), body(&first), "{next}");
            assert_eq!(field(&next, "set-cookie"), None, "{next}");
        }
    }
}

#[test]
fn what_is_for_everybody_puts_nobody_on_a_server() {
    let (proxy, _origins) = sessions("Cache-Control: max-age=60\r\n");
    for _ in 0..2 {
        let public = proxy.get("/a", "");
        assert_eq!(field(&public, "set-cookie"), None, "{public}");
    }
}
