//! Active checks: what is asked, how often, how many answers count.

use loadline_core::{
    fleet::{HealthCheck, Probe},
    time::Duration,
};

use super::set;
use crate::{
    error::Problems,
    file::Health,
    place::{At, Span},
};

/// The check a service asks for.
pub(super) fn health(given: &At<Health>, problems: &mut Problems) -> HealthCheck {
    let Health { http, tcp, host, .. } = &given.value;
    if let Some(tcp) = tcp.at().filter(|_| http.given()) {
        let message = "a check is either `http` or `tcp`".to_owned();
        let help = "an `http` check opens a connection too: leave `tcp` out".to_owned();
        problems.error(&tcp.span, message, "the second", help);
    }
    if !http.given() && !tcp.given() {
        let message = "a check that asks nothing".to_owned();
        let help = "add http = \"/health-check\" or tcp = true".to_owned();
        problems.absent(&given.span, &given.span, message, help);
    }
    let mut check = HealthCheck {
        probe: Probe::Tcp,
        interval: INTERVAL,
        fast_interval: INTERVAL,
        timeout: TIMEOUT,
        rise: RISE,
        fall: FALL,
        lenient: false,
    };
    if let Some(path) = http.get() {
        let host = host.get().map(|host| host.0.0.clone());
        check.probe = Probe::Http { path: path.0.0.clone(), host };
    } else if tcp.given() {
        refuse_http_only(&given.value, problems);
    }
    times(&given.value, &mut check, problems);
    set(&given.value.rise, |whole| &whole.0, &mut check.rise);
    set(&given.value.fall, |whole| &whole.0, &mut check.fall);
    set(&given.value.lenient, |lenient| lenient, &mut check.lenient);
    check
}

fn times(given: &Health, check: &mut HealthCheck, problems: &mut Problems) {
    set(&given.interval, |time| &time.0.0, &mut check.interval);
    check.fast_interval = check.interval / FAST_DIVISOR;
    set(&given.fast_interval, |time| &time.0.0, &mut check.fast_interval);
    set(&given.timeout, |time| &time.0.0, &mut check.timeout);
    if let Some(fast) = given.fast_interval.at().filter(|_| check.fast_interval > check.interval) {
        let interval = check.interval;
        let message = format!("`fast_interval` is longer than `interval` ({interval})");
        let help = format!("write \"{interval}\" or less");
        problems.error(&fast.span, message, "not fast", help);
    }
}

fn refuse_http_only(given: &Health, problems: &mut Problems) {
    let mut refuse = |place: Option<&Span>, key: &str| {
        let Some(place) = place else { return };
        let message = format!("`{key}` has no effect on a `tcp` check");
        let help = format!("leave `{key}` out, or check with http = \"/health-check\"");
        problems.warning(place, message, "no effect", help);
    };
    refuse(given.host.at().map(|at| &at.span), "host");
    refuse(given.lenient.at().map(|at| &at.span), "lenient");
}

/// Often enough that an outage is seen in `fall` seconds, seldom enough to cost nothing.
const INTERVAL: Duration = Duration::from_secs(1);
/// While a server's state is changing the next answer is wanted sooner.
const FAST_DIVISOR: u64 = 4;
/// A healthy server answers a check within any sane round trip plus this.
const TIMEOUT: Duration = Duration::from_millis(500);
/// One good answer may be luck.
const RISE: u32 = 2;
/// Two bad ones may be a lost packet and its retransmission.
const FALL: u32 = 3;
