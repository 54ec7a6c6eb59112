//! Two services that say what they were asked and who they are, and a proxy with rules before them.

use std::{
    io::{BufRead as _, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr as UnixAddress, UnixListener},
    },
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration as StdDuration, Instant},
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{Edge, Fleet, Group, Listener, Server, Service},
    rules::{Action, Conditions, CopyResult, DirectResponse, Path, Routes, Rule},
    time::Duration,
};
use loadline_proxy::{runtime::Runtime, telemetry::tally::ServiceTally};

/// Longer than anything takes that goes right.
pub(crate) const PATIENCE: StdDuration = StdDuration::from_secs(5);

/// A rule that changes nothing.
pub(crate) fn rule(when: Conditions, action: Action) -> Rule {
    Rule::new(when, action)
}

/// All paths below this one.
pub(crate) fn under(path: &str) -> Conditions {
    Conditions { paths: vec![Path::prefix(path).expect("a path")], ..Conditions::default() }
}

/// A response without headers.
pub(crate) fn answer(status: u16, body: &str) -> DirectResponse {
    DirectResponse { status, headers: vec![], body: body.into() }
}

/// A proxy for the services `zero`, which is the listener's, and `one`.
pub(crate) struct Proxy {
    runtime: Runtime,
    fleet: Fleet,
    address: SocketAddr,
    served: Arc<AtomicU64>,
}

impl Proxy {
    pub(crate) fn of(rules: Vec<Rule>) -> Self {
        let served = Arc::new(AtomicU64::new(0));
        let one = mirror("one", served.clone());
        Self::start(rules, one, served, |_| ())
    }

    /// The same with this server in the service `one`, and changes of one's own.
    pub(crate) fn beside(
        rules: Vec<Rule>,
        one: SocketAddr,
        change: impl FnOnce(&mut Fleet),
    ) -> Self {
        Self::start(rules, one, Arc::default(), change)
    }

    fn start(
        rules: Vec<Rule>,
        one: SocketAddr,
        served: Arc<AtomicU64>,
        change: impl FnOnce(&mut Fleet),
    ) -> Self {
        let zero = mirror("zero", served.clone());
        let services = [service("zero", zero), service("one", one)];
        let drain_timeout = Duration::from_secs(1);
        let edge = Edge { threads: 1, drain_timeout, ..Edge::within("here") };
        let bind = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener { routes: Routes::new(rules), ..Listener::new(bind, 0) };
        let mut fleet = Fleet::of(edge, vec![listener], services.into());
        change(&mut fleet);
        let runtime = Runtime::start(fleet.clone()).expect("a proxy");
        let address = runtime.local_addrs()[0];
        Self { runtime, fleet, address, served }
    }

    /// Puts other rules in force, of which one answers a path that no rules before had.
    pub(crate) fn reload(&self, rules: Vec<Rule>) {
        static RELOADS: AtomicU32 = AtomicU32::new(0);
        let path = format!("/reloaded/{}", RELOADS.fetch_add(1, Relaxed));
        let marker = rule(under(&path), Action::Respond(answer(299, "")));
        let mut fleet = self.fleet.clone();
        fleet.listeners[0].routes = Routes::new([vec![marker], rules].concat());
        self.runtime.reload(fleet).expect("a reload");
        let start = Instant::now();
        while !self.get(&path).starts_with("HTTP/1.1 299") {
            assert!(start.elapsed() < PATIENCE, "the reload comes into force");
        }
    }

    /// What `curl` prints with these arguments before the URL of this path.
    pub(crate) fn curl(&self, arguments: &[&str], path: &str) -> String {
        let url = format!("http://{}{path}", self.address);
        let mut curl = Command::new("curl");
        let output = curl.args(["-sS", "-i", "--max-time", "30"]).args(arguments).arg(url).output();
        String::from_utf8_lossy(&output.expect("curl").stdout).into_owned()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream
    }

    /// Sends this on a connection of its own and gives all that comes until it is closed.
    pub(crate) fn ask(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("a request is taken");
        until_closed(&mut stream)
    }

    /// A GET of this target on a connection of its own.
    pub(crate) fn get(&self, target: &str) -> String {
        self.ask(&format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    }

    /// Puts a fleet in force that differs from the present one by this change.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Fleet)) {
        let mut fleet = self.fleet.clone();
        change(&mut fleet);
        self.runtime.reload(fleet).expect("a reload");
    }

    /// How many requests have ended like this, once there is one.
    pub(crate) fn count(&self, ending: Ending) -> u64 {
        let start = Instant::now();
        while self.runtime.tallies().count(ending) == 0 {
            assert!(start.elapsed() < PATIENCE, "none is {}", ending.name());
            thread::yield_now();
        }
        self.runtime.tallies().count(ending)
    }

    /// Waits until so many requests have ended like this.
    pub(crate) fn counts(&self, ending: Ending, expected: u64) {
        let (start, count) = (Instant::now(), || self.runtime.tallies().count(ending));
        while count() != expected {
            assert!(start.elapsed() < PATIENCE, "{} are {}", count(), ending.name());
            thread::yield_now();
        }
    }

    /// How many copies have come to this, once there is one.
    pub(crate) fn copies(&self, result: CopyResult) -> u64 {
        self.copies_after(result, 0)
    }

    /// The same, once there are more than `known`.
    pub(crate) fn copies_after(&self, result: CopyResult, known: u64) -> u64 {
        let start = Instant::now();
        loop {
            let count = self.tally("one").copies[result as usize];
            if count > known {
                return count;
            }
            assert!(start.elapsed() < PATIENCE, "none is {}", result.name());
            thread::yield_now();
        }
    }

    /// What has been counted of a service.
    pub(crate) fn tally(&self, service: &str) -> ServiceTally {
        self.runtime.tallies().services.remove(service).unwrap_or_default()
    }

    /// Stops it, with everything written that it has to tell.
    pub(crate) fn stop(self) {
        self.runtime.stop(Duration::from_secs(5));
    }

    /// How many requests have reached a server.
    pub(crate) fn served(&self) -> u64 {
        self.served.load(Relaxed)
    }
}

/// Reads to the end of the stream.
pub(crate) fn until_closed(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the connection is closed in time");
    text
}

/// The next head that a client sends; none at the end of the stream.
pub(crate) fn head(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

fn service(name: &str, address: SocketAddr) -> Service {
    let group =
        Group { rtt: Some(Duration::ZERO), ..Group::within("here", vec![Server::at(address)]) };
    Service { groups: vec![group], ..Service::named(name) }
}

/// A server as those of [`Proxy::of`], at the Unix socket of this path or name.
pub(crate) fn mirror_at(path: &str, name: &'static str) {
    let listener = match path.strip_prefix('@') {
        Some(name) => {
            let address = UnixAddress::from_abstract_name(name).expect("a name");
            UnixListener::bind_addr(&address)
        }
        None => UnixListener::bind(path),
    };
    let listener = listener.expect("a socket");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || reflect(stream, name, &AtomicU64::new(0)));
        }
    });
}

/// A server that answers each request with the head it got, and its name.
fn mirror(name: &'static str, served: Arc<AtomicU64>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let served = served.clone();
            thread::spawn(move || reflect(stream, name, &served));
        }
    });
    address
}

fn reflect(stream: impl Read + Write, name: &str, served: &AtomicU64) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut body, mut length) = (String::new(), 0);
        while !body.ends_with("\r\n\r\n") {
            let start = body.len();
            if !matches!(reader.read_line(&mut body), Ok(1..)) {
                return;
            }
            if let Some(value) = body[start..].to_ascii_lowercase().strip_prefix("content-length:")
            {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut payload = vec![0; length];
        if reader.read_exact(&mut payload).is_err() {
            return;
        }
        served.fetch_add(1, Relaxed);
        body.push_str(name);
        let fields = format!("Server: mirror\r\nContent-Length: {}\r\n", body.len());
        let answer = format!("HTTP/1.1 200 OK\r\n{fields}\r\n{body}");
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
