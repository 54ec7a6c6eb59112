//! Selects what of TLS outlasts a reload: configurations, and sessions of clients.

use std::{fs, sync::Arc};

use aws_lc_rs::digest::{SHA256, digest};
use loadline_core::fleet::{ListenerTls, ServerTls};
use rustls::{RootCertStore, ServerConfig};

use super::config::SystemRoots;

/// What the configuration of a listener is made of, but for certificates that are issued, which it
/// has in common with those before. It stays as long as nothing of this is another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Basis {
    tls: ListenerTls,
    /// Digests of the files with certificates and, the last, of that with authorities.
    files: Vec<Vec<u8>>,
    /// The same of keys, and of responses about certificates.
    others: Vec<Vec<u8>>,
    /// What clients are offered by ALPN.
    protocols: &'static [&'static str],
}

impl Basis {
    /// As it is now; none where a file cannot be read. To be asked for before the files are loaded:
    /// what changes meanwhile has then changed for the next reload.
    pub(super) fn of(tls: &ListenerTls, protocols: &'static [&'static str]) -> Option<Self> {
        let chains = tls.certificates.iter().map(|it| &it.chain);
        let authorities = tls.clients.iter().map(|it| &it.authorities);
        let files = digests(chains.chain(authorities))?;
        let keys = tls.certificates.iter().map(|it| &it.key);
        let staples = tls.certificates.iter().filter_map(|it| it.staple.as_ref());
        let others = digests(keys.chain(staples))?;
        Some(Self { tls: tls.clone(), files, others, protocols })
    }

    /// A digest of the authorities of clients' certificates, where clients are asked for some.
    pub(super) fn authorities(&self) -> Option<&[u8]> {
        self.tls.clients.as_ref().and(self.files.last()).map(Vec::as_slice)
    }

    /// Whether sessions that were agreed on by `before` are good: by the same settings, and the
    /// same certificates and authorities.
    pub(super) fn has_sessions_of(&self, before: &Self) -> bool {
        self.tls == before.tls && self.files == before.files
    }
}

/// What has been read for connections to servers.
#[derive(Debug)]
pub(super) struct Origin {
    /// Digests of the files with authorities, with our own certificate and with its key.
    files: Vec<Vec<u8>>,
    /// The authorities of the system, where these are trusted.
    roots: Option<Arc<RootCertStore>>,
}

impl Origin {
    /// As it is now; none where something cannot be read. To be asked for before the files are
    /// loaded, as [`Basis::of`].
    pub(super) fn of(tls: &ServerTls, system: &SystemRoots) -> Option<Self> {
        let certificates = tls.certificate.iter().flat_map(|it| [&it.chain, &it.key]);
        let authorities = tls.authorities.iter().filter(|_| tls.verify);
        let files = digests(authorities.chain(certificates))?;
        let roots = match tls.verify && tls.authorities.is_none() {
            true => Some(system.get().ok()?),
            false => None,
        };
        Some(Self { files, roots })
    }
}

impl PartialEq for Origin {
    fn eq(&self, other: &Self) -> bool {
        let has_same_roots = match (&self.roots, &other.roots) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one.roots == other.roots,
            (one, other) => one.is_none() && other.is_none(),
        };
        self.files == other.files && has_same_roots
    }
}

/// Digests of these files; none where one cannot be read.
fn digests<'a>(paths: impl Iterator<Item = &'a String>) -> Option<Vec<Vec<u8>>> {
    let digest_of = |path: &String| {
        let file = fs::read(path).ok()?;
        Some(digest(&SHA256, &file).as_ref().to_vec())
    };
    paths.map(digest_of).collect()
}

/// Has `config` go on with the sessions of `before`.
pub(super) fn keep_sessions(config: &mut Arc<ServerConfig>, before: &ServerConfig) {
    let config = Arc::make_mut(config);
    config.ticketer = before.ticketer.clone();
    config.session_storage = before.session_storage.clone();
}
