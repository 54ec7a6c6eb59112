//! Servers to which there is no connection.

use std::{
    io::ErrorKind,
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use loadline_core::decide::ending::Ending;
use socket2::{Domain, Socket, Type};

use crate::support::{Case, SHORT};

/// An address where nobody listens, and nobody else comes to listen while the test runs: a socket
/// keeps its port.
pub(crate) fn nobody() -> SocketAddr {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    std::mem::forget(socket);
    address
}

/// A backlog that is full: the kernel drops what knocks.
fn full_backlog() -> (SocketAddr, Socket, Vec<TcpStream>) {
    let full = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let address = full.local_addr().unwrap().as_socket().unwrap();
    let limit = Duration::from_millis(200);
    let waiting: Vec<_> =
        (0..16).map_while(|_| TcpStream::connect_timeout(&address, limit).ok()).collect();
    assert!(waiting.len() < 16, "the backlog is never full");
    (address, full, waiting)
}

pub(crate) fn cases() -> Vec<Case> {
    let refused = (Ending::ConnectRefused, "connection refused");
    // A broadcast is no address to connect to, whatever the routes of the machine.
    let blinkcast = SocketAddr::from(([255, 255, 255, 255], 80));
    let unreachable = (Ending::ConnectUnreachable, "network is unreachable");
    let late = (Ending::ConnectTimeout, "connection timed out while connecting");
    let (address, full, waiting) = full_backlog();
    let mut unanswered = Case::new("nobody accepts", address, late);
    unanswered = unanswered.hurried(|limits| limits.connect = SHORT);
    unanswered.kept.push(Box::new((full, waiting)));
    let mut cases = vec![
        Case::new("nobody listens", nobody(), refused),
        Case::new("no network", blinkcast, unreachable),
        unanswered,
    ];
    // A link-local address without an interface, as invalid as one with a blackhole for a route.
    let invalid = SocketAddr::from(([0xfe80, 0, 0, 0, 0, 0, 0, 1], 80));
    let error = TcpStream::connect(invalid).map(drop).unwrap_err();
    if error.kind() == ErrorKind::InvalidInput {
        let told = "invalid argument: there is no connecting to the address";
        cases.push(Case::new("no address", invalid, (Ending::ConnectUnreachable, told)));
    }
    cases
}
