//! A test server from bind to stop.

use std::{future::Future, io, net::SocketAddr, sync::Arc};

use loadline_core::time::Duration;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    config::{Config, ConfigError},
    connection::converse,
    mandelbrot::Picture,
    server::Server,
    service::Service,
    stats::Stats,
};

/// A test server that listens and is ready to run.
pub struct Worker {
    listener: TcpListener,
    address: SocketAddr,
    server: Arc<Server>,
}

/// Why a worker cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// It was told to be what cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It cannot have its address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address wanted.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// A thread or a timer cannot be had.
    #[error("cannot start working: {source}")]
    Start {
        /// What the system says.
        source: io::Error,
    },
    /// The picture cannot be drawn.
    #[error("cannot draw the picture: {source}")]
    Draw {
        /// What the encoder says.
        source: png::EncodingError,
    },
}

/// Why a worker stopped before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The timer failed.
    #[error("cannot keep time: {source}")]
    Time {
        /// What the system says.
        source: io::Error,
    },
}

impl Worker {
    /// Listens as `config` says, on the tokio runtime of the caller. Connections wait in the
    /// backlog until [`run`](Self::run).
    ///
    /// # Errors
    /// See [`BindError`].
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time.
    pub fn bind(config: Config) -> Result<Self, BindError> {
        config.check()?;
        let listen = |source| BindError::Listen { address: config.listen, source };
        let (listener, address) = listen_on(config.listen).map_err(listen)?;
        let start = |source| BindError::Start { source };
        let service = Service::new(config.pace, config.delay).map_err(start)?;
        let draw = |source| BindError::Draw { source };
        let picture = Picture::compute().to_png().map_err(draw)?;
        let server = Arc::new(Server::new(config, service, address.port(), picture));
        Ok(Self { listener, address, server })
    }

    /// Where it listens, with the port the system chose.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What `GET /stats` answers.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.server.stats()
    }

    /// Serves until `shutdown` is done; then accepts no more, answers what is under way for at
    /// most 5 s, and returns.
    ///
    /// # Errors
    /// See [`RunError`].
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
        let server = Arc::clone(&self.server);
        tokio::select! {
            ended = server.service.drive() => ended.map_err(|source| RunError::Time { source }),
            () = self.serve(shutdown) => Ok(()),
        }
    }

    async fn serve(self, shutdown: impl Future<Output = ()>) {
        let (stop, stopped) = watch::channel(false);
        let mut connections = JoinSet::new();
        tokio::select! {
            () = shutdown => {}
            () = self.accept(&mut connections, &stopped) => {}
        }
        // New clients are refused from here on, not kept waiting.
        drop(self.listener);
        // Nobody listens if no connection is left.
        let _ = stop.send(true);
        let all_ended = async { while connections.join_next().await.is_some() {} };
        let _ = timeout(DRAIN.to_std(), all_ended).await;
    }

    async fn accept(&self, connections: &mut JoinSet<()>, stopped: &watch::Receiver<bool>) {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    connections.spawn(converse(stream, Arc::clone(&self.server), stopped.clone()));
                }
                // No descriptor is left, or the client has gone: neither is for ever.
                Err(_) => sleep(ACCEPT_PAUSE.to_std()).await,
            }
            while connections.try_join_next().is_some() {}
        }
    }
}

fn listen_on(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    // Accepted connections inherit it.
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let listener = TcpListener::from_std(socket.into())?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// An overloaded worker is to make callers wait in its queue, not in the kernel's.
const BACKLOG: i32 = 4096;

/// How long responses under way may still take after the worker was told to stop.
const DRAIN: Duration = Duration::from_secs(5);

const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
