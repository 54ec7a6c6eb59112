//! The fields of an access log line, before they are formatted.

use std::net::SocketAddr;

use loadline_core::{
    decide::ending::Ending,
    fleet::{AccessLog, LogField, LogFormat, Protocol},
    rules::trace::TraceId,
    time::{Duration, Instant},
};
use loadline_http1::RequestHead;

use crate::http::request_id::RequestId;

/// What a line says. Bytes are as the client sent them.
#[derive(Debug)]
pub struct Line<'a> {
    /// The client.
    pub client: SocketAddr,
    /// The method; empty where it is not known.
    pub method: &'a [u8],
    /// The target; empty where it is not known.
    pub target: &'a [u8],
    /// The protocol of the client, `-` where it is not known or none.
    pub version: &'a str,
    /// The header `Referer`; empty if omitted.
    pub referer: &'a [u8],
    /// The header `User-Agent`; empty if omitted.
    pub agent: &'a [u8],
    /// 0 where the client was told nothing.
    pub status: u16,
    /// Sent to the client, heads included.
    pub bytes: u64,
    /// Name of the service.
    pub service: &'a str,
    /// Name of the group, and the server.
    pub server: Option<(&'a str, SocketAddr)>,
    /// How it ended.
    pub ending: Ending,
    /// Why it, or the last attempt that was repeated, failed; empty where nothing did.
    pub reason: &'a str,
    /// Further attempts.
    pub retries: u32,
    /// When.
    pub times: Times,
    /// The trace it belongs to, where tracing is on.
    pub trace: Option<TraceId>,
    /// How it came.
    pub came: Came<'a>,
}

impl Line<'_> {
    /// What a connection to a listener of this protocol has for its method; empty where requests
    /// have theirs.
    pub(crate) const fn method_of(protocol: Protocol) -> &'static str {
        match protocol {
            Protocol::Http | Protocol::Https => "",
            Protocol::Tcp => "TCP",
            Protocol::Tls | Protocol::TlsPassthrough => "TLS",
        }
    }
}

/// How a request came. Empty texts stand for what is not known, or is not so.
#[derive(Clone, Copy, Debug, Default)]
pub struct Came<'a> {
    /// The host the client asked for, as it wrote it.
    pub host: &'a [u8],
    /// `http` or `https`.
    pub scheme: &'a str,
    /// The address of the listener in the file.
    pub listener: Option<SocketAddr>,
    /// The server name of the client's handshake.
    pub server_name: &'a str,
    /// The version of TLS towards the client.
    pub tls_version: &'a str,
    /// The cipher suite towards the client.
    pub tls_cipher: &'a str,
    /// The subject of the client's certificate.
    pub client_certificate: &'a str,
    /// The id of the request.
    pub request_id: &'a [u8],
    /// What the cache did: hit, stale, revalidated, collapsed, miss or bypass.
    pub cache: &'a str,
    /// The user of basic authentication, with status 401 who the client said it was; or the subject
    /// of a valid token.
    pub user: &'a [u8],
    /// Why it went past the nearest group.
    pub overflow_reason: &'a str,
}

/// Instants in the course of a request; none for steps that did not happen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Its head was complete.
    pub received: Instant,
    /// A server was picked for the first time; later by what it has waited since.
    pub picked: Option<Instant>,
    /// How long it has waited without a server.
    pub waited: Duration,
    /// It was sent; only measured for the access log.
    pub sent: Option<Instant>,
    /// The head of the response had come.
    pub answered: Option<Instant>,
    /// Its end.
    pub ended: Instant,
}

impl Times {
    /// It has waited; at first, no server is picked yet.
    pub(crate) fn wait_again(&mut self, waited: Duration) {
        match &mut self.picked {
            Some(picked) => *picked = *picked + waited,
            None => self.waited = self.waited + waited,
        }
    }

    /// From the head of the request to the first pick, and after failures: the time in the queue.
    /// Where no server was picked, as long as it has waited.
    pub(crate) fn queue(&self) -> Option<Duration> {
        let in_vain = Some(self.waited).filter(|waited| *waited > Duration::ZERO);
        self.picked.map(|picked| picked.since(self.received)).or(in_vain)
    }

    /// From the first pick until it was sent: connecting, failed attempts included.
    pub(crate) fn connect(&self) -> Option<Duration> {
        Some(self.sent?.since(self.picked?))
    }

    /// From sending to the head of the response.
    pub(crate) fn first_byte(&self) -> Option<Duration> {
        Some(self.answered?.since(self.sent?))
    }

    /// From the head of the request to the end.
    pub(super) fn total(&self) -> Duration {
        self.ended.since(self.received)
    }
}

/// What a client asked, in one piece of memory that is used again and again.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    bytes: Vec<u8>,
    /// `http` or `https`, as a trusted proxy in front says it.
    scheme: &'static str,
    /// Where method, target, referer, agent, host, the id of the request and its user end.
    ends: [usize; 7],
}

impl Asked {
    /// Takes what the log tells of a head.
    pub(crate) fn take(
        &mut self,
        settings: &AccessLog,
        head: &RequestHead,
        bytes: &[u8],
        (scheme, id, user): (&'static str, &RequestId<'_>, &[u8]),
    ) {
        let whole = |target| without_secrets(settings, target);
        self.bytes.clear();
        self.scheme = scheme;
        self.add(0, head.method_text(bytes));
        self.add(1, whole(head.target(bytes)));
        let told = settings.format != LogFormat::Text;
        let header = |name| {
            let value = if told { head.fields().get(bytes, name) } else { None };
            value.unwrap_or_default()
        };
        self.add(2, whole(header("referer")));
        self.add(3, header("user-agent"));
        let host = settings.fields.contains(&LogField::Host).then(|| head.host(bytes)).flatten();
        self.add(4, host.unwrap_or_default());
        let has_id = settings.fields.contains(&LogField::RequestId);
        self.add(5, if has_id { id.text() } else { b"" });
        self.add(6, user);
    }

    /// Names another user.
    pub(crate) fn set_user(&mut self, user: &[u8]) {
        self.bytes.truncate(self.ends[5]);
        self.add(6, user);
    }

    fn add(&mut self, which: usize, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends[which] = self.bytes.len();
    }

    fn part(&self, which: usize) -> &[u8] {
        let start = if which == 0 { 0 } else { self.ends[which - 1] };
        &self.bytes[start..self.ends[which]]
    }

    pub(crate) const fn scheme(&self) -> &'static str {
        self.scheme
    }

    pub(crate) fn method(&self) -> &[u8] {
        self.part(0)
    }

    pub(crate) fn target(&self) -> &[u8] {
        self.part(1)
    }

    pub(crate) fn referer(&self) -> &[u8] {
        self.part(2)
    }

    pub(crate) fn agent(&self) -> &[u8] {
        self.part(3)
    }

    pub(crate) fn host(&self) -> &[u8] {
        self.part(4)
    }

    pub(crate) fn request_id(&self) -> &[u8] {
        self.part(5)
    }

    pub(crate) fn user(&self) -> &[u8] {
        self.part(6)
    }

    /// Whether it is worth keeping.
    pub(super) fn is_small(&self) -> bool {
        self.bytes.capacity() <= 1024
    }
}

/// A target or referer as lines have it.
pub(crate) fn without_secrets<'b>(settings: &AccessLog, target: &'b [u8]) -> &'b [u8] {
    if settings.query { target } else { without_query(target) }
}

/// A target, or nothing of one that names a user, maybe with a password: no server takes it (RFC
/// 9110, 4.2.4).
pub(crate) fn without_user(target: &[u8]) -> &[u8] {
    let authority = memchr::memmem::find(target, b"://").map_or(target, |at| &target[at + 3..]);
    let end = authority.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(authority.len());
    if target.starts_with(b"/") || !authority[..end].contains(&b'@') { target } else { b"" }
}

/// All that stands before the query, and what shows that there was one.
fn without_query(target: &[u8]) -> &[u8] {
    memchr::memchr(b'?', target).map_or(target, |at| &target[..=at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::random::Random;
    use loadline_core::fleet::LogTarget;
    use loadline_http1::HeadLimits;

    #[test]
    fn a_target_that_names_a_user_is_not_told() {
        for target in ["http://user:hush@h/a", "http://user@h", "user:hush@h:443", "x://a@b?c"] {
            assert_eq!(without_user(target.as_bytes()), b"", "{target}");
        }
        for target in ["/a@b", "/?next=http://a@b", "http://h/a@b", "http://h?a@b", "*", "h:443"] {
            assert_eq!(without_user(target.as_bytes()), target.as_bytes());
        }
    }

    const HEAD: &[u8] = b"GET /reset?token=hush HTTP/1.1\r\nHost: a\r\nCookie: id=hush\r\n\
        Authorization: Bearer hush\r\nReferer: http://a/?key=hush\r\nUser-Agent: curl/8\r\n\r\n";

    fn asked(settings: &AccessLog) -> Asked {
        let mut head = RequestHead::new(HeadLimits { bytes: 4096, fields: 32 });
        head.parse(HEAD).unwrap();
        let mut asked = Asked::default();
        let random = Random::new();
        let id = RequestId::new(&random, (&head, HEAD), false);
        asked.take(settings, &head, HEAD, ("http", &id, b""));
        asked
    }

    #[test]
    fn no_secret_is_taken_from_a_head_and_no_query_where_none_is_wanted() {
        let settings = AccessLog {
            format: LogFormat::Combined,
            query: false,
            ..AccessLog::to(LogTarget::Stdout)
        };
        let asked = asked(&settings);
        assert_eq!((asked.method(), asked.target()), (&b"GET"[..], &b"/reset?"[..]));
        assert_eq!((asked.referer(), asked.agent()), (&b"http://a/?"[..], &b"curl/8"[..]));
        assert!(!asked.bytes.windows(4).any(|window| window == b"hush"));
    }

    #[test]
    fn the_time_in_the_queue_is_that_of_all_waits() {
        let ms = Duration::from_millis;
        let mut times = Times { received: Instant::ZERO, ..Times::default() };
        assert_eq!(times.queue(), None, "it has not waited");
        times.wait_again(ms(200));
        times.wait_again(ms(50));
        assert_eq!(times.queue(), Some(ms(250)), "it has no server yet");
        times.picked = Some(Instant::ZERO + ms(250));
        times.wait_again(ms(400));
        assert_eq!(times.queue(), Some(ms(650)));
    }

    #[test]
    fn the_short_format_asks_for_no_header() {
        let asked = asked(&AccessLog::to(LogTarget::Stdout));
        assert_eq!(asked.target(), b"/reset?token=hush");
        assert!(asked.referer().is_empty() && asked.agent().is_empty());
    }
}
