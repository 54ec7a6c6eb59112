//! What the peer tells of the client, and what of a request the proxy refuses by its head.

use std::net::{IpAddr, SocketAddr};

use loadline_core::{
    fleet::{Forwarded, Listener, UnderscoreHeaders},
    rules::{
        Matched,
        client::{Trail, client_address, client_scheme, is_trusted},
    },
};

use super::{Answer, Question};

/// The client and the scheme, where the peer is trusted by what it says of them.
pub(super) fn client(
    listener: &Listener,
    question: &Question,
    headers: &[(&str, &str)],
) -> (IpAddr, &'static str) {
    let own = if question.is_secure { "https" } else { "http" };
    let trusted = &listener.trusted_proxies;
    if !is_trusted(question.client, trusted) {
        return (question.client, own);
    }
    let peer = SocketAddr::new(question.client, 0);
    let values = |wanted: &'static str| {
        let named = headers.iter().filter(move |field| field.0.eq_ignore_ascii_case(wanted));
        named.map(|field| field.1.as_bytes())
    };
    let told = |x_forwarded: &'static str| {
        let mut trails = [(Trail::XForwardedFor, x_forwarded), (Trail::Forwarded, "Forwarded")];
        if listener.forwarded == Forwarded::Rfc7239 {
            trails.reverse();
        }
        trails.into_iter().find(|trail| values(trail.1).next().is_some())
    };
    let address = told("X-Forwarded-For")
        .map_or(peer, |(trail, name)| client_address(peer, trusted, trail, values(name)));
    let scheme = told("X-Forwarded-Proto")
        .and_then(|(trail, name)| client_scheme(peer, trusted, trail, values(name)));
    (address.ip(), scheme.unwrap_or(own))
}

/// The headers as routes see them.
pub(super) fn headers<'q>(listener: &Listener, question: &'q Question) -> Vec<(&'q str, &'q str)> {
    let dropped = listener.underscore_headers == UnderscoreHeaders::Drop;
    let given = question.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let seen = given.filter(|(name, _)| !(dropped && name.contains('_')));
    [("Host", question.authority.as_str())].into_iter().chain(seen).collect()
}

/// The response to a request that is refused for the name of a header.
pub(super) fn refused_name(listener: &Listener, question: &Question) -> Option<Answer> {
    if listener.underscore_headers != UnderscoreHeaders::Refuse {
        return None;
    }
    let (name, _) = question.headers.iter().find(|(name, _)| name.contains('_'))?;
    let why = format!("the name of the header {name} has an underscore (underscore_headers)");
    Some(Answer::Refused { status: 400, why })
}

/// The response to a request whose body is too long by its Content-Length.
pub(super) fn too_long(
    listener: &Listener,
    matched: Option<Matched<'_>>,
    headers: &[(&str, &str)],
) -> Option<Answer> {
    let most = matched.and_then(|it| it.rule.max_body).or(listener.max_body)?;
    let (_, length) = headers.iter().find(|it| it.0.eq_ignore_ascii_case("content-length"))?;
    let length: u64 = length.parse().ok()?;
    let why = format!("the body is longer than max_body, {most}");
    (length > most.get()).then_some(Answer::Refused { status: 413, why })
}
