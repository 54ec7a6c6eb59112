//! Bringing rings to rest: flows read back from the kernel, judged by [`Ring::settle`], and
//! forgotten where nobody asks for them any more.

use std::collections::{BTreeMap, BTreeSet};

use loadline_core::time::{Duration, Instant};
use loadline_linux::clock;

use crate::{
    datapath::Datapath,
    error::TableError,
    events::Event,
    layout::{Tuple4, Tuple6},
    path::Keyed,
    ring::{Entry, Ring},
};

/// `struct flow`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) server: u16,
    pub(crate) service: u16,
    pub(crate) position: u32,
    pub(crate) last: Instant,
}

impl Flow {
    fn read(value: [u8; 24]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..] = value;
        Self {
            server: u16::from_ne_bytes([a, b]),
            service: u16::from_ne_bytes([c, d]),
            position: u32::from_ne_bytes([e, f, g, h]),
            last: Instant::from_nanos(u64::from_ne_bytes([i, j, k, l, m, n, o, p])),
        }
    }
}

/// A ring that is to come to rest.
#[derive(Debug)]
pub struct Unsettled<'a> {
    /// The service whose it is.
    pub service: u32,
    /// The ring.
    pub ring: &'a mut Ring,
    /// How long a flow may be silent and still count as alive.
    pub stale: Duration,
}

impl Datapath {
    /// The clock of the flow table, which [`Ring::assign`] is to be given as well.
    #[must_use]
    pub fn now() -> Instant {
        clock::now()
    }

    /// Forgets flows of a service that have been silent for `stale`, and lets the entries of its
    /// ring settle that can. To be called from time to time after servers have changed; false when
    /// there is nothing left to do.
    ///
    /// # Errors
    /// The kernel's.
    pub fn settle(
        &mut self,
        service: u32,
        ring: &mut Ring,
        stale: Duration,
    ) -> Result<bool, TableError> {
        let left = self.settle_all(&mut [Unsettled { service, ring, stale }])?;
        Ok(left.contains(&service))
    }

    /// The same for several services, for whom the flow tables are read together. Gives the
    /// services for which there is something left to do.
    ///
    /// # Errors
    /// The kernel's.
    pub fn settle_all(
        &mut self,
        unsettled: &mut [Unsettled<'_>],
    ) -> Result<BTreeSet<u32>, TableError> {
        let is_recorded =
            |one: &&mut Unsettled<'_>| one.ring.entries().iter().any(|entry| entry.is_recorded());
        let mut left: Vec<&mut Unsettled<'_>> = unsettled.iter_mut().filter(is_recorded).collect();
        let services: BTreeMap<u32, Duration> =
            left.iter().map(|one| (one.service, one.stale + SLACK)).collect();
        if services.is_empty() {
            return Ok(BTreeSet::new());
        }
        let (now, heard) = (Self::now(), self.heard);
        let is_stale = |flow: &Flow| {
            let stale = services.get(&u32::from(flow.service));
            stale.is_some_and(|stale| now.since(flow.last.max(heard)) > *stale)
        };
        let mut flows: BTreeMap<u32, Vec<(u32, u16)>> = BTreeMap::new();
        for flow in self.sweep(is_stale)? {
            flows.entry(flow.service.into()).or_default().push((flow.position, flow.server));
        }
        let mut settled: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for one in &mut left {
            let flows = flows.remove(&one.service).unwrap_or_default();
            let mut positions = one.ring.settle(now, one.stale + SLACK, flows.into_iter());
            self.publish(one.service, one.ring.entries())?;
            positions.sort_unstable();
            settled.insert(one.service, positions);
        }
        // Packets that have read an entry before may still write their flow down.
        self.wait_for_packets()?;
        if settled.values().any(|positions| !positions.is_empty()) {
            self.sweep(|flow| {
                let positions = settled.get(&u32::from(flow.service));
                positions.is_some_and(|it| it.binary_search(&flow.position).is_ok())
            })?;
        }
        Ok(services.into_keys().collect())
    }

    /// Flows of IPv4 and of IPv6 that were written down when the tables were read last to let rings
    /// settle.
    #[must_use]
    pub const fn flow_counts(&self) -> [usize; 2] {
        self.flow_counts
    }

    /// Forgets flows whose entry is not recorded: nobody asks for them, and later they would speak
    /// for other flows.
    pub(crate) fn forget_settled(&mut self) -> Result<(), TableError> {
        let rings = self.services.keys().map(|service| Ok((*service, self.ring(*service)?)));
        let rings: BTreeMap<u32, Vec<Entry>> = rings.collect::<Result<_, TableError>>()?;
        let is_settled = |flow: &Flow| {
            let ring = rings.get(&u32::from(flow.service));
            ring.is_some_and(|ring| {
                let entry = ring.get(flow.position as usize);
                !entry.is_some_and(|entry| entry.is_recorded())
            })
        };
        self.sweep(is_settled).map(drop)
    }

    /// Forgets the flows of a service that is no more.
    pub(crate) fn forget_flows(&mut self, service: u32) -> Result<(), TableError> {
        self.sweep(|flow| u32::from(flow.service) == service).map(drop)
    }

    /// The servers of all flows.
    pub(crate) fn servers_of_flows(&self) -> Result<BTreeSet<u16>, TableError> {
        let mut servers: BTreeSet<u16> =
            self.flows::<Tuple4>()?.iter().map(|(_, flow)| flow.server).collect();
        servers.extend(self.flows::<Tuple6>()?.iter().map(|(_, flow)| flow.server));
        Ok(servers)
    }

    /// The flows of one family. An entry may vanish while they are read; the kernel then begins
    /// again, at worst twice over the same.
    pub(crate) fn flows<K: Keyed>(&self) -> Result<Vec<(K, Flow)>, TableError> {
        let table = self.table::<K, [u8; 24]>(K::FLOWS)?;
        Ok(table.iter().flatten().map(|(key, value)| (key, Flow::read(value))).collect())
    }

    /// The flows of all services, without those that are `over`, which are removed.
    fn sweep(&mut self, over: impl Fn(&Flow) -> bool) -> Result<Vec<Flow>, TableError> {
        let mut kept = self.sweep_table::<Tuple4>(&over)?;
        let of_v4 = kept.len();
        kept.extend(self.sweep_table::<Tuple6>(&over)?);
        self.flow_counts = [of_v4, kept.len() - of_v4];
        Ok(kept)
    }

    fn sweep_table<K: Keyed>(
        &mut self,
        over: impl Fn(&Flow) -> bool,
    ) -> Result<Vec<Flow>, TableError> {
        let (mut kept, mut gone) = (Vec::new(), Vec::new());
        for (key, flow) in self.flows::<K>()? {
            if over(&flow) { gone.push(key) } else { kept.push(flow) }
        }
        self.tell(gone.iter().map(|key: &K| Event::FlowGone(key.path())));
        let mut table = self.table_mut::<K, [u8; 24]>(K::FLOWS)?;
        // It may have been evicted meanwhile.
        gone.iter().for_each(|key| drop(table.remove(key)));
        Ok(kept)
    }
}

/// The kernel renews a flow's stamp when it is a second old, by a clock that ticks every few
/// milliseconds.
const SLACK: Duration = Duration::from_millis(1_100);
