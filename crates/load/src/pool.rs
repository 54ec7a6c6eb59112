//! Connections at rest, and how many there may be.

use std::cell::RefCell;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::http1::Connection;

/// Connections of one user of a closed loop, or of all requests of an open one; apart for each
/// endpoint. The one used last is taken first, so that the fewest are kept warm.
pub(crate) struct Pool {
    shelves: Vec<Shelf>,
}

struct Shelf {
    at_rest: RefCell<Vec<Connection>>,
    /// Where connections are limited: one permit for each, given first come, first served.
    permits: Option<Semaphore>,
}

impl Pool {
    /// An empty pool for so many endpoints, with at most `limit` connections to each.
    pub(crate) fn new(endpoints: usize, limit: Option<u32>) -> Self {
        let shelf = |_| Shelf {
            at_rest: RefCell::default(),
            permits: limit.map(|limit| Semaphore::new(limit as usize)),
        };
        Self { shelves: (0..endpoints).map(shelf).collect() }
    }

    /// Waits until a connection to the endpoint may be used.
    pub(crate) async fn permit(&self, endpoint: usize) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed, so that the error cannot come.
        self.shelves[endpoint].permits.as_ref()?.acquire().await.ok()
    }

    /// The connection put to rest last that is still open.
    pub(crate) async fn take(&self, endpoint: usize) -> Option<Connection> {
        loop {
            let mut connection = self.shelves[endpoint].at_rest.borrow_mut().pop()?;
            if connection.is_open().await {
                return Some(connection);
            }
        }
    }

    /// Puts a connection to rest.
    pub(crate) fn put(&self, endpoint: usize, connection: Connection) {
        self.shelves[endpoint].at_rest.borrow_mut().push(connection);
    }
}
