//! The address of a server: IP address and port, or a Unix socket.
//!
//! A server is known everywhere by a [`SocketAddr`], which is compared, copied and put into tables.
//! A Unix socket has one, too: in the prefix that discards whatever is sent there (`100::/64`, RFC
//! 6666), so that no server is in its place, with a hash of its path behind it. It is the same in
//! every process. [`socket_path`] finds the path again, and [`ServerAddress`] writes it.

use alloc::{borrow::ToOwned as _, collections::BTreeMap, string::String, sync::Arc};
use core::{
    fmt,
    net::{Ipv6Addr, SocketAddr, SocketAddrV6},
    str::FromStr,
};

use spin::Mutex;

/// The address of a server as people write and read it: `10.0.0.1:80`, `unix:/run/app.sock`,
/// `unix:@name` for one in the abstract namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerAddress(pub SocketAddr);

/// A text is not the address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerAddressError {
    /// Neither of its forms.
    #[error("`{0}` is not an address like 10.0.0.1:80 or unix:/run/app.sock")]
    Neither(String),
    /// What follows `unix:` cannot be the path of a socket.
    #[error(
        "a Unix socket is a whole path of 107 bytes at most, unix:/run/app.sock, or unix:@name"
    )]
    Path,
    /// Another path has the same hash.
    #[error("this path cannot be told from `{0}`; use another")]
    Alike(Arc<str>),
}

/// The path of the Unix socket that this address stands for, with `@` before an abstract name; none
/// of an IP address.
#[must_use]
pub fn socket_path(address: SocketAddr) -> Option<Arc<str>> {
    let SocketAddr::V6(address) = address else { return None };
    let bits = address.ip().to_bits();
    if address.port() != PORT || (bits >> 64) as u64 != PREFIX {
        return None;
    }
    SOCKETS.lock().get(&(bits as u64)).cloned()
}

impl FromStr for ServerAddress {
    type Err = ServerAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some(path) = text.strip_prefix("unix:") else {
            let neither = |_| ServerAddressError::Neither(text.to_owned());
            return text.parse().map(Self).map_err(neither);
        };
        let is_whole = path.len() > 1 && path.starts_with(['/', '@']);
        if !is_whole || path.len() > PATH_MAX || path.contains('\0') {
            return Err(ServerAddressError::Path);
        }
        let hash = hash(path);
        let mut sockets = SOCKETS.lock();
        let known = sockets.entry(hash).or_insert_with(|| path.into());
        if &**known != path {
            return Err(ServerAddressError::Alike(known.clone()));
        }
        let ip = Ipv6Addr::from_bits(u128::from(PREFIX) << 64 | u128::from(hash));
        Ok(Self(SocketAddrV6::new(ip, PORT, 0, 0).into()))
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match socket_path(self.0) {
            Some(path) => write!(f, "unix:{path}"),
            None => self.0.fmt(f),
        }
    }
}

/// FNV-1a, its bits mixed once more.
fn hash(path: &str) -> u64 {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = path.bytes().fold(0xcbf2_9ce4_8422_2325, fold);
    let hash = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 29
}

/// The paths of the sockets that were ever named, by their hash: as many as files had.
static SOCKETS: Mutex<BTreeMap<u64, Arc<str>>> = Mutex::new(BTreeMap::new());

/// `100::/64`.
const PREFIX: u64 = 0x0100_0000_0000_0000;

/// Port 0 is none.
const PORT: u16 = 1;

/// What fits into an address of the kernel with its last zero.
const PATH_MAX: usize = 107;

#[cfg(test)]
mod tests {
    use alloc::{format, string::ToString as _};

    use super::*;

    #[test]
    fn a_socket_has_an_address_of_its_own_and_is_written_as_it_was_read() {
        let read = |text: &str| text.parse::<ServerAddress>();
        for text in ["unix:/run/app.sock", "unix:/run/app2.sock", "unix:@app", "10.0.0.1:80"] {
            assert_eq!(read(text).expect("an address").to_string(), text);
            assert_eq!(read(text), read(text));
        }
        assert_ne!(read("unix:/run/app.sock"), read("unix:/run/app2.sock"));
        let socket = read("unix:@app").expect("a socket").0;
        assert_eq!(socket_path(socket).as_deref(), Some("@app"));
        let others = ["10.0.0.1:80", "[100::1]:80", "[100::1]:1", "[2001:db8::1]:1"];
        for other in others.map(|text| text.parse().expect("an address")) {
            assert_eq!(socket_path(other), None);
        }
    }

    #[test]
    fn what_is_no_path_of_a_socket_is_refused() {
        for path in ["", "/", "@", "run/app.sock", "//a\0b", &format!("/{}", "x".repeat(107))] {
            let text = format!("unix:{path}");
            assert_eq!(text.parse::<ServerAddress>(), Err(ServerAddressError::Path), "{path}");
        }
        let told = "unix/run".parse::<ServerAddress>().expect_err("no address").to_string();
        assert!(told.contains("`unix/run` is not an address"), "{told}");
    }
}
