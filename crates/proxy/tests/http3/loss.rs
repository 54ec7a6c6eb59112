//! A network that loses, doubles and reorders packets: nothing that is answered is wrong, and
//! nothing hangs.

use std::{
    io::{BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Request;
use quinn::Endpoint;
use tokio::{net::UdpSocket, task::JoinSet, time::timeout};

use crate::{
    authority::Authority,
    support::{Client, PATIENCE, Requests, config, field, fleet, head, rest, server, start},
};

/// A sequence that a seed determines (xorshift64).
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// True in one of five.
    fn fifth(&mut self) -> bool {
        self.next().is_multiple_of(5)
    }
}

/// So many bytes that no other seed has.
fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut draws = Draws(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    (0..length).map(|_| (draws.next() >> 32) as u8).collect()
}

/// A server that answers `/SEED/LENGTH` with that content behind what it was sent.
fn origin() -> SocketAddr {
    server(|mut stream| {
        let reading = stream.try_clone().unwrap();
        let mut reader = BufReader::new(&reading);
        while let Some(head) = head(&mut reader) {
            let length = field(&head, "content-length").map_or(0, |it| it.parse().unwrap());
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let path = head.split(' ').nth(1).unwrap();
            let numbers: Vec<u64> = path[1..].split('/').map(|it| it.parse().unwrap()).collect();
            body.extend(content(numbers[0], numbers[1] as usize));
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(&[answer.into_bytes(), body].concat()).unwrap();
        }
    })
}

/// Passes packets on between one client and a proxy: of each direction a fifth is lost, a fifth
/// comes twice, and a fifth later than what follows.
async fn bad_network(proxy: SocketAddr, seed: u64) -> SocketAddr {
    let near = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
    let far = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
    far.connect(proxy).await.unwrap();
    let address = near.local_addr().unwrap();
    let client = Arc::new(Mutex::new(None));
    let draws = Arc::new(Mutex::new(Draws(seed)));
    for is_forth in [true, false] {
        let way = Way {
            is_forth,
            near: near.clone(),
            far: far.clone(),
            client: client.clone(),
            draws: draws.clone(),
        };
        tokio::spawn(async move {
            loop {
                way.pass_one().await;
            }
        });
    }
    address
}

/// One direction of a bad network.
#[derive(Clone)]
struct Way {
    is_forth: bool,
    near: Arc<UdpSocket>,
    far: Arc<UdpSocket>,
    /// Whose packets came last.
    client: Arc<Mutex<Option<SocketAddr>>>,
    draws: Arc<Mutex<Draws>>,
}

impl Way {
    /// Waits for a packet, and passes it on as often and as late as the draws say.
    async fn pass_one(&self) {
        let mut packet = [0; 2_000];
        let Ok(length) = self.receive(&mut packet).await else { return };
        let (lost, twice, late, wait) = {
            let mut draws = self.draws.lock().unwrap();
            (draws.fifth(), draws.fifth(), draws.fifth(), draws.next() % 10)
        };
        for _ in 0..u8::from(!lost) * (1 + u8::from(twice)) {
            let (way, packet) = (self.clone(), packet[..length].to_vec());
            if late {
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(1 + wait)).await;
                    way.send(&packet).await;
                });
            } else {
                way.send(&packet).await;
            }
        }
    }

    async fn receive(&self, packet: &mut [u8]) -> std::io::Result<usize> {
        if !self.is_forth {
            return self.far.recv(packet).await;
        }
        let (length, from) = self.near.recv_from(packet).await?;
        *self.client.lock().unwrap() = Some(from);
        Ok(length)
    }

    async fn send(&self, packet: &[u8]) {
        let to = *self.client.lock().unwrap();
        let _ = match (self.is_forth, to) {
            (true, _) => self.far.send(packet).await,
            (false, Some(to)) => self.near.send_to(packet, to).await,
            (false, None) => Ok(0),
        };
    }
}

/// Sends so many bytes and asks for as many of another seed: whether that is what came.
async fn is_right(mut requests: Requests, seed: u64, [sent, asked]: [usize; 2]) -> bool {
    let body = content(seed + 1, sent);
    let uri = format!("https://a.test/{seed}/{asked}");
    let request = Request::post(uri).header("content-length", sent).body(()).unwrap();
    let mut stream = requests.send_request(request).await.unwrap();
    stream.send_data(Bytes::from(body.clone())).await.unwrap();
    stream.finish().await.unwrap();
    let status = stream.recv_response().await.unwrap().status();
    let came = rest(&mut stream).await.unwrap();
    status == 200 && came == [body, content(seed, asked)].concat()
}

#[tokio::test]
async fn a_fifth_of_packets_lost_doubled_and_late_makes_no_response_wrong_and_none_hang() {
    let authority = Authority::new();
    let (_proxy, address) = start(&fleet(origin(), &authority, 2));
    let end = Instant::now() + Duration::from_secs(8);
    let mut clients = JoinSet::new();
    for number in 1..=6 {
        let relay = bad_network(address, number).await;
        let config = config(&authority, 1 << 20);
        clients.spawn(async move {
            let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            endpoint.set_default_client_config(config);
            let client = timeout(PATIENCE, Client::over(endpoint, relay)).await.unwrap();
            let (mut draws, mut answered) = (Draws(number), 0);
            while answered == 0 || Instant::now() < end {
                let mut some = JoinSet::new();
                for _ in 0..4 {
                    let seed = draws.next() >> 1;
                    let lengths = [draws.next() % 5_000, draws.next() % 20_000];
                    let lengths = lengths.map(|it| it as usize);
                    some.spawn(timeout(PATIENCE, is_right(client.requests.clone(), seed, lengths)));
                }
                while let Some(done) = some.join_next().await {
                    assert!(done.unwrap().expect("it hangs"), "a response is wrong");
                    answered += 1;
                }
            }
            answered
        });
    }
    let mut answered = 0;
    while let Some(done) = clients.join_next().await {
        answered += done.unwrap();
    }
    assert!(answered >= 24, "{answered} responses");
}
