//! A certificate that an authority issues while the listener serves: what its file says now, and
//! what the authority is shown while it verifies the name (RFC 8737).
//!
//! It is the same over reloads, so that whoever writes the file and then has it read again reaches
//! all handshakes that come after.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use loadline_core::fleet::Certificate;
use rustls::{
    crypto::aws_lc_rs::{self, sign::any_supported_type},
    pki_types::{CertificateDer, PrivateKeyDer},
    sign::CertifiedKey,
};

use super::{
    config::{TlsError, certified},
    validity::Validity,
};

/// The certificate of one file, shown as soon as there is one.
#[derive(Debug)]
pub(crate) struct Issued {
    files: Certificate,
    /// Held by the one who reads the file, so that what was read last is shown last.
    reading: Mutex<()>,
    shown: ArcSwapOption<Shown>,
    validation: ArcSwapOption<CertifiedKey>,
}

#[derive(Debug)]
struct Shown {
    key: Arc<CertifiedKey>,
    validity: Option<Validity>,
}

impl Issued {
    pub(super) fn new(file: String) -> Self {
        let files = Certificate { chain: file.clone(), key: file, staple: None };
        Self {
            files,
            reading: Mutex::default(),
            shown: ArcSwapOption::empty(),
            validation: ArcSwapOption::empty(),
        }
    }

    /// Shows what the file has now. One that is not there changes nothing.
    ///
    /// # Errors
    /// See [`TlsError`]; what was shown before goes on to be.
    pub(super) fn load(&self) -> Result<(), TlsError> {
        let _turn = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        // What is wrong with its folder is told by whoever writes there.
        if std::fs::metadata(&self.files.chain).is_err() {
            return Ok(());
        }
        let key = Arc::new(certified(&self.files, &aws_lc_rs::default_provider())?);
        let validity = Validity::of(&self.files.chain, &key.cert);
        self.shown.store(Some(Arc::new(Shown { key, validity })));
        Ok(())
    }

    /// Shows this to an authority that verifies the name; nothing any more if omitted.
    ///
    /// # Errors
    /// [`TlsError::Key`] where the key cannot be used.
    pub(super) fn validate_with(
        &self,
        pair: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
    ) -> Result<(), TlsError> {
        // Its critical extension is one that no client knows: nothing else of it is looked at.
        let made = pair.map(|(certificate, key)| {
            any_supported_type(&key).map(|key| CertifiedKey::new(vec![certificate], key))
        });
        let made = made.transpose().map_err(|source| TlsError::Key {
            chain: self.files.chain.clone(),
            key: self.files.key.clone(),
            source,
        })?;
        self.validation.store(made.map(Arc::new));
        Ok(())
    }

    pub(super) fn certificate(&self) -> Option<Arc<CertifiedKey>> {
        self.shown.load().as_ref().map(|shown| shown.key.clone())
    }

    pub(super) fn validation(&self) -> Option<Arc<CertifiedKey>> {
        self.validation.load_full()
    }

    pub(super) fn validity(&self) -> Option<Validity> {
        self.shown.load().as_ref().and_then(|shown| shown.validity.clone())
    }
}

/// The protocol of handshakes by which an authority verifies a name (RFC 8737, section 6.2).
pub(crate) const VALIDATION_PROTOCOL: &[u8] = b"acme-tls/1";
