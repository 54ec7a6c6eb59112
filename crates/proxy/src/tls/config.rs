//! Makes TLS configurations of certificate and key files.
//!
//! One configuration serves all workers: session tickets that one core issued are good on every
//! other. Tickets are sealed with keys that rustls changes every six hours.

use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeMap,
    fs, io,
    sync::Arc,
};

use loadline_core::fleet::{
    Certificate, ClientCheck, ListenerTls, ServerTls, TlsTerms, TlsVersion, acme::Challenge,
};
use loadline_tls::Verifier;
use rustls::{
    ClientConfig, RootCertStore, ServerConfig, SignatureAlgorithm, SupportedProtocolVersion,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{
        NoServerSessionStorage, ServerSessionMemoryCache, WebPkiClientVerifier,
        danger::ClientCertVerifier,
    },
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};

use super::{
    expiry,
    issued::{Issued, VALIDATION_PROTOCOL},
    names::ByName,
    ocsp::Staple,
    self_signed,
    validity::Validity,
};

/// Why TLS cannot be configured as the file says.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not what it should be.
    #[error("{what} `{path}`: {why}")]
    File {
        /// What the file was to be.
        what: &'static str,
        /// Where it was looked for.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The key does not fit the certificate, or is of a kind that cannot sign.
    #[error("the key `{key}` does not go with the certificate `{chain}`: {}", misfit(source))]
    Key {
        /// File of the certificate.
        chain: String,
        /// File of the key.
        key: String,
        /// What rustls says.
        source: rustls::Error,
    },
    /// A cipher suite that nobody knows.
    #[error("there is no cipher suite `{name}`; there are {known}")]
    Suite {
        /// As it was written.
        name: String,
        /// Those there are.
        known: String,
    },
    /// A name that no server can have.
    #[error("`{name}` of the service `{service}` is no host name or address")]
    Name {
        /// The service.
        service: String,
        /// As it was written.
        name: String,
    },
    /// Two names for one server.
    #[error(
        "`{}` and `{}` of the service `{service}` are the same address, which TLS asks for one \
         name: set `tls.name`, or make a service of each",
        .names[0], .names[1]
    )]
    TwoNames {
        /// The service.
        service: String,
        /// Both names, as written.
        names: [String; 2],
    },
    /// The parts do not go together.
    #[error("these settings do not go together: {0}")]
    Together(rustls::Error),
}

impl TlsError {
    /// What the file says where it is wrong: the path of a file, a suite, a name, or the table of
    /// a service.
    #[must_use]
    pub fn about(&self) -> String {
        match self {
            Self::File { path: text, .. }
            | Self::Key { key: text, .. }
            | Self::Suite { name: text, .. }
            | Self::Name { name: text, .. } => text.clone(),
            Self::TwoNames { service, .. } => format!("service.{service}"),
            Self::Together(_) => String::new(),
        }
    }

    /// What would be right.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::File { .. } => "files are PEM, a certificate before those that sign it",
            Self::Key { .. } => "name the key that the certificate was made with",
            Self::Suite { .. } => "leave `suites` out for all that are safe",
            Self::Name { .. } => "write a host name or an address, without a port",
            Self::TwoNames { .. } => "one name can be asked of all servers of a service",
            Self::Together(_) => "leave `min_version` and `suites` out for what is safe",
        }
    }
}

/// Why a key does not go with a certificate.
fn misfit(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => "it is the key of another".to_owned(),
        rustls::Error::InvalidCertificate(_) => "the certificate is not X.509".to_owned(),
        other => other.to_string(),
    }
}

/// The configuration of connections from clients, and how long the certificates of files last.
/// `protocols` are offered by ALPN, and those in `issued` are shown for their names. Certificates
/// that are in `certificates` already are not read again.
///
/// # Errors
/// See [`TlsError`].
pub(super) fn for_clients(
    tls: &ListenerTls,
    protocols: &[&str],
    issued: BTreeMap<String, Arc<Issued>>,
    certificates: &Certificates,
) -> Result<(Arc<ServerConfig>, Vec<Validity>), TlsError> {
    let provider = provider(&tls.terms)?;
    let keys = tls.certificates.iter().map(|it| certificates.get(it, &provider));
    let keys: Vec<CertifiedKey> = keys.collect::<Result<_, _>>()?;
    let chains = tls.certificates.iter().zip(&keys);
    let validities = chains.filter_map(|(it, key)| {
        let staple = it.staple.as_deref().zip(key.ocsp.as_deref()).zip(key.cert.first());
        let staple = staple.map(|((file, response), leaf)| Staple::of(file, response, leaf));
        Some(Validity::of(&it.chain, &key.cert)?.stapled(staple))
    });
    let validities = validities.collect();
    let certificates = ByName::new(keys, issued);
    let verifier = tls.clients.as_ref().map(|check| clients(check, &provider)).transpose()?;
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions(&tls.terms))
        .map_err(TlsError::Together)?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(certificates));
    if tls.resumption {
        config.ticketer = aws_lc_rs::Ticketer::new().map_err(TlsError::Together)?;
    } else {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    if tls.early_data {
        // A session that is kept here, and taken out when it is used, is used once: tickets could
        // be sent again with what they come with.
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    }
    if tls.clients.is_some() {
        expiry::end_with_certificates(&mut config);
    }
    config.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
    if tls.acme.as_ref().is_some_and(|it| it.issuer.challenge == Challenge::TlsAlpn01) {
        // The last: whoever offers another as well is no authority.
        config.alpn_protocols.push(VALIDATION_PROTOCOL.to_vec());
    }
    Ok((Arc::new(config), validities))
}

/// Whether a client can agree on a suite with one of these certificates, which have been read, or
/// with one that is issued: a suite of TLS 1.2 goes with one kind of key.
pub(super) fn has_suite(tls: &ListenerTls, certificates: &Certificates) -> bool {
    let Ok(provider) = provider(&tls.terms) else { return true };
    let read = tls.certificates.iter().filter_map(|it| certificates.get(it, &provider).ok());
    let issued = tls.acme.iter().map(|_| SignatureAlgorithm::ECDSA);
    let mut kinds = read.map(|it| it.key.algorithm()).chain(issued);
    kinds.any(|kind| {
        provider.cipher_suites.iter().any(|suite| suite.usable_for_signature_algorithm(kind))
    })
}

/// The configuration of connections to servers, and how long our own certificate lasts.
///
/// # Errors
/// See [`TlsError`].
pub(super) fn for_servers(
    tls: &ServerTls,
    protocols: &[&str],
    system: &SystemRoots,
) -> Result<(Arc<ClientConfig>, Option<Validity>), TlsError> {
    let provider = provider(&tls.terms)?;
    let verifier = if tls.verify {
        let roots = match &tls.authorities {
            Some(path) => Arc::new(authorities(path)?),
            None => system.get()?,
        };
        Verifier::trusting(roots, &provider).map_refusals(self_signed::tell_apart)
    } else {
        Verifier::trusting_all(&provider)
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions(&tls.terms))
        .map_err(TlsError::Together)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut validity = None;
    let mut config = match &tls.certificate {
        None => builder.with_no_client_auth(),
        Some(certificate) => {
            let (chain, key) = (chain(&certificate.chain)?, key(&certificate.key)?);
            validity = Validity::of(&certificate.chain, &chain);
            builder.with_client_auth_cert(chain, key).map_err(|source| TlsError::Key {
                chain: certificate.chain.clone(),
                key: certificate.key.clone(),
                source,
            })?
        }
    };
    config.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
    Ok((Arc::new(config), validity))
}

fn provider(terms: &TlsTerms) -> Result<Arc<CryptoProvider>, TlsError> {
    let mut provider = aws_lc_rs::default_provider();
    if !terms.suites.is_empty() {
        let all = provider.cipher_suites;
        let named = |name: &String| {
            let found = all.iter().find(|suite| format!("{:?}", suite.suite()) == *name);
            found.copied().ok_or_else(|| TlsError::Suite {
                name: name.clone(),
                known: all
                    .iter()
                    .map(|it| format!("{:?}", it.suite()))
                    .collect::<Vec<_>>()
                    .join(", "),
            })
        };
        provider.cipher_suites = terms.suites.iter().map(named).collect::<Result<_, _>>()?;
    }
    Ok(Arc::new(provider))
}

fn versions(terms: &TlsTerms) -> &'static [&'static SupportedProtocolVersion] {
    static BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
    match terms.min_version {
        TlsVersion::V12 => &BOTH,
        TlsVersion::V13 => &BOTH[..1],
    }
}

pub(super) fn certified(
    files: &Certificate,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let (chain, key) = (chain(&files.chain)?, key(&files.key)?);
    let certified = CertifiedKey::from_der(chain, key, provider);
    let mut certified = certified.map_err(|source| TlsError::Key {
        chain: files.chain.clone(),
        key: files.key.clone(),
        source,
    })?;
    certified.ocsp = files.staple.as_deref().map(staple).transpose()?;
    Ok(certified)
}

/// An OCSP response for clients, in DER.
fn staple(path: &str) -> Result<Vec<u8>, TlsError> {
    let what = "OCSP response";
    let file = fs::read(path).map_err(|error| unreadable(what, path, &error))?;
    if is_successful(&file) {
        return Ok(file);
    }
    let why = "is no successful OCSP response in DER".to_owned();
    Err(TlsError::File { what, path: path.to_owned(), why })
}

/// Whether it is one SEQUENCE that begins with the ENUMERATED `successful` (RFC 6960, 4.2.1).
fn is_successful(response: &[u8]) -> bool {
    let [0x30, length, rest @ ..] = response else { return false };
    let long = usize::from(length & 0x7f);
    let content = match length {
        0..0x80 => Some((usize::from(*length), rest)),
        _ => rest.split_at_checked(long).map(|(length, content)| {
            let add =
                |sum: usize, byte: &u8| sum.saturating_mul(256).saturating_add((*byte).into());
            (length.iter().fold(0, add), content)
        }),
    };
    content.is_some_and(|(length, it)| it.len() == length && it.starts_with(&[0x0a, 1, 0]))
}

fn clients(
    check: &ClientCheck,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let roots = Arc::new(authorities(&check.authorities)?);
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
    let builder = if check.required { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|error| TlsError::File {
        what: "authorities",
        path: check.authorities.clone(),
        why: error.to_string(),
    })
}

fn chain(path: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let what = "certificate";
    let file = fs::read(path).map_err(|error| unreadable(what, path, &error))?;
    let wrong = |why: String| TlsError::File { what, path: path.to_owned(), why };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&file).collect();
    let chain = chain.map_err(|_| wrong("holds no whole certificate in PEM".to_owned()))?;
    if chain.is_empty() {
        return Err(wrong("holds no `-----BEGIN CERTIFICATE-----`".to_owned()));
    }
    Ok(chain)
}

fn key(path: &str) -> Result<PrivateKeyDer<'static>, TlsError> {
    let file = fs::read(path).map_err(|error| unreadable("key", path, &error))?;
    // The parser's own words may quote the file, which is secret.
    PrivateKeyDer::from_pem_slice(&file).map_err(|_| TlsError::File {
        what: "key",
        path: path.to_owned(),
        why: "holds no private key in PEM, unencrypted".to_owned(),
    })
}

fn authorities(path: &str) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(path)? {
        roots.add(certificate).map_err(|_| TlsError::File {
            what: "authorities",
            path: path.to_owned(),
            why: "holds a certificate that is not X.509".to_owned(),
        })?;
    }
    Ok(roots)
}

/// The certificates of files with their keys, which are read once for all listeners that show them.
#[derive(Debug, Default)]
pub(super) struct Certificates(RefCell<BTreeMap<Certificate, CertifiedKey>>);

impl Certificates {
    fn get(
        &self,
        files: &Certificate,
        provider: &CryptoProvider,
    ) -> Result<CertifiedKey, TlsError> {
        let mut known = self.0.borrow_mut();
        if let Some(known) = known.get(files) {
            return Ok(known.clone());
        }
        let new = certified(files, provider)?;
        known.insert(files.clone(), new.clone());
        Ok(new)
    }
}

/// The authorities of this machine, which are read once for all services that trust them.
#[derive(Debug, Default)]
pub(super) struct SystemRoots(OnceCell<Arc<RootCertStore>>);

impl SystemRoots {
    pub(super) fn get(&self) -> Result<Arc<RootCertStore>, TlsError> {
        if let Some(roots) = self.0.get() {
            return Ok(roots.clone());
        }
        let roots = Arc::new(system_authorities()?);
        Ok(self.0.get_or_init(|| roots).clone())
    }
}

fn system_authorities() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(TlsError::File {
            what: "authorities",
            path: "/etc/ssl/certs".to_owned(),
            why: "no system CA certificates; install ca-certificates or name a file".to_owned(),
        });
    }
    Ok(roots)
}

fn unreadable(what: &'static str, path: &str, error: &io::Error) -> TlsError {
    TlsError::File { what, path: path.to_owned(), why: error.to_string() }
}

/// Clients of HTTP/3 that may come back with early data; about 1 kB each.
const SESSIONS: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_many_listeners_show_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (chain, key) = (place("chain.pem"), place("key.pem"));
        let own = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        fs::write(&chain, own.cert.pem()).unwrap();
        fs::write(&key, own.signing_key.serialize_pem()).unwrap();
        let (files, provider) =
            (Certificate { chain, key, staple: None }, aws_lc_rs::default_provider());
        let certificates = Certificates::default();
        let first = certificates.get(&files, &provider).unwrap();
        fs::remove_file(&files.chain).unwrap();
        let second = certificates.get(&files, &provider).unwrap();
        assert!(Arc::ptr_eq(&first.key, &second.key));
        let stapled = Certificate { staple: Some(place("none")), ..files };
        assert!(certificates.get(&stapled, &provider).is_err(), "with a response it is another");
    }

    #[test]
    fn suites_of_tls_1_2_go_with_a_certificate_of_their_kind_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("site.pem").to_str().unwrap().to_owned();
        // ECDSA.
        let own = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        fs::write(&file, own.cert.pem() + &own.signing_key.serialize_pem()).unwrap();
        let files = Certificate { chain: file.clone(), key: file, staple: None };
        let (ecdsa, rsa) =
            ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256");
        for (suites, goes) in [
            (&[rsa][..], false),
            (&[], true),
            (&[rsa, ecdsa], true),
            (&[rsa, "TLS13_AES_128_GCM_SHA256"], true),
        ] {
            let mut tls = ListenerTls::of(vec![files.clone()]);
            tls.terms.suites = suites.iter().map(ToString::to_string).collect();
            assert_eq!(has_suite(&tls, &Certificates::default()), goes, "{suites:?}");
        }
    }

    #[test]
    fn what_is_no_response_of_an_authority_is_not_shown_to_clients() {
        let long = [&[0x30, 0x82, 1, 3, 0x0a, 1, 0][..], &[7; 256]].concat();
        assert!(is_successful(&[0x30, 3, 0x0a, 1, 0]) && is_successful(&long));
        let try_later = [0x30, 3, 0x0a, 1, 3];
        let cut = &long[..200];
        for wrong in [&b""[..], b"garbage", b"-----BEGIN", &try_later, cut, &[0x30, 0x82, 1]] {
            assert!(!is_successful(wrong), "{wrong:?}");
        }
    }
}
