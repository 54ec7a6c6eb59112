//! Rules about bytes per second: an interface at its limit, or at one that nobody told us of.

use super::cpu;
use super::text::{bits, percent, rate, secs};
use super::waiting::Unmet;
use super::window::Window;
use crate::record::{Bottleneck, Interface, InterfaceSample, Resource, ResourceRecord, Sample};
use crate::statistics::sample::{deviation, mean};

/// Interfaces that carry nearly what they can, in the busier direction.
pub(super) fn at_limit(record: &ResourceRecord, window: Window) -> Vec<Bottleneck> {
    let interfaces = record.machine.interfaces.iter();
    interfaces.filter_map(|interface| full(record, interface, window)).collect()
}

fn full(record: &ResourceRecord, interface: &Interface, window: Window) -> Option<Bottleneck> {
    let (limit, source) = limit(interface)?;
    let carried = series(record, &interface.name);
    let from = window.reached(&carried, NEARLY_FULL * limit)?;
    let until = from + window.samples;
    let since = record.samples[from].at;
    let mean = mean(&carried[from..until]);
    let mut evidence = Vec::from([format!(
        "{} carried {} from {} on: {} of {} ({source})",
        interface.name,
        rate(mean),
        secs(since),
        percent(mean / limit),
        bits(limit),
    )]);
    evidence.extend(losses(record, from));
    evidence.push(processors(record, from, until));
    Some(Bottleneck { resource: Resource::Network, since, evidence })
}

/// Bytes that stay flat though more is asked for, with losses, and CPU that is far from full.
///
/// Losses tell a network that is full from a server that is slow: both keep bytes flat.
pub(super) fn plateau(record: &ResourceRecord, unmet: &Unmet) -> Option<Bottleneck> {
    let from = unmet.sample;
    let losses = losses(record, from)?;
    if !cpu::is_far_from_full(record, from) {
        return None;
    }
    let flat = |interface: &&Interface| {
        let carried = &series(record, &interface.name)[from..];
        interface.name != LOOPBACK && mean(carried) >= TRAFFIC && variation(carried) <= FLAT
    };
    let interface = record.machine.interfaces.iter().find(flat)?;
    let carried = &series(record, &interface.name)[from..];
    let evidence = Vec::from([
        unmet.text.clone(),
        format!(
            "{} carried {} from {} on, flat within {}",
            interface.name,
            rate(mean(carried)),
            secs(unmet.since),
            percent(variation(carried)),
        ),
        losses,
        processors(record, from, record.samples.len()),
    ]);
    Some(Bottleneck { resource: Resource::Network, since: unmet.since, evidence })
}

/// The interface that came nearest to its limit, or that carried most where no limit is known.
pub(super) fn nearest(record: &ResourceRecord) -> Option<String> {
    let peak = |interface: &Interface| {
        let carried = series(record, &interface.name).into_iter().fold(0.0, f64::max);
        let share = limit(interface).map(|(limit, source)| (carried / limit, limit, source));
        (interface.name.clone(), carried, share)
    };
    let outside = record.machine.interfaces.iter().filter(|one| one.name != LOOPBACK);
    let key = |(_, carried, share): &(String, f64, Option<(f64, f64, &str)>)| {
        (share.map_or(0.0, |(share, ..)| share), *carried)
    };
    let (name, carried, share) = outside.map(peak).max_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    })?;
    let known = share.map_or("no limit known".into(), |(share, limit, source)| {
        format!("{} of {} ({source})", percent(share), bits(limit))
    });
    Some(format!("{name} carried {} at most, {known}", rate(carried)))
}

/// Bytes per second of the busier direction at every sample.
fn series(record: &ResourceRecord, name: &str) -> Vec<f64> {
    let of = |sample: &Sample| {
        let own = sample.interfaces.iter().find(|interface| interface.name == name);
        own.map_or(0.0, |interface| InterfaceSample::busier_bytes_per_s(interface) as f64)
    };
    record.samples.iter().map(of).collect()
}

/// Limit in bytes per second, and its source. A given limit goes before the driver's.
fn limit(interface: &Interface) -> Option<(f64, &'static str)> {
    let given = interface.given_bytes_per_s.map(|limit| (limit, "given"));
    let known = given.or(interface.speed_bytes_per_s.map(|speed| (speed, "its speed")));
    known.filter(|(limit, _)| *limit > 0).map(|(limit, source)| (limit as f64, source))
}

/// Segments sent again and packets dropped from here on, where they are more than chance.
fn losses(record: &ResourceRecord, from: usize) -> Option<String> {
    let rest = &record.samples[from..];
    let sum = |count: fn(&Sample) -> u64| rest.iter().map(count).sum::<u64>();
    let sent = sum(|sample| sample.sockets.segments_sent);
    let resent = sum(|sample| sample.sockets.segments_resent);
    let dropped = sum(|sample| sample.interfaces.iter().map(|interface| interface.dropped).sum());
    let share = resent as f64 / sent.max(1) as f64;
    (share >= LOSSY || dropped as f64 >= LOSSY * sent as f64 && dropped > 0).then(|| {
        format!("{resent} segments were sent again ({}), {dropped} packets dropped", percent(share))
    })
}

/// CPU usage in the same time: the other half of "is it CPU or network?".
fn processors(record: &ResourceRecord, from: usize, until: usize) -> String {
    let busy = percent(cpu::mean_of(record, from, until, |sample| sample.cpu.busy()));
    let used = cpu::by_role(record, from, until);
    let used = used.iter().filter(|(_, cores)| *cores >= 0.005);
    let used: String = used.map(|(role, cores)| format!(", {role} {cores:.2} cores")).collect();
    format!("the machine's CPU was {busy} busy meanwhile{used}")
}

/// The standard deviation as a share of the mean.
fn variation(series: &[f64]) -> f64 {
    deviation(series) / mean(series).max(f64::MIN_POSITIVE)
}

/// TCP behind a limiter swings below it: one lost segment halves a connection.
const NEARLY_FULL: f64 = 0.9;

/// One segment in a thousand sent again: a full queue on the way, where a quiet path has none.
const LOSSY: f64 = 0.001;

/// Bytes per second that vary by more than this are not held by a limit.
const FLAT: f64 = 0.15;

/// A megabit per second: less than that is no network at its limit.
const TRAFFIC: f64 = 125_000.0;

/// It has no limit but the machine's CPU.
const LOOPBACK: &str = "lo";
