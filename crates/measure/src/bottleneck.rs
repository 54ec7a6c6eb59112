//! Which resource of a run gave out first: is it CPU or network?
//!
//! Pure rules over a [`ResourceRecord`] and, where a load test ran meanwhile, its [`LoadRecord`].
//! A rate or a share has given out where its mean over a *window* reaches the threshold; the window
//! is a second, 5 % of the run or three samples, whichever is longest, so that a burst at a start
//! does not count. What fails at once when it is full (ports, descriptors, a listen queue) counts
//! from its first sample.
//!
//! - *Steal*: the host withholds 10 % of the machine's CPU.
//! - *CPU of a process*: its busiest thread uses 95 % of a core.
//! - *CPU of the machine*: all cores are 97 % busy and the watched use a tenth of that. It is the
//!   CPU of the role that uses 60 % of all cores, if there is one.
//! - *Softirq*: the kernel's packet work takes 90 % of one core.
//! - *Network*: an interface carries 90 % of its limit. Or, where no limit is known: fewer requests
//!   are answered than offered, bytes per second stay flat, segments are sent again, and CPU is
//!   below 80 %.
//! - *Ports*, *descriptors*: 95 % are in use.
//! - *Server's queue*: a listen queue overflows. Or fewer requests are answered than offered while
//!   nothing else is full and CPU is below 80 %.
//! - *Generator*: the load run found itself at fault, and nothing else explains it.
//!
//! Of those that give out within one window of the first, the cause goes before its effect: the
//! order of `record::Resource`.

mod cpu;
mod limits;
mod network;
mod text;
mod waiting;
mod window;

use crate::record::{Bottleneck, BottleneckVerdict, LoadRecord, ResourceRecord};
use loadline_core::time::Duration;

use window::Window;

/// Judges a run by its resources and, where there is one, by the load that was put on meanwhile.
///
/// The verdict that `record` holds already is not looked at.
#[must_use]
pub fn judge(record: &ResourceRecord, load: Option<&LoadRecord>) -> BottleneckVerdict {
    let window = Window::of(record);
    if record.samples.len() < window.samples {
        let (samples, span) = (record.samples.len(), text::secs(window.span));
        let needed = window.samples;
        let remark = format!("too few samples to judge: {samples}, it takes {needed} ({span})");
        return BottleneckVerdict { bottlenecks: Vec::new(), remarks: [remark].into() };
    }
    let mut found = limits::descriptors(record);
    found.extend(limits::ports(record));
    found.extend(cpu::steal(record, window));
    found.extend(cpu::threads(record, window));
    found.extend(cpu::machine(record, window));
    found.extend(cpu::softirq(record, window));
    found.extend(network::at_limit(record, window));
    found.extend(limits::listen_queues(record));
    let mut unexplained = None;
    if let Some(load) = load {
        let unmet = waiting::unmet(record, load, window);
        found.extend(unmet.as_ref().and_then(|unmet| network::plateau(record, unmet)));
        if let Some(unmet) = &unmet
            && found.is_empty()
        {
            found.extend(waiting::server_queue(record, unmet));
        }
        unexplained = unmet.map(|unmet| unmet.text).filter(|_| found.is_empty());
        found.extend(waiting::generator(load, found.is_empty()));
    }
    let mut remarks = Vec::from_iter(unexplained);
    remarks.extend(self::remarks(record, window, &found));
    BottleneckVerdict { remarks, bottlenecks: in_order(found, window.span) }
}

/// By time; those within one window of the first from cause to effect; each resource once.
fn in_order(mut found: Vec<Bottleneck>, together: Duration) -> Vec<Bottleneck> {
    found.sort_by_key(|bottleneck| (bottleneck.since, bottleneck.resource));
    if let Some(first) = found.first().map(|bottleneck| bottleneck.since) {
        let tied = found.partition_point(|bottleneck| bottleneck.since <= first + together);
        found[..tied].sort_by_key(|bottleneck| (bottleneck.resource, bottleneck.since));
    }
    let mut once: Vec<Bottleneck> = Vec::new();
    for bottleneck in found {
        match once.iter_mut().find(|earlier| earlier.resource == bottleneck.resource) {
            Some(earlier) => {
                earlier.since = earlier.since.min(bottleneck.since);
                earlier.evidence.extend(bottleneck.evidence);
            }
            None => once.push(bottleneck),
        }
    }
    once
}

/// How near everything came where nothing gave out, and what was there but is not judged.
fn remarks(record: &ResourceRecord, window: Window, found: &[Bottleneck]) -> Vec<String> {
    let mut remarks = Vec::new();
    if found.is_empty() {
        remarks.extend(cpu::nearest(record));
        remarks.extend(network::nearest(record));
        remarks.extend(limits::ports_share(record));
    }
    remarks.extend(cpu::filled_by_others(record, window));
    remarks.extend(limits::unattributed_overflows(record));
    remarks
}

#[cfg(test)]
mod tests;
