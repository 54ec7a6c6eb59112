//! What the programs of a host have used, from the kernel's own counts.
//!
//! Processor time is the sum over the processes that there are, each with its children that have
//! ended, and over the children of the first process that have: no time is lost when a program
//! ends, and none counted twice.

use std::{fs, io};

use loadline_linux::proc;

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
        let stat = proc::text(format!("/proc/{pid}/stat")).and_then(|text| proc::stat(&text));
        let Some(stat) = stat else { continue };
        ticks += stat.children;
        if pid != 1 {
            ticks += stat.user + stat.system;
        }
    }
    usage.cpu_nanos = proc::ticks(ticks).as_nanos();
    Ok(usage)
}

fn interface(table: &str, name: &str) -> Option<RawTraffic> {
    let (_, traffic) = proc::interfaces(table).find(|(found, _)| found == name)?;
    Some(RawTraffic {
        received_bytes: traffic.received_bytes,
        received_packets: traffic.received_packets,
        sent_bytes: traffic.sent_bytes,
        sent_packets: traffic.sent_packets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
