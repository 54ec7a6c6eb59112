//! The lab's own probe: what round trips take before there is any load.

use std::{collections::BTreeSet, net::SocketAddr, sync::atomic::AtomicBool};

use loadline_core::time::Duration;
use loadline_measure::record::StudyDelay;

use super::{RunError, check_stop};
use crate::{
    host::{HostError, Lab},
    study::plan::Plan,
    wan::{ProbePlan, Tolerance, probe},
};

/// Round trips between hosts, one pair for each distance of the plan.
pub(super) fn measure(
    lab: &Lab,
    plan: &Plan,
    stop: &AtomicBool,
) -> Result<Vec<StudyDelay>, RunError> {
    let mut seen = BTreeSet::new();
    let mut delays = Vec::new();
    for link in &plan.topology.links {
        check_stop(stop)?;
        let quiet = link.loss.as_ppm() == 0 && link.jitter == Duration::ZERO;
        if link.from < link.to && quiet && seen.insert(link.delay) {
            delays.extend(between(lab, plan, [link.from, link.to], link.delay * 2)?);
        }
    }
    Ok(delays)
}

/// What makes every run of a row invalid: a delay of its lab that is not as it should be. As much
/// is tolerated as of the router's lateness, which a round trip meets twice, and of a long one a
/// hundredth, a small part of what figures are judged by. Where no delay is asked for, what the
/// machine takes is no error.
pub(super) fn fault(delays: &[StudyDelay], tolerance: &Tolerance) -> Option<String> {
    let told = |delay: &StudyDelay| {
        let StudyDelay { between: [one, other], asked_ms, p50_ms, p90_ms, .. } = delay;
        let late = tolerance.late_p90.as_millis_f64().max(asked_ms * LATE_PART);
        let median = (p50_ms - asked_ms).abs();
        let (what, off, most) = match median > late * MEDIAN_PART {
            true => ("the median", median, late * MEDIAN_PART),
            false => ("nine of ten", p90_ms - asked_ms, 2.0 * late),
        };
        (off > most).then(|| {
            format!(
                "round trips between {one} and {other} were off by {off:.3} ms ({what}), over \
                 {most:.3} ms"
            )
        })
    };
    delays.iter().filter(|delay| delay.asked_ms > 0.0).find_map(told)
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

/// With the usual tolerance 0.1 ms of the median, and 0.3 ms of nine of ten.
const MEDIAN_PART: f64 = 2.0 / 3.0;
/// A round trip meets it twice: a hundredth of nine of ten.
const LATE_PART: f64 = 0.005;

#[cfg(test)]
mod tests {
    use super::*;

    fn delay(p50_ms: f64, p90_ms: f64) -> StudyDelay {
        let between = ["user".to_owned(), "edge".to_owned()];
        StudyDelay { between, asked_ms: 1.2, p50_ms, p90_ms, ..StudyDelay::default() }
    }

    #[test]
    fn a_lab_whose_delays_are_off_says_which_and_by_how_much() {
        let fault = |p50, p90| fault(&[delay(1.2, 1.3), delay(p50, p90)], &Tolerance::default());
        assert_eq!(fault(1.25, 1.45), None);
        let none_asked = StudyDelay { asked_ms: 0.0, ..delay(0.14, 0.4) };
        assert_eq!(super::fault(&[none_asked], &Tolerance::default()), None);
        let short = "round trips between user and edge were off by 0.513 ms (the median), over \
                     0.100 ms";
        assert_eq!(fault(0.687, 2.9).as_deref(), Some(short));
        let late = fault(1.22, 1.6).unwrap();
        assert!(late.contains("0.400 ms (nine of ten), over 0.300 ms"), "{late}");
    }

    #[test]
    fn a_hundredth_of_a_long_round_trip_is_no_reason_to_judge_nothing() {
        let long = |p90_ms| StudyDelay { asked_ms: 90.0, ..delay(90.05, p90_ms) };
        assert_eq!(fault(&[long(90.435)], &Tolerance::default()), None);
        let late = fault(&[long(91.0)], &Tolerance::default()).unwrap();
        assert!(late.contains("1.000 ms (nine of ten), over 0.900 ms"), "{late}");
    }
}
