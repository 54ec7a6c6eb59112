//! One exchange at a time, with its phases: what a series of times to first byte is made of.

use std::{error::Error as _, net::SocketAddr, time::Duration as Patience};

use loadline_core::time::Duration;
use loadline_linux::clock;
use tokio::time::{timeout, timeout_at};

use crate::{
    client::PROBE_PATIENCE,
    connect::{self, Connector, Endpoint, NoConnection},
    http1::{Connection, Failure},
    http2::Http2Connection,
    outcome::Outcome,
    phases::PhaseTimes,
    plan::LoadPlan,
    request::Request,
    run::LoadError,
    sessions::Session,
    tally::WholeResponse,
    target::Target,
    tls,
};

/// Sends the request of a plan to its first target, one at a time.
pub struct Prober {
    target: Target,
    name: Option<rustls::pki_types::ServerName<'static>>,
    connector: Connector,
    request: Request,
    patience: Patience,
    kept: Option<Kept>,
    /// The address that took the latest connection, which is tried first.
    answered: Option<SocketAddr>,
}

/// What became of one exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The status of a whole response, or the class of a failure.
    pub outcome: Result<u16, Outcome>,
    /// What was spoken, as `HTTP/1.1 over TLS 1.3`; empty where no connection opened.
    pub protocol: String,
    /// The address connected to; none where the name has none or no address took a connection.
    pub address: Option<SocketAddr>,
    /// Why the name has no address, where the look-up failed; the outcome is
    /// [`Outcome::ConnectRefused`] then.
    pub unresolved: Option<String>,
    /// Why it failed otherwise, where that is known: what TLS found wrong, or what is no HTTP.
    pub reason: Option<String>,
    /// Whether the connection was kept from the exchange before.
    pub reused: bool,
    /// Looking the host's name up, on a new connection; none where the host is an address.
    pub dns: Option<Duration>,
    /// Opening the TCP connection, on a new connection; over HTTP/3 the handshake of QUIC, of which
    /// TLS is a part.
    pub connect: Option<Duration>,
    /// The TLS handshake, on a new TCP connection over TLS.
    pub tls: Option<Duration>,
    /// From the request's last byte sent to the response's first byte read.
    pub first_byte: Option<Duration>,
    /// From the response's first byte to its last.
    pub body: Option<Duration>,
    /// From the beginning, looking up the name included, to the end.
    pub total: Duration,
    /// Bytes of the response, head included.
    pub bytes: u64,
}

/// A connection, and what is known of it.
struct Kept {
    speaker: Speaker,
    protocol: &'static str,
    address: SocketAddr,
}

enum Speaker {
    Http1(Box<Connection>),
    Shared(Session),
}

impl Prober {
    /// A prober of the first target of `plan`, with its request, transport and timeout; the
    /// pattern does not matter. Certificates are read and the name is looked up, so that what
    /// cannot work is told at once.
    ///
    /// # Errors
    /// [`LoadError`] where the plan, a file or the name cannot be used.
    pub async fn new(plan: &LoadPlan) -> Result<Self, LoadError> {
        plan.check()?;
        let target = plan.targets[0].0.clone();
        let request = Request::of(plan, &target)?;
        let connector = Connector::new(&plan.transport, std::iter::once(&target))?;
        let tls = &plan.transport.tls;
        let name = target.is_secure().then(|| tls::server_name(&target, tls)).transpose()?;
        connect::look_up(&target).await?;
        let patience = plan.timeout.to_std();
        Ok(Self { target, name, connector, request, patience, kept: None, answered: None })
    }

    /// One exchange: on the connection kept from the one before if there is one, or else on a new
    /// one. Where `keep` is true the connection is kept for the next.
    pub async fn fetch(&mut self, keep: bool) -> Fetched {
        let begun = clock::now();
        let mut fetched = Fetched::default();
        let deadline = tokio::time::Instant::now() + self.patience;
        fetched.outcome = match timeout_at(deadline, self.attempt(&mut fetched)).await {
            Ok(Err(Failure::WithReason(outcome, reason))) => {
                fetched.reason = Some(reason);
                Err(outcome)
            }
            Ok(answered) => answered.map_err(Failure::outcome),
            Err(_) if fetched.protocol.is_empty() => Err(Outcome::ConnectTimeout),
            Err(_) => Err(Outcome::Timeout),
        };
        fetched.total = clock::now().since(begun);
        if !keep {
            self.kept = None;
        }
        fetched
    }

    /// Closes what has to be told of its end; to be called after the last exchange.
    pub async fn close(self) {
        drop(self.kept);
        self.connector.close().await;
    }

    async fn attempt(&mut self, fetched: &mut Fetched) -> Result<u16, Failure> {
        if let Some(mut kept) = self.kept.take()
            && kept.speaker.is_open().await
        {
            fetched.reused = true;
            match self.ask(&mut kept, fetched).await {
                Ok((status, again)) => {
                    self.kept = again.then_some(kept);
                    return Ok(status);
                }
                Err(Failure::Unprocessed) => *fetched = Fetched::default(),
                Err(failure) => return Err(failure),
            }
        }
        let mut opened = self.open(fetched).await?;
        let (status, again) = self.ask(&mut opened, fetched).await?;
        self.kept = again.then_some(opened);
        Ok(status)
    }

    /// One exchange, its phases noted in `fetched`; says also whether the connection can be used
    /// for another.
    async fn ask(&self, on: &mut Kept, fetched: &mut Fetched) -> Result<(u16, bool), Failure> {
        on.protocol.clone_into(&mut fetched.protocol);
        fetched.address = Some(on.address);
        let (answer, again) = match &mut on.speaker {
            Speaker::Http1(connection) => connection.exchange(&self.request).await?,
            Speaker::Shared(session) => (session.exchange(&self.request).await?, true),
        };
        let WholeResponse { status, bytes, phases: PhaseTimes { first_byte, body, .. }, .. } =
            answer;
        (fetched.first_byte, fetched.body, fetched.bytes) = (first_byte, body, bytes);
        Ok((status, again))
    }

    /// Looks the name up and connects to the first of its addresses that can be reached; only the
    /// last has all the time there is.
    async fn open(&mut self, fetched: &mut Fetched) -> Result<Kept, Failure> {
        let begun = clock::now();
        let found = connect::look_up(&self.target).await;
        fetched.dns = self.target.is_named().then(|| clock::now().since(begun));
        match found {
            Ok(addresses) => self.open_first(addresses, fetched).await,
            Err(error) => {
                fetched.unresolved = Some(reason(&error));
                Err(Failure::Ended(Outcome::ConnectRefused))
            }
        }
    }

    async fn open_first(
        &mut self,
        addresses: Vec<SocketAddr>,
        fetched: &mut Fetched,
    ) -> Result<Kept, Failure> {
        let mut addresses = self.connector.usable(addresses);
        addresses.sort_by_key(|address| Some(*address) != self.answered);
        let patience = PROBE_PATIENCE.to_std().min(self.patience / 2);
        let mut last = Failure::Ended(Outcome::ConnectRefused);
        for (number, address) in addresses.iter().enumerate() {
            let opening = self.open_at(*address, fetched);
            let opened = if number + 1 == addresses.len() {
                opening.await
            } else {
                let late = Failure::Ended(Outcome::ConnectTimeout);
                timeout(patience, opening).await.unwrap_or(Err(late))
            };
            match opened {
                Ok(opened) => {
                    self.answered = Some(*address);
                    return Ok(opened);
                }
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    async fn open_at(&self, address: SocketAddr, fetched: &mut Fetched) -> Result<Kept, Failure> {
        let endpoint = Endpoint { address, name: self.name.clone() };
        if self.connector.speaks_http3() {
            let opened = self.connector.open_http3(&endpoint).await;
            let opened = opened.map_err(NoConnection::failure)?;
            fetched.connect = Some(opened.connect);
            let speaker = Speaker::Shared(Session::Http3(opened.wire));
            return Ok(Kept { speaker, protocol: opened.protocol, address });
        }
        let opened = self.connector.open(&endpoint).await.map_err(NoConnection::failure)?;
        (fetched.connect, fetched.tls) = (Some(opened.connect), opened.tls);
        let speaker = if opened.http2 {
            Speaker::Shared(Session::Http2(Http2Connection::open(opened.wire).await?))
        } else {
            Speaker::Http1(Box::new(Connection::new(opened.wire, opened.connect)))
        };
        Ok(Kept { speaker, protocol: opened.protocol, address })
    }
}

/// What the resolver said.
fn reason(error: &LoadError) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

impl Speaker {
    async fn is_open(&mut self) -> bool {
        match self {
            Self::Http1(connection) => connection.is_open().await,
            Self::Shared(session) => session.is_open().await,
        }
    }
}

impl Default for Fetched {
    /// Of an exchange that has not begun: nothing measured yet.
    fn default() -> Self {
        Self {
            outcome: Err(Outcome::CutOff),
            protocol: String::new(),
            address: None,
            unresolved: None,
            reason: None,
            reused: false,
            dns: None,
            connect: None,
            tls: None,
            first_byte: None,
            body: None,
            total: Duration::ZERO,
            bytes: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Until;
    use tokio::net::{TcpListener, TcpSocket, TcpStream};

    #[tokio::test]
    async fn an_address_that_does_not_answer_delays_the_first_exchange_alone() {
        let silent = TcpSocket::new_v4().unwrap();
        silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let silent = silent.listen(0).unwrap();
        let address = silent.local_addr().unwrap();
        let mut waiting = Vec::new();
        let open = || timeout(Patience::from_millis(200), TcpStream::connect(address));
        while let Ok(stream) = open().await {
            waiting.push(stream.unwrap());
            assert!(waiting.len() < 100, "the backlog does not fill");
        }
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addresses = vec![address, server.local_addr().unwrap()];
        let mut plan = LoadPlan::closed("localhost:1", 1, Until::Requests(1)).unwrap();
        plan.timeout = Duration::from_millis(600);
        let mut prober = Prober::new(&plan).await.unwrap();
        let mut took = Vec::new();
        for _ in 0..2 {
            let begun = clock::now();
            let opened = prober.open_first(addresses.clone(), &mut Fetched::default()).await;
            assert_eq!(opened.map(|kept| kept.address).ok(), Some(addresses[1]));
            took.push(clock::now().since(begun));
        }
        let half = plan.timeout / 2;
        assert!(took[0] >= half && took[1] < half, "{took:?}");
    }

    #[tokio::test]
    async fn a_look_up_that_fails_later_is_told_apart_from_a_connection_that_is_refused() {
        let plan = LoadPlan::closed("localhost:1", 1, Until::Requests(1)).unwrap();
        let mut prober = Prober::new(&plan).await.unwrap();
        let refused = prober.fetch(false).await;
        assert_eq!((refused.outcome, refused.unresolved), (Err(Outcome::ConnectRefused), None));
        prober.target = "nobody.invalid".parse().unwrap();
        assert!(prober.fetch(false).await.unresolved.is_some());
    }
}
