//! TLS towards clients.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{AccessLog, ClientCheck, ListenerTls, LogTarget, TlsTerms, TlsVersion},
    state::Listener,
};
use rcgen::{KeyPair, PKCS_ED25519, date_time_ymd};
use rustls::{
    ProtocolVersion,
    version::{TLS12, TLS13},
};

use crate::{
    authority::Authority,
    support::{ask, becomes, connect, echo, fleet, start, with},
};

#[test]
fn both_versions_are_spoken_and_the_server_is_told_of_https() {
    let authority = Authority::new();
    let (_proxy, address) = start(fleet(echo(None), with(vec![authority.sign(&["a.test"])])));
    for (version, spoken) in
        [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)]
    {
        let mut client = connect(address, &authority.client(&[version], None), "a.test");
        for _ in 0..3 {
            let answer = ask(&mut client, b"hello").unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.contains("X-Forwarded-Proto: https\r\n"), "{answer}");
        }
        assert_eq!(client.conn.protocol_version(), Some(spoken));
    }
}

#[test]
fn bodies_of_megabytes_go_through_both_ways() {
    let authority = Authority::new();
    let (_proxy, address) = start(fleet(echo(None), with(vec![authority.sign(&["a.test"])])));
    let mut client = connect(address, &authority.client(&[&TLS13], None), "a.test");
    let body: Vec<u8> = (0..3_000_000_u32).map(|n| b'a' + (n % 23) as u8).collect();
    let answer = ask(&mut client, &body).unwrap();
    assert!(answer.as_bytes().ends_with(&body), "{} bytes", answer.len());
}

#[test]
fn the_name_a_client_asks_for_decides_which_certificate_it_is_shown() {
    let authority = Authority::new();
    let names: [&[&str]; 3] = [&["first.test"], &["b.test", "c.test"], &["*.d.test"]];
    let certificates = names.map(|names| authority.sign(names)).to_vec();
    let (_proxy, address) = start(fleet(echo(None), with(certificates)));
    let config = authority.client(&[&TLS13], None);
    for name in ["first.test", "b.test", "c.test", "C.Test", "x.d.test"] {
        assert!(ask(&mut connect(address, &config, name), b"").is_ok(), "{name}");
    }
    for name in ["other.test", "d.test", "x.y.d.test"] {
        let refused = ask(&mut connect(address, &config, name), b"").unwrap_err();
        assert!(refused.to_string().contains("not valid for name"), "{name}: {refused}");
    }
}

#[test]
fn two_listeners_on_any_port_of_one_address_show_each_its_own_certificate() {
    let authority = Authority::new();
    let mut fleet = fleet(echo(None), with(vec![authority.sign(&["a.test"])]));
    let mut second = fleet.listeners[0].clone();
    second.tls = with(vec![authority.sign(&["b.test"])]);
    fleet.listeners.push(second);
    let (proxy, _) = start(fleet.clone());
    let config = authority.client(&[&TLS13], None);
    let shows_its_own = || {
        for (address, name) in proxy.local_addrs().into_iter().zip(["a.test", "b.test"]) {
            let shown = ask(&mut connect(address, &config, name), b"");
            assert!(shown.is_ok(), "{name}: {shown:?}");
        }
    };
    shows_its_own();
    proxy.reload(fleet).unwrap();
    shows_its_own();
}

#[test]
fn of_two_certificates_for_a_name_a_client_is_shown_the_one_that_it_can_verify() {
    let authority = Authority::new();
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    for other in ["a.w.test", "*.w.test"] {
        let certificates =
            vec![authority.sign_key("other.pem", &[other], &key), authority.sign(&["a.w.test"])];
        let (_proxy, address) = start(fleet(echo(None), with(certificates)));
        let (to, file) = (address.to_string(), authority.file());
        for kind in ["ecdsa_secp256r1_sha256", "ed25519"] {
            let args = ["s_client", "-connect", &to, "-servername", "a.w.test", "-CAfile", &file];
            let mut client = Command::new("openssl");
            let client = client.args(args).args(["-sigalgs", kind]).stdin(Stdio::null());
            let told = String::from_utf8(client.output().unwrap().stdout).unwrap();
            assert!(told.contains("Verify return code: 0 (ok)"), "{other} {kind}: {told}");
        }
    }
}

#[test]
fn a_session_is_resumed_unless_the_file_says_otherwise() {
    use rustls::HandshakeKind::{Full, Resumed};
    let authority = Authority::new();
    for (resumption, second) in [(true, Resumed), (false, Full)] {
        let mut tls = with(vec![authority.sign(&["a.test"])]);
        tls.as_mut().unwrap().resumption = resumption;
        let (_proxy, address) = start(fleet(echo(None), tls));
        let config = authority.client(&[&TLS13], None);
        let kinds: Vec<_> = (0..2)
            .map(|_| {
                let mut client = connect(address, &config, "a.test");
                ask(&mut client, b"").unwrap();
                client.conn.handshake_kind().unwrap()
            })
            .collect();
        assert_eq!(kinds, [Full, second]);
    }
}

#[test]
fn a_session_outlasts_a_reload_that_does_not_change_what_it_was_agreed_on_by() {
    use rustls::HandshakeKind::{Full, Resumed};
    let authority = Authority::new();
    let shown = authority.sign(&["client.test"]);
    let check =
        ClientCheck { authorities: shown.chain.clone(), required: false, subject_header: None };
    let tls =
        ListenerTls { clients: Some(check), ..ListenerTls::of(vec![authority.sign(&["a.test"])]) };
    let fleet = fleet(echo(None), Some(tls));
    let (proxy, address) = start(fleet.clone());
    let config = authority.client(&[&TLS13], None);
    let handshake = || {
        let mut client = connect(address, &config, "a.test");
        ask(&mut client, b"").unwrap();
        client.conn.handshake_kind().unwrap()
    };
    let becomes_full = || becomes(|| handshake() == Full);
    assert_eq!(handshake(), Full);
    for (file, name) in [("a.test.pem", "a.test"), ("client.test.pem", "client.test")] {
        proxy.reload(fleet.clone()).unwrap();
        // The worker sees it within.
        thread::sleep(Duration::from_millis(300));
        assert_eq!(handshake(), Resumed, "nothing has changed");
        authority.sign_as(file, &[name]);
        proxy.reload(fleet.clone()).unwrap();
        assert!(becomes_full(), "{file} has changed");
    }
    let mut stricter = fleet;
    stricter.listeners[0].tls.as_mut().unwrap().terms.min_version = TlsVersion::V13;
    proxy.reload(stricter).unwrap();
    assert!(becomes_full(), "the settings have changed");
}

#[test]
fn a_session_ends_when_the_certificate_of_its_client_expires() {
    use rustls::HandshakeKind::{Full, Resumed};
    let authority = Authority::new();
    let clients =
        ClientCheck { authorities: authority.file(), required: true, subject_header: None };
    let tls = ListenerTls {
        clients: Some(clients),
        ..ListenerTls::of(vec![authority.sign(&["a.test"])])
    };
    let (proxy, address) = start(fleet(echo(None), Some(tls)));
    let lifetime = Duration::from_secs(4);
    let end = (SystemTime::now() + lifetime).duration_since(UNIX_EPOCH).unwrap();
    let key = KeyPair::generate().unwrap();
    let shown = authority.sign_with("client.pem", &["client.test"], &key, |params| {
        params.not_after = date_time_ymd(1970, 1, 1) + end;
    });
    let configs = [&TLS12, &TLS13].map(|version| authority.client(&[version], Some(&shown)));
    for config in &configs {
        let kinds = [(); 2].map(|()| {
            let mut client = connect(address, config, "a.test");
            ask(&mut client, b"").unwrap();
            client.conn.handshake_kind().unwrap()
        });
        assert_eq!(kinds, [Full, Resumed]);
    }
    thread::sleep(lifetime + Duration::from_secs(1));
    for config in &configs {
        let refused = ask(&mut connect(address, config, "a.test"), b"").unwrap_err();
        assert!(refused.to_string().contains("CertificateExpired"), "{refused}");
    }
    let until = Instant::now() + Duration::from_secs(10);
    while proxy.tallies().count(Ending::ClientBad) != 2 {
        assert!(Instant::now() < until, "{:?}", proxy.tallies());
        thread::yield_now();
    }
}

#[test]
fn a_client_without_the_certificate_that_is_required_gets_no_answer() {
    let authority = Authority::new();
    let tls = ListenerTls {
        clients: Some(ClientCheck {
            authorities: authority.file(),
            required: true,
            subject_header: None,
        }),
        terms: TlsTerms { min_version: TlsVersion::V13, ..TlsTerms::default() },
        ..ListenerTls::of(vec![authority.sign(&["a.test"])])
    };
    let (_proxy, address) = start(fleet(echo(None), Some(tls)));
    let nameless = authority.client(&[&TLS13], None);
    let refused = ask(&mut connect(address, &nameless, "a.test"), b"").unwrap_err();
    assert!(refused.to_string().contains("CertificateRequired"), "{refused}");
    let old = authority.client(&[&TLS12], None);
    assert!(ask(&mut connect(address, &old, "a.test"), b"").is_err(), "TLS 1.2 is too old here");
    let shown = authority.sign(&["client.test"]);
    let known = authority.client(&[&TLS13], Some(&shown));
    assert!(ask(&mut connect(address, &known, "a.test"), b"").is_ok());
}

#[test]
fn who_came_without_a_certificate_has_one_more_request_answered_once_one_is_required() {
    let authority = Authority::new();
    let fleet = fleet(echo(None), with(vec![authority.sign(&["a.test"])]));
    let asking = |required| {
        let mut fleet = fleet.clone();
        fleet.listeners[0].tls.as_mut().unwrap().clients =
            Some(ClientCheck { authorities: authority.file(), required, subject_header: None });
        fleet
    };
    let (proxy, address) = start(fleet.clone());
    let nameless = authority.client(&[&TLS13], None);
    let known = authority.client(&[&TLS13], Some(&authority.sign(&["client.test"])));
    let mut kept = connect(address, &nameless, "a.test");
    ask(&mut kept, b"").unwrap();
    proxy.reload(asking(false)).unwrap();
    assert!(!ask(&mut kept, b"").unwrap().contains("Connection: close"), "it need not have one");
    proxy.reload(asking(true)).unwrap();
    let answer = ask(&mut kept, b"").unwrap();
    assert!(answer.contains("Connection: close"), "{answer}");
    assert!(ask(&mut kept, b"").is_err());
    let refused = || ask(&mut connect(address, &nameless, "a.test"), b"").is_err();
    assert!(becomes(refused), "clients without a certificate still come in");
    ask(&mut connect(address, &known, "a.test"), b"").unwrap();
}

#[test]
fn who_was_let_in_by_an_authority_that_is_trusted_no_more_has_one_more_request_answered() {
    let (authority, other) = (Authority::new(), Authority::new());
    let check = ClientCheck { authorities: authority.file(), required: true, subject_header: None };
    let tls =
        ListenerTls { clients: Some(check), ..ListenerTls::of(vec![authority.sign(&["a.test"])]) };
    let fleet = fleet(echo(None), Some(tls));
    let (proxy, address) = start(fleet.clone());
    let known = authority.client(&[&TLS13], Some(&authority.sign(&["client.test"])));
    let mut kept = connect(address, &known, "a.test");
    ask(&mut kept, b"").unwrap();
    proxy.reload(fleet.clone()).unwrap();
    assert!(!ask(&mut kept, b"").unwrap().contains("Connection: close"), "nothing has changed");
    std::fs::copy(other.file(), authority.file()).unwrap();
    proxy.reload(fleet).unwrap();
    let answer = ask(&mut kept, b"").unwrap();
    assert!(answer.contains("Connection: close"), "{answer}");
    assert!(ask(&mut kept, b"").is_err());
    let refused = || ask(&mut connect(address, &known, "a.test"), b"").is_err();
    assert!(becomes(refused), "its certificate still lets it in");
    let renewed = authority.client(&[&TLS13], Some(&other.sign(&["client.test"])));
    ask(&mut connect(address, &renewed, "a.test"), b"").unwrap();
}

#[test]
fn a_reload_reads_the_certificates_again_and_a_broken_file_changes_nothing() {
    let (old, new) = (Authority::new(), Authority::new());
    let certificate = old.sign(&["a.test"]);
    let fleet = fleet(echo(None), with(vec![certificate.clone()]));
    let (proxy, address) = start(fleet.clone());
    let mut kept = connect(address, &old.client(&[&TLS13], None), "a.test");
    ask(&mut kept, b"").unwrap();

    std::fs::write(&certificate.chain, "no certificate").unwrap();
    let refused = proxy.reload(fleet.clone()).unwrap_err().to_string();
    assert!(refused.contains(&certificate.chain), "{refused}");
    ask(&mut connect(address, &old.client(&[&TLS13], None), "a.test"), b"").unwrap();

    std::fs::copy(new.sign(&["a.test"]).chain, &certificate.chain).unwrap();
    proxy.reload(fleet).unwrap();
    let config = new.client(&[&TLS13], None);
    let renewed = || ask(&mut connect(address, &config, "a.test"), b"").is_ok();
    assert!(becomes(renewed), "the new certificate is never shown");
    ask(&mut kept, b"").expect("connections outlive the certificate they began with");
}

#[test]
fn what_is_no_tls_is_closed_without_an_answer() {
    use std::io::{Read as _, Write as _};
    let authority = Authority::new();
    let (_proxy, address) = start(fleet(echo(None), with(vec![authority.sign(&["a.test"])])));
    let mut plain = TcpStream::connect(address).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // An alert, and then the end or a reset, as the kernel has it.
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[test]
fn a_failed_handshake_has_its_reason_in_the_access_log_unless_the_client_said_nothing() {
    let (authority, other) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let mut fleet = fleet(echo(None), with(vec![authority.sign(&["a.test"])]));
    fleet.edge.access_log = Some(AccessLog::to(LogTarget::File(path.display().to_string())));
    let (proxy, address) = start(fleet);
    let counted = |ending, expected| {
        let end = Instant::now() + Duration::from_secs(10);
        while proxy.tallies().count(ending) != expected {
            assert!(Instant::now() < end, "{:?}", proxy.tallies());
            thread::yield_now();
        }
    };
    drop(TcpStream::connect(address).unwrap());
    ask(&mut connect(address, &other.client(&[&TLS13], None), "a.test"), b"").unwrap_err();
    counted(Ending::ClientBad, 1);
    let mut plain = TcpStream::connect(address).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    // An alert and the end, or a reset: whichever comes first.
    let _ = plain.read_to_end(&mut Vec::new());
    counted(Ending::ClientBad, 2);
    let mut leaving = TcpStream::connect(address).unwrap();
    leaving.write_all(b"\x16\x03\x01").unwrap();
    drop(leaving);
    counted(Ending::ClientGone, 1);
    assert_eq!(proxy.tallies().requests(), 3);
    proxy.stop(loadline_core::time::Duration::from_secs(1));
    let log = std::fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 3, "{log}");
    assert!(lines[0].contains(" client-bad "), "{log}");
    assert!(lines[0].contains("TLS alert from the client: "), "{log}");
    assert!(lines[1].contains("wrong version number: it speaks no TLS"), "{log}");
    assert!(lines[2].contains(" client-gone "), "{log}");
}

#[test]
fn what_is_no_http2_though_that_was_agreed_on_has_a_line_in_the_access_log() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let mut fleet = fleet(echo(None), with(vec![authority.sign(&["a.test"])]));
    fleet.edge.access_log = Some(AccessLog::to(LogTarget::File(path.display().to_string())));
    let (proxy, address) = start(fleet);
    let mut config = (*authority.client(&[&TLS13], None)).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let config = Arc::new(config);
    let preface = &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..];
    let settings_of_one_byte = [preface, &b"\0\0\x01\x04\0\0\0\0\0x"[..]].concat();
    for said in [&b"GET / HTTP/1.1\r\n\r\n"[..], &preface[4..], &settings_of_one_byte] {
        let mut client = connect(address, &config, "a.test");
        client.write_all(said).unwrap();
        // Settings, and an end or a reset.
        let _ = client.read_to_end(&mut Vec::new());
    }
    let count = || proxy.tallies().count(Ending::ClientBad);
    assert!(becomes(|| count() == 3), "{} of 3", count());
    proxy.stop(loadline_core::time::Duration::from_secs(1));
    let log = std::fs::read_to_string(path).unwrap();
    let bad = log.lines().filter(|line| line.contains(" client-bad ")).count();
    assert_eq!((bad, log.lines().count()), (3, 3), "{log}");
}

#[test]
fn connections_handshakes_and_bytes_are_counted_by_listener() {
    let authority = Authority::new();
    let (proxy, address) = start(fleet(echo(None), with(vec![authority.sign(&["a.test"])])));
    let look = || proxy.handle().state().listeners.remove(0);
    let mut client = connect(address, &authority.client(&[&TLS13], None), "a.test");
    let body = vec![b'x'; 100_000];
    ask(&mut client, &body).unwrap();
    // A client can have read what the proxy is only about to count as written.
    let seen = until(look, |seen| seen.sent_bytes > 100_000);
    assert_eq!((seen.protocol.as_str(), seen.address.as_str()), ("https", "127.0.0.1:0"));
    assert_eq!((seen.open, seen.accepted), (1, 1));
    assert_eq!((seen.handshakes, seen.handshakes_failed), (1, 0));
    assert!(seen.received_bytes > 100_000, "{seen:?}");

    drop(client);
    let mut stranger = TcpStream::connect(address).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // An alert and the end, or a reset: whichever comes first.
    let _ = stranger.read_to_end(&mut Vec::new());
    let seen = until(look, |seen| seen.open == 0);
    assert_eq!((seen.open, seen.accepted), (0, 2));
    assert_eq!((seen.handshakes, seen.handshakes_failed), (1, 1));
}

/// What `look` sees once it is as `expected`, or after ten seconds, which fails the test.
fn until(look: impl Fn() -> Listener, expected: impl Fn(&Listener) -> bool) -> Listener {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let seen = look();
        if expected(&seen) {
            return seen;
        }
        assert!(Instant::now() < end, "{seen:?}");
        thread::yield_now();
    }
}

#[test]
fn a_client_that_has_all_its_connections_is_closed_before_tls_costs_anything() {
    let authority = Authority::new();
    let mut fleet = fleet(echo(None), with(vec![authority.sign(&["a.test"])]));
    fleet.listeners[0].max_connections_per_client = Some(1);
    let (proxy, address) = start(fleet);
    let config = authority.client(&[&TLS13], None);
    let mut kept = connect(address, &config, "a.test");
    assert!(ask(&mut kept, b"first").is_ok());
    assert!(ask(&mut connect(address, &config, "a.test"), b"second").is_err());
    assert!(ask(&mut kept, b"again").is_ok());
    let listener = || proxy.tallies().listeners.into_values().next().unwrap();
    // It is counted behind its end.
    assert!(becomes(|| listener().over_client_limit > 0), "{:?}", listener());
    let listener = listener();
    assert_eq!((listener.over_client_limit, listener.handshakes), (1, 1));
    assert_eq!(listener.handshakes_failed, 0);
}
