//! What the programs of a host have used, from the kernel's own counts.
//!
//! Processor time is the sum over the processes that there are, each with its children that have
//! ended, and over the children of the first process that have: no time is lost when a program
//! ends, and none counted twice.

use std::{fs, io};

use super::{
    super::{
        message::{RawTraffic, RawUsage},
        switch,
    },
    network::INTERFACE,
};

/// All counts at this moment.
pub(super) fn read() -> io::Result<RawUsage> {
    let table = fs::read_to_string("/proc/self/net/dev")?;
    let carried = |name| interface(&table, name).unwrap_or_default();
    let (wide, ethernet) = (carried(INTERFACE), carried(switch::INTERFACE));
    let mut usage = RawUsage { cpu_nanos: 0, wide, ethernet };
    let own = fs::read_link("/proc/self")?;
    // Where /proc is not the host's own, whose processes these are cannot be told.
    if own.as_os_str() != "1" {
        return Ok(usage);
    }
    let mut ticks = 0;
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        // It may have ended meanwhile.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let [user, system, user_of_ended, system_of_ended] = times(&stat);
        ticks += user_of_ended + system_of_ended;
        if pid != 1 {
            ticks += user + system;
        }
    }
    usage.cpu_nanos = ticks * NANOS_PER_SEC / rustix::param::clock_ticks_per_second();
    Ok(usage)
}

/// In ticks: user and system time of a process, then those of its children that have ended.
fn times(stat: &str) -> [u64; 4] {
    // The name before it is in brackets and may hold anything.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut words = after_name.split_ascii_whitespace().skip(BEFORE_TIMES);
    std::array::from_fn(|_| words.next().and_then(|word| word.parse().ok()).unwrap_or(0))
}

fn interface(table: &str, name: &str) -> Option<RawTraffic> {
    let counts =
        table.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    let counts: Vec<u64> =
        counts.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [received_bytes, received_packets, _, _, _, _, _, _, sent_bytes, sent_packets, ..] =
        *counts.as_slice()
    else {
        return None;
    };
    Some(RawTraffic { received_bytes, received_packets, sent_bytes, sent_packets })
}

/// Words of `/proc/PID/stat` between the name and the times: state to cmajflt.
const BEFORE_TIMES: usize = 11;

const NANOS_PER_SEC: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_whatever_the_program_is_called() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 50 60 700 800 20 0 1 0 9";
        assert_eq!(times(stat), [50, 60, 700, 800]);
        assert_eq!(times(""), [0; 4]);
    }

    #[test]
    fn an_interfaces_counts_are_read_from_the_kernels_table() {
        let table = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo:     100       2    0    0    0     0          0         0      100       2    0    0
  wan0:    3000       4    0    0    0     0          0         0     5000       6    0    0";
        assert_eq!(interface(table, "eth0"), None);
        let usage = interface(table, "wan0").unwrap();
        assert_eq!((usage.received_bytes, usage.received_packets), (3000, 4));
        assert_eq!((usage.sent_bytes, usage.sent_packets), (5000, 6));
    }
}
