//! Certificates by ACME (RFC 8555): asks authorities for those that listeners name, renews them,
//! and keeps what it has on disk.
//!
//! ```text
//! names of the fleet --due?--> attempt: order, challenge, finalize, download
//!        ^                        |             |
//!     reload                   file 0600      [`Front`]: shown in handshakes from now on
//! ```
//! When a certificate is due, how long a failed attempt waits and what becomes of its order is
//! decided by [`loadline_core::acme`]. All of it happens on a thread that carries no traffic, and
//! which there is only where a listener has `acme`.

mod account;
mod agent;
mod attempt;
mod client;
mod disk;
mod fault;
mod issued;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use loadline_core::state::AcmeCertificate;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::{
    sync::{oneshot, watch},
    task::LocalSet,
};

use crate::admin::LiveConfiguration;
pub(crate) use account::account_key;
use agent::Agent;

/// What shows certificates to clients, and answers authorities that verify a name.
pub trait Front: Send + Sync + 'static {
    /// Shows the certificate that is in this file now.
    ///
    /// # Errors
    /// Why it cannot be shown, for people.
    fn show_issued(&self, file: &str) -> Result<(), String>;

    /// Answers requests for this token of http-01; not any more if omitted.
    fn answer_challenge(&self, token: &str, key_authorization: Option<&str>);

    /// Shows this in handshakes of tls-alpn-01 for the name whose certificate goes into `file`; not
    /// any more if omitted.
    ///
    /// # Errors
    /// Why it cannot be shown, for people.
    fn validate_with(&self, file: &str, pair: Option<Pair>) -> Result<(), String>;
}

/// A certificate with its key.
pub type Pair = (CertificateDer<'static>, PrivateKeyDer<'static>);

/// How it goes with each certificate. Cheap to copy.
#[derive(Clone, Debug, Default)]
pub struct View(Arc<Mutex<BTreeMap<String, AcmeCertificate>>>);

impl View {
    /// In the order of their files.
    #[must_use]
    pub fn certificates(&self) -> Vec<AcmeCertificate> {
        self.all().values().cloned().collect()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, AcmeCertificate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks authorities until it is dropped.
#[derive(Debug)]
pub struct Issuing {
    _stop: oneshot::Sender<()>,
}

impl Issuing {
    /// Begins, on a thread that starts when a listener of `site` has `acme`. Must be called inside
    /// a runtime.
    #[must_use]
    pub fn start(site: Arc<LiveConfiguration>, front: Arc<dyn Front>, view: View) -> Self {
        let (stop, stopped) = oneshot::channel();
        let mut reloads = site.reloads();
        tokio::spawn(async move {
            while !has_acme(&site) {
                // The sender is part of the site.
                if reloads.changed().await.is_err() {
                    return;
                }
            }
            let thread = thread::Builder::new().name("acme".to_owned());
            let started = thread.spawn(move || run(&site, &front, view, reloads, stopped));
            if let Err(error) = started {
                tracing::error!("no certificates by ACME: {error}");
            }
        });
        Self { _stop: stop }
    }
}

fn has_acme(site: &LiveConfiguration) -> bool {
    let fleet = site.file();
    let mut tls = fleet.listeners.iter().filter_map(|listener| listener.tls.as_ref());
    tls.any(|tls| tls.acme.is_some())
}

fn run(
    site: &Arc<LiveConfiguration>,
    front: &Arc<dyn Front>,
    view: View,
    reloads: watch::Receiver<()>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!("no certificates by ACME: {error}"),
    };
    LocalSet::new().block_on(&runtime, async {
        tokio::select! {
            () = Agent::new(front.clone(), view).run(site, reloads) => {}
            _ = stopped => {}
        }
    });
}
