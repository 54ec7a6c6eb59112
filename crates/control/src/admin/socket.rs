//! The socket of the admin interface: TCP, or a Unix socket that only its owner may use.
//!
//! A connection on which no request comes for a while is closed, so that those who leave without a
//! word take no descriptors for ever; who leaves so in the middle of a request is found out by
//! probes of TCP.

use std::{
    fs, io,
    net::TcpListener,
    os::fd::{AsFd as _, OwnedFd},
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    pin::pin,
    time::Duration,
};

use axum::{
    Router,
    serve::{Listener, ListenerExt as _},
};
use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use rustix::net::sockopt;
use tokio::{net::TcpStream, sync::watch, time::timeout};

use super::{AdminError, Bind, CLOSE_MAX};

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

    /// Serves until it is stopped, and then whoever is there already, for a moment.
    pub(crate) async fn serve(self, routes: Router, stopped: impl Future<Output = ()>) {
        if let Err(error) = self.try_to_serve(routes, stopped).await {
            tracing::error!(%error, "the admin interface has ended");
        }
    }

    async fn try_to_serve(
        self,
        routes: Router,
        stopped: impl Future<Output = ()>,
    ) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => {
                let socket = tokio::net::TcpListener::from_std(socket)?;
                serve_on(socket.tap_io(probe), routes, IDLE, stopped).await;
            }
            Self::Unix(socket) => {
                let socket = tokio::net::UnixListener::from_std(socket)?;
                serve_on(socket, routes, IDLE, stopped).await;
            }
        }
        Ok(())
    }

    fn without_waiting(self) -> io::Result<Self> {
        match &self {
            Self::Tcp(socket) => socket.set_nonblocking(true)?,
            Self::Unix(socket) => socket.set_nonblocking(true)?,
        }
        Ok(self)
    }
}

/// Serves everybody who comes until it is stopped; a connection without a request for as long as
/// `idle` is closed. Then nobody else is accepted, and requests that are under way, and the first
/// of who has just come, are waited for.
async fn serve_on(
    mut socket: impl Listener,
    routes: Router,
    idle: Duration,
    stopped: impl Future<Output = ()>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(idle);
    let ending = watch::Sender::new(());
    let mut stopped = pin!(stopped);
    loop {
        let (stream, _) = tokio::select! {
            accepted = socket.accept() => accepted,
            () = &mut stopped => break,
        };
        let (has_asked, mut asked) = watch::channel(false);
        let service = TowerToHyperService::new(routes.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            has_asked.send_replace(true);
            service.call(request)
        });
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let mut ends = ending.subscribe();
        tokio::spawn(async move {
            let mut connection = pin!(connection);
            // Whoever was there has gone, or was silent.
            tokio::select! {
                _ = &mut connection => return,
                _ = ends.changed() => {}
            }
            tokio::select! {
                _ = &mut connection => return,
                _ = asked.wait_for(|asked| *asked) => {}
            }
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        });
    }
    drop(socket);
    ending.send_replace(());
    let _ = timeout(CLOSE_MAX, ending.closed()).await;
}

/// Has the kernel find out whether the other side of a silent connection is still there.
fn probe(stream: &mut TcpStream) {
    let probed = sockopt::set_socket_keepalive(&*stream, true)
        .and_then(|()| sockopt::set_tcp_keepidle(&*stream, PROBED_AFTER))
        .and_then(|()| sockopt::set_tcp_keepintvl(&*stream, PROBE_INTERVAL));
    if let Err(error) = probed {
        tracing::debug!(%error, "a connection of the admin interface is not probed");
    }
}

/// Scrapers keep their connections: this is longer than Prometheus waits from one scrape to the
/// next unless it is told otherwise.
const IDLE: Duration = Duration::from_secs(90);

/// Silence, after which the other side is probed.
const PROBED_AFTER: Duration = Duration::from_secs(60);

/// From one probe to the next; the kernel gives up after nine.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

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

/// Where a Unix socket is bound, to be removed at the end.
#[derive(Debug)]
pub struct SocketPath {
    path: PathBuf,
    /// Which file it is.
    file: Option<(u64, u64)>,
}

impl SocketPath {
    /// That of the socket that is there.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), file: identity(path) }
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it if nobody listens there: the next process may go on with the same socket.
    pub fn remove_unused(&self) {
        let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if UnixStream::connect(&self.path).is_err_and(refused) {
            self.remove();
        }
    }

    /// Removes it, unless another process has bound a socket of its own there. Where this process
    /// may not, it stays: [`bind_path`] takes its place.
    pub fn remove(&self) {
        if self.file.is_none() || identity(&self.path) != self.file {
            return;
        }
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::info!(%error, path = %self.path.display(), "the socket cannot be removed");
        }
    }
}

/// Which socket is at a path.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok().filter(|it| it.file_type().is_socket())?;
    Some((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        sync::{Notify, oneshot},
        task::yield_now,
    };

    use super::*;

    #[test]
    fn a_socket_that_another_process_has_bound_at_the_same_path_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let first = bind_path(&path).unwrap();
        let own = SocketPath::of(&path);
        fs::remove_file(&path).unwrap();
        let second = bind_path(&path).unwrap();
        own.remove();
        assert!(path.exists());
        SocketPath::of(&path).remove();
        assert!(!path.exists());
        drop((first, second));
    }

    #[test]
    fn a_socket_on_which_another_process_listens_stays_and_one_on_which_nobody_does_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let first = bind_path(&path).unwrap();
        let own = SocketPath::of(&path);
        let of_next = first.try_clone().unwrap();
        drop(first);
        own.remove_unused();
        assert!(path.exists());
        drop(of_next);
        own.remove_unused();
        assert!(!path.exists());
    }

    #[test]
    fn who_asks_nothing_is_disconnected_before_the_first_request_and_after_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = socket.local_addr().unwrap();
            let idle = Duration::from_millis(50);
            let never = std::future::pending();
            tokio::spawn(serve_on(socket.tap_io(probe), Router::new(), idle, never));
            for request in ["", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"] {
                let mut client = TcpStream::connect(address).await.unwrap();
                client.write_all(request.as_bytes()).await.unwrap();
                let mut answer = Vec::new();
                let ended = timeout(Duration::from_secs(10), client.read_to_end(&mut answer));
                ended.await.expect("it is closed").unwrap();
                assert_eq!(answer.starts_with(b"HTTP/1.1 404"), !request.is_empty(), "{answer:?}");
            }
        });
    }

    async fn ask(client: &mut TcpStream, path: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
    }

    /// What comes until the connection is closed.
    async fn rest(mut client: TcpStream) -> String {
        let mut answer = String::new();
        let ended = timeout(Duration::from_secs(10), client.read_to_string(&mut answer));
        ended.await.expect("it is closed").unwrap();
        answer
    }

    #[test]
    fn who_has_asked_or_has_just_come_is_answered_when_another_process_takes_over() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = socket.local_addr().unwrap();
            let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let (begins, waits) = (begun.clone(), go_on.clone());
            let slow = move || {
                begins.notify_one();
                let waits = waits.clone();
                async move {
                    waits.notified().await;
                    "done"
                }
            };
            let routes = Router::new().route("/slow", get(slow));
            let (stop, stopped) = oneshot::channel::<()>();
            let stopped = async {
                let _ = stopped.await;
            };
            let serving = tokio::spawn(serve_on(socket, routes, IDLE, stopped));
            let connect = || TcpStream::connect(address);
            let mut under_way = connect().await.unwrap();
            ask(&mut under_way, "/slow").await;
            begun.notified().await;
            let mut new = connect().await.unwrap();
            // Whoever came before is accepted before.
            let mut answered = connect().await.unwrap();
            ask(&mut answered, "/none").await;
            assert!(answered.read(&mut [0; 1_024]).await.unwrap() > 0);
            drop(stop);
            while connect().await.is_ok() {
                yield_now().await;
            }
            assert_eq!(rest(answered).await, "");
            ask(&mut new, "/none").await;
            let told = rest(new).await;
            assert!(told.starts_with("HTTP/1.1 404"), "{told}");
            go_on.notify_one();
            let told = rest(under_way).await;
            assert!(told.starts_with("HTTP/1.1 200") && told.ends_with("done"), "{told}");
            timeout(Duration::from_secs(10), serving).await.expect("it has ended").unwrap();
        });
    }
}
