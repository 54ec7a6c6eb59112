//! What is to be done to the tables from time to time.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    time::Instant,
};

use loadline_core::{
    decide::plan::Plan,
    time::{self, Duration},
};
use nix::net::if_::if_indextoname;

use super::{
    episode::EpisodeReport,
    tables::{Served, Tables},
};

use crate::{
    AttachmentChange, Datapath, TableError, Unsettled, Verdict, neighbour::Neighbour,
    ring::SERVER_MAX, standby::Standby,
};

/// When each task is due again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Due {
    /// What is shown while the tables are busy.
    snapshot: time::Instant,
    /// Link addresses that are known already.
    all_links: time::Instant,
    /// Report missing link addresses.
    missing: time::Instant,
    /// Ports of connections that are over.
    ports: time::Instant,
    /// Servers that are about to leave.
    leavers: time::Instant,
    /// Read loads of servers whose weights follow them.
    loads: time::Instant,
}

/// What a look at link addresses found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    /// Some are others than before; the tables have to be told.
    changed: bool,
    /// None is missing.
    pub(super) whole: bool,
}

impl Tables {
    /// Runs the tasks that are due.
    pub(super) fn tick(&mut self, plan: &Plan) {
        let now = Datapath::now();
        self.keep_attached(now);
        if now >= self.due.snapshot {
            self.due.snapshot = now + spaced(|| told("counts", self.show()));
        }
        let is_turn_of_all = now >= self.due.all_links;
        if is_turn_of_all {
            self.due.all_links = now + LINKS_INTERVAL;
        }
        if self.find_links(is_turn_of_all).changed {
            self.refresh();
        }
        if now >= self.due.missing {
            self.due.missing = now + SECOND;
            self.tell_missing_links();
        }
        told("counts", self.watch_exhaustion(now));
        if now >= self.due.loads {
            self.due.loads = now + SECOND;
            told("connections", self.tell_loads(now, plan));
        }
        // What another balancer told of has not been heard of here, and is not ours to judge.
        if self.is_free() {
            if now >= self.due.ports {
                self.due.ports = now + spaced(|| told("ports", self.give_back()));
            }
            told("rings", self.settle(now));
        }
        if now >= self.due.leavers {
            self.due.leavers = now + spaced(|| told("servers", self.let_go(now)));
        }
    }

    /// Attaches the program anew where the interface was deleted and another of the name is there.
    fn keep_attached(&mut self, now: time::Instant) {
        let Self { attachment, datapath, .. } = self;
        let change = attachment.look(now, |name, how| datapath.attach(name, how));
        let Some(change) = change else { return };
        let interface = self.attachment.interface();
        match change {
            AttachmentChange::Lost => tracing::error!(
                "no packets are forwarded: {interface} was deleted; waiting for another of the name"
            ),
            AttachmentChange::Refused(error) => {
                tracing::error!("no packets are forwarded: {}; start again", chain(&error));
            }
            AttachmentChange::Attached(how) => {
                tracing::warn!("packets are forwarded on {interface} again, {}", how.name());
            }
        }
        let is_attached = self.attachment.attached().is_some();
        if let Some(standby) = &mut self.standby {
            standby.set_attached(is_attached);
        }
        if is_attached {
            // The next hops may be others.
            self.due.all_links = time::Instant::ZERO;
        }
    }

    /// Asks the kernel for link addresses that are not known, or for all that the file does not
    /// say.
    pub(super) fn find_links(&mut self, all: bool) -> Links {
        let mut links = Links { changed: false, whole: true };
        let mut asked = BTreeMap::new();
        for (number, placed) in &mut self.servers {
            let Some(name) = self.numbers.name(*number) else { continue };
            // One that was removed is looked for as well: nothing else tells that it is off.
            let is_missing = placed.is_wanted && placed.link.is_none();
            if placed.is_fixed || !is_missing && !all {
                continue;
            }
            let interface = self.attachment.interface();
            // Asking has the kernel look anew, so that it would not say twice that nobody answers.
            let found = *asked.entry(name.address).or_insert_with(|| {
                self.neighbours.find(name.address, interface).unwrap_or_else(|error| {
                    let server = name.address;
                    tracing::warn!(%server, %error, "cannot read the neighbour table");
                    Neighbour::Unknown
                })
            });
            let (before, was_silent) = (placed.link, placed.is_silent);
            placed.meet(found);
            links.changed |= placed.link != before;
            if placed.is_silent && !was_silent {
                tracing::warn!(server = %name.address, "was removed and does not answer any more: \
                    what it still has goes to other servers");
            }
            links.whole &= placed.link.is_some();
        }
        links
    }

    /// Says once of each server that nothing can be sent to it; not at first sight.
    fn tell_missing_links(&mut self) {
        for (number, placed) in &mut self.servers {
            if placed.link.is_some() || placed.leaving.is_some() {
                placed.missed = 0;
                continue;
            }
            placed.missed = placed.missed.saturating_add(1);
            if placed.missed != 2 {
                continue;
            }
            let Some(name) = self.numbers.name(*number) else { continue };
            let server = name.address;
            let elsewhere = placed.elsewhere.and_then(|index| if_indextoname(index).ok());
            match elsewhere {
                None => tracing::warn!(%server, "gets no packets: its link address is unknown"),
                Some(other) => tracing::warn!(
                    %server,
                    "gets no packets: it is reached by {}, and packets leave by {}; change the \
                     route to it, or set its `mac`",
                    other.to_string_lossy(), self.attachment.interface()
                ),
            }
        }
    }

    fn give_back(&mut self) -> Result<(), TableError> {
        let numbers = &self.service_numbers;
        self.datapath.give_back(|number| numbers.times(number)).map(drop)
    }

    /// Lets rings settle that have changed.
    fn settle(&mut self, now: time::Instant) -> Result<(), TableError> {
        let is_due = |served: &&mut Served| served.settles_at.is_some_and(|at| now >= at);
        let mut due: Vec<&mut Served> = self.services.values_mut().filter(is_due).collect();
        if due.is_empty() {
            return Ok(());
        }
        let unsettled = due.iter_mut().map(|served| Unsettled {
            service: served.number,
            stale: served.lasts(),
            ring: &mut served.ring,
        });
        let left = self.datapath.settle_all(&mut unsettled.collect::<Vec<_>>())?;
        for served in due {
            let more = left.contains(&served.number);
            served.settles_at = more.then(|| now + (served.lasts() / 10).max(SECOND));
        }
        Ok(())
    }

    /// Cuts connections of servers that left long enough ago, and removes servers without any.
    /// Servers that wait for a number get theirs.
    pub(super) fn let_go(&mut self, now: time::Instant) -> Result<(), TableError> {
        if self.servers.values().all(|placed| placed.leaving.is_none()) {
            return Ok(());
        }
        self.write_servers(now);
        let gone = self.servers.iter().filter(|(_, placed)| !placed.is_wanted);
        let mut gone: Vec<u16> = gone.map(|(number, _)| *number).collect();
        if gone.is_empty() {
            return Ok(());
        }
        let mut known = self.in_rings()?;
        known.extend(self.standby.iter().flat_map(Standby::servers));
        gone.retain(|number| !known.contains(number));
        if gone.is_empty() {
            return Ok(());
        }
        let removed = self.datapath.remove_servers(&gone)?;
        for (number, count) in &removed {
            self.opened_before += count.opened;
            self.servers.remove(number);
            if let Some(name) = self.numbers.name(*number) {
                tracing::info!(server = %name.address, "has left: no connection is on it any more");
            }
            self.numbers.give_back(*number);
        }
        if let Some(standby) = &mut self.standby {
            standby.release(|number| removed.iter().any(|(free, _)| *free == number));
        }
        if !removed.is_empty() && self.has_unplaced() {
            self.refresh();
        }
        Ok(())
    }

    /// Servers that rings may lead to: those of our rings, and those of the rings in force, which
    /// on a standby are another balancer's.
    fn in_rings(&self) -> Result<BTreeSet<u16>, TableError> {
        let mut known = vec![false; usize::from(SERVER_MAX) + 1];
        for served in self.services.values() {
            let in_force = self.datapath.ring(served.number)?;
            let ours = if self.is_free() { served.ring.entries() } else { &[] };
            for entry in in_force.iter().chain(ours) {
                known[usize::from(entry.current())] = true;
                known[usize::from(entry.base())] = true;
            }
        }
        Ok((0..=SERVER_MAX).filter(|number| known[usize::from(*number)]).collect())
    }

    fn watch_exhaustion(&mut self, now: time::Instant) -> Result<(), TableError> {
        let verdicts = self.datapath.verdicts()?;
        let refused = |reason| {
            let refused = verdicts.iter().find(|(verdict, _)| *verdict == reason);
            refused.map_or(0, |(_, count)| count.packets)
        };
        match self.exhaustion.look(now, refused(Verdict::DropNatPorts)) {
            None => {}
            Some(EpisodeReport::Began) => tracing::warn!(
                "NAT ports are exhausted: new connections are refused; add l4.return_addresses or \
                 shorten fin_timeout"
            ),
            Some(EpisodeReport::Over(packets)) => {
                tracing::info!(packets, "NAT ports are no longer exhausted");
            }
        }
        match self.overflow.look(now, refused(Verdict::DropNatFull)) {
            None => {}
            Some(EpisodeReport::Began) => tracing::warn!(
                "the table of NAT connections is full: new connections are refused; raise \
                 l4.max_nat_connections or shorten fin_timeout"
            ),
            Some(EpisodeReport::Over(packets)) => {
                tracing::info!(packets, "the table of NAT connections is no longer full");
            }
        }
        Ok(())
    }
}

/// How long to wait after work, so that it takes a tenth of the time at most.
fn spaced(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    Duration::from_std(started.elapsed() * 10).max(SECOND)
}

/// An error with its causes.
fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| Error::source(*cause));
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

pub(super) fn told(what: &str, outcome: Result<(), TableError>) {
    if let Err(error) = outcome {
        tracing::error!("{what} of packet forwarding: {error}");
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// A network card is seldom replaced.
const LINKS_INTERVAL: Duration = Duration::from_secs(10);
