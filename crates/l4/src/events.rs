//! What has happened to flows and NAT connections, in order: told by the program as it happens
//! (`bpf/events.h`), and by user space where it forgets them. Only where [`Sizes::events`] asks for
//! it.
//!
//! [`Sizes::events`]: crate::Sizes::events

use std::{fmt, mem};

use aya::{
    Ebpf,
    maps::{Array, MapData, MapError, RingBuf},
};

use crate::{
    datapath::Datapath,
    error::{LoadError, TableError},
    path::{Path, read_address},
    ports::Port,
};

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A flow was written down, since its entry of the ring is recorded.
    Flow {
        /// Client and frontend.
        path: Path,
        /// The number of its service.
        service: u16,
        /// The number of its server.
        server: u16,
        /// Its entry of the ring.
        position: u32,
    },
    /// A flow was forgotten.
    FlowGone(Path),
    /// A NAT connection has begun, or begins once more after it was closed.
    Open {
        /// Client and frontend.
        path: Path,
        /// The number of its service.
        service: u16,
        /// The number of its server.
        server: u16,
        /// The port that it was lent.
        port: Port,
        /// The link address of the next hop towards the client.
        link: [u8; 6],
    },
    /// A NAT connection was closed by both sides, or broken off.
    Closed {
        /// The number of its server.
        server: u16,
        /// What it was lent.
        port: Port,
    },
    /// A NAT connection was forgotten, and its port given back.
    Over {
        /// The number of its server.
        server: u16,
        /// What it was lent.
        port: Port,
    },
    /// There was no room for some: the tables are to be read.
    Missed,
}

/// The events that nobody has asked for yet.
pub(crate) struct Events {
    ring: RingBuf<MapData>,
    log: Vec<Event>,
    /// What the program had to leave out when it was last looked at.
    missed: u64,
}

impl Datapath {
    /// What has happened since this was asked, in order. Nothing where [`Sizes::events`] is zero.
    /// To be called often: what finds no room is missed.
    ///
    /// # Errors
    /// The kernel's.
    ///
    /// [`Sizes::events`]: crate::Sizes::events
    pub fn events(&mut self) -> Result<Vec<Event>, TableError> {
        const MISSED: &str = "missed_events";
        self.hear();
        let Some(events) = &mut self.events else { return Ok(Vec::new()) };
        let mut log = mem::take(&mut events.log);
        let known = mem::take(&mut events.missed);
        let table = self.loaded.map(MISSED).ok_or(MapError::ElementNotFound);
        let missed = table.and_then(Array::<_, u64>::try_from).and_then(|table| table.get(&0, 0));
        let missed = missed.map_err(TableError::kernel(MISSED))?;
        if let Some(events) = &mut self.events {
            events.missed = missed;
        }
        if missed != known {
            log.push(Event::Missed);
        }
        Ok(log)
    }

    /// Tells of what is about to be forgotten, after all that has happened before.
    pub(crate) fn tell(&mut self, gone: impl IntoIterator<Item = Event>) {
        self.hear();
        if let Some(events) = &mut self.events {
            events.log.extend(gone);
        }
    }

    fn hear(&mut self) {
        let Some(events) = &mut self.events else { return };
        while let Some(bytes) = events.ring.next() {
            let Some(bytes) = bytes.first_chunk() else { continue };
            let place = |lent| self.settings.place(&lent);
            events.log.extend(read(bytes, place));
        }
    }
}

impl Events {
    pub(crate) fn open(loaded: &mut Ebpf) -> Result<Self, LoadError> {
        let ring = loaded.take_map("events").ok_or(LoadError::Foreign)?;
        let ring = RingBuf::try_from(ring).map_err(TableError::kernel("events"))?;
        Ok(Self { ring, log: Vec::new(), missed: 0 })
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("log", &self.log).finish_non_exhaustive()
    }
}

/// A `struct event`; `place` says which port of ours an address is.
fn read(
    bytes: &[u8; EVENT],
    place: impl Fn(std::net::SocketAddr) -> Option<Port>,
) -> Option<Event> {
    let short = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    let (kind, is_v6, server, service) = (short(0), short(2) != 0, short(4), short(6));
    let position = u32::from_ne_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    let path = || Path::read(bytes[12..].first_chunk().unwrap_or(&[0; 40]), is_v6);
    let lent = || {
        let port = u16::from_be_bytes([bytes[68], bytes[69]]);
        place((read_address(bytes, 52, is_v6), port).into())
    };
    Some(match kind {
        FLOW => Event::Flow { path: path(), service, server, position },
        OPEN => {
            let mut link = [0; 6];
            link.copy_from_slice(&bytes[70..76]);
            Event::Open { path: path(), service, server, port: lent()?, link }
        }
        CLOSED => Event::Closed { server, port: lent()? },
        _ => return None,
    })
}

/// Bytes of `struct event`.
const EVENT: usize = 76;

// `enum event_kind`.
const FLOW: u16 = 1;
const OPEN: u16 = 2;
const CLOSED: u16 = 3;
