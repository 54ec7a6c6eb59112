//! The fields that tell a server about the client, written once per connection.
//!
//! Every request of a connection gets the same X-Forwarded-For, X-Forwarded-Proto, Forwarded and
//! Via. They are formatted when the connection is accepted; a request copies them. Where the rules
//! have changed since, each request of the connection has them formatted anew.

use std::net::IpAddr;

use crate::build::write_text;

/// What to tell servers about clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForwardRules {
    /// Send X-Forwarded-For and X-Forwarded-Proto.
    pub x_forwarded: bool,
    /// Send X-Forwarded-Host: the host the client asked for.
    pub x_forwarded_host: bool,
    /// Send Forwarded (RFC 7239), with `for` and `proto`.
    pub forwarded: bool,
    /// Add to Via.
    pub via: bool,
}

impl Default for ForwardRules {
    /// X-Forwarded-For, -Proto and -Host, and Via.
    fn default() -> Self {
        Self { x_forwarded: true, x_forwarded_host: true, forwarded: false, via: true }
    }
}

/// The lines for one client, one behind the other: X-Forwarded-For, X-Forwarded-Proto, Forwarded,
/// Via; those the rules do not ask for are empty.
#[derive(Debug, Clone)]
pub struct ClientLines {
    /// No longer than it has to be: every connection that waits holds one.
    text: Box<[u8]>,
    rules: ForwardRules,
    proto: u16,
    forwarded: u16,
    via: u16,
}

impl ClientLines {
    /// The lines for a client at `address` that speaks `scheme` (`http` or `https`).
    #[must_use]
    pub fn new(rules: ForwardRules, address: IpAddr, scheme: &str) -> Self {
        let address = address.to_canonical();
        let mut text = Vec::with_capacity(TEXT_BYTES);
        if rules.x_forwarded {
            write_text(&mut text, format_args!("X-Forwarded-For: {address}\r\n"));
        }
        let proto = text.len() as u16;
        if rules.x_forwarded {
            write_text(&mut text, format_args!("X-Forwarded-Proto: {scheme}\r\n"));
        }
        let forwarded = text.len() as u16;
        if rules.forwarded {
            match address {
                IpAddr::V4(v4) => write_text(&mut text, format_args!("Forwarded: for={v4}")),
                IpAddr::V6(v6) => write_text(&mut text, format_args!("Forwarded: for=\"[{v6}]\"")),
            }
            write_text(&mut text, format_args!(";proto={scheme}\r\n"));
        }
        let via = text.len() as u16;
        if rules.via {
            text.extend_from_slice(VIA_11);
        }
        Self { text: text.into_boxed_slice(), rules, proto, forwarded, via }
    }

    /// Makes these the lines of a client whose messages come as HTTP/2.
    pub fn set_http2(&mut self) {
        if self.rules.via {
            self.text[self.via.into()..].copy_from_slice(VIA_20);
        }
    }

    /// Makes these the lines of a client whose messages come as HTTP/3.
    pub fn set_http3(&mut self) {
        if self.rules.via {
            self.text[self.via.into()..].copy_from_slice(VIA_30);
        }
    }

    /// Those of the same client by other rules; its messages come in the same version of HTTP.
    #[must_use]
    pub fn by(&self, rules: ForwardRules, address: IpAddr, scheme: &str) -> Self {
        let mut lines = Self::new(rules, address, scheme);
        if rules.via && self.rules.via {
            lines.text[lines.via.into()..].copy_from_slice(&self.text[self.via.into()..]);
        }
        lines
    }

    /// The rules these lines were made by.
    #[must_use]
    pub const fn rules(&self) -> ForwardRules {
        self.rules
    }

    /// All lines.
    #[inline]
    pub(crate) fn all(&self) -> &[u8] {
        &self.text
    }

    /// `X-Forwarded-For: ...`
    pub(crate) fn for_line(&self) -> &[u8] {
        &self.text[..self.proto.into()]
    }

    /// `X-Forwarded-Proto: ...`
    pub(crate) fn proto_line(&self) -> &[u8] {
        &self.text[self.proto.into()..self.forwarded.into()]
    }

    /// `Forwarded: ...`
    pub(crate) fn forwarded_line(&self) -> &[u8] {
        &self.text[self.forwarded.into()..self.via.into()]
    }

    /// The Via line for a message that came as HTTP/1.0 or 1.1.
    pub(crate) fn via_line(&self, is_http10: bool) -> &[u8] {
        match (self.rules.via, is_http10) {
            (true, true) => VIA_10,
            _ => &self.text[self.via.into()..],
        }
    }
}

/// The value of a line made here, without its name and line end.
pub(crate) fn value_of(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|&byte| byte == b' ').map_or(0, |space| space + 1);
    line.get(start..line.len().saturating_sub(2)).unwrap_or_default()
}

/// As long as the lines get with an IPv6 address and all rules on.
const TEXT_BYTES: usize = 192;

/// Via, for what came as HTTP/1.1.
pub(crate) const VIA_11: &[u8] = b"Via: 1.1 loadline\r\n";

/// Via, for what came as HTTP/2: as long as that of HTTP/1.1.
const VIA_20: &[u8; VIA_11.len()] = b"Via: 2.0 loadline\r\n";

/// Via, for what came as HTTP/3.
const VIA_30: &[u8; VIA_11.len()] = b"Via: 3.0 loadline\r\n";

/// Via, for what came as HTTP/1.0.
pub(crate) const VIA_10: &[u8] = b"Via: 1.0 loadline\r\n";
