//! What the agent knows, for whoever shows it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loadline_core::state::{Cluster, ClusterFault};
use tokio::sync::watch;

/// A handle on the state of the cluster.
#[derive(Clone, Debug, Default)]
pub struct View {
    state: Arc<Mutex<Cluster>>,
    /// Whether the keys at the prefix are those of this edge's cluster.
    admitted: Arc<watch::Sender<bool>>,
}

impl View {
    /// The present state.
    #[must_use]
    pub fn state(&self) -> Cluster {
        self.lock().clone()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Cluster)) {
        change(&mut self.lock());
    }

    /// Notes whether the keys at the prefix are those of this edge's cluster.
    pub(super) fn admit(&self, admitted: bool) {
        self.admitted.send_replace(admitted);
    }

    /// Whether this edge is admitted, as it changes.
    pub(super) fn admitted(&self) -> watch::Receiver<bool> {
        self.admitted.subscribe()
    }

    /// Counts a fault, and tells of it where it is of another kind than the one before.
    pub(super) fn fault(&self, kind: &str, message: &str, help: Option<&str>) {
        if self.note(kind, message) {
            warn(kind, message, help);
        }
    }

    /// Counts a fault that is not met again and again, and tells of it.
    pub(super) fn single_fault(&self, kind: &str, message: &str, help: Option<&str>) {
        self.note(kind, message);
        warn(kind, message, help);
    }

    /// Counts a fault and shows it: whether the one before was of another kind.
    fn note(&self, kind: &str, message: &str) -> bool {
        let mut state = self.lock();
        *state.faults.entry(kind.to_owned()).or_default() += 1;
        let fault = ClusterFault { kind: kind.to_owned(), message: message.to_owned() };
        state.fault.replace(fault).is_none_or(|it| it.kind != kind)
    }

    /// Counts and tells of something that went wrong once.
    pub(super) fn event(&self, kind: &str, message: &str, help: Option<&str>) {
        *self.lock().faults.entry(kind.to_owned()).or_default() += 1;
        tracing::warn!(kind, help, "cluster: {message}");
    }

    /// All is well.
    pub(super) fn well(&self) {
        if let Some(fault) = self.lock().fault.take() {
            tracing::info!("cluster: well again, after: {}", fault.message);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Cluster> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn warn(kind: &str, message: &str, help: Option<&str>) {
    tracing::warn!(kind, help, "cluster: {message}; this edge goes on with what it has");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_counted_each_time_and_shown_until_all_is_well() {
        let view = View::default();
        view.fault("unreachable", "nobody", None);
        view.fault("unreachable", "nobody still", None);
        view.fault("denied", "no", None);
        let state = view.state();
        assert_eq!((state.faults["unreachable"], state.faults["denied"]), (2, 1));
        assert_eq!(state.fault.unwrap().message, "no");
        view.well();
        assert!(view.state().fault.is_none());
    }
}
