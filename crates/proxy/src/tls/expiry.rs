//! Ends TLS sessions of clients when the certificates expire that these have shown.
//!
//! rustls verifies a certificate when a session begins, and resumes the session with what it was
//! then. Here a session whose certificate has expired since is not found, so that the client is
//! asked for its certificate again, and told what is wrong with that.

use std::sync::Arc;

use rustls::{
    pki_types::UnixTime,
    server::{ProducesTickets, ServerConfig, StoresServerSessions},
};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Lets the sessions of `config` end with the certificates of their clients.
pub(super) fn end_with_certificates(config: &mut ServerConfig) {
    config.ticketer = Arc::new(Lasting(config.ticketer.clone()));
    config.session_storage = Arc::new(Lasting(config.session_storage.clone()));
}

/// What keeps sessions, without those that have ended.
#[derive(Debug)]
struct Lasting<T>(T);

impl ProducesTickets for Lasting<Arc<dyn ProducesTickets>> {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.encrypt(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.0.decrypt(cipher).filter(|session| lasts(session, UnixTime::now()))
    }
}

impl StoresServerSessions for Lasting<Arc<dyn StoresServerSessions>> {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.0.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key).filter(|session| lasts(session, UnixTime::now()))
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.take(key).filter(|session| lasts(session, UnixTime::now()))
    }

    fn can_cache(&self) -> bool {
        self.0.can_cache()
    }
}

/// Whether no certificate that the client of a session has shown has expired at `now`. A session
/// that cannot be read has ended.
fn lasts(session: &[u8], now: UnixTime) -> bool {
    chain(session).is_some_and(|chain| chain.into_iter().all(|it| is_current(it, now)))
}

fn is_current(certificate: &[u8], now: UnixTime) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return false };
    let last = parsed.validity().not_after.timestamp();
    i64::try_from(now.as_secs()).is_ok_and(|now| now <= last)
}

/// The certificates in a session as rustls encodes it: the server name, version and cipher suite,
/// the secret and how it was derived, the certificates, and more that is not needed here.
fn chain(session: &[u8]) -> Option<Vec<&[u8]>> {
    let mut rest = session;
    if take(&mut rest, 1)? == [1] {
        take_sized(&mut rest, 1)?;
    }
    take(&mut rest, 4)?;
    take_sized(&mut rest, 1)?;
    take(&mut rest, 1)?;
    if take(&mut rest, 1)? == [0] {
        return Some(Vec::new());
    }
    let (mut list, mut chain) = (take_sized(&mut rest, 3)?, Vec::new());
    while !list.is_empty() {
        chain.push(take_sized(&mut list, 3)?);
    }
    Some(chain)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

/// Takes what stands behind its length, which has so many bytes.
fn take_sized<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let length = take(rest, bytes)?.iter().fold(0, |sum, byte| sum * 256 + usize::from(*byte));
    take(rest, length)
}

#[cfg(test)]
mod tests {
    use std::{sync::Mutex, time::Duration};

    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
    };
    use rustls::{
        ClientConfig, ClientConnection, Connection, RootCertStore, ServerConnection,
        SupportedProtocolVersion,
        pki_types::PrivateKeyDer,
        server::WebPkiClientVerifier,
        version::{TLS12, TLS13},
    };

    use super::*;

    /// Sessions in clear.
    #[derive(Debug, Default)]
    struct Clear(Mutex<Vec<Vec<u8>>>);

    impl ProducesTickets for Clear {
        fn enabled(&self) -> bool {
            true
        }

        fn lifetime(&self) -> u32 {
            60
        }

        fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
            self.0.lock().unwrap().push(plain.to_vec());
            Some(plain.to_vec())
        }

        fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
            Some(cipher.to_vec())
        }
    }

    /// The session of a client that shows a certificate until [`LAST`], or none.
    fn session(version: &'static SupportedProtocolVersion, shows: bool) -> Vec<u8> {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["a.test".to_owned()]).unwrap();
        params.not_after = date_time_ymd(2040, 1, 1);
        let chain = vec![params.signed_by(&key, &authority).unwrap().der().clone()];
        let key = || PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let roots = Arc::new(roots);

        let verifier = WebPkiClientVerifier::builder(roots.clone()).allow_unauthenticated();
        let config = ServerConfig::builder_with_protocol_versions(&[version])
            .with_client_cert_verifier(verifier.build().unwrap());
        let mut config = config.with_single_cert(chain.clone(), key()).unwrap();
        let clear = Arc::new(Clear::default());
        config.ticketer = clear.clone();
        let mut server = Connection::Server(ServerConnection::new(Arc::new(config)).unwrap());

        let config =
            ClientConfig::builder_with_protocol_versions(&[version]).with_root_certificates(roots);
        let config = match shows {
            true => config.with_client_auth_cert(chain, key()).unwrap(),
            false => config.with_no_client_auth(),
        };
        let client = ClientConnection::new(Arc::new(config), "a.test".try_into().unwrap());
        let mut client = Connection::Client(client.unwrap());
        for _ in 0..3 {
            pass(&mut client, &mut server);
            pass(&mut server, &mut client);
        }
        let sessions = clear.0.lock().unwrap();
        sessions.first().expect("a ticket").clone()
    }

    fn pass(from: &mut Connection, to: &mut Connection) {
        let mut bytes = Vec::new();
        while from.wants_write() {
            from.write_tls(&mut bytes).unwrap();
        }
        let mut bytes = &bytes[..];
        while !bytes.is_empty() {
            to.read_tls(&mut bytes).unwrap();
            to.process_new_packets().unwrap();
        }
    }

    #[test]
    fn a_session_ends_with_the_certificate_of_its_client_and_others_go_on() {
        let at = |secs| UnixTime::since_unix_epoch(Duration::from_secs(secs));
        for version in [&TLS12, &TLS13] {
            let shown = session(version, true);
            assert!(lasts(&shown, at(LAST)), "{version:?}: a session is encoded in another way");
            assert!(!lasts(&shown, at(LAST + 1)), "{version:?}");
            assert!(!lasts(&shown[..20], at(LAST)), "{version:?}");
            assert!(lasts(&session(version, false), at(LAST + 1)), "{version:?}");
        }
        assert!(!lasts(b"", at(0)));
    }

    /// The first second of 2040.
    const LAST: u64 = 2_208_988_800;
}
