//! The HTTP/2 or HTTP/3 connections of a run to one endpoint: as few as will do.
//!
//! Without a limit there is one for each hundred requests under way, or for as many as the server
//! takes on one if those are fewer and HTTP/2 says so; quinn does not tell. With a limit there are
//! as many as that, once that many requests are under way at a time; each request goes where the
//! fewest are. What no connection has room for waits in the h2 crate or in quinn, first come, first
//! served.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::Future,
    rc::Rc,
};

use tokio::sync::oneshot;

use crate::{
    http1::Failure, http2::Http2Connection, http3::Http3Connection, outcome::Outcome,
    request::Request, tally::WholeResponse,
};

/// A connection that takes many requests at a time.
#[derive(Clone)]
pub(crate) enum Session {
    Http2(Http2Connection),
    Http3(Http3Connection),
}

/// The connections to one endpoint.
pub(crate) struct Sessions {
    limit: Option<usize>,
    open: RefCell<Vec<Rc<Shared>>>,
    opening: Cell<usize>,
    waiting: Cell<usize>,
    /// Requests waiting for a place, in order. Each is sent the outcome of a failed opening; a
    /// dropped sender means that a request has ended.
    waiters: RefCell<VecDeque<oneshot::Sender<Outcome>>>,
}

/// A connection and how many requests are on it.
struct Shared {
    session: Session,
    streams: Cell<usize>,
}

/// A connection with a place on it for one request.
pub(crate) struct Place {
    shared: Rc<Shared>,
    /// Whether other requests have been on it.
    pub(crate) reused: bool,
}

impl Session {
    /// Whether another request can be sent; false after the connection's end or GOAWAY.
    pub(crate) async fn is_open(&self) -> bool {
        match self {
            Self::Http2(session) => session.is_open().await,
            Self::Http3(session) => session.is_open(),
        }
    }

    /// Sends the request and reads the response.
    ///
    /// # Errors
    /// [`Failure`] where there is no whole response; [`Failure::Unprocessed`] where the server said
    /// that it has not looked at the request.
    pub(crate) async fn exchange(&self, request: &Request) -> Result<WholeResponse, Failure> {
        match self {
            Self::Http2(session) => session.exchange(request).await,
            Self::Http3(session) => session.exchange(request).await,
        }
    }

    /// How many requests it takes at a time, as far as is known and no more than will do.
    fn comfortable(&self) -> usize {
        match self {
            Self::Http2(session) => session.most_streams().clamp(1, STREAMS),
            Self::Http3(_) => STREAMS,
        }
    }
}

impl Sessions {
    /// None yet, and at most `limit` ever at a time.
    pub(crate) fn new(limit: Option<u32>) -> Self {
        Self {
            limit: limit.map(|limit| limit as usize),
            open: RefCell::default(),
            opening: Cell::new(0),
            waiting: Cell::new(0),
            waiters: RefCell::default(),
        }
    }

    /// A place on the connection with the fewest requests; on a new one, made by `open`, where
    /// another is wanted.
    ///
    /// # Errors
    /// What the connection failed by that it opened, or waited for.
    pub(crate) async fn place(
        &self,
        open: impl AsyncFn() -> Result<Session, Outcome>,
    ) -> Result<Place, Outcome> {
        loop {
            if let Some(place) = self.least_used() {
                if place.shared.session.is_open().await {
                    return Ok(place);
                }
                self.open.borrow_mut().retain(|shared| !Rc::ptr_eq(shared, &place.shared));
            } else if self.wants_another() {
                return self.add(open()).await;
            } else {
                self.wait().await?;
            }
        }
    }

    /// The connection with the fewest requests, unless another should be opened first.
    fn least_used(&self) -> Option<Place> {
        let open = self.open.borrow();
        let least = open.iter().min_by_key(|shared| shared.streams.get())?;
        let full = least.streams.get() >= self.comfortable(&least.session);
        if full && self.may_open() {
            return None;
        }
        least.streams.set(least.streams.get() + 1);
        Some(Place { shared: Rc::clone(least), reused: true })
    }

    /// How many requests a connection has before another is opened.
    fn comfortable(&self, session: &Session) -> usize {
        if self.limit.is_some() { 1 } else { session.comfortable() }
    }

    fn may_open(&self) -> bool {
        let all = self.open.borrow().len() + self.opening.get();
        self.limit.is_none_or(|limit| all < limit)
    }

    /// Whether more requests wait than the connections that are being opened will take.
    fn wants_another(&self) -> bool {
        let each = if self.limit.is_some() { 1 } else { STREAMS };
        let enough = self.opening.get() * each;
        self.may_open() && self.waiting.get() + self.opening.get() >= enough
    }

    /// Waits for the end of an opening.
    async fn wait(&self) -> Result<(), Outcome> {
        let _waiting = Raised::new(&self.waiting);
        let (told, failed) = oneshot::channel();
        self.waiters.borrow_mut().push_back(told);
        failed.await.map_or(Ok(()), Err)
    }

    async fn add(
        &self,
        opening: impl Future<Output = Result<Session, Outcome>>,
    ) -> Result<Place, Outcome> {
        let session = {
            let _opening = Opening(Raised::new(&self.opening), &self.waiters);
            opening.await.inspect_err(|outcome| self.fail_waiting(*outcome))?
        };
        let shared = Rc::new(Shared { session, streams: Cell::new(1) });
        self.open.borrow_mut().push(Rc::clone(&shared));
        Ok(Place { shared, reused: false })
    }

    /// Lets those fail that waited for an opening that did: of as many openings as are under way,
    /// an equal part. To open anew for each of them, one after another, would let the last wait
    /// until they time out, which the server had no part in.
    fn fail_waiting(&self, outcome: Outcome) {
        let part = self.waiting.get().div_ceil(self.opening.get().max(1));
        let waiters = &mut *self.waiters.borrow_mut();
        let mut failed = 0;
        while failed < part
            && let Some(waiter) = waiters.pop_front()
        {
            // Whoever was given up meanwhile is not counted.
            failed += usize::from(waiter.send(outcome).is_ok());
        }
    }
}

impl Place {
    /// The connection.
    pub(crate) fn session(&self) -> &Session {
        &self.shared.session
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.streams.set(self.shared.streams.get() - 1);
    }
}

/// A count that is one higher for as long as this lives.
struct Raised<'a>(&'a Cell<usize>);

impl<'a> Raised<'a> {
    fn new(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A connection being opened; those who wait are told when it no longer is, even if the request
/// that opens it is given up.
struct Opening<'a>(
    #[expect(dead_code, reason = "held for its drop")] Raised<'a>,
    &'a RefCell<VecDeque<oneshot::Sender<Outcome>>>,
);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.1.take();
    }
}

/// As many requests as every server should take on one connection (RFC 9113, section 6.5.2;
/// RFC 9114, section 6.1).
const STREAMS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_waits_for_a_connection_that_is_refused_is_refused_with_it() {
        let (sessions, openings) = (Sessions::new(None), Cell::new(0));
        let open = async || {
            openings.set(openings.get() + 1);
            tokio::task::yield_now().await;
            Err(Outcome::ConnectRefused)
        };
        let place = || async { sessions.place(open).await.err() };
        let all = tokio::join!(place(), place(), place(), place());
        let refused = Some(Outcome::ConnectRefused);
        assert_eq!(all, (refused, refused, refused, refused));
        assert_eq!(openings.get(), 1, "one connection is enough for all of them");
    }

    #[tokio::test]
    async fn of_two_openings_the_one_that_fails_takes_half_of_those_that_wait() {
        let (sessions, openings) = (Sessions::new(Some(2)), Cell::new(0));
        let failures = [Outcome::ConnectRefused, Outcome::Reset];
        let open = async || {
            let number = openings.replace(openings.get() + 1);
            for _ in 0..=number {
                tokio::task::yield_now().await;
            }
            Err(failures[number.min(1)])
        };
        let place = || async { sessions.place(open).await.err() };
        let all = tokio::join!(place(), place(), place(), place());
        let count = |of| [all.0, all.1, all.2, all.3].iter().filter(|it| **it == Some(of)).count();
        assert_eq!((count(failures[0]), count(failures[1])), (2, 2), "{all:?}");
    }
}
