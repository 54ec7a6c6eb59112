//! Who a client is by its certificate: what servers and the access log are told.

use std::fs;

use loadline_core::{
    fleet::{AccessLog, ClientCheck, LogField, LogFormat, LogTarget},
    time::Duration,
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
        std::io::Write::write_all(&mut client, request).unwrap();
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
