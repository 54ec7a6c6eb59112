//! A request to a store: signed for a bucket, or answered from a file.

use std::sync::Arc;

use loadline_core::{decide::reason::Reason, fleet::Store};
use loadline_http1::Method;

use super::Exchange;
use crate::{
    http::{driver::Place, failure::Again},
    store::{ErrorPage, FileReply, Signed},
    upstream::pool::Connection,
};

impl Exchange<'_> {
    /// Makes the request for a remote store: for what the client asks for of an object, or for what
    /// `then` asks the store for. For a path that is that of no object, its error page is asked for
    /// where it is not known.
    pub(super) async fn sign(
        &self,
        store: &Arc<Store>,
        (then, may_renew): (Option<Again>, bool),
    ) -> Result<Option<Signed>, Reason> {
        let Some(bucket) = store.place.bucket() else { return Ok(None) };
        let route = &self.driver.route;
        let remote = route.service_context().remote(store).ok_or(Reason::StoreNoCredentials)?;
        let page = store.error_page.as_ref().filter(|_| then == Some(Again::ErrorPage));
        let page = page.map(|path| format!("GET {path} HTTP/1.1\r\n\r\n"));
        let text = page.as_ref().map_or(&*self.request.text, String::as_bytes);
        let limit = route.settings().timeouts.connect;
        let asked = (text, then == Some(Again::Whole));
        let signed = remote.sign((store, bucket), asked, (limit, may_renew)).await?;
        let is_missing = signed.local().is_some_and(|(status, _)| status == NOT_FOUND);
        let reads_page = store.error_page.is_some() && self.request.method == Method::Get;
        if page.is_none() && is_missing && reads_page && self.error_page(store).is_none() {
            return Box::pin(self.sign(store, (Some(Again::ErrorPage), may_renew))).await;
        }
        Ok(Some(if page.is_some() { signed.for_error_page() } else { signed }))
    }

    /// Who responds to a request for a store without a connection, if somebody does.
    fn local(&self, store: &Arc<Store>, signed: Option<&Signed>) -> Option<Connection> {
        let reply = match signed {
            None => FileReply::of(store.clone(), self.request.asked_path.clone()),
            Some(signed) => {
                let told = signed.local()?;
                let page = self.error_page(store).filter(|_| told.0 == NOT_FOUND);
                FileReply::local(store.clone(), &self.request.text, told, page.as_deref())
            }
        };
        Some(Connection::to_files(reply))
    }

    /// The error page of a store, if it was asked for a moment ago.
    fn error_page(&self, store: &Arc<Store>) -> Option<Arc<ErrorPage>> {
        let path = store.error_page.as_ref()?;
        let remote = self.driver.route.service_context().remote(store)?;
        remote.error_page(path, self.worker.shared.clock.now())
    }

    /// The file that answers, or a connection that is kept: first the one that is the client's own.
    pub(super) fn known(
        &mut self,
        (store, signed): (Option<&Arc<Store>>, Option<&Signed>),
        place: &Place,
        takes_kept: &mut bool,
    ) -> Option<Connection> {
        let local = store.and_then(|store| self.local(store, signed));
        if local.is_some() || !std::mem::take(takes_kept) {
            return local;
        }
        let private = self.request.private.take();
        let (worker, tls) = (self.worker, self.driver.route.service_context().tls.as_ref());
        let now = worker.timers.coarse_now();
        let own = private.and_then(|private| private.open(place.server, now, tls));
        own.or_else(|| worker.pools.take(&worker.shared, place.server, tls))
    }
}

const NOT_FOUND: u16 = 404;
