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
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// None where servers are not verified.
    pub(super) authorities: Option<Authorities>,
    /// Digests of the files with our own certificate and with its key.
    own: Vec<Vec<u8>>,
}

impl Origin {
    /// As it is now; none where something cannot be read. To be asked for before the files are
    /// loaded, as [`Basis::of`].
    pub(super) fn of(tls: &ServerTls, system: &SystemRoots) -> Option<Self> {
        let authorities = match &tls.authorities {
            _ if !tls.verify => None,
            Some(path) => Some(Authorities::File(digest_of(path)?)),
            None => Some(Authorities::System(system.get().ok()?)),
        };
        let own = tls.certificate.iter().flat_map(|it| [&it.chain, &it.key]);
        Some(Self { authorities, own: digests(own)? })
    }
}

/// By whom servers are verified.
#[derive(Clone, Debug)]
pub(super) enum Authorities {
    /// A digest of the file that names them.
    File(Vec<u8>),
    /// Those of the system.
    System(Arc<RootCertStore>),
}

impl PartialEq for Authorities {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(other)) => one == other,
            (Self::System(one), Self::System(other)) => {
                Arc::ptr_eq(one, other) || one.roots == other.roots
            }
            _ => false,
        }
    }
}

impl Eq for Authorities {}

/// Digests of these files; none where one cannot be read.
fn digests<'a>(paths: impl Iterator<Item = &'a String>) -> Option<Vec<Vec<u8>>> {
    paths.map(|path| digest_of(path)).collect()
}

fn digest_of(path: &str) -> Option<Vec<u8>> {
    let file = fs::read(path).ok()?;
    Some(digest(&SHA256, &file).as_ref().to_vec())
}

/// Has `config` go on with the sessions of `before`.
pub(super) fn keep_sessions(config: &mut Arc<ServerConfig>, before: &ServerConfig) {
    let config = Arc::make_mut(config);
    config.ticketer = before.ticketer.clone();
    config.session_storage = before.session_storage.clone();
}
