//! What becomes of one request, by the configuration alone: which listener takes it, which route
//! decides and why none before it did, what is changed, and in which order groups are asked.
//!
//! The decision is that of [`rules::Routes::find`], which the proxy asks too.

mod route;
mod text;
mod told;

use std::net::{IpAddr, SocketAddr};

use loadline_core::{
    fleet::{Fleet, Listener, Protocol, Service},
    rules::{self, Asked, Matched, Variables, normal},
};
use serde::Serialize;

use crate::describe::{Carried, describe_group, in_order};

/// A request that is only thought of.
#[derive(Clone, Debug)]
pub struct Question {
    /// As it would be sent: `GET`.
    pub method: String,
    /// Whether it comes over TLS.
    pub is_secure: bool,
    /// Host, with the port where it is not that of the scheme.
    pub authority: String,
    /// The port it is sent to.
    pub port: u16,
    /// Path and query.
    pub target: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// Who sends it, as the PROXY protocol tells: the client, or a proxy in front, which may tell
    /// of the client in `X-Forwarded-For` or `Forwarded` if it is in `trusted_proxies`.
    pub client: IpAddr,
    /// The listener that takes it; by scheme and port if omitted.
    pub listener: Option<SocketAddr>,
}

/// What becomes of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The request: method, URL, client.
    pub request: String,
    /// The address of the listener.
    pub listener: SocketAddr,
    /// The port of the URL, where the listener has another and is taken as the only one with the
    /// scheme.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_port: Option<u16>,
    /// Routes asked before the deciding one, and why they do not match.
    pub passed: Vec<Passed>,
    /// The route that decides; the listener's own service gets the request if omitted.
    pub route: Option<Route>,
    /// What the client has to show before, if anything.
    pub authentication: Option<Authentication>,
    /// What answers: a service, several by weight, a redirect or a fixed response.
    pub answer: Answer,
}

/// A route that is not for the request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Passed {
    /// Its place in the order in which routes are asked, from 1.
    pub number: usize,
    /// What it is for.
    pub conditions: String,
    /// The first of its conditions that does not hold.
    pub fails: String,
}

/// The route that decides, and what it does beside choosing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Route {
    /// Its place in the order in which routes are asked, from 1.
    pub number: usize,
    /// Number of routes.
    pub of: usize,
    /// What it is for.
    pub conditions: String,
    /// Requests let through for each client, header value or cookie value.
    pub limit: Option<String>,
    /// How much the request matters; as its service says if omitted.
    pub class: Option<String>,
    /// The path that the server sees, where it is another.
    pub path: Option<String>,
    /// Changes of the request's headers.
    pub request_headers: Vec<String>,
    /// Changes of the response's headers.
    pub response_headers: Vec<String>,
    /// Whether the cache may answer.
    pub is_cached: bool,
    /// Where copies go.
    pub mirror: Option<String>,
}

/// Who is let in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Authentication {
    /// `basic auth` or `jwt`.
    pub by: &'static str,
    /// What is required, and what others get.
    pub who: String,
}

/// What answers a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A service; which of several is drawn by weight.
    Services(Vec<Target>),
    /// The client is sent elsewhere.
    Redirect {
        /// 301 to 308.
        status: u16,
        /// Where to.
        location: String,
    },
    /// A response of the route itself.
    Response {
        /// 200 to 599.
        status: u16,
    },
    /// The request breaks a rule of the listener or the route.
    Refused {
        /// 400 or 413.
        status: u16,
        /// Which one.
        why: String,
    },
}

/// A service that may get the request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Target {
    /// Its name in the configuration.
    pub service: String,
    /// Its part of the requests, in proportion to the others'.
    pub weight: u32,
    /// Whether it is in maintenance, and this client is not let in: 503.
    pub is_stopped: bool,
    /// Its groups in the order in which they are filled.
    pub groups: Vec<Group>,
    /// What chooses a server in a group.
    pub policy: String,
    /// What happens where all are full.
    pub when_full: String,
}

/// A group of servers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// Its name within the service.
    pub name: String,
    /// Distance, servers and capacity.
    pub capacity: String,
}

/// No listener takes such a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no listener for HTTP takes {wanted}; there are: {there}")]
pub struct NoListener {
    wanted: String,
    there: String,
}

/// Says what becomes of a request.
///
/// # Errors
/// If no listener for HTTP takes it.
pub fn explain(fleet: &Fleet, question: &Question) -> Result<Explanation, NoListener> {
    let listener = listener(fleet, question)?;
    let headers = told::headers(listener, question);
    let (client, scheme) = told::client(listener, question, &headers);
    let (raw_path, query) = question.target.split_once('?').unwrap_or((&question.target, ""));
    let (mut host, mut path) = (Vec::new(), Vec::new());
    let authority = question.authority.as_bytes();
    let request = rules::Request {
        authority,
        host: normal::host(authority, &mut host),
        path: normal::path(raw_path.as_bytes(), &mut path),
        query: query.as_bytes(),
        method: question.method.as_bytes(),
        source: client,
        scheme,
        headers: &headers[..],
    };
    let asked = Asked {
        scheme,
        authority,
        host: request.host,
        raw_path: raw_path.as_bytes(),
        path: request.path,
        query: request.query,
    };
    let Question { method, target, .. } = question;
    let from = match question.client {
        peer if peer == client => client.to_string(),
        peer => format!("{client}, as {peer} tells"),
    };
    let refused = told::refused_name(listener, question);
    let is_asked = refused.is_none();
    let matched = listener.routes.find(&request).filter(|_| is_asked);
    let refused = refused.or_else(|| told::too_long(listener, matched, &headers));
    let is_other = |port: &u16| *port != listener.bind.port();
    Ok(Explanation {
        request: format!("{method} {scheme}://{}{target} from {from}", question.authority),
        listener: listener.bind,
        other_port: question.listener.is_none().then_some(question.port).filter(is_other),
        passed: if is_asked { route::passed(listener, matched, &request) } else { Vec::new() },
        route: matched.map(|it| route::route(listener, it, (&request, asked.raw_path), fleet)),
        // What is refused is so before anybody is asked who they are.
        authentication: match &refused {
            Some(_) => None,
            None => route::authentication(listener, matched, fleet),
        },
        answer: refused
            .unwrap_or_else(|| answer(matched, (&asked, &request), (listener, client), fleet)),
    })
}

/// The named listener; else the one with the port and the scheme; else the only one with the
/// scheme, since the port may be that of a balancer or a port mapping in front.
fn listener<'a>(fleet: &'a Fleet, question: &Question) -> Result<&'a Listener, NoListener> {
    let wanted = if question.is_secure { Protocol::Https } else { Protocol::Http };
    let of_scheme: Vec<_> = fleet.listeners.iter().filter(|it| it.protocol == wanted).collect();
    let found = match (question.listener, of_scheme.as_slice()) {
        (Some(bind), _) => {
            let is_http = |it: &&Listener| matches!(it.protocol, Protocol::Http | Protocol::Https);
            fleet.listeners.iter().filter(is_http).find(|it| it.bind == bind)
        }
        (None, all) => {
            let same_port = all.iter().find(|it| it.bind.port() == question.port);
            same_port.or(if let [only] = all { Some(only) } else { None }).copied()
        }
    };
    found.ok_or_else(|| {
        let is_http = |it: &&Listener| matches!(it.protocol, Protocol::Http | Protocol::Https);
        let one = |it: &Listener| {
            let scheme = if it.protocol == Protocol::Https { "https" } else { "http" };
            format!("{} ({scheme})", it.bind)
        };
        let all: Vec<_> = fleet.listeners.iter().filter(is_http).map(one).collect();
        NoListener {
            wanted: question.listener.map_or_else(
                || format!("{wanted:?} on port {}", question.port).to_lowercase(),
                |bind| format!("what comes to {bind}"),
            ),
            there: if all.is_empty() { "none".to_owned() } else { all.join(", ") },
        }
    })
}

fn answer(
    matched: Option<Matched<'_>>,
    (asked, variables): (&Asked<'_>, &dyn Variables),
    (listener, client): (&Listener, IpAddr),
    fleet: &Fleet,
) -> Answer {
    let one = |index: usize, weight| target(&fleet.services[index], weight, client);
    match matched.map(|it| &it.rule.action) {
        None => Answer::Services(vec![one(listener.service, 1)]),
        Some(rules::Action::Service(split)) => {
            let drawn = split.shares().iter().filter(|it| it.weight > 0);
            Answer::Services(drawn.map(|it| one(it.service, it.weight)).collect())
        }
        Some(rules::Action::Redirect(redirect)) => {
            let mut location = Vec::new();
            redirect.location(asked, variables, &mut location);
            let location = String::from_utf8_lossy(&location).into_owned();
            Answer::Redirect { status: redirect.status, location }
        }
        Some(rules::Action::Respond(response)) => Answer::Response { status: response.status },
    }
}

fn target(service: &Service, weight: u32, client: IpAddr) -> Target {
    let group = |group: &loadline_core::fleet::Group| Group {
        name: group.name.clone(),
        capacity: describe_group(group, Carried::Requests),
    };
    Target {
        service: service.name.clone(),
        weight,
        is_stopped: service.maintenance.as_ref().is_some_and(|it| it.stops(client)),
        groups: in_order(service).into_iter().map(group).collect(),
        policy: service.policy.name().to_owned(),
        when_full: crate::describe::when_full(service.when_full, Carried::Requests),
    }
}

#[cfg(test)]
mod tests;
