//! One balancer of several: the tables of the active, or those that follow it.

use loadline_core::{fleet::forwarding::Forwarding, state::Role, time};

use super::{placed::Placed, tables::Tables, upkeep::told};

use crate::{
    Datapath,
    ring::Ring,
    standby::{Settings, Standby, StandbyError},
};

/// What the file says of the other balancers; none where it says nothing.
pub(super) fn standby(of: &Forwarding) -> Result<Option<Standby>, StandbyError> {
    let Some(standby) = &of.standby else { return Ok(None) };
    let settings = Settings {
        bind: standby.bind,
        peers: standby.peers.clone(),
        key_file: standby.key_file.clone().into(),
        router: standby.router_id,
        addresses: of.addresses().into_iter().collect(),
    };
    Ok(Some(Standby::new(&settings)?))
}

impl Tables {
    /// Whether rings are ours to change, and flows to forget.
    pub(super) fn is_free(&self) -> bool {
        self.standby.as_ref().is_none_or(Standby::is_free)
    }

    /// Hears and tells the other balancers what there is.
    pub(super) fn turn(&mut self) {
        let Some(standby) = &mut self.standby else { return };
        let (numbers, mut given) = (&mut self.numbers, Vec::new());
        let mut number = |name| {
            let number = numbers.of(name);
            given.extend(number);
            number
        };
        let before = standby.role();
        let turned = standby.turn(&mut self.datapath, &mut number);
        if before == Role::Active && standby.role() == Role::Standby {
            let why = match self.attachment.attached() {
                Some(_) => "the service addresses have gone",
                None => "no packets are forwarded",
            };
            tracing::info!("{why}: this balancer stands by");
        }
        let now = Datapath::now();
        for number in given {
            // It leaves as soon as nobody is on it any more, unless the file has it by then.
            let Ok(server) = self.datapath.server(number) else { continue };
            let placed = Placed::adopted(&server, now);
            self.servers.entry(number).or_insert(placed);
        }
        match turned {
            Ok(false) => {}
            Ok(true) => self.resume(now),
            Err(error) => tracing::error!("cannot take over the tables of the other: {error}"),
        }
    }

    /// Goes on with the rings as the other balancer left them.
    fn resume(&mut self, now: time::Instant) {
        tracing::info!("the service addresses are here: this balancer is active");
        for served in self.services.values_mut() {
            if let Ok(entries) = self.datapath.ring(served.number) {
                served.resume(Ring::resume(now, &entries), now);
            }
        }
        // The other balancer may have said something else of those that this one's file has.
        for (number, placed) in self.servers.iter_mut().filter(|(_, placed)| placed.is_wanted) {
            placed.written = self.datapath.server(*number).ok();
        }
        if self.has_unplaced() {
            told("servers", self.let_go(now));
        }
        self.refresh();
    }
}
