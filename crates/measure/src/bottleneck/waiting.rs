//! Rules about requests that wait: more is offered than answered.

use super::cpu;
use super::text::{percent, secs};
use super::window::Window;
use crate::record::{Bottleneck, LoadRecord, Moment, Resource, ResourceRecord, Role};
use loadline_core::time::Duration;

/// Load that was offered and not answered.
pub(super) struct Unmet {
    /// From when on, on the axis of the resources.
    pub(super) since: Duration,
    /// The first sample of the resources after it.
    pub(super) sample: usize,
    /// The figures.
    pub(super) text: String,
}

/// The first window in which fewer than 90 % of the requests that became due were answered.
///
/// The first window of the load is left out: answers lag behind requests by their response time.
pub(super) fn unmet(record: &ResourceRecord, load: &LoadRecord, run: Window) -> Option<Unmet> {
    let moments = load.moments_until_end();
    let interval = moments.first().map_or(Duration::ZERO, |moment| moment.at);
    let window = Window::over(load.elapsed, interval).samples.max(1);
    let is_short = |part: &&[Moment]| answered(part) < MET * offered(part);
    let (at, part) = moments
        .windows(window)
        .enumerate()
        .skip(window)
        .find(|(_, part)| offered(part) > 0.0 && is_short(part))?;
    let since = on_axis(record, load, moments[at].at);
    let sample = record.samples.iter().position(|sample| sample.at >= since)?;
    if record.samples.len() - sample < run.samples {
        return None;
    }
    let took = (interval * part.len() as u64).as_secs_f64().max(f64::MIN_POSITIVE);
    let most = moments.iter().map(Moment::most_in_flight).max().unwrap_or(0);
    let text = format!(
        "{:.0}/s were offered and {:.0}/s answered from {} on; in flight rose to {most}",
        offered(part) / took,
        answered(part) / took,
        secs(since),
    );
    Some(Unmet { since, sample, text })
}

/// Requests wait and nothing that was watched is full: they wait for a server.
pub(super) fn server_queue(record: &ResourceRecord, unmet: &Unmet) -> Option<Bottleneck> {
    if !cpu::is_far_from_full(record, unmet.sample) {
        return None;
    }
    let (from, until) = (unmet.sample, record.samples.len());
    let busy = percent(cpu::mean_of(record, from, until, |sample| sample.cpu.busy()));
    let watched = record.processes.iter().any(|process| process.role == Role::Server);
    let servers = cpu::by_role(record, from, until);
    let cores = servers.iter().find(|(role, _)| *role == Role::Server).map_or(0.0, |both| both.1);
    let idle = if watched {
        format!("the servers used {cores:.2} cores and the machine's CPU was {busy} busy")
    } else {
        format!("no resource of this machine was full (CPU {busy}); the servers were not watched")
    };
    let evidence = Vec::from([unmet.text.clone(), idle]);
    Some(Bottleneck { resource: Resource::ServerQueue, since: unmet.since, evidence })
}

/// What the load run says of itself, where nothing else explains it.
pub(super) fn generator(load: &LoadRecord, is_unexplained: bool) -> Option<Bottleneck> {
    if load.is_valid() || !is_unexplained {
        return None;
    }
    let evidence = load.generator.faults.iter().map(|fault| fault.what.clone()).collect();
    Some(Bottleneck { resource: Resource::Generator, since: Duration::ZERO, evidence })
}

/// A time of the load on the axis of the resources: the two began at different instants.
fn on_axis(record: &ResourceRecord, load: &LoadRecord, at: Duration) -> Duration {
    let ahead = load.started_unix_ms.saturating_sub(record.started_unix_ms);
    let behind = record.started_unix_ms.saturating_sub(load.started_unix_ms);
    (at + Duration::from_millis(ahead)).saturating_sub(Duration::from_millis(behind))
}

fn offered(part: &[Moment]) -> f64 {
    part.iter().map(|moment| moment.planned as f64).sum()
}

fn answered(part: &[Moment]) -> f64 {
    part.iter().map(|moment| moment.outcomes.ok as f64).sum()
}

/// Below this share of what is offered, the rest waits or fails.
const MET: f64 = 0.9;
