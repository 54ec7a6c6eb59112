//! Formats a line of the access log: `text`, `combined` or `json`.
//!
//! ```text
//! text      2026-11-21T04:00:00.123Z 10.0.0.9:41234 GET "/a?b" HTTP/2.0 200 1324
//!               web/near/10.0.0.11:80 complete 0 0.0 0.2 38.1 38.3      (one line)
//! combined  10.0.0.9 - - [21/Nov/2026:04:00:00 +0000] "GET /a?b HTTP/2.0" 200 1324 "-" "curl/8"
//!               web/near/10.0.0.11:80 complete 0 0.0/0.2/37.9/38.3      (one line)
//! json      {"time":"2026-11-21T04:00:00.123Z","client":"10.0.0.9:41234","method":"GET", ...
//! ```
//! The time is that of the request's head. `-` (in JSON null) stands for what is not known or did
//! not happen: a status the client was not told, a server that was not chosen. Bytes are those sent
//! to the client, heads included. After the [`Ending`](loadline_core::decide::ending::Ending) come
//! further attempts and times in milliseconds. In `text` each counts from the head of the request:
//! to the first pick of a server (time in the queue), to sending, to the head of the response, to
//! the end. In the others they are stretches: queue, connect (from the pick to sending, failed
//! attempts included), first byte (from sending to the head of the response), total. Last comes
//! `reason="..."`: why the request failed, or the last attempt that was repeated; nothing (in JSON
//! null) where none did.
//! Where tracing is on JSON tells the trace as well.

use std::{io::Write as _, net::SocketAddr};

use loadline_core::{
    fleet::{LogField, LogFormat, socket_path},
    time::{Duration, Instant},
};

use super::{
    escape,
    line::{Came, Line},
    stamp::{Stamps, Style},
};

/// Lines in memory.
#[derive(Debug)]
pub struct Writer {
    format: LogFormat,
    fields: Vec<LogField>,
    stamps: Stamps,
    /// What the wall clock shows at [`Instant::ZERO`], in milliseconds since 1970.
    zero: u64,
    out: Vec<u8>,
}

impl Writer {
    /// A writer without a line.
    #[must_use]
    pub fn new(format: LogFormat) -> Self {
        let style = match format {
            LogFormat::Text | LogFormat::Json => Style::Rfc3339,
            LogFormat::Combined => Style::Common,
        };
        Self { format, fields: Vec::new(), stamps: Stamps::new(style), zero: 0, out: Vec::new() }
    }

    /// The same, whose lines say these too.
    #[must_use]
    pub fn telling(self, fields: &[LogField]) -> Self {
        Self { fields: fields.to_vec(), ..self }
    }

    /// Says what the wall clock shows at [`Instant::ZERO`], in milliseconds since 1970.
    pub const fn set_clock(&mut self, zero: u64) {
        self.zero = zero;
    }

    /// How many bytes there are.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks whether there is none")]
    pub const fn len(&self) -> usize {
        self.out.len()
    }

    /// Takes the lines, and begins anew with memory for as many.
    pub fn take(&mut self) -> Vec<u8> {
        let room = self.out.capacity();
        std::mem::replace(&mut self.out, Vec::with_capacity(room))
    }

    /// Adds a line.
    pub fn add(&mut self, line: &Line<'_>) {
        match self.format {
            LogFormat::Text => self.text(line),
            LogFormat::Combined => self.combined(line),
            LogFormat::Json => self.json(line),
        }
        self.out.push(b'\n');
    }

    fn text(&mut self, line: &Line<'_>) {
        self.stamp(line.times.received);
        let out = &mut self.out;
        out.push(b' ');
        address(out, line.client);
        out.push(b' ');
        escape::word(out, or_dash(line.method));
        out.extend_from_slice(b" \"");
        escape::quoted(out, or_dash(line.target));
        out.extend_from_slice(b"\" ");
        out.extend_from_slice(line.version.as_bytes());
        told(out, line);
        let times = &line.times;
        for instant in [times.picked, times.sent, times.answered, Some(times.ended)] {
            out.push(b' ');
            millis(out, instant.map(|instant| instant.since(times.received)), b"-");
        }
        self.rest(line);
    }

    fn combined(&mut self, line: &Line<'_>) {
        ip(&mut self.out, line.client);
        self.out.extend_from_slice(b" - ");
        escape::word(&mut self.out, or_dash(line.came.user));
        self.out.extend_from_slice(b" [");
        self.stamp(line.times.received);
        let out = &mut self.out;
        out.extend_from_slice(b"] \"");
        escape::quoted(out, or_dash(line.method));
        out.push(b' ');
        escape::quoted(out, or_dash(line.target));
        out.push(b' ');
        out.extend_from_slice(line.version.as_bytes());
        out.push(b'"');
        status(out, line.status, b"-");
        number(out, line.bytes);
        for header in [line.referer, line.agent] {
            out.extend_from_slice(b" \"");
            escape::quoted(out, or_dash(header));
            out.push(b'"');
        }
        out.push(b' ');
        place(out, line);
        for (index, time) in stretches(line).into_iter().enumerate() {
            out.push(if index == 0 { b' ' } else { b'/' });
            millis(out, time, b"-");
        }
        self.rest(line);
    }

    fn json(&mut self, line: &Line<'_>) {
        self.out.extend_from_slice(b"{\"time\":\"");
        self.stamp(line.times.received);
        let out = &mut self.out;
        out.extend_from_slice(b"\",\"client\":\"");
        address(out, line.client);
        out.push(b'"');
        let version = if line.version == "-" { "" } else { line.version };
        member(out, "method", line.method);
        member(out, "target", line.target);
        member(out, "version", version.as_bytes());
        out.extend_from_slice(b",\"status\":");
        status(out, line.status, b"null");
        out.extend_from_slice(b"\"bytes\":");
        number(out, line.bytes);
        member(out, "service", line.service.as_bytes());
        member(out, "group", line.server.map_or("", |(group, _)| group).as_bytes());
        out.extend_from_slice(b",\"server\":");
        match line.server {
            Some((_, server)) => {
                out.push(b'"');
                match socket_path(server) {
                    Some(path) => escape::json(out, format!("unix:{path}").as_bytes()),
                    None => address(out, server),
                }
                out.push(b'"');
            }
            None => out.extend_from_slice(b"null"),
        }
        member(out, "ending", line.ending.name().as_bytes());
        member(out, "reason", line.reason.as_bytes());
        out.extend_from_slice(b",\"retries\":");
        number(out, u64::from(line.retries));
        for (name, time) in STRETCHES.into_iter().zip(stretches(line)) {
            out.extend_from_slice(name);
            millis(out, time, b"null");
        }
        member(out, "referer", line.referer);
        member(out, "user_agent", line.agent);
        if let Some(trace) = line.trace {
            // Writing into memory cannot fail.
            let _ = write!(out, ",\"trace_id\":\"{trace}\"");
        }
        for field in &self.fields {
            field_of(*field, &line.came, |value| member(out, field.name(), value));
        }
        out.push(b'}');
    }

    /// What the file asks for, each by its name, and why the request failed.
    fn rest(&mut self, line: &Line<'_>) {
        let out = &mut self.out;
        for field in &self.fields {
            field_of(*field, &line.came, |value| named(out, field.name(), value));
        }
        named(out, "reason", line.reason.as_bytes());
    }

    fn stamp(&mut self, at: Instant) {
        let millis = self.zero + at.since(Instant::ZERO).as_nanos() / 1_000_000;
        self.stamps.add(&mut self.out, millis);
    }
}

/// What became of the request, in the words of the text format.
fn told(out: &mut Vec<u8>, line: &Line<'_>) {
    status(out, line.status, b"-");
    number(out, line.bytes);
    out.push(b' ');
    place(out, line);
}

/// Service, group and server, how it ended, and further attempts.
fn place(out: &mut Vec<u8>, line: &Line<'_>) {
    escape::word(out, line.service.as_bytes());
    out.push(b'/');
    match line.server {
        Some((group, server)) => {
            escape::word(out, group.as_bytes());
            out.push(b'/');
            address(out, server);
        }
        None => out.push(b'-'),
    }
    out.push(b' ');
    out.extend_from_slice(line.ending.name().as_bytes());
    out.push(b' ');
    number(out, u64::from(line.retries));
}

/// A value by its name; nothing where there is none.
fn named(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    if !value.is_empty() {
        out.push(b' ');
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"=\"");
        escape::quoted(out, value);
        out.push(b'"');
    }
}

/// Gives the value of a field to `write`; an empty one where it is not known.
fn field_of(field: LogField, came: &Came<'_>, write: impl FnOnce(&[u8])) {
    match field {
        LogField::Host => write(came.host),
        LogField::Scheme => write(came.scheme.as_bytes()),
        LogField::Listener => {
            let mut text = Vec::new();
            came.listener.into_iter().for_each(|listener| address(&mut text, listener));
            write(&text);
        }
        LogField::ServerName => write(came.server_name.as_bytes()),
        LogField::TlsVersion => write(came.tls_version.as_bytes()),
        LogField::TlsCipher => write(came.tls_cipher.as_bytes()),
        LogField::ClientCertificate => write(came.client_certificate.as_bytes()),
        LogField::RequestId => write(came.request_id),
        LogField::Cache => write(came.cache.as_bytes()),
        LogField::User => write(came.user),
        LogField::OverflowReason => write(came.overflow_reason.as_bytes()),
    }
}

fn stretches(line: &Line<'_>) -> [Option<Duration>; 4] {
    let times = &line.times;
    [times.queue(), times.connect(), times.first_byte(), Some(times.total())]
}

fn or_dash(bytes: &[u8]) -> &[u8] {
    if bytes.is_empty() { b"-" } else { bytes }
}

/// A member of a JSON object that is not the first: a string, null where empty.
fn member(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    if value.is_empty() {
        return out.extend_from_slice(b"\":null");
    }
    out.extend_from_slice(b"\":\"");
    escape::json(out, value);
    out.push(b'"');
}

/// A status and what parts it from what follows.
fn status(out: &mut Vec<u8>, status: u16, none: &[u8]) {
    let json = none == b"null";
    if !json {
        out.push(b' ');
    }
    match status {
        0 => out.extend_from_slice(none),
        status => number(out, u64::from(status)),
    }
    out.push(if json { b',' } else { b' ' });
}

fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Milliseconds with one decimal.
fn millis(out: &mut Vec<u8>, time: Option<Duration>, none: &[u8]) {
    let Some(time) = time else { return out.extend_from_slice(none) };
    let tenths = (time.as_nanos() + 50_000) / 100_000;
    number(out, tenths / 10);
    out.extend_from_slice(&[b'.', b'0' + (tenths % 10) as u8]);
}

fn address(out: &mut Vec<u8>, address: SocketAddr) {
    if let Some(path) = socket_path(address) {
        out.extend_from_slice(b"unix:");
        return escape::word(out, path.as_bytes());
    }
    match address {
        SocketAddr::V4(_) => ip(out, address),
        // Writing into memory cannot fail.
        SocketAddr::V6(_) => drop(write!(out, "[{}]", address.ip())),
    }
    out.push(b':');
    number(out, u64::from(address.port()));
}

fn ip(out: &mut Vec<u8>, address: SocketAddr) {
    match address {
        SocketAddr::V4(address) => {
            for (index, part) in address.ip().octets().into_iter().enumerate() {
                if index > 0 {
                    out.push(b'.');
                }
                number(out, u64::from(part));
            }
        }
        SocketAddr::V6(address) => drop(write!(out, "{}", address.ip())),
    }
}

/// How the stretches are called in JSON, with what stands before and behind the name.
const STRETCHES: [&[u8]; 4] =
    [b",\"queue_ms\":", b",\"connect_ms\":", b",\"first_byte_ms\":", b",\"total_ms\":"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::access_log::Times;
    use loadline_core::decide::{ending::Ending, overflow_reason::OverflowReason};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn line<'a>(target: &'a [u8], agent: &'a [u8]) -> Line<'a> {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        Line {
            client: SocketAddr::from(([10, 0, 0, 9], 4000)),
            method: b"GET",
            target,
            version: "HTTP/1.1",
            referer: b"",
            agent,
            status: 200,
            bytes: 1324,
            service: "web",
            server: Some(("near", SocketAddr::from(([10, 0, 0, 1], 80)))),
            ending: Ending::Complete,
            reason: "",
            retries: 1,
            times: Times {
                received: at(10),
                picked: Some(at(10)),
                sent: None,
                answered: Some(at(48)),
                ended: at(49),
                ..Times::default()
            },
            trace: None,
            came: Came::default(),
        }
    }

    fn written(format: LogFormat, line: &Line<'_>) -> String {
        let mut writer = Writer::new(format);
        writer.set_clock(1_795_233_590_000);
        writer.add(line);
        String::from_utf8(writer.take()).unwrap()
    }

    #[test]
    fn a_line_says_what_happened_and_when() {
        let line = line(b"/a", b"curl/8");
        let expected = "2026-11-21T03:59:50.010Z 10.0.0.9:4000 GET \"/a\" HTTP/1.1 200 1324 \
             web/near/10.0.0.1:80 complete 1 0.0 - 38.0 39.0\n";
        assert_eq!(written(LogFormat::Text, &line), expected);
        let expected = "10.0.0.9 - - [21/Nov/2026:03:59:50 +0000] \"GET /a HTTP/1.1\" 200 1324 \
             \"-\" \"curl/8\" web/near/10.0.0.1:80 complete 1 0.0/-/-/39.0\n";
        assert_eq!(written(LogFormat::Combined, &line), expected);
        let expected = json!({
            "time": "2026-11-21T03:59:50.010Z", "client": "10.0.0.9:4000", "method": "GET",
            "target": "/a", "version": "HTTP/1.1", "status": 200, "bytes": 1324,
            "service": "web", "group": "near", "server": "10.0.0.1:80", "ending": "complete",
            "reason": null, "retries": 1, "queue_ms": 0.0, "connect_ms": null,
            "first_byte_ms": null, "total_ms": 39.0, "referer": null, "user_agent": "curl/8",
        });
        let json: Value = serde_json::from_str(&written(LogFormat::Json, &line)).unwrap();
        assert_eq!(json, expected);
    }

    #[test]
    fn the_page_on_operation_has_every_member_of_a_line() {
        let page = include_str!("../../../../../docs/operation.md");
        let (_, section) = page.split_once("\n### JSON\n").unwrap();
        let (_, shown) = section.split_once("```json\n").unwrap();
        let (shown, table) = shown.split_once("```\n").unwrap();
        let told: Value = serde_json::from_str(shown).unwrap();
        let fields = LogField::ALL.into_iter().filter(|field| !field.is_made());
        let mut writer = Writer::new(LogFormat::Json).telling(&fields.collect::<Vec<_>>());
        writer.add(&line(b"/a", b"curl/8"));
        let written: Value = serde_json::from_slice(&writer.take()).unwrap();
        let members = |line: &Value| line.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let told = members(&told);
        let lost = told.iter().find(|it| !table.contains(&format!("`{it}`")));
        assert_eq!(lost, None, "the table has all of them");
        // There is a trace where spans are made, and none here.
        let told: Vec<_> = told.into_iter().filter(|it| it != "trace_id").collect();
        assert_eq!(told, members(&written));
    }

    #[test]
    fn a_line_says_why_a_request_failed() {
        let line = Line { reason: "connection refused", ..line(b"/a", b"curl/8") };
        for format in [LogFormat::Text, LogFormat::Combined] {
            assert!(written(format, &line).ends_with("39.0 reason=\"connection refused\"\n"));
        }
        let json: Value = serde_json::from_str(&written(LogFormat::Json, &line)).unwrap();
        assert_eq!(json["reason"], "connection refused");
    }

    #[test]
    fn a_line_says_why_a_request_went_past_the_nearest_group_where_it_is_asked_to() {
        let told = |format, overflow_reason| {
            let came = Came { overflow_reason, ..Came::default() };
            let mut writer = Writer::new(format).telling(&[LogField::OverflowReason]);
            writer.add(&Line { came, ..line(b"/a", b"curl/8") });
            String::from_utf8(writer.take()).unwrap()
        };
        for format in [LogFormat::Text, LogFormat::Combined] {
            assert!(told(format, "max-rate").ends_with("39.0 overflow_reason=\"max-rate\"\n"));
            assert!(told(format, "").ends_with("39.0\n"));
        }
        for (reason, member) in [("max-rate", json!("max-rate")), ("", Value::Null)] {
            let json: Value = serde_json::from_str(&told(LogFormat::Json, reason)).unwrap();
            assert_eq!(json["overflow_reason"], member);
        }
    }

    #[test]
    fn the_page_on_operation_has_every_reason_of_overflow() {
        let page = include_str!("../../../../../docs/operation.md");
        for reason in OverflowReason::ALL {
            let row = format!("\n| `{}` | ", reason.name());
            assert_eq!(page.matches(&row).count(), 1, "{row}");
        }
    }

    #[test]
    fn a_line_says_how_a_request_came_where_it_is_asked_to() {
        let came = Came {
            host: b"a.test",
            scheme: "https",
            listener: Some(SocketAddr::from(([0, 0, 0, 0], 443))),
            client_certificate: "CN=a\\, b",
            ..Came::default()
        };
        let line = Line { came, ..line(b"/a", b"curl/8") };
        let told = |format| {
            let mut writer = Writer::new(format).telling(&LogField::ALL);
            writer.add(&line);
            String::from_utf8(writer.take()).unwrap()
        };
        let expected = " host=\"a.test\" scheme=\"https\" listener=\"0.0.0.0:443\" \
             client_certificate=\"CN=a\\\\, b\"\n";
        assert!(told(LogFormat::Text).ends_with(expected), "{}", told(LogFormat::Text));
        let json: Value = serde_json::from_str(&told(LogFormat::Json)).unwrap();
        assert_eq!((&json["host"], &json["listener"]), (&json!("a.test"), &json!("0.0.0.0:443")));
        assert_eq!(
            (&json["client_certificate"], &json["tls_version"]),
            (&json!("CN=a\\, b"), &Value::Null)
        );
        assert!(!written(LogFormat::Text, &line).contains("a.test"));
    }

    #[test]
    fn what_did_not_happen_is_told_as_such() {
        let line = Line {
            client: "[2001:db8::1]:9".parse().unwrap(),
            method: b"",
            version: "-",
            status: 0,
            server: None,
            times: Times::default(),
            ..line(b"", b"")
        };
        let text = written(LogFormat::Text, &line);
        assert!(text.ends_with(" [2001:db8::1]:9 - \"-\" - - 1324 web/- complete 1 - - - 0.0\n"));
        let combined = written(LogFormat::Combined, &line);
        assert!(combined.starts_with("2001:db8::1 - - [") && combined.contains("\"- - -\" - 1324"));
        let json: Value = serde_json::from_str(&written(LogFormat::Json, &line)).unwrap();
        for key in ["method", "target", "version", "status", "group", "server", "queue_ms"] {
            assert_eq!(json[key], Value::Null, "{key}");
        }
    }

    /// Between its quotes, what the text formats made of bytes.
    fn unquoted(text: &str) -> Vec<u8> {
        let (mut bytes, mut rest) = (Vec::new(), text.bytes());
        while let Some(byte) = rest.next() {
            bytes.push(match (byte, rest.len()) {
                (b'\\', _) => match rest.next().unwrap() {
                    b'x' => {
                        let digits = [rest.next().unwrap(), rest.next().unwrap()];
                        u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                    }
                    escaped => escaped,
                },
                _ => byte,
            });
        }
        bytes
    }

    proptest! {
        /// Whatever clients send, a line stays one line of printable ASCII with the same parts, and
        /// what was sent can be read from it.
        #[test]
        fn nobody_forges_a_line(
            target in proptest::collection::vec(any::<u8>(), 1..40),
            agent in proptest::collection::vec(any::<u8>(), 1..40),
        ) {
            let line = line(&target, &agent);
            for format in [LogFormat::Text, LogFormat::Combined, LogFormat::Json] {
                let text = written(format, &line);
                let body = text.strip_suffix('\n').unwrap();
                prop_assert!(body.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{body:?}");
            }
            let json: Value = serde_json::from_str(&written(LogFormat::Json, &line)).unwrap();
            prop_assert_eq!(&json["target"], &String::from_utf8_lossy(&target).into_owned());
            prop_assert_eq!(&json["user_agent"], &String::from_utf8_lossy(&agent).into_owned());
            let text = written(LogFormat::Text, &line);
            let inside = text.split_once("GET \"").unwrap().1;
            let inside = inside.rsplit_once("\" HTTP/1.1 200").unwrap().0;
            prop_assert_eq!(&unquoted(inside), &target);
            let text = written(LogFormat::Combined, &line);
            let inside = text.rsplit_once("\" web/near").unwrap().0;
            let quote = format!(" \"{}", String::from_utf8({
                let mut out = Vec::new();
                escape::quoted(&mut out, &agent);
                out
            }).unwrap());
            prop_assert!(inside.ends_with(&quote));
        }
    }
}
