//! A request to a store: signed for a bucket, or answered from a file.

use std::{borrow::Cow, sync::Arc};

use loadline_core::{
    decide::{ending::Fault, reason::Reason, request::Failed},
    fleet::{Bucket, Store},
};

use super::Exchange;
use crate::{
    http::{
        driver::Place,
        failure::{Again, Failure},
    },
    store::{ErrorPage, FileReply, Signed, first_byte},
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
        if then == Some(Again::NoPage) {
            return Ok(Some(Signed::missing()));
        }
        let path = store.error_page.as_deref();
        if let (Some(path), Some(Again::ErrorPage)) = (path, then) {
            return self.sign_for_page((store, bucket), path, may_renew).await.map(Some);
        }
        let route = &self.driver.route;
        let remote = route.service_context().remote(store).ok_or(Reason::StoreNoCredentials)?;
        let limit = route.settings().timeouts.connect;
        let is_beyond = then == Some(Again::Conditions);
        let (text, unexplained): (Cow<'_, [u8]>, _) = match then {
            Some(Again::Cause { is_missing }) => {
                let status = if is_missing { NOT_FOUND } else { BAD };
                (Cow::Owned(first_byte(&self.request.text)), Some(status))
            }
            _ => (Cow::Borrowed(&*self.request.text), None),
        };
        let asked = (&*text, then == Some(Again::Whole) || is_beyond);
        let signed = remote.sign((store, bucket), asked, (limit, may_renew)).await?;
        let signed = match unexplained {
            Some(status) => signed.for_cause(status),
            None => signed.beyond(is_beyond),
        };
        let is_missing = signed.local().is_some_and(|(status, _)| status == NOT_FOUND);
        match path.filter(|_| is_missing && self.error_page(store).is_none()) {
            Some(path) => self.sign_for_page((store, bucket), path, may_renew).await.map(Some),
            None => Ok(Some(signed)),
        }
    }

    /// Makes the request for the error page of a remote store, or none where another request asks
    /// for it.
    async fn sign_for_page(
        &self,
        (store, bucket): (&Arc<Store>, &Bucket),
        path: &str,
        may_renew: bool,
    ) -> Result<Signed, Reason> {
        let route = &self.driver.route;
        let remote = route.service_context().remote(store).ok_or(Reason::StoreNoCredentials)?;
        let limit = route.settings().timeouts.connect;
        let turn = remote.error_pages.turn(path, limit).await;
        let has_page = || remote.error_pages.has(path, self.worker.shared.clock.now());
        let Some(turn) = turn.filter(|_| !has_page()) else { return Ok(Signed::missing()) };
        let text = format!("GET {path} HTTP/1.1\r\n\r\n");
        let asked = (text.as_bytes(), false);
        let signed = remote.sign((store, bucket), asked, (limit, may_renew)).await?;
        Ok(signed.for_error_page(turn))
    }

    /// Whether a client that wants what is not there is told so without the page that a store was
    /// asked for, and others for a while.
    pub(super) fn does_without_page(&self, store: Option<&Arc<Store>>, failure: &Failure) -> bool {
        let Failed { reason, progress } = failure.failed;
        // It is sent over another connection where the store had closed this one meanwhile.
        let is_stale = progress.reused && !progress.heard;
        let is_over = reason.ending().fault() == Fault::Client || reason == Reason::DrainOver;
        if is_stale || is_over || failure.committed.is_some() {
            return false;
        }
        if let Some(store) = store.filter(|_| !progress.crowded)
            && let Some(path) = &store.error_page
            && let Some(remote) = self.driver.route.service_context().remote(store)
        {
            remote.error_pages.keep_old(path, self.worker.shared.clock.now());
        }
        true
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
        remote.error_pages.get(path, self.worker.shared.clock.now())
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

const BAD: u16 = 400;

const NOT_FOUND: u16 = 404;
