//! Connections that stand before a request needs them (`prewarm`).

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::mpsc::{Receiver, channel},
};

use loadline_core::{decide::ending::Ending, fleet::Fleet, time::Duration};

use crate::support::{OK, PATIENCE, Proxy, SHORT, Scripted, fleet, head, wait_until};

/// A fleet that keeps so many connections ready to a server.
fn warm(server: &Scripted, count: u32) -> Fleet {
    let mut fleet = fleet(&[server.address]);
    fleet.services[0].prewarm = count;
    fleet
}

/// A server that tells the number of the connection on which each request came.
fn telling() -> (Scripted, Receiver<usize>) {
    let (tell, told) = channel();
    let server = Scripted::new(move |mut stream: TcpStream, number| {
        while head(&mut stream).is_some() {
            tell.send(number).unwrap();
            stream.write_all(OK).unwrap();
        }
    });
    (server, told)
}

#[test]
fn they_are_open_before_the_first_request_which_takes_one_of_them() {
    let (server, carried) = telling();
    let proxy = Proxy::of(warm(&server, 3));
    wait_until(|| server.connections() == 3, "three connections without a request");
    assert!(proxy.get().starts_with("HTTP/1.1 200 "));
    assert!(carried.recv_timeout(PATIENCE).unwrap() < 3);
    proxy.expect(Ending::Complete, 1);
}

#[test]
fn those_that_the_server_closes_are_replaced() {
    let server = Scripted::new(|mut stream, number| {
        while number > 3 && head(&mut stream).is_some() {
            stream.write_all(OK).unwrap();
        }
    });
    let proxy = Proxy::of(warm(&server, 2));
    wait_until(|| server.connections() == 6, "two that stay after four that were closed");
    assert!(proxy.get().starts_with("HTTP/1.1 200 "));
    proxy.expect(Ending::Complete, 1);
}

#[test]
fn they_leave_room_for_requests() {
    let (server, carried) = telling();
    let mut fleet = warm(&server, 8);
    fleet.services[0].groups[0].servers[0].max_connections = 1;
    let proxy = Proxy::of(fleet);
    wait_until(|| server.connections() == 1, "the only one there may be");
    for _ in 0..5 {
        assert!(proxy.get().starts_with("HTTP/1.1 200 "));
        assert_eq!(carried.recv_timeout(PATIENCE).unwrap(), 0);
    }
}

/// A proxy of two workers, and how many connections forty requests of as many clients took it to a
/// server at this distance.
fn connections_of_forty_clients(rtt: Duration, prewarm: u32) -> usize {
    let (server, _carried) = telling();
    let mut fleet = warm(&server, prewarm);
    fleet.edge.threads = 2;
    fleet.services[0].groups[0].rtt = Some(rtt);
    let proxy = Proxy::of(fleet);
    let ready = 2 * prewarm as usize;
    wait_until(|| server.connections() == ready, "those of both workers are ready");
    for _ in 0..40 {
        assert!(proxy.get().starts_with("HTTP/1.1 200 "));
    }
    proxy.expect(Ending::Complete, 40);
    server.connections() - ready
}

#[test]
fn a_kept_connection_to_a_far_server_is_for_every_worker() {
    assert_eq!(connections_of_forty_clients(Duration::from_millis(100), 0), 1);
    // Either worker has clients: that all forty come to one is one case of half a billion.
    assert_eq!(connections_of_forty_clients(Duration::ZERO, 0), 2);
}

#[test]
fn each_worker_has_as_many_ready_as_it_is_to_have_though_others_take_what_was_used() {
    // One for that which a worker had ready, used, and saw the other take.
    let more = connections_of_forty_clients(Duration::from_millis(100), 2);
    assert!(more <= 2, "{more}");
}

#[test]
fn a_reload_begins_and_ends_them() {
    let (closed, closes) = channel();
    let server = Scripted::new(move |mut stream, _| {
        if matches!(stream.read(&mut [0]), Ok(0)) {
            closed.send(()).unwrap();
        }
    });
    let mut cold = fleet(&[server.address]);
    cold.services[0].timeouts.keep_alive = SHORT;
    let mut warm = cold.clone();
    warm.services[0].prewarm = 1;
    let proxy = Proxy::of(cold.clone());
    proxy.runtime.reload(warm).unwrap();
    wait_until(|| server.connections() == 1, "the one the new file asks for");
    proxy.runtime.reload(cold).unwrap();
    closes.recv_timeout(PATIENCE).expect("what nobody wants to be ready ages");
}

#[test]
fn a_server_that_refuses_them_is_left_to_requests() {
    let server = crate::support::nobody();
    let mut fleet = fleet(&[server]);
    fleet.services[0].prewarm = 2;
    let proxy = Proxy::of(fleet);
    assert!(proxy.get().starts_with("HTTP/1.1 502 "));
    proxy.expect(Ending::ConnectRefused, 1);
}
