//! Bytes both ways: their order, their ends, their silence.

use std::{
    fs,
    io::{ErrorKind, Read as _, Write as _},
    net::{Shutdown, TcpStream},
    sync::{Arc, Barrier, Mutex, mpsc::channel},
    thread,
    time::Instant,
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{AccessLog, LogTarget, Protocol},
    time::Duration,
};
use socket2::{Domain, Socket, Type};

use crate::support::{
    PATIENCE, Proxy, SHORT, echo, exactly, fleet, listening, nobody, reset, server, service,
    until_closed, wait_until,
};

const SIZE: usize = 5_000_001;

/// Bytes of which no two neighbourhoods are alike.
fn pattern() -> Vec<u8> {
    (0..SIZE as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn much_goes_both_ways_at_once_and_arrives_as_it_was_sent() {
    let proxy = Proxy::to(&[echo("")]);
    let mut client = proxy.connect();
    let mut upload = client.try_clone().unwrap();
    let sender = thread::spawn(move || {
        upload.write_all(&pattern()).unwrap();
        upload.shutdown(Shutdown::Write).unwrap();
    });
    let mut back = Vec::new();
    client.read_to_end(&mut back).unwrap();
    sender.join().unwrap();
    assert!(back == pattern(), "{} bytes", back.len());
    proxy.expect(Ending::Complete, 1);
}

#[test]
fn small_messages_follow_large_ones() {
    let proxy = Proxy::to(&[echo("")]);
    let mut client = proxy.connect();
    for size in [1, 400_000, 7, 300_000, 1, 1] {
        let sent: Vec<u8> = pattern()[..size].iter().map(|byte| b'a' + byte % 26).collect();
        let (mut upload, bytes) = (client.try_clone().unwrap(), sent.clone());
        let sender = thread::spawn(move || upload.write_all(&bytes).unwrap());
        assert!(exactly(&mut client, size).into_bytes() == sent, "{size} bytes");
        sender.join().unwrap();
    }
}

#[test]
fn a_server_may_answer_after_its_client_has_said_all() {
    let answering = server(|mut stream| {
        let question = until_closed(&mut stream);
        stream.write_all(format!("answer to {question}").as_bytes()).unwrap();
    });
    let proxy = Proxy::to(&[answering]);
    assert_eq!(proxy.ask(b"a question"), "answer to a question");
    proxy.expect(Ending::Complete, 1);
}

#[test]
fn a_client_may_go_on_after_its_server_has_said_all() {
    let (told, heard) = channel();
    let saying = server(move |mut stream| {
        stream.write_all(b"all").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        told.send(until_closed(&mut stream)).unwrap();
    });
    let proxy = Proxy::to(&[saying]);
    let mut client = proxy.connect();
    assert_eq!(until_closed(&mut client), "all");
    client.write_all(b"and still here").unwrap();
    drop(client);
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), "and still here");
    proxy.expect(Ending::Complete, 1);
}

#[test]
fn a_server_that_speaks_first_is_heard_at_once() {
    let proxy = Proxy::to(&[echo("220 ready\r\n")]);
    let took = || {
        let start = Instant::now();
        assert_eq!(exactly(&mut proxy.connect(), 11), "220 ready\r\n");
        start.elapsed()
    };
    // Where the kernel held connections back for their first bytes each would take a second.
    let least = (0..5).map(|_| took()).min().unwrap();
    assert!(least < std::time::Duration::from_millis(700), "{least:?}");
}

#[test]
fn what_a_server_said_last_arrives_although_its_client_goes_on_talking() {
    let server = server(|mut stream| {
        exactly(&mut stream, 1);
        stream.write_all(b"enough").unwrap();
        // Closing with bytes unread resets the connection behind what was sent.
    });
    let proxy = Proxy::to(&[server]);
    let mut client = proxy.connect();
    client.write_all(&[b'x'; 100_000]).unwrap();
    assert_eq!(exactly(&mut client, 6), "enough");
    let end = client.read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(end, Err(ErrorKind::ConnectionReset));
    proxy.expect(Ending::ServerCut, 1);
}

#[test]
fn a_server_that_has_closed_in_order_is_not_blamed_for_what_its_client_says_after_that() {
    let closing = server(|mut stream| {
        exactly(&mut stream, 1);
        stream.write_all(b"all").unwrap();
    });
    let proxy = Proxy::to(&[closing]);
    let mut client = proxy.connect();
    client.write_all(b"?").unwrap();
    assert_eq!(until_closed(&mut client), "all");
    client.write_all(b"goodbye").unwrap();
    proxy.expect(Ending::Complete, 1);
}

/// A client whose kernel takes little that it does not read.
fn slow(proxy: &Proxy) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(8_192).unwrap();
    socket.connect(&proxy.address.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

const ANSWER: usize = 120_000;

/// Waits until the peer's kernel has all that was sent to it.
fn until_acknowledged(stream: &TcpStream) {
    let [local, remote] = [stream.local_addr(), stream.peer_addr()]
        .map(|address| format!(":{:04X}", address.unwrap().port()));
    let is_through = || {
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let queues = table.lines().find_map(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let is_it = fields[1].ends_with(&local) && fields[2].ends_with(&remote);
            is_it.then(|| fields[4].to_owned())
        });
        queues.unwrap().starts_with("00000000:")
    };
    wait_until(is_through, "the acknowledgment of all that was sent");
}

#[test]
fn a_slow_client_that_goes_on_talking_gets_all_of_what_its_server_said_before_it_closed() {
    let (told, heard) = channel();
    let answering = server(move |mut stream| {
        exactly(&mut stream, 2);
        stream.write_all(&[b'x'; ANSWER]).unwrap();
        drop(stream);
        told.send(()).unwrap();
    });
    let proxy = Proxy::to(&[answering]);
    let mut client = slow(&proxy);
    client.write_all(b"hi").unwrap();
    heard.recv_timeout(PATIENCE).expect("the end of the server's connection");
    client.write_all(b"?").unwrap();
    thread::sleep(SHORT.to_std() * 8);
    client.write_all(b"?").unwrap();
    assert_eq!(until_closed(&mut client).len(), ANSWER);
    proxy.expect(Ending::Complete, 1);
}

#[test]
fn a_slow_client_gets_all_of_what_its_server_said_before_it_reset_the_connection() {
    let cutting = server(|mut stream| {
        exactly(&mut stream, 2);
        stream.write_all(&[b'x'; ANSWER]).unwrap();
        until_acknowledged(&stream);
        reset(stream);
    });
    let proxy = Proxy::to(&[cutting]);
    let mut client = slow(&proxy);
    client.write_all(b"hi").unwrap();
    thread::sleep(SHORT.to_std() * 8);
    exactly(&mut client, ANSWER);
    let error = client.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    proxy.expect(Ending::ServerCut, 1);
}

/// Whoever writes to the server may be the one to whom the kernel tells that.
#[test]
fn a_server_that_resets_while_its_client_sends_has_not_ended_in_order() {
    let cutting = server(|mut stream| {
        exactly(&mut stream, 100_000);
        reset(stream);
    });
    let proxy = Proxy::to(&[cutting]);
    for _ in 0..20 {
        let mut client = proxy.connect();
        while client.write_all(&[b'x'; 5_000]).is_ok() {}
    }
    proxy.expect(Ending::ServerCut, 20);
}

/// The kernel tells of a reset once: to whoever moves bytes past the proxy, or to whoever reads.
#[test]
fn a_reset_behind_much_is_passed_on_as_one_both_ways() {
    const PIECE: usize = 128 << 10;
    fn send(stream: &mut TcpStream, meet: &Barrier) {
        for _ in 0..3 {
            stream.write_all(&pattern()[..PIECE]).unwrap();
            meet.wait();
        }
    }
    fn take(stream: &mut TcpStream, meet: &Barrier) {
        for _ in 0..3 {
            stream.read_exact(&mut vec![0; PIECE]).unwrap();
            meet.wait();
        }
        let error = stream.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    let meet = Arc::new(Barrier::new(2));
    let at = meet.clone();
    let sending = server(move |mut stream| {
        send(&mut stream, &at);
        reset(stream);
    });
    let proxy = Proxy::to(&[sending]);
    (0..5).for_each(|_| take(&mut proxy.connect(), &meet));
    proxy.expect(Ending::ServerCut, 5);

    let ((told, heard), at) = (channel(), meet.clone());
    let taking = server(move |mut stream| {
        take(&mut stream, &at);
        told.send(()).unwrap();
    });
    let proxy = Proxy::to(&[taking]);
    for _ in 0..5 {
        let mut client = proxy.connect();
        send(&mut client, &meet);
        reset(client);
        heard.recv_timeout(PATIENCE).expect("a reset");
    }
    proxy.expect(Ending::ClientGone, 5);
}

#[test]
fn a_reset_is_passed_on_as_one() {
    let (meet, met) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let at = meet.clone();
    let cutting = server(move |mut stream| {
        exactly(&mut stream, 1);
        stream.write_all(b"half of it").unwrap();
        at.wait();
        reset(stream);
    });
    let proxy = Proxy::to(&[cutting]);
    let mut client = proxy.connect();
    client.write_all(b"?").unwrap();
    assert_eq!(exactly(&mut client, 10), "half of it");
    meet.wait();
    let error = client.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    proxy.expect(Ending::ServerCut, 1);

    let (told, heard) = channel();
    let at = met.clone();
    let hearing = server(move |mut stream| {
        exactly(&mut stream, 4);
        at.wait();
        told.send(stream.read(&mut [0]).map_err(|error| error.kind())).unwrap();
    });
    let proxy = Proxy::to(&[hearing]);
    let mut client = proxy.connect();
    client.write_all(b"half").unwrap();
    met.wait();
    reset(client);
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), Err(ErrorKind::ConnectionReset));
    proxy.expect(Ending::ClientGone, 1);
}

/// Sends until nobody has taken more for a while: how many bytes that were.
fn fill(stream: &mut TcpStream) -> usize {
    stream.set_write_timeout(Some(SHORT.to_std())).unwrap();
    let mut sent = 0;
    while let Ok(count) = stream.write(&[b'x'; 65_536]) {
        sent += count;
    }
    sent
}

#[test]
fn a_client_that_is_gone_is_noticed_though_its_server_takes_no_more() {
    for ends in [false, true] {
        let (told, heard) = channel();
        let silent = server(move |stream| {
            if ends {
                stream.shutdown(Shutdown::Write).unwrap();
            }
            told.send(stream).unwrap();
        });
        let proxy = Proxy::to(&[silent]);
        let mut client = proxy.connect();
        if ends {
            assert_eq!(until_closed(&mut client), "");
        }
        fill(&mut client);
        let _open = heard.recv_timeout(PATIENCE).unwrap();
        reset(client);
        proxy.expect(Ending::ClientGone, 1);
    }
}

#[test]
fn a_client_that_has_said_all_is_not_gone_while_its_server_takes_what_it_said() {
    let ((told, heard), (go, may_go)) = (channel(), channel());
    let may_go = Mutex::new(may_go);
    let slow = server(move |mut stream| {
        stream.shutdown(Shutdown::Write).unwrap();
        may_go.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        told.send(until_closed(&mut stream).len()).unwrap();
    });
    let proxy = Proxy::to(&[slow]);
    let mut client = proxy.connect();
    assert_eq!(until_closed(&mut client), "");
    let sent = fill(&mut client);
    client.shutdown(Shutdown::Write).unwrap();
    go.send(()).unwrap();
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), sent);
    proxy.expect(Ending::Complete, 1);
}

#[test]
fn a_connection_on_which_nothing_happens_is_closed_and_one_on_which_something_does_is_not() {
    let mut fleet = fleet(Protocol::Tcp, vec![service("db", &[echo("")])]);
    let idle = Duration::from_secs(1);
    fleet.listeners[0].timeouts.idle = idle;
    let proxy = Proxy::of(fleet);
    let mut silent = proxy.connect();
    let mut busy = proxy.connect();
    let start = Instant::now();
    while start.elapsed() < idle.to_std() * 2 {
        busy.write_all(b"x").unwrap();
        exactly(&mut busy, 1);
        thread::sleep(SHORT.to_std() / 8);
    }
    assert_eq!(until_closed(&mut silent), "");
    proxy.expect(Ending::Idle, 1);
    busy.write_all(b"y").unwrap();
    assert_eq!(exactly(&mut busy, 1), "y");
}

#[test]
fn the_shorter_idle_limit_holds_and_a_client_that_takes_nothing_is_named() {
    let flooding = server(|mut stream| while stream.write_all(&[0; 65_536]).is_ok() {});
    let mut service = service("db", &[flooding]);
    service.timeouts.idle = SHORT;
    let proxy = Proxy::of(fleet(Protocol::Tcp, vec![service]));
    let _takes_nothing = proxy.connect();
    proxy.expect(Ending::ClientTimeout, 1);
}

#[test]
fn a_drain_lets_connections_end_until_its_deadline() {
    let proxy = Proxy::to(&[echo("hello")]);
    let mut ending = proxy.connect();
    let mut staying = proxy.connect();
    for client in [&mut ending, &mut staying] {
        assert_eq!(exactly(client, 5), "hello");
    }
    let stopped = thread::spawn(move || proxy.runtime.stop(Duration::from_secs(2)));
    ending.write_all(b"still served").unwrap();
    assert_eq!(exactly(&mut ending, 12), "still served");
    ending.shutdown(Shutdown::Write).unwrap();
    assert_eq!(until_closed(&mut ending), "");
    let tallies = stopped.join().unwrap();
    assert_eq!(tallies.count(Ending::Complete), 1);
    assert_eq!((tallies.count(Ending::Drained), tallies.requests()), (1, 2));
    let over = staying.read(&mut [0]);
    assert!(matches!(over, Ok(0) | Err(_)), "{over:?}");
}

#[test]
fn what_a_drain_cuts_is_reset_on_both_sides() {
    let (told, heard) = channel();
    let hearing = server(move |mut stream| {
        exactly(&mut stream, 4);
        stream.write_all(b"half").unwrap();
        told.send(stream.read(&mut [0]).map_err(|error| error.kind())).unwrap();
    });
    let with = |weights: [u32; 2]| {
        let mut service = service("db", &[hearing, nobody()]);
        service.drain_timeout = Some(SHORT);
        let servers = &mut service.groups[0].servers;
        servers.iter_mut().zip(weights).for_each(|(server, weight)| server.weight = weight);
        fleet(Protocol::Tcp, vec![service])
    };
    let proxy = Proxy::of(with([1, 0]));
    let mut client = proxy.connect();
    client.write_all(b"half").unwrap();
    assert_eq!(exactly(&mut client, 4), "half");
    proxy.runtime.reload(with([0, 1])).unwrap();
    let error = client.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), Err(ErrorKind::ConnectionReset));
    proxy.expect(Ending::Drained, 1);
}

#[test]
fn the_access_log_has_a_line_for_each_connection() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let (server, heard) = listening();
    let mut fleet = fleet(Protocol::Tcp, vec![service("db", &[server])]);
    fleet.edge.access_log = Some(AccessLog::to(LogTarget::File(path.display().to_string())));
    let proxy = Proxy::of(fleet);
    proxy.ask(b"hello");
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap().unwrap(), "hello");
    proxy.runtime.stop(Duration::from_secs(1));
    let log = fs::read_to_string(&path).unwrap();
    let expected = format!(" TCP \"-\" - - 0 db/near/{server} complete 0 ");
    assert!(log.contains(" 127.0.0.1:") && log.contains(&expected), "{log}");
    assert_eq!(log.lines().count(), 1);
}
