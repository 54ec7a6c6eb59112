//! Administration: metrics, health of the process, JSON API and dashboard, on an address apart.
//!
//! It runs on one thread of its own, never on one that carries traffic, and sees the proxy as an
//! [`Engine`]: a state to read, a fleet to put in force. Once a second it takes the state into a
//! short memory (`history`), of which rates and pictures are made.
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
mod dashboard;
mod desk;
mod error;
mod history;
mod host;
mod metrics;
mod openapi;
mod probes;
mod process;
mod site;
mod socket;
mod token;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, thread, time::Duration};

use axum::{Router, middleware};

pub use error::AdminError;
pub use metrics::reference as metrics_reference;
pub use openapi::openapi;
pub use site::{Engine, Site};

use desk::Desk;
use host::Hosts;
use socket::Socket;
use token::Token;

/// Where the administration listens and who may change things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where it listens.
    pub bind: Bind,
    /// The file with the token; one is made where absent.
    pub token_file: Option<PathBuf>,
    /// Names by which browsers and scrapers may call it, besides its addresses and `localhost`.
    pub hosts: Vec<String>,
}

/// Where the administration listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bind {
    /// An address, in clear.
    Address(SocketAddr),
    /// A Unix socket.
    Socket(PathBuf),
}

/// A running administration; it ends with the process.
#[derive(Debug)]
pub struct Admin {
    /// Where it listens: an address, or the path of a socket.
    pub place: String,
    /// The token that was made for this process; none where a file gave it.
    pub made_token: Option<String>,
}

impl Admin {
    /// Starts to listen and serve.
    ///
    /// # Errors
    /// [`AdminError`] where the place cannot be bound or the token not be read; nothing runs then.
    pub fn start(settings: &Settings, site: Arc<Site>) -> Result<Self, AdminError> {
        let (token, made_token) = Token::of(settings.token_file.as_deref())?;
        let socket = Socket::bind(&settings.bind)?;
        let place = socket.place();
        let hosts = match settings.bind {
            Bind::Address(_) => Hosts::named(&settings.hosts),
            Bind::Socket(_) => Hosts::any(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(AdminError::Thread)?;
        let serve = move || {
            let desk = Arc::new(Desk::new(site, token));
            let ticks = tick(desk.clone());
            runtime.block_on(async { tokio::join!(socket.serve(routes(desk, hosts)), ticks) });
        };
        let thread = thread::Builder::new().name("admin".into());
        thread.spawn(serve).map_err(AdminError::Thread)?;
        Ok(Self { place, made_token })
    }
}

fn routes(desk: Arc<Desk>, hosts: Hosts) -> Router {
    let routes = probes::routes().merge(api::routes()).merge(dashboard::routes());
    routes.layer(middleware::from_fn_with_state(hosts, host::check)).with_state(desk)
}

/// Lets the desk look at the engine again and again.
async fn tick(desk: Arc<Desk>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        desk.look();
    }
}

/// Time from one look to the next: as often as people see a change, as seldom as costs nothing.
const TICK: Duration = Duration::from_secs(1);
