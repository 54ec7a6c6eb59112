//! Sessions that a cookie keeps on one server.
//!
//! The cookie's value stands for a server and tells nobody which: it is derived from the service
//! and the server's address by HKDF-SHA256 (RFC 5869) under the key of the file. Every edge with
//! that key gives the same server the same value, in every process, so that neither a restart nor
//! another edge ends a session. Values are made once for each plan; a request costs a look-up.

use std::collections::BTreeMap;

use loadline_core::{
    decide::{ledger::ServerId, plan::ServicePlan},
    fleet::{self, Cookie, Sticky},
    rules::{Headers, any_cookie},
    state::ServiceCounter,
};
use loadline_http1::{Forwarded, RequestHead};
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;

use crate::telemetry::tally::Cells;

/// The sessions of a service.
#[derive(Debug)]
pub(crate) struct Sessions {
    name: String,
    servers: BTreeMap<Value, ServerId>,
    /// By server: the header line that puts a session there.
    lines: BTreeMap<ServerId, String>,
}

/// Which server a request's session is with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Session {
    /// With none yet.
    #[default]
    New,
    With(ServerId),
    /// With a server that is not in the plan.
    Lost,
}

/// A server under another name.
type Value = [u8; VALUE_DIGITS];

impl Session {
    /// The server, if it may be in rotation.
    pub(crate) const fn server(self) -> Option<ServerId> {
        match self {
            Self::With(server) => Some(server),
            Self::New | Self::Lost => None,
        }
    }

    /// Counts a request of this session whose client gets the response of `server`.
    pub(crate) fn count(self, server: ServerId, cells: &Cells) {
        match self {
            Self::New => {}
            Self::With(home) if home == server => cells.add(ServiceCounter::SessionsKept, 1),
            Self::With(_) | Self::Lost => cells.add(ServiceCounter::SessionsMoved, 1),
        }
    }
}

impl Sessions {
    /// The sessions of a service, if it has such; `plan` knows the servers in rotation.
    pub(crate) fn of(service: &fleet::Service, plan: &ServicePlan) -> Option<Self> {
        let Some(Sticky::Cookie(cookie)) = &service.sticky else { return None };
        let (mut servers, mut lines) = (BTreeMap::new(), BTreeMap::new());
        for server in plan.groups.iter().flat_map(|group| &group.servers) {
            let (id, address) = (server.state().id(), server.state().address());
            let value = value(cookie, &service.name, &address.to_string())?;
            lines.insert(id, line(cookie, &value));
            servers.insert(value, id);
        }
        Some(Self { name: cookie.name.clone(), servers, lines })
    }

    /// The session of a request.
    pub(crate) fn find(&self, head: &RequestHead, bytes: &[u8]) -> Session {
        let mut session = Session::New;
        let mut look = |value: &[u8]| {
            let known = <&Value>::try_from(value).ok().and_then(|value| self.servers.get(value));
            session = known.map_or(Session::Lost, |server| Session::With(*server));
            known.is_some()
        };
        // What was found is in `session`.
        let _ = any_cookie(&Cookies { head, bytes }, &self.name, &mut look);
        session
    }

    /// Adds the cookie of `server` to the head of its response to a request of this session, where
    /// the client has another or none: `head` as the server wrote it, `text` as it is to be sent,
    /// if that is not the same.
    pub(crate) fn keep(
        &self,
        server: ServerId,
        session: Session,
        (forwarded, head): (Forwarded, &[u8]),
        text: &mut Vec<u8>,
    ) -> Forwarded {
        if session == Session::With(server) {
            return forwarded;
        }
        let Some(line) = self.lines.get(&server) else { return forwarded };
        if forwarded == Forwarded::Unchanged {
            text.extend_from_slice(head);
        }
        let Some(end) = text.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
            return forwarded;
        };
        text.splice(end + 2..end + 2, line.bytes());
        Forwarded::Rewritten
    }
}

struct Cookies<'a> {
    head: &'a RequestHead,
    bytes: &'a [u8],
}

impl Headers for Cookies<'_> {
    fn any(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let fields = self.head.fields().iter(self.bytes);
        let mut named = fields.filter(|field| field.0.eq_ignore_ascii_case(name.as_bytes()));
        named.any(|field| test(field.1))
    }
}

/// The value that stands for a server; none where the system's cryptography has no HKDF.
fn value(cookie: &Cookie, service: &str, address: &str) -> Option<Value> {
    let hkdf = TLS13_AES_128_GCM_SHA256.tls13()?.hkdf_provider;
    let expander = hkdf.extract_from_secret(Some(SALT), cookie.key.reveal().as_bytes());
    let mut bytes = [0; VALUE_DIGITS / 2];
    let info = [service.as_bytes(), b"\0", address.as_bytes()];
    expander.expand_slice(&info, &mut bytes).ok()?;
    let digit = |at: usize| HEX[usize::from(bytes[at / 2] >> (4 * (1 - at % 2)) & 15)];
    Some(std::array::from_fn(digit))
}

fn line(cookie: &Cookie, value: &Value) -> String {
    let value = value.escape_ascii();
    let mut line = format!("Set-Cookie: {}={value}; Path={}; HttpOnly", cookie.name, cookie.path);
    if let Some(ttl) = cookie.ttl {
        line += &format!("; Max-Age={}", ttl.to_std().as_secs().max(1));
    }
    if cookie.secure {
        line += "; Secure";
    }
    line + "; SameSite=" + cookie.same_site.name() + "\r\n"
}

/// Sixteen bytes: nobody guesses one, and no two servers share one.
const VALUE_DIGITS: usize = 32;
const HEX: &[u8; 16] = b"0123456789abcdef";
const SALT: &[u8] = b"loadline sticky session";

#[cfg(test)]
mod tests {
    use loadline_core::{
        fleet::{SameSite, Secret},
        time::Duration,
    };

    use super::*;

    fn cookie() -> Cookie {
        Cookie {
            name: "lb".to_owned(),
            key: Secret::new("0123456789abcdef".to_owned()),
            ttl: Some(Duration::from_secs(3_600)),
            path: "/".to_owned(),
            secure: true,
            same_site: SameSite::Lax,
        }
    }

    #[test]
    fn a_value_is_the_same_everywhere_and_needs_the_key() {
        let one = value(&cookie(), "web", "10.0.0.1:80").unwrap();
        // By Python's hmac, as RFC 5869 says: another process, another implementation.
        assert_eq!(one.escape_ascii().to_string(), KNOWN);
        let other_key = Cookie { key: Secret::new("another key here".to_owned()), ..cookie() };
        for other in [
            value(&cookie(), "web", "10.0.0.2:80"),
            value(&cookie(), "api", "10.0.0.1:80"),
            value(&other_key, "web", "10.0.0.1:80"),
        ] {
            assert_ne!(other, Some(one));
        }
    }

    #[test]
    fn the_line_has_what_browsers_want_to_know() {
        assert_eq!(
            line(&cookie(), &[b'a'; 32]),
            "Set-Cookie: lb=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; Path=/; HttpOnly; Max-Age=3600; \
             Secure; SameSite=Lax\r\n"
        );
    }

    const KNOWN: &str = "7323a78210634ff4a4ee040f5c976b7d";
}
