//! Random cases: each seed gives one.
//!
//! Sizes are chosen so that a case has about [`REQUESTS`] requests, and its faults end early enough
//! for what follows to be seen.

use std::net::{Ipv4Addr, SocketAddr};

use crate::{
    case::{Case, Key, Table},
    draw::Draw,
};

/// The case of a seed.
pub(crate) fn case(seed: u64) -> Case {
    let mut draw = Draw::of(seed);
    let regions = regions(&mut draw);
    let count = draw.one(&[1, 1, 1, 2]);
    let services: Vec<Made> = (0..count).map(|index| service(&mut draw, index, &regions)).collect();
    let mut configuration = Table::default();
    configuration.parts.push(Table::new("[edge]", vec![("region", text(&regions[0].name))]));
    configuration.parts.extend(regions.iter().map(Region::table));
    for (index, made) in services.iter().enumerate() {
        let bind = text(&format!("127.0.0.1:{}", 8_080 + index));
        let keys = vec![("bind", bind), ("service", text(&made.name))];
        configuration.parts.push(Table::new("[[listener]]", keys));
    }
    configuration.parts.extend(services.iter().map(|made| made.table.clone()));
    let mut traffic = traffic(&mut draw, seed, &regions, &services);
    let mut draw = Draw::of(seed ^ SHARED);
    if has_many_edges(&traffic, &regions) && draw.chance(50) {
        configuration.parts.insert(1, cluster(&mut draw, regions.len()));
        share(&mut draw, &regions, &mut traffic);
    }
    Case { configuration, traffic }
}

fn has_many_edges(traffic: &Table, regions: &[Region]) -> bool {
    let first = text(&regions[0].name);
    let keys = traffic.parts.iter().flat_map(|part| &part.keys);
    keys.into_iter().any(|(key, value)| *key == "edge" && *value != first)
}

/// Whether a source comes in there that says so.
fn has_edge(traffic: &Table, region: &Region) -> bool {
    let name = text(&region.name);
    let mut keys = traffic.parts.iter().flat_map(|part| &part.keys);
    keys.any(|(key, value)| *key == "edge" && *value == name)
}

fn cluster(draw: &mut Draw, edges: usize) -> Table {
    let keys = vec![
        ("etcd", "[\"http://127.0.0.1:2379\"]".to_owned()),
        ("max_edges", (edges as u64 + draw.within(0, 3)).to_string()),
        ("floor", percent(draw.one(&[0, 1, 5]))),
        ("lease", text(draw.one(&["2s", "3s", "10s"]))),
        ("when_away", text(draw.one(&["floor", "floor", "keep"]))),
    ];
    Table::new("[cluster]", keys)
}

/// How far the store is, and what goes wrong with it.
fn share(draw: &mut Draw, regions: &[Region], traffic: &mut Table) {
    let mut keys = vec![("rtt", text(draw.one(&["1ms", "30ms", "160ms"])))];
    if draw.chance(30) {
        keys.push(("jitter", text(draw.one(&["1ms", "20ms"]))));
    }
    if draw.chance(20) {
        keys.push(("loss", percent(draw.one(&[1, 10]))));
    }
    traffic.parts.push(Table::new("[store]", keys));
    for _ in 0..draw.one(&[0, 0, 1, 2]) {
        let (at, lasts) = (draw.within(2_000, 5_000), draw.within(100, 8_000));
        let mut keys = vec![("at", text(&format!("{at}ms"))), ("for", text(&format!("{lasts}ms")))];
        if draw.chance(50) {
            keys.push(("what", text("store-away")));
        } else {
            let at = draw.within(0, regions.len() as u64 - 1) as usize;
            let name = &regions[if has_edge(traffic, &regions[at]) { at } else { 0 }].name;
            keys.extend([("what", text("cut-off")), ("region", text(name))]);
        }
        traffic.parts.push(Table::new("[[fault]]", keys));
    }
}

struct Region {
    name: String,
    /// In milliseconds; the way to another one is the difference.
    place: u64,
    /// To each that came before.
    rtts: Vec<(String, u64)>,
}

impl Region {
    fn table(&self) -> Table {
        let rtts = self.rtts.iter().map(|(to, rtt)| format!("{to} = \"{rtt}ms\""));
        let rtts = rtts.collect::<Vec<_>>().join(", ");
        let keys = if rtts.is_empty() { vec![] } else { vec![("rtt", format!("{{ {rtts} }}"))] };
        Table::new(format!("[regions.{}]", self.name), keys)
    }
}

fn regions(draw: &mut Draw) -> Vec<Region> {
    let count = draw.one(&[1, 2, 2, 3, 3, 4]);
    let mut regions: Vec<Region> = Vec::new();
    for index in 0..count {
        // Powers of two apart, so that no two are equally far from a third.
        let place = if index == 0 { 0 } else { (6 << (index * 2)) + draw.within(0, 5) };
        let rtts = regions.iter().map(|it| (it.name.clone(), place - it.place)).collect();
        let name = ["ams", "fra", "nyc", "sin"][index].to_owned();
        regions.push(Region { name, place, rtts });
    }
    regions
}

/// A service, and what it takes to choose its traffic.
struct Made {
    name: String,
    table: Table,
    /// What its servers are like.
    models: Vec<Table>,
    /// Requests per second that its servers can do, and that its limits let through.
    per_s: f64,
    groups: Vec<(String, String)>,
    servers: Vec<SocketAddr>,
}

fn service(draw: &mut Draw, index: usize, regions: &[Region]) -> Made {
    let name = ["web", "api"][index].to_owned();
    let kind = draw.within(0, 9);
    let mut table = Table::new(format!("[service.{name}]"), service_keys(draw, kind));
    let mut made = Made {
        name: name.clone(),
        table: Table::default(),
        models: Vec::new(),
        per_s: 0.0,
        groups: Vec::new(),
        servers: Vec::new(),
    };
    for (at, region) in regions.iter().enumerate() {
        // The first service is everywhere: files may name every region.
        if index > 0 && at > 0 && draw.chance(15) {
            continue;
        }
        let group = group(draw, &mut made, (index, at), (&region.name, kind));
        table.parts.push(group);
    }
    made.table = table;
    made
}

fn service_keys(draw: &mut Draw, kind: u64) -> Vec<Key> {
    let policies = [
        "round-robin", "random", "least-requests", "least-requests", "power-of-two", "peak-ewma",
        "lowest-latency", "latency-weighted", "maglev", "bounded-hash", "managed",
    ];
    let mut keys = vec![("policy", text(draw.one(&policies)))];
    keys.push(("when_full", when_full(draw)));
    // It needs a limit to go by.
    if kind < 8 && draw.chance(15) {
        keys.push(("overflow", text("soonest")));
    }
    if draw.chance(75) {
        keys.push(("health", health(draw)));
    }
    match draw.within(0, 9) {
        0 => keys.push(("ejection", "false".to_owned())),
        1..=4 => {}
        _ => keys.push(("ejection", ejection(draw))),
    }
    if draw.chance(30) {
        keys.push(("failover_threshold", percent(draw.one(&[0, 30, 50, 70, 90, 100]))));
    }
    if draw.chance(60) {
        keys.push(("retry", retry(draw)));
    }
    if draw.chance(10) {
        keys.push(("slow_start", text("5s")));
    }
    if draw.chance(10) {
        keys.push(("sticky", "{ hash = \"client-address\" }".to_owned()));
    }
    if draw.chance(40) {
        let head = draw.one(&["500ms", "1s", "3s", "10s"]);
        keys.push(("timeouts", format!("{{ head = \"{head}\" }}")));
    }
    keys
}

fn when_full(draw: &mut Draw) -> String {
    match draw.within(0, 9) {
        0 => text("spread"),
        1 => text("shed"),
        _ => {
            let queue = draw.one(&["20ms", "100ms", "300ms", "1s", "2s"]);
            let length = draw.one(&[1, 2, 5, 20, 50, 200]);
            let then = if draw.chance(15) { ", then = \"spread\"" } else { "" };
            format!("{{ queue = \"{queue}\", length = {length}{then} }}")
        }
    }
}

fn health(draw: &mut Draw) -> String {
    let probe = draw.one(&["http = \"/health\"", "http = \"/health\"", "tcp = true"]);
    let interval = draw.one(&["500ms", "1s", "2s"]);
    let (rise, fall) = (draw.within(1, 3), draw.within(1, 3));
    format!(
        "{{ {probe}, interval = \"{interval}\", timeout = \"400ms\", \
         rise = {rise}, fall = {fall} }}"
    )
}

fn ejection(draw: &mut Draw) -> String {
    let errors = draw.one(&[1, 3, 5]);
    let time = draw.one(&["500ms", "1s", "2s"]);
    let longest = draw.one(&["2s", "4s"]);
    let share = draw.one(&[30, 50, 100]);
    let silence = draw.one(&["0s", "500ms", "1s"]);
    format!(
        "{{ errors = {errors}, time = \"{time}\", time_max = \"{longest}\", \
         share_max = \"{share}%\", silence = \"{silence}\" }}"
    )
}

fn retry(draw: &mut Draw) -> String {
    let attempts = draw.within(0, 3);
    let budget = draw.one(&[0, 10, 20, 50]);
    let least = draw.one(&[0, 1, 10]);
    let on = if draw.chance(50) { ", on = [\"5xx\"]" } else { "" };
    format!("{{ attempts = {attempts}, budget = \"{budget}%\", min_rate = \"{least}/s\"{on} }}")
}

/// What a group can do, and what the file says of it.
struct Size {
    servers: u64,
    cores: u64,
    /// Of a request, in milliseconds.
    time: u64,
}

impl Size {
    fn places(&self) -> f64 {
        (self.servers * self.cores) as f64
    }

    fn per_s(&self) -> f64 {
        self.places() * 1_000.0 / self.time as f64
    }
}

fn group(
    draw: &mut Draw,
    made: &mut Made,
    (service, at): (usize, usize),
    (region, kind): (&str, u64),
) -> Table {
    let size = Size {
        servers: draw.within(1, 4),
        cores: draw.one(&[1, 2, 4]),
        time: draw.one(&[5, 10, 20, 40]),
    };
    let name = format!("{}-{region}", made.name);
    let mut keys = vec![("region", text(region)), ("name", text(&name))];
    let (limits, part) = limits(draw, kind, &size);
    keys.extend(limits);
    let mut scaler = 1.0;
    if draw.chance(10) {
        scaler = draw.one(&[0.1, 0.5, 0.75]);
        keys.push(("scaler", format!("{scaler}")));
    }
    made.per_s += size.per_s() * (part * scaler).min(0.9);
    let mut servers = Vec::new();
    for number in 0..size.servers {
        let ip = Ipv4Addr::new(10, service as u8, at as u8, number as u8 + 1);
        let address = SocketAddr::from((ip, 80));
        made.servers.push(address);
        let mut keys = vec![("address", text(&address.to_string()))];
        if draw.chance(10) {
            keys.push(("weight", draw.within(1, 5).to_string()));
        }
        if number > 0 && draw.chance(4) {
            keys.push(("priority", "1".to_owned()));
        }
        servers.push(Table::new(format!("[[service.{}.group.servers]]", made.name), keys));
    }
    made.models.push(model(draw, &name, &size));
    made.groups.push((name, region.to_owned()));
    let head = format!("[[service.{}.group]]", made.name);
    Table { head, keys, parts: servers }
}

/// What the file says of the capacity, and which part of what the servers can do that is.
fn limits(draw: &mut Draw, kind: u64, size: &Size) -> (Vec<Key>, f64) {
    let part = draw.factor(0.3, 1.0);
    let rate = |of: f64| text(&format!("{}/s", (size.per_s() * of).max(1.0) as u64));
    let places = |of: f64| ((size.places() * of).ceil().max(1.0) as u64).to_string();
    let mut keys = Vec::new();
    match kind {
        0..=2 => keys.push(("max_rate", rate(part))),
        3..=5 => keys.push(("max_in_flight", places(draw.factor(0.5, 4.0)))),
        6 => {
            keys.push(("max_rate", rate(part)));
            keys.push(("max_in_flight", places(draw.factor(1.0, 4.0))));
        }
        7 => {
            let each = draw.one(&["rate", "in_flight", "both"]);
            let rate = format!(
                "max_rate = \"{}/s\"",
                (size.per_s() * part / size.servers as f64) as u64 + 1
            );
            let places = format!("max_in_flight = {}", size.cores + draw.within(0, 4));
            let each = match each {
                "rate" => rate,
                "in_flight" => places,
                _ => format!("{rate}, {places}"),
            };
            keys.push(("per_server", format!("{{ {each} }}")));
        }
        8 => keys.push(("max_utilization", percent(draw.one(&[50, 70, 90])))),
        _ if draw.chance(50) => keys.push(("capacity", text("none"))),
        _ => {}
    }
    let is_rated = keys.iter().any(|(key, _)| *key == "max_rate");
    if is_rated && draw.chance(40) {
        keys.push(("burst", draw.one(&[1, 2, 5, 20, 60]).to_string()));
    }
    (keys, if is_rated { part } else { 0.9 })
}

fn model(draw: &mut Draw, group: &str, size: &Size) -> Table {
    let mut keys = vec![
        ("group", text(group)),
        ("time", text(&format!("{}ms", size.time))),
        ("cores", size.cores.to_string()),
    ];
    match draw.within(0, 9) {
        0..=2 => keys.push(("distribution", text("constant"))),
        3 => keys.push(("distribution", text("lognormal"))),
        4 => keys.push(("distribution", text("pareto"))),
        5 => keys.extend([
            ("distribution", text("two-kinds")),
            ("long", text(&format!("{}ms", size.time * 10))),
            ("long_share", percent(2)),
        ]),
        _ => {}
    }
    if draw.chance(20) {
        keys.push(("discipline", text("processor-sharing")));
    }
    if draw.chance(15) {
        keys.push(("queue", draw.one(&[2, 10, 100]).to_string()));
    }
    if draw.chance(5) {
        keys.extend([("pause", text("200ms")), ("pause_every", text("7s"))]);
    }
    Table::new("[[server]]", keys)
}

fn traffic(draw: &mut Draw, seed: u64, regions: &[Region], services: &[Made]) -> Table {
    let mut sources = Vec::new();
    let mut per_s = 0.0;
    for made in services {
        let load = draw.factor(0.25, 1.6);
        let count = draw.one(&[1, 1, 2, 3]);
        for number in 0..count {
            let rate = (made.per_s * load / count as f64).max(1.0);
            per_s += rate;
            sources.push(source(draw, regions, made, (number, rate)));
        }
    }
    let seconds = (REQUESTS / per_s).clamp(12.0, 60.0) as u64;
    for (table, rate) in &mut sources {
        arrivals(draw, table, (*rate, seconds));
    }
    let faults = faults(draw, regions, services, seconds);
    let keys = vec![("seed", seed.to_string()), ("duration", text(&format!("{seconds}s")))];
    let mut traffic = Table::new("", keys);
    traffic.parts = sources.into_iter().map(|(table, _)| table).collect();
    traffic.parts.extend(services.iter().flat_map(|made| made.models.clone()));
    if regions.len() > 1 && draw.chance(25) {
        let ends = format!("[\"{}\", \"{}\"]", regions[0].name, regions[1].name);
        let keys = vec![("between", ends), ("jitter", text("3ms"))];
        traffic.parts.push(Table::new("[[link]]", keys));
    }
    traffic.parts.extend(faults);
    traffic
}

fn source(
    draw: &mut Draw,
    regions: &[Region],
    made: &Made,
    (number, rate): (u64, f64),
) -> (Table, f64) {
    let mut keys =
        vec![("name", text(&format!("{}-{number}", made.name))), ("service", text(&made.name))];
    if number > 0 && draw.chance(60) {
        let at = draw.within(0, regions.len() as u64 - 1) as usize;
        keys.push(("edge", text(&regions[at].name)));
    }
    if draw.chance(40) {
        keys.push(("class", text(draw.one(&["high", "normal", "low"]))));
    }
    if draw.chance(30) {
        keys.push(("distance", text(draw.one(&["2ms", "20ms", "100ms"]))));
    }
    if draw.chance(30) {
        keys.push(("give_up", text(draw.one(&["300ms", "1s", "5s"]))));
    }
    if draw.chance(35) {
        keys.push(("retries", draw.within(1, 3).to_string()));
        keys.push(("retry_after", text(draw.one(&["10ms", "100ms", "1s"]))));
    }
    if draw.chance(20) {
        keys.push(("clients", draw.one(&[1, 5, 50]).to_string()));
    }
    (Table::new("[[source]]", keys), rate)
}

fn arrivals(draw: &mut Draw, table: &mut Table, (rate, seconds): (f64, u64)) {
    let said = |rate: f64| format!("\"{}/s\"", (rate.max(1.0)) as u64);
    match draw.within(0, 9) {
        0..=1 => table.keys.push(("arrivals", text("constant"))),
        2 => {
            table.keys.push(("arrivals", text("bursts")));
            table.keys.push(("burst", draw.one(&[2, 10, 50]).to_string()));
        }
        3 => {
            let users = (rate * 0.1).clamp(1.0, 300.0) as u64;
            table.keys.push(("users", users.to_string()));
            table.keys.push(("think", text(draw.one(&["20ms", "100ms"]))));
            return;
        }
        4..=5 => {
            let third = seconds / 3;
            let stages = [(rate * 0.5, rate * 1.4), (rate * 1.4, rate * 1.4), (rate, rate)];
            let stages = stages.map(|(from, to)| {
                let (rate, to) = (said(from), said(to));
                format!("{{ rate = {rate}, to = {to}, for = \"{third}s\" }}")
            });
            table.keys.push(("stages", format!("[{}]", stages.join(", "))));
            return;
        }
        _ => {}
    }
    table.keys.push(("rate", said(rate)));
}

fn faults(draw: &mut Draw, regions: &[Region], services: &[Made], seconds: u64) -> Vec<Table> {
    let count = draw.one(&[0, 0, 1, 1, 1, 2, 3]);
    let fault = |_| {
        let at = seconds * 1_000 * draw.within(20, 40) / 100;
        let lasts = seconds * 1_000 * draw.within(2, 15) / 100;
        let mut keys = vec![("at", text(&format!("{at}ms"))), ("for", text(&format!("{lasts}ms")))];
        let what = draw.one(&["down", "down", "unreachable", "slow", "stall", "errors", "traffic"]);
        keys.push(("what", text(what)));
        match what {
            "slow" => keys.push(("factor", draw.one(&["2.0", "5.0", "20.0"]).to_owned())),
            "traffic" => keys.push(("factor", draw.one(&["0.2", "1.5", "3.0"]).to_owned())),
            "errors" => keys.push(("share", percent(draw.one(&[10, 50, 100])))),
            _ => {}
        }
        let made = &services[draw.within(0, services.len() as u64 - 1) as usize];
        if what == "traffic" {
            keys.push(("service", text(&made.name)));
            return Table::new("[[fault]]", keys);
        }
        keys.push(whom(draw, regions, made));
        Table::new("[[fault]]", keys)
    };
    (0..count).map(fault).collect()
}

fn whom(draw: &mut Draw, regions: &[Region], made: &Made) -> Key {
    match draw.within(0, 5) {
        0 => {
            let at = draw.within(0, regions.len() as u64 - 1) as usize;
            ("region", text(&regions[at].name))
        }
        1 => {
            let at = draw.within(0, made.groups.len() as u64 - 1) as usize;
            ("group", text(&made.groups[at].0))
        }
        _ => {
            let at = draw.within(0, made.servers.len() as u64 - 1) as usize;
            ("server", text(&made.servers[at].to_string()))
        }
    }
}

fn text(of: &str) -> String {
    format!("\"{of}\"")
}

fn percent(number: u64) -> String {
    format!("\"{number}%\"")
}

/// What sharing is drawn by, so that everything else of a case is as it is without.
const SHARED: u64 = 0x7368_6172_6564;

/// Of a case, about.
const REQUESTS: f64 = 30_000.0;
