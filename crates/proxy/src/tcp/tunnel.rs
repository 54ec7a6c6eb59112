//! Relays bytes both ways between two peers, unread.
//!
//! Each direction ends on its own: the end of what one side sends is passed on to the other, which
//! may go on sending. A tunnel is over when both directions are, or when one breaks; but a server
//! that stops listening may still have something to say, and one that has said all may stop
//! listening. A client that ends without the `close_notify` of TLS has said all as well.
//!
//! After `101 Switching Protocols` there is no idle timeout: a WebSocket may be silent for hours.
//! The kernel is asked to find out about peers that have vanished, also about one that has said all
//! and from which nothing is read any more, and about a client from which nothing is read since the
//! server takes no more; where the tunnel is a stream of HTTP/2, that is asked for its connection.
//! A tunnel keeps its permit, and lives on through reloads; a drain gives it until its deadline.

use std::{
    future::poll_fn,
    task::{Context, Poll, ready},
};

use loadline_core::decide::reason::Reason;

use crate::{
    http::relay::{Broken, Relay},
    io::{buffer::Buffers, hang_up::HangUp, peer::Peer, socket::Socket},
};

/// Both directions between a client and a server.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub(crate) up: Relay,
    pub(crate) down: Relay,
    /// Watch the peers while nothing is read from them.
    client_watch: Option<Box<HangUp>>,
    server_watch: Option<Box<HangUp>>,
    /// The server reset its connection. Only the writer learns it: a read finds an end.
    is_reset: bool,
}

/// How a tunnel ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Both sides have said all, or the server has and listens no more.
    Closed,
    /// The client's connection broke.
    ClientBroken,
    /// The server's connection broke, and why.
    ServerBroken(Reason),
}

impl Tunnel {
    /// A tunnel through which what the peers have sent so far goes first.
    pub(crate) fn between(buffers: &Buffers, client: &mut Peer, server: &mut Peer) -> Self {
        let (mut up, mut down) = (Relay::of_stream(), Relay::of_stream());
        up.begin_with(&mut client.rest, buffers);
        down.begin_with(&mut server.rest, buffers);
        Self { up, down, client_watch: None, server_watch: None, is_reset: false }
    }

    /// Moves what can be moved; ready at the end.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &Buffers,
        client: &mut Peer,
        server: &mut Peer,
    ) -> Poll<End> {
        let up = match poll_way(&mut self.up, cx, buffers, client, (&mut server.socket, true)) {
            Poll::Ready(Err(Broken::Sink(reason))) => {
                self.up.abandon();
                self.is_reset = reason == Reason::Reset && !self.down.is_over();
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(UNNOTIFIED)) => {
                self.up.abandon();
                server.socket.shut_unnotified();
                Poll::Ready(Ok(()))
            }
            up => up,
        };
        let to_client = (&mut client.socket, !self.is_reset);
        let down = poll_way(&mut self.down, cx, buffers, server, to_client);
        let end = match (up, down) {
            // Who has said all is left by the link to the server, as by a connection that closes.
            (_, Poll::Ready(Err(Broken::Source(Reason::BrokenPipe)))) if self.up.is_over() => {
                End::Closed
            }
            (_, Poll::Ready(Err(Broken::Source(reason)))) => End::ServerBroken(reason),
            (Poll::Ready(Err(_)), _) | (_, Poll::Ready(Err(_))) => End::ClientBroken,
            (_, Poll::Ready(Ok(()))) if self.is_reset => End::ServerBroken(Reason::StreamReset),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => End::Closed,
            (Poll::Ready(Ok(())), _) => {
                ready!(client.socket.poll_broken(cx, &mut self.client_watch));
                End::ClientBroken
            }
            _ if self.up.waits_for_sink()
                && client.socket.poll_lost(cx, &mut self.client_watch).is_ready() =>
            {
                End::ClientBroken
            }
            (_, Poll::Ready(Ok(()))) => {
                ready!(server.socket.poll_broken(cx, &mut self.server_watch));
                End::Closed
            }
            _ => return Poll::Pending,
        };
        Poll::Ready(end)
    }

    /// Whether bytes have moved since the last call.
    pub(crate) const fn has_moved(&mut self) -> bool {
        let up = self.up.has_moved();
        self.down.has_moved() || up
    }
}

/// Carries bytes between the peers until the end, which it gives. Adds up those that go to the
/// client, and says when the server has sent some.
pub(crate) async fn tunnel(
    buffers: &Buffers,
    client: &mut Peer,
    server: &mut Peer,
    bytes: &mut u64,
    heard: impl Fn(),
) -> End {
    client.socket.keep_alive();
    server.socket.keep_alive();
    let mut tunnel = Tunnel::between(buffers, client, server);
    poll_fn(|cx| {
        let before = tunnel.down.bytes;
        let end = tunnel.poll(cx, buffers, client, server);
        *bytes += tunnel.down.bytes - before;
        if tunnel.down.bytes > before && tunnel.down.waits_for_source() {
            heard();
        }
        end
    })
    .await
}

/// Moves one direction, and passes its end on if it is one.
fn poll_way(
    relay: &mut Relay,
    cx: &mut Context<'_>,
    buffers: &Buffers,
    from: &mut Peer,
    (to, ends): (&mut Socket, bool),
) -> Poll<Result<(), Broken>> {
    if relay.is_over() {
        return Poll::Ready(Ok(()));
    }
    ready!(relay.poll(cx, buffers, from, to))?;
    if ends {
        to.shut();
    }
    Poll::Ready(Ok(()))
}

/// A stream of TLS that just ends. Many clients close so: it ends as one of bare TCP does, and who
/// has to know whether it is whole looks into what it says. A server that is reached by TLS gets no
/// `close_notify` either: nobody knows here whether it was cut.
const UNNOTIFIED: Broken = Broken::Source(Reason::TlsUnexpectedEof);
