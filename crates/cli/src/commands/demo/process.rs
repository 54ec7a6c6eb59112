//! Processes of this same binary: servers that listen, and runs of the load generator.
//!
//! Each is killed, by its id, when the value that stands for it is dropped: on success, on an
//! error anywhere, and when a signal drops the whole study.

use std::{env, net::SocketAddr, process::Stdio};

use anyhow::{Context as _, bail};
use loadline_measure::record::LoadRecord;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use super::plan::Load;

/// A worker or a proxy that has said where it listens.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts `loadline` with these arguments and waits for its first address.
    pub(crate) async fn start(args: &[String]) -> anyhow::Result<Self> {
        let what = format!("`loadline {}`", args.join(" "));
        let mut command = loadline(args)?;
        let mut child = command.spawn().with_context(|| format!("cannot start {what}"))?;
        let output = child.stdout.take().context("a started process has an output")?;
        let (mut output, mut first) = (BufReader::new(output), String::new());
        let read = timeout(START, output.read_line(&mut first)).await;
        read.with_context(|| format!("{what} does not listen"))??;
        match first.trim_end().strip_prefix("listening on ").map(str::parse) {
            Some(Ok(address)) => Ok(Self { child, address }),
            _ => bail!("{what} does not say where it listens, but {first:?}"),
        }
    }

    /// SIGKILL: it is gone at once, with everything it was doing.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("cannot kill a worker")
    }
}

/// Puts this load on `address` and gives the record of it.
pub(crate) async fn bench(address: SocketAddr, load: Load) -> anyhow::Result<LoadRecord> {
    let args = [
        "bench",
        &format!("http://{address}/"),
        "--rate",
        &load.rate.to_string(),
        "--requests",
        &load.requests.to_string(),
        "--arrivals",
        "constant",
        "--count-by",
        "X-Served-By",
        "--json",
        "--quiet",
    ];
    let args = args.map(str::to_owned);
    let child = loadline(&args)?.spawn().context("cannot start the load generator")?;
    let output = child.wait_with_output().await.context("cannot read the load generator")?;
    if !output.status.success() {
        bail!("`loadline {}` failed with {}", args.join(" "), output.status);
    }
    serde_json::from_slice(&output.stdout).context("the load generator's record is not readable")
}

fn loadline(args: &[String]) -> anyhow::Result<Command> {
    let program = env::current_exe().context("cannot find the binary that runs")?;
    let mut command = Command::new(program);
    // Their notices would run through the progress; their errors are worth it.
    command.args(args).env("RUST_LOG", "error").stdin(Stdio::null()).stdout(Stdio::piped());
    command.kill_on_drop(true);
    Ok(command)
}

/// A process that does not listen after this never will.
const START: std::time::Duration = std::time::Duration::from_secs(10);
