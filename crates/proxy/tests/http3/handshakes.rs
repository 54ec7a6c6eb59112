//! How handshakes that fail are counted and logged.

use std::{fs, net::Ipv4Addr, path::Path, sync::Arc};

use loadline_core::{
    decide::ending::Ending,
    fleet::{AccessLog, ClientCheck, Fleet, LogTarget},
    time::Duration,
};
use loadline_proxy::{runtime::Runtime, telemetry::meter::ListenerTally};
use quinn::{ClientConfig, Endpoint, crypto::rustls::QuicClientConfig};
use rustls::{
    RootCertStore,
    crypto::{
        CryptoProvider, SupportedKxGroup,
        aws_lc_rs::{
            default_provider,
            kx_group::{X25519, X25519MLKEM768},
        },
    },
    version::TLS13,
};

use crate::{
    authority::Authority,
    limits::unanswered,
    support::{config, fleet, sized, start, until},
};

#[tokio::test]
async fn a_client_that_does_not_trust_the_certificate_is_counted_and_in_the_access_log() {
    let (authority, other) = (Authority::new(), Authority::new());
    for early_data in [false, true] {
        let mut fleet = served(&authority);
        fleet.listeners[0].tls.as_mut().unwrap().early_data = early_data;
        let log = refused(fleet, config(&other, 1 << 20)).await;
        assert!(log.contains(" client-bad "), "{early_data}: {log}");
        let told = "TLS handshake with the client failed: TLS alert from the client: ";
        assert!(log.contains(told), "{early_data}: {log}");
    }
}

#[tokio::test]
async fn a_client_without_a_protocol_in_common_is_counted_and_in_the_access_log() {
    let authority = Authority::new();
    // What a client says first takes one packet with the one, and two with the other.
    for group in [X25519, X25519MLKEM768] {
        for early_data in [false, true] {
            let mut fleet = served(&authority);
            fleet.listeners[0].tls.as_mut().unwrap().early_data = early_data;
            let log = refused(fleet, speaking("nope", group)).await;
            assert!(log.contains(" client-bad "), "{group:?}, {early_data}: {log}");
            let told = "TLS handshake with the client failed: no application protocol in common";
            assert!(log.contains(told), "{group:?}, {early_data}: {log}");
        }
    }
}

#[tokio::test]
async fn a_client_without_a_certificate_that_it_has_to_show_is_in_the_access_log_as_over_tcp() {
    let authority = Authority::new();
    let mut fleet = served(&authority);
    fleet.listeners[0].tls.as_mut().unwrap().clients =
        Some(ClientCheck { authorities: authority.file(), required: true, subject_header: None });
    let log = refused(fleet, config(&authority, 1 << 20)).await;
    assert!(log.contains(" client-bad "), "{log}");
    assert!(log.contains("peer did not return a certificate"), "{log}");
}

#[tokio::test]
async fn who_begins_a_handshake_and_is_never_heard_again_has_no_line_and_no_ending() {
    let authority = Authority::new();
    for early_data in [false, true] {
        let mut fleet = served(&authority);
        fleet.listeners[0].timeouts.head = Duration::from_millis(200);
        fleet.listeners[0].tls.as_mut().unwrap().early_data = early_data;
        let (proxy, address) = start(&fleet);
        let (endpoint, relay) = unanswered(address, &authority).await;
        let _forged = endpoint.connect(relay.address, "a.test").unwrap();
        until(|| listener(&proxy).handshakes_failed > 0).await;
        assert_eq!(proxy.tallies().requests(), 0, "{early_data}");
    }
}

fn served(authority: &Authority) -> Fleet {
    let (server, _) = sized(b'a');
    fleet(server, authority, 1)
}

/// A client that trusts nobody, and says which protocol it speaks and with which group.
fn speaking(protocol: &str, group: &'static dyn SupportedKxGroup) -> ClientConfig {
    let provider = CryptoProvider { kx_groups: vec![group], ..default_provider() };
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_protocol_versions(&[&TLS13]).unwrap();
    let mut tls = builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    tls.alpn_protocols = vec![protocol.into()];
    ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()))
}

/// What the access log of a proxy says of the only connection, which it has counted once.
async fn refused(mut fleet: Fleet, config: ClientConfig) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    fleet.edge.access_log = Some(AccessLog::to(LogTarget::File(path.display().to_string())));
    let (proxy, address) = start(&fleet);
    let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    endpoint.set_default_client_config(config);
    // A client whose certificate is refused has been agreed with on its own side.
    if let Ok(connection) = endpoint.connect(address, "a.test").unwrap().await {
        connection.closed().await;
    }
    until(|| listener(&proxy).closed == 1).await;
    let seen = listener(&proxy);
    assert_eq!((seen.accepted, seen.handshakes, seen.handshakes_failed), (1, 0, 1), "{seen:?}");
    let tallies = proxy.tallies();
    assert_eq!((tallies.count(Ending::ClientBad), tallies.requests()), (1, 1), "{tallies:?}");
    let stopped = tokio::task::spawn_blocking(move || proxy.stop(Duration::ZERO));
    stopped.await.unwrap();
    only_line(&path)
}

fn only_line(log: &Path) -> String {
    let log = fs::read_to_string(log).unwrap();
    assert_eq!(log.lines().count(), 1, "{log}");
    log
}

fn listener(proxy: &Runtime) -> ListenerTally {
    proxy.tallies().listeners.into_values().next().unwrap_or_default()
}
