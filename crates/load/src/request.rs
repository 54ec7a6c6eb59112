//! The request that a run sends again and again, written once.

use loadline_http1::{Framing, MessageBuilder, Method};

use crate::plan::{LoadPlan, PlanError};

/// One message as bytes, and what must be known to read its answer.
#[derive(Debug)]
pub(crate) struct Request {
    /// Head and body.
    pub(crate) bytes: Box<[u8]>,
    /// The method, which decides whether an answer has a body.
    pub(crate) method: Method,
}

impl Request {
    /// The message that `plan` asks for.
    ///
    /// # Errors
    /// [`PlanError`] where a part of it cannot stand in a message.
    pub(crate) fn of(plan: &LoadPlan) -> Result<Self, PlanError> {
        let method = Method::of(plan.method.as_bytes());
        if method == Method::Connect {
            return Err(PlanError::Connect);
        }
        let given =
            |name: &str| plan.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
        let authority = plan.targets[0].0.authority();
        let host = given("host").map_or(authority.as_str(), |(_, value)| value.as_str());
        let mut bytes = Vec::new();
        let mut head =
            MessageBuilder::request(&mut bytes, &plan.method, plan.targets[0].0.path(), host)?;
        for (name, value) in OWN_FIELDS {
            if given(name).is_none() {
                head = head.field(name, value)?;
            }
        }
        if !plan.keepalive {
            head = head.field("Connection", "close")?;
        }
        for (name, value) in &plan.headers {
            refuse_reserved(name)?;
            if !name.eq_ignore_ascii_case("host") {
                head = head.field(name, value)?;
            }
        }
        head.finish(framing(method, plan.body.len()));
        bytes.extend_from_slice(&plan.body);
        Ok(Self { bytes: bytes.into_boxed_slice(), method })
    }
}

/// A method that usually has a body says so when it is empty (RFC 9110, section 8.6).
fn framing(method: Method, body: usize) -> Framing {
    let expected = matches!(method, Method::Post | Method::Put | Method::Patch);
    if body > 0 || expected { Framing::Length(body as u64) } else { Framing::None }
}

fn refuse_reserved(name: &str) -> Result<(), PlanError> {
    let reserved = RESERVED.iter().find(|(field, _)| name.eq_ignore_ascii_case(field));
    match reserved {
        Some((_, instead)) => Err(PlanError::Reserved { name: name.to_owned(), instead }),
        None => Ok(()),
    }
}

const OWN_FIELDS: [(&str, &str); 2] =
    [("User-Agent", concat!("loadline/", env!("CARGO_PKG_VERSION"))), ("Accept", "*/*")];

/// Fields that frame the message or steer the connection, and what to use instead.
const RESERVED: [(&str, &str); 5] = [
    ("Content-Length", "it follows from the body"),
    ("Transfer-Encoding", "bodies are sent with their length"),
    ("Connection", "use --no-keepalive for a connection per request"),
    ("Upgrade", "a tunnel is not a request to measure"),
    ("Expect", "the body is sent at once"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Until;

    fn plan(url: &str) -> LoadPlan {
        LoadPlan::closed(url, 1, Until::Requests(1)).unwrap()
    }

    fn text(plan: &LoadPlan) -> String {
        String::from_utf8(Request::of(plan).unwrap().bytes.into_vec()).unwrap()
    }

    #[test]
    fn a_plain_request_says_who_asks_and_what_for() {
        let text = text(&plan("http://localhost:8080/a?b"));
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            text,
            format!(
                "GET /a?b HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: loadline/{version}\r\n\
                 Accept: */*\r\n\r\n"
            )
        );
    }

    #[test]
    fn given_fields_replace_own_ones_and_a_body_brings_its_length() {
        let mut plan = plan("localhost");
        plan.method = "POST".to_owned();
        plan.keepalive = false;
        plan.body = b"x=1".to_vec();
        plan.headers = vec![
            ("host".to_owned(), "example.org".to_owned()),
            ("user-agent".to_owned(), "siege".to_owned()),
            ("X-A".to_owned(), "1".to_owned()),
        ];
        assert_eq!(
            text(&plan),
            "POST / HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\nConnection: close\r\n\
             user-agent: siege\r\nX-A: 1\r\nContent-Length: 3\r\n\r\nx=1"
        );
    }

    #[test]
    fn what_would_break_the_message_is_refused() {
        let mut connect = plan("localhost");
        connect.method = "CONNECT".to_owned();
        assert!(matches!(Request::of(&connect), Err(PlanError::Connect)));
        for (name, value) in
            [("X", "a\r\nY: b"), ("X Y", "a"), ("content-length", "3"), ("Host", "a b")]
        {
            let mut plan = plan("localhost");
            plan.headers = vec![(name.to_owned(), value.to_owned())];
            assert!(Request::of(&plan).is_err(), "{name}: {value}");
        }
    }
}
