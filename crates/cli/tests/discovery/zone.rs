//! A real name server (Knot DNS) for the zone `test`, on a port of the loopback.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::{TcpListener, UdpSocket},
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    thread,
};

/// A name server whose zone can be changed; it ends when this is dropped.
pub(crate) struct Zone {
    process: Option<Child>,
    folder: tempfile::TempDir,
    pub(crate) port: u16,
    serial: u32,
}

impl Zone {
    /// A name server that tells these records, which are lines of a zone file.
    pub(crate) fn start(records: &str) -> Self {
        let port = free_port();
        let folder = tempfile::tempdir().unwrap();
        let mut zone = Self { process: None, folder, port, serial: 0 };
        zone.write(records);
        fs::write(zone.folder.path().join("knot.conf"), settings(zone.folder.path(), port))
            .unwrap();
        zone.run();
        zone
    }

    /// Tells other records from now on.
    pub(crate) fn set(&mut self, records: &str) {
        self.write(records);
        self.signal("HUP");
    }

    /// Hears questions and answers none.
    pub(crate) fn hang(&self) {
        self.signal("STOP");
    }

    /// Goes on after that.
    pub(crate) fn wake(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        if let Some(process) = &self.process {
            let id = process.id().to_string();
            assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
        }
    }

    /// Answers nobody any more.
    pub(crate) fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Answers again, on the same port.
    pub(crate) fn run(&mut self) {
        let mut command = Command::new("knotd");
        let command = command.arg("-c").arg(self.folder.path().join("knot.conf"));
        let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("`make test` installs knotd");
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        self.process = Some(process);
        let mut said = Vec::new();
        while !said.last().is_some_and(|it: &String| it.contains("server started")) {
            said.push(lines.next().unwrap_or_else(|| panic!("{said:#?}")).unwrap());
        }
        // What else it says has to go somewhere.
        thread::spawn(move || lines.for_each(drop));
    }

    fn write(&mut self, records: &str) {
        self.serial += 1;
        let text = format!(
            "$ORIGIN test.\n$TTL 1\n@ SOA ns.test. me.test. {} 60 60 60 1\n@ NS ns\n\
             ns A 127.0.0.1\n{records}\n",
            self.serial
        );
        fs::write(self.folder.path().join("test.zone"), text).unwrap();
    }
}

impl Drop for Zone {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // Both fail where it has ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// A port that nobody has, for both protocols. It is below those that the kernel gives to clients,
/// so that none of them takes it while the name server is away.
fn free_port() -> u16 {
    static TRIED: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 1_000) as u16 * 10;
    let free = |port| {
        let both = UdpSocket::bind(("127.0.0.1", port)).is_ok()
            && TcpListener::bind(("127.0.0.1", port)).is_ok();
        both.then_some(port)
    };
    let ports = (0..1_000).map(|_| first + TRIED.fetch_add(1, Ordering::Relaxed) % 1_000);
    ports.into_iter().find_map(free).expect("a free port")
}

fn settings(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    format!(
        "server:\n    rundir: {folder}\n    listen: 127.0.0.1@{port}\n    udp-workers: 1\n    \
         tcp-workers: 1\n    background-workers: 1\nlog:\n  - target: stderr\n    any: info\n\
         database:\n    storage: {folder}\nzone:\n  - domain: test\n    storage: {folder}\n    \
         file: test.zone\n    journal-content: none\n    zonefile-load: whole\n    \
         zonefile-sync: -1\n"
    )
}
