//! The `error_page` of a bucket: fetched at most once in ten seconds, and sent with the status 404.

use std::sync::Arc;

use loadline_core::{
    decide::{reason::Reason, request::Event},
    fleet::{Page, Store},
    time::Instant,
};
use loadline_http1::{Method, ResponseHead};

use super::{Attempt, Done};
use crate::{
    io::buffer::Buffer,
    store::{ErrorPage, Signed},
};

impl Attempt<'_, '_> {
    /// Whether this attempt asks for it.
    pub(super) fn asks_error_page(&self) -> bool {
        self.signed.as_deref().is_some_and(Signed::is_for_error_page)
    }

    /// Whether it asks for something else than the client does.
    pub(super) fn asks_for_us(&self) -> bool {
        self.signed.as_deref().is_some_and(Signed::is_for_us)
    }

    /// The method that this attempt is sent with.
    pub(super) fn method(&self) -> Method {
        if self.asks_for_us() { Method::Get } else { self.exchange.request.method }
    }

    /// Whether there may be an error page that is not known at present. A HEAD is told its length.
    pub(super) fn has_unknown_error_page(&self, now: Instant) -> bool {
        self.error_page_path().is_some() && self.error_page(NOT_FOUND, now).is_none()
    }

    /// The error page for a status, if it is known.
    pub(super) fn error_page(&self, status: u16, now: Instant) -> Option<Arc<ErrorPage>> {
        let path = self.error_page_path().filter(|_| status == NOT_FOUND)?;
        self.remote()?.error_pages.get(&path, now)
    }

    /// Takes the store's response to the request for it, and tells it to the client.
    pub(super) async fn take_error_page(
        &mut self,
        head: &ResponseHead,
        buffer: Buffer,
        now: Instant,
    ) -> Result<Done, Reason> {
        let of_store = |name| {
            let value = head.fields().get(buffer.filled(), name);
            value.and_then(|it| std::str::from_utf8(it).ok())
        };
        let content_type =
            of_store("Content-Type").unwrap_or("application/octet-stream").to_owned();
        let coding = of_store("Content-Encoding").map(|it| format!("Content-Encoding: {it}\r\n"));
        let (body, is_over) = self.read_all(head, buffer, PAGE_MAX).await?;
        let reusable = is_over && head.keep_alive() && self.connection.peer.rest.is_empty();
        let (is_found, fits) = (head.status() == 200, body.len() <= PAGE_MAX);
        let is_lost = head.status() >= 500 || is_found && fits && !is_over;
        let is_page = is_found && fits && is_over;
        let page = is_page.then(|| Page { content_type, body: body.into() });
        match (self.remote(), self.error_page_path()) {
            (Some(remote), Some(path)) if is_lost => remote.error_pages.keep_old(&path, now),
            (Some(remote), Some(path)) => {
                remote.error_pages.keep(&path, (page, coding.unwrap_or_default()), now);
            }
            _ => {}
        }
        self.signed.as_deref_mut().into_iter().for_each(Signed::end_turn);
        let came = Event::Head { status: NOT_FOUND, untouched: !self.is_touched() };
        let _ = self.exchange.tell(now, came);
        self.replace(NOT_FOUND, "", reusable, now).await
    }

    fn error_page_path(&self) -> Option<String> {
        let driver = &self.exchange.driver;
        let store: &Arc<Store> = driver.route.store(&driver.place()?)?;
        store.error_page.clone()
    }
}

const NOT_FOUND: u16 = 404;

/// The longest page; it is kept in memory.
const PAGE_MAX: usize = 1 << 20;
