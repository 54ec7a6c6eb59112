//! Health checks that take the link of the traffic: to the service address at a server, by its link
//! address or in a tunnel.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    net::{IpAddr, SocketAddr},
};

use aya::{Ebpf, maps::HashMap, programs::TcAttachType};
use loadline_core::{
    fleet::forwarding::{Method, Protocol},
    time::Instant,
};

use crate::{
    datapath::table_of,
    error::{AttachError, TableError},
    interface::{Attach, Attached, Attachment, AttachmentChange},
    layout::address,
    object::CHECKS,
    traffic_control,
};

/// Where a check goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// What it connects to: the server's own address.
    pub server: SocketAddr,
    /// The service address inside the packets, of the same family.
    pub service: IpAddr,
    /// By `mac` or `ipip`; `nat` goes straight.
    pub method: Method,
    /// Of TCP or in datagrams.
    pub protocol: Protocol,
}

/// Programs at an interface that send checks by their links, until this is dropped.
#[derive(Debug)]
pub struct Checks {
    loaded: Ebpf,
    /// Of each of [`PROGRAMS`].
    attachments: [Attachment; 2],
    lent: Lent,
}

/// Which ports are lent until when.
#[derive(Debug, Default)]
struct Lent {
    until: BTreeMap<Key, Instant>,
    /// The first to end on top, with some that were lent anew since.
    ends: BinaryHeap<Reverse<(Instant, Key)>>,
}

/// `struct check_key`.
type Key = [u8; 8];

impl Checks {
    /// Loads the programs and attaches them to an interface.
    ///
    /// # Errors
    /// They were not compiled, the kernel refuses, or there is no such interface.
    pub fn attach(interface: &str) -> Result<Self, AttachError> {
        let mut loaded = CHECKS.make(&[(TABLE, LENT_MAX)], &[])?;
        let mut attachments = PROGRAMS.map(|_| Attachment::to(interface, Attach::Tcx));
        for (attachment, (name, way)) in attachments.iter_mut().zip(PROGRAMS) {
            attachment.begin(|interface, _| attach(&mut loaded, name, interface, way))?;
        }
        Ok(Self { loaded, attachments, lent: Lent::default() })
    }

    /// Sends what leaves from this port of ours by the link of a check, until `until`.
    ///
    /// # Errors
    /// The kernel's, also where 65,536 are lent.
    pub fn lend(
        &mut self,
        now: Instant,
        (port, until): (u16, Instant),
        check: &Check,
    ) -> Result<(), TableError> {
        let Self { loaded, attachments, .. } = self;
        keep_attached(attachments, now, |(name, way), interface| {
            attach(loaded, name, interface, way)
        });
        let mut table: HashMap<_, Key, [u8; 36]> = table_of(&mut self.loaded, TABLE)?;
        while let Some(key) = self.lent.pop(now) {
            drop(table.remove(&key));
        }
        let key = check.key(port);
        table.insert(key, check.value(), 0).map_err(TableError::kernel(TABLE))?;
        self.lent.push(key, until);
        Ok(())
    }
}

/// Attaches the programs to another interface of the name, where theirs was deleted.
fn keep_attached(
    attachments: &mut [Attachment; 2],
    now: Instant,
    mut attach: impl FnMut(Program, &str) -> Result<Attached, AttachError>,
) {
    for (attachment, program) in attachments.iter_mut().zip(PROGRAMS) {
        while let Some(change) = attachment.look(now, |interface, _| attach(program, interface)) {
            if let AttachmentChange::Refused(error) = change {
                tracing::warn!(
                    "checks of `mac` and `ipip` go to the servers' own addresses: {error}"
                );
            }
        }
    }
}

fn attach(
    loaded: &mut Ebpf,
    name: &str,
    interface: &str,
    way: TcAttachType,
) -> Result<Attached, AttachError> {
    traffic_control::attach(loaded, name, interface, way).map(|()| Attached::Tcx)
}

impl Lent {
    fn push(&mut self, key: Key, until: Instant) {
        self.until.insert(key, until);
        self.ends.push(Reverse((until, key)));
    }

    /// Takes a key whose time has ended.
    fn pop(&mut self, now: Instant) -> Option<Key> {
        while self.ends.peek().is_some_and(|Reverse((until, _))| *until <= now) {
            let Reverse((until, key)) = self.ends.pop()?;
            if self.until.get(&key) == Some(&until) {
                self.until.remove(&key);
                return Some(key);
            }
        }
        None
    }
}

impl Check {
    fn key(&self, port: u16) -> Key {
        let [[a, b], [c, d]] = [port, self.server.port()].map(u16::to_be_bytes);
        [a, b, c, d, self.protocol as u8, u8::from(self.server.is_ipv6()), 0, 0]
    }

    /// `struct check`.
    fn value(&self) -> [u8; 36] {
        let mut value = [0; 36];
        value[..16].copy_from_slice(&address(self.service));
        value[16..32].copy_from_slice(&address(self.server.ip()));
        value[32..].copy_from_slice(&(self.method as u32).to_ne_bytes());
        value
    }
}

const TABLE: &str = "checks";

/// Its name and which packets it sees.
type Program = (&'static str, TcAttachType);

const PROGRAMS: [Program; 2] =
    [("check_out", TcAttachType::Egress), ("check_in", TcAttachType::Ingress)];

/// Checks at a time. Each has a port of ours, of which the kernel gives out 28,232 by itself.
const LENT_MAX: u32 = 65_536;

#[cfg(test)]
mod tests {
    use loadline_core::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn after_one_failure_checks_go_by_their_links_again() {
        let mut attachments = PROGRAMS.map(|_| Attachment::to("lo", Attach::Tcx));
        let mut keep = |seconds, refused: &str| {
            let mut asked = Vec::new();
            keep_attached(&mut attachments, at(seconds), |(name, _), _| {
                asked.push(name);
                if name == refused { Err(AttachError::OnlyXdp) } else { Ok(Attached::Tcx) }
            });
            asked
        };
        assert_eq!(keep(0, "check_in"), ["check_out", "check_in"]);
        assert!(keep(9, "").is_empty(), "not for each check");
        assert_eq!(keep(10, ""), ["check_in"], "the other one is attached");
        assert!(keep(20, "").is_empty(), "both are");
    }

    #[test]
    fn a_long_check_does_not_keep_the_places_of_short_ones() {
        let mut lent = Lent::default();
        lent.push([1; 8], at(60));
        lent.push([2; 8], at(2));
        lent.push([3; 8], at(1));
        assert_eq!([(); 3].map(|()| lent.pop(at(2))), [Some([3; 8]), Some([2; 8]), None]);
        assert_eq!(lent.pop(at(60)), Some([1; 8]));
    }

    #[test]
    fn a_port_that_is_lent_once_more_stays_until_its_last_check_is_over() {
        let mut lent = Lent::default();
        lent.push([1; 8], at(1));
        lent.push([1; 8], at(3));
        assert_eq!(lent.pop(at(2)), None);
        assert_eq!((lent.pop(at(3)), lent.pop(at(9))), (Some([1; 8]), None));
    }
}
