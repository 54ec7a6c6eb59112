//! Reports the state of the process to systemd (sd_notify(3)).

use std::os::{
    linux::net::SocketAddrExt as _,
    unix::net::{SocketAddr, UnixDatagram},
};

/// Says `state`, `READY=1` and the like; nothing where nobody asked.
pub(super) fn notify(state: &str) {
    let Ok(place) = std::env::var("NOTIFY_SOCKET") else { return };
    let told = UnixDatagram::unbound().and_then(|socket| {
        let address = match place.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&place)?,
        };
        socket.send_to_addr(state.as_bytes(), &address)
    });
    if let Err(error) = told {
        tracing::warn!(%error, "cannot notify the process manager: {state}");
    }
}
