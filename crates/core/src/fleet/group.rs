//! The servers of a service in a region.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};

use super::{Capacity, Discovery, Server};
use crate::{time::Duration, units::Ratio};

/// The servers of one service in one region; carries the capacity target.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Unique in its service; the region's name unless the file says otherwise.
    pub name: String,
    /// Where it is.
    pub region: String,
    /// Round-trip time from this edge; measured by health checks if omitted.
    pub rtt: Option<Duration>,
    /// What the group may be given as a whole.
    pub capacity: Capacity,
    /// Part of the capacity in use: 0 drains, else 10 % to 100 %.
    pub scaler: Ratio,
    /// Its servers: at least one, or whoever is listed now.
    pub servers: Vec<Server>,
    /// Where they are listed, if the file does not say them.
    pub discovery: Option<Discovery>,
}

impl Group {
    /// How many servers one has at most: their places in it have 16 bits, and one is no place.
    pub const SERVERS_MAX: u32 = u16::MAX as u32;

    /// These servers in this region, called like it, with the documented defaults.
    #[must_use]
    pub fn within(region: &str, servers: Vec<Server>) -> Self {
        Self {
            name: region.to_string(),
            region: region.to_string(),
            rtt: None,
            capacity: Capacity::default(),
            scaler: Ratio::ONE,
            servers,
            discovery: None,
        }
    }

    /// Whether the limit of requests that wait for a response is found while they are served.
    #[must_use]
    pub fn finds_limit(&self) -> bool {
        let template = self.discovery.as_ref().map(|it| &it.template);
        let servers = || self.servers.iter().chain(template).map(|server| &server.capacity);
        let is_written = || self.capacity.is_written() || servers().any(Capacity::is_written);
        self.capacity.auto.unwrap_or_else(|| !is_written())
    }
}
