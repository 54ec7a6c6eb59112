//! Health checks that another edge of the region makes for this one.

use std::{fmt::Debug, net::SocketAddr, sync::Arc};

use loadline_core::{
    decide::controller::{Controller, Input, Passed},
    decide::ledger::ServerId,
    health::shared::{Duty, Verdict},
    time::Duration,
};

/// The checks of other edges.
pub trait SharedChecks: Debug + Send + Sync {
    /// What this edge does about a server whose check is due.
    fn duty(&self, service: &str, server: SocketAddr) -> Duty;

    /// Tells the other edges the verdict of this edge.
    fn checked(&self, service: &str, server: SocketAddr, verdict: Verdict);
}

/// What comes in place of a check of this edge; none where it has to check.
pub(super) fn instead(
    shared: &Arc<dyn SharedChecks>,
    (service, address): (&str, SocketAddr),
    server: ServerId,
) -> Option<Input> {
    let passed = match shared.duty(service, address) {
        Duty::Check => return None,
        Duty::GoBy(Verdict::Down(why)) => Err(why),
        Duty::GoBy(Verdict::Up { round_trip_us, whole_us }) => {
            let [round_trip, whole] = [round_trip_us, whole_us].map(Duration::from_micros);
            Ok(Passed { round_trip, whole })
        }
    };
    Some(Input::Reported { server, passed })
}

/// Tells what a check of this edge has shown, once the controller has heard of it.
pub(super) fn tell(
    shared: &Arc<dyn SharedChecks>,
    controller: &Controller,
    server: ServerId,
    passed: Result<Passed, String>,
) {
    let Some((service, address, is_up)) = controller.checked_server(server) else { return };
    let verdict = match (is_up, passed) {
        (true, Ok(Passed { round_trip, whole })) => Verdict::up(round_trip, whole),
        (false, Err(why)) => Verdict::Down(why),
        // It is about to turn.
        (true, Err(_)) | (false, Ok(_)) => return,
    };
    shared.checked(&service.name, address, verdict);
}
