//! The texts of `/proc`, as proc(5) describes them. What does not parse is `None`.

use std::{fs, path::Path};

use loadline_core::time::Duration;

/// A file of `/proc`; names of programs need not be UTF-8.
#[must_use]
pub fn text(path: impl AsRef<Path>) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// So many clock ticks as time.
#[must_use]
pub fn ticks(count: u64) -> Duration {
    Duration::from_nanos(count * NANOS_PER_SEC / rustix::param::clock_ticks_per_second())
}

/// Clock ticks a core, or all, spent since the machine was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// In programs, those of low priority included.
    pub user: u64,
    /// In the kernel for programs, and in interrupts.
    pub system: u64,
    /// In the kernel's own work after interrupts.
    pub softirq: u64,
    /// What the machine's host took.
    pub steal: u64,
    /// Without work, or waiting for a disk.
    pub idle: u64,
}

impl CpuTicks {
    /// The sum of all ticks.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.user + self.system + self.softirq + self.steal + self.idle
    }
}

/// `/proc/stat`: all cores together, then each.
#[must_use]
pub fn cpus(text: &str) -> Vec<CpuTicks> {
    text.lines().take_while(|line| line.starts_with("cpu")).filter_map(cpu).collect()
}

fn cpu(line: &str) -> Option<CpuTicks> {
    let mut fields = line.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let mut next = || fields.next()?.ok();
    let (user, nice, system, idle) = (next()?, next()?, next()?, next()?);
    // Kernels before 2.6.11 have fewer fields. What guests use is part of `user` already.
    let [waiting, irq, softirq, steal] =
        [next(), next(), next(), next()].map(Option::unwrap_or_default);
    Some(CpuTicks { user: user + nice, system: system + irq, softirq, steal, idle: idle + waiting })
}

/// A number that stands after its name at the beginning of a line, as in `/proc/stat`.
#[must_use]
pub fn named(text: &str, name: &str) -> Option<u64> {
    let mut found = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.next()?.trim().parse().ok()
}

/// What `/proc/PID/stat`, or that of one of its tasks, says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its name, which may hold any character.
    pub name: String,
    /// `Z` for one that has ended and whose parent has not asked yet.
    pub state: char,
    /// The number of its parent.
    pub parent: u32,
    /// Clock ticks in the program.
    pub user: u64,
    /// Clock ticks in the kernel for it.
    pub system: u64,
    /// Both of its children that have ended and were asked for.
    pub children: u64,
    /// How many threads it has.
    pub threads: u64,
    /// When it started, in clock ticks since the machine did: with the number, its identity.
    pub start: u64,
    /// Pages of it that are in memory.
    pub rss_pages: u64,
}

/// The name stands in parentheses and may hold any character, parentheses included.
#[must_use]
pub fn stat(text: &str) -> Option<Stat> {
    let (before, after) = text.rsplit_once(')')?;
    let name = before.split_once('(')?.1;
    // From the third field on: `state` is the first of these, `utime` the twelfth.
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        name: name.to_owned(),
        state: fields.first()?.chars().next()?,
        parent: u32::try_from(number(4)?).ok()?,
        user: number(14)?,
        system: number(15)?,
        children: number(16)? + number(17)?,
        threads: number(20)?,
        start: number(22)?,
        rss_pages: number(24)?,
    })
}

/// `/proc/PID/schedstat`, or of a thread: how long it has run, and how long it has waited for a
/// core while it could have.
#[must_use]
pub fn scheduled(text: &str) -> Option<[Duration; 2]> {
    let mut nanos = text.split_ascii_whitespace().map(|nanos| nanos.parse().ok());
    let mut time = || nanos.next().flatten().map(Duration::from_nanos);
    Some([time()?, time()?])
}

/// `/proc/PID/limits`: how many files may be open; `None` where there is no limit too.
#[must_use]
pub fn descriptor_limit(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Bytes and packets that went through an interface since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that came.
    pub received_bytes: u64,
    /// Packets that came.
    pub received_packets: u64,
    /// Bytes that went.
    pub sent_bytes: u64,
    /// Packets that went.
    pub sent_packets: u64,
    /// Packets that were dropped, either way.
    pub dropped: u64,
}

/// `/proc/net/dev`.
pub fn interfaces(text: &str) -> impl Iterator<Item = (String, Traffic)> {
    text.lines().skip(2).filter_map(|line| {
        let (name, counters) = line.split_once(':')?;
        let counters: Vec<u64> =
            counters.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
        let at = |field: usize| counters.get(field).copied();
        let traffic = Traffic {
            received_bytes: at(0)?,
            received_packets: at(1)?,
            sent_bytes: at(8)?,
            sent_packets: at(9)?,
            dropped: at(3)? + at(11)?,
        };
        Some((name.trim().to_owned(), traffic))
    })
}

/// `/proc/net/snmp` and `netstat`: a line of names, then a line of values, both begun by `group`.
#[must_use]
pub fn counter(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group)?.strip_prefix(':'));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_ascii_whitespace().position(|one| one == name)?;
    values.split_ascii_whitespace().nth(at)?.parse().ok()
}

/// `/proc/net/sockstat` and `sockstat6`: names and values take turns on a line.
#[must_use]
pub fn sockstat(text: &str, group: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(group)?.strip_prefix(':'))?;
    let mut words = line.split_ascii_whitespace();
    words.find(|word| *word == name)?;
    words.next()?.parse().ok()
}

/// A line of `/proc/net/tcp` or `tcp6`; addresses as the kernel writes them, ports as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Our end.
    pub local: (u128, u16),
    /// The other end.
    pub remote: (u128, u16),
    /// Whether it accepts connections.
    pub is_listening: bool,
    /// Of a listener: connections that wait to be accepted.
    pub received: u64,
}

/// A line of `/proc/net/tcp` or `tcp6` after the first.
#[must_use]
pub fn socket(line: &str) -> Option<Socket> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, remote) = (end(fields.next()?)?, end(fields.next()?)?);
    let is_listening = fields.next()? == LISTEN;
    let received = u64::from_str_radix(fields.next()?.split_once(':')?.1, 16).ok()?;
    Some(Socket { local, remote, is_listening, received })
}

fn end(text: &str) -> Option<(u128, u16)> {
    let (address, port) = text.split_once(':')?;
    Some((u128::from_str_radix(address, 16).ok()?, u16::from_str_radix(port, 16).ok()?))
}

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// `TCP_LISTEN` of the kernel's `tcp_states.h`.
const LISTEN: &str = "0A";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_all_cores_and_of_each_is_read_with_guests_counted_once() {
        let text = "cpu  100 5 30 500 20 1 40 7 50 0\ncpu0 100 5 30 500 20 1 40 7 50 0\nintr 5 0\n";
        let all = CpuTicks { user: 105, system: 31, softirq: 40, steal: 7, idle: 520 };
        assert_eq!(cpus(text), [all, all]);
        assert_eq!(named("intr 1 2\nprocs_running 3\n", "procs_running"), Some(3));
        assert_eq!(named("procs_running_x 3\n", "procs_running"), None);
    }

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let text =
            "812 (a) (b c) S 7 812 812 0 -1 4194560 1 0 0 0 55 44 3 2 20 0 9 0 1234 999 77 0";
        let read = stat(text).unwrap();
        assert_eq!((read.name.as_str(), read.state, read.parent), ("a) (b c", 'S', 7));
        assert_eq!((read.user, read.system, read.children, read.threads), (55, 44, 5, 9));
        assert_eq!((read.start, read.rss_pages), (1234, 77));
        for cut in 0..text.len() - 4 {
            assert_eq!(stat(&text[..cut]), None, "{}", &text[..cut]);
        }
    }

    #[test]
    fn traffic_is_read_where_the_name_touches_the_first_counter() {
        let text = "Inter-| Receive\n face |bytes\n  lo:1000 10 0 1 0 0 0 0 2000 20 0 2 0 0 0 0\n";
        let traffic = Traffic {
            received_bytes: 1_000,
            received_packets: 10,
            sent_bytes: 2_000,
            sent_packets: 20,
            dropped: 3,
        };
        assert_eq!(interfaces(text).collect::<Vec<_>>(), [("lo".to_owned(), traffic)]);
    }

    #[test]
    fn counters_are_found_by_name_not_by_place() {
        let text = "Tcp: A RetransSegs\nTcp: 1 22\nTcpExt: X ListenOverflows Y\nTcpExt: 1 -1 3\n";
        assert_eq!(counter(text, "Tcp", "RetransSegs"), Some(22));
        assert_eq!(counter(text, "TcpExt", "Y"), Some(3));
        assert_eq!(counter(text, "TcpExt", "ListenOverflows"), None, "a negative value");
        let text = "sockets: used 9\nTCP: inuse 4 orphan 1 tw 3 alloc 5 mem 2\n";
        assert_eq!(sockstat(text, "TCP", "tw"), Some(3));
        assert_eq!(sockstat(text, "UDP", "tw"), None);
    }

    #[test]
    fn a_limit_of_descriptors_is_the_soft_one() {
        let text = "Limit  Soft Limit  Hard Limit  Units\nMax open files  1024  4096  files\n";
        assert_eq!(descriptor_limit(text), Some(1_024));
        assert_eq!(descriptor_limit("Max open files  unlimited  unlimited  files"), None);
    }

    #[test]
    fn a_socket_has_two_ends_and_a_state() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000005 00:00000000 0 0 0 1149";
        let listener = socket(line).unwrap();
        assert_eq!((listener.local, listener.remote), ((0x0100_007F, 8080), (0, 0)));
        assert!(listener.is_listening);
        assert_eq!(listener.received, 5);
        assert_eq!(socket("  sl  local_address rem_address   st tx_queue rx_queue"), None);
    }
}
