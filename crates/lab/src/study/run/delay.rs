//! The lab's own probe: what round trips take before there is any load.

use std::{collections::BTreeSet, net::SocketAddr};

use loadline_core::{record::StudyDelay, time::Duration};

use super::RunError;
use crate::{
    host::{HostError, Lab},
    study::plan::Plan,
    wan::{ProbePlan, probe},
};

/// Round trips between hosts, one pair for each distance of the plan.
pub(super) fn measure(lab: &Lab, plan: &Plan) -> Result<Vec<StudyDelay>, RunError> {
    let mut seen = BTreeSet::new();
    let mut delays = Vec::new();
    for link in &plan.topology.links {
        let quiet = link.loss.as_ppm() == 0 && link.jitter == Duration::ZERO;
        if link.from < link.to && quiet && seen.insert(link.delay) {
            delays.extend(between(lab, plan, [link.from, link.to], link.delay * 2)?);
        }
    }
    Ok(delays)
}

fn between(
    lab: &Lab,
    plan: &Plan,
    hosts: [usize; 2],
    asked: Duration,
) -> Result<Option<StudyDelay>, RunError> {
    let [one, other] = hosts.map(|host| &lab.hosts()[host]);
    let (Some(here), Some(there)) = (one.address(), other.address()) else { return Ok(None) };
    if here.is_ipv4() != there.is_ipv4() {
        return Ok(None);
    }
    let (near, far) = (one.udp(SocketAddr::new(here, 0))?, other.udp(SocketAddr::new(there, 0))?);
    let probed = probe(&near, &far, ProbePlan::new(asked));
    let probed = probed.map_err(|source| HostError::Failed {
        host: one.name().to_owned(),
        what: "measure a round trip".to_owned(),
        source,
    })?;
    let times = &probed.round_trips;
    let (Some(p50), Some(p90)) = (times.quantile(0.5), times.quantile(0.9)) else {
        return Ok(None);
    };
    Ok(Some(StudyDelay {
        row: plan.row.clone(),
        between: [one.name().to_owned(), other.name().to_owned()],
        asked_ms: asked.as_millis_f64(),
        p50_ms: p50.as_millis_f64(),
        p90_ms: p90.as_millis_f64(),
        count: times.count() as u64,
    }))
}
