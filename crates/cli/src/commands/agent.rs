//! `loadline agent`: send a part of the load that another machine plans.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context as _;
use loadline_core::{time::Duration, units::Rate};
use loadline_load::{
    Tls, Transport,
    agents::{Limits, Token, check_transport, serve},
};
use tokio::net::TcpListener;

use super::{
    generators::VERSION, rate_above_zero, stop_signal::StopSignal, time_above_zero, worker,
};
use crate::process_log::{self, LogFormat};

/// Send a part of the load of `bench --with` or `capacity --with` on another machine
///
/// Its first line on the standard output is `listening on ADDRESS`. It serves one leader (`bench`
/// or `capacity`) at a time, which has to know the token and have the same version, and sends the
/// load that the leader plans, within the limits below. It stops sending as soon as the leader
/// disconnects. SIGTERM ends it.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Address to listen on; `:9320` means every interface
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9320")]
    #[arg(value_parser = worker::address)]
    listen: SocketAddr,
    /// The file whose first line is the token; leaders must have the same
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    own: OwnArgs,
}

/// The most it does for anybody.
#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
struct LimitArgs {
    /// Maximum duration of a run
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time_above_zero)]
    max_duration: Duration,
    /// Maximum rate of its part of a run
    #[arg(long, value_name = "RATE", default_value = "100000/s")]
    #[arg(value_parser = rate_above_zero)]
    max_rate: Rate,
    /// Maximum number of users of its part of a run
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    max_users: u32,
}

/// What its connections have of this machine.
#[derive(clap::Args)]
#[command(next_help_heading = "TLS and addresses")]
struct OwnArgs {
    /// PEM file of CA certificates to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// PEM file of the client's certificate chain
    #[arg(short = 'E', long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// PEM file of the client's key [the file of --cert]
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Connect from this source address; repeat for more addresses, and so more ports
    #[arg(long = "source-address", value_name = "IP")]
    sources: Vec<IpAddr>,
}

impl OwnArgs {
    fn transport(&self) -> Transport {
        let tls = Tls {
            authorities: self.cacert.clone(),
            certificate: self.cert.clone(),
            key: self.key.clone(),
            ..Tls::default()
        };
        Transport { tls, sources: self.sources.clone(), ..Transport::default() }
    }
}

/// Runs the command.
///
/// # Errors
/// What kept it from listening.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let token = match Token::read(&args.token_file) {
        Ok(token) => token,
        Err(error) => {
            super::report_error(&error.into());
            return Ok(ExitCode::from(super::EXIT_USAGE));
        }
    };
    process_log::write_behind(LogFormat::Text).context("starting the thread of the log")?;
    loadline_load::runtime()?.block_on(listen(args, token))
}

async fn listen(args: &Args, token: Token) -> anyhow::Result<ExitCode> {
    let own = args.own.transport();
    check_transport(&own)?;
    let mut stop = StopSignal::new()?;
    let bound = TcpListener::bind(args.listen).await;
    let listener = bound.with_context(|| format!("cannot listen on {}", args.listen))?;
    worker::announce(listener.local_addr()?).context("cannot say where the agent listens")?;
    let LimitArgs { max_duration: longest, max_rate: rate, max_users: users } = args.limits;
    let limits = Limits { longest, rate, users };
    let say = |text: &str| tracing::info!("{text}");
    tokio::select! {
        () = serve(listener, token, VERSION, own, limits, say) => {}
        () = stop.received() => {}
    }
    Ok(ExitCode::SUCCESS)
}

const AFTER_HELP: &str = "\
Examples:
  openssl rand -hex 16 > agent.token                               the same file on all machines
  loadline agent --listen :9320 --token-file agent.token           on load-1, load-2 and load-3
  loadline bench http://10.0.0.11/ --rate 90000 --duration 60s \\
    --with load-1,load-2,load-3 --token-file agent.token           on any machine

Who knows the token can have it send load anywhere. Messages cannot be forged, but they can be read:
where a request has secrets in its headers, use a private network.

Exit codes: 0 told to stop, 1 wrong usage or no token, 2 failed.";
