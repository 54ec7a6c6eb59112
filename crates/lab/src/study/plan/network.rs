//! Hosts with their addresses, and a link for every two of them.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
};

use loadline_core::{
    time::Duration,
    units::{BitRate, Bytes, Ratio},
};
use loadline_spanned::{At, Span};

use super::Scope;
use crate::{
    host::{Machine, Processors, Tcp},
    study::{
        file::{HostEntry, LinkEntry},
        place::Word,
    },
    topology::{EthernetError, HostSpec, InterfaceAddress, Limit, LinkSpec, Topology},
};

/// What a link's keys say, in either direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkKeys<'t> {
    pub(super) rtt: Option<&'t At<String>>,
    pub(super) jitter: Option<&'t At<String>>,
    pub(super) rate: Option<&'t At<String>>,
    pub(super) queue: Option<&'t At<String>>,
    pub(super) loss: Option<&'t At<String>>,
    pub(super) reorder: Option<&'t At<String>>,
}

/// Hosts and links of the row, and what each host is as a machine.
pub(super) fn network(scope: &mut Scope<'_>) -> (Topology, BTreeMap<String, Machine>) {
    let file = scope.file;
    let mut topology = Topology { seed: scope.places.seed, ..Topology::default() };
    let mut machines = BTreeMap::new();
    for (number, (name, host)) in file.host.iter().enumerate() {
        if !scope.has(&host.value.rows) {
            continue;
        }
        let spec = host_spec(scope, number, name, &host.value);
        if let Some(address) = spec.addresses.first() {
            scope.values.insert(format!("{}.address", spec.name), address.to_string());
        }
        if let Some(ethernet) = spec.ethernet {
            scope.values.insert(format!("{}.ethernet", spec.name), ethernet.address.to_string());
        }
        let machine = machine(scope, &host.value, &spec);
        check_machine(scope, (name, &host.value), &machine, &spec);
        machines.insert(spec.name.clone(), machine);
        topology.hosts.push(spec);
    }
    check_ethernets(scope, &topology);
    check_families(scope, &topology);
    topology.links = links(scope, &topology);
    if let Err(error) = topology.check()
        && !scope.problems.failed()
        && !topology.hosts.is_empty()
    {
        let at = file.host.iter().next().map_or(0..0, |(name, _)| name.span.clone());
        scope.problems.error(
            &at,
            error.to_string(),
            "here",
            "see `[host]` and `[[link]]` in docs/lab.md",
        );
    }
    (topology, machines)
}

fn machine(scope: &mut Scope<'_>, host: &HostEntry, spec: &HostSpec) -> Machine {
    let first = usize::from(!spec.addresses.is_empty());
    let mut machine = Machine {
        forwards: if host.forwards { spec.addresses[first..].to_vec() } else { Vec::new() },
        ..Machine::default()
    };
    let setting = |(name, value): (&String, &Word)| (name.clone(), value.0.clone());
    machine.settings = host.settings.iter().map(setting).collect();
    machine.processors = Processors {
        cores: host.cores.as_ref().map(|cores| cores.value as usize),
        share: host.cpu.as_ref().and_then(|share| scope.quantity(share)),
    };
    machine.tcp.initial_window = host.initial_window.as_ref().map(|window| window.value);
    machine.tcp.window = host.window.as_ref().and_then(|window| scope.quantity(window));
    if let Some(congestion) = &host.congestion {
        machine.tcp.congestion = Some(congestion.value.clone());
    }
    if let Some(cores) = host.cores.as_ref().filter(|cores| cores.value == 0) {
        scope.wrong(cores, "a host has at least one core", "write `cores = 1`");
    }
    machine
}

/// Notes what no machine can be, each at the key that says it.
fn check_machine(
    scope: &mut Scope<'_>,
    (name, host): (&At<String>, &HostEntry),
    machine: &Machine,
    spec: &HostSpec,
) {
    let Processors { share, .. } = machine.processors;
    let Tcp { congestion, initial_window, window } = machine.tcp.clone();
    let of_tcp = |tcp| Machine { tcp, ..Machine::default() };
    let processors = Processors { share, ..Processors::default() };
    let settings = machine.settings.clone();
    let parts = [
        (host.cpu.as_ref().map(span), Machine { processors, ..Machine::default() }),
        (host.congestion.as_ref().map(span), of_tcp(Tcp { congestion, ..Tcp::default() })),
        (host.initial_window.as_ref().map(span), of_tcp(Tcp { initial_window, ..Tcp::default() })),
        (host.window.as_ref().map(span), of_tcp(Tcp { window, ..Tcp::default() })),
        (Some(span(name)), Machine { settings, ..Machine::default() }),
    ];
    for (place, part) in parts {
        if let (Some(place), Err(error)) = (place, part.check(spec)) {
            let help = "see `[host.NAME]` in docs/lab.md";
            scope.problems.error(&place, error.to_string(), "here", help);
        }
    }
}

fn span<T>(at: &At<T>) -> Span {
    at.span.clone()
}

fn host_spec(
    scope: &mut Scope<'_>,
    number: usize,
    name: &At<String>,
    host: &HostEntry,
) -> HostSpec {
    let mut addresses = Vec::new();
    for text in host.address.iter().chain(&host.also) {
        let filled = scope.fill(text);
        match filled.parse::<IpAddr>() {
            Ok(address) => addresses.push(address),
            Err(_) => {
                let message = format!("`{filled}` is no address");
                scope.wrong(text, message, "write one like \"10.1.0.1\" or \"fd00::1\"");
            }
        }
    }
    if host.address.is_none() {
        let [high, low] = (number as u16 + 1).to_be_bytes();
        addresses.insert(0, Ipv4Addr::new(10, 0, high, low).into());
    }
    let mut limit = |rate: &Option<At<String>>| {
        rate.as_ref()
            .and_then(|text| scope.quantity(text))
            .map(|rate| Limit { rate, queue: queue_of(rate) })
    };
    let (up, down) = (limit(&host.up), limit(&host.down));
    let ethernet = host.ethernet.as_ref().and_then(|text| ethernet(scope, text));
    HostSpec { name: name.value.clone(), addresses, ethernet, up, down }
}

fn ethernet(scope: &mut Scope<'_>, text: &At<String>) -> Option<InterfaceAddress> {
    let parsed = scope.fill(text).parse();
    parsed.map_err(|error: EthernetError| scope.wrong(text, error, ETHERNET)).ok()
}

/// Hosts on Ethernets beside each other, each noted where it says its address.
fn check_ethernets(scope: &mut Scope<'_>, topology: &Topology) {
    let entries = scope.file.host.iter();
    let texts = entries.filter_map(|(name, host)| {
        Some((topology.host(&name.value)?, host.value.ethernet.as_ref()?))
    });
    for (place, text) in texts {
        if let Err(error) = topology.check_ethernet(place) {
            scope.wrong(text, error, ETHERNET);
        }
    }
}

/// Hosts whose family of addresses no other host has, each noted where it says its address.
fn check_families(scope: &mut Scope<'_>, topology: &Topology) {
    let meets = |one: &HostSpec, other: &HostSpec| {
        let same = |it: &IpAddr| other.addresses.iter().any(|at| at.is_ipv6() == it.is_ipv6());
        one.name != other.name && one.addresses.iter().any(same)
    };
    for (name, host) in &scope.file.host {
        let Some(text) = &host.value.address else { continue };
        let Some(place) = topology.host(&name.value) else { continue };
        let spec = &topology.hosts[place];
        let (Some(first), None) = (spec.addresses.first(), spec.ethernet) else { continue };
        let is_alone = !topology.hosts.iter().any(|other| meets(spec, other));
        if topology.hosts.len() > 1 && is_alone {
            let family = if first.is_ipv6() { "IPv6" } else { "IPv4" };
            let message = format!("no host but `{}` has an address of {family}", spec.name);
            let help = "give another one too, by `address` or `also`: addresses that are not \
                        written are of IPv4";
            scope.wrong(text, message, help);
        }
    }
}

const ETHERNET: &str = "see `ethernet` of `[host.NAME]` in docs/lab.md";

/// A link for every ordered pair: the last entry that fits both, or none in between within a
/// region.
fn links(scope: &mut Scope<'_>, topology: &Topology) -> Vec<LinkSpec> {
    let file = scope.file;
    let entries: Vec<&LinkEntry> = file.link.iter().map(|at| &at.value).collect();
    let entries: Vec<_> = entries.into_iter().filter(|entry| scope.has(&entry.rows)).collect();
    let mut specs = Vec::new();
    for entry in &entries {
        check_ends(scope, entry);
        specs.push(link_spec(scope, &link_keys(entry)));
    }
    let region = |host: usize| -> Option<&str> {
        let name = &topology.hosts[host].name;
        let found = file.host.iter().find(|(known, _)| known.value == *name);
        found.and_then(|(_, host)| host.value.region.as_deref())
    };
    let is = |host: usize, end: &At<String>| {
        let end = end.value.as_str();
        end == "*" || end == topology.hosts[host].name || region(host) == Some(end)
    };
    let fits = |entry: &LinkEntry, a: usize, b: usize| match entry.between.as_slice() {
        [one, other] => (is(a, one) && is(b, other)) || (is(a, other) && is(b, one)),
        _ => false,
    };
    let count = topology.hosts.len();
    let mut links = Vec::new();
    for (a, b) in (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b))) {
        let found = (0..entries.len()).rev().find(|index| fits(entries[*index], a, b));
        if found.is_none() && region(a) != region(b) {
            unlinked(scope, &topology.hosts[a].name, &topology.hosts[b].name);
        }
        let none = LinkSpec::new(a, b, Duration::ZERO);
        let link = found.map_or(none, |index| LinkSpec { from: a, to: b, ..specs[index] });
        links.extend(link.both());
    }
    links
}

/// In different regions nothing can be assumed.
fn unlinked(scope: &mut Scope<'_>, one: &str, other: &str) {
    let found = scope.file.host.iter().find(|(name, _)| name.value == other);
    let Some((name, _)) = found else { return };
    let message = format!("there is no link between `{one}` and `{other}`, in different regions");
    let help =
        format!("write `[[link]]` with `between = [\"{one}\", \"{other}\"]`, or their regions");
    scope.problems.error(&name.span, message, "here", help);
}

fn check_ends(scope: &mut Scope<'_>, entry: &LinkEntry) {
    let hosts = &scope.file.host;
    let mut ends: Vec<String> = hosts.iter().map(|(name, _)| name.value.clone()).collect();
    ends.extend(hosts.iter().filter_map(|(_, host)| host.value.region.clone()));
    ends.sort();
    ends.dedup();
    ends.push("*".to_owned());
    for end in &entry.between {
        scope.one_of("host or region", end, &ends);
    }
    if entry.between.len() != 2 {
        let at = entry.between.first().map_or(0..0, |at| at.span.clone());
        scope.problems.error(
            &at,
            "a link is between two",
            "here",
            "write `between = [\"a\", \"b\"]`",
        );
    }
}

fn link_keys(entry: &LinkEntry) -> LinkKeys<'_> {
    LinkKeys {
        rtt: entry.rtt.as_ref(),
        jitter: entry.jitter.as_ref(),
        rate: entry.rate.as_ref(),
        queue: entry.queue.as_ref(),
        loss: entry.loss.as_ref(),
        reorder: entry.reorder.as_ref(),
    }
}

/// The link from host 0 to host 0 with these properties; its ends are for the caller to set.
pub(super) fn link_spec(scope: &mut Scope<'_>, link: &LinkKeys<'_>) -> LinkSpec {
    let rtt: Option<Duration> = link.rtt.and_then(|text| scope.quantity(text));
    let rate: Option<BitRate> = link.rate.and_then(|text| scope.quantity(text));
    let queue: Option<Bytes> = link.queue.and_then(|text| scope.quantity(text));
    let jitter: Option<Duration> = link.jitter.and_then(|text| scope.quantity(text));
    let loss: Option<Ratio> = link.loss.and_then(|text| scope.quantity(text));
    let reorder: Option<Ratio> = link.reorder.and_then(|text| scope.quantity(text));
    let limit = |rate| Limit { rate, queue: queue.unwrap_or_else(|| queue_of(rate)) };
    LinkSpec {
        jitter: jitter.unwrap_or_default(),
        limit: rate.map(limit),
        loss: loss.unwrap_or_default(),
        reorder: reorder.unwrap_or_default(),
        ..LinkSpec::new(0, 0, rtt.unwrap_or_default().scale(0.5))
    }
}

/// What passes in 50 ms, as access lines buffer about; at least 64 kB, which a burst of one
/// segmented packet fills.
fn queue_of(rate: BitRate) -> Bytes {
    let bits = rate.as_megabits_f64() * 1e6;
    Bytes::new(((bits / 8.0 * 0.05) as u64).max(64_000))
}
