//! What takes the place of a server where its responses are objects: files of this machine.

use alloc::{
    string::{String, ToString as _},
    sync::Arc,
};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::Server;

/// A place where objects are, each with a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Where they are.
    pub place: StorePlace,
    /// What is asked for where a path ends with a slash.
    pub index: String,
}

/// Where objects are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorePlace {
    /// Files below this directory.
    Files(String),
}

impl Store {
    /// The store at `place`, with the documented defaults.
    #[must_use]
    pub fn at(place: StorePlace) -> Self {
        Self { place, index: INDEX.to_string() }
    }
}

impl Server {
    /// The server that stands for files of this machine. Nothing is ever sent to its address.
    #[must_use]
    pub fn of_files(store: Store) -> Self {
        let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        Self { store: Some(Arc::new(store)), ..Self::at(nowhere) }
    }
}

/// What web servers commonly look for in a directory.
const INDEX: &str = "index.html";
