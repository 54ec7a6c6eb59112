//! Servers at Unix sockets: HTTP/1 and HTTP/2 to them, bytes, health checks, the access log.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::SocketAddr,
    os::unix::{
        fs::PermissionsExt as _,
        net::{UnixListener, UnixStream},
    },
    thread,
    time::{Duration as StdDuration, Instant},
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{
        AccessLog, Ejection, HealthCheck, HttpVersion, LogTarget, Probe, Protocol, ServerAddress,
    },
    time::Duration,
    units::Ratio,
};
use socket2::{Domain, SockAddr, Socket, Type};
use tempfile::TempDir;

use crate::support::{PATIENCE, Proxy, mirror_at};

/// The address of a socket in a folder, and its path.
fn socket(folder: &TempDir, name: &str) -> (SocketAddr, String) {
    let path = folder.path().join(name).display().to_string();
    (address(&path), path)
}

fn address(path: &str) -> SocketAddr {
    let ServerAddress(address) = format!("unix:{path}").parse().unwrap();
    address
}

fn before(server: SocketAddr, change: impl FnOnce(&mut loadline_core::fleet::Fleet)) -> Proxy {
    Proxy::beside(vec![], "127.0.0.1:9".parse().unwrap(), |fleet| {
        fleet.services[0].groups[0].servers[0].address = server;
        change(fleet);
    })
}

#[test]
fn requests_go_to_a_socket_by_its_path_or_its_abstract_name() {
    let folder = tempfile::tempdir().unwrap();
    let (by_path, path) = socket(&folder, "app.sock");
    let name = format!("@loadline-test-{}", std::process::id());
    mirror_at(&path, "by path");
    mirror_at(&name, "by name");
    for (server, expected) in [(by_path, "by path"), (address(&name), "by name")] {
        let proxy = before(server, |_| ());
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let told = proxy.curl(&[version], "/a?b=c");
            assert!(told.contains("GET /a?b=c HTTP/1.1\r\n"), "{version}: {told}");
            assert!(told.ends_with(expected), "{version}: {told}");
        }
        let body = "x".repeat(100_000);
        let told = proxy.curl(&["--data-binary", &body], "/");
        assert!(told.contains("Content-Length: 100000\r\n"), "{told}");
        let one = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        let last = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let told = proxy.ask(&[one, one, last].concat());
        assert_eq!(told.matches("HTTP/1.1 200 OK").count(), 3, "{told}");
    }
}

#[test]
fn a_socket_that_is_not_there_or_takes_nobody_is_a_server_that_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let (absent, _) = socket(&folder, "absent.sock");
    let (closed, path) = socket(&folder, "closed.sock");
    drop(UnixListener::bind(&path).unwrap());
    let beneath = address(&format!("{path}/app.sock"));
    let (crowded, path) = socket(&folder, "crowded.sock");
    let _kept = full_backlog(&path);
    let mut cases = vec![
        (absent, "no such file: there is no Unix socket"),
        (beneath, "no such file: there is no Unix socket"),
        (closed, "connection refused"),
        (crowded, "resource temporarily unavailable: backlog of the socket is full"),
    ];
    let (forbidden, path) = socket(&folder, "forbidden.sock");
    let _forbidden = UnixListener::bind(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    // Root may write to it all the same.
    if UnixStream::connect(path).is_err() {
        cases.push((forbidden, "permission denied: the Unix socket may not be written to"));
    }
    for (server, reason) in cases {
        let log = folder.path().join("access.log");
        let proxy = before(server, |fleet| {
            fleet.edge.access_log = Some(AccessLog::to(LogTarget::File(log.display().to_string())));
        });
        assert!(proxy.get("/").starts_with("HTTP/1.1 502"));
        assert_eq!(proxy.count(Ending::ConnectRefused), 1);
        proxy.stop();
        let line = fs::read_to_string(&log).unwrap();
        let place = format!(" zero/here/{} ", ServerAddress(server));
        assert!(line.contains(&place) && line.contains(reason), "{line}");
        fs::remove_file(log).unwrap();
    }
}

#[test]
fn a_full_backlog_does_not_put_a_socket_out() {
    let folder = tempfile::tempdir().unwrap();
    let (server, path) = socket(&folder, "crowded.sock");
    let (listener, waiting) = full_backlog(&path);
    let proxy = before(server, |fleet| {
        let ejection = Ejection { share_max: Ratio::percent(100), ..Ejection::default() };
        fleet.services[0].ejection = Some(ejection);
    });
    for _ in 0..2 {
        assert!(proxy.get("/").starts_with("HTTP/1.1 502"), "and never 503: no server is up");
        thread::sleep(StdDuration::from_millis(200));
    }
    drop((listener, waiting));
}

/// A socket at `path` whose backlog is full, and what it is full of.
fn full_backlog(path: &str) -> (Socket, Vec<Socket>) {
    let new = || Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    let (listener, address) = (new(), SockAddr::unix(path).unwrap());
    listener.bind(&address).unwrap();
    listener.listen(0).unwrap();
    let knock = || {
        let client = new();
        client.set_nonblocking(true).unwrap();
        client.connect(&address).ok().map(|()| client)
    };
    let waiting: Vec<_> = (0..16).map_while(|_| knock()).collect();
    assert!(waiting.len() < 16, "the backlog is never full");
    (listener, waiting)
}

#[test]
fn a_health_check_asks_by_the_socket() {
    let folder = tempfile::tempdir().unwrap();
    let (server, path) = socket(&folder, "late.sock");
    let proxy = before(server, |fleet| {
        let short = Duration::from_millis(20);
        fleet.services[0].health = Some(HealthCheck {
            probe: Probe::Http { path: "/health".into(), host: None },
            interval: short,
            fast_interval: short,
            timeout: Duration::from_secs(1),
            rise: 1,
            fall: 1,
            lenient: false,
        });
    });
    let until = |status: &str| {
        let start = Instant::now();
        while !proxy.get("/").starts_with(&format!("HTTP/1.1 {status}")) {
            assert!(start.elapsed() < PATIENCE, "never {status}");
        }
    };
    until("503");
    mirror_at(&path, "late");
    until("200");
}

#[test]
fn many_requests_share_a_connection_of_http_2_to_a_socket() {
    let folder = tempfile::tempdir().unwrap();
    let (server, path) = socket(&folder, "h2.sock");
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || serve_http2(listener));
    let proxy = before(server, |fleet| {
        fleet.services[0].http_version = HttpVersion::Http2;
    });
    for _ in 0..3 {
        let told = proxy.get("/");
        assert!(told.contains("by http 2"), "{told}");
    }
}

fn serve_http2(listener: UnixListener) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::UnixListener::from_std(listener).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            let mut body = respond.send_response(http::Response::new(()), false).unwrap();
            body.send_data(bytes::Bytes::from_static(b"by http 2"), true).unwrap();
        }
    });
}

#[test]
fn bytes_go_both_ways_to_a_socket() {
    let folder = tempfile::tempdir().unwrap();
    let (server, path) = socket(&folder, "echo.sock");
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut upload = stream.try_clone().unwrap();
        std::io::copy(&mut upload, &mut stream).unwrap();
    });
    let proxy = before(server, |fleet| fleet.listeners[0].protocol = Protocol::Tcp);
    let mut client = proxy.connect();
    let mut upload = client.try_clone().unwrap();
    let sent: Vec<u8> = (0..2_000_000_u32).map(|at| (at >> 7) as u8).collect();
    let copy = sent.clone();
    let sender = thread::spawn(move || {
        upload.write_all(&copy).unwrap();
        upload.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut back = Vec::new();
    client.read_to_end(&mut back).unwrap();
    sender.join().unwrap();
    assert!(back == sent, "{} bytes", back.len());
}
