//! Settings that are fixed from the start of the process to its end.

use loadline_control::{Process, admin::Settings, cluster};
use loadline_core::fleet::Fleet;

/// Settings that a reload does not change, by their keys.
pub(super) struct Fixed(Vec<(&'static str, String)>);

impl Fixed {
    /// Those of a file.
    pub(super) fn of(
        fleet: &Fleet,
        (admin, cluster): (Option<&Settings>, Option<&cluster::Settings>),
        process: &Process,
    ) -> Self {
        let (edge, Process { user, group, control, pid_file }) = (&fleet.edge, process);
        Self(vec![
            ("edge.threads", edge.threads.to_string()),
            ("edge.access_log", format!("{:?}", edge.access_log)),
            ("edge.quic_server_id", format!("{:?}", edge.quic_server_id)),
            ("edge.user", format!("{user:?}")),
            ("edge.group", format!("{group:?}")),
            ("edge.control", format!("{control:?}")),
            ("edge.pid_file", format!("{pid_file:?}")),
            ("tracing", format!("{:?}", edge.tracing)),
            ("l4", format!("{:?}", fleet.forwarding.datapath)),
            ("l4.standby", format!("{:?}", fleet.forwarding.standby)),
            ("admin", format!("{admin:?}")),
            ("cluster", format!("{cluster:?}")),
        ])
    }

    /// The keys of what the file says otherwise now.
    pub(super) fn changed(&self, now: &Self) -> Vec<&'static str> {
        let pairs = self.0.iter().zip(&now.0);
        pairs.filter(|(then, now)| then != now).map(|(_, (key, _))| *key).collect()
    }
}
