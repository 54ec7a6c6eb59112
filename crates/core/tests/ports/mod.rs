//! A port that a test names before anybody listens there.
//!
//! A port that was found free and let go may be another's the next moment: a server of another test
//! that takes any, or a client's end of a connection. One that is held is given to nobody, and a
//! server that reuses addresses, as all servers here do, can still listen there.

use std::{
    mem,
    net::{Ipv4Addr, SocketAddr},
};

use socket2::{Domain, Socket, Type};

/// An address at which nobody listens unless the test has somebody do so: held until the end.
pub(crate) fn reserved() -> SocketAddr {
    let held = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    held.set_reuse_address(true).unwrap();
    held.set_reuse_port(true).unwrap();
    held.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    let address = held.local_addr().unwrap().as_socket().unwrap();
    mem::forget(held);
    address
}
