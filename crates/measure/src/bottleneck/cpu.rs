//! Rules about CPU: of a process, of the machine, of packets, and what the host withholds.

use super::text::{percent, secs};
use super::window::{Window, highest};
use crate::record::{Bottleneck, Process, ProcessSample, Resource, ResourceRecord, Role, Sample};
use crate::statistics::sample::{mean, sum};

/// Processes with a thread that a core is too slow for.
pub(super) fn threads(record: &ResourceRecord, window: Window) -> Vec<Bottleneck> {
    record.processes.iter().filter_map(|process| thread(record, process, window)).collect()
}

fn thread(record: &ResourceRecord, process: &Process, window: Window) -> Option<Bottleneck> {
    let busiest = series(record, process.pid, |sample| sample.busiest_thread);
    let from = window.reached(&busiest, THREAD_FULL)?;
    let until = from + window.samples;
    let cores = mean(&series(record, process.pid, ProcessSample::cores)[from..until]);
    let threads = record.samples[from].processes.iter().find(|one| one.pid == process.pid)?.threads;
    let since = record.samples[from].at;
    let own = match threads {
        0 | 1 => String::new(),
        _ => format!(", its busiest thread {:.2}", mean(&busiest[from..until])),
    };
    let softirq = mean_of(record, from, until, |sample| sample.cpu.softirq);
    let evidence = format!(
        "{}[{}] used {cores:.2} of a core from {} on{own}, softirq {}",
        process.name,
        process.pid,
        secs(since),
        percent(softirq),
    );
    Some(Bottleneck { resource: of_role(process.role), since, evidence: [evidence].into() })
}

/// All cores, where those who are watched have a notable part in it.
pub(super) fn machine(record: &ResourceRecord, window: Window) -> Option<Bottleneck> {
    let busy: Vec<f64> = record.samples.iter().map(|sample| sample.cpu.busy()).collect();
    let from = window.reached(&busy, MACHINE_FULL)?;
    let until = from + window.samples;
    let share = watched_share(record, from, until);
    if share < NOTABLE {
        return None;
    }
    let roles = by_role(record, from, until);
    let (role, most) = roles.iter().copied().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let cores = f64::from(record.machine.cores.max(1));
    let resource = if most / cores >= PREDOMINANT { of_role(role) } else { Resource::MachineCpu };
    let since = record.samples[from].at;
    let of = |part: fn(&Sample) -> f64| percent(mean_of(record, from, until, part));
    let evidence = [
        format!(
            "all {} cores were {} busy from {} on: user {}, system {}, softirq {}, steal {}",
            record.machine.cores,
            percent(mean(&busy[from..until])),
            secs(since),
            of(|sample| sample.cpu.user),
            of(|sample| sample.cpu.system),
            of(|sample| sample.cpu.softirq),
            of(|sample| sample.cpu.steal),
        ),
        format!("the watched processes used {} of it: {}", percent(share), users(&roles)),
    ];
    Some(Bottleneck { resource, since, evidence: evidence.into() })
}

/// Cores that others fill: no bottleneck of what is watched, and yet a run to repeat.
pub(super) fn filled_by_others(record: &ResourceRecord, window: Window) -> Option<String> {
    let busy: Vec<f64> = record.samples.iter().map(|sample| sample.cpu.busy()).collect();
    let from = window.reached(&busy, MACHINE_FULL)?;
    let share = watched_share(record, from, from + window.samples);
    let since = secs(record.samples[from].at);
    (share < NOTABLE).then(|| {
        format!(
            "all cores were full from {since} on, {} of them with what was watched: other \
             processes disturb this run",
            percent(share),
        )
    })
}

/// A core that does nothing but the kernel's packet work.
pub(super) fn softirq(record: &ResourceRecord, window: Window) -> Option<Bottleneck> {
    let of_core = |core: usize| -> Vec<f64> {
        let share = |sample: &Sample| sample.cores.get(core).map_or(0.0, |cpu| cpu.softirq);
        record.samples.iter().map(share).collect()
    };
    let cores = record.samples.iter().map(|sample| sample.cores.len()).max()?;
    let first = |core| window.reached(&of_core(core), SOFTIRQ_FULL).map(|from| (from, core));
    let (from, core) = (0..cores).filter_map(first).min()?;
    let share = mean(&of_core(core)[from..from + window.samples]);
    let since = record.samples[from].at;
    let packets: u64 = record.samples[from]
        .interfaces
        .iter()
        .map(|one| one.received_packets_per_s + one.sent_packets_per_s)
        .sum();
    let (share, at) = (percent(share), secs(since));
    let evidence =
        format!("core {core} spent {share} on softirq from {at} on, at {packets} packets/s");
    Some(Bottleneck { resource: Resource::Softirq, since, evidence: [evidence].into() })
}

/// CPU that was wanted and withheld: by other guests of the host, or because credits are spent.
pub(super) fn steal(record: &ResourceRecord, window: Window) -> Option<Bottleneck> {
    let steal: Vec<f64> = record.samples.iter().map(|sample| sample.cpu.steal).collect();
    let from = window.reached(&steal, STEAL_TOO_MUCH)?;
    let until = from + window.samples;
    // Who gets no CPU uses none, so what is withheld counts as well.
    let lent = 1.0 - mean(&steal[from..until]);
    if watched_share(record, from, until) < NOTABLE * lent {
        return None;
    }
    let since = record.samples[from].at;
    let rest = mean_of(record, from, until, |sample| sample.cpu.busy() - sample.cpu.steal);
    let evidence = [
        format!(
            "the host withheld {} of the CPU from {} on (steal); {} were left and used",
            percent(mean(&steal[from..until])),
            secs(since),
            percent(rest),
        ),
        "on a burstable instance: CPU credits are spent, `loadline plan credits` computes when"
            .into(),
    ];
    Some(Bottleneck { resource: Resource::Steal, since, evidence: evidence.into() })
}

/// The busiest process and the busiest sample of the machine, where nothing gave out.
pub(super) fn nearest(record: &ResourceRecord) -> Vec<String> {
    let mut said = Vec::new();
    let peak = |process: &Process| {
        let busiest = series(record, process.pid, |sample| sample.busiest_thread);
        highest(&busiest).map(|(at, most)| (process.clone(), at, most))
    };
    let busiest = record.processes.iter().filter_map(peak).max_by(|a, b| a.2.total_cmp(&b.2));
    if let Some((process, at, most)) = busiest {
        let at = secs(record.samples[at].at);
        let (name, pid) = (process.name, process.pid);
        said.push(format!(
            "the busiest thread, of {name}[{pid}], used {most:.2} of a core at {at}"
        ));
    }
    let busy: Vec<f64> = record.samples.iter().map(|sample| sample.cpu.busy()).collect();
    if let Some((at, most)) = highest(&busy) {
        let (most, mean, at) = (percent(most), percent(mean(&busy)), secs(record.samples[at].at));
        said.push(format!("the machine's CPU was {mean} busy, {most} at most (at {at})"));
    }
    said
}

/// Whether CPU is far from full in these samples: of the machine and of every watched thread.
pub(super) fn is_far_from_full(record: &ResourceRecord, from: usize) -> bool {
    let until = record.samples.len();
    let thread = |process: &Process| {
        mean(&series(record, process.pid, |sample| sample.busiest_thread)[from..])
    };
    mean_of(record, from, until, |sample| sample.cpu.busy()) < FAR_FROM_FULL
        && record.processes.iter().map(thread).all(|busiest| busiest < FAR_FROM_FULL)
}

/// The cores' worth of time that each role uses in these samples.
pub(super) fn by_role(record: &ResourceRecord, from: usize, until: usize) -> [(Role, f64); 4] {
    [Role::Generator, Role::LoadBalancer, Role::Server, Role::Watched].map(|role| {
        let of = |process: &&Process| process.role == role;
        let used = |process: &Process| {
            mean(&series(record, process.pid, ProcessSample::cores)[from..until])
        };
        (role, sum(record.processes.iter().filter(of).map(used)))
    })
}

/// A figure of the machine, averaged over these samples.
pub(super) fn mean_of(
    record: &ResourceRecord,
    from: usize,
    until: usize,
    figure: impl Fn(&Sample) -> f64,
) -> f64 {
    let series: Vec<f64> = record.samples[from..until].iter().map(figure).collect();
    mean(&series)
}

/// A figure of one process at every sample; zero where it did not live.
fn series(record: &ResourceRecord, pid: u32, figure: impl Fn(&ProcessSample) -> f64) -> Vec<f64> {
    let at =
        |sample: &Sample| sample.processes.iter().find(|one| one.pid == pid).map_or(0.0, &figure);
    record.samples.iter().map(at).collect()
}

/// What the watched processes use of the machine's CPU.
fn watched_share(record: &ResourceRecord, from: usize, until: usize) -> f64 {
    let used = sum(by_role(record, from, until).into_iter().map(|(_, cores)| cores));
    used / f64::from(record.machine.cores.max(1))
}

fn users(roles: &[(Role, f64)]) -> String {
    let used = roles.iter().filter(|(_, cores)| *cores >= 0.005);
    let said: Vec<_> = used.map(|(role, cores)| format!("{role} {cores:.2} cores")).collect();
    said.join(", ")
}

fn of_role(role: Role) -> Resource {
    match role {
        Role::Generator => Resource::GeneratorCpu,
        Role::LoadBalancer => Resource::LoadBalancerCpu,
        Role::Server => Resource::ServerCpu,
        Role::Watched => Resource::WatchedCpu,
    }
}

/// An event loop that never waits still gives some of its core to interrupts.
const THREAD_FULL: f64 = 0.95;

/// Less than 3 % idle: a thread that wakes up has to wait for a core.
const MACHINE_FULL: f64 = 0.97;

/// Least share of a busy machine for which the watched processes count as concerned.
const NOTABLE: f64 = 0.1;

/// Share of all cores from which on processes count as filling the machine.
const PREDOMINANT: f64 = 0.6;

/// Leaves something for the process that the packets are for; beyond it, packets are dropped.
const SOFTIRQ_FULL: f64 = 0.9;

/// A tenth less than the machine seems to have; a quiet host takes under 1 %.
const STEAL_TOO_MUCH: f64 = 0.1;

/// Below this, waiting for CPU is no explanation: M/M/1 waits four service times at 0.8.
const FAR_FROM_FULL: f64 = 0.8;
