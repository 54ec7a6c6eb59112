//! `loadline worker`: run a test server.

use std::{
    io::{self, Write as _},
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroU32,
    process::ExitCode,
};

use super::{stop_signal::StopSignal, switches::header};
use anyhow::Context as _;
use loadline_core::{
    time::Duration,
    units::{Bytes, Ratio},
};
use loadline_lab::{Config, Content, Fault, Forwarding, Machine, Pace, Sleep, Worker};

/// Run a test server of known capacity
///
/// Its first line on the standard output is `listening on ADDRESS`. On SIGTERM it stops accepting,
/// finishes requests in flight (5 s at most) and exits with 0.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Kind of server
    #[arg(value_enum)]
    content: Kind,
    /// Address to listen on; port 0 lets the system choose, `:9001` means every interface
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9001", value_parser = address)]
    listen: SocketAddr,
    /// Requests worked on at a time; others queue [mandelbrot, --burn: 2, machine: 1, otherwise
    /// all]
    #[arg(long, value_name = "N")]
    cores: Option<NonZeroU32>,
    /// Service time of a request [mandelbrot: 380ms, page: 300ms, json: 100ms, machine: 20ms,
    /// otherwise 0s]
    #[arg(long, value_name = "TIME")]
    service_time: Option<Duration>,
    /// Use CPU for the service time: draw the set for every request on real threads
    #[arg(long)]
    burn: bool,
    /// Delay of the network to the client: half is added before the queue, half after the work
    #[arg(long, value_name = "TIME", default_value = "0s")]
    delay: Duration,
    /// Size of the response of `fixed`
    #[arg(long, value_name = "SIZE", default_value = "100B")]
    size: Bytes,
    /// Name in the header X-Served-By [REGION/PORT]
    #[arg(long)]
    name: Option<String>,
    /// A header of every response; repeat for more
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Region in the header and in responses
    #[arg(long, default_value = "local")]
    region: String,
    /// Answer /health-check as the tutorial's server does: a status line without headers
    #[arg(long)]
    lenient_health: bool,
    /// Report the utilization of the cores in the header endpoint-load-metrics (ORCA)
    #[arg(long)]
    report_utilization: bool,
    /// `unit`: a machine to forward to; repeat for more
    #[arg(long = "worker", value_name = "REGION/MACHINE=ADDR")]
    machines: Vec<Machine>,
    /// `unit`: timeout of a machine, after which the response is 503
    #[arg(long, value_name = "TIME", default_value = "30s")]
    limit: Duration,
    /// `unit`: seed of the random choice of machines
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Fall asleep this long after the last request; asleep at the start
    #[arg(long, value_name = "TIME")]
    sleep_after: Option<Duration>,
    /// Time to wake up
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "sleep_after")]
    wake: Duration,
    /// Stall for this time: send no response, as during a garbage collection
    #[arg(long, value_name = "TIME", group = "fault")]
    stall: Option<Duration>,
    /// When the stall begins, from the first request on
    #[arg(long, value_name = "TIME", default_value = "0s", requires = "stall")]
    stall_after: Duration,
    /// Respond to all requests with this status
    #[arg(long, value_name = "STATUS", group = "fault")]
    status: Option<u16>,
    /// Accept requests and never respond
    #[arg(long, group = "fault")]
    hang: bool,
    /// Reset the connection instead of responding, for this share of requests, such as `50%`
    #[arg(long, value_name = "SHARE", group = "fault")]
    reset: Option<Ratio>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// The Mandelbrot set as a PNG: 2 cores of 380 ms, 5.26 requests a second
    Mandelbrot,
    /// 50 kB of HTML after 300 ms
    Page,
    /// {"hello": "world"} after 100 ms
    Json,
    /// `--size` bytes at once
    Fixed,
    /// {"machine", "region", "work_time"} after 20 ms, one at a time
    Machine,
    /// A forwarding unit: /work, /work/REGION and /work/REGION/MACHINE go on to each --worker
    Unit,
}

impl Args {
    /// The worker that the command line means.
    pub(crate) fn config(&self) -> Config {
        let content = match self.content {
            Kind::Mandelbrot => Content::Mandelbrot,
            Kind::Page => Content::Page,
            Kind::Json => Content::Json,
            Kind::Fixed => Content::Fixed { size: self.size },
            Kind::Machine => Content::Machine,
            Kind::Unit => Content::Unit,
        };
        Config {
            listen: self.listen,
            content,
            pace: self.pace(content.usual_pace()),
            delay: self.delay,
            name: self.name.clone(),
            headers: self.headers.clone(),
            region: self.region.clone(),
            lenient_health: self.lenient_health,
            report_utilization: self.report_utilization,
            fault: self.fault(),
            sleep: self.sleep_after.map(|after| Sleep { after, wake: self.wake }),
            forwarding: Forwarding {
                machines: self.machines.clone(),
                limit: self.limit,
                seed: self.seed,
            },
        }
    }

    fn fault(&self) -> Option<Fault> {
        let stall = self.stall.map(|lasts| Fault::Stall { after: self.stall_after, lasts });
        let hang = self.hang.then_some(Fault::Hang);
        stall.or(hang).or(self.status.map(Fault::Status)).or(self.reset.map(Fault::Reset))
    }

    /// The usual pace of the content, changed by what was asked for.
    fn pace(&self, usual: Pace) -> Pace {
        let service = self.service_time.unwrap_or(usual.service());
        match self.cores.or(usual.cores()) {
            cores if self.burn => Pace::Burn { cores: cores.unwrap_or(BURNING), service },
            Some(cores) => Pace::Cores { cores, service },
            None => Pace::Wait(service),
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.config();
    if let Err(error) = config.check() {
        super::report_error(&error.into());
        return Ok(ExitCode::from(super::EXIT_USAGE));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(config))
}

async fn serve(config: Config) -> anyhow::Result<ExitCode> {
    let mut stop = StopSignal::new()?;
    let worker = Worker::bind(config)?;
    announce(worker.local_addr()).context("cannot say where the worker listens")?;
    worker.run(stop.received()).await?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn announce(address: SocketAddr) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "listening on {address}")?;
    output.flush()
}

pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').and_then(|port| port.parse().ok());
    match port {
        Some(port) => Ok((Ipv4Addr::UNSPECIFIED, port).into()),
        None => text.parse().map_err(|_| "write it like `127.0.0.1:9001` or `:9001`".to_owned()),
    }
}

/// Threads that burn where nobody says how many.
const BURNING: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);

const AFTER_HELP: &str = "\
Examples:
  loadline worker mandelbrot --listen :9001
  loadline worker mandelbrot --cores 2 --service-time 38ms --region us-central1 --delay 30ms
  loadline worker mandelbrot --burn --cores 4 --report-utilization
  loadline worker fixed --size 100B --cores 4 --service-time 20ms
  loadline worker fixed --stall 2s --stall-after 4s                what tools must notice
  loadline worker machine --listen :9010 --name asia/0 --region asia --sleep-after 15m
  loadline worker unit --listen :9002 --worker asia/0=127.0.0.1:9010
  curl -s http://127.0.0.1:9002/work/asia/0
  curl -s http://127.0.0.1:9001/ > mandelbrot.png

Paths: / (work), /health-check and /status.php (at once, past the queue), /stats (counts, JSON).
Exit codes: 0 ended by a signal, 1 wrong usage, 2 it could not listen.";
