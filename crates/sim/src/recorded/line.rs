//! One line of an access log, in the formats that people have.
//!
//! - `text` and `json` of loadline;
//! - the Common and the Combined Log Format of Apache and nginx, with what loadline (`combined`) or
//!   nginx (`urt=` of `$upstream_response_time`, `rt=` of `$request_time`) add to it;
//! - HAProxy's `httplog`.
//!
//! All but `json` may have the head of syslog before them.

use std::net::SocketAddr;

use jiff::{Timestamp, civil::DateTime, fmt::strtime, tz::TimeZone};
use loadline_core::{decide::ending::Ending, fleet::ServerAddress, time::Duration};
use serde::Deserialize;

/// What a line tells of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Logged {
    /// When it came, in nanoseconds since 1970.
    pub(crate) at: i64,
    pub(crate) service: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) server: Option<SocketAddr>,
    /// From sending it to its server to the first byte of the response.
    pub(crate) time: Option<Duration>,
    pub(crate) answered_by: AnsweredBy,
}

/// Who answered a request, as far as the log tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnsweredBy {
    /// A server, or nobody who could: it asked for capacity.
    Server,
    /// The cache of its edge.
    Cache,
    /// Its edge, which asked no server.
    Edge,
}

/// What a line says; none where it is no line of an access log.
pub(super) fn parse(line: &str) -> Option<Logged> {
    let line = line.trim();
    if line.starts_with('{') {
        return json(line);
    }
    if let Some(logged) = text_behind(line) {
        return Some(logged);
    }
    line.match_indices('[').find_map(|(open, _)| {
        let (stamp, rest) = line[open + 1..].split_once(']')?;
        match strtime::parse("%d/%b/%Y:%H:%M:%S %z", stamp).and_then(|it| it.to_timestamp()) {
            Ok(at) => common(at, &words(rest)),
            Err(_) => httplog(stamp, &words(rest)),
        }
    })
}

/// The line of loadline's `text`, also behind a head of syslog, whose time may be written the same.
fn text_behind(line: &str) -> Option<Logged> {
    let mut rest = line;
    for _ in 0..HEAD_WORDS {
        let (word, behind) = rest.split_once(' ')?;
        if let Ok(at) = word.parse::<Timestamp>()
            && let Some(logged) = text(at, &words(behind))
        {
            return Some(logged);
        }
        rest = behind.trim_start();
    }
    None
}

/// The line of loadline's `json`.
fn json(line: &str) -> Option<Logged> {
    #[derive(Deserialize)]
    struct Line {
        time: Timestamp,
        service: Option<String>,
        group: Option<String>,
        server: Option<String>,
        ending: Option<String>,
        first_byte_ms: Option<f64>,
    }
    let line: Line = serde_json::from_str(line).ok()?;
    let said = |name: Option<String>| name.filter(|name| !name.is_empty() && name != "-");
    let group = said(line.group);
    let ending = line.ending.as_deref().and_then(ending);
    Some(Logged {
        at: nanos(line.time)?,
        service: said(line.service),
        server: line.server.as_deref().and_then(address),
        time: line.first_byte_ms.and_then(millis),
        answered_by: ending.map_or(AnsweredBy::Server, |it| answered_by(it, group.is_some())),
        group,
    })
}

/// The line of loadline's `text`, whose times count from the head of the request.
fn text(at: Timestamp, words: &[&str]) -> Option<Logged> {
    // client method target version status bytes place ending retries picked sent answered ended
    let [_, _, _, _, status, _, place, ended, _, _, sent, answered, _, ..] = words else {
        return None;
    };
    if *status != "-" {
        status.parse::<u16>().ok()?;
    }
    let first_byte = number(answered).zip(number(sent)).map(|(answered, sent)| answered - sent);
    let mut logged = placed(at, place, ending(ended)?)?;
    logged.time = first_byte.and_then(millis);
    Some(logged)
}

/// A line of the Common or Combined Log Format after its time.
fn common(at: Timestamp, words: &[&str]) -> Option<Logged> {
    // request status bytes [referer agent [place ending retries queue/connect/first byte/total]]
    let [_, status, _, more @ ..] = words else { return None };
    if *status != "-" {
        status.parse::<u16>().ok()?;
    }
    if let [_, _, place, ended, _, stretches, ..] = more
        && let Some(ending) = ending(ended)
        && let Some(first_byte) = stretches.split('/').nth(2)
    {
        let mut logged = placed(at, place, ending)?;
        logged.time = number(first_byte).and_then(millis);
        return Some(logged);
    }
    let said = |key: &str| more.iter().find_map(|word| word.strip_prefix(key));
    // After a failed attempt nginx lists the time of each, and `-` where no server was asked.
    let last = |said: &str| number(said.trim_matches('"').rsplit([',', ' ']).next()?);
    let time = said("urt=").or_else(|| said("rt=")).and_then(last).and_then(|it| millis(it * 1e3));
    let answered_by = AnsweredBy::Server;
    Some(Logged { at: nanos(at)?, service: None, group: None, server: None, time, answered_by })
}

/// A line of HAProxy's `httplog` after the date of its accept, in the time of its machine.
fn httplog(stamp: &str, words: &[&str]) -> Option<Logged> {
    // frontend backend/server TR/Tw/Tc/Tr/Ta status ...
    let [_, place, times, _, ..] = words else { return None };
    let at: DateTime = strtime::parse("%d/%b/%Y:%H:%M:%S%.f", stamp).ok()?.to_datetime().ok()?;
    let at = at.to_zoned(TimeZone::UTC).ok()?.timestamp();
    let times: Vec<Option<f64>> = times.split('/').map(number).collect();
    let [_, _, _, response, _] = times[..] else { return None };
    let (backend, _) = place.split_once('/')?;
    let service = Some(backend.to_owned());
    Some(Logged {
        at: nanos(at)?,
        service,
        group: None,
        server: None,
        time: response.and_then(millis),
        answered_by: AnsweredBy::Server,
    })
}

/// A request of `service/group/server`, of which `-` stands for what is not known.
fn placed(at: Timestamp, place: &str, ending: Ending) -> Option<Logged> {
    let mut parts = place.splitn(3, '/');
    let mut said = || parts.next().filter(|part| *part != "-").map(str::to_owned);
    let (service, group) = (said(), said());
    let server = said().as_deref().and_then(address);
    let answered_by = answered_by(ending, group.is_some());
    Some(Logged { at: nanos(at)?, service, group, server, time: None, answered_by })
}

/// The ending of this name.
fn ending(name: &str) -> Option<Ending> {
    Ending::ALL.into_iter().find(|ending| ending.name() == name)
}

/// Who answered a request that ended so, with or without a server that was chosen for it.
fn answered_by(ending: Ending, is_chosen: bool) -> AnsweredBy {
    match ending {
        Ending::Cached => AnsweredBy::Cache,
        Ending::Ruled
        | Ending::ClientBad
        | Ending::Unauthorized
        | Ending::ClientTimeout
        | Ending::ClientSlow
        | Ending::ClientLimit
        | Ending::Maintenance
            if !is_chosen =>
        {
            AnsweredBy::Edge
        }
        _ => AnsweredBy::Server,
    }
}

fn address(text: &str) -> Option<SocketAddr> {
    text.parse::<ServerAddress>().ok().map(|address| address.0)
}

/// The words between spaces; those in quotes whole, and without them.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = word_end(rest);
        let word = &rest[..end];
        let bare = word.strip_prefix('"').and_then(|word| word.strip_suffix('"'));
        words.push(bare.unwrap_or(word));
        rest = rest[end..].trim_start();
    }
    words
}

/// Where the first word ends: at a space that is not between quotes.
fn word_end(text: &str) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b' ' if !quoted => return at,
            _ => {}
        }
    }
    text.len()
}

/// Words up to the time of a line behind `1 time host program process message data` (RFC 5424).
const HEAD_WORDS: usize = 8;

fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// So many milliseconds; none where it is less than none, which is how HAProxy says that something
/// did not happen.
fn millis(millis: f64) -> Option<Duration> {
    let fits = millis.is_finite() && millis >= 0.0;
    fits.then(|| Duration::from_nanos((millis * 1e6).round() as u64))
}

fn nanos(at: Timestamp) -> Option<i64> {
    i64::try_from(at.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: i64 = 1_795_233_600_000_000_000;

    fn place(logged: &Logged) -> (Option<&str>, Option<&str>, Option<String>) {
        let server = logged.server.map(|server| ServerAddress(server).to_string());
        (logged.service.as_deref(), logged.group.as_deref(), server)
    }

    #[test]
    fn each_format_says_when_where_and_how_long() {
        let ours = (Some("web"), Some("near"), Some("10.0.0.11:80".to_owned()));
        for (line, after, wanted, time) in [
            (
                "2026-11-21T04:00:00.123Z 10.0.0.9:41234 GET \"/a b?c\" HTTP/2.0 200 1324 \
                 web/near/10.0.0.11:80 complete 0 0.0 0.2 38.1 38.3",
                123,
                ours.clone(),
                Some(37_900),
            ),
            (
                "10.0.0.9 - - [21/Nov/2026:04:00:00 +0000] \"GET /a\\\" HTTP/2.0\" 200 1324 \
                 \"-\" \"curl/8\" web/near/10.0.0.11:80 complete 0 0.0/0.2/37.9/38.3",
                0,
                ours.clone(),
                Some(37_900),
            ),
            (
                "{\"time\":\"2026-11-21T04:00:00.123Z\",\"client\":\"10.0.0.9:41234\",\"status\":\
                 200,\"service\":\"web\",\"group\":\"near\",\"server\":\"10.0.0.11:80\",\
                 \"first_byte_ms\":37.9,\"total_ms\":38.3}",
                123,
                ours,
                Some(37_900),
            ),
            (
                "2026-11-21T04:00:00.000Z 10.0.0.9:41234 GET \"/\" HTTP/2.0 503 0 web/- \
                 queue-full 0 - - - 0.1",
                0,
                (Some("web"), None, None),
                None,
            ),
            (
                "10.0.0.9 - frank [21/Nov/2026:05:00:00 +0100] \"GET / HTTP/1.0\" 200 2326",
                0,
                (None, None, None),
                None,
            ),
            (
                "10.0.0.9 - - [21/Nov/2026:04:00:00 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"c\" \
                 rt=0.040 uct=\"0.000\" uht=\"0.038\" urt=\"0.010, 0.038\"",
                0,
                (None, None, None),
                Some(38_000),
            ),
            (
                "Nov 21 04:00:00 host haproxy[14389]: 10.0.0.9:33317 [21/Nov/2026:04:00:00.655] \
                 http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 \"GET / H\"",
                655,
                (Some("static"), None, None),
                Some(69_000),
            ),
        ] {
            let logged = parse(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(logged.at - AT, after * 1_000_000, "{line}");
            assert_eq!(place(&logged), wanted, "{line}");
            assert_eq!(logged.time, time.map(Duration::from_micros), "{line}");
        }
    }

    #[test]
    fn lines_behind_a_syslog_header_with_an_rfc_3339_time_are_not_taken_for_loadlines() {
        for (line, after, service, time) in [
            (
                "2026-11-21T04:00:00.123456+00:00 lb1 haproxy[14389]: 10.0.0.9:33317 \
                 [21/Nov/2026:04:00:00.655] http-in web/srv1 10/0/30/69/109 200 2750 - - ---- \
                 1/1/1/1/0 0/0 \"GET / HTTP/1.1\"",
                655,
                Some("web"),
                69,
            ),
            (
                "2026-11-21T04:00:00.123456+00:00 lb1 nginx: 10.0.0.9 - - \
                 [21/Nov/2026:04:00:00 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"c\" rt=0.040",
                0,
                None,
                40,
            ),
        ] {
            let logged = parse(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(logged.at - AT, after * 1_000_000, "{line}");
            assert_eq!(logged.service.as_deref(), service, "{line}");
            assert_eq!(logged.time, Some(Duration::from_millis(time)), "{line}");
        }
    }

    #[test]
    fn loadlines_own_lines_are_read_behind_each_header_of_syslog() {
        let line = "2026-11-21T04:00:00.123Z 10.0.0.9:41234 GET \"/a b?c\" HTTP/2.0 200 1324 \
                    web/near/10.0.0.11:80 complete 0 0.0 0.2 38.1 38.3";
        let alone = parse(line);
        assert!(alone.is_some());
        for header in [
            "Nov  1 04:00:01 lb1 loadline[14389]: ",
            "2026-11-21T04:00:01.123456+00:00 lb1 loadline[14389]: ",
            "<134>loadline[14389]: ",
            "<134>1 2026-11-21T04:00:01.123Z lb1 loadline 14389 - - ",
        ] {
            assert_eq!(parse(&format!("{header}{line}")), alone, "{header}");
        }
    }

    #[test]
    fn a_dash_in_json_is_no_service_as_in_the_other_formats() {
        let line = "{\"time\":\"2026-11-21T04:00:00Z\",\"service\":\"-\",\"group\":\"-\",\
                    \"ending\":\"ruled\"}";
        let logged = parse(line).expect("a line of an access log");
        assert_eq!((logged.service, logged.group), (None, None));
        assert_eq!(logged.answered_by, AnsweredBy::Edge);
    }

    #[test]
    fn a_request_for_which_nginx_asked_no_server_has_no_time_of_one() {
        let line = "10.0.0.9 - - [21/Nov/2026:04:00:00 +0000] \"GET / HTTP/1.1\" 404 5 \"-\" \"c\" \
                    rt=0.500 urt=\"-\"";
        assert_eq!(parse(line).map(|logged| logged.time), Some(None));
    }

    #[test]
    fn a_request_to_a_unix_socket_is_read_with_its_server_in_each_format() {
        let socket = (Some("web"), Some("near"), Some("unix:/run/app.sock".to_owned()));
        for line in [
            "2026-11-21T04:00:00.000Z - GET \"/\" HTTP/1.1 200 1 web/near/unix:/run/app.sock \
             complete 0 0.0 0.2 38.1 38.3",
            "10.0.0.9 - - [21/Nov/2026:04:00:00 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\" \
             web/near/unix:/run/app.sock complete 0 0.0/0.2/37.9/38.3",
            "{\"time\":\"2026-11-21T04:00:00Z\",\"service\":\"web\",\"group\":\"near\",\
             \"server\":\"unix:/run/app.sock\",\"first_byte_ms\":37.9}",
        ] {
            let logged = parse(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(place(&logged), socket, "{line}");
            assert_eq!(logged.time, Some(Duration::from_micros(37_900)), "{line}");
        }
        let of_others = "{\"time\":\"2026-11-21T04:00:00Z\",\"server\":\"somewhere\"}";
        assert_eq!(parse(of_others).map(|logged| logged.server), Some(None));
    }

    #[test]
    fn what_loadline_answered_itself_is_known_in_each_format() {
        let of = |place: &str, group: &str, ending: &str| {
            [
                format!(
                    "2026-11-21T04:00:00.000Z 10.0.0.9:1 GET \"/\" HTTP/1.1 200 1 {place} \
                     {ending} 0 - - - 0.1"
                ),
                format!(
                    "10.0.0.9 - - [21/Nov/2026:04:00:00 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \
                     \"-\" {place} {ending} 0 -/-/-/0.1"
                ),
                format!(
                    "{{\"time\":\"2026-11-21T04:00:00Z\",\"service\":\"web\",\"group\":{group},\
                     \"ending\":\"{ending}\"}}"
                ),
            ]
        };
        let server = ("web/near/10.0.0.11:80", "\"near\"");
        for ((place, group), ending, wanted) in [
            (("web/-", "null"), "ruled", AnsweredBy::Edge),
            (("web/-", "null"), "client-bad", AnsweredBy::Edge),
            (("web/-", "null"), "cached", AnsweredBy::Cache),
            (("web/-", "null"), "shed", AnsweredBy::Server),
            (server, "client-bad", AnsweredBy::Server),
            (server, "complete", AnsweredBy::Server),
        ] {
            for line in of(place, group, ending) {
                assert_eq!(parse(&line).map(|it| it.answered_by), Some(wanted), "{line}");
            }
        }
    }

    #[test]
    fn other_lines_are_none_of_an_access_log() {
        for line in ["", "# comment", "{\"level\":\"info\"}", "[21/Nov/2026:04:00:00 +0000] x"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
