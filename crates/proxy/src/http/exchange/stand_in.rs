//! A request that bypasses the cache although something is stored for it, such as a `HEAD` for a
//! stale response: if servers fail or have no room, the stored response is the answer, as it is for
//! a `GET`.

use std::sync::Arc;

use loadline_core::{
    cache::{Decision, Fields, Found, Situation, Wishes, decide, is_server_error},
    decide::ending::{Ending, Fault},
};

use super::{
    Exchange, Next,
    stored::{Given, Source},
};
use crate::cache::{CacheResult, Object, StandIn, Wanted, request_fields, unix_now, write_passed};

impl Exchange<'_> {
    /// Has a server answer the request.
    pub(super) async fn pass_on(&mut self) -> (Ending, Next) {
        let served = self.serve().await;
        if self.request.stand_in().is_some()
            && let Some(given) = Box::pin(self.stand_in(served.is_some())).await
        {
            return given;
        }
        match served {
            Some(served) => served,
            None => self.answer().await,
        }
    }

    /// Has the request pass the cache, where `stored` is kept for it: servers see of it what a
    /// fetch has, and the same method and conditions.
    pub(super) fn pass_cache(&mut self, mut wanted: Box<Wanted>, stored: Option<Arc<Object>>) {
        self.record.cache = Some(CacheResult::Bypass);
        let mut text = self.worker.buffers.take_text();
        write_passed(&self.request.text, &wanted, &mut text);
        let before = std::mem::replace(&mut self.request.text, text);
        self.worker.buffers.give_text(before);
        let since = self.worker.shared.store.asks();
        wanted.stand_in = stored.map(|object| StandIn { object, since, is_due: false });
        self.request.wanted = Some(wanted);
    }

    /// Whether a response with this status is given up for what is stored.
    pub(crate) fn is_stood_in_for(&mut self, status: u16) -> bool {
        let is_due = is_server_error(status) && self.usable(Situation::Failed).is_some();
        if let Some(stand_in) = self.request.stand_in_mut() {
            stand_in.is_due = is_due;
        }
        is_due
    }

    /// Gives the client what is stored where servers failed, if it may be used then.
    async fn stand_in(&mut self, has_served: bool) -> Option<(Ending, Next)> {
        let is_due = self.request.stand_in()?.is_due;
        let situation = match self.driver.failure().ending.fault() {
            _ if is_due => Situation::Failed,
            _ if has_served || self.committed.is_some() => return None,
            Fault::Server => Situation::Failed,
            Fault::Capacity => Situation::Full,
            Fault::None | Fault::Client | Fault::Proxy => return None,
        };
        let (object, given) = self.usable(situation)?;
        let wanted = self.request.wanted.take()?;
        Some(self.give(&wanted, &object.response, Source::Object(object.clone()), given).await)
    }

    /// What is stored, if it may be used in this situation.
    fn usable(&self, situation: Situation) -> Option<(Arc<Object>, Given)> {
        let wanted = self.request.wanted.as_ref()?;
        let StandIn { object, .. } = self.request.stand_in()?;
        let settings = &wanted.caching().settings;
        let fields = request_fields(&self.request.text);
        let (now, found) = (unix_now(), Found::Response(&object.metadata));
        match decide(found, &Wishes::of(Fields(&fields), settings), situation, now, settings) {
            Decision::Fresh | Decision::Stale { .. } => {
                Some((object.clone(), Given::hit(&object.metadata, now)))
            }
            _ => None,
        }
    }
}
