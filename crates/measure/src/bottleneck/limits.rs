//! Rules about what fails at once when it is full: descriptors, ports, listen queues.

use super::text::{percent, secs};
use crate::record::{Bottleneck, Process, Resource, ResourceRecord, Role, Sample};

/// Processes that have nearly all the descriptors they may have.
pub(super) fn descriptors(record: &ResourceRecord) -> Vec<Bottleneck> {
    record.processes.iter().filter_map(|process| descriptors_of(record, process)).collect()
}

fn descriptors_of(record: &ResourceRecord, process: &Process) -> Option<Bottleneck> {
    let limit = process.descriptor_limit.filter(|limit| *limit > 0)?;
    let open = |sample: &Sample| {
        let own = sample.processes.iter().find(|one| one.pid == process.pid)?;
        own.descriptors.filter(|open| *open as f64 >= NEARLY_ALL * limit as f64)
    };
    let (since, open) = record.samples.iter().find_map(|one| Some((one.at, open(one)?)))?;
    let (name, pid, at) = (&process.name, process.pid, secs(since));
    let evidence = format!("{name}[{pid}] had {open} of {limit} descriptors open at {at}");
    Some(Bottleneck { resource: Resource::Descriptors, since, evidence: [evidence].into() })
}

/// Nearly all ephemeral ports towards one destination.
pub(super) fn ports(record: &ResourceRecord) -> Option<Bottleneck> {
    let all = record.machine.ephemeral_ports;
    let nearly = |one: &&Sample| one.sockets.ports_in_use as f64 >= NEARLY_ALL * all as f64;
    let sample = record.samples.iter().filter(|_| all > 0).find(nearly)?;
    let (since, sockets) = (sample.at, sample.sockets);
    let evidence = format!(
        "{} of {all} ephemeral ports were in use at {}, {} connections in TIME_WAIT",
        sockets.ports_in_use,
        secs(since),
        sockets.time_wait,
    );
    Some(Bottleneck { resource: Resource::Ports, since, evidence: [evidence].into() })
}

/// A listen queue that overflows while someone is watched who listens.
pub(super) fn listen_queues(record: &ResourceRecord) -> Option<Bottleneck> {
    if !listener_is_watched(record) {
        return None;
    }
    let first = record.samples.iter().find(|sample| sample.sockets.listen_overflows > 0)?;
    let since = first.at;
    let evidence = format!(
        "{} connections met a full listen queue from {} on (ListenOverflows); {} waited in the \
         longest",
        overflows(record),
        secs(since),
        record.samples.iter().map(|one| one.sockets.longest_listen_queue).max().unwrap_or(0),
    );
    Some(Bottleneck { resource: Resource::ServerQueue, since, evidence: [evidence].into() })
}

/// Overflows that cannot be laid on anyone who is watched: the counter is the machine's.
pub(super) fn unattributed_overflows(record: &ResourceRecord) -> Option<String> {
    let count = overflows(record);
    let unknown = count > 0 && !listener_is_watched(record);
    unknown.then(|| {
        format!(
            "{count} connections met a full listen queue of this machine; name who listens with \
             --role server=PID"
        )
    })
}

/// The ports most in use, as a share of all of them, where that is notable.
pub(super) fn ports_share(record: &ResourceRecord) -> Option<String> {
    let most = record.samples.iter().map(|one| one.sockets.ports_in_use).max()?;
    let share = most as f64 / record.machine.ephemeral_ports.max(1) as f64;
    (share >= 0.1).then(|| format!("{} of the ephemeral ports were in use at most", percent(share)))
}

fn overflows(record: &ResourceRecord) -> u64 {
    record.samples.iter().map(|sample| sample.sockets.listen_overflows).sum()
}

fn listener_is_watched(record: &ResourceRecord) -> bool {
    record.processes.iter().any(|process| process.role != Role::Generator)
}

/// The last few are taken between two samples.
const NEARLY_ALL: f64 = 0.95;
