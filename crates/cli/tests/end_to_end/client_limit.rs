//! A client that holds more connections than it may, as it and the log of the process see it.

use std::{
    io::{ErrorKind, Write as _},
    net::TcpStream,
};

use crate::process::{Process, file, run};

#[test]
fn a_client_with_too_many_connections_is_told_counted_and_logged_once() {
    let worker = Process::fixed();
    let text = format!(
        "[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\nmax_connections_per_client = 2\n\
         [[service.web.group]]\nservers = [\"{}\"]\n",
        worker.address
    );
    let path = file("client-limit.toml", &text);
    let proxy = Process::start(&["serve", path.to_str().unwrap()]);
    let status = || {
        let args = ["-s", "-o", "/dev/null", "-w", "%{http_code}", &proxy.url("/")];
        String::from_utf8(run("curl", &args).stdout).unwrap()
    };
    assert_eq!(status(), "200");
    let mut held = Vec::new();
    let mut hold = || {
        let mut stream = TcpStream::connect(&proxy.address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        held.push(stream);
    };
    // The connection of before may still be about to go, and one of these be refused.
    assert!((0..2_000).any(|_| {
        hold();
        status() == "429"
    }));
    assert_eq!([status(), status()], ["429", "429"]);
    let is_open = |stream: &&TcpStream| {
        stream.set_nonblocking(true).unwrap();
        stream.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    assert!((0..2_000).any(|_| status() == "429" && held.iter().filter(is_open).count() == 2));
    drop(held);
    assert!((0..2_000).any(|_| status() == "200"));
    let ended = proxy.terminate();
    assert!(ended.endings()["client-limit"] >= 3, "{:?}", ended.endings());
    let told = ended.log.matches("max_connections_per_client").count();
    assert_eq!(told, 1, "{}", ended.log);
    std::fs::remove_file(path).unwrap();
}
