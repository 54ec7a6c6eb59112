//! Host names of servers, resolved once when the file is loaded.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
};

/// Finds the address of a host name.
pub trait Resolve {
    /// The address of `host`, with `port`.
    ///
    /// # Errors
    /// Where the name is unknown or nobody answers.
    fn resolve(&self, host: &str, port: u16) -> io::Result<SocketAddr>;
}

/// The resolver of the machine: the first address it gives, IPv4 before IPv6.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, host: &str, port: u16) -> io::Result<SocketAddr> {
        let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
        let first_v4 = addresses.iter().find(|address| address.is_ipv4());
        let first = first_v4.or(addresses.first()).copied();
        first.ok_or_else(|| io::Error::other("the name has no address"))
    }
}

/// Resolves `localhost` and nothing else: for tests and for tools that must not ask the network.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalOnly;

impl Resolve for LocalOnly {
    fn resolve(&self, host: &str, port: u16) -> io::Result<SocketAddr> {
        if host == "localhost" {
            return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
        }
        Err(io::Error::new(io::ErrorKind::NotFound, "only `localhost` is known here"))
    }
}
