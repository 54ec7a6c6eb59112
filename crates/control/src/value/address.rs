//! Addresses to bind and addresses of servers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use loadline_core::fleet::{ServerAddress, ServerAddressError};
use loadline_spanned::{Complaint, Textual};

use super::label::file_path;

/// An address to bind; a port alone binds all addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bind(pub(crate) SocketAddr);

impl Textual for Bind {
    const EXPECTED: &'static str = "an address like \"0.0.0.0:8080\" or \":8080\"";
    const TITLE: &'static str = "an IP address with a port, or `:port`";
    const PATTERN: Option<&'static str> = Some("^([0-9.]+|\\[[0-9A-Fa-f:.%]+\\])?:[0-9]{1,5}$");
    const EXAMPLES: &'static [&'static str] = &[":8080", "127.0.0.1:8080", "[::]:8080"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let all = |port: &str| Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port.parse().ok()?)));
        let address = match text.strip_prefix(':') {
            Some(port) => all(port),
            None => text.parse().ok(),
        };
        address.map(Self).ok_or_else(|| {
            let help = port_help(text).map_or_else(|| bind_help(text), str::to_owned);
            Complaint::new(format!("`{text}` is not an address to bind"), help)
        })
    }
}

/// The address that `text` most likely stands for.
fn bind_help(text: &str) -> String {
    let place = text.split_once("://").map_or(text, |(_, rest)| rest);
    let place = place.split('/').next().unwrap_or_default();
    let port = place.rsplit_once(':').map_or(place, |(_, port)| port);
    let meant = match place.rsplit_once(':').map(|(host, _)| host) {
        _ if port.parse::<u16>().is_err() => None,
        None | Some("*" | "") => Some(format!("\":{port}\" for all addresses")),
        Some("localhost") => Some(format!("\"127.0.0.1:{port}\"")),
        Some(host) if host.parse::<Ipv4Addr>().is_ok() => Some(format!("\"{host}:{port}\"")),
        Some(_) => None,
    };
    let general = "an IP address and a port, \"127.0.0.1:8080\", or \":8080\" for all addresses";
    format!("write {}", meant.as_deref().unwrap_or(general))
}

/// What is right instead of a port that there cannot be.
pub(crate) fn port_help(text: &str) -> Option<&'static str> {
    let (_, port) = text.rsplit_once(':')?;
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && port.parse::<u16>().is_err()).then_some(PORTS)
}

const PORTS: &str = "ports are 1 to 65535";

/// The address whose connections a socket at `address` gets: one of version 4 that is written in
/// version 6 is the same.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => {
            let mapped = v6.ip().to_ipv4_mapped();
            mapped.map_or(address, |ip| SocketAddr::from((ip, v6.port())))
        }
        SocketAddr::V4(_) => address,
    }
}

/// Whether sockets at both addresses would have an address and a port in common. `[::]` is every
/// address of version 4 as well.
pub(crate) fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (one, other) = (canonical(one), canonical(other));
    let covers = |all: SocketAddr, it: SocketAddr| {
        all.ip().is_unspecified() && (all.is_ipv6() || it.is_ipv4())
    };
    // Port 0 asks the kernel for a free port, each time another one.
    let same_port = one.port() == other.port() && one.port() != 0;
    same_port && (one.ip() == other.ip() || covers(one, other) || covers(other, one))
}

/// Where the administration listens: an address, or the path of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdminPlace {
    /// An IP address and a port.
    Address(SocketAddr),
    /// A path that begins with `/`.
    Socket(String),
}

impl Textual for AdminPlace {
    const EXPECTED: &'static str =
        "an address like \"127.0.0.1:9090\" or a path like \"/run/loadline.sock\"";
    const TITLE: &'static str = "an IP address with a port, or the path of a Unix socket";
    const PATTERN: Option<&'static str> =
        Some("^(/.+|([0-9.]+|\\[[0-9A-Fa-f:.%]+\\]):[0-9]{1,5})$");
    const EXAMPLES: &'static [&'static str] = &["127.0.0.1:9090", "/run/loadline.sock"];

    fn read(text: &str) -> Result<Self, Complaint> {
        if text.starts_with(['/', '~']) {
            return file_path(text).map(Self::Socket);
        }
        text.parse().map(Self::Address).map_err(|_| {
            let help = "write \"127.0.0.1:9090\", or the whole path of a Unix socket";
            let help = port_help(text).unwrap_or(help);
            Complaint::new(format!("`{text}` is no address for the admin interface"), help)
        })
    }
}

/// Where a server is: an address, or a name that is resolved when the file is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// An IP address and a port.
    Address(SocketAddr),
    /// A host name and a port.
    Name(String, u16),
}

impl Textual for Place {
    const EXPECTED: &'static str = "an address like \"10.0.0.1:80\"";
    const TITLE: &'static str = "an address or host name with a port";
    const PATTERN: Option<&'static str> =
        Some("^([A-Za-z0-9._-]+|\\[[0-9A-Fa-f:.%]+\\]):[0-9]{1,5}$");
    const EXAMPLES: &'static [&'static str] =
        &["10.0.0.1:80", "[2001:db8::1]:80", "web-1.internal:80"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let wrong =
            |help: String| Complaint::new(format!("`{text}` is not the address of a server"), help);
        if let Some((_, rest)) = text.split_once("://") {
            let address = rest.split('/').next().unwrap_or_default();
            return Err(wrong(format!("write host and port alone: \"{address}\"")));
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Self::checked(Self::Address(address), address.port()).map_err(wrong);
        }
        if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
            return Err(wrong(format!("add the port: \"{}\"", SocketAddr::from((ip, 80)))));
        }
        let Some((host, port)) = text.rsplit_once(':') else {
            let host = if is_host(text) { text } else { "10.0.0.1" };
            return Err(wrong(format!("add the port: \"{host}:80\"")));
        };
        let Ok(port) = port.parse::<u16>() else {
            return Err(wrong(PORTS.to_owned()));
        };
        if !is_host(host) {
            return Err(wrong("write \"10.0.0.1:80\", \"[::1]:80\" or \"name:80\"".to_owned()));
        }
        Self::checked(Self::Name(host.to_owned(), port), port).map_err(wrong)
    }
}

/// How a server is written whose address has words behind it, as in HAProxy and nginx.
fn options_help(address: &str, options: &str) -> String {
    let mut words = options.split([' ', '\t', '=']).filter(|word| !word.is_empty());
    let weight = words.clone().skip_while(|word| *word != "weight").nth(1);
    match weight.filter(|it| it.bytes().all(|byte| byte.is_ascii_digit())) {
        Some(weight) => format!("write {{ address = \"{address}\", weight = {weight} }}"),
        None if words.any(|word| word == "backup") => {
            format!("write {{ address = \"{address}\", priority = 1 }}")
        }
        None if !address.contains(':') => {
            "an address has a port, without a space: \"10.0.0.1:80\"".to_owned()
        }
        None => format!("write the address alone, \"{address}\", or a table"),
    }
}

impl Place {
    fn checked(self, port: u16) -> Result<Self, String> {
        if port == 0 { Err(PORTS.to_owned()) } else { Ok(self) }
    }
}

/// Where a server of a group is: also at a Unix socket.
#[derive(Clone, Debug)]
pub(crate) enum ServerPlace {
    /// By IP.
    At(Place),
    /// A Unix socket.
    Socket(ServerAddress),
}

impl Textual for ServerPlace {
    const EXPECTED: &'static str = "an address like \"10.0.0.1:80\" or \"unix:/run/app.sock\"";
    const TITLE: &'static str = "an address or host name with a port, or a Unix socket";
    const PATTERN: Option<&'static str> =
        Some("^(([A-Za-z0-9._-]+|\\[[0-9A-Fa-f:.%]+\\]):[0-9]{1,5}|unix:[/@].+)$");
    const EXAMPLES: &'static [&'static str] =
        &["10.0.0.1:80", "web-1.internal:80", "unix:/run/app.sock"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let wrong =
            |help: String| Complaint::new(format!("`{text}` is not the address of a server"), help);
        if text.starts_with("unix:") {
            let refused = |error: ServerAddressError| wrong(error.to_string());
            return text.parse().map(Self::Socket).map_err(refused);
        }
        match text.trim_start().split_once(char::is_whitespace) {
            Some((address, options)) => Err(wrong(options_help(address, options))),
            None => Place::read(text).map(Self::At),
        }
    }
}

/// A name that is asked of name servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DnsName(pub(crate) String);

impl Textual for DnsName {
    const EXPECTED: &'static str = "a name like \"_http._tcp.web.internal\"";
    const TITLE: &'static str = "a name";
    const PATTERN: Option<&'static str> = Some("^[A-Za-z0-9._-]+$");
    const EXAMPLES: &'static [&'static str] = &["_http._tcp.web.internal"];

    fn read(text: &str) -> Result<Self, Complaint> {
        if is_host(text) {
            return Ok(Self(text.to_owned()));
        }
        let help = "write the name of a service, without a port: \"_http._tcp.web.internal\"";
        Err(Complaint::new(format!("`{text}` is not a name"), help))
    }
}

/// Where a name server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameServer(pub(crate) SocketAddr);

impl Textual for NameServer {
    const EXPECTED: &'static str = "an IP address like \"10.0.0.53\" or \"10.0.0.53:5353\"";
    const TITLE: &'static str = "an IP address, with or without a port";
    const PATTERN: Option<&'static str> = Some(concat!(
        "^([0-9.]+(:[0-9]{1,5})?|[0-9A-Fa-f:.%]+",
        "|\\[[0-9A-Fa-f:.%]+\\](:[0-9]{1,5})?)$"
    ));
    const EXAMPLES: &'static [&'static str] = &["10.0.0.53", "10.0.0.53:5353", "2001:db8::53"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let alone = text.trim_matches(['[', ']']).parse::<IpAddr>();
        let address = alone.map(|ip| SocketAddr::from((ip, DNS_PORT))).or_else(|_| text.parse());
        let fits = address.ok().filter(|it| it.port() > 0);
        fits.map(Self).ok_or_else(|| {
            let help = "write its IP address: \"10.0.0.53\", or \"10.0.0.53:5353\"";
            let help = port_help(text).unwrap_or(help);
            Complaint::new(format!("`{text}` is not the address of a name server"), help)
        })
    }
}

/// RFC 1035, section 4.2.
const DNS_PORT: u16 = 53;

/// Whether `text` can be a host name. What looks like an IPv4 address that is none cannot: nobody
/// wants it asked of a name server.
fn is_host(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let last = text.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let numeric = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    !text.is_empty() && text.len() <= HOST_LENGTH_MAX && text.bytes().all(fits) && !numeric
}

/// RFC 1035, section 2.3.4, less the root label and a length byte.
const HOST_LENGTH_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_an_address_or_a_name_with_a_port() {
        let address = Place::read("10.0.0.1:80").unwrap();
        assert_eq!(address, Place::Address("10.0.0.1:80".parse().unwrap()));
        assert_eq!(Place::read("web:80").unwrap(), Place::Name("web".to_owned(), 80));
        assert!(Place::read("[::1]:80").is_ok());
    }

    #[test]
    fn a_wrong_address_says_the_right_one() {
        let help = |text: &str| Place::read(text).unwrap_err().help;
        assert_eq!(help("http://10.0.0.1:80/x"), "write host and port alone: \"10.0.0.1:80\"");
        assert_eq!(help("10.0.0.1"), "add the port: \"10.0.0.1:80\"");
        assert_eq!(help("::1"), "add the port: \"[::1]:80\"");
        assert_eq!(help("web"), "add the port: \"web:80\"");
        assert_eq!((help("web:0"), help("web:99999")), (PORTS.to_owned(), PORTS.to_owned()));
        assert!(help("10.0.0.999:80").contains("[::1]:80"));
    }

    #[test]
    fn a_port_alone_binds_every_address() {
        assert_eq!(Bind::read(":8080").unwrap().0, "0.0.0.0:8080".parse().unwrap());
        for wrong in ["8080", "localhost:8080", ":", ":99999", "10.0.0.1"] {
            assert!(Bind::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_that_cannot_be_bound_says_which_can() {
        let help = |text: &str| Bind::read(text).unwrap_err().help;
        assert_eq!(help("*:80"), "write \":80\" for all addresses");
        assert_eq!(help("8080"), "write \":8080\" for all addresses");
        assert_eq!(help("localhost:8080"), "write \"127.0.0.1:8080\"");
        assert_eq!(help("http://10.0.0.1:80/"), "write \"10.0.0.1:80\"");
        assert_eq!(help(":99999"), PORTS);
        assert!(help("web:80").contains("an IP address and a port"));
    }
}
