//! A request whose server is a store of objects: what that is asked instead of the request, or who
//! responds for it.

use std::sync::Arc;

use loadline_core::{decide::reason::Reason, fleet::Store};

use super::Exchange;
use crate::{
    store::{FileReply, Signed},
    upstream::pool::Connection,
};

impl Exchange<'_> {
    /// Makes the request for a store that is not on this machine.
    pub(super) async fn sign(&self, store: &Arc<Store>) -> Result<Option<Signed>, Reason> {
        let Some(bucket) = store.place.bucket() else { return Ok(None) };
        let route = &self.driver.route;
        let remote = route.service_context().remote(store).ok_or(Reason::StoreNoCredentials)?;
        let request = (&*self.request.text, !self.request.is_whole);
        let limit = route.settings().timeouts.connect;
        remote.sign((store, bucket), request, limit).await.map(Some)
    }

    /// Who responds to a request for a store without a connection, if somebody does.
    pub(super) fn local(&self, store: &Arc<Store>, signed: Option<&Signed>) -> Option<Connection> {
        let reply = match signed {
            None => FileReply::of(store.clone()),
            Some(signed) => FileReply::local(store.clone(), &self.request.text, signed.local()?),
        };
        Some(Connection::to_files(reply))
    }
}
