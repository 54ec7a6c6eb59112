//! The admin interface: metrics, health of the process, JSON API and dashboard.
//!
//! It runs on one thread of its own, never on one that carries traffic, and sees the proxy as an
//! [`Engine`]: a state to read, a fleet to put in force. Once a second it takes the state into a
//! short memory (`history`), of which rates and pictures are made, or less often where that costs
//! much.
//!
//! | path | |
//! |---|---|
//! | `/` | dashboard, live by server-sent events of `/live` |
//! | `/metrics` | OpenMetrics text, for Prometheus |
//! | `/healthz`, `/readyz` | whether the process lives, whether it can take traffic |
//! | `/api/...` | JSON; `/openapi.json` describes it |
//!
//! Reading needs no token, so the address is the protection; changing needs one. Requests for a
//! host that is not ours are refused (`host`).

mod api;
mod cache;
mod context;
mod dashboard;
mod error;
mod history;
mod host;
mod metrics;
mod object;
mod openapi;
mod probes;
mod process;
mod site;
mod socket;
mod token;
mod whole;

use std::{
    fmt, io, net::SocketAddr, os::fd::OwnedFd, path::PathBuf, sync::Arc, thread, time::Duration,
};

use axum::{Router, middleware};

pub use error::AdminError;
pub use metrics::{Detail, reference as metrics_reference};
pub use openapi::openapi;
pub use site::{Engine, LiveConfiguration, Survey};
pub use socket::{SocketPath, bind_path};
pub use token::read as read_token;

use context::{AdminContext, TICK};
use host::Hosts;
use socket::Socket;
use token::Token;
use tokio::{sync::oneshot, time::timeout};

/// Where the administration listens and who may change things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where it listens.
    pub bind: Bind,
    /// The file with the token; one is made if omitted.
    pub token_file: Option<PathBuf>,
    /// Names by which browsers and scrapers may call it, besides its addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Which series `/metrics` has.
    pub detail: Detail,
}

/// Where the administration listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bind {
    /// An address, in clear.
    Address(SocketAddr),
    /// A Unix socket.
    Socket(PathBuf),
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Socket(path) => path.display().fmt(f),
        }
    }
}

/// The administration of a process before this one.
#[derive(Debug)]
pub struct Passed {
    /// Where it listens.
    pub socket: OwnedFd,
    /// The token that was made for that process.
    pub made_token: Option<String>,
}

/// A bound administration, of which nothing runs yet.
pub struct BoundAdmin {
    socket: Socket,
    path: Option<SocketPath>,
    token: Token,
    made_token: Option<String>,
    hosts: Hosts,
    detail: Detail,
}

/// A running administration; it ends when this is dropped.
#[derive(Debug)]
pub struct Admin {
    /// Where it listens: an address, or the path of a socket.
    pub place: String,
    /// The token that was made for this process; none where a file gave it.
    pub made_token: Option<String>,
    socket: OwnedFd,
    path: Option<SocketPath>,
    stop: oneshot::Sender<()>,
    /// Hears when nothing of it listens any more.
    closed: oneshot::Receiver<()>,
}

impl BoundAdmin {
    /// Binds the place, or goes on with what another process has passed on, and reads the token.
    ///
    /// # Errors
    /// [`AdminError`] where the place cannot be bound or the token not be read.
    pub fn new(settings: &Settings, passed: Option<Passed>) -> Result<Self, AdminError> {
        let (socket, before) = match passed {
            None => (Socket::bind(&settings.bind)?, None),
            Some(Passed { socket, made_token }) => {
                let place = settings.bind.to_string();
                let failed = |source| AdminError::Bind { place, source };
                (Socket::passed(&settings.bind, socket).map_err(failed)?, made_token)
            }
        };
        let (token, made_token) = Token::of(settings.token_file.as_deref(), before)?;
        let (hosts, path) = match &settings.bind {
            Bind::Address(_) => (Hosts::named(&settings.hosts), None),
            Bind::Socket(path) => (Hosts::any(), Some(SocketPath::of(path))),
        };
        Ok(Self { socket, path, token, made_token, hosts, detail: settings.detail })
    }

    /// Starts to serve.
    ///
    /// # Errors
    /// [`AdminError::Thread`] where there is no thread to be had.
    pub fn start(self, site: Arc<LiveConfiguration>) -> Result<Admin, AdminError> {
        let Self { socket, path, token, made_token, hosts, detail } = self;
        let place = socket.place();
        let shared = socket.share().map_err(AdminError::Thread)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let (closes, closed) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(AdminError::Thread)?;
        let serve = move || {
            let context = Arc::new(AdminContext::new(site, token, detail));
            let ticks = tick(context.clone());
            let watched = context.clone();
            let stopped = async move {
                let _ = stopped.await;
                watched.leave();
            };
            runtime.block_on(async {
                tokio::select! {
                    () = socket.serve(routes(context, hosts), stopped) => {}
                    () = ticks => {}
                }
            });
            drop(closes);
        };
        let thread = thread::Builder::new().name("admin".into());
        thread.spawn(serve).map_err(AdminError::Thread)?;
        Ok(Admin { place, made_token, socket: shared, path, stop, closed })
    }
}

impl Admin {
    /// Its socket once more, for a process that is to follow.
    ///
    /// # Errors
    /// The kernel's, where there are no more descriptors.
    pub fn share(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// Ends it with the requests under way, since another process serves. Its Unix socket goes
    /// unless that one listens there.
    pub async fn leave(self) {
        let Self { socket, path, stop, closed, .. } = self;
        drop((socket, stop));
        // It says no more than that it has ended.
        let _ = timeout(CLOSE_MAX, closed).await;
        path.iter().for_each(SocketPath::remove_unused);
    }

    /// Removes its Unix socket, if it has one, from its path.
    pub fn remove_path(&self) {
        self.path.iter().for_each(SocketPath::remove);
    }
}

fn routes(context: Arc<AdminContext>, hosts: Hosts) -> Router {
    let routes = probes::routes().merge(api::routes()).merge(dashboard::routes());
    let routes = routes.fallback(api::absent);
    routes.layer(middleware::from_fn_with_state(hosts, host::check)).with_state(context)
}

/// Lets the admin interface look at the engine again and again, and show what it sees.
async fn tick(context: Arc<AdminContext>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if context.look_again() {
            dashboard::renew(&context).await;
        }
    }
}

/// It has no more to do until it is closed than what requests take that are under way.
const CLOSE_MAX: Duration = Duration::from_secs(1);
