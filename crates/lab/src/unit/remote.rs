//! One machine as a forwarding unit sees it: its kept connections, and one exchange on them.
//!
//! A connection serves one request at a time and is kept after it, so that only what comes while
//! all are busy waits for another to be opened. One that the machine closed meanwhile is given up
//! and the request goes out once more on the next.

use std::{io, sync::Mutex};

use loadline_http1::{BodyReader, BuildError, Framing, MessageBuilder, Method, ParseError};
use loadline_http1::{ResponseHead, Status};
use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::Machine;
use crate::service::lock;

/// A machine and the connections to it that wait.
pub(super) struct Remote {
    pub(super) machine: Machine,
    kept: Mutex<Vec<TcpStream>>,
}

/// Why a machine gave no response to pass on.
#[derive(Debug, thiserror::Error)]
pub(super) enum RemoteError {
    /// The connection failed.
    #[error("it cannot be reached: {0}")]
    Io(#[from] io::Error),
    /// The response is not HTTP.
    #[error("it does not speak HTTP: {0}")]
    Parse(#[from] ParseError),
    /// The request could not be written.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// It ended the connection before its response was whole.
    #[error("it closed the connection without an answer")]
    Silent,
    /// The response is not a machine's.
    #[error("it answered {status}, not 200 with its work_time; `loadline worker machine` does")]
    NoMachine {
        /// The status of the response.
        status: u16,
    },
}

/// What a machine answers, as far as it matters here.
#[derive(Deserialize)]
struct Work {
    work_time: f64,
}

impl Remote {
    pub(super) fn new(machine: Machine) -> Self {
        Self { machine, kept: Mutex::new(Vec::new()) }
    }

    /// Sends one request; gives the milliseconds of work that the machine reports.
    pub(super) async fn work(&self) -> Result<f64, RemoteError> {
        loop {
            let kept = lock(&self.kept).pop();
            let Some(stream) = kept else { break };
            match self.exchange(stream).await {
                Err(RemoteError::Silent | RemoteError::Io(_)) => {}
                told => return told,
            }
        }
        let stream = TcpStream::connect(self.machine.address).await?;
        stream.set_nodelay(true)?;
        self.exchange(stream).await
    }

    async fn exchange(&self, mut stream: TcpStream) -> Result<f64, RemoteError> {
        let mut bytes = Vec::with_capacity(READ_SIZE);
        let host = self.machine.address.to_string();
        MessageBuilder::request(&mut bytes, "GET", "/", &host)?.finish(Framing::None);
        stream.write_all(&bytes).await?;
        bytes.clear();
        let mut head = ResponseHead::default();
        let length = loop {
            match head.parse(&bytes, Method::Get)? {
                Status::Complete(length) => break length,
                Status::Partial => read(&mut stream, &mut bytes).await?,
            }
        };
        bytes.drain(..length);
        let mut reader = BodyReader::new(head.framing());
        let mut body = Vec::new();
        loop {
            let progress = reader.feed_data(&bytes, |data| body.extend_from_slice(data))?;
            bytes.drain(..progress.consumed);
            if progress.finished {
                break;
            }
            read(&mut stream, &mut bytes).await?;
        }
        if head.keep_alive() {
            lock(&self.kept).push(stream);
        }
        let work: Option<Work> = serde_json::from_slice(&body).ok();
        let work = work.filter(|_| head.status() == 200);
        work.map(|work| work.work_time).ok_or(RemoteError::NoMachine { status: head.status() })
    }
}

async fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Result<(), RemoteError> {
    match stream.read_buf(bytes).await? {
        0 => Err(RemoteError::Silent),
        _ => Ok(()),
    }
}

/// Room for a whole response of a machine.
const READ_SIZE: usize = 1024;
