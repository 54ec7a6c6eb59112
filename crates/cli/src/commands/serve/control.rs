//! The control socket, for `loadline upgrade`.

use std::{os::unix::net::UnixListener, path::Path, time::Duration};

use anyhow::Context as _;
use loadline_control::admin::{SocketPath, bind_path};
use tokio::{
    io::AsyncReadExt as _,
    net::{self, UnixStream},
    sync::mpsc::Sender,
    time::{sleep, timeout},
};

use super::{handover::InheritedState, identity::Identity};

/// The socket of the process before, or a new one of `identity`.
pub(super) fn open(
    path: &Path,
    inherited_state: &mut InheritedState,
    identity: Option<&Identity>,
) -> anyhow::Result<(SocketPath, UnixListener)> {
    let socket = match inherited_state.control(path) {
        Some(socket) => UnixListener::from(socket),
        None => {
            let socket = bind_path(path);
            let socket = socket.with_context(|| format!("edge.control: {}", path.display()))?;
            if let Some((user, group)) = identity.map(Identity::ids) {
                std::os::unix::fs::chown(path, Some(user), Some(group))?;
            }
            socket
        }
    };
    socket.set_nonblocking(true)?;
    Ok((SocketPath::of(path), socket))
}

/// Leaves the socket to the next process; where that does not listen at its path, it goes.
pub(super) fn leave((path, socket): (SocketPath, UnixListener)) {
    drop(socket);
    path.remove_unused();
}

/// Hands over whoever asks for an upgrade, until nobody takes them.
pub(super) async fn listen(socket: net::UnixListener, askers: Sender<UnixStream>) {
    loop {
        match socket.accept().await {
            Ok((mut asker, _)) => {
                let asks = asks_for_upgrade(&mut asker).await;
                if asks && askers.send(asker).await.is_err() {
                    return;
                }
            }
            // Too few descriptors, say: trying at once would only burn time.
            Err(error) => {
                tracing::warn!(%error, "cannot accept at the control socket");
                sleep(PATIENCE).await;
            }
        }
    }
}

async fn asks_for_upgrade(asker: &mut UnixStream) -> bool {
    let mut asked = [0; UPGRADE.len()];
    let heard = timeout(PATIENCE, asker.read_exact(&mut asked)).await;
    matches!(heard, Ok(Ok(_))) && asked == *UPGRADE
}

/// What is asked for.
const UPGRADE: &[u8; 8] = b"upgrade\n";

/// Whoever connects knows what to ask for.
const PATIENCE: Duration = Duration::from_secs(1);
