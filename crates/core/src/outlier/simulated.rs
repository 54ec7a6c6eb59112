//! A dozen unlike services: who is ejected falsely, and when one that fails is. The figures are
//! in decision 9.

use alloc::{vec, vec::Vec};

use super::{Answers, Sample, Watch};
use crate::{
    ledger::ServerId,
    policy::draw::again,
    time::{Duration, Instant},
    units::Ratio,
};

/// How requests come.
#[derive(Clone, Copy, Debug)]
enum Arrivals {
    Even,
    Poisson,
    /// Twenty at once, bursts at random.
    Bursty,
}

/// Which requests fail that reach a server which is well.
#[derive(Clone, Copy, Debug)]
enum Errors {
    /// Each with this probability.
    Share(f64),
    /// All for so many seconds of every so many, on every server alike.
    Outages(f64, f64),
    /// So many in a row, this share of all.
    Runs(u64, f64),
    /// None on the first server, this share on the last.
    Unequal(f64),
}

#[derive(Clone, Copy, Debug)]
struct Case {
    servers: usize,
    rate: f64,
    arrivals: Arrivals,
    errors: Errors,
}

struct Simulation {
    case: Case,
    draws: u64,
    /// Seconds.
    now: f64,
    left_of_burst: u32,
    left_of_run: u64,
    answers: Vec<Answers>,
    watch: Watch,
}

impl Simulation {
    fn new(case: Case, seed: u64) -> Self {
        let answers = vec![Answers::default(); case.servers];
        let watch = Watch::default();
        Self { case, draws: seed, now: 1.0, left_of_burst: 0, left_of_run: 0, answers, watch }
    }

    fn fraction(&mut self) -> f64 {
        self.draws = self.draws.wrapping_add(1);
        (again(again(self.draws)) >> 11) as f64 / 9_007_199_254_740_992.0
    }

    /// Time until the next request, in requests.
    fn gap(&mut self) -> f64 {
        let random = -libm::log(1.0 - self.fraction());
        match self.case.arrivals {
            Arrivals::Even => 1.0,
            Arrivals::Poisson => random,
            Arrivals::Bursty if self.left_of_burst > 0 => {
                self.left_of_burst -= 1;
                0.0001
            }
            Arrivals::Bursty => {
                self.left_of_burst = 19;
                20.0 * random
            }
        }
    }

    fn is_error(&mut self, server: usize) -> bool {
        let draw = self.fraction();
        match self.case.errors {
            Errors::Share(share) => draw < share,
            Errors::Outages(lasting, every) => self.now % every < lasting,
            Errors::Unequal(most) => draw < most * server as f64 / (self.case.servers - 1) as f64,
            Errors::Runs(length, share) => {
                if self.left_of_run == 0 && draw < share / length as f64 {
                    self.left_of_run = length;
                }
                self.left_of_run = self.left_of_run.saturating_sub(1);
                self.left_of_run > 0
            }
        }
    }

    /// Serves one request; the first server fails this share of its own as well. Gives who served
    /// it, and who is ejected for what came before.
    fn step(&mut self, fails: f64) -> (usize, Option<usize>) {
        self.now += self.gap() / self.case.rate;
        let now = Instant::ZERO + Duration::from_secs(1).scale(self.now);
        let due = self.watch.due().filter(|due| *due <= now);
        let ejected = due.and_then(|due| self.look(due));
        let server = (self.fraction() * self.case.servers as f64) as usize;
        let fails = server == 0 && self.fraction() < fails;
        let error = self.is_error(server) || fails;
        self.answers[server].all += 1;
        if error {
            self.answers[server].errors += 1;
            self.watch.hear(now);
        }
        (server, ejected)
    }

    fn look(&mut self, due: Instant) -> Option<usize> {
        let servers = (0..).zip(&self.answers);
        let samples: Vec<Sample> = servers
            .map(|(n, answers)| Sample { server: ServerId(n), answers: *answers, on_trial: false })
            .collect();
        let outlier = self.watch.outlier(&samples, Ratio::percent(25));
        outlier.iter().for_each(|(server, _)| self.watch.forget(*server));
        self.watch.mark(due, &samples);
        outlier.map(|(server, _)| server.index())
    }
}

/// Ejections among so many requests of a service of which all servers are as they ever were.
fn false_ejections(case: Case, requests: usize) -> usize {
    let mut simulation = Simulation::new(case, 42);
    (0..requests).filter(|_| simulation.step(0.0).1.is_some()).count()
}

/// Answers that the first server gives from when it begins to fail everything until it is out, in
/// the middle and in the worst of eleven runs.
fn answers_to_ejection(case: Case) -> (usize, usize) {
    let mut counts: Vec<usize> = (0..11)
        .map(|seed| {
            let mut simulation = Simulation::new(case, seed << 32);
            for _ in 0..case.servers * 200 {
                simulation.step(0.0);
            }
            let mut given = 0;
            for _ in 0..case.servers * 2_000 {
                let (server, ejected) = simulation.step(1.0);
                if ejected == Some(0) {
                    return given;
                }
                given += usize::from(server == 0);
            }
            usize::MAX
        })
        .collect();
    counts.sort_unstable();
    (counts[counts.len() / 2], counts[counts.len() - 1])
}

/// Each with the answers after which a server that fails everything is out at the latest: fifty
/// are its share of a second at 200/s on four servers.
const CASES: [(Case, usize); 12] = {
    use Arrivals::{Bursty, Even, Poisson};
    use Errors::{Outages, Runs, Share, Unequal};
    const fn case(servers: usize, rate: f64, arrivals: Arrivals, errors: Errors) -> Case {
        Case { servers, rate, arrivals, errors }
    }
    [
        (case(2, 0.5, Poisson, Share(0.05)), 50),
        (case(100, 0.5, Poisson, Share(0.01)), 50),
        (case(3, 5.0, Even, Share(0.0)), 50),
        (case(4, 200.0, Even, Share(0.0)), 50),
        (case(4, 200.0, Poisson, Share(0.3)), 100),
        (case(10, 50.0, Bursty, Share(0.1)), 50),
        (case(6, 20.0, Poisson, Outages(5.0, 60.0)), 100),
        (case(2, 1.0, Poisson, Outages(20.0, 300.0)), 100),
        (case(5, 100.0, Poisson, Runs(10, 0.05)), 50),
        (case(20, 1_000.0, Poisson, Share(0.02)), 50),
        (case(100, 10_000.0, Poisson, Share(0.2)), 50),
        (case(8, 2_000.0, Poisson, Unequal(0.2)), 60),
    ]
};

#[test]
fn no_service_is_so_unlike_that_a_server_which_is_well_is_ejected() {
    for (case, _) in CASES {
        assert_eq!(false_ejections(case, 100_000), 0, "{case:?}");
    }
}

#[test]
fn a_server_that_fails_everything_is_out_within_a_second_at_200_per_second_on_four() {
    for (case, most) in CASES {
        let (median, worst) = answers_to_ejection(case);
        assert!(worst <= most, "{case:?}: {median}, {worst} at worst");
    }
}
