//! Bringing rings to rest: flows read back from the kernel, judged by [`Ring::settle`], and
//! forgotten where nobody asks for them any more.

use std::collections::BTreeSet;

use loadline_core::time::{Duration, Instant};
use loadline_linux::clock;

use crate::{
    datapath::Datapath,
    error::TableError,
    events::Event,
    layout::{Tuple4, Tuple6},
    path::Keyed,
    ring::Ring,
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
        if !ring.entries().iter().any(|entry| entry.is_recorded()) {
            return Ok(false);
        }
        let now = Self::now();
        let stale = stale + SLACK;
        let heard = self.heard;
        let flows = self.sweep(service, |flow| now.since(flow.last.max(heard)) > stale)?;
        let flows = flows.iter().map(|flow| (flow.position, flow.server));
        let mut settled = ring.settle(now, stale, flows);
        self.publish(service, ring.entries())?;
        // Packets that have read the entry before may still write their flow down.
        self.wait_for_packets()?;
        settled.sort_unstable();
        self.sweep(service, |flow| settled.binary_search(&flow.position).is_ok())?;
        Ok(true)
    }

    /// Forgets flows of a service whose entry is not recorded: nobody asks for them, and later they
    /// would speak for other flows.
    pub(crate) fn forget_settled(&mut self, service: u32) -> Result<(), TableError> {
        let ring = self.ring(service)?;
        let is_recorded =
            |flow: &Flow| ring.get(flow.position as usize).is_some_and(|entry| entry.is_recorded());
        self.sweep(service, |flow| !is_recorded(flow))?;
        Ok(())
    }

    /// Forgets the flows of a service that is no more.
    pub(crate) fn forget_flows(&mut self, service: u32) -> Result<(), TableError> {
        self.sweep(service, |_| true).map(drop)
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

    /// The flows of a service, without those that are `over`, which are removed.
    fn sweep(
        &mut self,
        service: u32,
        over: impl Fn(&Flow) -> bool,
    ) -> Result<Vec<Flow>, TableError> {
        let mut kept = self.sweep_table::<Tuple4>(service, &over)?;
        kept.extend(self.sweep_table::<Tuple6>(service, &over)?);
        Ok(kept)
    }

    fn sweep_table<K: Keyed>(
        &mut self,
        service: u32,
        over: impl Fn(&Flow) -> bool,
    ) -> Result<Vec<Flow>, TableError> {
        let (mut kept, mut gone) = (Vec::new(), Vec::new());
        for (key, flow) in self.flows::<K>()? {
            if u32::from(flow.service) != service {
                continue;
            }
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
