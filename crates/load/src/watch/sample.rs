//! Samples: the differences of one reading to the one before it.

use loadline_core::time::Duration;
use loadline_linux::proc::{CpuTicks, Traffic};
use loadline_measure::record::{
    Cpu, InterfaceSample, ProcessSample, ResourceRecord, Sample, Sockets,
};
use rustix::param::clock_ticks_per_second;

use super::{processes::ProcessReading, reading::Reading};

/// One sample for each reading but the first.
pub(super) fn samples(readings: &[Reading]) -> Vec<Sample> {
    readings.windows(2).map(|pair| sample(&pair[0], &pair[1])).collect()
}

fn sample(before: &Reading, now: &Reading) -> Sample {
    let lasted = now.at.saturating_sub(before.at);
    let cores = now.cores.iter().enumerate();
    let of_core = |(core, ticks)| cpu(before.cores.get(core).unwrap_or(ticks), ticks);
    Sample {
        at: now.at,
        cpu: cpu(&before.cpu, &now.cpu),
        cores: cores.map(of_core).collect(),
        running: now.running,
        load_1min: now.load_1min,
        processes: processes(before, now, lasted),
        interfaces: interfaces(before, now, lasted),
        sockets: sockets(&before.sockets, &now.sockets),
    }
}

/// Shares of the ticks that passed; idle where none did.
fn cpu(before: &CpuTicks, now: &CpuTicks) -> Cpu {
    let spent = |part: fn(&CpuTicks) -> u64| part(now).saturating_sub(part(before)) as f64;
    let parts = [
        spent(|ticks| ticks.user),
        spent(|ticks| ticks.system),
        spent(|ticks| ticks.softirq),
        spent(|ticks| ticks.steal),
        spent(|ticks| ticks.idle),
    ];
    let all: f64 = parts.iter().sum();
    if all == 0.0 {
        return Cpu { idle: 1.0, ..Cpu::default() };
    }
    let [user, system, softirq, steal, idle] = parts.map(|part| rounded(part / all));
    Cpu { user, system, softirq, steal, idle }
}

/// A process that was not there before has used all it used since.
fn processes(before: &Reading, now: &Reading, lasted: Duration) -> Vec<ProcessSample> {
    let nothing = ProcessReading::default();
    let ticks = lasted.as_secs_f64() * clock_ticks_per_second() as f64;
    let share = |spent: u64| rounded(spent as f64 / ticks.max(1.0));
    let one = |(pid, now): (&u32, &ProcessReading)| {
        let before = before.processes.get(pid).unwrap_or(&nothing);
        let user = share(now.user.saturating_sub(before.user));
        let system = share(now.system.saturating_sub(before.system));
        let of_thread = |(tid, spent): (&u32, &u64)| {
            share(spent.saturating_sub(before.by_thread.get(tid).copied().unwrap_or_default()))
        };
        let busiest = now.by_thread.iter().map(of_thread).reduce(f64::max);
        ProcessSample {
            pid: *pid,
            user,
            system,
            busiest_thread: busiest.unwrap_or_else(|| rounded(user + system)),
            threads: now.threads,
            rss_bytes: now.rss_bytes,
            descriptors: now.descriptors,
        }
    };
    now.processes.iter().map(one).collect()
}

fn interfaces(before: &Reading, now: &Reading, lasted: Duration) -> Vec<InterfaceSample> {
    let secs = lasted.as_secs_f64().max(f64::MIN_POSITIVE);
    let one = |(name, now): (&String, &Traffic)| {
        let before = before.interfaces.get(name).unwrap_or(now);
        let grown = |part: fn(&Traffic) -> u64| part(now).saturating_sub(part(before));
        let per_s = |part| (grown(part) as f64 / secs).round() as u64;
        InterfaceSample {
            name: name.clone(),
            received_bytes_per_s: per_s(|traffic| traffic.received_bytes),
            sent_bytes_per_s: per_s(|traffic| traffic.sent_bytes),
            received_packets_per_s: per_s(|traffic| traffic.received_packets),
            sent_packets_per_s: per_s(|traffic| traffic.sent_packets),
            dropped: grown(|traffic| traffic.dropped),
        }
    };
    now.interfaces.iter().map(one).collect()
}

/// Levels are those of `now`, events are counted from `before`.
fn sockets(before: &Sockets, now: &Sockets) -> Sockets {
    let grown = |part: fn(&Sockets) -> u64| part(now).saturating_sub(part(before));
    Sockets {
        listen_overflows: grown(|sockets| sockets.listen_overflows),
        listen_drops: grown(|sockets| sockets.listen_drops),
        segments_sent: grown(|sockets| sockets.segments_sent),
        segments_resent: grown(|sockets| sockets.segments_resent),
        ..*now
    }
}

/// Leaves out interfaces that carried nothing and have no limit to hold against; says of the
/// others which have none that anybody knows.
pub(super) fn keep_interfaces(record: &mut ResourceRecord) {
    let carried = |name: &str| {
        let mut all = record.samples.iter().flat_map(|sample| &sample.interfaces);
        all.any(|one| one.name == name && one.busier_bytes_per_s() > 0)
    };
    let mut kept = record.machine.interfaces.clone();
    kept.retain(|one| one.given_bytes_per_s.is_some() || carried(&one.name));
    for sample in &mut record.samples {
        sample.interfaces.retain(|one| kept.iter().any(|kept| kept.name == one.name));
    }
    for interface in &kept {
        let is_known = interface.speed_bytes_per_s.or(interface.given_bytes_per_s).is_some();
        if !is_known && interface.name != "lo" {
            let name = &interface.name;
            record.not_seen.push(format!("{name} reports no speed; --net-limit tells its limit"));
        }
    }
    record.machine.interfaces = kept;
}

/// Four decimals: what is finer than that is not in the clock ticks.
pub(super) fn rounded(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}
