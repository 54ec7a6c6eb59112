//! M/M/c, M/D/1, M/G/1 and processor sharing: means and percentiles of the time that a request is
//! in the system, from textbooks (Kleinrock, "Queueing Systems", volume 1, 1975; Gross and Harris,
//! "Fundamentals of Queueing Theory", 1998), against ten independent runs each.

use std::f64::consts::PI;

use loadline_core::{time::Duration, units::Rate};
use loadline_measure::statistics::student_quantile;
use loadline_sim::{
    ServiceTime, Simulation,
    scenario::{Discipline, ServerModel},
};

use crate::fleets::one_server;

/// What is known of a queue.
struct Theory {
    name: String,
    model: ServerModel,
    rate: Rate,
    /// Milliseconds: the mean, and where it is known the time that half of the requests and that 99
    /// of 100 do not exceed.
    mean: f64,
    quantiles: Option<[f64; 2]>,
}

#[test]
fn queues_agree_with_theory() {
    let theories = theories();
    assert!(theories.len() >= 20);
    let judged: Vec<Judged> = theories.iter().flat_map(judge).collect();
    let missed: Vec<&Judged> = judged.iter().filter(|it| it.error > it.within(0.99)).collect();
    // One of a hundred misses by chance. More than four of 56 has a probability below 0.001.
    assert!(missed.len() <= 4, "{missed:#?}");
    let wrong: Vec<&Judged> = judged.iter().filter(|it| it.error > it.within(0.99999)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// M/M/c/K: with no room to wait Erlang's loss formula (1917). Sharing cores changes neither which
/// share is lost nor the mean.
#[test]
fn a_server_with_a_short_queue_refuses_as_many_requests_as_theory_says() {
    let of_each = [Discipline::FirstCome, Discipline::ProcessorSharing];
    for (cores, queue, rate) in [(5, 0, 400), (1, 0, 80), (1, 3, 100), (2, 1, 300)] {
        let (lost, mean) = limited(cores, queue, rate as f64 * 0.01);
        for discipline in of_each {
            let time = ServiceTime::Exponential { mean: TEN_MS };
            let model = ServerModel { queue: Some(queue), discipline, ..model(time, cores) };
            let scenario = one_server(model, Rate::per_sec(rate), 5 * REQUESTS, 1);
            let record = Simulation::new(scenario).run();
            let found = record.outcomes.server_error as f64 / record.planned as f64;
            let found_mean = record.response.mean.as_millis_f64();
            let what = format!("{discipline:?}, {cores} cores, a queue of {queue}, {rate}/s");
            assert!((found - lost).abs() < 0.01, "{what}: {found} lost, expected {lost}");
            assert!((found_mean / mean - 1.0).abs() < 0.03, "{what}: {found_mean} ms, not {mean}");
        }
    }
}

/// Of so many cores and places to wait: which share is lost, and for how many milliseconds the
/// others are there.
fn limited(cores: u32, queue: u32, offered: f64) -> (f64, f64) {
    let mut weights = vec![1.0];
    for n in 1..=cores + queue {
        weights.push(weights[n as usize - 1] * offered / f64::from(n.min(cores)));
    }
    let sum: f64 = weights.iter().sum();
    let lost = weights[weights.len() - 1] / sum;
    let there: f64 = weights.iter().enumerate().map(|(n, weight)| n as f64 * weight / sum).sum();
    (lost, 10.0 * there / (offered * (1.0 - lost)))
}

/// A figure beside what it should be.
#[derive(Debug)]
#[expect(dead_code, reason = "printed where it is wrong")]
struct Judged {
    what: String,
    expected: f64,
    found: f64,
    /// How far it is off.
    error: f64,
    /// The standard error of the runs.
    standard_error: f64,
}

impl Judged {
    fn within(&self, confidence: f64) -> f64 {
        let quantile = student_quantile((1.0 + confidence) / 2.0, RUNS as f64 - 1.0);
        quantile * self.standard_error + self.expected * RESOLUTION
    }
}

fn judge(theory: &Theory) -> Vec<Judged> {
    let latencies: Vec<_> = (0..RUNS)
        .map(|run| {
            let scenario = one_server(theory.model.clone(), theory.rate, REQUESTS, run + 1);
            Simulation::new(scenario).run().response
        })
        .collect();
    let of = |what: &str, expected: f64, figure: fn(&_) -> Duration| {
        let values: Vec<f64> = latencies.iter().map(|it| figure(it).as_millis_f64()).collect();
        let mean = values.iter().sum::<f64>() / RUNS as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Judged {
            what: format!("{} {what}", theory.name),
            expected,
            found: mean,
            error: (mean - expected).abs(),
            standard_error: (squares / (RUNS * (RUNS - 1)) as f64).sqrt(),
        }
    };
    let mut judged = vec![of("mean", theory.mean, |it| it.mean)];
    if let Some([half, most]) = theory.quantiles {
        judged.push(of("p50", half, |it| it.p50));
        judged.push(of("p99", most, |it| it.p99));
    }
    judged
}

fn theories() -> Vec<Theory> {
    let mut all = Vec::new();
    for (cores, load) in [(1, 0.3), (1, 0.7), (1, 0.9), (2, 0.8), (4, 0.5), (4, 0.85), (16, 0.8)] {
        all.push(many_cores(cores, load));
    }
    for load in [0.3, 0.6, 0.8, 0.9] {
        all.push(constant(load));
    }
    for (long, share, load) in [(5.0, 0.2, 0.5), (10.0, 0.1, 0.7), (50.0, 0.02, 0.6)] {
        all.push(two_kinds(long, share, load));
    }
    for (variation, load) in [(0.5, 0.8), (1.5, 0.6)] {
        all.push(lognormal(variation, load));
    }
    for (time, load) in [
        (ServiceTime::Constant(TEN_MS), 0.7),
        (ServiceTime::Exponential { mean: TEN_MS }, 0.5),
        (ServiceTime::Exponential { mean: TEN_MS }, 0.8),
        (ServiceTime::Lognormal { mean: TEN_MS, variation: 1.5 }, 0.7),
    ] {
        all.push(sharing(time, load));
    }
    all
}

/// M/M/c: the time in the system has the tail of Gross and Harris, (2.33).
fn many_cores(cores: u32, load: f64) -> Theory {
    let (mu, c) = (0.1, f64::from(cores));
    let lambda = load * c * mu;
    let waits = erlang_c(cores, lambda / mu);
    let spare = c * mu - lambda;
    let tail = |t: f64| {
        let other = c - 1.0 - lambda / mu;
        let own = (-mu * t).exp();
        if other.abs() < 1e-9 {
            own * (1.0 + waits * mu * t)
        } else {
            own * (1.0 + waits * (1.0 - (-mu * other * t).exp()) / other)
        }
    };
    Theory {
        name: format!("M/M/{cores} at {load}"),
        model: model(ServiceTime::Exponential { mean: TEN_MS }, cores),
        rate: per_ms(lambda),
        mean: 1.0 / mu + waits / spare,
        quantiles: Some([0.5, 0.01].map(|left| where_tail_is(left, 100_000.0, tail))),
    }
}

/// The probability that a request waits (Erlang C).
fn erlang_c(cores: u32, offered: f64) -> f64 {
    let mut blocked = 1.0;
    for n in 1..=cores {
        blocked = offered * blocked / (f64::from(n) + offered * blocked);
    }
    let load = offered / f64::from(cores);
    blocked / (1.0 - load * (1.0 - blocked))
}

/// M/D/1: the waiting time has Erlang's distribution (1909).
fn constant(load: f64) -> Theory {
    let time = 10.0;
    let lambda = load / time;
    // Terms of both signs, which floats do not tell apart beyond 300 ms.
    let waits_longer = |t: f64| {
        if t < 0.0 {
            return 1.0;
        }
        let mut sum = 0.0;
        for k in 0..=(t / time) as u32 {
            let x = lambda * (f64::from(k) * time - t);
            let term = (1..=k).fold((-x).exp(), |term, n| term * x / f64::from(n));
            sum += term;
        }
        1.0 - (1.0 - load) * sum
    };
    Theory {
        name: format!("M/D/1 at {load}"),
        model: model(ServiceTime::Constant(TEN_MS), 1),
        rate: per_ms(lambda),
        mean: time + load * time / (2.0 * (1.0 - load)),
        quantiles: Some(
            [0.5, 0.01].map(|left| where_tail_is(left, 300.0, |t| waits_longer(t - time))),
        ),
    }
}

/// M/H2/1: Pollaczek and Khinchine; the waiting time is a mixture of two exponentials whose rates
/// are the roots of the denominator of its transform.
fn two_kinds(long: f64, share: f64, load: f64) -> Theory {
    let short = (10.0 - share * long * 10.0 / (1.0 - share + share * long)) / (1.0 - share);
    let long = long * short;
    let mean = (1.0 - share) * short + share * long;
    let lambda = load / mean;
    let (a, b) = (1.0 / short, 1.0 / long);
    // s^2 + (a + b - lambda) s + a b (1 - load) = 0
    let half = (a + b - lambda) / 2.0;
    let root = (half * half - a * b * (1.0 - load)).sqrt();
    let (r1, r2) = (half - root, half + root);
    // W(s) = (1 - load) (s + a)(s + b) / ((s + r1)(s + r2)); times B(s), in partial fractions.
    let w = |s: f64| (1.0 - load) * (s + a) * (s + b);
    let service = |s: f64| (1.0 - share) * a / (a + s) + share * b / (b + s);
    let c1 = w(-r1) / (r2 - r1) * service(-r1) / r1;
    let c2 = w(-r2) / (r1 - r2) * service(-r2) / r2;
    // The poles of B cancel against the zeros of W.
    let tail = |t: f64| c1 * (-r1 * t).exp() + c2 * (-r2 * t).exp();
    let second = 2.0 * ((1.0 - share) * short * short + share * long * long);
    let time = ServiceTime::TwoKinds { short: ms(short), long: ms(long), long_share: share };
    Theory {
        name: format!("M/H2/1, {share} of {long:.0} ms, at {load}"),
        model: model(time, 1),
        rate: per_ms(lambda),
        mean: mean + lambda * second / (2.0 * (1.0 - load)),
        quantiles: Some([0.5, 0.01].map(|left| where_tail_is(left, 100_000.0, tail))),
    }
}

/// M/G/1 with lognormal times: Pollaczek and Khinchine have the mean. The waiting time is a sum of
/// remaining service times, as many as a geometric distribution says, so its tail `w` solves a
/// renewal equation, here by trapezoids: `w = load * (R + r * w)`, with `r` and `R` the density and
/// the tail of what remains of a service time.
fn lognormal(variation: f64, load: f64) -> Theory {
    let lambda = load / 10.0;
    let second = 100.0 * (1.0 + variation * variation);
    let density = |t: f64| lognormal_density(variation, t);
    let longer = integral_to_end(&(0..POINTS).map(|n| density(at(n))).collect::<Vec<_>>());
    let remains: Vec<f64> = longer.iter().map(|longer| longer / 10.0).collect();
    let remains_longer = integral_to_end(&remains);
    let mut waits = vec![load];
    for n in 1..POINTS {
        let known: f64 = (1..n).map(|k| remains[k] * waits[n - k]).sum();
        let ends = remains[n] * waits[0] / 2.0;
        let right = load * (remains_longer[n] + STEP * (known + ends));
        waits.push(right / (1.0 - load * STEP * remains[0] / 2.0));
    }
    let at_point = |n: usize| {
        let of_both: f64 = (1..=n).map(|k| density(at(k)) * waits[n - k]).sum();
        longer[n] + STEP * (of_both - density(at(n)) * waits[0] / 2.0)
    };
    let tail = |t: f64| {
        let n = ((t / STEP) as usize).min(POINTS - 2);
        let (before, after) = (at_point(n), at_point(n + 1));
        before + (after - before) * (t / STEP - n as f64)
    };
    Theory {
        name: format!("M/G/1, lognormal of {variation}, at {load}"),
        model: model(ServiceTime::Lognormal { mean: TEN_MS, variation }, 1),
        rate: per_ms(lambda),
        mean: 10.0 + lambda * second / (2.0 * (1.0 - load)),
        quantiles: Some([0.5, 0.01].map(|left| where_tail_is(left, at(POINTS - 1), tail))),
    }
}

/// Of a mean of 10 ms.
fn lognormal_density(variation: f64, t: f64) -> f64 {
    if t <= 0.0 {
        return 0.0;
    }
    let variance = (variation * variation).ln_1p();
    let off = t.ln() - (10f64.ln() - variance / 2.0);
    (-off * off / (2.0 * variance)).exp() / (t * (2.0 * PI * variance).sqrt())
}

/// By trapezoids, what is left of 1 from each point on.
fn integral_to_end(density: &[f64]) -> Vec<f64> {
    let mut left = vec![1.0];
    for pair in density.windows(2) {
        left.push(left[left.len() - 1] - STEP * f64::midpoint(pair[0], pair[1]));
    }
    left
}

fn at(point: usize) -> f64 {
    point as f64 * STEP
}

/// M/G/1 with processor sharing: the mean depends on the mean alone. How long one of exponential
/// times is there is when a chain ends that begins with as many others as it finds, and that is
/// followed from arrival or departure to the next (uniformization).
fn sharing(time: ServiceTime, load: f64) -> Theory {
    let name = format!("M/G/1-PS of {time:?} at {load}");
    let discipline = Discipline::ProcessorSharing;
    let is_exponential = matches!(time, ServiceTime::Exponential { .. });
    let quantiles = is_exponential.then(|| {
        let there = there_after_events(load);
        let tail = |t: f64| {
            let events = 0.1 * (1.0 + load) * t;
            let mut probability = (-events).exp();
            let mut sum = 0.0;
            for (n, there) in there.iter().enumerate() {
                sum += probability * there;
                probability *= events / (n + 1) as f64;
            }
            sum
        };
        [0.5, 0.01].map(|left| where_tail_is(left, 1_000.0, tail))
    });
    Theory {
        name,
        model: ServerModel { discipline, ..model(time, 1) },
        rate: per_ms(load / 10.0),
        mean: 10.0 / (1.0 - load),
        quantiles,
    }
}

/// The probability that a request of an M/M/1-PS queue is still there after each number of events.
fn there_after_events(load: f64) -> Vec<f64> {
    let (arrives, departs) = (load / (1.0 + load), 1.0 / (1.0 + load));
    let mut others: Vec<f64> = (0..400).map(|n| (1.0 - load) * load.powi(n)).collect();
    let mut there = Vec::new();
    for _ in 0..600 {
        there.push(others.iter().sum());
        let mut next = vec![0.0; others.len()];
        for (n, probability) in others.iter().enumerate() {
            if let Some(more) = next.get_mut(n + 1) {
                *more += probability * arrives;
            }
            if let Some(fewer) = n.checked_sub(1) {
                next[fewer] += probability * departs * n as f64 / (n + 1) as f64;
            }
        }
        others = next;
    }
    there
}

fn model(time: ServiceTime, cores: u32) -> ServerModel {
    ServerModel { time, cores, ..ServerModel::default() }
}

/// The time that only this share exceeds.
fn where_tail_is(left: f64, longest: f64, tail: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, longest);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if tail(middle) > left { low = middle } else { high = middle }
    }
    low
}

fn ms(millis: f64) -> Duration {
    Duration::from_nanos((millis * 1e6) as u64)
}

fn per_ms(rate: f64) -> Rate {
    Rate::milli_per_sec((rate * 1e6).round() as u64)
}

const TEN_MS: Duration = Duration::from_millis(10);

const RUNS: u64 = 10;

/// Of each run, a tenth of which comes before it is counted.
const REQUESTS: u64 = 20_000;

/// Milliseconds between points at which a distribution is known.
const STEP: f64 = 0.05;

const POINTS: usize = 8_000;

/// What the histogram of a run cannot tell apart.
const RESOLUTION: f64 = 0.001;
