//! Selects the certificate of a listener by the server name (SNI).
//!
//! A certificate that was issued for the name goes before those of files, and an exact name before
//! a wildcard, which stands for one label (RFC 9525, section 6.3), unless the client can verify the
//! signatures of the second alone. Whoever asks for no name, or for one that no certificate has,
//! gets the first certificate: most clients then say clearly what is wrong. Where all are issued, a
//! name without one is refused.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time,
};

use loadline_core::{
    decide::coalesce::Coalesced,
    time::{Duration, Instant},
};
use rustls::{
    SignatureScheme,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use webpki::EndEntityCert;

use super::{
    issued::{Issued, VALIDATION_PROTOCOL},
    ocsp::next_update_s,
};

/// Certificates by the names they are for.
#[derive(Debug)]
pub(super) struct ByName {
    first: Option<Arc<Stapled>>,
    /// Of one name those with keys of several kinds, such as ECDSA and RSA.
    names: HashMap<String, Vec<Arc<Stapled>>>,
    issued: BTreeMap<String, Arc<Issued>>,
    refusals: Refusals,
}

/// A certificate of a file, with its OCSP response as long as that can be believed.
#[derive(Debug)]
struct Stapled {
    key: Arc<CertifiedKey>,
    /// How it is shown from then on, in seconds since 1970.
    bare: Option<(i64, Arc<CertifiedKey>)>,
}

impl Stapled {
    fn of(key: CertifiedKey) -> Self {
        let until_s = key.ocsp.as_deref().and_then(next_update_s);
        let bare = || Arc::new(CertifiedKey { ocsp: None, ..key.clone() });
        Self { bare: until_s.map(|until_s| (until_s, bare())), key: Arc::new(key) }
    }

    fn shown(&self) -> Arc<CertifiedKey> {
        let bare = self.bare.as_ref().filter(|(until_s, _)| now_s() >= *until_s);
        bare.map_or(&self.key, |(_, bare)| bare).clone()
    }
}

fn now_s() -> i64 {
    let since = time::SystemTime::now().duration_since(time::UNIX_EPOCH);
    since.unwrap_or_default().as_secs().cast_signed()
}

/// Handshakes for names without a certificate, told of once a minute each.
#[derive(Debug)]
struct Refusals {
    since: time::Instant,
    told: Mutex<Coalesced<()>>,
}

impl ByName {
    /// Where certificates of files have the same name, the earliest is shown whose signatures the
    /// client can verify.
    pub(super) fn new(
        certificates: Vec<CertifiedKey>,
        issued: BTreeMap<String, Arc<Issued>>,
    ) -> Self {
        let mut names: HashMap<_, Vec<_>> = HashMap::new();
        let certificates: Vec<_> =
            certificates.into_iter().map(|it| Arc::new(Stapled::of(it))).collect();
        for certificate in &certificates {
            let first = certificate.key.cert.first();
            let Some(parsed) = first.and_then(|it| EndEntityCert::try_from(it).ok()) else {
                continue;
            };
            for name in parsed.valid_dns_names() {
                names.entry(name.to_ascii_lowercase()).or_default().push(certificate.clone());
            }
        }
        let told = Mutex::new(Coalesced::new(Duration::from_secs(60)));
        let refusals = Refusals { since: time::Instant::now(), told };
        Self { first: certificates.into_iter().next(), names, issued, refusals }
    }

    /// The certificate for `name`, in lower case, for who can verify such signatures; where that is
    /// none, the first for the name.
    fn find(&self, name: &str, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let issued = self.issued.get(name).and_then(|it| it.certificate());
        issued.or_else(|| {
            let fits = |it: &&Arc<Stapled>| it.key.key.choose_scheme(schemes).is_some();
            let exact = self.names.get(name);
            let found = exact.and_then(|it| it.iter().find(fits)).or_else(|| {
                let wildcard = self.wildcard(name);
                let fitting = wildcard.and_then(|it| it.iter().find(fits));
                fitting.or_else(|| exact.or(wildcard)?.first())
            });
            found.map(|it| it.shown())
        })
    }

    /// The certificates with a wildcard for `name`.
    fn wildcard(&self, name: &str) -> Option<&Vec<Arc<Stapled>>> {
        let (_, rest) = name.split_once('.')?;
        self.names.get(&format!("*.{rest}"))
    }

    /// For whoever asks for no name.
    fn first(&self) -> Option<Arc<CertifiedKey>> {
        self.of_file().or_else(|| self.issued.values().find_map(|it| it.certificate()))
    }

    fn of_file(&self) -> Option<Arc<CertifiedKey>> {
        self.first.as_ref().map(|it| it.shown())
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello.server_name().map(str::to_ascii_lowercase);
        if !self.issued.is_empty() && is_validation(&hello) {
            return self.issued.get(&asked?)?.validation();
        }
        let Some(asked) = asked else { return self.first() };
        let found = self.find(&asked, hello.signature_schemes()).or_else(|| self.of_file());
        if found.is_none() {
            self.refusals.note(&asked);
        }
        found
    }
}

/// Whether the handshake is an authority's validation: it offers only that protocol.
fn is_validation(hello: &ClientHello<'_>) -> bool {
    let mut offered = hello.alpn().into_iter().flatten();
    offered.next() == Some(VALIDATION_PROTOCOL) && offered.next().is_none()
}

impl Refusals {
    #[cold]
    fn note(&self, name: &str) {
        let now = Instant::ZERO + Duration::from_std(self.since.elapsed());
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handshakes) = told.note(now, &(), 1) {
            tracing::warn!(name, handshakes, "refused: there is no certificate for this name");
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519};
    use rustls::{crypto::aws_lc_rs::sign::any_supported_type, pki_types::PrivateKeyDer};

    use super::*;
    use crate::tls::ocsp::tests::good_until;

    #[test]
    fn an_ocsp_response_is_shown_until_it_is_too_old() {
        let own = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
        let key = any_supported_type(&key).unwrap();
        let mut key = CertifiedKey::new(vec![own.cert.der().clone()], key);
        for (until, is_shown) in [("20200101000000Z", false), ("29990101000000Z", true)] {
            key.ocsp = Some(good_until(&[Some(until)]));
            let certificates = ByName::new(vec![key.clone()], BTreeMap::new());
            for shown in [certificates.find("a.test", &[]), certificates.first()] {
                assert_eq!(shown.unwrap().ocsp.is_some(), is_shown, "{until}");
            }
        }
    }

    #[test]
    fn an_exact_name_goes_before_a_wildcard_unless_a_client_can_verify_the_second_alone() {
        let of = |name: &str, kind| {
            let key = KeyPair::generate_for(kind).unwrap();
            let params = CertificateParams::new([name.to_owned()]).unwrap();
            let chain = vec![params.self_signed(&key).unwrap().der().clone()];
            let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            CertifiedKey::new(chain, any_supported_type(&key).unwrap())
        };
        let wildcard = of("*.w.test", &PKCS_ED25519);
        let exact = of("a.w.test", &PKCS_ECDSA_P256_SHA256);
        let chains = [wildcard.cert.clone(), exact.cert.clone()];
        let certificates = ByName::new(vec![wildcard, exact], BTreeMap::new());
        let shown = |name: &str, schemes: &[SignatureScheme]| {
            let shown = certificates.find(name, schemes).unwrap();
            chains.iter().position(|it| *it == shown.cert).unwrap()
        };
        let (first, second) = (SignatureScheme::ED25519, SignatureScheme::ECDSA_NISTP256_SHA256);
        assert_eq!(shown("a.w.test", &[first, second]), 1, "the exact one");
        assert_eq!(shown("a.w.test", &[second]), 1);
        assert_eq!(shown("a.w.test", &[first]), 0, "the other cannot be verified");
        assert_eq!(shown("a.w.test", &[SignatureScheme::RSA_PSS_SHA256]), 1, "of none the first");
        assert_eq!(shown("b.w.test", &[second]), 0);
    }
}
