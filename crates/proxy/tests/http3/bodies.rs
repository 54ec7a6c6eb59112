//! Bodies whose frames are written by hand, and which of several responses goes first.

use std::{
    io::{self, BufRead, BufReader, Write as _},
    net::SocketAddr,
    sync::atomic::Ordering::SeqCst,
    thread,
    time::{Duration as StdDuration, Instant},
};

use loadline_core::{decide::ending::Ending, time::Duration};
use quinn::{ConnectionError, ReadError, ReadToEndError, VarInt};
use tokio::time::{sleep, timeout};

use crate::{
    authority::Authority,
    raw::{frame, lines, next_frame, open},
    support::{
        Client, PATIENCE, Relay, config, fleet, head, request, rest, server, sized, start, until,
    },
};

const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "https"), (":path", "/"), (":authority", "a.test")];

/// H3_FRAME_ERROR (RFC 9114, 8.1).
const FRAME_ERROR: u32 = 0x106;

/// An empty DATA frame, however it is written.
const EMPTY: [&[u8]; 3] = [&[0, 0], &[0, 0x40, 0], &[0x40, 0, 0x80, 0, 0, 0]];

/// A server that sends back the payload of a body which has chunks or 8 bytes.
fn echo() -> SocketAddr {
    server(|mut stream| {
        let reading = stream.try_clone().unwrap();
        let mut reader = BufReader::new(&reading);
        // Its connections stay: a POST on one that is being closed may not be sent again.
        while let Some(head) = head(&mut reader) {
            let is_chunked = head.contains("chunked");
            let body = if is_chunked { chunks(&mut reader) } else { exactly(8, &mut reader) };
            let Ok(body) = body else { return };
            let said = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(&[said.as_bytes(), &body].concat()).unwrap();
        }
    })
}

fn exactly(length: usize, from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The payload of a body in chunks, however they are cut.
fn chunks(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut payload = Vec::new();
    loop {
        let mut size = String::new();
        from.read_line(&mut size)?;
        let size = usize::from_str_radix(size.trim_end(), 16).map_err(io::Error::other)?;
        payload.extend(exactly(size, from)?);
        exactly(2, from)?;
        if size == 0 {
            return Ok(payload);
        }
    }
}

#[tokio::test]
async fn empty_data_does_not_end_an_upload() {
    let authority = Authority::new();
    let (proxy, address) = start(&fleet(echo(), &authority, 1));
    let client = Client::to(address, &authority).await;
    let parts: [&[u8]; 3] = [EMPTY[0], &frame(0, b"one,"), EMPTY[1]];
    let upload = [&parts.concat(), EMPTY[2], EMPTY[0], &frame(0, b"two."), EMPTY[1]].concat();
    for size in [1, 3, upload.len()] {
        for said in [Some(("content-length", "8")), None] {
            let block = lines(&[&POST[..], said.as_slice()].concat());
            let (mut send, mut receive) = open(&client.connection, &block).await;
            for piece in upload.chunks(size) {
                send.write_all(piece).await.unwrap();
                // Each in a packet of its own, if it is small.
                tokio::task::yield_now().await;
            }
            send.finish().unwrap();
            assert_eq!(next_frame(&mut receive).await.0, 1);
            let (_, echoed) = next_frame(&mut receive).await;
            assert_eq!(String::from_utf8_lossy(&echoed), "one,two.", "{size}, {said:?}");
        }
    }
    until(|| proxy.tallies().count(Ending::Complete) == 6).await;
}

#[tokio::test]
async fn trailers_without_data_reach_the_server() {
    let authority = Authority::new();
    let server = server(|mut stream| {
        let reading = stream.try_clone().unwrap();
        let mut reader = BufReader::new(&reading);
        while head(&mut reader).is_some() {
            // The last chunk and the trailers.
            let Some(behind) = head(&mut reader) else { return };
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", behind.len());
            stream.write_all((answer + &behind).as_bytes()).unwrap();
        }
    });
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    let trailers = frame(1, &[&[0, 0], lines(&[("x-sum", "0")]).as_slice()].concat());
    for method in ["GET", "POST"] {
        for moment in [0, 100] {
            let mut asked = POST;
            asked[0] = (":method", method);
            let head = frame(1, &[&[0, 0], lines(&asked).as_slice()].concat());
            let (mut send, mut receive) = client.connection.open_bi().await.unwrap();
            let (first, last) = if moment == 0 {
                ([head, trailers.clone()].concat(), Vec::new())
            } else {
                (head, trailers.clone())
            };
            send.write_all(&first).await.unwrap();
            sleep(StdDuration::from_millis(moment)).await;
            send.write_all(&last).await.unwrap();
            send.finish().unwrap();
            assert_eq!(next_frame(&mut receive).await.0, 1);
            let (_, behind) = next_frame(&mut receive).await;
            let behind = String::from_utf8_lossy(&behind);
            assert_eq!(behind, "0\r\nx-sum: 0\r\n\r\n", "{method}, {moment}");
        }
    }
    until(|| proxy.tallies().count(Ending::Complete) == 4).await;
}

#[tokio::test]
async fn trailers_that_frame_a_message_or_say_who_is_asked_are_refused() {
    let authority = Authority::new();
    let server = server(|stream| while head(&mut BufReader::new(&stream)).is_some() {});
    let (proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    for trailer in [("transfer-encoding", "chunked"), ("host", "b.test"), ("connection", "close")] {
        let (mut send, mut receive) = open(&client.connection, &lines(&POST)).await;
        let trailers = frame(1, &[&[0, 0], lines(&[trailer]).as_slice()].concat());
        send.write_all(&[frame(0, b"body"), trailers].concat()).await.unwrap();
        send.finish().unwrap();
        let (kind, answer) = next_frame(&mut receive).await;
        // `:status 400` by its place in the table.
        assert_eq!((kind, &answer[2..4]), (1, &[0xff, 4][..]), "{trailer:?}");
    }
    until(|| proxy.tallies().count(Ending::ClientBad) == 3).await;
}

#[tokio::test]
async fn a_request_that_is_cut_off_in_a_frame_closes_the_connection_and_is_a_bad_one() {
    let authority = Authority::new();
    let (proxy, address) = start(&fleet(echo(), &authority, 1));
    let said = [&POST[..], &[("content-length", "8")]].concat();
    let mut get = POST;
    get[0] = (":method", "GET");
    let cases = [
        (lines(&said), &[0, 8, b'o'][..]),
        (lines(&said), &[0, 8]),
        (lines(&said), &[0, 1, b'o', 0]),
        (lines(&said), &[0, 1, b'o', 0x21, 3, b'x']),
        (lines(&POST), &[0, 8, b'o']),
        (lines(&get), &[0, 8, b'o']),
        (lines(&get), &[0, 8]),
    ];
    for (index, (block, upload)) in cases.iter().enumerate() {
        let client = Client::to(address, &authority).await;
        let (mut send, _receive) = open(&client.connection, block).await;
        send.write_all(upload).await.unwrap();
        send.finish().unwrap();
        let closed = timeout(PATIENCE, client.connection.closed()).await;
        let Ok(ConnectionError::ApplicationClosed(closed)) = closed else { panic!("{closed:?}") };
        assert_eq!(closed.error_code, VarInt::from_u32(FRAME_ERROR), "{index}");
        until(|| proxy.tallies().count(Ending::ClientBad) == index as u64 + 1).await;
    }
    assert_eq!(proxy.tallies().requests(), cases.len() as u64);
}

#[tokio::test]
async fn what_has_come_of_a_response_that_is_cut_reaches_its_client() {
    let authority = Authority::new();
    let server = server(|mut stream| {
        if head(&mut BufReader::new(&stream)).is_some() {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").unwrap();
        }
    });
    let mut fleet = fleet(server, &authority, 1);
    fleet.services[0].ejection = None;
    let (proxy, address) = start(&fleet);
    let client = Client::to(address, &authority).await;
    let mut get = POST;
    get[0] = (":method", "GET");
    let mut asked = Vec::new();
    for _ in 0..20 {
        let (mut send, mut receive) = open(&client.connection, &lines(&get)).await;
        send.finish().unwrap();
        assert_eq!(next_frame(&mut receive).await.0, 1);
        assert_eq!(next_frame(&mut receive).await, (0, b"half".to_vec()));
        asked.push(receive);
    }
    for mut receive in asked {
        let told = receive.read_to_end(100).await;
        assert!(matches!(told, Err(ReadToEndError::Read(ReadError::Reset(_)))), "{told:?}");
    }
    until(|| proxy.tallies().count(Ending::ServerCut) == 20).await;
}

#[tokio::test]
async fn no_more_is_taken_of_an_upload_than_its_server_takes_however_small_its_frames_are() {
    let authority = Authority::new();
    let server = server(|stream| {
        head(&mut BufReader::new(&stream)).unwrap();
        thread::sleep(PATIENCE);
    });
    let (_proxy, address) = start(&fleet(server, &authority, 1));
    let client = Client::to(address, &authority).await;
    let (mut send, _receive) = open(&client.connection, &lines(&POST)).await;
    let piece = frame(0, &[b'x'; 100]).repeat(1_000);
    let mut taken = 0;
    // Until nothing has been taken for a second.
    while taken < 64 << 20
        && let Ok(Ok(())) = timeout(StdDuration::from_secs(1), send.write_all(&piece)).await
    {
        taken += piece.len();
    }
    // The client and the kernel have some of it.
    assert!(taken < 32 << 20, "{taken} bytes");
}

#[tokio::test]
async fn a_response_that_waits_for_its_turn_is_not_cut_for_its_client() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let mut fleet = fleet(server, &authority, 1);
    fleet.listeners[0].timeouts.idle = Duration::from_millis(500);
    let (proxy, address) = start(&fleet);
    let relay = Relay::to(address).await;
    let client = Client::with(relay.address, config(&authority, 100 << 20)).await;
    let began = Instant::now();
    let fetches = [SIZE / 2, 1 << 20].map(|size| {
        let mut requests = client.requests.clone();
        async move {
            let mut asked = request("GET", &format!("/{size}"));
            asked.headers_mut().insert("priority", "u=3".parse().unwrap());
            let mut stream = requests.send_request(asked).await.unwrap();
            stream.finish().await.unwrap();
            stream.recv_response().await.unwrap();
            (rest(&mut stream).await.map(|body| body.len()), size, began.elapsed())
        }
    });
    let [first, second] = fetches.map(tokio::spawn);
    // The path is slow: what it takes at a time comes once in a while.
    while !second.is_finished() && began.elapsed() < StdDuration::from_secs(30) {
        relay.is_paused.store(true, SeqCst);
        sleep(StdDuration::from_millis(20)).await;
        relay.is_paused.store(false, SeqCst);
        sleep(StdDuration::from_millis(1)).await;
    }
    let (body, size, took) = first.await.unwrap();
    assert_eq!(body.unwrap(), size);
    assert!(took > StdDuration::from_millis(1_500), "too fast to say anything: {took:?}");
    let (body, size, _) = second.await.unwrap();
    assert_eq!(body.unwrap(), size);
    until(|| proxy.tallies().count(Ending::Complete) == 2).await;
}

#[tokio::test]
async fn a_download_that_its_client_takes_nothing_of_ends_though_it_takes_other_responses() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let mut fleet = fleet(server, &authority, 1);
    fleet.listeners[0].timeouts.idle = Duration::from_millis(300);
    let (proxy, address) = start(&fleet);
    let mut client = Client::with(address, config(&authority, 50_000)).await;
    let mut stalled = client.requests.send_request(request("GET", "/2000000")).await.unwrap();
    stalled.finish().await.unwrap();
    stalled.recv_response().await.unwrap();
    let began = Instant::now();
    while proxy.tallies().count(Ending::ClientTimeout) == 0 {
        assert!(began.elapsed() < PATIENCE, "it does not end");
        client.get("/10").await;
        sleep(StdDuration::from_millis(20)).await;
    }
    assert!(rest(&mut stalled).await.is_err());
}

#[tokio::test]
async fn a_client_that_makes_room_slowly_and_steadily_gets_all_of_its_response() {
    let authority = Authority::new();
    let (server, _) = sized(b'a');
    let mut fleet = fleet(server, &authority, 1);
    fleet.listeners[0].timeouts.idle = Duration::from_millis(300);
    let (proxy, address) = start(&fleet);
    let client = Client::with(address, config(&authority, 1_000)).await;
    let mut get = POST;
    (get[0], get[2]) = ((":method", "GET"), (":path", "/20000"));
    let (mut send, mut receive) = open(&client.connection, &lines(&get)).await;
    send.finish().unwrap();
    let (mut came, mut piece) = (0, [0; 1_000]);
    // All of it takes three times as long as a client may take nothing.
    while let Some(count) = receive.read(&mut piece).await.unwrap() {
        came += count;
        sleep(StdDuration::from_millis(50)).await;
    }
    assert!(came > 20_000, "{came} bytes with all that frames add");
    until(|| proxy.tallies().count(Ending::Complete) == 1).await;
}

/// Takes longer than a client may be slow for.
const SIZE: usize = 60 << 20;
