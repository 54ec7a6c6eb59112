//! Processes that the benchmark starts: pinned to a core, ended with it, and their CPU time.
//!
//! CPU time is that of the process and its descendants (nginx works in a child). Nanoseconds come
//! from `schedstat` of every thread; the share of user time from `stat`, which counts in ticks.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::param::page_size;
use rustix::process::{Pid, Resource, Rlimit, Signal};

/// A process that ends with this value.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
}

/// CPU time spent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuTime {
    /// All of it, user and system.
    pub(crate) total: Duration,
    user_ticks: u64,
    system_ticks: u64,
}

impl Process {
    /// Starts a program on one core, its output in `log`.
    ///
    /// `setpriv` asks the kernel to end the program when the thread that called this ends, so that
    /// nothing survives a benchmark that was killed. It must be called from a lasting thread.
    pub(crate) fn start(core: usize, command: &[String], log: &Path) -> Result<Self> {
        let name = command.first().context("a command has a program")?.clone();
        let log = fs::File::create(log).with_context(|| format!("create {}", log.display()))?;
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "taskset", "-c", &core.to_string()])
            .args(command)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {name}"))?;
        Ok(Self { name, child })
    }

    /// Waits until something accepts connections on the port.
    pub(crate) fn wait_for(&mut self, port: u16) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended before it listened: {status}", self.name);
            }
            if Instant::now() > deadline {
                bail!("{} does not listen on port {port} after {START_TIMEOUT:?}", self.name);
            }
            thread::sleep(Duration::from_millis(20));
        }
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended, and something else listens on port {port}: {status}", self.name);
        }
        Ok(())
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        rustix::process::kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| format!("signal {}", self.name))
    }

    /// What the process and its descendants have spent until now.
    pub(crate) fn cpu_time(&self) -> Result<CpuTime> {
        let mut sum = CpuTime::default();
        for pid in descendants(self.child.id()) {
            sum.add_process(pid).with_context(|| format!("CPU time of {}", self.name))?;
        }
        Ok(sum)
    }

    /// What its threads of this name have spent until now.
    pub(crate) fn thread_time(&self, name: &str) -> Duration {
        let pid = self.child.id();
        let is_named = |thread: &u32| {
            let path = format!("/proc/{pid}/task/{thread}/comm");
            fs::read_to_string(path).is_ok_and(|comm| comm.trim_end() == name)
        };
        threads(pid).into_iter().filter(is_named).map(|thread| spent(pid, thread)).sum()
    }

    /// Begins to look for the most memory anew; tells what is resident now, in bytes.
    pub(crate) fn forget_peak(&self) -> Result<u64> {
        let path = format!("/proc/{}/clear_refs", self.child.id());
        fs::write(&path, "5").with_context(|| format!("write {path}"))?;
        self.resident("VmRSS:")
    }

    /// The most that was resident since then, in bytes.
    pub(crate) fn peak(&self) -> Result<u64> {
        self.resident("VmHWM:")
    }

    fn resident(&self, field: &str) -> Result<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        kilobytes(&status, field).with_context(|| format!("no {field} in {path}"))
    }

    /// The memory of the process and its descendants in bytes ([`memory`]).
    pub(crate) fn memory(&self) -> Result<u64> {
        memory(&descendants(self.child.id()))
    }
}

/// The memory of processes in bytes: the proportional set size, in which what several of them
/// share counts once.
pub(crate) fn memory(pids: &[u32]) -> Result<u64> {
    let mut sum = 0;
    for pid in pids {
        let path = format!("/proc/{pid}/smaps_rollup");
        let rollup = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        sum += kilobytes(&rollup, "Pss:").context("no Pss in smaps_rollup")?;
    }
    Ok(sum)
}

/// What the kernel holds for all TCP connections of the machine, in bytes.
pub(crate) fn tcp_memory() -> Result<u64> {
    let path = "/proc/net/sockstat";
    let counts = fs::read_to_string(path).with_context(|| format!("read {path}"))?;
    let line = counts.lines().find(|line| line.starts_with("TCP:"));
    let pages = line.and_then(|line| line.split_whitespace().last()?.parse::<u64>().ok());
    Ok(pages.with_context(|| format!("no memory of TCP in {path}"))? * page_size() as u64)
}

/// How many connections are open to a port of loopback, by its end.
pub(crate) fn connected(port: u16) -> Result<usize> {
    let path = "/proc/net/tcp";
    let table = fs::read_to_string(path).with_context(|| format!("read {path}"))?;
    Ok(established(&table, port))
}

/// How many UDP sockets are connected to a port of loopback.
pub(crate) fn connected_udp(port: u16) -> Result<usize> {
    let path = "/proc/net/udp";
    let table = fs::read_to_string(path).with_context(|| format!("read {path}"))?;
    let other = format!(":{port:04X}");
    let is_one = |line: &&str| {
        line.split_whitespace().nth(2).is_some_and(|address| address.ends_with(&other))
    };
    Ok(table.lines().filter(is_one).count())
}

/// Lines like `1: 0100007F:1F90 0100007F:C350 01 ...`: number, own end, other end, state.
fn established(table: &str, port: u16) -> usize {
    let (own, established) = (format!(":{port:04X}"), "01");
    let is_one = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        let end = fields.next().unwrap_or_default();
        end.ends_with(&own) && fields.nth(1) == Some(established)
    };
    table.lines().filter(is_one).count()
}

/// Whether a process runs, and has not merely left its entry behind.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| !fields.starts_with(" Z"))
}

impl Drop for Process {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.child);
        // It may have ended by itself; there is nobody to tell.
        let _ = rustix::process::kill_process(pid, Signal::TERM);
        let deadline = Instant::now() + STOP_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl CpuTime {
    /// What was spent since an earlier reading.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            total: self.total.saturating_sub(earlier.total),
            user_ticks: self.user_ticks.saturating_sub(earlier.user_ticks),
            system_ticks: self.system_ticks.saturating_sub(earlier.system_ticks),
        }
    }

    /// The share of it that was spent in user space, 0 to 1; not a number of less than a tick.
    pub(crate) fn user_share(self) -> f64 {
        self.user_ticks as f64 / (self.user_ticks + self.system_ticks) as f64
    }

    fn add_process(&mut self, pid: u32) -> Result<()> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let (user, system) = ticks(&stat).with_context(|| format!("unknown format: {stat}"))?;
        self.user_ticks += user;
        self.system_ticks += system;
        for thread in threads(pid) {
            self.total += spent(pid, thread);
        }
        Ok(())
    }
}

/// Lets this process and its children open as many descriptors as the machine allows: a proxy
/// needs two for each of its connections.
pub(crate) fn raise_descriptor_limit() -> Result<()> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(Resource::Nofile, raised).context("raise the descriptor limit")
}

/// How many descriptors a child may open.
pub(crate) fn descriptor_limit() -> u64 {
    rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Ports on loopback that nobody listens on, below the range from which connections get theirs:
/// a connection of the load would take one of those before its server does. Another benchmark at
/// the same time looks elsewhere.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut free = [0; N];
    let offset = (std::process::id() % 100) as u16 * 100;
    let mut candidates = FIRST_PORT + offset..LAST_PORT;
    for port in &mut free {
        *port = candidates
            .by_ref()
            .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
            .context("no free port")?;
    }
    Ok(free)
}

/// A process and those that come from it.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    for thread in threads(pid) {
        let path = format!("/proc/{pid}/task/{thread}/children");
        let children = fs::read_to_string(path).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        found.extend(children.flat_map(descendants));
    }
    found
}

fn threads(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// What a thread has spent; nothing where it has ended.
fn spent(pid: u32, thread: u32) -> Duration {
    let path = format!("/proc/{pid}/task/{thread}/schedstat");
    let schedstat = fs::read_to_string(path).unwrap_or_default();
    let spent = schedstat.split(' ').next().and_then(|field| field.parse().ok());
    Duration::from_nanos(spent.unwrap_or(0))
}

/// Of a line like `VmRSS:  1234 kB`, in bytes.
fn kilobytes(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    let count: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(count << 10)
}

/// User and system time of a line of `/proc/PID/stat`. The second field, the name, may hold
/// spaces and parentheses; the fields after it are numbers.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

const START_TIMEOUT: Duration = Duration::from_secs(5);
const STOP_TIMEOUT: Duration = Duration::from_secs(3);
const FIRST_PORT: u16 = 18_100;
const LAST_PORT: u16 = 32_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_a_strange_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 15 26 0 0 20 0 1 0 99 0 0";
        assert_eq!(ticks(stat), Some((15, 26)));
        assert_eq!(ticks("7 (a S 1"), None);
    }

    #[test]
    fn of_no_time_there_is_no_share() {
        assert!(CpuTime::default().user_share().is_nan());
    }

    #[test]
    fn a_process_spends_time_and_ends_with_its_value() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let spin = ["sh", "-c", "while :; do :; done"].map(str::to_owned);
        let process = Process::start(0, &spin, log.path()).unwrap();
        let pid = process.child.id();
        let deadline = Instant::now() + Duration::from_secs(10);
        while process.cpu_time().unwrap().total < Duration::from_millis(20) {
            assert!(Instant::now() < deadline, "a busy loop spends no time");
            thread::yield_now();
        }
        drop(process);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn open_connections_of_a_port_are_counted_by_its_own_end() {
        let table = "  sl  local_address rem_address   st\n\
                     0: 0100007F:1F90 00000000:0000 0A 0\n\
                     1: 0100007F:1F90 0100007F:C350 01 0\n\
                     2: 0100007F:C350 0100007F:1F90 01 0\n\
                     3: 0100007F:1F90 0100007F:C351 08 0\n";
        assert_eq!(established(table, 8080), 1);
        assert_eq!(established("", 8080), 0);
    }

    #[test]
    fn free_ports_differ() {
        let [first, second] = free_ports().unwrap();
        assert_ne!(first, second);
    }
}
