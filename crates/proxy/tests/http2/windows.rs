//! Flow control: what one side does not take, the other does not have to send.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::Arc,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use bytes::Bytes;
use h2::client::Builder;
use loadline_core::{
    decide::ending::Ending,
    fleet::{Then, WhenFull},
    time::Duration,
    units::Bytes as Size,
};
use tokio::sync::Notify;

use crate::{
    frames::{
        ACK, DATA, END_HEADERS, END_STREAM, GET, HEADERS, POST, RST_STREAM, Raw, SETTINGS,
        WINDOW_UPDATE, frame,
    },
    scripted::{Asked, Scripted},
    support::{FullResponse, Proxy, SHORT, fleet, get, head, post, server, wait_until},
};

/// A body of this length that does not look the same everywhere.
fn body(length: usize) -> Vec<u8> {
    (0..length).map(|at| b'a' + (at / 7 % 23 + at % 3) as u8).collect()
}

#[tokio::test]
async fn large_bodies_go_both_ways_through_small_windows() {
    let proxy = Proxy::to(server(|mut stream| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n").unwrap();
        let mut back = stream.try_clone().unwrap();
        std::io::copy(&mut std::io::Read::take(&mut stream, 300_000), &mut back).unwrap();
    }));
    let mut builder = Builder::new();
    builder.initial_window_size(1_000).initial_connection_window_size(70_000);
    let mut requests = proxy.client_with(&builder).await.requests.ready().await.unwrap();
    let mut request = post();
    request.headers_mut().insert("content-length", 300_000.into());
    let (answer, mut up) = requests.send_request(request, false).unwrap();
    let sent = body(300_000);
    up.send_data(Bytes::from(sent.clone()), true).unwrap();
    let answer = FullResponse::read(answer.await.unwrap()).await.unwrap();
    assert!(answer.body == sent, "{} bytes came back", answer.body.len());
    proxy.expect(Ending::Complete, 1);
}

#[tokio::test]
async fn a_client_that_does_not_read_stops_its_server_and_no_other_stream() {
    let written = Arc::new(AtomicUsize::new(0));
    let count = written.clone();
    let mut fleet = fleet(server(move |mut stream| {
        let request = head(&mut stream).unwrap();
        let length = if request.starts_with("POST") { 2 } else { 100_000_000 };
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").unwrap();
        if length == 2 {
            return stream.write_all(b"ok").unwrap();
        }
        // It is cut when the client has let its time pass.
        while let Ok(more) = stream.write(&[b'x'; 10_000]) {
            count.fetch_add(more, Relaxed);
        }
    }));
    fleet.listeners[0].timeouts.idle = SHORT;
    let proxy = Proxy::of(fleet);
    let mut builder = Builder::new();
    builder.initial_window_size(65_535).initial_connection_window_size(1_000_000);
    let client = proxy.client_with(&builder).await;
    let mut requests = client.requests.clone().ready().await.unwrap();
    let (answer, _) = requests.send_request(get(), true).unwrap();
    let stalled = answer.await.unwrap();
    assert_eq!(client.ask(post()).await.unwrap().text(), "ok");
    // The window was not opened in time.
    let mut stalled = stalled.into_body();
    let mut came = 0;
    let cut = loop {
        match stalled.data().await.unwrap() {
            Ok(data) => came += data.len(),
            Err(cut) => break cut,
        }
    };
    assert!(cut.is_reset(), "{cut}");
    assert!(came <= 65_535, "{came} bytes came");
    // Windows, buffers of the proxy, and what the kernel keeps for both sides.
    assert!(written.load(Relaxed) < 30_000_000, "{written:?} bytes were written");
    let counted = || {
        let tallies = proxy.runtime.tallies();
        [Ending::ClientTimeout, Ending::Complete].map(|ending| tallies.count(ending))
    };
    wait_until(|| counted() == [1, 1], "both to be counted");
}

#[test]
fn a_client_that_makes_room_slowly_and_steadily_gets_all_of_its_response() {
    let mut fleet = fleet(server(|mut stream| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n").unwrap();
        let _ = stream.write_all(&body(20_000));
    }));
    fleet.listeners[0].timeouts.idle = SHORT;
    let proxy = Proxy::of(fleet);
    let mut client = Raw::connect(proxy.address);
    // INITIAL_WINDOW_SIZE: 1,000 bytes.
    client.send(SETTINGS, 0, 0, &[0, 4, 0, 0, 0x03, 0xe8]).unwrap();
    client.send(HEADERS, END_HEADERS | END_STREAM, 1, GET).unwrap();
    let mut came = Vec::new();
    while came.len() < 20_000 {
        came.extend(client.until(DATA).payload);
        // All of it takes five times as long as a client may make no room.
        std::thread::sleep(SHORT.to_std() / 4);
        client.send(WINDOW_UPDATE, 0, 1, &1_000_u32.to_be_bytes()).unwrap();
    }
    assert_eq!(came, body(20_000));
    proxy.expect(Ending::Complete, 1);
}

/// A server of HTTP/2 that takes no more than 16 KiB of a request until it is told to, and then
/// answers how long the body is.
fn slow() -> (Scripted, Arc<Notify>) {
    let go_on = Arc::new(Notify::new());
    let told = go_on.clone();
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(16 << 10);
    let server = Scripted::with(builder, move |mut asked| {
        let told = told.clone();
        async move {
            told.notified().await;
            let (body, _) = asked.read().await;
            asked.answer(&format!("{} {}", body.len(), body == counted(body.len() / 20)));
        }
    });
    (server, go_on)
}

/// So many messages of 20 bytes.
fn counted(messages: usize) -> String {
    (0..messages).map(|number| format!("{number:020}")).collect()
}

#[test]
fn small_messages_within_the_window_wait_for_a_server_that_is_slow() {
    let (server, go_on) = slow();
    let proxy = server.proxy();
    let mut client = Raw::connect(proxy.address);
    client.until(SETTINGS);
    client.until(WINDOW_UPDATE);
    client.send(SETTINGS, ACK, 0, b"").unwrap();
    client.send(HEADERS, END_HEADERS, 1, POST).unwrap();
    for number in 0..12_000 {
        client.send(DATA, 0, 1, format!("{number:020}").as_bytes()).unwrap();
    }
    assert!(client.is_there());
    go_on.notify_one();
    client.send(DATA, END_STREAM, 1, b"").unwrap();
    let answer = client.until(DATA).payload;
    assert_eq!(String::from_utf8_lossy(&answer), "240000 true");
    proxy.expect(Ending::Complete, 1);
}

#[test]
fn a_client_that_may_not_send_since_others_of_its_connection_wait_is_not_late() {
    let mut fleet = fleet(server(|mut stream| {
        head(&mut stream);
        stream.read_exact(&mut [0; 2]).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    }));
    // The second waits for longer than the first is waited for.
    fleet.services[0].when_full =
        WhenFull::Queue { timeout: Duration::from_secs(30), length: 2, then: Then::Shed };
    // Longer than any machine takes for what comes before the wait.
    let idle = Duration::from_secs(1);
    fleet.listeners[0].timeouts.idle = idle;
    fleet.listeners[0].http2.connection_window = Size::new(65_535);
    fleet.services[0].groups[0].capacity.max_in_flight = Some(1);
    let proxy = Proxy::of(fleet);
    let mut client = Raw::connect(proxy.address);
    let post = [POST, b"\x0f\x0d\x012"].concat();
    client.send(HEADERS, END_HEADERS, 1, &post).unwrap();
    assert!(client.is_there());
    // It waits for the first. What comes before its head is taken is taken with it.
    client.send(HEADERS, END_HEADERS, 3, POST).unwrap();
    assert!(client.is_there());
    // Almost all that may come on the connection.
    client.send_all(&[0; 5].map(|_| frame(DATA, 0, 3, &[b'x'; 10_000])));
    std::thread::sleep(idle.to_std() * 5 / 2);
    assert!(client.is_there());
    assert_eq!(proxy.runtime.tallies().requests(), 0, "nobody is late");
    client.send(DATA, END_STREAM, 1, b"ok").unwrap();
    assert_eq!(client.until(HEADERS).stream, 1);
}

/// A server of HTTP/2 that makes room for 1,000 bytes of a request four times in [`SHORT`], and
/// answers how long the body is.
fn steady() -> Scripted {
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(1_000);
    Scripted::with(builder, async |mut asked: Asked| {
        let mut came = 0;
        while let Some(data) = asked.request.body_mut().data().await {
            let length = data.unwrap().len();
            came += length;
            tokio::time::sleep(SHORT.to_std() / 4).await;
            asked.request.body_mut().flow_control().release_capacity(length).unwrap();
        }
        asked.answer(&came.to_string());
    })
}

#[tokio::test]
async fn an_upload_of_which_its_server_takes_little_but_steadily_gets_through() {
    let server = steady();
    let mut fleet = server.fleet();
    let limits = &mut fleet.services[0].timeouts;
    (limits.head, limits.idle) = (SHORT, SHORT);
    let proxy = Proxy::of(fleet);
    let client = proxy.client().await;
    assert_eq!(client.ask(post()).await.unwrap().text(), "0", "the connection is open");
    let answer = client.send(post(), &[b'x'; 20_000], None).await.unwrap();
    assert_eq!(answer.text(), "20000");
    // In HTTP/1 the body comes with the head.
    let mut stream = TcpStream::connect(proxy.address).unwrap();
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 20000\r\n\r\n";
    stream.write_all(&[&head[..], &[b'x'; 20_000]].concat()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n5\r\n20000\r\n0\r\n\r\n"), "{answer}");
    proxy.expect(Ending::Complete, 3);
}

#[test]
fn a_client_that_sends_more_than_its_window_has_not_left() {
    let (server, go_on) = slow();
    let mut fleet = server.fleet();
    fleet.listeners[0].http2.window = Size::new(65_535);
    let proxy = Proxy::of(fleet);
    let mut client = Raw::connect(proxy.address);
    client.until(SETTINGS);
    // It has that of the connection, which has as many bytes as all streams may then.
    client.until(WINDOW_UPDATE);
    client.send(HEADERS, END_HEADERS, 1, POST).unwrap();
    // What the server and the proxy take is given back; the rest is more than the window.
    for _ in 0..40 {
        client.send(DATA, 0, 1, &[b'x'; 16 << 10]).unwrap();
    }
    let reset = client.until(RST_STREAM);
    assert_eq!((reset.stream, &reset.payload[..]), (1, &FLOW_CONTROL_ERROR[..]));
    go_on.notify_one();
    proxy.expect(Ending::ClientBad, 1);
}

const FLOW_CONTROL_ERROR: [u8; 4] = [0, 0, 0, 3];

#[tokio::test]
async fn a_client_that_stops_sending_its_body_is_told_that_it_took_too_long() {
    let mut fleet = fleet(server(|mut stream| while head(&mut stream).is_some() {}));
    fleet.listeners[0].timeouts.idle = SHORT;
    let proxy = Proxy::of(fleet);
    let mut requests = proxy.client().await.requests.ready().await.unwrap();
    let (answer, mut up) = requests.send_request(post(), false).unwrap();
    up.send_data(Bytes::from_static(b"some"), false).unwrap();
    assert_eq!(answer.await.unwrap().status().as_u16(), 408);
    proxy.expect(Ending::ClientTimeout, 1);
}
