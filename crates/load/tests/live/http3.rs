//! HTTP/3: few connections, every way a stream and a connection can end.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use h3::{error::Code, server::RequestStream};
use loadline_load::{LoadPlan, Protocol, Until};
use loadline_measure::record::Outcomes;
use quinn::{Endpoint, ServerConfig, VarInt, crypto::rustls::QuicServerConfig};
use rustls::version::TLS13;
use tokio::sync::oneshot;

use crate::{run, secure::Authority};

type Stream = RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;

/// What a server does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    /// Responds with 200 and ten bytes.
    Answer,
    /// The same after a 103.
    Interim,
    /// Answers with 413 before it has read the body, and takes no more of it.
    TooLarge,
    /// Resets each stream with this code.
    Reset(Code),
    /// Answers one request of each connection and takes no more: GOAWAY.
    GoAway,
    /// Closes the connection instead of an answer, with this code.
    Close(Code),
    /// Ends the stream without a response.
    Nothing,
    /// Never answers.
    Hang,
    /// Answers with a body of two DATA frames among empty ones.
    EmptyData,
    /// Answers the first request of each connection, and ends it without an error in the midst of
    /// the response to the second.
    CloseMidway,
    /// Sends these frames, and ends the stream.
    Frames(&'static [u8]),
}

/// Serves until it is dropped.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    fn start(behaviour: Behaviour) -> Self {
        Self::speaking(b"h3", behaviour)
    }

    /// One that agrees on this protocol alone.
    fn speaking(protocol: &[u8], behaviour: Behaviour) -> Self {
        let authority = Authority::new();
        let mut tls = authority.server(&authority.sign("localhost"), &[&TLS13], false);
        tls.alpn_protocols = vec![protocol.to_vec()];
        let config = QuicServerConfig::try_from(tls).unwrap();
        let config = ServerConfig::with_crypto(Arc::new(config));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let (connections, (stop, stopped)) = (Arc::<AtomicUsize>::default(), oneshot::channel());
        let counted = Arc::clone(&connections);
        let thread = std::thread::spawn(move || {
            loadline_load::runtime().unwrap().block_on(async move {
                let runtime = Arc::new(quinn::TokioRuntime);
                let endpoint = Endpoint::new(Default::default(), Some(config), socket, runtime);
                tokio::select! {
                    () = accept(endpoint.unwrap(), behaviour, counted) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, connections, stop: Some(stop), thread: Some(thread) }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

async fn accept(endpoint: Endpoint, behaviour: Behaviour, connections: Arc<AtomicUsize>) {
    while let Some(incoming) = endpoint.accept().await {
        connections.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            // A client may not agree.
            let Ok(connection) = incoming.await else { return };
            match behaviour {
                Behaviour::Frames(frames) => serve_frames(connection, frames).await,
                Behaviour::CloseMidway => serve_in_part(connection).await,
                _ => serve(connection, behaviour).await,
            }
        });
    }
}

async fn serve(quinn: quinn::Connection, behaviour: Behaviour) {
    let h3 = h3::server::Connection::new(h3_quinn::Connection::new(quinn.clone())).await;
    let mut h3 = h3.unwrap();
    while let Ok(Some(resolver)) = h3.accept().await {
        let Ok((_, stream)) = resolver.resolve_request().await else { continue };
        if let Behaviour::Close(code) = behaviour {
            return quinn.close(VarInt::from_u64(code.value()).unwrap(), b"");
        }
        tokio::spawn(answer(stream, behaviour));
        if behaviour == Behaviour::GoAway {
            h3.shutdown(0).await.unwrap();
        }
    }
}

/// Answers every request with these frames.
async fn serve_frames(quinn: quinn::Connection, frames: &[u8]) {
    while let Ok((mut send, mut receive)) = quinn.accept_bi().await {
        receive.read_to_end(10_000).await.unwrap();
        send.write_all(frames).await.unwrap();
        send.finish().unwrap();
    }
}

/// Answers the first request, and the second in part.
async fn serve_in_part(quinn: quinn::Connection) {
    for frames in [&[HEAD, &[0, 2, b'o', b'k']].concat(), &[HEAD, &[0, 9, b'h']].concat()] {
        let Ok((mut send, mut receive)) = quinn.accept_bi().await else { return };
        receive.read_to_end(10_000).await.unwrap();
        send.write_all(frames).await.unwrap();
        if frames.ends_with(b"ok") {
            send.finish().unwrap();
            continue;
        }
        quinn.close(VarInt::from_u64(Code::H3_NO_ERROR.value()).unwrap(), b"");
    }
}

/// A head of `:status 200`.
const HEAD: &[u8] = &[1, 3, 0, 0, 0xd9];

async fn answer(mut stream: Stream, behaviour: Behaviour) {
    let head = |status: u16| http::Response::builder().status(status).header("served-by", "h3");
    let status = match behaviour {
        Behaviour::Reset(code) => return stream.stop_stream(code),
        Behaviour::Hang => return std::future::pending().await,
        Behaviour::Nothing => return drop(stream.finish().await),
        Behaviour::TooLarge => 413,
        Behaviour::Interim => {
            stream.send_response(head(103).body(()).unwrap()).await.unwrap();
            200
        }
        _ => 200,
    };
    stream.send_response(head(status).body(()).unwrap()).await.unwrap();
    if behaviour == Behaviour::EmptyData {
        for data in ["", "0123456789", "", "", "0123456789", ""] {
            stream.send_data(Bytes::from_static(data.as_bytes())).await.unwrap();
        }
        return stream.finish().await.unwrap();
    }
    stream.send_data(Bytes::from_static(b"0123456789")).await.unwrap();
    stream.finish().await.unwrap();
    if behaviour == Behaviour::TooLarge {
        stream.stop_sending(Code::H3_NO_ERROR);
    }
}

/// `users` with `requests` each, who verify nothing.
fn plan(address: SocketAddr, users: u32, requests: u64) -> LoadPlan {
    let url = format!("https://{address}/a?b");
    let mut plan = LoadPlan::closed(&url, users, Until::Requests(requests)).unwrap();
    plan.timeout = loadline_core::time::Duration::from_secs(5);
    (plan.transport.protocol, plan.transport.tls.insecure) = (Protocol::Http3, true);
    plan
}

#[test]
fn all_users_share_a_connection_and_its_bytes_are_counted() {
    let server = Server::start(Behaviour::Answer);
    let mut plan = plan(server.address, 20, 10);
    plan.count_by = Some("Served-By".to_owned());
    let record = run(&plan);
    assert_eq!(record.outcomes, Outcomes { ok: 200, ..Outcomes::default() });
    assert_eq!((record.protocol.as_str(), record.by_header["h3"]), ("HTTP/3", 200));
    assert_eq!((server.connections(), record.connections), (1, 1));
    // `:status` with its value, the field and ten bytes of body.
    assert_eq!(record.bytes_read, 200 * (10 + 11 + 10));
    assert_eq!(record.head_bytes, 200 * (10 + 11));
    let phases = &record.phases;
    assert_eq!((phases.connect.count > 0, phases.tls.count), (true, 0));
}

#[test]
fn connections_are_as_many_as_asked_or_one_for_a_hundred_requests() {
    let server = Server::start(Behaviour::Answer);
    for (users, asked, expected) in [(20, Some(4), 4), (150, None, 2)] {
        let mut plan = plan(server.address, users, 3);
        plan.transport.connections = asked;
        let record = run(&plan);
        assert_eq!((record.outcomes.ok, record.connections), (u64::from(users) * 3, expected));
    }
}

#[test]
fn interim_responses_are_not_the_response() {
    let server = Server::start(Behaviour::Interim);
    let record = run(&plan(server.address, 1, 3));
    assert_eq!(record.statuses.into_iter().collect::<Vec<_>>(), [(200, 3)]);
}

#[test]
fn a_response_before_the_body_has_gone_is_the_response() {
    let server = Server::start(Behaviour::TooLarge);
    let mut plan = plan(server.address, 1, 2);
    (plan.method, plan.body) = ("POST".to_owned(), vec![b'x'; 8 << 20]);
    assert_eq!(run(&plan).outcomes, Outcomes { client_error: 2, ..Outcomes::default() });
}

#[test]
fn every_way_a_stream_or_its_connection_ends_has_a_class() {
    let reset = Outcomes { reset: 2, ..Outcomes::default() };
    let bad = Outcomes { bad_answer: 2, ..Outcomes::default() };
    for (behaviour, expected) in [
        (Behaviour::Reset(Code::H3_INTERNAL_ERROR), reset),
        (Behaviour::Reset(Code::H3_REQUEST_REJECTED), reset),
        (Behaviour::Close(Code::H3_INTERNAL_ERROR), reset),
        (Behaviour::Close(Code::H3_NO_ERROR), reset),
        (Behaviour::Nothing, bad),
        (Behaviour::Hang, Outcomes { timeout: 2, ..Outcomes::default() }),
    ] {
        let server = Server::start(behaviour);
        let mut plan = plan(server.address, 1, 2);
        plan.timeout = loadline_core::time::Duration::from_millis(500);
        assert_eq!(run(&plan).outcomes, expected, "{behaviour:?}");
    }
}

#[test]
fn a_server_that_leaves_is_asked_again_on_another_connection() {
    let server = Server::start(Behaviour::GoAway);
    let record = run(&plan(server.address, 1, 5));
    assert_eq!(record.outcomes, Outcomes { ok: 5, ..Outcomes::default() });
    assert!(server.connections() > 1, "{}", server.connections());
}

#[test]
fn nobody_at_the_port_refuses_at_once_and_who_says_nothing_is_waited_for() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let mut plan = plan(address, 1, 2);
    plan.timeout = loadline_core::time::Duration::from_millis(200);
    assert_eq!(run(&plan).outcomes, Outcomes { connect_timeout: 2, ..Outcomes::default() });
    drop(silent);
    assert_eq!(run(&plan).outcomes, Outcomes { connect_refused: 2, ..Outcomes::default() });
}

#[test]
fn what_is_wrong_with_a_handshake_is_said() {
    let server = Server::speaking(b"other", Behaviour::Answer);
    let record = run(&plan(server.address, 1, 2));
    assert_eq!(record.outcomes, Outcomes { connect_refused: 2, ..Outcomes::default() });
    assert_eq!(record.reasons.values().sum::<u64>(), 2, "{:?}", record.reasons);
    let server = Server::start(Behaviour::Answer);
    let mut plan = plan(server.address, 1, 2);
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("ca.pem");
    std::fs::write(&other, Authority::new().pem()).unwrap();
    plan.transport.tls.insecure = false;
    plan.transport.tls.authorities = Some(other);
    let record = run(&plan);
    assert_eq!(record.outcomes, Outcomes { bad_answer: 2, ..Outcomes::default() });
    let reason = record.reasons.keys().next().unwrap();
    assert!(reason.contains("certificate"), "{reason}");
}

#[test]
fn empty_data_does_not_end_a_response() {
    let server = Server::start(Behaviour::EmptyData);
    let record = run(&plan(server.address, 1, 3));
    assert_eq!(record.outcomes, Outcomes { ok: 3, ..Outcomes::default() });
    assert_eq!(record.bytes_read, 3 * (10 + 11 + 20));
}

#[test]
fn a_response_that_is_cut_off_or_not_as_long_as_it_says_is_bad() {
    // `content-length: 3` by its name's place in the table.
    let said = [1, 6, 0, 0, 0xd9, 0x54, 1, b'3'];
    let with = |data: &[u8]| -> &'static [u8] { [&said[..], data].concat().leak() };
    let bad = Outcomes { bad_answer: 2, ..Outcomes::default() };
    for (frames, expected) in [
        (with(&[0, 3, b'a', b'b', b'c']), Outcomes { ok: 2, ..Outcomes::default() }),
        (with(&[0, 3, b'a']), bad),
        (with(&[0, 3]), bad),
        (with(&[0]), bad),
        (with(&[0, 2, b'a', b'b']), bad),
        (with(&[0, 2, b'a', b'b', 0, 2, b'c', b'd']), bad),
        (with(&[]), bad),
    ] {
        let server = Server::start(Behaviour::Frames(frames));
        assert_eq!(run(&plan(server.address, 1, 2)).outcomes, expected, "{frames:?}");
    }
}

#[test]
fn a_response_to_head_has_no_body_whatever_length_it_says() {
    let server = Server::start(Behaviour::Frames(&[1, 6, 0, 0, 0xd9, 0x54, 1, b'3']));
    let mut plan = plan(server.address, 1, 2);
    plan.method = "HEAD".to_owned();
    assert_eq!(run(&plan).outcomes, Outcomes { ok: 2, ..Outcomes::default() });
}

#[test]
fn a_request_that_was_partly_answered_is_not_sent_again_though_the_connection_ended_in_order() {
    let server = Server::start(Behaviour::CloseMidway);
    let record = run(&plan(server.address, 1, 4));
    assert_eq!(record.outcomes, Outcomes { ok: 2, reset: 2, ..Outcomes::default() });
    assert_eq!(server.connections(), 2);
}
