//! A check by a send/expect script, over a connection or in datagrams.

use std::io;

use loadline_core::health::advisor::{CheckStep, Conversation, Mismatch, Script};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::UdpSocket,
};

/// Why a script did not get through.
#[derive(Debug, thiserror::Error)]
pub(in crate::runtime) enum ScriptError {
    /// The connection broke, or nobody listens at the port.
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// Another answer.
    #[error("{0}")]
    Mismatch(Mismatch),
    /// Closed before the answer was whole.
    #[error("closed at {0}")]
    Closed(Mismatch),
}

/// Plays the script over a connection.
pub(super) async fn converse<S>(mut stream: S, script: &Script) -> Result<(), ScriptError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut conversation = Conversation::new(script);
    let mut bytes = [0; READ_BYTES];
    loop {
        match conversation.turn() {
            CheckStep::Say(said) => stream.write_all(said).await?,
            CheckStep::Listen => match stream.read(&mut bytes).await? {
                0 => return Err(ScriptError::Closed(conversation.mismatch())),
                read => conversation.hear(&bytes[..read]),
            },
            CheckStep::Passed => return Ok(()),
            CheckStep::Failed(mismatch) => return Err(ScriptError::Mismatch(mismatch)),
        }
    }
}

/// Plays it in datagrams, one for each `send`.
pub(super) async fn exchange(socket: UdpSocket, script: &Script) -> Result<(), ScriptError> {
    let mut conversation = Conversation::new(script);
    let mut bytes = [0; READ_BYTES];
    loop {
        match conversation.turn() {
            CheckStep::Say(said) => drop(socket.send(said).await?),
            CheckStep::Listen => {
                let read = socket.recv(&mut bytes).await?;
                conversation.hear(&bytes[..read]);
            }
            CheckStep::Passed => return Ok(()),
            CheckStep::Failed(mismatch) => return Err(ScriptError::Mismatch(mismatch)),
        }
    }
}

/// At least a datagram as long as they are without having been agreed on.
const READ_BYTES: usize = 4096;
