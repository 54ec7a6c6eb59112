//! A permit together with the queue that hears of its end.

use std::{ops::Deref, rc::Rc};

use loadline_core::{orca::parse_orca, permit::Permit, time::Instant};

use crate::view::View;

/// The right to send one request to one server. Giving it back wakes whoever waits for capacity.
#[derive(Debug)]
pub(crate) struct Grant {
    permit: Option<Permit>,
    view: Rc<View>,
    service: usize,
}

impl Grant {
    /// A permit of the service at this index of `view`.
    pub(crate) fn new(permit: Permit, view: &Rc<View>, service: usize) -> Self {
        Self { permit: Some(permit), view: view.clone(), service }
    }

    /// Gives it back after a request that was no failure of the server.
    pub(crate) fn finish(mut self, now: Instant) {
        if let Some(permit) = self.permit.take() {
            permit.finish(now);
        }
    }

    /// Gives it back after a failure of the server: how many that makes in a row.
    pub(crate) fn fail(mut self) -> u32 {
        self.permit.take().map_or(0, Permit::fail)
    }
}

impl Deref for Grant {
    type Target = Permit;

    fn deref(&self) -> &Permit {
        self.permit.as_ref().expect("a grant has its permit until it is given back")
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        // Before the queue is told: there must be room when its head asks.
        drop(self.permit.take());
        if self.view.service(self.service).state().queued() > 0 {
            self.view.desks[self.service].queue.notify();
        }
    }
}

/// Takes in a report of utilization. One that makes no sense is as good as none.
pub(crate) fn report(grant: &Grant, now: Instant, metrics: Option<&[u8]>) {
    let text = metrics.and_then(|metrics| std::str::from_utf8(metrics).ok());
    if let Some(utilization) = text.and_then(parse_orca) {
        grant.report_utilization(now, utilization);
    }
}
