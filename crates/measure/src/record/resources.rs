//! What the machine's resources did on the time axis of a run.
//!
//! A sample holds what happened since the sample before it: CPU as shares, traffic per second,
//! events as counts; and, as they stood at its instant, levels such as sockets and descriptors.

use core::fmt;

use serde::{Deserialize, Serialize};

use super::number;
use loadline_core::time::Duration;

/// Use of a machine's resources over time, and which resource was exhausted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResourceRecord {
    /// What was watched: a command line, or processes.
    pub target: String,
    /// Start, in milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// Time between two samples, in seconds; the last one may be shorter.
    #[serde(rename = "interval_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub interval: Duration,
    /// Duration in seconds.
    #[serde(rename = "elapsed_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub elapsed: Duration,
    /// Properties of the machine.
    pub machine: Machine,
    /// Watched processes, their children included, in the order in which they were first seen.
    pub processes: Vec<Process>,
    /// Samples over time.
    pub samples: Vec<Sample>,
    /// Verdict: which resource was exhausted first, with the evidence.
    pub verdict: BottleneckVerdict,
    /// Values that could not be read and so were not judged.
    pub not_seen: Vec<String>,
    /// CPU time of the watch itself as a share of one core.
    pub sampler_cpu_share: f64,
}

/// Properties of a machine that limit it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// Number of online CPU cores.
    pub cores: u32,
    /// Number of ephemeral ports for outgoing connections.
    pub ephemeral_ports: u64,
    /// Network interfaces with traffic or a limit, loopback included.
    pub interfaces: Vec<Interface>,
}

/// A network interface and its limits in each direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interface {
    /// Name of the interface; `lo` is the loopback.
    pub name: String,
    /// Speed that the driver reports; virtual interfaces report none, or one that they cannot
    /// reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_bytes_per_s: Option<u64>,
    /// Limit given with `--net-limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_bytes_per_s: Option<u64>,
}

/// A watched process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Name of the program, at most 15 characters, from the kernel.
    pub name: String,
    /// Role of the process in the run.
    pub role: Role,
    /// Time at which it was first seen, in seconds since the start.
    #[serde(rename = "from_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub from: Duration,
    /// Time at which it was last seen, in seconds since the start.
    #[serde(rename = "until_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub until: Duration,
    /// Whether the process ended during the watch.
    pub ended: bool,
    /// Limit of open file descriptors; absent if it could not be read or there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptor_limit: Option<u64>,
}

/// Role of a process in a run.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Load generator.
    Generator,
    /// Load balancer: takes requests and passes them on.
    LoadBalancer,
    /// Server: responds to requests.
    Server,
    /// No role was given.
    #[default]
    Watched,
}

/// One sample: use of resources since the sample before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// Time of the sample, in seconds since the start.
    #[serde(rename = "at_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub at: Duration,
    /// CPU time of all cores together.
    pub cpu: Cpu,
    /// CPU time of each core.
    pub cores: Vec<Cpu>,
    /// Runnable threads on the whole machine at this moment.
    pub running: u64,
    /// Load average over the last minute.
    pub load_1min: f64,
    /// Watched processes that were running.
    pub processes: Vec<ProcessSample>,
    /// Network interfaces with traffic in this run.
    pub interfaces: Vec<InterfaceSample>,
    /// TCP sockets, IPv4 and IPv6.
    pub sockets: Sockets,
}

/// Use of CPU time, of one core or of all, as shares that sum to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// User programs, niced ones included.
    pub user: f64,
    /// Kernel on behalf of programs, hardware interrupts included.
    pub system: f64,
    /// Softirqs: deferred work of the kernel, mostly packets.
    pub softirq: f64,
    /// Steal: time that the host gave to another guest or withheld.
    pub steal: f64,
    /// Idle, or waiting for a disk.
    pub idle: f64,
}

impl Cpu {
    /// The share that was not idle, steal included.
    #[must_use]
    pub fn busy(&self) -> f64 {
        1.0 - self.idle
    }
}

/// A process in one sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessSample {
    /// Process id.
    pub pid: u32,
    /// CPU time in user mode, in cores.
    pub user: f64,
    /// CPU time in the kernel, in cores.
    pub system: f64,
    /// CPU time of its busiest thread, as a share of one core.
    pub busiest_thread: f64,
    /// Number of threads.
    pub threads: u64,
    /// Resident memory.
    pub rss_bytes: u64,
    /// Number of open file descriptors; absent if they could not be counted.
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

/// A network interface in one sample, link headers included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceSample {
    /// Name of the interface.
    pub name: String,
    /// Bytes received per second.
    pub received_bytes_per_s: u64,
    /// Bytes sent per second.
    pub sent_bytes_per_s: u64,
    /// Packets received per second.
    pub received_packets_per_s: u64,
    /// Packets sent per second.
    pub sent_packets_per_s: u64,
    /// Number of packets dropped in either direction.
    pub dropped: u64,
}

impl InterfaceSample {
    /// Bytes per second in the busier direction.
    #[must_use]
    pub fn busier_bytes_per_s(&self) -> u64 {
        self.received_bytes_per_s.max(self.sent_bytes_per_s)
    }
}

/// TCP in one sample: levels at this moment, and events since the sample before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sockets {
    /// Connections in ESTABLISHED or CLOSE_WAIT.
    pub established: u64,
    /// Connections in TIME_WAIT; each keeps its port for a minute.
    pub time_wait: u64,
    /// Orphaned connections: not closed yet, and no longer held by a process.
    pub orphaned: u64,
    /// Memory of send and receive buffers, in bytes.
    pub buffer_bytes: u64,
    /// Ephemeral ports in use towards the busiest destination. Counting them is limited to 2 % of a
    /// core, so that a sample may have the count of an earlier one.
    pub ports_in_use: u64,
    /// Connections waiting in the longest listen queue, counted together with `ports_in_use`.
    pub longest_listen_queue: u64,
    /// Number of connections refused or delayed because a listen queue was full.
    pub listen_overflows: u64,
    /// Number of connections that a listener dropped for any reason, `listen_overflows` included.
    pub listen_drops: u64,
    /// Number of segments sent.
    pub segments_sent: u64,
    /// Number of segments retransmitted.
    pub segments_resent: u64,
}

/// Which resources were exhausted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BottleneckVerdict {
    /// Exhausted resources, in the order of time; empty if there are none.
    pub bottlenecks: Vec<Bottleneck>,
    /// Remarks: how close other resources came to their limit, and what limits the verdict.
    pub remarks: Vec<String>,
}

impl BottleneckVerdict {
    /// What gave out first.
    #[must_use]
    pub fn first(&self) -> Option<&Bottleneck> {
        self.bottlenecks.first()
    }
}

/// An exhausted resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bottleneck {
    /// Name of the resource.
    pub resource: Resource,
    /// Time since which it was exhausted, in seconds since the start.
    #[serde(rename = "since_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub since: Duration,
    /// Evidence: sentences with figures.
    pub evidence: Vec<String>,
}

/// A resource that can be exhausted.
///
/// They are declared from cause to effect: of two that are exhausted together, the earlier one is
/// named first. A host that withholds its CPU fills the cores that are left, and full cores make
/// queues grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Steal: CPU time that the host withholds for other guests or for want of CPU credits.
    Steal,
    /// Open file descriptors of a process.
    Descriptors,
    /// Ephemeral ports towards one destination.
    Ports,
    /// Bandwidth of a network interface.
    Network,
    /// CPU of the load generator: the run measures the generator, not the service.
    GeneratorCpu,
    /// CPU of the load balancer.
    LoadBalancerCpu,
    /// CPU of a server.
    ServerCpu,
    /// CPU of a process without a role.
    WatchedCpu,
    /// Softirqs on a core: packet processing of the kernel.
    Softirq,
    /// CPU of all cores together.
    MachineCpu,
    /// Queue of a server: requests wait although no resource of it that could be watched is
    /// exhausted.
    ServerQueue,
    /// The load generator, by its own account.
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
