//! One look at the machine: counters as they stand.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::{self, File},
    io::{self, BufRead as _, BufReader},
};

use loadline_core::time::{Duration, Instant};
use loadline_linux::{
    clock::now,
    proc::{self, CpuTicks, Traffic, text},
};
use loadline_measure::record::{self, Interface};
use rustix::param::page_size;

use super::{
    NetLimit,
    processes::{ProcessReading, Processes},
};

/// Everything that is read, at one instant.
pub(super) struct Reading {
    /// Since the watch began.
    pub(super) at: Duration,
    /// All cores together.
    pub(super) cpu: CpuTicks,
    pub(super) cores: Vec<CpuTicks>,
    pub(super) running: u64,
    pub(super) load_1min: f64,
    pub(super) interfaces: BTreeMap<String, Traffic>,
    /// Levels as they stand; events as counted since the machine was started.
    pub(super) sockets: record::Sockets,
    pub(super) processes: BTreeMap<u32, ProcessReading>,
}

impl Reading {
    /// Reads processes and then the machine.
    pub(super) fn take(
        began: Instant,
        at: Duration,
        machine: &mut Machine,
        processes: &mut Processes,
    ) -> Self {
        let processes = processes.read(at);
        let stat = machine.text("/proc/stat");
        let mut cpus = proc::cpus(&stat).into_iter();
        let load = machine.text("/proc/loadavg");
        let load = load.split_ascii_whitespace().next().and_then(|load| load.parse().ok());
        Self {
            // The middle of it: a thousand processes take milliseconds to read.
            at: at + now().since(began + at) / 2,
            cpu: cpus.next().unwrap_or_default(),
            cores: cpus.collect(),
            running: proc::named(&stat, "procs_running").unwrap_or_default(),
            load_1min: load.unwrap_or_default(),
            interfaces: proc::interfaces(&machine.text("/proc/net/dev")).collect(),
            sockets: machine.sockets(),
            processes,
        }
    }
}

/// What of the machine does not change, and what of it could not be read.
pub(super) struct Machine {
    ports: (u16, u16),
    unread: BTreeSet<&'static str>,
    table: Table,
    /// When the table may be read again.
    table_due: Instant,
}

impl Machine {
    /// # Errors
    /// The system's where `/proc` is not that of Linux.
    pub(super) fn open() -> io::Result<Self> {
        fs::metadata("/proc/stat")?;
        let range = text(PORT_RANGE).unwrap_or_default();
        let mut ends = range.split_ascii_whitespace().filter_map(|end| end.parse().ok());
        let ports = ends.next().zip(ends.next());
        let (unread, table, table_due) = (BTreeSet::new(), Table::default(), Instant::ZERO);
        Ok(Self { ports: ports.unwrap_or(USUAL_PORTS), unread, table, table_due })
    }

    /// A file's text; an empty one, and a remark, where it cannot be read.
    fn text(&mut self, path: &'static str) -> String {
        text(path).unwrap_or_else(|| {
            self.unread.insert(path);
            String::new()
        })
    }

    fn sockets(&mut self) -> record::Sockets {
        let sockstat = self.text("/proc/net/sockstat");
        let snmp = self.text("/proc/net/snmp");
        let netstat = self.text("/proc/net/netstat");
        let of = |name| proc::sockstat(&sockstat, "TCP", name).unwrap_or_default();
        let tcp = |name| proc::counter(&snmp, "Tcp", name).unwrap_or_default();
        let extended = |name| proc::counter(&netstat, "TcpExt", name).unwrap_or_default();
        let began = now();
        if began >= self.table_due {
            self.table = Table::read(self.ports);
            self.table_due = began + now().since(began) * TABLE_REST;
        }
        record::Sockets {
            established: tcp("CurrEstab"),
            time_wait: of("tw"),
            orphaned: of("orphan"),
            buffer_bytes: of("mem") * page_size() as u64,
            ports_in_use: self.table.ports_in_use,
            longest_listen_queue: self.table.longest_queue,
            listen_overflows: extended("ListenOverflows"),
            listen_drops: extended("ListenDrops"),
            segments_sent: tcp("OutSegs"),
            segments_resent: tcp("RetransSegs"),
        }
    }

    fn port_count(&self) -> u64 {
        u64::from(self.ports.1.saturating_sub(self.ports.0)) + 1
    }

    /// The machine as a record has it, and what nobody told about it.
    pub(super) fn describe(
        &self,
        readings: &[Reading],
        limits: &[NetLimit],
    ) -> (record::Machine, Vec<String>) {
        let mut not_seen: Vec<String> = self.unread.iter().map(|path| (*path).into()).collect();
        let last = readings.last();
        let names = last.map(|reading| reading.interfaces.keys()).into_iter().flatten();
        let interfaces: Vec<Interface> = names.map(|name| interface(name, limits)).collect();
        for limit in limits {
            if let Some(name) = &limit.interface
                && !interfaces.iter().any(|interface| interface.name == *name)
            {
                not_seen.push(format!("{name}: there is no interface of this name"));
            }
        }
        let cores = last.map_or(0, |reading| reading.cores.len() as u32);
        let machine = record::Machine { cores, ephemeral_ports: self.port_count(), interfaces };
        (machine, not_seen)
    }
}

/// What the tables of sockets say.
#[derive(Clone, Copy, Default)]
struct Table {
    ports_in_use: u64,
    longest_queue: u64,
}

impl Table {
    /// Goes through the sockets one by one; `ports` are the first and the last ephemeral one.
    fn read(ports: (u16, u16)) -> Self {
        let mut towards: HashMap<(u128, u128, u16), u64> = HashMap::new();
        let mut longest_queue = 0;
        for path in ["/proc/net/tcp", "/proc/net/tcp6"] {
            let lines = File::open(path).into_iter().flat_map(|file| BufReader::new(file).lines());
            for socket in lines.map_while(Result::ok).filter_map(|line| proc::socket(&line)) {
                let (local, port) = socket.local;
                if socket.is_listening {
                    longest_queue = longest_queue.max(socket.received);
                } else if (ports.0..=ports.1).contains(&port) {
                    *towards.entry((local, socket.remote.0, socket.remote.1)).or_default() += 1;
                }
            }
        }
        Self { ports_in_use: towards.values().copied().max().unwrap_or(0), longest_queue }
    }
}

fn interface(name: &str, limits: &[NetLimit]) -> Interface {
    let speed = text(format!("/sys/class/net/{name}/speed"));
    // In megabits; a virtual interface has none, and some say -1.
    let speed = speed.and_then(|speed| speed.trim().parse::<u64>().ok());
    let given = limits.iter().rev().find(|limit| limit.is_for(name));
    Interface {
        name: name.to_owned(),
        speed_bytes_per_s: speed.filter(|speed| *speed > 0).map(|speed| speed * 125_000),
        given_bytes_per_s: given.map(|limit| limit.bytes_per_s),
    }
}

const PORT_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// What Linux comes with.
const USUAL_PORTS: (u16, u16) = (32_768, 60_999);

/// Reading the table makes the kernel walk its hash of all connections, 10 ms where the machine has
/// memory for many and few are there. Resting so many times as long keeps it to 2 % of a core.
const TABLE_REST: u64 = 50;
