//! What the machine and the hosts on an Ethernet did during a phase.

use std::collections::BTreeMap;

use loadline_measure::record::Reading;

use super::{RunError, programs::failed};
use crate::{
    host::{Host, Lab, Traffic},
    wan::{Counters, Health, LinkCounters, Watch},
};

/// Counters as they were at the beginning.
pub(super) struct Meter {
    watch: Watch,
    ethernets: Vec<Traffic>,
}

/// What became of them.
pub(super) struct Metered {
    pub(super) health: Health,
    counters: Counters,
    /// Of each host on an Ethernet.
    carried: Vec<(String, Carried)>,
}

/// Packets and bytes in, then out.
type Carried = [(&'static str, u64); 4];

impl Meter {
    pub(super) fn begin(lab: &Lab) -> Result<Self, RunError> {
        let ethernets = read(lab)?;
        let watch = Watch::begin(lab.router()).map_err(gone)?;
        Ok(Self { watch, ethernets })
    }

    pub(super) fn end(self, lab: &Lab) -> Result<Metered, RunError> {
        let (health, counters) = self.watch.end(lab.router()).map_err(gone)?;
        let during = read(lab)?.into_iter().zip(self.ethernets);
        let carried = on_ethernet(lab).zip(during).map(|(host, (now, before))| {
            let since = |now: u64, before: u64| now.saturating_sub(before);
            let carried = [
                ("packets_in", since(now.packets_received.get(), before.packets_received.get())),
                ("bytes_in", since(now.received.get(), before.received.get())),
                ("packets_out", since(now.packets_sent.get(), before.packets_sent.get())),
                ("bytes_out", since(now.sent.get(), before.sent.get())),
            ];
            (host.name().to_owned(), carried)
        });
        let carried = carried.collect();
        Ok(Metered { health, counters, carried })
    }
}

impl Metered {
    /// Processor time of the router as a number of cores, and what all links carried and lost;
    /// processor time of the whole machine; what hosts on an Ethernet received and sent there.
    pub(super) fn readings(&self, elapsed_s: f64) -> BTreeMap<String, Reading> {
        let links = &self.counters.links;
        let sum = |of: fn(&LinkCounters) -> u64| links.iter().map(of).sum::<u64>() as f64;
        let told = [
            ("router.cores", self.counters.processor_time.as_secs_f64() / elapsed_s),
            ("router.packets", sum(|link| link.packets)),
            ("router.lost", sum(|link| link.lost)),
            ("router.bytes", sum(|link| link.bytes)),
            ("machine.busy_s", self.health.busy.as_secs_f64()),
        ];
        let told = told.map(|(name, number)| (name.to_owned(), number));
        let carried = self.carried.iter().flat_map(|(host, carried)| {
            carried.iter().map(move |(what, number)| (format!("{host}.{what}"), *number as f64))
        });
        let told = told.into_iter().chain(carried);
        told.map(|(name, number)| (name, Reading::Number(number))).collect()
    }
}

fn on_ethernet(lab: &Lab) -> impl Iterator<Item = &Host> {
    lab.hosts().iter().filter(|host| host.ethernet().is_some())
}

fn read(lab: &Lab) -> Result<Vec<Traffic>, RunError> {
    let usage = |host: &Host| Ok(host.usage()?.ethernet);
    on_ethernet(lab).map(usage).collect()
}

fn gone(error: crate::wan::RouterGone) -> RunError {
    failed("read the router's counters", &error)
}
