//! Which certificate a client is shown: that of the name it asks for.
//!
//! An exact name goes before a wildcard, which stands for one label (RFC 9525, section 6.3).
//! Whoever asks for no name, or for one that no certificate has, gets the first certificate: most
//! clients then say clearly what is wrong.

use std::{collections::HashMap, sync::Arc};

use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use webpki::EndEntityCert;

/// Certificates by the names they are for.
#[derive(Debug)]
pub(super) struct ByName {
    first: Option<Arc<CertifiedKey>>,
    names: HashMap<String, Arc<CertifiedKey>>,
}

impl ByName {
    /// Where two certificates have the same name the earlier is shown.
    pub(super) fn new(certificates: Vec<CertifiedKey>) -> Self {
        let mut names = HashMap::new();
        let certificates: Vec<_> = certificates.into_iter().map(Arc::new).collect();
        for certificate in &certificates {
            let Some(parsed) =
                certificate.cert.first().and_then(|it| EndEntityCert::try_from(it).ok())
            else {
                continue;
            };
            for name in parsed.valid_dns_names() {
                names.entry(name.to_ascii_lowercase()).or_insert_with(|| certificate.clone());
            }
        }
        Self { first: certificates.into_iter().next(), names }
    }

    /// The certificate for `name`, in lower case.
    fn find(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let wildcard = || {
            let (_, rest) = name.split_once('.')?;
            self.names.get(&format!("*.{rest}"))
        };
        self.names.get(name).or_else(wildcard)
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello.server_name().map(str::to_ascii_lowercase);
        asked.and_then(|name| self.find(&name)).or(self.first.as_ref()).cloned()
    }
}
