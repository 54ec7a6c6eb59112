//! A conversation over TCP: messages as JSON, each sealed, neither side silent for long.
//!
//! A message is its length (4 bytes, big endian), its seal (32 bytes) and its text; `null` says
//! only that one is still there. The first three, in which both sides prove who they are, have no
//! seal.

use std::{future::Future, io, time::Duration};

use loadline_core::time::Instant;
use loadline_linux::clock;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    time::timeout,
};

use super::{
    SILENCE,
    message::{Hello, Proof, Welcome},
    token::{Nonces, Seal, Side, Token, nonce},
};

/// Why a conversation is over.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("it closed the connection")]
    Closed,
    #[error("it said nothing for {} s", SILENCE.as_secs())]
    Silent,
    #[error("{0}")]
    Io(io::Error),
    #[error("a message does not have the seal of our token")]
    Forged,
    #[error("a message of {0} bytes is longer than any should be")]
    Long(u64),
    #[error("it said what cannot be understood: {0}")]
    Text(serde_json::Error),
    #[error("it does not know our token")]
    Token,
    #[error("it closed the connection when it had our proof; its token may differ from ours")]
    Unproven,
    #[error("it runs loadline {0}")]
    Version(String),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

/// One end of a connection between leader and agent. Dropping it closes the connection.
pub(super) struct Link<Out, In> {
    outgoing: mpsc::Sender<Out>,
    incoming: mpsc::Receiver<Result<(Instant, In), Ended>>,
}

impl<Out, In> Link<Out, In>
where
    Out: Serialize + Send + 'static,
    In: DeserializeOwned + Send + 'static,
{
    /// Says it as soon as what was said before is on its way. What a lost one is told is lost: that
    /// it is lost is heard.
    pub(super) async fn say(&self, message: Out) {
        let _ = self.outgoing.send(message).await;
    }

    /// What the other side says next, and when it came in. Nothing is lost where this is given up.
    ///
    /// # Errors
    /// Why it says no more.
    pub(super) async fn next(&mut self) -> Result<(Instant, In), Ended> {
        self.incoming.recv().await.unwrap_or(Err(Ended::Closed))
    }

    fn over(stream: TcpStream, token: &Token, us: Side, nonces: &Nonces) -> Self {
        let (from, to) = stream.into_split();
        let [outgoing, incoming] = [us, us.other()].map(|side| token.seal(side, nonces));
        let (say, said) = mpsc::channel(QUEUE);
        let (hear, heard) = mpsc::channel(QUEUE);
        tokio::spawn(write(to, outgoing, said));
        tokio::spawn(read(from, incoming, hear));
        Self { outgoing: say, incoming: heard }
    }
}

/// Begins a conversation as the leader, who has this version.
///
/// # Errors
/// Why there is none.
pub(super) async fn lead<Out, In>(
    mut stream: TcpStream,
    token: &Token,
    version: &str,
) -> Result<Link<Out, In>, Ended>
where
    Out: Serialize + Send + 'static,
    In: DeserializeOwned + Send + 'static,
{
    stream.set_nodelay(true)?;
    let leader = nonce()?;
    write_plain(&mut stream, &Hello { version: version.to_owned(), nonce: leader }).await?;
    let (agent, proof) = match read_plain(&mut stream).await? {
        Welcome::Version(theirs) => return Err(Ended::Version(theirs)),
        Welcome::Proof { nonce, proof } => (nonce, proof),
    };
    let nonces = Nonces { leader, agent };
    if !token.is_proven_by(Side::Agent, &nonces, proof) {
        return Err(Ended::Token);
    }
    write_plain(&mut stream, &Proof(token.proof(Side::Leader, &nonces))).await?;
    Ok(Link::over(stream, token, Side::Leader, &nonces))
}

/// Begins a conversation as the agent.
///
/// # Errors
/// Why there is none.
pub(super) async fn follow<Out, In>(
    mut stream: TcpStream,
    token: &Token,
    version: &str,
) -> Result<Link<Out, In>, Ended>
where
    Out: Serialize + Send + 'static,
    In: DeserializeOwned + Send + 'static,
{
    stream.set_nodelay(true)?;
    let hello: Hello = read_plain(&mut stream).await?;
    if hello.version != version {
        write_plain(&mut stream, &Welcome::Version(version.to_owned())).await?;
        return Err(Ended::Version(hello.version));
    }
    let nonces = Nonces { leader: hello.nonce, agent: nonce()? };
    let proof = token.proof(Side::Agent, &nonces);
    write_plain(&mut stream, &Welcome::Proof { nonce: nonces.agent, proof }).await?;
    // A leader that finds the agent's proof wrong goes away.
    let Proof(shown) = read_plain(&mut stream).await.map_err(|why| match why {
        Ended::Closed => Ended::Unproven,
        why => why,
    })?;
    if !token.is_proven_by(Side::Leader, &nonces, shown) {
        return Err(Ended::Token);
    }
    Ok(Link::over(stream, token, Side::Agent, &nonces))
}

async fn write<Out: Serialize>(
    mut to: OwnedWriteHalf,
    mut seal: Seal,
    mut messages: mpsc::Receiver<Out>,
) {
    loop {
        let message = match timeout(BEAT, messages.recv()).await {
            Ok(Some(message)) => Some(message),
            Ok(None) => return,
            Err(_elapsed) => None,
        };
        let Ok(text) = serde_json::to_vec(&message) else { return };
        let Ok(length) = u32::try_from(text.len()) else { return };
        let head = [length.to_be_bytes().as_slice(), &seal.next(&text)].concat();
        for piece in [head.as_slice()].into_iter().chain(text.chunks(PIECE)) {
            // The reader of this side will find out as well, and tells.
            if !matches!(timeout(SILENCE, to.write_all(piece)).await, Ok(Ok(()))) {
                return;
            }
        }
    }
}

async fn read<In: DeserializeOwned>(
    mut from: OwnedReadHalf,
    mut seal: Seal,
    heard: mpsc::Sender<Result<(Instant, In), Ended>>,
) {
    loop {
        let frame = tokio::select! {
            () = heard.closed() => return,
            frame = read_sealed(&mut from, &mut seal) => frame,
        };
        let at = clock::now();
        let message =
            frame.and_then(|text| serde_json::from_slice::<Option<In>>(&text).map_err(Ended::Text));
        let told = match message {
            Ok(None) => continue,
            Ok(Some(message)) => Ok((at, message)),
            Err(ended) => Err(ended),
        };
        let over = told.is_err();
        if heard.send(told).await.is_err() || over {
            return;
        }
    }
}

async fn read_sealed(from: &mut OwnedReadHalf, seal: &mut Seal) -> Result<Vec<u8>, Ended> {
    let mut head = [0; 36];
    patiently(from.read_exact(&mut head)).await?;
    let [l0, l1, l2, l3, shown @ ..] = head;
    let length = u64::from(u32::from_be_bytes([l0, l1, l2, l3]));
    if length > LONGEST {
        return Err(Ended::Long(length));
    }
    let mut text = Vec::new();
    // Memory grows with what has come in, not with what was announced.
    while (text.len() as u64) < length {
        let mut rest = (&mut *from).take((length - text.len() as u64).min(PIECE as u64));
        if patiently(rest.read_buf(&mut text)).await? == 0 {
            return Err(Ended::Closed);
        }
    }
    if seal.holds(&text, shown) { Ok(text) } else { Err(Ended::Forged) }
}

async fn write_plain(to: &mut TcpStream, message: &impl Serialize) -> Result<(), Ended> {
    let text = serde_json::to_vec(message).map_err(Ended::Text)?;
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let frame = [length.to_be_bytes().as_slice(), &text].concat();
    patiently(to.write_all(&frame)).await
}

async fn read_plain<T: DeserializeOwned>(from: &mut TcpStream) -> Result<T, Ended> {
    let length = u64::from(patiently(from.read_u32()).await?);
    if length > LONGEST_PLAIN {
        return Err(Ended::Long(length));
    }
    let mut text = vec![0; length as usize];
    patiently(from.read_exact(&mut text)).await?;
    serde_json::from_slice(&text).map_err(Ended::Text)
}

async fn patiently<T>(io: impl Future<Output = io::Result<T>>) -> Result<T, Ended> {
    Ok(timeout(SILENCE, io).await.map_err(|_| Ended::Silent)??)
}

/// How often something is said; ten of them may be late before the other side is given up.
const BEAT: Duration = Duration::from_millis(500);

/// As much as is waited for at a time, so that a long message on a slow way is not silence.
const PIECE: usize = 64 * 1024;

/// A request body, a list of instants or the figures of twenty minutes are shorter.
const LONGEST: u64 = 64 << 20;

/// Versions, random numbers and proofs.
const LONGEST_PLAIN: u64 = 4_096;

/// Messages that wait on either side; what is more waits with its sender.
const QUEUE: usize = 64;
