//! Services and servers that are no more. A server's number can be another's as soon as nothing in
//! the tables knows it.

use std::{collections::BTreeSet, io, net::IpAddr};

use aya::{
    maps::{HashMap, MapData, MapError, PerCpuArray, PerCpuValues},
    util::nr_cpus,
};
use loadline_core::{fleet::forwarding::Times, time::Duration};

use crate::{
    Frontend, ServerCount,
    datapath::{Datapath, table_of},
    error::TableError,
    layout::{ServiceKey, Tuple4, Tuple6},
};

impl Datapath {
    /// Forgets a service: packets to it are for the kernel again. Its flows are forgotten, its NAT
    /// connections when they are over.
    ///
    /// # Errors
    /// The kernel's.
    pub fn remove_service(&mut self, number: u32) -> Result<(), TableError> {
        let Some(gone) = self.services.remove(&number) else { return Ok(()) };
        self.close(&gone.frontends)?;
        self.forget_quic_ids(number, gone.quic_ids.keys())?;
        // Packets on their way may still write flows down.
        self.wait_for_packets()?;
        self.forget_flows(number)
    }

    /// Takes packets to these frontends no more, but where a service has them.
    pub(crate) fn close(&mut self, frontends: &[Frontend]) -> Result<(), TableError> {
        let known: Vec<Frontend> =
            self.services.values().flat_map(|it| &it.frontends).copied().collect();
        for frontend in frontends {
            let ip = frontend.address.ip();
            if !known.contains(frontend) {
                self.remove_key(ServiceKey::of(frontend))?;
            }
            let is_ours = known.iter().any(|other| other.address.ip() == ip);
            if !is_ours && !self.is_return(ip) {
                self.remove_key(ServiceKey::own(ip))?;
            }
        }
        Ok(())
    }

    /// Gives the numbers of servers back that no ring leads to any more, but of those that flows or
    /// NAT connections are still on. Tells what those that have left were sent.
    ///
    /// # Errors
    /// The kernel's.
    pub fn remove_servers(
        &mut self,
        numbers: &[u16],
    ) -> Result<Vec<(u16, ServerCount)>, TableError> {
        // Packets that have looked into an older ring may still write down where they went.
        self.wait_for_packets()?;
        let used = self.servers_in_use()?;
        let unused = numbers.iter().copied().filter(|number| !used.contains(number));
        unused.map(|number| Ok((number, self.remove_server(number)?))).collect()
    }

    fn remove_server(&mut self, number: u16) -> Result<ServerCount, TableError> {
        if !self.servers.contains_key(&number) {
            return Ok(ServerCount::default());
        }
        let count = self.server_count(number)?;
        self.set_at("servers", number.into(), [0_u8; 32])?;
        self.queues.empty(number);
        self.queues.has_lost(number);
        self.reset_count(number)?;
        self.servers.remove(&number);
        self.revision += 1;
        Ok(count)
    }

    /// The servers that flows or NAT connections are written down for.
    ///
    /// # Errors
    /// The kernel's.
    pub fn servers_in_use(&self) -> Result<BTreeSet<u16>, TableError> {
        let mut used = self.servers_of_flows()?;
        let lent4 = self.connections::<Tuple4>(|_| FOREVER)?;
        let lent6 = self.connections::<Tuple6>(|_| FOREVER)?;
        used.extend(lent4.iter().map(|one| one.server));
        used.extend(lent6.iter().map(|one| one.server));
        Ok(used)
    }

    fn is_return(&self, ip: IpAddr) -> bool {
        self.settings.returns(ip.is_ipv6()).any(|own| own == ip)
    }

    fn remove_key(&mut self, key: ServiceKey) -> Result<(), TableError> {
        let removed = match key {
            ServiceKey::V4(key) => self.services_table::<[u8; 8]>("services4")?.remove(&key),
            ServiceKey::V6(key) => self.services_table::<[u8; 20]>("services6")?.remove(&key),
        };
        if was_there(removed).map_err(TableError::kernel("services4"))? {
            self.outdate();
        }
        Ok(())
    }

    fn services_table<K: aya::Pod>(
        &mut self,
        name: &'static str,
    ) -> Result<HashMap<&mut MapData, K, [u8; 8]>, TableError> {
        self.table_mut(name)
    }

    fn reset_count(&mut self, number: u16) -> Result<(), TableError> {
        const COUNTS: &str = "server_counts";
        let processors = nr_cpus().map_err(|(_, error)| TableError::Processors(error))?;
        let zero = PerCpuValues::try_from(vec![[0_u64; 4]; processors]);
        let zero = zero.map_err(TableError::Processors)?;
        let mut counts: PerCpuArray<_, [u64; 4]> = table_of(&mut self.loaded, COUNTS)?;
        counts.set(number.into(), zero, 0).map_err(TableError::kernel(COUNTS))
    }
}

/// Whether a key that was to be removed had an entry.
pub(crate) fn was_there(removed: Result<(), MapError>) -> Result<bool, MapError> {
    match removed {
        Ok(()) => Ok(true),
        Err(MapError::KeyNotFound) => Ok(false),
        Err(MapError::SyscallError(error)) if error.io_error.kind() == io::ErrorKind::NotFound => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Whatever there is, is not over.
const FOREVER: Times = Times { fin: Duration::MAX, stale: Duration::MAX };
