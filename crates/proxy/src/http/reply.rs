//! The response of a rule, without a server: a redirect, a fixed response, a denial.

use loadline_core::{
    decide::{ending::Ending, reason::Reason},
    fleet::{Maintenance, Page},
    jwt::{Jwt, Refusal},
    rules::{Asked, BasicAuth, DirectResponse, Redirect, Variables},
    time::Duration,
};
use loadline_http1::{Method, reason};

use crate::http::{
    forward_auth::Response,
    rules::{NoVariables, field_name, write_field, write_template},
};

/// A response that a rule gives.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The ending of the request.
    pub(crate) ending: Ending,
    /// The reason, where the ending does not say all of it.
    pub(crate) reason: Option<Reason>,
    /// The head without its last lines.
    head: Vec<u8>,
    /// Of [`Reply::body`]; empty where the head says it, or there is none.
    content_type: String,
    body: Vec<u8>,
    /// Whether it is a line of text of ours.
    is_plain: bool,
}

impl Reply {
    pub(super) fn new(status: u16) -> Self {
        let head = format!("HTTP/1.1 {status} {}\r\n", reason(status)).into_bytes();
        Self {
            status,
            ending: Ending::Ruled,
            reason: None,
            head,
            content_type: String::new(),
            body: Vec::new(),
            is_plain: false,
        }
    }

    pub(super) fn limited(wait: Duration) -> Self {
        let mut reply = Self::new(429);
        let seconds = wait.as_nanos().div_ceil(1_000_000_000).max(1);
        reply.field("Retry-After", &seconds.to_string());
        reply.plain("Too Many Requests\n")
    }

    pub(super) fn maintenance(maintenance: &Maintenance, accept: &[u8]) -> Self {
        let mut reply = Self::new(503);
        reply.ending = Ending::Maintenance;
        if let Some(wait) = maintenance.retry_after {
            let seconds = wait.as_nanos().div_ceil(1_000_000_000);
            reply.field("Retry-After", &seconds.to_string());
        }
        reply.field("Cache-Control", "no-store");
        let Some(page) = maintenance.pages.choose(accept) else {
            return reply.plain("Service Unavailable\n");
        };
        reply.content_type.clone_from(&page.content_type);
        reply.body = page.body.to_vec();
        reply
    }

    /// The response that proves to an authority that a name leads here.
    pub(super) fn proof(key_authorization: &str) -> Self {
        let content_type = "application/octet-stream".to_owned();
        Self { content_type, body: key_authorization.as_bytes().to_vec(), ..Self::new(200) }
    }

    pub(super) fn unauthorized(auth: &BasicAuth) -> Self {
        let challenge = Self::fixed(&auth.challenge(), &NoVariables);
        Self { ending: Ending::Unauthorized, is_plain: true, ..challenge }
    }

    pub(crate) fn refused(jwt: &Jwt, refusal: Refusal) -> Self {
        let challenge = Self::fixed(&jwt.challenge(refusal), &NoVariables);
        let reason = Some(refusal.reason());
        Self { ending: Ending::Unauthorized, reason, is_plain: true, ..challenge }
    }

    /// The response of an auth service to a refused request; `own` are the lines of every response
    /// of ours.
    pub(crate) fn of_service(response: &Response, own: &[u8]) -> Self {
        let mut reply = Self::new(response.status());
        let reason = match response.status() {
            500.. => Reason::AuthServiceFailed,
            _ => Reason::AuthServiceRefused,
        };
        (reply.ending, reply.reason) = (reason.ending(), Some(reason));
        for (name, value) in response.fields() {
            let is_own = |line: &[u8]| field_name(line).eq_ignore_ascii_case(name);
            let is_of_hop = OF_HOP.iter().any(|it| it.as_bytes().eq_ignore_ascii_case(name));
            if !is_of_hop && !own.split(|byte| *byte == b'\n').any(is_own) {
                reply.head.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
            }
        }
        reply.body.clone_from(&response.body);
        reply
    }

    /// The same with a line of text, for which a page may stand.
    pub(super) fn plain(mut self, text: &str) -> Self {
        self.is_plain = true;
        self.content_type.push_str("text/plain");
        self.body.extend_from_slice(text.as_bytes());
        self
    }

    /// Whether an error page may stand for its body.
    pub(crate) const fn gives_way(&self) -> bool {
        self.is_plain
    }

    /// 503, since the user cannot be verified now.
    pub(crate) fn busy(reason: Reason) -> Self {
        let mut reply = Self::new(503);
        (reply.ending, reply.reason) = (reason.ending(), Some(reason));
        reply.field("Retry-After", "1");
        reply.plain("Service Unavailable\n")
    }

    /// The response to a request that may pass no further (`Max-Forwards: 0`).
    pub(crate) fn of_proxy(method: Method) -> Self {
        if method == Method::Options {
            return Self::new(200);
        }
        let mut reply = Self::new(405);
        reply.field("Allow", "OPTIONS");
        reply.plain("Method Not Allowed\n")
    }

    /// The response to a client that has gone.
    pub(crate) fn unwanted() -> Self {
        Self { ending: Ending::ClientGone, ..Self::new(503) }
    }

    pub(super) fn redirect(
        redirect: &Redirect,
        asked: &Asked<'_>,
        variables: &dyn Variables,
    ) -> Self {
        if !redirect.is_known(asked) {
            return Self::new(400).plain("Bad Request\n");
        }
        let mut reply = Self::new(redirect.status);
        reply.head.extend_from_slice(b"Location: ");
        redirect.location(asked, variables, &mut reply.head);
        reply.head.extend_from_slice(b"\r\n");
        reply
    }

    pub(super) fn fixed(answer: &DirectResponse, variables: &dyn Variables) -> Self {
        let mut reply = Self::new(answer.status);
        let has_type = answer.headers.iter().any(|it| it.0.eq_ignore_ascii_case("content-type"));
        if !has_type && !answer.body.is_empty() {
            reply.content_type.push_str("text/plain; charset=utf-8");
        }
        for (name, value) in &answer.headers {
            write_template(&mut reply.head, name, value, variables);
        }
        reply.body = answer.body.clone().into_bytes();
        reply.is_plain = answer.status >= 400 && answer.body.is_empty() && !has_type;
        reply
    }

    /// Leaves out fields that others replace.
    pub(crate) fn drop_fields(&mut self, is_dropped: impl Fn(&[u8]) -> bool) {
        let lines = || self.head.split_inclusive(|byte| *byte == b'\n');
        let stays = |line: &&[u8]| !is_dropped(field_name(line));
        if !lines().all(|line| stays(&line)) {
            self.head = lines().filter(stays).flatten().copied().collect();
        }
    }

    pub(super) fn field(&mut self, name: &str, value: &str) {
        write_field(&mut self.head, name, value);
    }

    /// Writes the response with these lines added and this page for its body, of which a HEAD gets
    /// the head only.
    pub(crate) fn write(
        &self,
        (extra, page): (&[u8], Option<&Page>),
        (close, to_head): (bool, bool),
        out: &mut Vec<u8>,
    ) {
        let own = (&*self.content_type, &*self.body);
        let (content_type, body) = match page.map_or(own, |it| (&*it.content_type, &*it.body)) {
            // They have no content, whatever a route says (RFC 9110, 15.3.5 and 15.3.6).
            _ if matches!(self.status, 204 | 205) => ("", &b""[..]),
            of_any => of_any,
        };
        out.extend_from_slice(&self.head);
        if !content_type.is_empty() {
            write_field(out, "Content-Type", content_type);
        }
        out.extend_from_slice(extra);
        if !matches!(self.status, 204 | 304) {
            write_field(out, "Content-Length", &body.len().to_string());
        }
        write_field(out, "Connection", if close { "close" } else { "keep-alive" });
        out.extend_from_slice(b"\r\n");
        if !to_head && !matches!(self.status, 204 | 304) {
            out.extend_from_slice(body);
        }
    }
}

/// Fields that are about one connection, or about a body that is framed anew.
const OF_HOP: [&str; 6] =
    ["Connection", "Content-Length", "Keep-Alive", "Trailer", "Transfer-Encoding", "Upgrade"];
