//! Connection ids of QUIC that say a server: packets of such a connection go there whatever address
//! its client has by now.

use std::collections::BTreeMap;

use crate::{datapath::Datapath, error::TableError, layout::quic_key, removal::was_there};

const TABLE: &str = "quic_servers";

impl Datapath {
    /// Says which server of a service gives out connection ids with which number; none where `ids`
    /// is empty. A server that is not up is passed over.
    ///
    /// # Errors
    /// The service has not been added, or the kernel's.
    pub fn set_quic_ids(
        &mut self,
        service: u32,
        ids: &BTreeMap<u16, u16>,
    ) -> Result<(), TableError> {
        let known = self.services.get_mut(&service).ok_or(TableError::UnknownService(service))?;
        if known.quic_ids == *ids {
            return Ok(());
        }
        let before = std::mem::replace(&mut known.quic_ids, ids.clone());
        for (id, server) in ids.iter().filter(|(id, server)| before.get(id) != Some(server)) {
            self.insert(TABLE, quic_key(service, *id), u32::from(*server))?;
        }
        self.forget_quic_ids(service, before.keys().filter(|id| !ids.contains_key(id)))?;
        if before.is_empty() != ids.is_empty() {
            self.renew(service)?;
        }
        Ok(())
    }

    /// Takes numbers of a service out of the table.
    pub(crate) fn forget_quic_ids<'a>(
        &mut self,
        service: u32,
        ids: impl Iterator<Item = &'a u16>,
    ) -> Result<(), TableError> {
        let mut table = self.table_mut::<u32, u32>(TABLE)?;
        for id in ids {
            was_there(table.remove(&quic_key(service, *id))).map_err(TableError::kernel(TABLE))?;
        }
        Ok(())
    }
}
