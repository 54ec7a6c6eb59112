//! Connections by client address, and the response to a client with too many of them.
//!
//! The count is that of all workers. A connection that is one too many is closed as it comes: with
//! 429 where the request is there to be read in clear, which takes no time; otherwise without a
//! word, before anything is spent on TLS. Nothing waits for such a client.

use std::{
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use loadline_core::{
    decide::{coalesce::Coalesced, ending::Ending},
    rules::{ClientKey, ConnectionsPerClient},
    time::{Duration, Instant},
};
use loadline_http1::LocalReply;

use crate::{
    http::session::end_unread,
    io::socket::Socket,
    listener::handle::ListenerHandle,
    runtime::{view::ListenerContext, worker::Worker},
};

/// The connections of each client of a listener, over all workers.
#[derive(Debug)]
pub(crate) struct Clients {
    /// Apart by client, so that workers seldom wait for each other.
    parts: [Mutex<ConnectionsPerClient>; PARTS],
    refusals: Mutex<Coalesced<()>>,
}

impl Default for Clients {
    fn default() -> Self {
        let parts = std::array::from_fn(|_| Mutex::default());
        Self { parts, refusals: Mutex::new(Coalesced::new(WARN_AGAIN)) }
    }
}

impl Clients {
    /// Counts one more connection of `client`, unless it has `max`.
    pub(super) fn try_enter(&self, client: ClientKey, max: u32) -> bool {
        self.part(client).try_enter(client, max)
    }

    /// A connection of `client` that was counted is over.
    pub(super) fn leave(&self, client: ClientKey) {
        self.part(client).leave(client);
    }

    fn part(&self, client: ClientKey) -> MutexGuard<'_, ConnectionsPerClient> {
        let last = match client {
            ClientKey::V4([.., last]) | ClientKey::V6([.., last]) => last,
        };
        self.parts[usize::from(last) % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many refusals are to be told of now, if any are.
    fn note_refusal(&self, now: Instant) -> Option<u64> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).note(now, &(), 1)
    }
}

/// Closes, counts and logs a connection that is one too many of its client. That of QUIC has no
/// socket of its own.
#[cold]
pub(crate) fn refuse(
    worker: &Worker,
    handle: &ListenerHandle,
    client: SocketAddr,
    socket: Option<Socket>,
) {
    let view = worker.view_at(handle);
    let Some(listener) = view.listener(handle) else { return };
    let Some(context) = view.listener_context(handle) else { return };
    let is_readable = listener.protocol.is_http() && listener.tls.is_none();
    let socket = socket.filter(|_| is_readable);
    let bytes = socket.and_then(|socket| tell(socket, worker, context));
    let told = bytes.map_or((0, 0), |bytes| (TOO_MANY, bytes));
    context.cells.over_client_limit.add(1);
    end_unread((worker, handle), client, Ending::ClientLimit, told);
    if let Some(connections) = handle.clients.note_refusal(worker.shared.clock.now()) {
        let (address, client) = (handle.key.bind, client.ip());
        tracing::warn!(
            %address, %client, connections,
            "refused: a client has max_connections_per_client connections"
        );
    }
}

/// Answers a request of HTTP/1, in so many bytes, if one has come.
fn tell(mut socket: Socket, worker: &Worker, context: &ListenerContext) -> Option<usize> {
    let Socket::Plain(io) = &mut socket else { return None };
    let mut bytes = [0; REQUEST_BYTES];
    // Unread, it would have the kernel throw the response away.
    let Ok(count @ 1..) = io.try_read(&mut bytes) else { return None };
    if bytes[..count].starts_with(HTTP2) {
        return None;
    }
    let page = context.error_pages.find(TOO_MANY, b"");
    let page = page.map(|page| (&*page.content_type, &*page.body));
    // What else a listener says it says over TLS.
    let extra = &worker.date.now();
    let to_head = bytes.starts_with(b"HEAD ");
    let mut reply = Vec::new();
    LocalReply { page, extra, to_head, ..LocalReply::closing(TOO_MANY) }.write(&mut reply);
    let told = io.try_write(&reply).ok();
    socket.shut();
    told
}

/// How HTTP/2 begins (RFC 9113, 3.4): such a client would not understand HTTP/1.
const HTTP2: &[u8] = b"PRI * HTTP/2.0";

/// The status of who has too many connections.
const TOO_MANY: u16 = 429;

/// More than most requests have.
const REQUEST_BYTES: usize = 4 << 10;

/// Enough that a dozen workers mostly find another part.
const PARTS: usize = 16;

/// How often the log tells of one listener.
const WARN_AGAIN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU32, Ordering::SeqCst},
        thread,
    };

    use super::*;

    #[test]
    fn threads_that_come_and_go_at_once_never_have_more_than_the_limit() {
        let (clients, inside) = (Clients::default(), AtomicU32::new(0));
        let key = ClientKey::V4([192, 0, 2, 1]);
        let come_and_go = || {
            for _ in 0..20_000 {
                if clients.try_enter(key, 3) {
                    assert!(inside.fetch_add(1, SeqCst) < 3);
                    inside.fetch_sub(1, SeqCst);
                    clients.leave(key);
                }
            }
        };
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(come_and_go))));
        assert_eq!(clients.part(key).clients(), 0);
    }

    #[test]
    fn a_flood_of_refusals_is_one_line_a_minute() {
        let clients = Clients::default();
        let told = |second| clients.note_refusal(Instant::ZERO + Duration::from_secs(second));
        assert_eq!(told(0), Some(1));
        assert!((1..60).all(|second| told(second).is_none()));
        assert_eq!(told(60), Some(60));
    }
}
