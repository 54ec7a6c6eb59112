//! A balancer as a process of its own, which can be killed: this test once more, told by its
//! environment what it is.
#![expect(clippy::print_stderr, reason = "how the process says what it is")]

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead as _, BufReader},
    net::{IpAddr, SocketAddr},
    path::Path,
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    thread::{self, sleep},
    time::{Duration, Instant},
};

use loadline_core::state::Standby as State;
use loadline_l4::{
    Datapath,
    ring::Ring,
    standby::{Settings, Standby},
};

use crate::{METHODS, at, forward, host::Host, members, service_of};

/// The last part of the address of each of the two.
pub(crate) const ENDS: [u16; 2] = [8, 18];

/// A running balancer, killed when it is dropped.
pub(crate) struct Balancer {
    process: Child,
    said: Arc<Mutex<String>>,
}

impl Balancer {
    /// Starts one of the two on a host. The directory has their key.
    pub(crate) fn start(host: &Host, which: usize, directory: &Path) -> Self {
        let program = env::current_exe().unwrap();
        let mut command = host.command(program.to_str().unwrap());
        command.args(["--exact", thread::current().name().unwrap(), "--nocapture"]);
        command.env(WHICH, which.to_string()).env(DIRECTORY, directory);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (lines, heard) = (BufReader::new(process.stderr.take().unwrap()), said.clone());
        thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                *heard.lock().unwrap() = line;
            }
        });
        Self { process, said }
    }

    /// Waits until it says that it is so.
    pub(crate) fn until(&self, what: &str) {
        let start = Instant::now();
        while *self.said.lock().unwrap() != what {
            let said = self.said.lock().unwrap().clone();
            assert!(start.elapsed() < PATIENCE, "not `{what}` but `{said}`");
            sleep(TURN);
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// As `kill -9` does.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Whether this process is one of them.
pub(crate) fn is_one() -> bool {
    env::var(WHICH).is_ok()
}

/// What that process does: forwards, tells or follows, and says when something about that has
/// changed. It ends by itself.
pub(crate) fn work() {
    let which: usize = env::var(WHICH).unwrap().parse().unwrap();
    let directory = env::var(DIRECTORY).unwrap();
    // The second has other weights, so that its own rings would lead many connections elsewhere.
    let weight = |server: u16| if which == 0 { 1 } else { u32::from(server) };
    let first = 7 * which as u16;
    let mut datapath = forward(ENDS[which], first, weight);
    let mut standby = standby(which, Path::new(&directory));
    let mut before = String::new();
    let end = Instant::now() + LIFE;
    while Instant::now() < end {
        if standby.turn(&mut datapath, &mut |_| None).unwrap() {
            resume(&mut datapath, |v6| members(first, v6, weight));
        }
        let says = says(&standby.state());
        if says != before {
            eprintln!("{says}");
            before = says;
        }
        sleep(TURN);
    }
}

fn standby(which: usize, directory: &Path) -> Standby {
    let end = |which: usize| SocketAddr::new(at(0, ENDS[which], false), 4_343);
    let settings = Settings {
        bind: end(which),
        peers: vec![end(1 - which)],
        key_file: directory.join("key"),
        router: 51,
        addresses: addresses(),
    };
    Standby::new(&settings).unwrap()
}

/// Those that move.
pub(crate) fn addresses() -> Vec<IpAddr> {
    let services = METHODS.into_iter().map(|(_, host)| host).chain([crate::RETURN]);
    let both = services.flat_map(|host| [at(0, host, false), at(0, host, true)]);
    both.collect()
}

/// Brings the rings of the other one to what this one wants.
fn resume(datapath: &mut Datapath, wanted: impl Fn(bool) -> Box<[u16]>) {
    let now = Datapath::now();
    let wanted = BTreeMap::from([false, true].map(|v6| (v6, wanted(v6))));
    for ((_, host), v6) in METHODS.into_iter().flat_map(|one| [(one, false), (one, true)]) {
        let service = service_of(host, v6);
        let mut ring = Ring::resume(now, &datapath.ring(service).unwrap());
        ring.assign(now, &wanted[&v6]);
        datapath.publish(service, ring.entries()).unwrap();
    }
}

/// Role, how far the other knows the same, and whether all has arrived.
fn says(state: &State) -> String {
    let peer = &state.peers[0];
    let rest = match peer.behind {
        Some(0) => "all".to_owned(),
        Some(_) => "some".to_owned(),
        None => format!("{} unplaced", state.unplaced),
    };
    format!("{} {} {rest}", state.role.name(), peer.link.name())
}

const WHICH: &str = "LOADLINE_TEST_BALANCER";
const DIRECTORY: &str = "LOADLINE_TEST_DIRECTORY";

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const LIFE: Duration = Duration::from_secs(180);
const TURN: Duration = Duration::from_millis(10);
