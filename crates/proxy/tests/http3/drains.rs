//! What is left at the end of a drain.

use std::io::{BufReader, Read as _, Write as _};

use loadline_core::{decide::ending::Ending, time::Duration};

use crate::{
    authority::Authority,
    raw::{frame, lines, next_frame, open},
    support::{Client, fleet, head, server, start},
};

#[tokio::test]
async fn what_is_cut_at_the_end_of_a_drain_is_counted_as_drained() {
    let authority = Authority::new();
    let server = server(|mut stream| {
        let asked = head(&mut BufReader::new(&stream)).unwrap();
        let begun = match asked.contains("upgrade") {
            true => {
                "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\
                     Upgrade: websocket\r\n\r\n"
            }
            false => "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
        };
        stream.write_all(begun.as_bytes()).unwrap();
        // Until the proxy ends it.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let (proxy, address) = start(&fleet(server, &authority, 2));
    let client = Client::to(address, &authority).await;
    let mut asked = [
        ("GET", &[][..]),
        ("POST", &[("content-length", "9")]),
        ("CONNECT", &[(":protocol", "websocket"), ("sec-websocket-version", "13")]),
    ]
    .map(|(method, more)| {
        let first = (":method", method);
        [&[first, (":scheme", "https"), (":path", "/"), (":authority", "a.test")], more].concat()
    });
    // Pseudo-headers go first.
    asked[2].sort_by_key(|(name, _)| !name.starts_with(':'));
    let mut streams = Vec::new();
    for asked in &asked {
        let (mut send, mut receive) = open(&client.connection, &lines(asked)).await;
        send.write_all(&frame(0, b"x")).await.unwrap();
        assert_eq!(next_frame(&mut receive).await.0, 1, "answered in part");
        streams.push((send, receive));
    }
    let stopped = tokio::task::spawn_blocking(move || proxy.stop(Duration::ZERO));
    let tallies = stopped.await.unwrap();
    assert_eq!((tallies.count(Ending::Drained), tallies.requests()), (3, 3));
}
