//! Who a client is by its certificate: what servers and the access log are told.

use std::{
    fs,
    io::Write as _,
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    thread,
};

use loadline_core::{
    fleet::{AccessLog, CacheLimits, ClientCheck, LogField, LogFormat, LogTarget},
    rules::{Action, Caching, Conditions, HeaderEdits, Routes, Rule, Split, Template},
    time::Duration,
    units::Bytes,
};
use rustls::version::TLS13;
use serde_json::{Value, json};

use crate::{
    authority::Authority,
    support::{connect, echo, fleet, message, start, with},
};

#[test]
fn servers_and_the_access_log_are_told_who_a_client_is_and_nobody_can_claim_it() {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().unwrap());
    let mut tls = with(vec![authority.sign(&["a.test"])]).unwrap();
    tls.clients = Some(ClientCheck {
        authorities: authority.file(),
        required: false,
        subject_header: Some("X-Client-Subject".to_owned()),
    });
    let path = directory.path().join("access.log");
    let mut fleet = fleet(echo(None), Some(tls));
    let log = AccessLog::to(LogTarget::File(path.display().to_string()));
    let fields = LogField::ALL.to_vec();
    fleet.edge.access_log = Some(AccessLog { format: LogFormat::Json, fields, ..log });
    let bind = fleet.listeners[0].bind.to_string();
    let (proxy, address) = start(fleet);
    let alice = authority.sign(&["alice"]);
    for (certificate, told) in [(Some(&alice), "X-Client-Subject: CN=alice\r\n"), (None, "")] {
        let config = authority.client(&[&TLS13], certificate);
        let mut client = connect(address, &config, "a.test");
        let request = b"GET / HTTP/1.1\r\nHost: b.test\r\nx-client-subject: CN=root\r\n\r\n";
        client.write_all(request).unwrap();
        let answer = String::from_utf8(message(&mut client).unwrap()).unwrap();
        assert!(answer.contains(told), "{answer}");
        assert!(!answer.contains("CN=root"), "{answer}");
        let count = answer.to_ascii_lowercase().matches("x-client-subject").count();
        assert_eq!(count, usize::from(!told.is_empty()), "{answer}");
    }
    proxy.stop(Duration::from_secs(1));
    let log = fs::read_to_string(path).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (line, subject) in lines.iter().zip([json!("CN=alice"), Value::Null]) {
        assert_eq!(line["client_certificate"], subject);
        assert_eq!((&line["host"], &line["scheme"]), (&json!("b.test"), &json!("https")));
        assert_eq!((&line["listener"], &line["server_name"]), (&json!(bind), &json!("a.test")));
        assert_eq!(line["tls_version"], "TLSv1.3");
    }
    assert_eq!(lines.len(), 2);
}

/// A server that answers each request with the request itself, which is fresh for a minute.
fn fresh_echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || serve_fresh(stream));
        }
    });
    address
}

fn serve_fresh(mut stream: TcpStream) {
    while let Ok(request) = message(&mut stream) {
        let length = request.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {length}\r\n\r\n"
        );
        if stream.write_all(&[head.into_bytes(), request].concat()).is_err() {
            return;
        }
    }
}

#[test]
fn no_client_gets_the_cached_response_to_another_certificate() {
    let authority = Authority::new();
    let mut tls = with(vec![authority.sign(&["a.test"])]).unwrap();
    tls.clients = Some(ClientCheck {
        authorities: authority.file(),
        required: false,
        subject_header: Some("X-Client-Subject".to_owned()),
    });
    let mut fleet = fleet(fresh_echo(), Some(tls));
    let limits = CacheLimits { memory: Bytes::new(1 << 20), max_object: Bytes::new(1 << 16) };
    fleet.edge.cache = limits;
    fleet.listeners[0].routes = Routes::new(vec![Rule {
        cache: Some(Caching::default()),
        ..Rule::new(Conditions::default(), Action::Service(Split::all(0)))
    }]);
    let (_proxy, address) = start(fleet);
    let certificates = ["alice", "bob"].map(|name| authority.sign(&[name]));
    let clients = [Some(&certificates[0]), Some(&certificates[1]), None];
    for hits in [0, 1] {
        for (certificate, told) in clients.into_iter().zip(["CN=alice", "CN=bob", ""]) {
            let config = authority.client(&[&TLS13], certificate);
            let mut client = connect(address, &config, "a.test");
            let request = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
            client.write_all(request).unwrap();
            let answer = String::from_utf8(message(&mut client).unwrap()).unwrap();
            let line = format!("X-Client-Subject: {told}\r\n");
            assert_eq!(answer.contains(&line), !told.is_empty(), "{told}: {answer}");
            assert_eq!(answer.matches("CN=").count(), usize::from(!told.is_empty()), "{answer}");
            assert_eq!(answer.matches("loadline; hit").count(), hits, "{told}: {answer}");
        }
    }
}

#[test]
fn variables_of_the_handshake_are_there_without_an_access_log_over_every_version() {
    let authority = Authority::new();
    let mut tls = with(vec![authority.sign(&["a.test"])]).unwrap();
    let authorities = authority.file();
    tls.clients = Some(ClientCheck { authorities, required: false, subject_header: None });
    let mut fleet = fleet(echo(None), Some(tls));
    let set = [
        ("X-Client", "$client_certificate"),
        ("X-Name", "$server_name"),
        ("X-TLS", "$tls_version"),
        ("X-Cipher", "$tls_cipher"),
    ];
    let set = set.map(|(name, value)| (name.to_owned(), Template::read(value).unwrap())).into();
    fleet.listeners[0].routes = Routes::new(vec![Rule {
        request: HeaderEdits { set, ..HeaderEdits::default() },
        ..Rule::new(Conditions::default(), Action::Service(Split::all(0)))
    }]);
    let (_proxy, address) = start(fleet);
    let alice = authority.sign(&["alice"]);
    let url = format!("https://a.test:{}/", address.port());
    let place = format!("a.test:{}:{}", address.port(), address.ip());
    for version in ["--http1.1", "--http2"] {
        let mut curl = Command::new("curl");
        curl.args(["-sk", "--tlsv1.3", version, "--resolve", &place, "--cert", &alice.chain, &url]);
        let told = String::from_utf8(curl.output().unwrap().stdout).unwrap();
        for line in ["X-Client: CN=alice\r", "X-Name: a.test\r", "X-TLS: TLSv1.3\r"] {
            assert!(told.contains(line), "{version} {line}: {told}");
        }
        assert!(told.contains("X-Cipher: TLS_AES_"), "{version}: {told}");
    }
}
