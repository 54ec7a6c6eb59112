//! The socket of the administration: of TCP, or of a path that its owner alone may use.

use std::{
    fs, io,
    net::TcpListener,
    os::fd::{AsFd as _, OwnedFd},
    os::unix::{
        fs::{FileTypeExt as _, PermissionsExt as _},
        net::{UnixListener, UnixStream},
    },
    path::Path,
};

use axum::Router;

use super::{AdminError, Bind};

/// A bound socket.
pub(crate) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Socket {
    pub(crate) fn bind(bind: &Bind) -> Result<Self, AdminError> {
        let (place, bound) = match bind {
            Bind::Address(address) => {
                (address.to_string(), TcpListener::bind(address).map(Self::Tcp))
            }
            Bind::Socket(path) => (path.display().to_string(), bind_path(path).map(Self::Unix)),
        };
        let bound = bound.and_then(Self::without_waiting);
        bound.map_err(|source| AdminError::Bind { place, source })
    }

    /// The socket of a process before this one, which listened at `bind`.
    pub(crate) fn passed(bind: &Bind, socket: OwnedFd) -> io::Result<Self> {
        let socket = match bind {
            Bind::Address(_) => Self::Tcp(socket.into()),
            Bind::Socket(_) => Self::Unix(socket.into()),
        };
        socket.without_waiting()
    }

    /// The same socket once more, for a process that is to follow.
    pub(crate) fn share(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(socket) => socket.as_fd().try_clone_to_owned(),
            Self::Unix(socket) => socket.as_fd().try_clone_to_owned(),
        }
    }

    /// Where it is, for whoever wants to connect.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Tcp(socket) => {
                socket.local_addr().map_or_else(|_| "?".into(), |it| it.to_string())
            }
            Self::Unix(socket) => {
                let path = socket.local_addr().ok();
                let path = path.as_ref().and_then(|address| address.as_pathname());
                path.map_or_else(|| "?".into(), |path| path.display().to_string())
            }
        }
    }

    /// Serves until the process ends.
    pub(crate) async fn serve(self, routes: Router) {
        let served = match self {
            Self::Tcp(socket) => match tokio::net::TcpListener::from_std(socket) {
                Ok(socket) => axum::serve(socket, routes).await,
                Err(error) => Err(error),
            },
            Self::Unix(socket) => match tokio::net::UnixListener::from_std(socket) {
                Ok(socket) => axum::serve(socket, routes).await,
                Err(error) => Err(error),
            },
        };
        if let Err(error) = served {
            tracing::error!(%error, "the admin interface has ended");
        }
    }

    fn without_waiting(self) -> io::Result<Self> {
        match &self {
            Self::Tcp(socket) => socket.set_nonblocking(true)?,
            Self::Unix(socket) => socket.set_nonblocking(true)?,
        }
        Ok(self)
    }
}

/// Binds a Unix socket that its owner alone may use. One that a process left behind is in nobody's
/// use: it gives way.
///
/// # Errors
/// The kernel's; in use, no such directory, not permitted.
pub fn bind_path(path: &Path) -> io::Result<UnixListener> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        fs::remove_file(path)?;
    }
    let socket = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(socket)
}
