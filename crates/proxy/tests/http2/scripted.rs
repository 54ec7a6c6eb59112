//! A server that speaks HTTP/2, on a thread of its own.

use std::{
    future::Future,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    thread,
};

use bytes::Bytes;
use h2::{
    RecvStream, SendStream,
    server::{Builder, SendResponse},
};
use http::{HeaderMap, Request, Response};
use loadline_core::fleet::{Fleet, HttpVersion};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::{LocalSet, spawn_local},
};

use crate::support::{Proxy, fleet, wait_until};

/// A server, and what it saw. It ends with the test process.
#[derive(Clone)]
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
    leave: Arc<Notify>,
}

/// A stream that came in.
pub(crate) struct Asked {
    /// The number of its connection, from 0.
    pub(crate) connection: usize,
    pub(crate) request: Request<RecvStream>,
    pub(crate) respond: SendResponse<Bytes>,
}

impl Scripted {
    /// A server that runs `script` for each stream.
    pub(crate) fn new<F, R>(script: F) -> Self
    where
        F: Fn(Asked) -> R + Clone + Send + 'static,
        R: Future<Output = ()> + 'static,
    {
        Self::with(Builder::new(), script)
    }

    /// The same with settings of its own.
    pub(crate) fn with<F, R>(builder: Builder, script: F) -> Self
    where
        F: Fn(Asked) -> R + Clone + Send + 'static,
        R: Future<Output = ()> + 'static,
    {
        let (found, address) = mpsc::channel();
        let [connections, ended] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let leave = Arc::new(Notify::new());
        let (count, ends, leaves) = (connections.clone(), ended.clone(), leave.clone());
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            LocalSet::new().block_on(&runtime.unwrap(), async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                found.send(listener.local_addr().unwrap()).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let number = count.fetch_add(1, Relaxed);
                    let serving =
                        serve((stream, builder.clone()), number, leaves.clone(), script.clone());
                    let ends = ends.clone();
                    spawn_local(async move {
                        serving.await;
                        ends.fetch_add(1, Relaxed);
                    });
                }
            });
        });
        Self { address: address.recv().unwrap(), connections, ended, leave }
    }

    /// Answers everything with `ok`.
    pub(crate) fn ok() -> Self {
        Self::new(async |asked| asked.answer("ok"))
    }

    /// A fleet whose service has this server.
    pub(crate) fn fleet(&self) -> Fleet {
        let mut fleet = fleet(self.address);
        fleet.services[0].http_version = HttpVersion::Http2;
        fleet
    }

    pub(crate) fn proxy(&self) -> Proxy {
        Proxy::of(self.fleet())
    }

    /// Connections it has accepted.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }

    /// Connections that have ended.
    pub(crate) fn ended(&self) -> usize {
        self.ended.load(Relaxed)
    }

    /// Sends GOAWAY on every connection that is open, and waits until they have ended.
    pub(crate) fn leave(&self) {
        self.leave.notify_waiters();
        wait_until(|| self.ended() == self.connections(), "connections end");
    }
}

impl Asked {
    /// Sends a whole response.
    pub(crate) fn answer(mut self, body: &str) {
        let mut stream = self.respond.send_response(Response::new(()), false).unwrap();
        stream.send_data(Bytes::copy_from_slice(body.as_bytes()), true).unwrap();
    }

    /// Sends a head after which a body comes.
    pub(crate) fn begin(&mut self) -> SendStream<Bytes> {
        self.respond.send_response(Response::new(()), false).unwrap()
    }

    /// Reads the request to its end: its body and its trailers.
    pub(crate) async fn read(&mut self) -> (String, Option<HeaderMap>) {
        let mut body = Vec::new();
        while let Some(data) = self.request.body_mut().data().await {
            let data = data.unwrap();
            body.extend_from_slice(&data);
            self.request.body_mut().flow_control().release_capacity(data.len()).unwrap();
        }
        let trailers = self.request.body_mut().trailers().await.unwrap();
        (String::from_utf8(body).unwrap(), trailers)
    }
}

/// Takes the streams of a connection in.
async fn serve<F, R>(
    (stream, builder): (TcpStream, Builder),
    connection: usize,
    leave: Arc<Notify>,
    script: F,
) where
    F: Fn(Asked) -> R,
    R: Future<Output = ()> + 'static,
{
    let Ok(mut streams) = builder.handshake(stream).await else { return };
    loop {
        tokio::select! {
            stream = streams.accept() => {
                let Some(Ok((request, respond))) = stream else { return };
                spawn_local(script(Asked { connection, request, respond }));
            }
            () = leave.notified() => streams.graceful_shutdown(),
        }
    }
}
