//! Selects the TLS sessions of clients that outlast a reload.

use std::{fs, sync::Arc};

use aws_lc_rs::digest::{SHA256, digest};
use loadline_core::fleet::ListenerTls;
use rustls::ServerConfig;

/// What the sessions of a listener were agreed on by: they are good while it stays the same.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Basis {
    tls: ListenerTls,
    /// Digests of the files with certificates and authorities.
    files: Vec<Vec<u8>>,
}

impl Basis {
    /// As it is now; none where a file cannot be read. To be asked for before the files are loaded:
    /// what changes meanwhile has then changed for the next reload.
    pub(super) fn of(tls: &ListenerTls) -> Option<Self> {
        let chains = tls.certificates.iter().map(|it| &it.chain);
        let authorities = tls.clients.iter().map(|it| &it.authorities);
        let digests = chains.chain(authorities).map(|path| {
            let file = fs::read(path).ok()?;
            Some(digest(&SHA256, &file).as_ref().to_vec())
        });
        Some(Self { tls: tls.clone(), files: digests.collect::<Option<_>>()? })
    }
}

/// Has `config` go on with the sessions of `before`.
pub(super) fn keep_sessions(config: &mut Arc<ServerConfig>, before: &ServerConfig) {
    let config = Arc::make_mut(config);
    config.ticketer = before.ticketer.clone();
    config.session_storage = before.session_storage.clone();
}
