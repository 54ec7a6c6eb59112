//! The socket of a listener: who opens it, and which connections are taken in.
//!
//! States: *unbound* (somebody has the port, or the listener wants no HTTP/3; looked at again
//! every second), *serving*, *leaving* (no new connections; those there are end as theirs do).

use std::{
    future::{Future as _, poll_fn},
    io,
    net::{SocketAddr, UdpSocket},
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::Poll,
};

use loadline_core::time::Duration;
use quinn::{Endpoint, EndpointConfig, Incoming, TokioRuntime};
use socket2::SockRef;
use tokio::task::spawn_local;

use super::{config::Config, connection};
use crate::{
    listener::handle::ListenerHandle,
    runtime::{timer::Timer, worker::Worker},
};

/// Serves HTTP/3 beside the TCP listener at `address` for as long as it is there.
pub(crate) async fn listen(worker: Rc<Worker>, handle: Arc<ListenerHandle>, address: SocketAddr) {
    let timer = Timer::here(&worker.timers).await;
    let mut config = Config::default();
    let mut is_told = false;
    while !worker.is_leaving(&handle) {
        if is_wanted(&worker, &handle) {
            match bind(address, (&worker, &handle), &mut config) {
                Ok(Some(endpoint)) => {
                    tracing::info!(%address, "HTTP/3 is served");
                    is_told = false;
                    handle.offer_http3(address.port());
                    serve(&worker, &handle, &endpoint, &mut config, &timer).await;
                    endpoint.set_server_config(None);
                }
                Ok(None) => return,
                Err(error) if !is_told => {
                    is_told = true;
                    tracing::warn!(%address, %error, "no HTTP/3 yet: cannot bind its UDP port");
                }
                Err(_) => {}
            }
        }
        timer.arm(AGAIN);
        poll_fn(|_| match worker.is_leaving(&handle) || timer.has_expired() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
}

/// Takes connections in while they are wanted.
async fn serve(
    worker: &Rc<Worker>,
    handle: &Arc<ListenerHandle>,
    endpoint: &Endpoint,
    config: &mut Config,
    timer: &Timer,
) {
    timer.arm(AGAIN);
    loop {
        let mut accept = pin!(endpoint.accept());
        let next = poll_fn(|cx| {
            if worker.is_leaving(handle) {
                return Poll::Ready(None);
            }
            if timer.has_expired() {
                timer.arm(AGAIN);
                if !is_wanted(worker, handle) {
                    return Poll::Ready(None);
                }
            }
            accept.as_mut().poll(cx)
        });
        let Some(incoming) = next.await else { return };
        take_in(worker, handle, (endpoint, incoming), config);
    }
}

fn take_in(
    worker: &Rc<Worker>,
    handle: &Arc<ListenerHandle>,
    (endpoint, incoming): (&Endpoint, Incoming),
    config: &mut Config,
) {
    let Some(max) = worker.max_connections(handle) else { return incoming.refuse() };
    if endpoint.open_connections() >= UNPROVEN_MAX && incoming.may_retry() {
        // Fails only where a token has been shown.
        let _ = incoming.retry();
        return;
    }
    let view = worker.view_at(handle);
    let config = view.listener_context(handle).and_then(|context| config.of(context));
    let (Some(config), Some(pass)) = (config, handle.try_enter(max)) else {
        return incoming.refuse();
    };
    let address = incoming.remote_address();
    match incoming.accept_with(config) {
        Ok(connecting) => {
            spawn_local(connection::serve(worker.clone(), connecting, pass));
        }
        Err(error) => tracing::debug!(%address, %error, "no QUIC"),
    }
}

fn is_wanted(worker: &Worker, handle: &ListenerHandle) -> bool {
    let view = worker.view_at(handle);
    view.listener_context(handle).is_some_and(|context| context.http3)
}

/// Opens the socket; nothing where TLS of the listener cannot be used.
fn bind(
    address: SocketAddr,
    (worker, handle): (&Worker, &ListenerHandle),
    config: &mut Config,
) -> io::Result<Option<Endpoint>> {
    let view = worker.view_at(handle);
    let config = view.listener_context(handle).and_then(|context| config.of(context));
    let Some(config) = config else { return Ok(None) };
    let socket = UdpSocket::bind(address)?;
    // The kernel takes as much as net.core.rmem_max allows.
    let _ = SockRef::from(&socket).set_recv_buffer_size(BUFFER_BYTES);
    let _ = SockRef::from(&socket).set_send_buffer_size(BUFFER_BYTES);
    let settings = EndpointConfig::default();
    let config = Some((*config).clone());
    Endpoint::new(settings, config, socket, Arc::new(TokioRuntime)).map(Some)
}

/// How often it is looked whether HTTP/3 can or should be served.
const AGAIN: Duration = Duration::from_secs(1);

/// With so many connections a client has to show that its address is its own: one more round trip.
const UNPROVEN_MAX: usize = 1_000;

/// Packets that wait for the worker: 20 ms at 1.6 Gbit/s.
const BUFFER_BYTES: usize = 4 << 20;
