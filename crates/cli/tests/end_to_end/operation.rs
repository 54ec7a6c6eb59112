//! Starting, reloading, stopping.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream, UdpSocket},
    os::fd::OwnedFd,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    counts::answered,
    process::{Process, file, loadline, logging, run, until_logged},
};

fn config(listen: &str, servers: &[&Process]) -> String {
    let servers: Vec<String> = servers.iter().map(|s| format!("\"{}\"", s.address)).collect();
    format!(
        "[[listener]]\nbind = \"{listen}\"\nprotocol = \"http\"\nservice = \"web\"\n\
         [service.web]\n[[service.web.group]]\nregion = \"here\"\nservers = [{}]\n",
        servers.join(", ")
    )
}

#[test]
fn a_reload_under_load_drops_nothing_and_a_wrong_file_changes_nothing() {
    let (first, second) = (Process::fixed(), Process::fixed());
    let path = file("reload.toml", &config("127.0.0.1:0", &[&first]));
    let (proxy, log) = logging(&["serve", path.to_str().unwrap()]);
    let url = proxy.url("/");
    let args = ["bench", &url, "--rate", "500", "--duration", "4s", "--json", "--quiet"];
    let count = ["--count-by", "X-Served-By"];
    let mut load = loadline(&[&args[..], &count[..]].concat());
    let load = load.stdout(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while answered(&first) == 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "the load begins");
    }
    // Each state of the file is seen in force, or refused, before the next is written.
    for (text, answer) in [
        (config("127.0.0.1:0", &[&second]), &second),
        ("servers = nonsense".to_owned(), &second),
        (config("127.0.0.1:0", &[&first]), &first),
        (config("127.0.0.1:0", &[&second]), &second),
    ] {
        let wrong = text.contains("nonsense");
        fs::write(&path, text).unwrap();
        proxy.signal("HUP");
        let expected = served_by(&answer.address);
        let seen = (0..2_000).any(|_| served_by(&proxy.address) == expected);
        assert!(seen, "the reload did not come into force");
        if wrong {
            until_logged(&log, "nonsense");
        }
    }
    let record: Value = serde_json::from_slice(&load.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(record["outcomes"]["ok"], 2_000, "{record}");
    let servers = record["by_header"].as_object().unwrap();
    assert_eq!(servers.len(), 2, "both files were in force: {servers:?}");
    proxy.terminate();
    fs::remove_file(path).unwrap();
    fs::remove_file(log).unwrap();
}

/// Which worker answers at this address.
fn served_by(address: &str) -> String {
    let answer = run("curl", &["-sS", "-i", &format!("http://{address}/")]);
    let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
    let line = answer.lines().find_map(|line| line.strip_prefix("X-Served-By: "));
    line.unwrap_or_default().to_owned()
}

#[test]
fn prewarm_leaves_half_of_the_descriptors_to_clients_and_their_requests() {
    let web = Process::fixed();
    let many: Vec<TcpListener> =
        (0..100).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses = many.iter().map(|server| format!("\"{}\"", server.local_addr().unwrap()));
    let text = format!(
        "{}[[listener]]\nbind = \"127.0.0.1:0\"\nprotocol = \"http\"\nservice = \"many\"\n\
         [service.many]\nprewarm = 1\n[[service.many.group]]\nregion = \"here\"\n\
         servers = [{}]\n[edge]\nthreads = 2\n",
        config("127.0.0.1:0", &[&web]),
        addresses.collect::<Vec<_>>().join(", ")
    );
    let path = file("prewarm.toml", &text);
    let program = env!("CARGO_BIN_EXE_loadline");
    let line = format!("ulimit -n 128; exec {program} serve {}", path.display());
    let mut command = Command::new("sh");
    command.args(["-c", &line]);
    let proxy = Process::of_command(command);
    let open = || fs::read_dir(format!("/proc/{}/fd", proxy.id())).unwrap().count();
    let start = Instant::now();
    while open() < 60 {
        assert!(start.elapsed() < Duration::from_secs(20), "connections are opened");
    }
    let clients = (0..40).map(|_| {
        let mut client = TcpStream::connect(&proxy.address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut head = [0; 13];
        client.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200 ");
        client
    });
    let clients: Vec<TcpStream> = clients.collect();
    assert!(open() < 128, "{} clients beside what is ready", clients.len());
    let told = proxy.terminate().log;
    assert!(told.contains(" and 200 of `prewarm`"), "{told}");
    fs::remove_file(path).unwrap();
}

#[test]
fn a_request_under_way_ends_before_the_proxy_does() {
    let worker = Process::start(&["worker", "page", "--listen", "127.0.0.1:0"]);
    let proxy = Process::proxy(&[&worker]);
    let url = proxy.url("/");
    let client = std::thread::spawn(move || run("curl", &["-sS", "-w", "%{http_code}", &url]));
    // The worker waits 300 ms with the request: it is under way once the worker has it.
    let stats = worker.url("/stats");
    let in_service = || {
        let stats: Value = serde_json::from_slice(&run("curl", &["-s", &stats]).stdout).unwrap();
        stats["accepted"] == 1
    };
    assert!((0..1_000).any(|_| in_service()), "the request reaches the worker");
    let ended = proxy.terminate();
    let page = client.join().unwrap();
    assert!(page.stdout.len() >= 50_000 && page.stdout.ends_with(b"200"), "the answer is whole");
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.endings()["complete"], 1);
}

#[test]
fn the_limit_for_all_listeners_is_told_and_kept() {
    let worker = Process::fixed();
    let listener = "[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n";
    let config = format!(
        "[edge]\nmax_connections = 2\n{listener}{listener}\
         [service.web]\n[[service.web.group]]\nservers = [\"{}\"]\n",
        worker.address
    );
    let path = file("crowd.toml", &config);
    let (proxy, [one, other]) = Process::listening(&["serve", path.to_str().unwrap()]);
    let mut first = Client::of(&one);
    let mut second = Client::of(&other);
    first.ask();
    second.ask();
    let mut third = Client::of(&other);
    third.send();
    assert!(!third.is_answered_within(Duration::from_millis(300)), "two are there already");
    drop(first);
    assert!(third.is_answered_within(Duration::from_secs(5)), "a place at the other listener");
    second.ask();
    let ended = proxy.terminate();
    assert!(ended.log.contains("at most 2 client connections: 2.0 kB"), "{}", ended.log);
    fs::remove_file(path).unwrap();
}

/// A client that keeps its connection.
struct Client(TcpStream);

impl Client {
    fn of(address: &str) -> Self {
        Self(TcpStream::connect(address).unwrap())
    }

    fn send(&mut self) {
        self.0.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    }

    fn is_answered_within(&mut self, time: Duration) -> bool {
        self.0.set_read_timeout(Some(time)).unwrap();
        matches!(self.0.read(&mut [0; 4096]), Ok(1..))
    }

    fn ask(&mut self) {
        self.send();
        assert!(self.is_answered_within(Duration::from_secs(5)));
    }
}

#[test]
fn an_address_in_use_is_named_and_ends_with_2() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let args = ["serve", "--listen", &address, "--to", "127.0.0.1:9"];
    let refused = loadline(&args).output().unwrap();
    let log = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{log}");
    assert!(log.contains(&address) && log.contains("in use"), "{log}");
}

#[test]
fn a_wrong_file_or_argument_ends_with_1_and_points_at_the_place() {
    let path = file("wrong.toml", "[service.web]\npolicy = \"least-request\"\n");
    let wrong = loadline(&["serve", path.to_str().unwrap()]).output().unwrap();
    let log = String::from_utf8(wrong.stderr).unwrap();
    assert_eq!(wrong.status.code(), Some(1), "{log}");
    assert!(log.contains(":2:") && log.contains("least-requests"), "{log}");
    for args in [&["serve"][..], &["serve", "--listen", ":0"], &["serve", "--nonsense"]] {
        assert_eq!(loadline(args).output().unwrap().status.code(), Some(1), "{args:?}");
    }
    fs::remove_file(path).unwrap();
}

#[test]
fn a_socket_unit_with_a_datagram_socket_does_not_stop_the_start() {
    let worker = Process::fixed();
    let path = file("sockets.toml", &config("127.0.0.1:0", &[&worker]));
    let script = "export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$@\" 3<&0 0</dev/null";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_loadline"), "serve"]).arg(&path);
    command.stdin(OwnedFd::from(UdpSocket::bind("127.0.0.1:0").unwrap())).env("NO_COLOR", "1");
    let proxy = Process::of_command(command);
    assert_eq!(served_by(&proxy.address), served_by(&worker.address));
    let ended = proxy.terminate();
    assert!(ended.log.contains("not a TCP socket that listens"), "{}", ended.log);
    fs::remove_file(path).unwrap();
}

#[test]
fn a_client_without_a_valid_server_name_writes_nothing_into_the_log() {
    let certificate = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tls/localhost.pem");
    let text = format!(
        "[[listener]]\nbind = \"127.0.0.1:0\"\nprotocol = \"https\"\nservice = \"web\"\n\
         tls = {{ certificates = [\"{certificate}\"] }}\n\
         [service.web]\n[[service.web.group]]\nservers = [\"127.0.0.1:9\"]\n"
    );
    let path = file("names.toml", &text);
    let proxy = Process::start(&["serve", path.to_str().unwrap()]);
    let long = [1; 15_000];
    for name in [&b"127.0.0.1"[..], b"not a name", &long] {
        let mut client = TcpStream::connect(&proxy.address).unwrap();
        client.write_all(&client_hello(name)).unwrap();
        let mut alert = [0; 2];
        client.read_exact(&mut alert).unwrap();
        assert_eq!(alert, [21, 3], "the handshake has been looked at");
    }
    let ended = proxy.terminate();
    assert!(!ended.log.contains("Illegal SNI"), "{} bytes", ended.log.len());
    fs::remove_file(path).unwrap();
}

/// The record of a handshake that asks for this name and offers nothing that a server could take.
fn client_hello(name: &[u8]) -> Vec<u8> {
    let sized = |payload: &[u8]| {
        [&u16::try_from(payload.len()).unwrap().to_be_bytes()[..], payload].concat()
    };
    let names = sized(&[&[0][..], &sized(name)].concat());
    let extensions = sized(&[&[0, 0][..], &sized(&names)].concat());
    let suites_and_methods = [0, 2, 0x13, 0x01, 1, 0];
    let hello = [&[3, 3][..], &[7; 32], &[0], &suites_and_methods, &extensions].concat();
    let message = [&[1, 0][..], &sized(&hello)].concat();
    [&[22, 3, 1][..], &sized(&message)].concat()
}
