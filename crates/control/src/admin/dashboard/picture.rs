//! One picture for each service: a sentence, a bar for each group with its load line, arrows where
//! traffic overflows, the last minutes, and the servers.
//!
//! All bars of a service have one scale, so that their lengths compare. A group limited by rate
//! shows requests per second, one limited by requests in flight alone shows those.

use loadline_core::state::{Condition, Group, Server, Service, Standing};
use maud::{Markup, html};

use crate::admin::{
    desk::Desk,
    history::{SAMPLES, Sample},
};

/// All that changes on the page.
pub(super) fn content(desk: &Desk) -> Markup {
    let state = desk.state();
    html! {
        header {
            h1 { "loadline" }
            span class="faint" { "seen from " (state.region) ", up " (span(state.uptime_s)) }
            @if state.draining { strong class="bad" { "draining" } }
            @if !desk.site.changes().is_empty() {
                a href="/api/changes.toml" { "changed since the file was read" }
            }
        }
        @for service in &state.services { (picture(service, &desk.samples(&service.name))) }
    }
}

fn picture(service: &Service, samples: &[Sample]) -> Markup {
    let scale = service.groups.iter().map(|it| Measure::of(it).extent()).fold(1e-9, f64::max);
    html! {
        section aria-label=(service.name) {
            h2 { (service.name) }
            p class="said" { (sentence(service)) }
            @for (index, group) in service.groups.iter().enumerate() {
                @if index > 0 && group.overflow_per_s > 0.0 {
                    p class="arrow" {
                        "↓ " (number(group.overflow_per_s)) "/s overflow to " (group.name)
                    }
                }
                (bar(group, scale))
            }
            div class="lines" {
                (line("requests/s", samples, |it| Some(it.requests_per_s)))
                (line("p50 ms", samples, |it| it.p50_ms))
                (line("p99 ms", samples, |it| it.p99_ms))
                (line("errors/s", samples, |it| Some(it.errors_per_s)))
                (line("waiting", samples, |it| Some(it.queued)))
            }
            (endings(service))
            (servers(service))
        }
    }
}

/// What happens, in words.
fn sentence(service: &Service) -> String {
    let Some(first) = service.groups.first().filter(|_| service.ready) else {
        return "No server may take traffic: every request is refused.".to_owned();
    };
    let rates = &service.rates;
    let come = format!("{}/s come in", number(rates.requests_per_s));
    let goes = match rates.overflow_per_s {
        over if over > 0.0 => {
            format!("{} takes what it may, {}/s overflow", first.name, number(over))
        }
        _ => format!("all go to {}", first.name),
    };
    let left: Option<f64> = service.groups.iter().map(|it| it.headroom.rate_per_s).sum();
    let left = left.map_or(String::new(), |left| format!(" {}/s of headroom left.", number(left)));
    let waiting = match service.queued {
        0 => String::new(),
        n => format!(" {n} of at most {} wait.", service.queue_length),
    };
    format!("{come}: {goes}.{left}{waiting}")
}

/// What is shown of a group, and in which unit.
struct Measure {
    load: f64,
    came: f64,
    limit: Option<f64>,
    unit: &'static str,
}

impl Measure {
    fn of(group: &Group) -> Self {
        match (group.limits.rate_per_s, group.limits.in_flight) {
            (None, Some(places)) => Self {
                load: f64::from(group.load.in_flight),
                came: 0.0,
                limit: Some(f64::from(places)),
                unit: " in flight",
            },
            (rate, _) => Self {
                load: group.load.rate_per_s,
                came: group.overflow_per_s.min(group.load.rate_per_s),
                limit: rate,
                unit: "/s",
            },
        }
    }

    fn extent(&self) -> f64 {
        self.load.max(self.limit.unwrap_or(0.0))
    }
}

fn bar(group: &Group, scale: f64) -> Markup {
    let Measure { load, came, limit, unit } = Measure::of(group);
    // A tenth stays free, so that the load line of the largest group can be seen.
    let part = |value: f64| format!("{:.2}%", value / scale * 90.0);
    let told =
        limit.map_or("no limit".to_owned(), |limit| format!("load line {}{unit}", number(limit)));
    html! {
        div class="group" {
            div class="name" {
                span {
                    strong { (group.name) } " " span class="faint" { (distance(group)) }
                    (standing(group))
                }
                span { (number(load)) (unit) " · " (told) (headroom(limit, load, unit)) }
            }
            div class="bar" role="img" aria-label={ (number(load)) (unit) ", " (told) } {
                span class="own" style={ "width:" (part(load - came)) } {}
                span class="came" style={ "width:" (part(came)) } {}
                @if let Some(limit) = limit { span class="mark" style={ "left:" (part(limit)) } {} }
            }
        }
    }
}

fn headroom(limit: Option<f64>, load: f64, unit: &str) -> String {
    let left = limit.map(|limit| (limit - load).max(0.0));
    left.map_or(String::new(), |left| format!(" · {}{unit} left", number(left)))
}

fn distance(group: &Group) -> String {
    match group.distance_ms {
        Some(0.0) => "here".to_owned(),
        Some(ms) => format!("{} ms away", number(ms)),
        None => "distance not measured yet".to_owned(),
    }
}

fn standing(group: &Group) -> Markup {
    match group.standing {
        Standing::Open => html! {},
        Standing::Yields => html! { strong class="bad" { " yields: too few healthy servers" } },
        Standing::Closed => html! { strong class="bad" { " out: no server may take traffic" } },
    }
}

fn line(title: &str, samples: &[Sample], value: fn(&Sample) -> Option<f64>) -> Markup {
    let values = || samples.iter().map(value);
    let top = values().flatten().fold(1e-9, f64::max);
    let first = SAMPLES - samples.len().min(SAMPLES);
    let points = values().enumerate().filter_map(|(at, value)| Some((at + first, value?)));
    let points: Vec<String> =
        points.map(|(at, value)| format!("{at},{:.1}", 39.0 - value / top * 37.0)).collect();
    let now = values().next_back().flatten().map_or("-".to_owned(), number);
    html! {
        figure {
            figcaption { (title) " " strong { (now) } ", peak " (number(top)) }
            svg viewBox={ "0 0 " (SAMPLES) " 40" } preserveAspectRatio="none" aria-hidden="true" {
                polyline points=(points.join(" ")) {}
            }
        }
    }
}

fn endings(service: &Service) -> Markup {
    let counts = service.counts.endings.iter().filter(|(_, count)| **count > 0);
    html! {
        p class="faint" {
            "Endings: "
            @for (name, count) in counts { (name) " " strong { (count) } "  " }
        }
    }
}

fn servers(service: &Service) -> Markup {
    let rows =
        || service.groups.iter().flat_map(|group| group.servers.iter().map(move |it| (group, it)));
    let well =
        rows().filter(|(_, it)| matches!(it.condition, Condition::Up | Condition::Unchecked));
    html! {
        details id={ "servers-" (service.name) } {
            summary { (well.count()) " of " (rows().count()) " servers take part" }
            div class="wide" {
                table {
                    tr {
                        th { "server" } th { "condition" } th { "requests/s" } th { "in flight" }
                        th { "latency ms" } th { "failed" } th { "ejected" }
                    }
                    @for (group, server) in rows() { (row(group, server)) }
                }
            }
        }
    }
}

fn row(group: &Group, server: &Server) -> Markup {
    let well = matches!(server.condition, Condition::Up | Condition::Unchecked);
    html! {
        tr {
            td { (server.address) " " span class="faint" { (group.name) } }
            td class=(if well { "good" } else { "bad" }) { (server.condition.name()) }
            td { (number(server.load.rate_per_s)) }
            td { (server.load.in_flight) }
            td { (number(server.latency_ms)) }
            td { (server.failures) }
            td { (server.ejections) }
        }
    }
}

/// Three digits are enough for people.
fn number(value: f64) -> String {
    if value < 0.005 {
        "0".to_owned()
    } else if value < 9.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

fn span(seconds: f64) -> String {
    let seconds = seconds as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}
