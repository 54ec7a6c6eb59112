//! One end of a line between two processes: an address of one host, with a port.

use std::net::SocketAddr;

use loadline_spanned::{Complaint, Textual};

use super::address::port_help;

/// An address and a port, neither of them left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint(pub(crate) SocketAddr);

impl Textual for Endpoint {
    const EXPECTED: &'static str = "an address with a port like \"10.0.0.2:4343\"";
    const TITLE: &'static str = "an IP address with a port";
    const PATTERN: Option<&'static str> = Some("^([0-9.]+|\\[[0-9A-Fa-f:.%]+\\]):[0-9]{1,5}$");
    const EXAMPLES: &'static [&'static str] = &["10.0.0.2:4343", "[2001:db8::2]:4343"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let address: Option<SocketAddr> = text.parse().ok();
        let of_one =
            |it: &SocketAddr| it.port() > 0 && !it.ip().is_unspecified() && !it.ip().is_multicast();
        address.filter(of_one).map(Self).ok_or_else(|| {
            let help =
                "write an IP address and a port: \"10.0.0.2:4343\" or \"[2001:db8::2]:4343\"";
            let help = port_help(text).unwrap_or(help);
            Complaint::new(format!("`{text}` is not one host's address and port"), help)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_at_one_host_and_one_port() {
        assert!(Endpoint::read("10.0.0.2:4343").is_ok() && Endpoint::read("[fd00::2]:1").is_ok());
        for wrong in ["", ":4343", "10.0.0.2", "0.0.0.0:4343", "10.0.0.2:0", "224.0.0.18:9"] {
            assert!(Endpoint::read(wrong).unwrap_err().help.contains("10.0.0.2:4343"), "{wrong}");
        }
    }
}
