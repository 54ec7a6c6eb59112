//! A connection that carries another protocol after `101 Switching Protocols`.
//!
//! Bytes go both ways until both sides have closed theirs or the connection breaks. There is no
//! idle timeout: a WebSocket may be silent for hours. The kernel is asked to find out about peers
//! that have vanished. A tunnel keeps its permit, and lives on through reloads; a drain gives it
//! until its deadline.

use std::{
    future::poll_fn,
    task::{Context, Poll},
};

use crate::{buffer::Buffers, peer::Peer, relay::Relay, socket::Socket};

/// Carries bytes between the peers until the end; how many went to the client.
pub(crate) async fn tunnel(buffers: &Buffers, client: &mut Peer, server: &mut Peer) -> u64 {
    client.socket.keep_alive();
    server.socket.keep_alive();
    let (mut up, mut down) = (Relay::of_stream(), Relay::of_stream());
    up.begin_with(&mut client.rest, buffers);
    down.begin_with(&mut server.rest, buffers);
    poll_fn(|cx| {
        let up = poll_way(&mut up, cx, buffers, client, &mut server.socket);
        let down = poll_way(&mut down, cx, buffers, server, &mut client.socket);
        match (up, down) {
            (Way::Broken, _) | (_, Way::Broken) | (Way::Closed, Way::Closed) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    })
    .await;
    down.bytes
}

/// What became of one direction.
enum Way {
    Open,
    Closed,
    Broken,
}

fn poll_way(
    relay: &mut Relay,
    cx: &mut Context<'_>,
    buffers: &Buffers,
    from: &mut Peer,
    to: &mut Socket,
) -> Way {
    if relay.is_over() {
        return Way::Closed;
    }
    match relay.poll(cx, buffers, from, to) {
        Poll::Pending => Way::Open,
        Poll::Ready(Ok(())) => {
            to.shut();
            Way::Closed
        }
        Poll::Ready(Err(_)) => Way::Broken,
    }
}
