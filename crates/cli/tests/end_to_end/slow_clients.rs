//! Two hundred clients that drip: a good one notices nothing, and memory is bounded.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
};

use crate::process::{Process, file};

/// What a slow client says at once, and then byte by byte.
const WAYS: [(&str, &[u8], &[u8]); 4] = [
    ("heads", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ", b"a"),
    ("bodies", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n", b"a"),
    // A record of 512 bytes with a ClientHello in it.
    ("hellos", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x07"),
    ("reading", b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n", b""),
];

#[test]
fn two_hundred_slow_clients_take_nothing_from_a_good_one() {
    let small = Process::fixed();
    let large = Process::start(&["worker", "fixed", "--size", "10MB", "--listen", "127.0.0.1:0"]);
    let path = file("slow.toml", &config(&small, &large));
    let (proxy, [plain, tls]) = Process::listening(&["serve", path.to_str().unwrap()]);
    (0..100).for_each(|_| assert_eq!(ask(&plain), "HTTP/1.1 200 OK"));
    let before = proxy.memory();
    let mut slow = Vec::new();
    for (name, first, byte) in WAYS {
        for _ in 0..50 {
            let address = if name == "hellos" { &tls } else { &plain };
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(first).unwrap();
            slow.push((name, stream, byte));
        }
    }
    for round in 0..10 {
        for (name, stream, byte) in &mut slow {
            match byte {
                [] => stream.read_exact(&mut [0]).map(|()| 1),
                byte => stream.write(byte),
            }
            .unwrap_or_else(|error| panic!("{name} in round {round}: {error}"));
        }
        (0..20).for_each(|_| assert_eq!(ask(&plain), "HTTP/1.1 200 OK", "in round {round}"));
    }
    let grown = proxy.memory().saturating_sub(before) / slow.len() as u64;
    assert!(grown < 64 << 10, "{grown} bytes for each slow client");
    drop(slow);
    assert_eq!(ask(&plain), "HTTP/1.1 200 OK");
    fs::remove_file(path).unwrap();
}

/// The status line of one request on a connection of its own.
fn ask(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or("closed without an answer").to_owned()
}

/// Times are long, so that slow clients are held however busy the machine is.
fn config(small: &Process, large: &Process) -> String {
    let certificate = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tls");
    let certificate = certificate.join("localhost.pem");
    let patient = "timeouts = { head = \"300s\", idle = \"300s\" }";
    format!(
        "[edge]\ndrain_timeout = \"0s\"\n\
         [[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"small\"\n{patient}\n\
         [[listener.routes]]\npath = \"/large\"\nservice = \"large\"\n\
         [[listener]]\nbind = \"127.0.0.1:0\"\nprotocol = \"https\"\nservice = \"small\"\n\
         {patient}\ntls = {{ certificates = [{certificate:?}] }}\n\
         [service.small]\n[[service.small.group]]\nservers = [\"{}\"]\n\
         [service.large]\n[[service.large.group]]\nservers = [\"{}\"]\n",
        small.address, large.address
    )
}
