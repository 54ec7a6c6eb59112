//! What the tables hold, for whoever wants to see it.

use std::net::SocketAddr;

use loadline_core::time::{Duration, Instant};

use crate::{
    datapath::Datapath,
    error::TableError,
    layout::{NAT, Nat, Tuple, Tuple4, Tuple6},
    nat::forward_of,
    path::{Keyed, Path},
    ports::Direction,
};

/// A flow or a NAT connection that is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Client and frontend.
    pub path: Path,
    /// The number of its service.
    pub service: u16,
    /// The number of its server.
    pub server: u16,
    /// How long ago its last packet came, to a second or so.
    pub idle: Duration,
    /// The address lent by NAT; none for other flows.
    pub lent: Option<Lent>,
}

/// What a NAT connection has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// From where its server sees it come.
    pub address: SocketAddr,
    /// Both sides have closed it, or one has broken it off.
    pub is_closed: bool,
}

impl Datapath {
    /// All that is written down, in no order. Flows of settled entries are not among it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn held(&self) -> Result<Vec<Held>, TableError> {
        let mut held = self.flows_held::<Tuple4>()?;
        held.extend(self.flows_held::<Tuple6>()?);
        held.extend(self.nat_held::<Tuple4>()?);
        held.extend(self.nat_held::<Tuple6>()?);
        Ok(held)
    }

    fn flows_held<K: Keyed>(&self) -> Result<Vec<Held>, TableError> {
        let now = Self::now();
        let flows = self.flows::<K>()?.into_iter().map(|(key, flow)| Held {
            path: key.path(),
            service: flow.service,
            server: flow.server,
            idle: now.since(flow.last.max(self.heard)),
            lent: None,
        });
        Ok(flows.collect())
    }

    fn nat_held<K: Keyed + Tuple>(&self) -> Result<Vec<Held>, TableError> {
        let table = self.table::<K, [u8; NAT]>(K::BACK)?;
        let forward = self.table::<K, [u8; NAT]>(K::FORWARD)?;
        let mut held = Vec::new();
        let now = Self::now();
        for (key, back) in table.iter().flatten() {
            let back = Nat(back);
            let there: K = K::peer(&back);
            let seen = forward_of(&forward, &key, &back);
            let seen = seen.as_ref().map_or(Direction::default(), Nat::seen);
            held.push(Held {
                path: there.path(),
                service: back.service(),
                server: back.server(),
                idle: now.since(last([seen, back.seen()]).max(self.heard)),
                lent: Some(Lent {
                    address: key.destination(),
                    is_closed: Direction::closed(seen, back.seen()),
                }),
            });
        }
        Ok(held)
    }
}

fn last(seen: [Direction; 2]) -> Instant {
    let [there, back] = seen;
    there.last.max(back.last)
}
