//! A client, the balancer and some servers on one bridge, each in a namespace of its own.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Stdio},
    thread,
};

use crate::{
    bridge::{alone, at, bridge, member, silent_server, work_out_checksums},
    host::Host,
};

/// The last part of the service address of each method.
pub(crate) const NAT: u16 = 1;
pub(crate) const MAC: u16 = 2;
pub(crate) const IPIP: u16 = 3;

pub(crate) struct Network {
    pub(crate) client: Host,
    pub(crate) balancer: Host,
    pub(crate) servers: Vec<Host>,
    _tunnels: Vec<Tunnel>,
    hub: Host,
}

impl Network {
    /// With so many servers; none where the rights of root are missing, which is told.
    pub(crate) fn new(servers: u16) -> Option<Self> {
        let network = Self::with_offload(servers)?;
        let hosts = [&network.client, &network.balancer].into_iter().chain(&network.servers);
        hosts.for_each(work_out_checksums);
        Some(network)
    }

    /// The same, where packets leave without a checksum, and large ones whole.
    pub(crate) fn with_offload(servers: u16) -> Option<Self> {
        let network = Self::without_addresses(servers)?;
        for (part, v6) in
            [NAT, MAC, IPIP, 9, 10].into_iter().flat_map(|part| [(part, false), (part, true)])
        {
            let address = alone(at(0, part, v6));
            network.balancer.run(&format!("ip address add {address} dev eth0 nodad"));
        }
        Some(network)
    }

    /// Another balancer on a network where each has but its own address.
    pub(crate) fn of_two_balancers(servers: u16) -> Option<(Self, Host)> {
        let network = Self::without_addresses(servers)?;
        let second = member(&network.hub, "second", 0, 18);
        let hosts = [&network.client, &network.balancer, &second];
        hosts.into_iter().chain(&network.servers).for_each(work_out_checksums);
        Some((network, second))
    }

    fn without_addresses(servers: u16) -> Option<Self> {
        let hub = bridge()?;
        let client = member(&hub, "client", 3, 7);
        let balancer = member(&hub, "balancer", 0, 8);
        let servers: Vec<Host> = (1..=servers).map(|number| server(&hub, number)).collect();
        let tunnels = servers.iter().map(Tunnel::open).collect();
        Some(Self { client, balancer, servers, _tunnels: tunnels, hub })
    }

    /// Lets all learn where the others are, so that no first packet waits for that.
    pub(crate) fn get_to_know(&self) {
        for part in [NAT, MAC, IPIP] {
            (0..10).for_each(|_| drop(self.curl(&format!("http://{}/", at(0, part, false)))));
        }
    }

    /// What curl gets from there, asked for by the client.
    pub(crate) fn curl(&self, url: &str) -> String {
        self.ask(url, &[])
    }

    /// The response to so many bytes, which the client sends.
    pub(crate) fn upload(&self, url: &str, bytes: usize) -> String {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![b'x'; bytes]).unwrap();
        let path = file.path().to_str().unwrap();
        self.ask(url, &["--upload-file", path, "--header", "Expect:"])
    }

    fn ask(&self, url: &str, more: &[&str]) -> String {
        let mut curl = self.client.command("curl");
        curl.args(["--silent", "--show-error", "--max-time", "20"]).args(more).arg(url);
        let output = curl.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "curl {url}: {told}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A listener of the file that forwards packets.
pub(crate) fn listener(bind: SocketAddr, protocol: &str, method: &str, service: &str) -> String {
    format!(
        "[[listener]]\nbind = \"{bind}\"\nprotocol = \"{protocol}\"\nforward = \"{method}\"\n\
         service = \"{service}\"\n"
    )
}

/// The servers with these numbers, as the file lists them.
pub(crate) fn listed(numbers: &[u16], v6: bool) -> String {
    let place = |number: &u16| format!("\"{}\"", SocketAddr::new(at(1, *number, v6), 80));
    numbers.iter().map(place).collect::<Vec<_>>().join(", ")
}

/// A server that answers with its number, to the addresses of `mac` and `ipip` as well.
fn server(hub: &Host, number: u16) -> Host {
    let host = silent_server(hub, number, &[MAC, IPIP]);
    let listener = host.enter(|| TcpListener::bind("[::]:80").unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(&stream, number));
        }
    });
    host
}

/// Answers requests until the client has no more: with the number of the server, with as many bytes
/// as the path says, or with how many came.
fn answer(stream: &TcpStream, number: u16) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    while reader.read_line(&mut first)? > 0 {
        let mut came = 0;
        for line in reader.by_ref().lines().map_while(Result::ok).take_while(|it| !it.is_empty()) {
            let length = line.strip_prefix("Content-Length: ");
            came = length.map_or(came, |length| length.parse().unwrap_or_default());
        }
        std::io::copy(&mut reader.by_ref().take(came), &mut std::io::sink())?;
        let path = first.split(' ').nth(1).unwrap_or_default();
        let body = match path.trim_start_matches('/').parse() {
            Ok(bytes) => "x".repeat(bytes),
            Err(_) if came > 0 => format!("{came}\n"),
            Err(_) => format!("{number}\n"),
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut stream = stream;
        stream.write_all((head + &body).as_bytes())?;
        first.clear();
    }
    Ok(())
}

/// What takes packets out of their tunnel on a server, ended when it is dropped.
struct Tunnel(Child);

impl Tunnel {
    fn open(server: &Host) -> Self {
        let mut command = server.command(env!("CARGO_BIN_EXE_loadline"));
        command.args(["l4", "decapsulate", "--xdp-mode", "generic", "eth0"]);
        command.args([false, true].map(|v6| at(0, IPIP, v6).to_string()));
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "decapsulating on eth0, generic\n");
        Self(process)
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
