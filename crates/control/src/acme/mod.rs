//! Certificates by ACME (RFC 8555): asks authorities for those that listeners name, renews them,
//! and keeps what it has on disk, or in the store of a cluster for all of its edges.
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
mod shared;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use loadline_core::state::AcmeCertificate;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::{LocalSet, spawn_local},
    time::sleep,
};

use crate::{
    admin::LiveConfiguration,
    cluster::{self, keyspace::Keyspace},
};
pub(crate) use account::account_key;
use agent::Agent;
pub use shared::CertificateInfo;
pub(crate) use shared::{PART, overview};
use shared::{PROOFS, Proof, proofs};

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

    /// Has requests for tokens that are not known wait for what is sent here: whoever sends it is
    /// told when the store of the cluster was looked at. Called once.
    fn look_up(&self, asked: mpsc::Sender<oneshot::Sender<()>>);
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
    pub fn start(
        site: Arc<LiveConfiguration>,
        front: Arc<dyn Front>,
        view: View,
        cluster: Option<(cluster::Settings, cluster::View)>,
    ) -> Self {
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
            let started =
                thread.spawn(move || run(&site, &front, (view, cluster), reloads, stopped));
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
    (view, cluster): (View, Option<(cluster::Settings, cluster::View)>),
    reloads: watch::Receiver<()>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!("no certificates by ACME: {error}"),
    };
    let keyspace = cluster.map(|(settings, view)| Arc::new(Keyspace::new(settings, view, PART)));
    LocalSet::new().block_on(&runtime, async {
        tokio::select! {
            () = Agent::new(front.clone(), view, keyspace.clone()).run(site, reloads) => {}
            () = share(front, keyspace) => {}
            _ = stopped => {}
        }
    });
}

/// Follows what edges share, and looks there for tokens that authorities ask this edge for.
async fn share(front: &Arc<dyn Front>, keyspace: Option<Arc<Keyspace>>) {
    let Some(keyspace) = keyspace else { return std::future::pending().await };
    // Whoever does not get a place among those that wait is answered as if nothing was found.
    let (asking, asked) = mpsc::channel(LOOKUPS_MAX);
    front.look_up(asking);
    tokio::join!(keyspace.follow(), look_up(front, &keyspace, asked));
}

/// Reads what authorities are shown by any edge, once for all who wait for it.
async fn look_up(
    front: &Arc<dyn Front>,
    keyspace: &Keyspace,
    mut asked: mpsc::Receiver<oneshot::Sender<()>>,
) {
    while let Some(first) = asked.recv().await {
        let mut all = vec![first];
        while let Ok(another) = asked.try_recv() {
            all.push(another);
        }
        match keyspace.read(PROOFS).await {
            Ok(found) => {
                for proof in proofs(found).into_values() {
                    if let Proof::Http01 { token, key_authorization } = proof {
                        front.answer_challenge(&token, Some(&key_authorization));
                        spawn_local(forget(front.clone(), token));
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "acme: a token was not looked up"),
        }
        for asker in all {
            let _ = asker.send(());
        }
        // Whoever asks for tokens of their own invention costs the store so much at most.
        sleep(LOOKUP_INTERVAL).await;
    }
}

/// Withdraws the answer for a token that was looked up; a later request looks it up again.
async fn forget(front: Arc<dyn Front>, token: String) {
    sleep(LOOKED_UP_FOR).await;
    front.answer_challenge(&token, None);
}

/// Requests for unknown tokens that wait at a time.
const LOOKUPS_MAX: usize = 64;
const LOOKUP_INTERVAL: Duration = Duration::from_millis(100);
/// An authority asks again within seconds.
const LOOKED_UP_FOR: Duration = Duration::from_secs(60);
