//! Health checks that take the link of the traffic: to the service address at a server, by its link
//! address or in a tunnel.

use std::{
    collections::VecDeque,
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
    layout::address,
    object::CHECKS,
    traffic_control,
};

/// Where a check goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// What it connects to: the server's own address.
    pub server: SocketAddr,
    /// What it reaches there, of the same family.
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
    /// The oldest first.
    lent: VecDeque<(Instant, Key)>,
}

/// `struct check_key`.
type Key = [u8; 8];

impl Checks {
    /// Loads the programs and attaches them to an interface.
    ///
    /// # Errors
    /// They were not compiled, the kernel refuses, or there is no such interface.
    pub fn attach(interface: &str) -> Result<Self, AttachError> {
        let mut loaded = CHECKS.make(&[], &[])?;
        for (name, way) in
            [("check_out", TcAttachType::Egress), ("check_in", TcAttachType::Ingress)]
        {
            traffic_control::attach(&mut loaded, name, interface, way)?;
        }
        Ok(Self { loaded, lent: VecDeque::new() })
    }

    /// Sends what leaves from this port of ours by the link of a check, until `until`.
    ///
    /// # Errors
    /// The kernel's, also where 4,096 are lent.
    pub fn lend(
        &mut self,
        now: Instant,
        (port, until): (u16, Instant),
        check: &Check,
    ) -> Result<(), TableError> {
        let mut table: HashMap<_, Key, [u8; 36]> = table_of(&mut self.loaded, TABLE)?;
        while let Some((_, key)) = self.lent.pop_front_if(|(until, _)| *until <= now) {
            // It may have been lent once more meanwhile.
            if self.lent.iter().all(|(_, other)| *other != key) {
                drop(table.remove(&key));
            }
        }
        let key = check.key(port);
        table.insert(key, check.value(), 0).map_err(TableError::kernel(TABLE))?;
        self.lent.push_back((until, key));
        Ok(())
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
