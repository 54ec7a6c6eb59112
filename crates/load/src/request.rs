//! The request that a run sends again and again, written once for each protocol.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Uri, Version};
use loadline_http1::{BuildError, Framing, MessageBuilder, Method};

use crate::{
    plan::{LoadPlan, PlanError},
    target::Target,
};

/// One message, and what must be known to read its response.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// As HTTP/1.1: head and body.
    pub(crate) bytes: Bytes,
    /// As HTTP/2: the head.
    pub(crate) head: http::Request<()>,
    /// As HTTP/2: the body.
    pub(crate) body: Bytes,
    /// The method, which decides whether a response has a body.
    pub(crate) method: Method,
    /// The field whose value tells answers apart.
    pub(crate) count_by: Option<HeaderName>,
}

impl Request {
    /// The message that `plan` sends to `target`.
    ///
    /// # Errors
    /// [`PlanError`] where a part of it is not allowed in a message.
    pub(crate) fn of(plan: &LoadPlan, target: &Target) -> Result<Self, PlanError> {
        let method = Method::of(plan.method.as_bytes());
        if method == Method::Connect {
            return Err(PlanError::Connect);
        }
        let authority = target.authority();
        let host = given(plan, "host").unwrap_or(&authority);
        let framing = framing(method, plan.body.len());
        if host.is_empty() {
            let instead = "give it a value, or leave it out for that of the URL";
            return Err(PlanError::Reserved { name: "Host".to_owned(), instead });
        }
        let fields = fields(plan)?;
        let mut bytes = Vec::new();
        let mut head = MessageBuilder::request(&mut bytes, &plan.method, target.path(), host)?;
        for (name, value) in &fields {
            head = head.field(name, value)?;
        }
        head.finish(framing);
        bytes.extend_from_slice(&plan.body);
        Ok(Self {
            bytes: bytes.into(),
            head: http2_head(plan, target, host, &fields, framing)?,
            body: Bytes::copy_from_slice(&plan.body),
            method,
            count_by: plan.count_by.as_deref().map(field_name).transpose()?,
        })
    }
}

/// The value that the plan gives to a field.
fn given<'a>(plan: &'a LoadPlan, name: &str) -> Option<&'a str> {
    let given = plan.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
    given.map(|(_, value)| value.as_str())
}

/// The fields of an HTTP/1.1 message but for Host and those that frame it.
fn fields(plan: &LoadPlan) -> Result<Vec<(&str, &str)>, PlanError> {
    let mut fields = Vec::from(OWN_FIELDS);
    fields.retain(|(name, _)| given(plan, name).is_none());
    if !plan.keepalive {
        fields.push(CLOSE);
    }
    for (name, value) in &plan.headers {
        refuse_reserved(name)?;
        if !name.eq_ignore_ascii_case("host") {
            fields.push((name, value));
        }
    }
    Ok(fields)
}

/// The same message in HTTP/2, which frames bodies itself and knows no `Connection` field.
fn http2_head(
    plan: &LoadPlan,
    target: &Target,
    host: &str,
    fields: &[(&str, &str)],
    framing: Framing,
) -> Result<http::Request<()>, PlanError> {
    let scheme = if target.is_secure() { "https" } else { "http" };
    let method = http::Method::from_bytes(plan.method.as_bytes())
        .map_err(|_| BuildError::Method(plan.method.clone()))?;
    let uri = Uri::builder().scheme(scheme).authority(host).path_and_query(target.path());
    let mut head = http::Request::new(());
    *head.method_mut() = method;
    *head.uri_mut() = uri.build().map_err(|_| BuildError::Target(target.path().to_owned()))?;
    *head.version_mut() = Version::HTTP_2;
    for (name, value) in fields.iter().filter(|field| **field != CLOSE) {
        let wrong = |_| BuildError::Field { name: (*name).into(), value: (*value).into() };
        let value = HeaderValue::from_str(value).map_err(wrong)?;
        head.headers_mut().append(field_name(name)?, value);
    }
    if let Framing::Length(length) = framing {
        head.headers_mut().insert(http::header::CONTENT_LENGTH, length.into());
    }
    Ok(head)
}

fn field_name(name: &str) -> Result<HeaderName, PlanError> {
    let wrong = |_| BuildError::Field { name: name.to_owned(), value: String::new() };
    Ok(HeaderName::from_bytes(name.as_bytes()).map_err(wrong)?)
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

const CLOSE: (&str, &str) = ("Connection", "close");

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

    fn request(plan: &LoadPlan) -> Result<Request, PlanError> {
        Request::of(plan, &plan.targets[0].0)
    }

    fn text(plan: &LoadPlan) -> String {
        String::from_utf8(request(plan).unwrap().bytes.into()).unwrap()
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
    fn http2_asks_the_same_without_what_frames_http1() {
        let mut plan = plan("https://localhost:8443/a?b");
        plan.method = "POST".to_owned();
        plan.keepalive = false;
        plan.body = b"x=1".to_vec();
        plan.headers = vec![("X-A".to_owned(), "1".to_owned())];
        let head = request(&plan).unwrap().head;
        assert_eq!((head.method().as_str(), head.version()), ("POST", Version::HTTP_2));
        assert_eq!(head.uri(), "https://localhost:8443/a?b");
        let names: Vec<_> = head.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["user-agent", "accept", "x-a", "content-length"]);
        plan.headers = vec![("Host".to_owned(), "example.org".to_owned())];
        assert_eq!(request(&plan).unwrap().head.uri(), "https://example.org/a?b");
    }

    #[test]
    fn a_host_without_a_value_is_no_fault_of_the_path() {
        let mut plan = plan("localhost/ok");
        plan.headers = vec![("host".to_owned(), String::new())];
        let told = request(&plan).unwrap_err().to_string();
        assert!(told.contains("`Host` cannot be set"), "{told}");
    }

    #[test]
    fn what_would_break_the_message_is_refused() {
        let mut connect = plan("localhost");
        connect.method = "CONNECT".to_owned();
        assert!(matches!(request(&connect), Err(PlanError::Connect)));
        for (name, value) in
            [("X", "a\r\nY: b"), ("X Y", "a"), ("content-length", "3"), ("Host", "a b")]
        {
            let mut plan = plan("localhost");
            plan.headers = vec![(name.to_owned(), value.to_owned())];
            assert!(request(&plan).is_err(), "{name}: {value}");
        }
    }
}
