//! What the tables hold, as operators see it.

use std::sync::PoisonError;

use loadline_core::{
    fleet::forwarding::Method,
    state::{self, Flow, FlowTable, ForwardedServer, Forwarding, Frontend, Traffic},
};

use super::{forwarded_services::ForwardedService, placed::Placed, tables::Tables};

use crate::{Held, ServerName, TableError, standby::Standby};

/// What was told last, for as long as the tables are busy.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) forwarding: Option<Forwarding>,
    pub(super) standby: Option<state::Standby>,
}

impl Tables {
    /// Tells everything to whoever asks while the tables are busy.
    pub(super) fn show(&self) -> Result<(), TableError> {
        let forwarding = Some(self.tell()?);
        let standby = self.standby.as_ref().map(Standby::state);
        let snapshot = Snapshot { forwarding, standby };
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
        Ok(())
    }

    /// What has been counted.
    pub(super) fn tell(&self) -> Result<Forwarding, TableError> {
        let verdicts = self.datapath.verdicts()?.into_iter().map(|(verdict, count)| {
            let traffic = Traffic { packets: count.packets, bytes: count.bytes };
            (verdict.name().to_owned(), traffic)
        });
        let servers = self.servers.iter().filter_map(|(number, placed)| {
            let name = self.numbers.name(*number)?;
            Some(self.server(*number, name, placed))
        });
        let servers = servers.collect::<Result<Vec<_>, TableError>>()?;
        Ok(Forwarding {
            interface: self.attachment.interface().to_owned(),
            mode: self.mode().to_owned(),
            verdicts: verdicts.collect(),
            opened: servers.iter().map(|server| server.opened).sum::<u64>() + self.opened_before,
            frontends: self.frontends(),
            servers,
            flow_tables: self.flow_tables(),
            ..Forwarding::default()
        })
    }

    /// How full they are. They are read while rings settle, which those of a standby do not.
    fn flow_tables(&self) -> Vec<FlowTable> {
        let max_flows = u64::from(self.datapath.sizes.flows);
        let families = ["ipv4", "ipv6"].into_iter().zip(self.datapath.flow_counts());
        let tables = families.map(|(family, count)| FlowTable {
            family: family.to_owned(),
            // The kernel may begin again while they are read.
            flows: self.is_free().then_some(max_flows.min(count as u64)),
            max_flows,
        });
        tables.collect()
    }

    /// Every flow that is written down.
    pub(super) fn flows(&self) -> Result<Vec<Flow>, TableError> {
        Ok(self.datapath.held()?.iter().map(|held| self.flow(held)).collect())
    }

    fn server(
        &self,
        number: u16,
        name: ServerName,
        placed: &Placed,
    ) -> Result<ForwardedServer, TableError> {
        let count = self.datapath.server_count(number)?;
        let of = |number: u32| {
            let known = self.services.iter().find(|(_, served)| served.number == number);
            known.map(|(forwarded, _)| forwarded)
        };
        let forwarded = name.service.and_then(of);
        let method = match name.is_of_nat() {
            true => Some(Method::Nat),
            false => forwarded.map(|it| it.method),
        };
        Ok(ForwardedServer {
            address: place(name),
            service: forwarded.map(|it| it.service.clone()),
            method: method.map(|it| it.to_string()),
            number,
            link: placed.link.map(link),
            condition: placed.condition().to_owned(),
            packets: count.packets,
            bytes: count.bytes,
            opened: count.opened,
            closed: count.closed,
            free_ports: name.is_of_nat().then(|| self.datapath.free_ports(number) as u64),
        })
    }

    fn frontends(&self) -> Vec<Frontend> {
        let each = self.services.iter().flat_map(|(forwarded, served)| {
            served.frontends.iter().map(|frontend| Frontend {
                address: frontend.address.to_string(),
                protocol: frontend.protocol.to_string(),
                method: forwarded.method.to_string(),
                service: forwarded.service.clone(),
            })
        });
        each.collect()
    }

    fn flow(&self, held: &Held) -> Flow {
        let known = self.services.iter().find(|(_, it)| it.number == u32::from(held.service));
        let service = known.map_or(String::new(), |(forwarded, _)| forwarded.service.clone());
        let method = match held.lent {
            Some(_) => Method::Nat.to_string(),
            None => known
                .map_or(String::new(), |(ForwardedService { method, .. }, _)| method.to_string()),
        };
        Flow {
            client: held.path.client.to_string(),
            frontend: held.path.frontend.address.to_string(),
            protocol: held.path.frontend.protocol.to_string(),
            service,
            method,
            server: self.numbers.name(held.server).map_or(String::new(), place),
            lent: held.lent.map(|lent| lent.address.to_string()),
            closed: held.lent.is_some_and(|lent| lent.is_closed),
            idle_s: held.idle.as_secs_f64(),
        }
    }
}

/// With its port where packets are given one.
pub(super) fn place(name: ServerName) -> String {
    match name.port {
        0 => name.address.to_string(),
        port => std::net::SocketAddr::new(name.address, port).to_string(),
    }
}

fn link(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}
