//! HTTP/3 is offered to clients that come by TCP.

use std::{io::Write as _, net::TcpListener, thread};

use rustls::version::TLS13;

use crate::{
    authority::Authority,
    ports::reserved,
    support::{ask, connect, echo, fleet, message, start, with},
};

#[test]
fn clients_of_other_versions_are_offered_it_unless_it_is_off() {
    let authority = Authority::new();
    for on in [true, false] {
        let mut fleet = fleet(echo(None), with(vec![authority.sign(&["a.test"])]));
        fleet.listeners[0].http3 = on;
        let (_proxy, address) = start(fleet);
        let mut client = connect(address, &authority.client(&[&TLS13], None), "a.test");
        let answer = ask(&mut client, b"hello").unwrap();
        let offer = format!("Alt-Svc: h3=\":{}\"; ma=86400\r\n", address.port());
        assert_eq!(answer.contains(&offer), on, "{answer}");
    }
}

#[test]
fn what_we_answer_ourselves_offers_it_as_well() {
    let authority = Authority::new();
    let (_proxy, address) = start(fleet(reserved(), with(vec![authority.sign(&["a.test"])])));
    let offer = format!("Alt-Svc: h3=\":{}\"; ma=86400\r\n", address.port());
    for (asked, status) in [("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "502"), ("bad\r\n\r\n", "400")] {
        let mut client = connect(address, &authority.client(&[&TLS13], None), "a.test");
        client.write_all(asked.as_bytes()).unwrap();
        let answer = String::from_utf8(message(&mut client).unwrap()).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        assert!(answer.contains(&offer), "{answer}");
    }
}

#[test]
fn an_offer_of_the_server_gives_way_to_ours_and_stays_without() {
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            message(&mut stream).unwrap();
            let of_server = "Alt-Svc: h3=\":8443\"\r\n";
            let answer = format!("HTTP/1.1 200 OK\r\n{of_server}Content-Length: 2\r\n\r\nok");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    for on in [true, false] {
        let mut fleet = fleet(server, with(vec![authority.sign(&["a.test"])]));
        fleet.listeners[0].http3 = on;
        let (_proxy, address) = start(fleet);
        let mut client = connect(address, &authority.client(&[&TLS13], None), "a.test");
        let answer = ask(&mut client, b"hello").unwrap();
        assert_eq!(answer.matches("Alt-Svc").count(), 1, "{answer}");
        assert_eq!(answer.contains(":8443"), !on, "{answer}");
    }
}
