//! What the machine's resources did on the time axis of a run.
//!
//! A sample holds what happened since the sample before it: CPU as shares, traffic per second,
//! events as counts; and, as they stood at its instant, levels such as sockets and descriptors.

use core::fmt;

use serde::{Deserialize, Serialize};

use super::number;
use loadline_core::time::Duration;

/// What the machine's resources did on the time axis of a run, and which of them gave out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResourceRecord {
    /// What was watched: a command line, or processes.
    pub target: String,
    /// When the watch began, in milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// Time from one sample to the next; the last may be shorter.
    #[serde(rename = "interval_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub interval: Duration,
    /// How long it was watched.
    #[serde(rename = "elapsed_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub elapsed: Duration,
    /// What does not change while a run lasts.
    pub machine: Machine,
    /// The processes that were watched, children included, in the order they were first seen.
    pub processes: Vec<Process>,
    /// One after another.
    pub samples: Vec<Sample>,
    /// Which resource gave out first, and by what evidence.
    pub verdict: BottleneckVerdict,
    /// What could not be read, and so was not judged.
    pub not_seen: Vec<String>,
    /// What watching cost: CPU time of the sampler as a share of one core.
    pub sampler_cpu_share: f64,
}

/// The parts of a machine that limit it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// Cores that are online.
    pub cores: u32,
    /// Ports that the kernel gives to outgoing connections.
    pub ephemeral_ports: u64,
    /// Interfaces with traffic or a limit, loopback included.
    pub interfaces: Vec<Interface>,
}

/// A network interface and what is known of its limit in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interface {
    /// Its name; `lo` is the loopback.
    pub name: String,
    /// The speed its driver reports; virtual interfaces report none, or one they cannot hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_bytes_per_s: Option<u64>,
    /// The limit that was given for the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_bytes_per_s: Option<u64>,
}

/// A process that was watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The name of its program, of at most 15 characters as the kernel keeps it.
    pub name: String,
    /// Its part in the run.
    pub role: Role,
    /// First seen.
    #[serde(rename = "from_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub from: Duration,
    /// Last seen.
    #[serde(rename = "until_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub until: Duration,
    /// Whether it ended while it was watched.
    pub ended: bool,
    /// Descriptors it may open; none where it could not be read or is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptor_limit: Option<u64>,
}

/// The part of a process in a run.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It puts the load on.
    Generator,
    /// It takes requests and passes them on.
    LoadBalancer,
    /// It answers requests.
    Server,
    /// No part was named.
    #[default]
    Watched,
}

/// What happened between one instant and the one before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// Since the watch began.
    #[serde(rename = "at_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub at: Duration,
    /// All cores together.
    pub cpu: Cpu,
    /// Each core.
    pub cores: Vec<Cpu>,
    /// Threads that run or could run at this instant, on the whole machine.
    pub running: u64,
    /// Mean length of the run queue over the last minute.
    pub load_1min: f64,
    /// The watched processes that lived.
    pub processes: Vec<ProcessSample>,
    /// Interfaces with traffic in this run.
    pub interfaces: Vec<InterfaceSample>,
    /// TCP over IPv4 and IPv6.
    pub sockets: Sockets,
}

/// Where the time of a core, or of all, went: shares that sum to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// Programs, niced ones included.
    pub user: f64,
    /// The kernel on behalf of programs, hardware interrupts included.
    pub system: f64,
    /// The kernel's deferred work: most of all, packets.
    pub softirq: f64,
    /// Taken by the host: wanted, and given to another guest or withheld.
    pub steal: f64,
    /// Nothing to do, or waiting for a disk.
    pub idle: f64,
}

impl Cpu {
    /// The share that was not idle, steal included.
    #[must_use]
    pub fn busy(&self) -> f64 {
        1.0 - self.idle
    }
}

/// One process in one sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessSample {
    /// Its number.
    pub pid: u32,
    /// Cores' worth of time in the program.
    pub user: f64,
    /// Cores' worth of time in the kernel.
    pub system: f64,
    /// The busiest of its threads: a share of one core.
    pub busiest_thread: f64,
    /// Threads at this instant.
    pub threads: u64,
    /// Memory that is resident.
    pub rss_bytes: u64,
    /// Descriptors open at this instant; none where they may not be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptors: Option<u64>,
}

impl ProcessSample {
    /// Cores' worth of time in all.
    #[must_use]
    pub fn cores(&self) -> f64 {
        self.user + self.system
    }
}

/// One interface in one sample, link headers included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceSample {
    /// Its name.
    pub name: String,
    /// Bytes in.
    pub received_bytes_per_s: u64,
    /// Bytes out.
    pub sent_bytes_per_s: u64,
    /// Packets in.
    pub received_packets_per_s: u64,
    /// Packets out.
    pub sent_packets_per_s: u64,
    /// Packets dropped in either direction, a count.
    pub dropped: u64,
}

impl InterfaceSample {
    /// Bytes per second in the busier direction.
    #[must_use]
    pub fn busier_bytes_per_s(&self) -> u64 {
        self.received_bytes_per_s.max(self.sent_bytes_per_s)
    }
}

/// TCP in one sample: levels at its instant, events since the sample before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sockets {
    /// Connections that are established or whose peer has closed.
    pub established: u64,
    /// Connections in TIME_WAIT, which keep their port for a minute.
    pub time_wait: u64,
    /// Connections that no process holds any more and that are not closed yet.
    pub orphaned: u64,
    /// Memory of send and receive buffers.
    pub buffer_bytes: u64,
    /// Ephemeral ports in use towards the busiest destination. They are counted as often as takes
    /// 2 % of a core, which may be less than once a sample; in between the last count stands.
    pub ports_in_use: u64,
    /// Connections that wait in the longest listen queue, counted together with the ports.
    pub longest_listen_queue: u64,
    /// Connections refused or delayed because a listen queue was full, a count.
    pub listen_overflows: u64,
    /// Connections that a listener dropped for any reason, overflows included, a count.
    pub listen_drops: u64,
    /// Segments sent, a count.
    pub segments_sent: u64,
    /// Segments sent again, a count.
    pub segments_resent: u64,
}

/// Which resources gave out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BottleneckVerdict {
    /// In the order in which they gave out; empty where none did.
    pub bottlenecks: Vec<Bottleneck>,
    /// How near the others came, and what limits the judgement.
    pub remarks: Vec<String>,
}

impl BottleneckVerdict {
    /// What gave out first.
    #[must_use]
    pub fn first(&self) -> Option<&Bottleneck> {
        self.bottlenecks.first()
    }
}

/// A resource that gave out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bottleneck {
    /// Which.
    pub resource: Resource,
    /// From when on, since the watch began.
    #[serde(rename = "since_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub since: Duration,
    /// The figures that show it, a sentence each.
    pub evidence: Vec<String>,
}

/// What can give out.
///
/// Declared from cause to effect: of two that give out together the earlier one is named first. A
/// host that withholds its CPU fills the cores that are left, and full cores make queues grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// CPU time that the host withholds: its other guests, or spent CPU credits.
    Steal,
    /// The open files a process may have.
    Descriptors,
    /// Ephemeral ports towards one destination.
    Ports,
    /// Bytes per second of an interface.
    Network,
    /// CPU of what puts the load on: the run measures the generator.
    GeneratorCpu,
    /// CPU of the load balancer.
    LoadBalancerCpu,
    /// CPU of a server.
    ServerCpu,
    /// CPU of a process without a named part.
    WatchedCpu,
    /// The kernel's packet work on a core.
    Softirq,
    /// All cores, shared by several.
    MachineCpu,
    /// A server's queue: it is idle, or out of our sight, and requests wait for it.
    ServerQueue,
    /// The generator found itself at fault.
    Generator,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Steal => "CPU time that the host withholds (steal)",
            Self::Descriptors => "descriptors",
            Self::Ports => "ephemeral ports",
            Self::Network => "network rate",
            Self::GeneratorCpu => "CPU of the generator itself",
            Self::LoadBalancerCpu => "CPU of the load balancer",
            Self::ServerCpu => "CPU of the server",
            Self::WatchedCpu => "CPU of a watched process",
            Self::Softirq => "CPU of a core, by packets (softirq)",
            Self::MachineCpu => "CPU of the whole machine",
            Self::ServerQueue => "the server's queue",
            Self::Generator => "the generator itself",
        })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Generator => "generator",
            Self::LoadBalancer => "lb",
            Self::Server => "server",
            Self::Watched => "watched",
        })
    }
}
