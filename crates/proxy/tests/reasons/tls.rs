//! Servers with which there is no agreement on TLS.

use std::{
    fs,
    io::{self, Read as _},
    net::{SocketAddr, TcpStream},
    sync::{Arc, OnceLock},
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{ServerTls, TlsTerms},
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, date_time_ymd,
};
use rustls::{
    RootCertStore, ServerConfig, ServerConnection,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::WebPkiClientVerifier,
};
use tempfile::TempDir;

use crate::support::{Case, SHORT, end, reset, say, scripted, wait};

type Issuer = CertifiedIssuer<'static, KeyPair>;

/// Whom the proxy trusts, and the file that says so.
fn authority() -> &'static (Issuer, TempDir) {
    static AUTHORITY: OnceLock<(Issuer, TempDir)> = OnceLock::new();
    AUTHORITY.get_or_init(|| {
        let (issuer, directory) = (issuer("authority"), tempfile::tempdir().unwrap());
        fs::write(directory.path().join("ca.pem"), issuer.pem()).unwrap();
        (issuer, directory)
    })
}

fn issuer(name: &str) -> Issuer {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// How the proxy goes to its server.
fn trusting() -> ServerTls {
    ServerTls {
        authorities: Some(authority().1.path().join("ca.pem").display().to_string()),
        verify: true,
        name: Some("server.test".to_owned()),
        certificate: None,
        terms: TlsTerms::default(),
    }
}

/// A server whose certificate is signed by `issuer`, or by itself, and changed before.
fn configured(
    issuer: Option<&Issuer>,
    change: impl Fn(&mut CertificateParams),
) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["server.test".to_owned()]).unwrap();
    change(&mut params);
    let certificate = match issuer {
        Some(issuer) => params.signed_by(&key, issuer),
        None => params.self_signed(&key),
    };
    let chain = vec![certificate.unwrap().der().clone()];
    (chain, PrivateKeyDer::try_from(key.serialize_der()).unwrap())
}

/// Agrees on TLS as far as it goes, then does as `then` says.
fn agreeing(config: ServerConfig, then: fn(TcpStream)) -> SocketAddr {
    let config = Arc::new(config);
    scripted(move |mut stream| {
        let mut tls = ServerConnection::new(config.clone()).unwrap();
        while tls.is_handshaking() {
            if tls.complete_io(&mut stream).is_err() {
                return wait(stream);
            }
        }
        then(stream);
    })
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = certificates();
    cases.extend(alerts());
    cases.extend(messages());
    cases.extend(protocols());
    cases
}

fn failed(name: &'static str, address: SocketAddr, reason: &'static str) -> Case {
    Case::new(name, address, (Ending::TlsFailed, reason)).over(trusting())
}

fn certificates() -> Vec<Case> {
    let ours = &authority().0;
    let shown = |name, issuer, change: fn(&mut CertificateParams), reason| {
        let (chain, key) = configured(issuer, change);
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
        failed(name, agreeing(config.unwrap(), wait), reason)
    };
    let (namesake, stranger) = (issuer("authority"), issuer("stranger"));
    let unknown = "unable to get local issuer certificate: unknown authority";
    vec![
        shown("expired", Some(ours), expired, "certificate has expired"),
        shown("not yet valid", Some(ours), early, "certificate is not yet valid"),
        shown("signed by a stranger", Some(&stranger), |_| {}, unknown),
        shown("signed by itself", None, |_| {}, "self-signed certificate"),
        shown("of another name", Some(ours), named_otherwise, WRONG_NAME),
        shown("signed with another key", Some(&namesake), |_| {}, "certificate signature failure"),
        shown("for clients", Some(ours), for_clients, WRONG_PURPOSE),
        shown("of an authority", Some(ours), of_authority, WRONG_ROLE),
    ]
}

fn expired(params: &mut CertificateParams) {
    params.not_after = date_time_ymd(2001, 1, 1);
    params.not_before = date_time_ymd(2000, 1, 1);
}

fn early(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(3000, 1, 1);
    params.not_after = date_time_ymd(3001, 1, 1);
}

fn named_otherwise(params: &mut CertificateParams) {
    *params = CertificateParams::new(["other.test".to_owned()]).unwrap();
}

fn for_clients(params: &mut CertificateParams) {
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
}

fn of_authority(params: &mut CertificateParams) {
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
}

const WRONG_NAME: &str = "hostname mismatch: certificate is not valid for the name of the server";
const WRONG_PURPOSE: &str = "unsuitable certificate purpose: it is not for a server";
const WRONG_ROLE: &str = "certificate of an authority (CA:TRUE) used by a server";

/// Servers that say why they do not want to go on.
fn alerts() -> Vec<Case> {
    let said = |(code, reason): &(u8, &'static str)| {
        let alert = [0x15, 3, 3, 0, 2, 2, *code];
        failed(reason, answering(alert.to_vec()), reason)
    };
    ALERTS.iter().map(said).collect()
}

const ALERTS: &[(u8, &str)] = &[
    (40, "TLS alert from the server: handshake failure (such as no shared cipher)"),
    (42, "TLS alert from the server: bad certificate"),
    (48, "TLS alert from the server: unknown ca"),
    (49, "TLS alert from the server: access denied"),
    (70, "TLS alert from the server: protocol version"),
    (71, "TLS alert from the server: insufficient security"),
    (80, "TLS alert from the server: internal error"),
    (112, "TLS alert from the server: unrecognized name"),
];

/// Answers the first message of a client with these bytes.
fn answering(bytes: Vec<u8>) -> SocketAddr {
    scripted(move |mut stream| {
        hello(&mut stream);
        say(stream, &bytes);
    })
}

/// Reads the first message of a client.
fn hello(stream: &mut TcpStream) {
    let mut header = [0; 5];
    stream.read_exact(&mut header).unwrap();
    let length = u64::from(u16::from_be_bytes([header[3], header[4]]));
    io::copy(&mut stream.take(length), &mut io::sink()).unwrap();
}

/// Servers that say something else than they should.
fn messages() -> Vec<Case> {
    let server_hello = |version: u8| {
        let head = [0x16, 3, version, 0, 42, 2, 0, 0, 38, 3, version];
        // A random number, no session, TLS_RSA_WITH_AES_128_CBC_SHA, no compression.
        [&head[..], &[7; 32], &[0, 0, 0x2f, 0]].concat()
    };
    let plain = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    let closing = scripted(|mut stream| {
        hello(&mut stream);
        end(stream, b"");
    });
    let resetting = scripted(|mut stream| {
        hello(&mut stream);
        reset(stream);
    });
    let late = (Ending::TlsTimeout, "TLS handshake timeout");
    let late = Case::new("says nothing in TLS", scripted(wait), late).over(trusting());
    let version = "unsupported protocol: no version of TLS in common";
    let cipher = "wrong cipher returned: cipher suite was not offered";
    let not_tls = "wrong version number: the answer is not TLS";
    let reset = "connection reset by peer during the TLS handshake";
    vec![
        failed("in clear", answering(plain), not_tls),
        failed("an old version", answering(server_hello(1)), version),
        failed("a cipher of its own", answering(server_hello(3)), cipher),
        failed(
            "half a message",
            answering(vec![22, 3, 3, 0, 4, 2, 0, 0, 0]),
            "malformed TLS message",
        ),
        failed(
            "out of order",
            answering(vec![22, 3, 3, 0, 4, 14, 0, 0, 0]),
            "unexpected TLS message",
        ),
        failed("closed in TLS", closing, "unexpected EOF during the TLS handshake"),
        failed("reset in TLS", resetting, reset),
        late.hurried(|limits| limits.connect = SHORT),
    ]
}

/// Servers that want something else, or leave when all is agreed.
fn protocols() -> Vec<Case> {
    let (chain, key) = configured(Some(&authority().0), |_| {});
    let with = |change: fn(&mut ServerConfig)| {
        let builder = ServerConfig::builder().with_no_client_auth();
        let mut config = builder.with_single_cert(chain.clone(), key.clone_key()).unwrap();
        change(&mut config);
        config
    };
    let mut roots = RootCertStore::empty();
    roots.add(authority().0.der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
    let asking = ServerConfig::builder().with_client_cert_verifier(verifier);
    let asking = asking.with_single_cert(chain.clone(), key.clone_key()).unwrap();
    let other = with(|config| config.alpn_protocols = vec![b"spdy/3".to_vec()]);
    let eof = "unexpected EOF: TLS connection closed without close_notify";
    let leaving = |stream: TcpStream| end(stream, b"");
    let leaving = Case::new("leaves", agreeing(with(|_| {}), leaving), (Ending::ServerReset, eof));
    let no_h2 = "ALPN mismatch: server did not select h2";
    vec![
        failed(
            "another protocol in ALPN",
            agreeing(other, wait),
            "TLS alert from the server: no application protocol",
        ),
        failed(
            "wants a certificate",
            agreeing(asking, wait),
            "TLS alert from the server: certificate required",
        ),
        failed("knows no HTTP/2", agreeing(with(|_| {}), wait), no_h2).by_http2(),
        leaving.over(trusting()),
    ]
}
