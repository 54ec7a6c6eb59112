//! A proxy before a store, and clients that read what comes.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    time::{Duration as StdDuration, Instant, SystemTime},
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{Edge, Fleet, Group, Listener, Server, Service, Store, StorePlace},
    time::Duration,
};
use loadline_proxy::runtime::Runtime;
use tempfile::TempDir;

/// Longer than anything takes that goes right.
const PATIENCE: StdDuration = StdDuration::from_secs(10);

/// A proxy whose only service has these servers in its only group.
pub(crate) struct Proxy {
    pub(crate) runtime: Runtime,
    pub(crate) address: SocketAddr,
}

impl Proxy {
    pub(crate) fn to(server: Server) -> Self {
        Self::with(server, |_| {})
    }

    /// One with other settings.
    pub(crate) fn with(server: Server, change: impl FnOnce(&mut Fleet)) -> Self {
        let edge =
            Edge { threads: 1, drain_timeout: Duration::from_secs(1), ..Edge::within("here") };
        let group = Group { rtt: Some(Duration::ZERO), ..Group::within("here", vec![server]) };
        let bind = SocketAddr::from(([127, 0, 0, 1], 0));
        let services = vec![Service { groups: vec![group], ..Service::named("store") }];
        let mut fleet = Fleet::of(edge, vec![Listener::new(bind, 0)], services);
        change(&mut fleet);
        let runtime = Runtime::start(fleet).expect("a proxy");
        let address = runtime.local_addrs()[0];
        Self { runtime, address }
    }

    /// A GET of this target, on a connection of its own, with these lines in its head.
    pub(crate) fn get(&self, target: &str, lines: &str) -> Response {
        self.ask("GET", target, lines)
    }

    pub(crate) fn ask(&self, method: &str, target: &str, lines: &str) -> Response {
        let head =
            format!("{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{lines}\r\n");
        Response::read(self.send(head.as_bytes()))
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.write_all(bytes).expect("a request is taken");
        stream
    }

    /// Waits until so many requests have ended like this.
    pub(crate) fn expect(&self, ending: Ending, count: u64) {
        let start = Instant::now();
        while self.runtime.tallies().count(ending) < count {
            assert!(start.elapsed() < PATIENCE, "no {count} are {}", ending.name());
            std::thread::yield_now();
        }
        assert_eq!(self.runtime.tallies().count(ending), count, "{}", ending.name());
    }
}

/// A response whose connection is closed behind it.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn read(mut stream: TcpStream) -> Self {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("a response until its end");
        let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").expect("a head") + 4;
        let body = bytes.split_off(end);
        Self { head: String::from_utf8(bytes).expect("a head in ASCII"), body }
    }

    pub(crate) fn status(&self) -> u16 {
        self.head[9..12].parse().expect("a status")
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The value of the field with this name.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// A directory with files that were changed long ago.
pub(crate) struct Site {
    pub(crate) directory: TempDir,
}

impl Site {
    pub(crate) fn of(files: &[(&str, &[u8])]) -> Self {
        let site = Self { directory: tempfile::tempdir().expect("a directory") };
        files.iter().for_each(|(name, bytes)| site.put(name, bytes));
        site
    }

    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(&path, bytes).expect("a file");
        let file = fs::File::options().write(true).open(&path).expect("a file");
        let settled = SystemTime::now() - StdDuration::from_secs(60);
        file.set_modified(settled).expect("a time");
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn proxy(&self) -> Proxy {
        self.proxy_with(|_| {})
    }

    /// One whose store has other settings.
    pub(crate) fn proxy_with(&self, change: impl FnOnce(&mut Store)) -> Proxy {
        let root = self.path().to_str().expect("a path in UTF-8").to_owned();
        let mut store = Store::at(StorePlace::Files(root));
        change(&mut store);
        Proxy::to(Server::of_files(store))
    }
}
