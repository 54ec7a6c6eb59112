//! By what packets reach a server, and what they speak.

use core::fmt;

/// How packets reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// By the server's link address, the packet unchanged. The server is on the same network, has
    /// the service address on its loopback, and answers the client itself.
    Mac = 1,
    /// With addresses and ports rewritten, in both directions.
    Nat = 2,
    /// In a tunnel to a server on any network, which answers the client itself.
    Ipip = 3,
}

/// What packets of a service speak; the number is that of the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp = 6,
    /// UDP.
    Udp = 17,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Mac, Self::Nat, Self::Ipip];

    /// The name in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mac => "mac",
            Self::Nat => "nat",
            Self::Ipip => "ipip",
        }
    }
}

impl Protocol {
    /// The name in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
