//! NAT connections that are over are forgotten, and their ports given back in the order in which
//! they ended (`ports`).

use std::collections::HashSet;

use aya::maps::{HashMap, MapData};
use loadline_core::{fleet::forwarding::Times, time::Instant};

use crate::{
    datapath::Datapath,
    error::TableError,
    events::Event,
    layout::{NAT, Nat, Tuple, Tuple4, Tuple6},
    ports::{Direction, Port, over},
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection<K> {
    /// Key of the responses.
    back: K,
    /// Key of the client's packets; none where they are of another connection by now.
    forward: Option<K>,
    pub(crate) server: u16,
    /// The port that it was lent.
    pub(crate) port: Port,
    /// When it is over if nothing more is heard.
    end: Instant,
}

impl Datapath {
    /// Forgets NAT connections that are over by the times of their service, and gives their ports
    /// back, which are counted. To be called every second or so.
    ///
    /// # Errors
    /// The kernel's.
    pub fn give_back(&mut self, times: impl Fn(u32) -> Times) -> Result<usize, TableError> {
        let mut ports = self.forget::<Tuple4>(&times)?;
        ports.extend(self.forget::<Tuple6>(&times)?);
        if !ports.is_empty() {
            self.outdate();
        }
        // A packet on its way may still use the entry of a port that is about to be lent.
        self.wait_for_packets()?;
        for (server, port) in &ports {
            self.queues.add(*server, *port);
        }
        self.find_lost(&times)?;
        Ok(ports.len())
    }

    /// Has every processor look services and connections up again: one was changed or taken away,
    /// or a server was changed.
    pub(crate) fn outdate(&self) {
        self.generation.end();
    }

    /// How many ports towards a server are free; none where it is not one of NAT.
    #[must_use]
    pub fn free_ports(&self, server: u16) -> usize {
        self.queues.count(server)
    }

    /// Gives ports back that were taken for connections which then could not be written down.
    fn find_lost(&mut self, times: impl Fn(u32) -> Times) -> Result<(), TableError> {
        let all = self.servers.keys().copied();
        let short: Vec<u16> = all.filter(|server| self.queues.has_lost(*server)).collect();
        if short.is_empty() {
            return Ok(());
        }
        // What is taken after this is in `known`, and what was taken before is written down once
        // packets have been waited for.
        let free = |server: u16| self.queues.free(server).into_iter().map(move |at| (server, at));
        let mut known: HashSet<(u16, u32)> = short.iter().copied().flat_map(free).collect();
        self.wait_for_packets()?;
        let lent4 = self.connections::<Tuple4>(&times)?;
        known.extend(lent4.iter().map(|one| (one.server, one.port.to_bits())));
        let lent6 = self.connections::<Tuple6>(&times)?;
        known.extend(lent6.iter().map(|one| (one.server, one.port.to_bits())));
        for server in short {
            let lost = self.ports(server).filter(|port| !known.contains(&(server, port.to_bits())));
            lost.for_each(|port| self.queues.add(server, port));
        }
        Ok(())
    }

    /// Removes what is over; the ports that it was lent.
    fn forget<K: Tuple>(
        &mut self,
        times: impl Fn(u32) -> Times,
    ) -> Result<Vec<(u16, Port)>, TableError> {
        let connections = self.connections::<K>(times)?;
        let gone = over(Self::now(), connections.into_iter().map(|one| (one, one.end)));
        self.tell(gone.iter().map(|one| Event::Over { server: one.server, port: one.port }));
        let mut table = self.table_mut::<K, [u8; NAT]>(K::FORWARD)?;
        // What is missing already is no error.
        gone.iter().filter_map(|one| one.forward).for_each(|key| drop(table.remove(&key)));
        let mut table = self.table_mut::<K, [u8; NAT]>(K::BACK)?;
        gone.iter().for_each(|one| drop(table.remove(&one.back)));
        Ok(gone.into_iter().map(|one| (one.server, one.port)).collect())
    }

    pub(crate) fn connections<K: Tuple>(
        &self,
        times: impl Fn(u32) -> Times,
    ) -> Result<Vec<Connection<K>>, TableError> {
        let table = self.table::<K, [u8; NAT]>(K::BACK)?;
        let answers: Result<Vec<_>, _> = table.iter().collect();
        let answers = answers.map_err(TableError::kernel(K::BACK))?;
        let table = self.table::<K, [u8; NAT]>(K::FORWARD)?;
        let mut found = Vec::with_capacity(answers.len());
        for (key, back) in answers {
            let back = Nat(back);
            let Some(port) = self.settings.place(&key.destination()) else { continue };
            let there = forward_of(&table, &key, &back);
            let mut seen = there.as_ref().map_or(Direction::default(), Nat::seen);
            seen.last = seen.last.max(self.heard);
            let end = Direction::end(seen, back.seen(), &times(back.service().into()));
            let forward = there.map(|_| K::peer(&back));
            found.push(Connection { back: key, forward, server: back.server(), port, end });
        }
        Ok(found)
    }
}

/// The entry of the client's packets by that of the responses; none where another connection of the
/// client has taken its place.
pub(crate) fn forward_of<K: Tuple>(
    table: &HashMap<&MapData, K, [u8; NAT]>,
    key: &K,
    back: &Nat,
) -> Option<Nat> {
    let found = table.get(&K::peer(back), 0).ok().map(Nat);
    found.filter(|found| K::peer(found) == *key)
}
