//! What the machine itself takes to carry a packet one way, measured when a lab starts.
//!
//! Without it every delay would be some 50 us too long, more on a slower machine. Between two hosts
//! the links are made plain ones of a known delay for a moment; what datagrams take beyond it, in
//! the median of both ways while the machine was quiet, is taken off every delay from then on.

use std::{
    io,
    net::{IpAddr, UdpSocket},
};

use loadline_core::time::Duration;

use super::{
    ChangeError, RouterGone, RouterHandle,
    probe::{ProbePlan, probe},
};
use crate::topology::{LinkSpec, Topology};

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// The datagrams could not be sent.
    #[error("cannot measure what the machine takes: {0}")]
    Probe(#[from] io::Error),
    /// Too few came.
    #[error("of {sent} datagrams to measure by, {lost} were lost; are both hosts' interfaces up?")]
    Lost {
        /// How many were sent.
        sent: u64,
        /// How many did not come.
        lost: u64,
    },
    /// The router has ended.
    #[error(transparent)]
    Router(#[from] RouterGone),
    /// The links cannot be as they are to be.
    #[error(transparent)]
    Link(#[from] ChangeError),
}

impl RouterHandle {
    /// Measures what the machine takes one way between two hosts, each given with a socket bound
    /// to an address of its own, and takes it off every delay. Takes some 0.6 s, in
    /// which the two links between them are not as the topology says; counters begin again. Best
    /// done between hosts that [`calibration_hosts`] names.
    ///
    /// # Errors
    /// See [`CalibrationError`]. Delays are left as they were.
    pub fn calibrate(
        &mut self,
        first: (usize, &UdpSocket),
        second: (usize, &UdpSocket),
    ) -> Result<Duration, CalibrationError> {
        let plain = LinkSpec::new(first.0, second.0, KNOWN);
        let is_between = |link: &&LinkSpec| [plain, plain.back()].iter().any(|p| p.is_beside(link));
        let before: Vec<LinkSpec> =
            self.topology().links.iter().filter(is_between).copied().collect();
        let compensation = self.compensation();
        self.compensate(Duration::ZERO)?;
        plain.both().into_iter().try_for_each(|link| self.change(link))?;
        let measured = quiet(first.1, second.1);
        before.into_iter().try_for_each(|link| self.change(link))?;
        let taken = |way: &Duration| way.saturating_sub(KNOWN).min(MOST);
        let taken = measured.as_ref().map_or(compensation, taken);
        self.compensate(taken)?;
        self.reset_counters()?;
        measured.map(|_| taken)
    }
}

/// The first two hosts with a link each way, an address of the same kind each, and no limit that
/// would add to what the machine takes; none where there are no such two.
#[must_use]
pub fn calibration_hosts(topology: &Topology) -> Option<[usize; 2]> {
    let free = |host: usize| {
        let host = &topology.hosts[host];
        host.up.is_none() && host.down.is_none()
    };
    let first_is_v4 = |host: usize| topology.hosts[host].addresses.first().map(IpAddr::is_ipv4);
    let suits = |link: &&LinkSpec| {
        let (from, to) = (link.from, link.to);
        let alike = first_is_v4(from).is_some() && first_is_v4(from) == first_is_v4(to);
        let back = topology.links.iter().any(|other| link.back().is_beside(other));
        alike && back && free(from) && free(to)
    };
    topology.links.iter().find(suits).map(|link| [link.from, link.to])
}

/// The second least of several medians: what stands in the way only ever adds, and may for a while;
/// the least of all is chance.
fn quiet(first: &UdpSocket, second: &UdpSocket) -> Result<Duration, CalibrationError> {
    let mut medians = [Duration::ZERO; BATCHES];
    for median in &mut medians {
        *median = one_way(first, second)?;
    }
    medians.sort_unstable();
    Ok(medians[1])
}

/// The median of both ways.
fn one_way(first: &UdpSocket, second: &UdpSocket) -> Result<Duration, CalibrationError> {
    let plan = ProbePlan { count: COUNT, warm_up: 2, ..ProbePlan::new(KNOWN * 2) };
    let probed = probe(first, second, plan)?;
    let (sent, lost) = (2 * u64::from(plan.count), probed.lost);
    match (probed.there.quantile(0.5), probed.back.quantile(0.5)) {
        (Some(there), Some(back)) if lost * 2 < sent => Ok((there + back) / 2),
        _ => Err(CalibrationError::Lost { sent, lost }),
    }
}

/// Long enough for the router to sleep until the packet is due, as it does with longer ones.
const KNOWN: Duration = Duration::from_micros(600);

/// Largest compensation. A longer delay is not the machine's own, but due to its load.
const MOST: Duration = Duration::from_micros(250);

/// With so many each way the median is within some 6 us.
const COUNT: u32 = 10;

/// Together 0.6 s, longer than a machine's host mostly looks away.
const BATCHES: usize = 5;
