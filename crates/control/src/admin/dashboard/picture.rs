//! One picture for each service: a sentence, a bar for each group with its load line, arrows where
//! traffic overflows, the last minutes, and the servers.
//!
//! All bars of a service have one scale, so that their lengths compare. A group limited by rate
//! shows requests per second, one limited by requests in flight alone shows those.

use std::{sync::Arc, time::Duration};

use loadline_core::{
    decide::ending::Ending,
    state::{
        Cluster, Group, GroupAvailability, Part, Server, Service, State,
        words::{Measure, Verdict, number, span},
    },
};
use maud::{Markup, PreEscaped, html};
use tokio::task::yield_now;

use crate::admin::{
    context::{AdminContext, processor_time},
    history::{SAMPLES, Sample},
    metrics::{Extent, Source as _},
};

/// All that changes on the page, and the processor time that it took. With thousands of servers
/// that is long: whatever else there is to do is done between one service and the next.
pub(super) async fn content(context: &Arc<AdminContext>) -> (String, Duration) {
    let survey = context.survey();
    let (mut drawing, mut took) = processor_time(|| Drawing::of(survey.edge()));
    let count = survey.service_count();
    for first in (0..count).step_by(AT_A_TIME) {
        let places = first..count.min(first + AT_A_TIME);
        let (piece, more) = processor_time(|| survey.piece(places, Extent::Measured(Part::Whole)));
        took += more;
        yield_now().await;
        for service in &piece.services {
            let samples = context.samples(&service.name);
            let ((), more) = processor_time(|| drawing.add(service, &samples));
            took += more;
            yield_now().await;
        }
    }
    let (whole, more) = processor_time(|| drawing.whole(!context.site.changes().is_empty()));
    (whole, took + more)
}

/// Services that are asked about at once: each time the place of the first is looked for.
const AT_A_TIME: usize = 8;

/// The content while it is made.
struct Drawing {
    edge: State,
    links: String,
    pictures: String,
}

impl Drawing {
    const fn of(edge: State) -> Self {
        Self { edge, links: String::new(), pictures: String::new() }
    }

    fn add(&mut self, service: &Service, samples: &[Sample]) {
        self.links.push_str(&link(service).into_string());
        let picture = picture(service, self.edge.cluster.as_ref(), samples);
        self.pictures.push_str(&picture.into_string());
    }

    fn whole(self, changed: bool) -> String {
        header(&self.edge, &self.links, changed).into_string() + &self.pictures
    }
}

fn header(state: &State, links: &str, changed: bool) -> Markup {
    html! {
        header {
            h1 { "loadline" }
            span class="faint" { "seen from " (state.region) ", up " (span(state.uptime_s)) }
            @if let Some(cache) = &state.cache { span class="faint" { (cache.sentence()) } }
            @if let Some(forwarding) = &state.forwarding {
                span class="faint" { (forwarding.sentence()) }
            }
            @if let Some(cluster) = &state.cluster { span class="faint" { (cluster.sentence()) } }
            @if state.draining { strong class="bad" { "draining" } }
            @if changed { a id="changed" href="/api/changes" { "changed since the file was read" } }
        }
        nav aria-label="Services" { (PreEscaped(links)) }
    }
}

fn link(service: &Service) -> Markup {
    html! {
        a id={ "to-" (service.name) } href={ "#service-" (service.name) } {
            (service.name) " " (badge(service))
        }
    }
}

fn badge(service: &Service) -> Markup {
    let verdict = service.verdict();
    let class = match verdict {
        Verdict::Closed | Verdict::Refusing | Verdict::Failing => "badge bad",
        Verdict::Maintenance | Verdict::Full | Verdict::Overflowing => "badge over",
        Verdict::Well => "badge good",
    };
    html! { span class=(class) { (verdict.name()) } }
}

fn picture(service: &Service, cluster: Option<&Cluster>, samples: &[Sample]) -> Markup {
    let shared = cluster.and_then(|it| it.sharing_sentence(&service.name));
    let scale = service.groups.iter().map(|it| Measure::of(it).extent()).fold(1e-9, f64::max);
    html! {
        section id={ "service-" (service.name) } aria-label=(service.name) {
            h2 { (service.name) " " (badge(service)) }
            p class="said" { (service.sentence()) }
            @if let Some(told) = service.cache_sentence() { p class="said" { (told) } }
            @if let Some(told) = shared { p class="said" { (told) } }
            @for (index, group) in service.groups.iter().enumerate() {
                @if index > 0 && group.overflow_per_s > 0.0 {
                    p class="arrow" {
                        "↓ " (number(group.overflow_per_s)) "/s overflow to " (group.name)
                    }
                }
                (bar(service, group, scale))
            }
            p class="faint span" { "The last five minutes" }
            div class="lines" {
                (line("requests/s", samples, |it| Some(it.requests_per_s)))
                (line("p50 ms", samples, |it| it.p50_ms))
                (line("p99 ms", samples, |it| it.p99_ms))
                (line("errors/s", samples, |it| Some(it.errors_per_s)))
                (line("waiting", samples, |it| Some(it.queued)))
            }
            (endings(service))
            (reasons(service))
            (servers(service))
        }
    }
}

fn bar(service: &Service, group: &Group, scale: f64) -> Markup {
    let Measure { load, came, limit, unit } = Measure::of(group);
    // A tenth stays free, so that the load line of the largest group can be seen.
    let part = |value: f64| format!("{:.2}%", value / scale * 90.0);
    let told =
        limit.map_or("no limit".to_owned(), |limit| format!("load line {}{unit}", number(limit)));
    let full = if group.is_full() { "bar full" } else { "bar" };
    html! {
        div class="group" {
            div class="name" {
                span {
                    strong { (group.name) } " " span class="faint" { (distance(group)) }
                    (standing(service, group))
                }
                span {
                    (part_of(limit, load)) (number(load)) (unit) " · " (told)
                    (headroom(limit, load, unit))
                }
            }
            div class=(full) role="img" aria-label={ (number(load)) (unit) ", " (told) } {
                span class="own" style={ "width:" (part(load - came)) } {}
                span class="came" style={ "width:" (part(came)) } {}
                @if let Some(limit) = limit { span class="mark" style={ "left:" (part(limit)) } {} }
            }
        }
    }
}

/// Load as a percentage of the limit; nothing without a limit.
fn part_of(limit: Option<f64>, load: f64) -> Markup {
    let part = limit.filter(|limit| *limit > 0.0).map(|limit| load / limit * 100.0);
    html! { @if let Some(part) = part { strong { (format!("{part:.0} %")) } " · " } }
}

fn headroom(limit: Option<f64>, load: f64, unit: &str) -> String {
    let left = limit.map(|limit| (limit - load).max(0.0));
    match left {
        Some(0.0) => " · nothing left".to_owned(),
        left => left.map_or(String::new(), |left| format!(" · {}{unit} left", number(left))),
    }
}

fn distance(group: &Group) -> String {
    match group.distance_ms {
        Some(0.0) => "here".to_owned(),
        Some(ms) => format!("{} ms away", number(ms)),
        None => "distance not measured yet".to_owned(),
    }
}

fn standing(service: &Service, group: &Group) -> Markup {
    match group.standing {
        GroupAvailability::Open if group.limit_found => html! {
            strong class="bad" { " full: more requests at a time bring no more responses" }
        },
        GroupAvailability::Open => html! {},
        GroupAvailability::Yields if group.down() == 0 => html! {
            strong class="over" { " recovering: counts as healthy within 3 s" }
        },
        GroupAvailability::Yields => html! {
            strong class="bad" {
                @if service.passes_over(group) { " yields:" }
                " " (group.down()) " of " (group.servers.len()) " servers down"
            }
        },
        GroupAvailability::Closed => {
            html! { strong class="bad" { " out: no server may take traffic" } }
        }
    }
}

fn line(title: &str, samples: &[Sample], value: fn(&Sample) -> Option<f64>) -> Markup {
    let values = || samples.iter().map(value);
    let top = values().flatten().fold(1e-9, f64::max);
    let first = SAMPLES - samples.len().min(SAMPLES);
    let points = values().enumerate().filter_map(|(at, value)| Some((at + first, value?)));
    let points = thinned(&points.collect::<Vec<_>>(), top);
    let now = values().next_back().flatten().map_or("-".to_owned(), number);
    let area = match (points.first(), points.last()) {
        (Some(first), Some(last)) => {
            let x = |point: &String| point.split(',').next().unwrap_or_default().to_owned();
            format!("{},40 {} {},40", x(first), points.join(" "), x(last))
        }
        _ => String::new(),
    };
    html! {
        figure {
            figcaption { (title) " " strong { (now) } span { "peak " (number(top)) } }
            svg viewBox={ "0 0 " (SAMPLES) " 40" } preserveAspectRatio="none" aria-hidden="true" {
                polygon points=(area) {}
                polyline points=(points.join(" ")) {}
            }
        }
    }
}

/// The points of a line up to `top`: of each span the least and the greatest, and of what is level
/// both ends.
fn thinned(points: &[(usize, f64)], top: f64) -> Vec<String> {
    let order = |one: &&(usize, f64), other: &&(usize, f64)| one.1.total_cmp(&other.1);
    let spans = points.chunk_by(|one, other| one.0 / SPAN == other.0 / SPAN);
    let ends = spans
        .flat_map(|span| span.iter().min_by(order).into_iter().chain(span.iter().max_by(order)));
    let mut wanted: Vec<_> = points.first().into_iter().chain(ends).chain(points.last()).collect();
    wanted.sort_by_key(|(at, _)| *at);
    wanted.dedup();
    let mut drawn: Vec<(usize, String)> = Vec::new();
    for (at, value) in wanted {
        let height = format!("{:.1}", 39.0 - value / top * 37.0);
        match &mut drawn[..] {
            [.., (_, one), (last, other)] if *one == height && *other == height => *last = *at,
            _ => drawn.push((*at, height)),
        }
    }
    drawn.into_iter().map(|(at, height)| format!("{at},{height}")).collect()
}

/// Seconds of which a line shows no more than two.
const SPAN: usize = 8;

/// How requests have ended since the start, and how often each way is now.
fn endings(service: &Service) -> Markup {
    let count = |ending: Ending| service.counts.endings.get(ending.name()).copied().unwrap_or(0);
    let rate = |ending: Ending| service.rates.endings_per_s.get(ending.name()).copied();
    let seen = Ending::ALL.into_iter().filter(|ending| count(*ending) > 0);
    html! {
        ul class="endings" aria-label="Endings since the start" {
            @for ending in seen {
                li class=(if ending.is_failure() { "bad" } else { "faint" }) {
                    (ending.name()) " " strong { (count(ending)) }
                    @if let Some(rate) = rate(ending).filter(|rate| *rate > 0.0) {
                        " (" (number(rate)) "/s)"
                    }
                }
            }
        }
    }
}

/// Why requests, or attempts that were repeated, have failed since the start.
fn reasons(service: &Service) -> Markup {
    html! {
        @if !service.counts.reasons.is_empty() {
            ul class="endings" aria-label="Reasons of failures since the start" {
                @for (reason, count) in &service.counts.reasons {
                    li class="faint" { (reason) " " strong { (count) } }
                }
            }
        }
    }
}

fn servers(service: &Service) -> Markup {
    let rows =
        || service.groups.iter().flat_map(|group| group.servers.iter().map(move |it| (group, it)));
    let well = rows().filter(|(_, it)| it.is_well());
    html! {
        details id={ "servers-" (service.name) } {
            summary { (well.count()) " of " (rows().count()) " servers take part" }
            div class="wide" tabindex="0" id={ "table-" (service.name) } {
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
    html! {
        tr {
            td { (server.address) " " span class="faint" { (group.name) } }
            td class=(if server.is_well() { "good" } else { "bad" }) {
                (server.condition.name())
                @if let Some(reason) = &server.reason { ": " (reason) }
            }
            td { (number(server.load.rate_per_s)) }
            td { (server.load.in_flight) }
            td { (number(server.latency_ms)) }
            td {
                (server.failures)
                @if let Some(last) = &server.last_failure {
                    " " span class="faint" { (last.reason) ", " (span(last.age_s)) " ago" }
                }
            }
            td { (server.ejections) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_whose_servers_are_back_recovers_and_has_none_down() {
        let yields = Group { standing: GroupAvailability::Yields, ..Group::default() };
        let group = Group { servers: vec![Server::default()], ..yields };
        let told = standing(&Service::default(), &group).into_string();
        assert!(told.contains("recovering") && !told.contains("down"), "{told}");
    }

    #[test]
    fn a_level_line_is_two_points() {
        let level: Vec<_> = (0..SAMPLES).map(|at| (at, 40.0)).collect();
        assert_eq!(thinned(&level, 40.0), ["0,2.0", "299,2.0"]);
        assert_eq!(thinned(&level[..1], 40.0), ["0,2.0"]);
        assert!(thinned(&[], 40.0).is_empty());
    }

    #[test]
    fn a_line_of_five_minutes_keeps_its_peaks_and_gaps_in_a_hundred_points_at_most() {
        let value = |at: u16| match at {
            101 => 80.0,
            202 => 0.0,
            _ => 40.0 + f64::from(at % 3),
        };
        let uneven: Vec<_> = (0..300_u16).map(|at| (usize::from(at), value(at))).collect();
        let points = thinned(&uneven, 80.0);
        assert!(points.len() <= 100, "{}", points.len());
        assert!(points.contains(&"101,2.0".to_owned()) && points.contains(&"202,39.0".to_owned()));
        assert!(points[0].starts_with("0,") && points[points.len() - 1].starts_with("299,"));
    }
}
