//! Services that are not in overload, with nothing configured: does loadline leave them alone?
//!
//! Each gets the same requests at the same moments twice at once, directly and through loadline,
//! to a server each that does the same work. What counts is that none is refused and that
//! response times and answers are those of the same load sent directly.

mod station;

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;

pub(crate) use station::{Args, serve};
use station::{Weather, Work};

use crate::open_loop::{Load, PlannedRequest, Response};
use crate::peers::{Kind, Workshop};
use crate::process::{Process, free_ports};
use crate::run::{Effort, LOAD_CORE, PROXY_CORE, Section};
use crate::stats::{Summary, quantile};
use crate::verdict::{Target, Verdict, late_client};

pub(crate) const NAME: &str = "overload, none";

/// A service and its load.
pub(crate) struct Service {
    name: &'static str,
    pub(crate) cores: usize,
    pub(crate) work: Work,
    pub(crate) weather: Weather,
    arrivals: Arrivals,
}

#[derive(Clone, Copy)]
enum Arrivals {
    /// At random, at this part of what the cores can do.
    Load(f64),
    /// So many a second, evenly.
    Even(f64),
    /// At random at this part, and every so many seconds so many at once.
    Batches(f64, usize, f64),
}

const STILL: Weather = Weather { pause: None, speeds: &[], warm_up: 0.0 };

/// Four of them refused 5 to 21 % through the limit that loadline had found before.
pub(crate) fn services() -> Vec<Service> {
    use Arrivals::{Batches, Even, Load};
    use Work::{Constant, Exponential, Lognormal, LongPolls, Pareto, Two};
    let service =
        |name, cores, work, arrivals| Service { name, cores, work, weather: STILL, arrivals };
    let under = |weather, service| Service { weather, ..service };
    let pause = Weather { pause: Some((0.4, 7.0)), ..STILL };
    let warm_up = Weather { warm_up: 8.0, ..STILL };
    let faster = Weather { speeds: &[(10.0, 2.0), (20.0, 1.0)], ..STILL };
    let slower = Weather { speeds: &[(10.0, 0.5), (20.0, 1.0)], ..STILL };
    vec![
        service("24 cores, 120 ms uneven", 24, Lognormal(0.12, 0.5), Load(0.6)),
        under(pause, service("a pause of 0.4 s every 7 s", 6, Constant(0.06), Load(0.5))),
        service("5 cores, 45 ms, evenly", 5, Constant(0.045), Even(90.0)),
        service("5 cores, 45 ms very uneven", 5, Lognormal(0.045, 0.8), Load(0.63)),
        service("slow by nature", 50, Lognormal(2.0, 0.3), Load(0.8)),
        service("two kinds, 10 ms and 1 s", 8, Two(0.01, 1.0, 0.01), Load(0.6)),
        service("Pareto", 8, Pareto(0.05, 1.8), Load(0.6)),
        under(warm_up, service("cold start", 8, Exponential(0.04), Load(0.3))),
        service("long polls beside short ones", 8, LongPolls(0.04, 0.2, 8.0), Load(0.5)),
        service("a batch of 60 every 5 s", 8, Constant(0.05), Batches(0.3, 60, 5.0)),
        under(faster, service("twice as fast for a while", 8, Exponential(0.05), Load(0.8))),
        under(slower, service("half as fast for a while", 8, Exponential(0.05), Load(0.4))),
        service("1 core", 1, Exponential(0.05), Load(0.85)),
        service("200 cores", 200, Exponential(0.4), Load(0.85)),
    ]
}

impl Service {
    fn plan(&self, seconds: f64) -> Vec<Duration> {
        let capacity = self.cores as f64 / self.work.mean();
        let (mut times, batch) = match self.arrivals {
            Arrivals::Even(rate) => {
                ((1..=(rate * seconds) as u32).map(|n| f64::from(n) / rate).collect(), None)
            }
            Arrivals::Load(load) => (poisson(load * capacity, seconds), None),
            Arrivals::Batches(load, size, every) => {
                (poisson(load * capacity, seconds), Some((size, every)))
            }
        };
        if let Some((size, every)) = batch {
            let batches = (0..).map(|n| (f64::from(n) + 0.5) * every);
            let at_once = batches.take_while(|at| *at < seconds);
            times.extend(at_once.flat_map(|at| std::iter::repeat_n(at, size)));
            times.sort_by(f64::total_cmp);
        }
        times.into_iter().map(Duration::from_secs_f64).collect()
    }
}

fn poisson(rate: f64, seconds: f64) -> Vec<f64> {
    let mut random = StdRng::seed_from_u64(2);
    let mut at = 0.0;
    let times = std::iter::from_fn(|| {
        at -= (1.0 - random.random::<f64>()).ln() / rate;
        (at < seconds).then_some(at)
    });
    times.collect()
}

/// Tries every service, several at a time: they wait far more than they work.
pub(crate) fn measure(workshop: &Workshop, effort: Effort) -> Result<Section> {
    let mut section = Section::new(NAME);
    let seconds = if effort.rounds > 3 { 30.0 } else { 10.0 };
    println!("\nnone in overload: {seconds} s each, directly and through loadline\n{COLUMNS}");
    let services = services();
    let numbered: Vec<(usize, &Service)> = services.iter().enumerate().collect();
    for some in numbered.chunks(AT_A_TIME) {
        let ports = start(some, workshop)?;
        let outcomes: Result<Vec<Both>> = thread::scope(|scope| {
            let run = |(n, ports): (usize, &(Ports, Vec<Process>))| {
                let (service, ports) = (some[n].1, ports.0);
                scope.spawn(move || Both::of(service, ports, seconds))
            };
            let running: Vec<_> = ports.iter().enumerate().map(run).collect();
            let ended = running.into_iter().map(|it| it.join().ok().context("a load panicked")?);
            ended.collect()
        });
        for ((_, service), both) in some.iter().zip(&outcomes?) {
            println!("{}", both.line(service));
            both.judge(service).into_iter().for_each(|verdict| section.judge(verdict));
            section.record(service.name, vec![both.to_json()]);
        }
    }
    Ok(section)
}

/// Where a service is reached directly and through loadline.
#[derive(Clone, Copy)]
struct Ports {
    direct: u16,
    through: u16,
}

/// Starts two servers of each service and a loadline before the second.
fn start(
    services: &[(usize, &Service)],
    workshop: &Workshop,
) -> Result<Vec<(Ports, Vec<Process>)>> {
    let this = std::env::current_exe().context("find this program")?.display().to_string();
    let started = services.iter().map(|(number, _)| {
        let [direct, behind, through]: [u16; 3] = free_ports()?;
        let mut processes = Vec::new();
        for port in [direct, behind] {
            let command =
                [&this, "station", &port.to_string(), &number.to_string()].map(str::to_owned);
            let log = workshop.directory.join(format!("station-{port}.log"));
            let mut station = Process::start(LOAD_CORE, &command, &log)?;
            station.wait_for(port)?;
            processes.push(station);
        }
        let config = format!(
            "[edge]\nthreads = 1\n[[listener]]\nbind = \"127.0.0.1:{through}\"\nservice = \"web\"\n\
             [[service.web.group]]\nservers = [\"127.0.0.1:{behind}\"]\n"
        );
        let proxy = workshop.start(Kind::Loadline, through, &config, PROXY_CORE)?;
        processes.push(proxy.process);
        Ok((Ports { direct, through }, processes))
    });
    started.collect()
}

/// What came of a load, directly and through loadline.
struct Both {
    direct: Vec<Response>,
    through: Vec<Response>,
}

impl Both {
    fn of(service: &Service, ports: Ports, seconds: f64) -> Result<Self> {
        let plan = service.plan(seconds);
        let asks: Vec<PlannedRequest> = plan.iter().copied().map(PlannedRequest::get).collect();
        let start = std::time::Instant::now() + Duration::from_millis(100);
        let load = |port| Load { port, start, asks: &asks, patience: PATIENCE };
        thread::scope(|scope| {
            let direct = scope.spawn(|| load(ports.direct).run());
            let through = load(ports.through).run()?;
            let direct = direct.join().ok().context("a load panicked")??;
            Ok(Self { direct, through })
        })
    }

    fn ratio(&self, share: f64) -> f64 {
        let of = |answers: &[Response]| {
            let good = answers.iter().filter(|answer| answer.result.is_ok());
            quantile(good.map(Response::millis), share)
        };
        of(&self.through) / of(&self.direct)
    }

    fn failed(&self) -> usize {
        self.through.iter().filter(|answer| answer.result.is_err()).count()
    }

    fn judge(&self, service: &Service) -> [Verdict; 3] {
        let name = |what: &str| format!("{NAME}: {}, {what}", service.name);
        let all = self.direct.iter().chain(&self.through);
        let lag = quantile(all.map(|answer| answer.lag.as_secs_f64() * 1e3), 0.99);
        let flaw = || late_client(lag, LAG_MOST);
        [
            Verdict::new(name("refused"), self.failed() as f64, Target::AtMost(0.0)).flaw(flaw()),
            Verdict::new(name("median to direct"), self.ratio(0.5), Target::AtMost(RATIO_MOST)),
            Verdict::new(name("p99 to direct"), self.ratio(0.99), Target::AtMost(RATIO_MOST)),
        ]
    }

    fn line(&self, service: &Service) -> String {
        let millis =
            |answers: &[Response], share| quantile(answers.iter().map(Response::millis), share);
        let lag = Summary::of(self.through.iter().map(|it| it.lag.as_secs_f64() * 1e3)).max;
        format!(
            "{:32}{:>9}{:>9}{:>10.1}{:>10.1}{:>9.3}{:>9.3}{:>8.1}",
            service.name,
            self.through.len(),
            self.failed(),
            millis(&self.direct, 0.5),
            millis(&self.direct, 0.99),
            self.ratio(0.5),
            self.ratio(0.99),
            lag,
        )
    }

    fn to_json(&self) -> serde_json::Value {
        json!({
            "requests": self.through.len(),
            "refused": self.failed(),
            "median_to_direct": self.ratio(0.5),
            "p99_to_direct": self.ratio(0.99),
        })
    }
}

const COLUMNS: &str = "                                 requests  refused direct p50       p99  \
                       p50 to   p99 to  lag ms";

/// Services at a time.
const AT_A_TIME: usize = 5;

/// No service has answers that take so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a response time through loadline may be of the same sent directly.
const RATIO_MOST: f64 = 1.03;

/// Of the client, in milliseconds, 99 times of 100.
const LAG_MOST: f64 = 5.0;
