//! The server of a service: virtual cores with one queue, what they work on, and what goes wrong.
//!
//! The n-th request that comes has the n-th draw of work, so that two servers of one service do
//! the same for the same requests.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

use super::services;

/// Serve as one of the services that are not in overload
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Port of loopback
    port: u16,
    /// Its number in the list
    service: usize,
}

/// How long a request takes on a core that is free, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Constant(f64),
    Exponential(f64),
    /// Mean, and standard deviation over mean.
    Lognormal(f64, f64),
    /// Mean and shape.
    Pareto(f64, f64),
    /// Short ones and long ones, and how many are long.
    Two(f64, f64, f64),
    /// Exponential ones of this mean; this share of all waits about so long without a core.
    LongPolls(f64, f64, f64),
}

/// What makes a server slower or faster than its cores.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// It stands still for so many seconds at the end of every so many.
    pub(crate) pause: Option<(f64, f64)>,
    /// From these seconds on it is so many times as fast.
    pub(crate) speeds: &'static [(f64, f64)],
    /// In its first seconds it becomes as fast as it is, from a third of that.
    pub(crate) warm_up: f64,
}

/// Serves until the process is ended.
pub(crate) fn serve(args: &Args) -> Result<()> {
    let service = services().swap_remove(args.service);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await;
        let listener = listener.with_context(|| format!("listen on port {}", args.port))?;
        let station =
            Rc::new(RefCell::new(Station::new(service.cores, service.work, service.weather)));
        loop {
            let (stream, _) = listener.accept().await.context("accept")?;
            tokio::task::spawn_local(converse(stream, Rc::clone(&station)));
        }
    })
}

/// Answers one request after another; any failure is the end of the connection.
async fn converse(mut stream: TcpStream, station: Rc<RefCell<Station>>) {
    let _ = stream.set_nodelay(true);
    let mut received = Vec::with_capacity(1024);
    while let Ok(1..) = stream.read_buf(&mut received).await {
        if !received.ends_with(b"\r\n\r\n") {
            continue;
        }
        received.clear();
        let until = station.borrow_mut().serve(Instant::now());
        tokio::time::sleep_until(until.into()).await;
        if stream.write_all(ANSWER).await.is_err() {
            return;
        }
    }
}

struct Station {
    free: Vec<f64>,
    work: Work,
    weather: Weather,
    random: StdRng,
    /// When the first request came.
    start: Option<Instant>,
}

impl Station {
    fn new(cores: usize, work: Work, weather: Weather) -> Self {
        Self {
            free: vec![0.0; cores],
            work,
            weather,
            random: StdRng::seed_from_u64(1),
            start: None,
        }
    }

    fn serve(&mut self, now: Instant) -> Instant {
        let start = *self.start.get_or_insert(now);
        let (work, needs_core) = self.work.draw(&mut self.random);
        if !needs_core {
            return now + Duration::from_secs_f64(work);
        }
        let now = (now - start).as_secs_f64();
        let least = |a: &&mut f64, b: &&mut f64| a.total_cmp(b);
        if let Some(core) = self.free.iter_mut().min_by(least) {
            *core = self.weather.end(core.max(now), work);
            return start + Duration::from_secs_f64(*core);
        }
        start
    }
}

impl Work {
    /// Its mean on a core.
    pub(crate) fn mean(self) -> f64 {
        match self {
            Self::Constant(mean)
            | Self::Exponential(mean)
            | Self::Lognormal(mean, _)
            | Self::Pareto(mean, _)
            | Self::LongPolls(mean, ..) => mean,
            Self::Two(short, long, share) => short * (1.0 - share) + long * share,
        }
    }

    /// Seconds, and whether it needs a core.
    fn draw(self, random: &mut StdRng) -> (f64, bool) {
        let mut uniform = || 1.0 - random.random::<f64>();
        let seconds = match self {
            Self::Constant(mean) => mean,
            Self::Exponential(mean) => -mean * uniform().ln(),
            Self::Lognormal(mean, variation) => {
                let variance = (1.0 + variation * variation).ln();
                let angle = std::f64::consts::TAU * uniform();
                let normal = (-2.0 * uniform().ln()).sqrt() * angle.cos();
                mean * (variance.sqrt() * normal - variance / 2.0).exp()
            }
            Self::Pareto(mean, shape) => mean * (shape - 1.0) / shape / uniform().powf(1.0 / shape),
            Self::Two(short, long, share) => {
                if uniform() > share {
                    short
                } else {
                    long
                }
            }
            Self::LongPolls(_, share, mean) if uniform() <= share => {
                return (mean * (0.5 + uniform()), false);
            }
            Self::LongPolls(mean, ..) => -mean * uniform().ln(),
        };
        (seconds, true)
    }
}

impl Weather {
    fn end(&self, begin: f64, work: f64) -> f64 {
        let Some((long, every)) = self.pause else { return begin + work / self.speed(begin) };
        let into = begin % every;
        let begin = if into >= every - long { begin - into + every } else { begin };
        let end = begin + work / self.speed(begin);
        let pauses = ((end + long) / every).floor() - ((begin + long) / every).floor();
        end + pauses * long
    }

    fn speed(&self, at: f64) -> f64 {
        let latest = self.speeds.iter().rev().find(|(from, _)| at >= *from);
        let warm = if at < self.warm_up { (1.0 + 2.0 * at / self.warm_up) / 3.0 } else { 1.0 };
        latest.map_or(1.0, |(_, speed)| *speed) * warm
    }
}

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
