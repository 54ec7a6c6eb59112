//! What the agent knows, for whoever shows it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use loadline_core::state::{Cluster, ClusterFault};
use tokio::sync::watch;

use super::Fault;

/// A handle on the state of the cluster.
#[derive(Clone, Debug, Default)]
pub struct View {
    state: Arc<Mutex<Cluster>>,
    /// What is wrong with parts that have a connection of their own, by what does not work.
    parts: Arc<Mutex<BTreeMap<String, ClusterFault>>>,
    /// Whether the keys at the prefix are those of this edge's cluster.
    admitted: Arc<watch::Sender<bool>>,
}

impl View {
    /// The present state.
    #[must_use]
    pub fn state(&self) -> Cluster {
        let mut state = self.lock().clone();
        state.fault = state.fault.or_else(|| self.parts().values().next().cloned());
        state
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

    /// Counts a fault for which `what` does not work, which the agent need not meet, and tells of
    /// it where nothing else has one of its kind.
    pub(super) fn part_fault(&self, what: &str, fault: &Fault) {
        let (kind, message) = (fault.kind().to_owned(), format!("{what}: {fault}"));
        let mut state = self.lock();
        *state.faults.entry(kind.clone()).or_default() += 1;
        let mut parts = self.parts();
        let is_told = state.fault.iter().chain(parts.values()).any(|it| it.kind == kind);
        parts.insert(what.to_owned(), ClusterFault { kind, message: message.clone() });
        drop((state, parts));
        if !is_told {
            warn(fault.kind(), &message, fault.help());
        }
    }

    /// `what` works.
    pub(super) fn part_well(&self, what: &str) {
        let fault = self.parts().remove(what);
        fault.iter().for_each(tell_of_end);
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
        let fault = self.lock().fault.take();
        fault.iter().for_each(tell_of_end);
    }

    fn lock(&self) -> MutexGuard<'_, Cluster> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn parts(&self) -> MutexGuard<'_, BTreeMap<String, ClusterFault>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tell_of_end(fault: &ClusterFault) {
    tracing::info!("cluster: recovered from: {}", fault.message);
}

fn warn(kind: &str, message: &str, help: Option<&str>) {
    tracing::warn!(kind, help, "cluster: {message}; this edge goes on with what it has");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::EtcdError;

    #[test]
    fn what_a_part_alone_meets_is_shown_until_that_part_is_well() {
        let view = View::default();
        let message = "etcdserver: user name is empty".to_owned();
        let error = EtcdError::Status { endpoint: "http://a:1".to_owned(), code: 3, message };
        let fault = Fault::Etcd(error);
        view.part_fault("a is not followed", &fault);
        view.part_fault("b is not followed", &fault);
        view.well();
        let state = view.state();
        assert_eq!((state.faults["denied"], state.fault.unwrap().kind), (2, "denied".to_owned()));
        view.part_well("a is not followed");
        let told = view.state().fault.unwrap().message;
        assert!(told.starts_with("b is not followed: http://a:1 refused: etcdserver: "), "{told}");
        view.part_well("b is not followed");
        assert!(view.state().fault.is_none());
    }

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
