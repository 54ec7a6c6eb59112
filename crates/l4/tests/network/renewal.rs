//! What connections by NAT began with is another by now: the server of a client port, the link
//! address of a client.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::mpsc::channel,
    thread::sleep,
    time::{Duration, Instant},
};

use loadline_core::fleet::forwarding::Method;
use loadline_l4::{Datapath, Server, ring::Ring};
use tokio::{net::TcpSocket, runtime};

use crate::{
    METHODS, OWN, PATIENCE, RETURN, SERVERS,
    bridge::{alone, at, bridge},
    forward,
    host::Host,
    member, members, number_of,
    open_connections::echo,
    service_of, silent_server,
};

/// A client, the balancer and servers that echo, the bridge last.
struct Network {
    client: Host,
    balancer: Host,
    _servers: Vec<Host>,
    _hub: Host,
}

impl Network {
    fn new() -> Option<Self> {
        let hub = bridge()?;
        let client = member(&hub, "client", 3, 7);
        let servers: Vec<Host> = (1..=SERVERS)
            .map(|number| {
                let host = silent_server(&hub, number);
                echo(&host, 80, number as u8);
                host
            })
            .collect();
        let balancer = member(&hub, "balancer", 0, OWN);
        for (host, v6) in [1, RETURN].into_iter().flat_map(|host| [(host, false), (host, true)]) {
            balancer.run(&format!("ip address add {} dev eth0 nodad", alone(at(0, host, v6))));
        }
        Some(Self { client, balancer, _servers: servers, _hub: hub })
    }

    /// A connection from this port of the client, as soon as that is free.
    fn connect(&self, v6: bool) -> TcpStream {
        let service = SocketAddr::new(at(0, METHODS[0].1, v6), 80);
        let from = SocketAddr::new(at(3, 7, v6), PORT);
        self.client.enter(move || {
            let opened = runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let begun = Instant::now();
            let stream = loop {
                match opened.block_on(connect_from(from, service)) {
                    Err(error) if is_taken(&error) && begun.elapsed() < PATIENCE => {
                        sleep(Duration::from_millis(10));
                    }
                    stream => break stream.unwrap(),
                }
            };
            let stream = stream.into_std().unwrap();
            stream.set_nonblocking(false).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream
        })
    }

    /// The server of a new connection from this port, which breaks it off so that the port is free.
    fn server(&self, v6: bool) -> u16 {
        let mut stream = self.connect(v6);
        let server = ask(&mut stream);
        break_off(&stream);
        server
    }
}

async fn connect_from(from: SocketAddr, service: SocketAddr) -> io::Result<tokio::net::TcpStream> {
    let socket = if from.is_ipv6() { TcpSocket::new_v6() } else { TcpSocket::new_v4() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(from)?;
    tokio::time::timeout(PATIENCE, socket.connect(service)).await?
}

/// Whether the connection before has not left its port yet.
fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
}

/// The server that echoes on a connection.
fn ask(stream: &mut TcpStream) -> u16 {
    stream.write_all(&[7]).unwrap();
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[1], 7);
    answer[0].into()
}

fn break_off(stream: &TcpStream) {
    rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
}

fn publish(datapath: &mut Datapath, v6: bool, without: &[u16]) {
    let weight = |server: u16| u32::from(!without.contains(&server));
    let ring = Ring::new(&members(0, v6, weight));
    datapath.publish(service_of(METHODS[0].1, v6), ring.entries()).unwrap();
}

#[test]
fn a_client_port_leaves_a_drained_server_and_one_that_is_down() {
    let Some(network) = Network::new() else { return };
    assert_eq!(METHODS[0].0, Method::Nat);
    let mut datapath = network.balancer.enter(|| forward(OWN, 0, |_| 1));
    for v6 in [false, true] {
        let first = network.server(v6);
        assert_eq!(network.server(v6), first);
        publish(&mut datapath, v6, &[first]);
        let second = network.server(v6);
        assert_ne!(second, first, "drained");
        let down = Server {
            address: at(1, second, v6),
            port: 0,
            service: None,
            mac: [2, 0, 0, 0, 0, second as u8],
            is_up: false,
        };
        datapath.set_server(number_of(second, 0, v6), &down).unwrap();
        publish(&mut datapath, v6, &[first, second]);
        let third = network.server(v6);
        assert!(![first, second].contains(&third), "down");
    }
}

#[test]
fn connections_go_on_when_the_link_address_of_their_client_is_another() {
    let Some(network) = Network::new() else { return };
    let _datapath = network.balancer.enter(|| forward(OWN, 0, |_| 1));
    let (said, is_said) = channel();
    for (v6, link) in [(false, "0a:01"), (true, "0b:01")] {
        let mut stream = network.connect(v6);
        let server = ask(&mut stream);
        network.client.run(&format!("ip link set eth0 address 02:00:00:00:{link}"));
        let said = said.clone();
        std::thread::spawn(move || said.send(ask(&mut stream)));
        assert_eq!(is_said.recv_timeout(PATIENCE), Ok(server));
    }
}

const PORT: u16 = 40_001;
