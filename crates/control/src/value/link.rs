//! Values of packet forwarding: interfaces, link addresses, addresses without a port.

use std::net::{IpAddr, Ipv4Addr};

use loadline_spanned::{Complaint, Textual};

/// The name of a network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface(pub(crate) String);

impl Textual for Interface {
    const EXPECTED: &'static str = "the name of an interface like \"eth0\"";
    const TITLE: &'static str = "an interface";
    const PATTERN: Option<&'static str> = Some("^[!-.0-9;-~]{1,15}$");
    const EXAMPLES: &'static [&'static str] = &["eth0"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let fits = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | ':');
        if (1..=INTERFACE_MAX).contains(&text.len()) && text.chars().all(fits) {
            return Ok(Self(text.to_owned()));
        }
        let help = "write it as `ip link` shows it: \"eth0\"";
        Err(Complaint::new(format!("`{text}` is not the name of an interface"), help))
    }
}

/// The address of a network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mac(pub(crate) [u8; 6]);

impl Textual for Mac {
    const EXPECTED: &'static str = "a link address like \"02:00:5e:10:00:01\"";
    const TITLE: &'static str = "a link address";
    const PATTERN: Option<&'static str> = Some("^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$");
    const EXAMPLES: &'static [&'static str] = &["02:00:5e:10:00:01"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        let fits = bytes.iter_mut().all(|byte| {
            let part = parts.next().filter(|part| part.len() == 2);
            let read = part.and_then(|part| u8::from_str_radix(part, 16).ok());
            read.inspect(|read| *byte = *read).is_some()
        });
        if !fits || parts.next().is_some() {
            let help = "write six bytes in hexadecimal: \"02:00:5e:10:00:01\"";
            return Err(Complaint::new(format!("`{text}` is not a link address"), help));
        }
        if bytes[0] & 1 == 1 || bytes == [0; 6] {
            let message = format!("`{text}` is no single host's");
            return Err(Complaint::new(message, "write the address of one network card"));
        }
        Ok(Self(bytes))
    }
}

/// An address of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostIp(pub(crate) IpAddr);

impl Textual for HostIp {
    const EXPECTED: &'static str = "an IP address like \"10.0.0.9\"";
    const TITLE: &'static str = "an IP address";
    const PATTERN: Option<&'static str> = Some("^[0-9A-Fa-f:.]+$");
    const EXAMPLES: &'static [&'static str] = &["10.0.0.9", "2001:db8::9"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let address: Option<IpAddr> = text.parse().ok();
        let is_host = |it: &IpAddr| {
            let is_nobody = it.is_unspecified() || it.is_loopback() || it.is_multicast();
            !is_nobody && *it != IpAddr::V4(Ipv4Addr::BROADCAST)
        };
        address.filter(is_host).map(Self).ok_or_else(|| {
            let help = "write one that other hosts reach, without a port: \"10.0.0.9\" or \
                        \"2001:db8::9\"";
            Complaint::new(format!("`{text}` is not the address of a host"), help)
        })
    }
}

/// `IFNAMSIZ` without the zero at its end.
const INTERFACE_MAX: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_address_is_six_bytes_of_one_card() {
        assert_eq!(Mac::read("02:00:5E:10:00:fe").unwrap(), Mac([2, 0, 0x5e, 0x10, 0, 0xfe]));
        for wrong in ["", "02:00:5e:10:00", "02:00:5e:10:00:01:02", "2:0:5e:10:0:1", "02-00"] {
            assert!(Mac::read(wrong).unwrap_err().message.contains("not a link address"));
        }
        for nobody in ["ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "00:00:00:00:00:00"] {
            assert!(Mac::read(nobody).unwrap_err().message.contains("no single host"));
        }
    }

    #[test]
    fn interfaces_and_hosts_are_told_from_other_texts() {
        assert!(Interface::read("enp3s0.100").is_ok() && Interface::read("a b").is_err());
        assert!(Interface::read("").is_err() && Interface::read("sixteen-letters0").is_err());
        assert!(HostIp::read("fd00::9").is_ok() && HostIp::read("0.0.0.0").is_err());
        for nobody in ["10.0.0.9:80", "224.0.0.1", "127.0.0.1", "::1", "255.255.255.255"] {
            assert!(HostIp::read(nobody).is_err(), "{nobody}");
        }
    }
}
