//! Health checks: request, interval, and how many results change the state.

use loadline_core::{
    fleet::{HealthCheck, HttpVersion, Probe},
    health::advisor::{self as script, Pattern, Script, Transport},
    time::Duration,
};
use loadline_spanned::{At, Key, Problems, Span, Text};

use super::set;
use crate::{
    file::{self, Health, Step},
    value::{
        advisor::{Hex, Said},
        either::TextOrTrue,
    },
};

/// The check a service asks for.
pub(super) fn health(given: &At<Health>, problems: &mut Problems) -> HealthCheck {
    let mut check = HealthCheck {
        probe: probe(given, problems),
        interval: INTERVAL,
        fast_interval: INTERVAL,
        timeout: TIMEOUT,
        rise: RISE,
        fall: FALL,
        lenient: false,
    };
    refuse_without_effect(&given.value, problems);
    times(&given.value, &mut check, problems);
    set(&given.value.rise, |whole| &whole.0, &mut check.rise);
    set(&given.value.fall, |whole| &whole.0, &mut check.fall);
    set(&given.value.lenient, |lenient| lenient, &mut check.lenient);
    check
}

fn probe(given: &At<Health>, problems: &mut Problems) -> Probe {
    let Health { http, grpc, tcp, advisor, script, host, .. } = &given.value;
    let asked = [
        ("http", http.at().map(|at| &at.span)),
        ("grpc", grpc.at().map(|at| &at.span)),
        ("tcp", tcp.at().map(|at| &at.span)),
        ("advisor", advisor.at().map(|at| &at.span)),
        ("script", script.at().map(|at| &at.span)),
    ];
    let mut asked = asked.into_iter().filter_map(|(key, span)| Some((key, span?)));
    if let (Some((first, _)), Some((second, span))) = (asked.next(), asked.next()) {
        let message = format!("a check is either `{first}` or `{second}`");
        let help = match second {
            "tcp" => "an `http` check opens a connection too: leave `tcp` out".to_owned(),
            second => format!("leave `{first}` or `{second}` out"),
        };
        problems.error(span, message, "the second", help);
    }
    let host = || host.get().map(|host| host.0.0.clone());
    if let Some(service) = grpc.get() {
        let service = match service {
            TextOrTrue::Text(service) => service.0.clone(),
            TextOrTrue::True => String::new(),
        };
        return Probe::Grpc { service, host: host() };
    }
    if let Some(path) = http.get() {
        let host = host();
        return Probe::Http { path: path.0.0.clone(), host };
    }
    if let Some(advisor) = advisor.get() {
        return advisor.0.0.probe();
    }
    if let Some(steps) = script.at() {
        return scripted(&given.value, steps, problems);
    }
    if !tcp.given() {
        let message = "a check that asks nothing".to_owned();
        let help =
            "add http = \"/health-check\", grpc = true, tcp = true, an `advisor` or a `script`"
                .to_owned();
        problems.absent(&given.span, &given.span, message, help);
    }
    Probe::Tcp
}

/// Refuses a check by gRPC where requests go to the servers in HTTP/1, which no server of gRPC
/// speaks.
pub(super) fn refuse_grpc(given: &file::Service, version: HttpVersion, problems: &mut Problems) {
    let grpc = given.health.get().and_then(|health| health.grpc.at());
    let Some(grpc) = grpc.filter(|_| version != HttpVersion::Http2) else { return };
    let message = "a check by gRPC with http_version = \"1.1\"".to_owned();
    let help = "gRPC needs HTTP/2: add http_version = \"2\" to the service".to_owned();
    problems.error(&grpc.span, message, "speaks HTTP/2", help);
}

fn scripted(given: &Health, steps: &At<Vec<At<Step>>>, problems: &mut Problems) -> Probe {
    if steps.value.is_empty() {
        let help = "add a step: { expect = \"220\" }, or check with tcp = true".to_owned();
        let message = "a script without a step".to_owned();
        problems.absent(&steps.span, &steps.span, message, help);
    }
    let mut script = Script { transport: Transport::Tcp, steps: Vec::new() };
    set(&given.transport, |word| &word.0.0, &mut script.transport);
    script.steps = steps.value.iter().filter_map(|given| step(given, problems)).collect();
    Probe::Script { name: format!("a script of {} steps", script.steps.len()), script }
}

/// A step that has just one key; the error is noted otherwise.
fn step(given: &At<Step>, problems: &mut Problems) -> Option<script::Step> {
    let text = |key: &Key<Text<Said>>| key.get().map(|text| Pattern::exact(text.0.0.as_bytes()));
    let hex = |key: &Key<Text<Hex>>| key.get().map(|hex| hex.0.0.clone());
    let Step { send, send_hex, expect, expect_hex, contains, contains_hex, reply } = &given.value;
    let send = send.get().map(|text| text.0.0.as_bytes().to_vec());
    let send_hex = send_hex.at().map(|hex| sent(hex, problems));
    let mut steps = [
        send.or(send_hex).map(script::Step::Send),
        text(expect).map(script::Step::Expect),
        hex(expect_hex).map(script::Step::Expect),
        text(contains).map(script::Step::Contains),
        hex(contains_hex).map(script::Step::Contains),
        reply.get().map(|code| script::Step::Reply(Pattern::exact(code.0.0.as_bytes()))),
    ]
    .into_iter()
    .flatten();
    let both_sent = given.value.send.given() && given.value.send_hex.given();
    match (steps.next(), steps.next()) {
        (Some(step), None) if !both_sent => Some(step),
        (first, _) => {
            let what = if first.is_some() { "more than one thing" } else { "nothing" };
            let message = format!("a step that does {what}");
            let help = "give each step one key: { send = \"QUIT\\r\\n\" }, { reply = \"2\" }";
            problems.absent(&given.span, &given.span, message, help.to_owned());
            None
        }
    }
}

/// The bytes of `send_hex`, none of which may be open.
fn sent(hex: &At<Text<Hex>>, problems: &mut Problems) -> Vec<u8> {
    let bytes = hex.value.0.0.bytes();
    if bytes.is_none() {
        let help = "`?` has a meaning only in what is expected".to_owned();
        problems.error(&hex.span, "a byte to send is left open".to_owned(), "this", help);
    }
    bytes.unwrap_or_default()
}

fn times(given: &Health, check: &mut HealthCheck, problems: &mut Problems) {
    set(&given.interval, |time| &time.0.0, &mut check.interval);
    check.fast_interval = check.interval / FAST_DIVISOR;
    set(&given.fast_interval, |time| &time.0.0, &mut check.fast_interval);
    set(&given.timeout, |time| &time.0.0, &mut check.timeout);
    if let Some(fast) = given.fast_interval.at().filter(|_| check.fast_interval > check.interval) {
        let interval = check.interval;
        let message = format!("`fast_interval` is longer than `interval` ({interval})");
        let help = format!("write \"{interval}\" or less");
        problems.error(&fast.span, message, "not fast", help);
    }
}

fn refuse_without_effect(given: &Health, problems: &mut Problems) {
    let mut refuse = |place: Option<&Span>, key: &str, only: &str| {
        let Some(place) = place else { return };
        let message = format!("`{key}` has no effect without `{only}`");
        let help = format!("leave `{key}` out, or check with `{only}`");
        problems.warning(place, message, "no effect", help);
    };
    if !given.http.given() && !given.grpc.given() {
        refuse(given.host.at().map(|at| &at.span), "host", "http");
    }
    if !given.http.given() {
        refuse(given.lenient.at().map(|at| &at.span), "lenient", "http");
    }
    if !given.script.given() {
        refuse(given.transport.at().map(|at| &at.span), "transport", "script");
    }
}

/// Often enough that an outage is seen in `fall` seconds, seldom enough to cost nothing.
const INTERVAL: Duration = Duration::from_secs(1);
/// While a server's state is changing the next response is wanted sooner.
const FAST_DIVISOR: u64 = 4;
/// A healthy server answers a check within any sane round trip plus this.
const TIMEOUT: Duration = Duration::from_millis(500);
/// One good response may be luck.
const RISE: u32 = 2;
/// Two bad ones may be a lost packet and its retransmission.
const FALL: u32 = 3;
