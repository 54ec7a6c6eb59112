//! The view: a line about the edge; for each service a sentence, a bar for each group, its servers
//! and how its requests end; a line of keys.
//!
//! Everything is made as lines first, so that what does not fit can be scrolled and printed.

use loadline_core::state::{
    Group, GroupAvailability, Server, Service,
    words::{Measure, Verdict, number, span},
};
use ratatui::{
    Frame,
    layout::{Constraint, Layout},
    style::{Color, Style, Stylize as _},
    text::{Line, Span},
    widgets::{Paragraph, Wrap},
};

use super::watcher::Watcher;

/// Draws everything; `watcher` is told where scrolling ends.
pub(super) fn draw(frame: &mut Frame<'_>, watcher: &mut Watcher) {
    let areas = [Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)];
    let [top, middle, bottom] = Layout::vertical(areas).areas(frame.area());
    frame.render_widget(headline(watcher), top);
    if watcher.shows_help {
        frame.render_widget(Paragraph::new(HELP).wrap(Wrap { trim: false }), middle);
    } else {
        let lines = body(watcher, middle.width);
        let most = lines.len().saturating_sub(usize::from(middle.height));
        watcher.scroll = watcher.scroll.min(most);
        let seen: Vec<_> = lines.into_iter().skip(watcher.scroll).collect();
        frame.render_widget(Paragraph::new(seen), middle);
    }
    frame.render_widget(footline(watcher), bottom);
}

/// Everything as text, without colours.
pub(super) fn page(watcher: &Watcher, width: u16) -> String {
    let lines = std::iter::once(headline(watcher)).chain(body(watcher, width));
    lines.map(|line| format!("{}\n", line.to_string().trim_end())).collect()
}

fn headline(watcher: &Watcher) -> Line<'static> {
    let state = &watcher.state;
    // A narrow terminal cuts the end off: what matters most comes first.
    let mut line = vec!["loadline".bold()];
    if state.draining {
        line.push("  draining".red().bold());
    }
    if watcher.is_paused() {
        line.push("  paused".yellow().bold());
    }
    if let Some(failure) = &watcher.failure {
        line.push(format!("  no news: {failure}").red().bold());
    }
    line.push(format!("  {}  up {}", state.region, span(state.uptime_s)).into());
    if let Some(cache) = &state.cache {
        line.push(format!("  {}", cache.sentence()).into());
    }
    if let Some(forwarding) = &state.forwarding {
        line.push(format!("  {}", forwarding.sentence()).into());
    }
    if let Some(cluster) = &state.cluster {
        line.push(format!("  {}", cluster.sentence()).into());
    }
    line.into()
}

fn footline(watcher: &Watcher) -> Line<'static> {
    if watcher.is_typing {
        return Line::from(format!("filter: {}_   Enter keeps it, Esc clears it", watcher.filter));
    }
    let order = watcher.order.name();
    let filter = match watcher.filter.as_str() {
        "" => "/ filter".to_owned(),
        filter => format!("/ filter: {filter}"),
    };
    let keys = format!("q quit  space pause  s sort: {order}  {filter}  v servers  ? help");
    Line::from(keys).dark_gray()
}

fn body(watcher: &Watcher, width: u16) -> Vec<Line<'static>> {
    let services = watcher.services();
    if services.is_empty() {
        return vec![Line::default(), "Nothing has this name.".into()];
    }
    let width = usize::from(width);
    let (cluster, forwarding) = (watcher.state.cluster.as_ref(), watcher.state.forwarding.as_ref());
    let told = |service: &Service| {
        let shared = cluster.and_then(|it| it.sharing_sentence(&service.name));
        let forwarded = forwarding.and_then(|it| it.service_sentence(&service.name));
        shared.into_iter().chain(forwarded).collect::<Vec<_>>()
    };
    let picture = |service| picture(service, told(service), width, watcher.shows_servers);
    services.into_iter().flat_map(picture).collect()
}

/// A service; `told` says what this edge may use of it, if it is one of several, and that packets
/// of it are forwarded.
fn picture(
    service: &Service,
    told: Vec<String>,
    width: usize,
    with_servers: bool,
) -> Vec<Line<'static>> {
    let verdict = service.verdict();
    let mut lines = vec![
        Line::default(),
        vec![service.name.clone().bold(), "  ".into(), verdict.name().fg(colour(verdict)).bold()]
            .into(),
    ];
    lines.extend(wrapped(&service.sentence(), width).into_iter().map(Line::from));
    let told = service.cache_sentence().into_iter().chain(told);
    lines.extend(told.flat_map(|told| wrapped(&told, width)).map(Line::from));
    lines.push(figures(service));
    let scale = service.groups.iter().map(|it| Measure::of(it).extent()).fold(1e-9, f64::max);
    for (index, group) in service.groups.iter().enumerate() {
        if index > 0 && group.overflow_per_s > 0.0 {
            let arrow = format!("  ↓ {}/s overflow", number(group.overflow_per_s));
            lines.push(arrow.fg(OVERFLOW).into());
        }
        lines.push(bar(service, group, scale, width));
        if with_servers {
            lines.extend(group.servers.iter().flat_map(|it| server(it, width)));
        }
    }
    lines.extend(endings(service));
    lines
}

fn figures(service: &Service) -> Line<'static> {
    let rates = &service.rates;
    let ms = |value: Option<f64>| value.map_or("-".to_owned(), number);
    let mut text = format!(
        "{}/s  p50 {} ms  p99 {} ms  retries {}/s",
        number(rates.requests_per_s),
        ms(rates.p50_ms),
        ms(rates.p99_ms),
        number(rates.retries_per_s),
    );
    if service.queue_length > 0 {
        text.push_str(&format!("  waiting {} of {}", service.queued, service.queue_length));
    }
    Line::from(text).dark_gray()
}

/// Name, bar and figures of a group. On a narrow terminal the bar gives way.
fn bar(service: &Service, group: &Group, scale: f64, width: usize) -> Line<'static> {
    let measure = Measure::of(group);
    let name = format!("{:<14} ", cut(&group.name, 14));
    let figures = match measure.limit {
        Some(limit) if limit > 0.0 => {
            let part = measure.load / limit * 100.0;
            let of = format!("{} of {}{}", number(measure.load), number(limit), measure.unit);
            format!(" {part:>4.0} %  {of}")
        }
        _ => format!(" {}{}", number(measure.load), measure.unit),
    };
    let cells = width.saturating_sub(name.chars().count() + FIGURES).min(CELLS_MAX);
    let mut spans = vec![name.into()];
    spans.extend(cells_of(&measure, group, scale, cells));
    let style = if group.is_full() { Style::new().red().bold() } else { Style::new() };
    spans.push(Span::styled(figures, style));
    match group.standing {
        GroupAvailability::Open if group.limit_found => spans.push("  limit found".red().bold()),
        GroupAvailability::Open => {}
        GroupAvailability::Yields => spans.push(yields(service, group)),
        GroupAvailability::Closed => spans.push("  out".red().bold()),
    }
    spans.into()
}

fn yields(service: &Service, group: &Group) -> Span<'static> {
    if group.down() == 0 {
        return "  recovering".fg(OVERFLOW).bold();
    }
    match service.passes_over(group) {
        true => "  yields".red().bold(),
        false => format!("  {} of {} down", group.down(), group.servers.len()).red().bold(),
    }
}

/// The bar: what is its own, what came over from nearer groups, and the mark.
fn cells_of(measure: &Measure, group: &Group, scale: f64, cells: usize) -> Vec<Span<'static>> {
    if cells < CELLS_MIN {
        return Vec::new();
    }
    // The last cell is for the mark of the largest group.
    let at = |value: f64| (value / scale * (cells - 1) as f64).round() as usize;
    let (own, all) = (at(measure.load - measure.came), at(measure.load));
    let mark = measure.limit.map(at);
    let colour = if group.is_full() { Color::LightRed } else { Color::Blue };
    (0..cells)
        .map(|cell| match cell {
            cell if mark == Some(cell) => "┃".red().bold(),
            cell if cell < own => "█".fg(colour),
            cell if cell < all => "▓".fg(OVERFLOW),
            _ => "·".dark_gray(),
        })
        .collect()
}

/// A server; why it is as it is comes behind its figures, or below where that is too wide.
fn server(server: &Server, width: usize) -> Vec<Line<'static>> {
    let condition = format!("{:<9}", server.condition.name());
    let condition = if server.is_well() { condition.green() } else { condition.red().bold() };
    let figures = format!(
        " {:>6}/s {:>5} in flight {:>6} ms {:>4} failed",
        number(server.load.rate_per_s),
        server.load.in_flight,
        number(server.latency_ms),
        server.failures,
    );
    let spans = vec![format!("  {:<21} ", server.address).into(), condition, figures.into()];
    let mut line = Line::from(spans);
    let Some(reason) = &server.reason else { return vec![line] };
    let behind = format!("  {reason}");
    if line.width() + behind.chars().count() <= width {
        line.push_span(behind.red());
        return vec![line];
    }
    let below = wrapped(reason, width.saturating_sub(REASON.len()));
    let below = below.into_iter().map(|part| Line::from(format!("{REASON}{part}").red()));
    std::iter::once(line).chain(below).collect()
}

/// How requests end now, where some fail.
fn endings(service: &Service) -> Option<Line<'static>> {
    let failures: Vec<String> = service
        .failures()
        .map(|(ending, rate)| format!("{} {}/s", ending.name(), number(rate)))
        .collect();
    (!failures.is_empty()).then(|| Line::from(format!("errors: {}", failures.join("  "))).red())
}

const fn colour(verdict: Verdict) -> Color {
    match verdict {
        Verdict::Closed | Verdict::Refusing | Verdict::Failing => Color::Red,
        Verdict::Maintenance | Verdict::Full | Verdict::Overflowing => OVERFLOW,
        Verdict::Well => Color::Green,
    }
}

/// A text broken between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is one from the start");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

fn cut(name: &str, width: usize) -> String {
    crate::commands::series::shortened(name, width)
}

/// What overflows.
const OVERFLOW: Color = Color::Yellow;

/// Room for the figures behind a bar.
const FIGURES: usize = 32;

/// Before a reason that has lines of its own.
const REASON: &str = "    ";

/// A shorter bar says nothing.
const CELLS_MIN: usize = 8;

/// A longer bar says no more.
const CELLS_MAX: usize = 100;

const HELP: &str = "
Each service: how it is, where its traffic goes and why, and a bar for each group in the order in
which they are filled.

  █ load of its own   ▓ load that overflowed from nearer groups   ┃ load line

  q, Esc   quit                    s   order: file, fullness, rate, errors
  space    pause and go on         /   filter by name of service or group
  v        servers on and off      ↑ ↓ PgUp PgDn Home   scroll

Any key goes back.";

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_core::{
        decide::census::Condition,
        state::{
            Cache, Cluster, Forwarding, Frontend, Limits, Load, ServiceCounter, SharedGroup,
            SharedService, Sharing, State,
        },
    };
    use ratatui::{Terminal, backend::TestBackend, crossterm::event::KeyCode};

    fn group(name: &str, load: f64, limit: f64, overflow: f64) -> Group {
        let server = Server {
            address: "10.0.0.1:80".to_owned(),
            condition: Condition::Up,
            load: Load { rate_per_s: load, in_flight: 3, utilization: None },
            latency_ms: 38.4,
            ..Server::default()
        };
        Group {
            name: name.to_owned(),
            standing: GroupAvailability::Open,
            load: Load { rate_per_s: load, ..Load::default() },
            limits: Limits { rate_per_s: Some(limit), ..Limits::default() },
            headroom: Limits { rate_per_s: Some(limit - load), ..Limits::default() },
            fullness: Some(load / limit),
            overflow_per_s: overflow,
            servers: vec![server],
            ..Group::default()
        }
    }

    fn watcher() -> Watcher {
        let groups =
            vec![group("europe-west3", 50.0, 50.0, 0.0), group("us-central1", 25.0, 80.0, 25.0)];
        let mut web = Service { name: "web".to_owned(), ready: true, groups, ..Service::default() };
        web.rates.requests_per_s = 75.0;
        web.rates.overflow_per_s = 25.0;
        web.rates.p50_ms = Some(38.4);
        let state = State { region: "europe-west3".to_owned(), uptime_s: 75.0, ..State::default() };
        Watcher::new(State { services: vec![web], ..state })
    }

    fn drawn(watcher: &mut Watcher, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, watcher)).unwrap();
        let buffer = terminal.backend().buffer();
        let rows = buffer.content().chunks(usize::from(width));
        let text = |row: &[ratatui::buffer::Cell]| {
            row.iter().map(ratatui::buffer::Cell::symbol).collect::<String>()
        };
        rows.map(|row| text(row).trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn a_terminal_shows_where_traffic_goes_and_how_far_it_is_from_the_line() {
        assert_eq!(drawn(&mut watcher(), 80, 12), WIDE);
    }

    #[test]
    fn a_small_terminal_leaves_bars_out_and_scrolls() {
        let mut watcher = watcher();
        watcher.shows_servers = false;
        watcher.scroll = 99;
        assert_eq!(drawn(&mut watcher, 44, 6), NARROW);
        drawn(&mut watcher, 1, 1);
        drawn(&mut watcher, 3, 2);
    }

    #[test]
    fn what_the_cache_does_is_told_of_the_edge_and_of_each_service() {
        let mut watcher = watcher();
        let (bytes, memory_bytes) = (12_000_000, 256_000_000);
        watcher.state.cache = Some(Cache { objects: 40, bytes, memory_bytes, ..Cache::default() });
        let counters = &mut watcher.state.services[0].counts.counters;
        counters[ServiceCounter::CacheHits] = 3;
        counters[ServiceCounter::CacheMisses] = 1;
        let text = drawn(&mut watcher, 100, 20);
        let first = "loadline  europe-west3  up 1 min  cache: 40 objects, 12 of 256 MB\n";
        assert!(text.starts_with(first), "{text}");
        let told = "\nThe cache answers 75.0 % of the requests to routes with a cache; 0 stale, 0 \
                    collapsed.\n";
        assert!(text.contains(told), "{text}");
    }

    #[test]
    fn packets_that_are_forwarded_are_told_of_the_edge_and_of_each_service() {
        let mut watcher = watcher();
        let (service, method) = ("web".to_owned(), "mac".to_owned());
        let frontends = vec![Frontend { service, method, ..Frontend::default() }];
        let mut forwarding = Forwarding { frontends, ..Forwarding::default() };
        forwarding.rates.packets_per_s = 25.0;
        watcher.state.forwarding = Some(forwarding);
        let text = page(&watcher, 100);
        assert!(text.contains("  forwarding: 25 packets/s, 0 connections/s\n"), "{text}");
        assert!(text.contains("\nPackets that go on by mac are not counted here"), "{text}");
    }

    #[test]
    fn an_edge_of_several_shows_what_it_may_use() {
        let mut watcher = watcher();
        let group = SharedGroup { name: "us-central1".to_owned(), share: 0.4 };
        let groups = vec![group];
        let service = SharedService { name: "web".to_owned(), demand: 75.0, groups };
        let sharing = Sharing { leased: true, services: vec![service], ..Sharing::default() };
        let cluster = Cluster { edges: 3, sharing: Some(sharing), ..Cluster::default() };
        watcher.state.cluster = Some(cluster);
        let text = drawn(&mut watcher, 80, 20);
        assert!(text.starts_with("loadline  europe-west3  up 1 min  cluster: 3 edges\n"), "{text}");
        assert!(
            text.contains("\nThis edge may use 40 % of us-central1; 75/s come to it.\n"),
            "{text}"
        );
    }

    #[test]
    fn a_group_yields_to_another_and_alone_has_servers_that_are_down() {
        let mut watcher = watcher();
        watcher.shows_servers = false;
        let near = &mut watcher.state.services[0].groups[0];
        near.standing = GroupAvailability::Yields;
        near.servers[0].condition = Condition::Down;
        let text = drawn(&mut watcher, 80, 20);
        assert!(text.contains("50 of 50/s  yields\n"), "{text}");
        watcher.state.services[0].groups.truncate(1);
        let text = drawn(&mut watcher, 80, 20);
        assert!(text.contains("50 of 50/s  1 of 1 down\n"), "{text}");
        watcher.state.services[0].groups[0].servers[0].condition = Condition::Up;
        let text = drawn(&mut watcher, 80, 20);
        assert!(text.contains("50 of 50/s  recovering\n"), "for 3 s: {text}");
    }

    #[test]
    fn help_filter_pause_and_failure_are_told() {
        let mut watcher = watcher();
        watcher.shows_help = true;
        assert!(drawn(&mut watcher, 100, 20).contains("┃ load line"));
        watcher.shows_help = false;
        watcher.filter = "nothing".to_owned();
        watcher.take(Err(anyhow::anyhow!("connection refused")));
        let text = drawn(&mut watcher, 100, 5);
        assert!(text.contains("Nothing has this name") && text.contains("no news: connection"));
    }

    #[test]
    fn a_page_fits_eighty_columns() {
        let page = page(&watcher(), 80);
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        assert!(page.contains("50 of 50/s"), "{page}");
    }

    #[test]
    fn why_a_server_is_down_is_told_below_it_where_a_terminal_is_narrow() {
        let mut watcher = watcher();
        let server = &mut watcher.state.services[0].groups[1].servers[0];
        server.condition = Condition::Down;
        server.reason = Some("no response to the health check within 500ms".to_owned());
        let text = drawn(&mut watcher, 80, 20);
        let told = "0 failed\n    no response to the health check within 500ms\n";
        assert!(text.contains(told), "{text}");
        let text = drawn(&mut watcher, 30, 30);
        assert!(
            text.contains("\n    no response to the health\n    check within 500ms\n"),
            "{text}"
        );
        let text = drawn(&mut watcher, 130, 20);
        assert!(
            text.contains("0 failed  no response to the health check within 500ms\n"),
            "{text}"
        );
    }

    #[test]
    fn what_is_wrong_is_told_first_where_a_terminal_is_narrow() {
        let mut watcher = watcher();
        let (bytes, memory_bytes) = (12_000_000, 256_000_000);
        watcher.state.cache = Some(Cache { objects: 40, bytes, memory_bytes, ..Cache::default() });
        watcher.state.cluster = Some(Cluster { edges: 3, ..Cluster::default() });
        watcher.state.draining = true;
        watcher.press(KeyCode::Char(' ').into());
        watcher.take(Err(anyhow::anyhow!("connection refused")));
        let text = drawn(&mut watcher, 80, 5);
        let first =
            "loadline  draining  paused  no news: connection refused  europe-west3  up 1 min";
        assert!(text.starts_with(first), "{text}");
    }

    const WIDE: &str = "\
loadline  europe-west3  up 1 min

web  overflowing
75/s come in: 50/s to europe-west3, 25/s to us-central1, because europe-west3 is
at its load line. 55/s of headroom left.
75/s  p50 38 ms  p99 - ms  retries 0/s
europe-west3   ████████████████████┃············  100 %  50 of 50/s
  10.0.0.1:80           up            50/s     3 in flight     38 ms    0 failed
  ↓ 25/s overflow
us-central1    ▓▓▓▓▓▓▓▓▓▓······················┃   31 %  25 of 80/s
  10.0.0.1:80           up            25/s     3 in flight     38 ms    0 failed
q quit  space pause  s sort: file  / filter  v servers  ? help
";

    const NARROW: &str = "\
loadline  europe-west3  up 1 min
75/s  p50 38 ms  p99 - ms  retries 0/s
europe-west3     100 %  50 of 50/s
  ↓ 25/s overflow
us-central1       31 %  25 of 80/s
q quit  space pause  s sort: file  / filter
";
}
