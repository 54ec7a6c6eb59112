//! A service whose only server is dead, asked 10,000 times a second: what it costs must not grow.
//!
//! The rest of the configuration is there too, so that an input to the controller is as expensive
//! as it can be. The first seconds, in which buffers and pools are filled, do not count.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::json;

use super::edge::Edge;
use super::{Endpoints, LARGE_GROUPS, client};
use crate::peers::Workshop;
use crate::run::{Effort, Section};
use crate::verdict::{Target, Verdict};

/// Everything at one instant of the load.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    /// Bytes.
    memory: f64,
    /// Seconds of CPU time: all threads, and the controller's.
    spent: f64,
    controller: f64,
}

/// The load from the first reading to the fourth, and the while after it, to the fifth.
struct Run {
    readings: [Reading; 5],
    rate: f64,
}

/// Measures it and judges it.
pub(crate) fn measure(workshop: &Workshop, effort: Effort, section: &mut Section) -> Result<()> {
    let part = if effort.rounds > 3 { Duration::from_secs(6) } else { Duration::from_secs(3) };
    let stage = Endpoints::new()?;
    let (edge, _) = stage.start(LARGE_GROUPS, false, workshop)?;
    let run = load(&edge, stage.port, part)?;
    println!("{run}");
    run.judge().into_iter().for_each(|verdict| section.judge(verdict));
    let readings = run.readings.map(|it| {
        let at = it.at.duration_since(run.readings[0].at).as_secs_f64();
        json!({ "at_s": at, "memory": it.memory, "cpu_s": it.spent, "controller_s": it.controller })
    });
    section.record("failures", vec![json!({ "per_second": run.rate, "readings": readings })]);
    Ok(())
}

fn load(edge: &Edge, port: u16, part: Duration) -> Result<Run> {
    thread::scope(|scope| {
        let client = scope.spawn(|| client::pace(port, "dead.example.com", WARM_UP + part * 3));
        thread::sleep(WARM_UP);
        let mut readings = [read(edge)?; 5];
        for reading in &mut readings[1..4] {
            thread::sleep(part);
            *reading = read(edge)?;
        }
        let paced = client.join().ok().context("the client panicked")??;
        thread::sleep(AFTERWARDS);
        readings[4] = read(edge)?;
        Ok(Run { readings, rate: paced.rate() })
    })
}

fn read(edge: &Edge) -> Result<Reading> {
    let (memory, spent, controller) = (edge.memory()?, edge.spent()?, edge.controller());
    Ok(Reading { at: Instant::now(), memory, spent, controller })
}

impl Run {
    /// Microseconds of CPU time for each failure, in the part of the load that begins there.
    fn each(&self, part: usize, of: fn(&Reading) -> f64) -> f64 {
        let [from, to] = [self.readings[part], self.readings[part + 1]];
        let failures = self.rate * to.at.duration_since(from.at).as_secs_f64();
        1e6 * (of(&to) - of(&from)) / failures
    }

    fn growth(&self) -> f64 {
        self.readings[3].memory - self.readings[0].memory
    }

    /// Milliseconds of CPU time of the controller when nobody asks any more.
    fn left_over(&self) -> f64 {
        1e3 * (self.readings[4].controller - self.readings[3].controller)
    }

    fn judge(&self) -> Vec<Verdict> {
        let name = |what: &str| format!("{NAME}: {what}");
        let more = |of| self.each(2, of) - self.each(0, of);
        let slow = (self.rate < RATE_LEAST).then(|| format!("only {:.0} a second", self.rate));
        let spent = Target::AtMost(NOISE * self.each(0, |it| it.spent));
        let verdicts = vec![
            Verdict::new(name("memory grown"), self.growth() / 1e6, Target::AtMost(1.0))
                .unit(" MB"),
            Verdict::new(name("CPU more at the end"), more(|it| it.spent), spent).unit(" us"),
            Verdict::new(name("controller more at the end"), more(|it| it.controller), CONTROLLER)
                .unit(" us"),
            Verdict::new(name("controller afterwards"), self.left_over(), AFTER).unit(" ms"),
        ];
        verdicts.into_iter().map(|verdict| verdict.flaw(slow.clone())).collect()
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let us = |of| [0, 1, 2].map(|part| format!("{:.1}", self.each(part, of))).join(" ");
        let memory = self.readings.map(|it| format!("{:.1}", it.memory / 1e6)).join(" ");
        write!(
            f,
            "\nscale: {:.0} failures a second of a dead server\nCPU us a failure {}, of the \
             controller {}; memory MB {memory}",
            self.rate,
            us(|it| it.spent),
            us(|it| it.controller),
        )
    }
}

pub(super) const NAME: &str = "scale, 10,000 failures/s";
const WARM_UP: Duration = Duration::from_secs(3);
/// When the responses are there and everything that is to be done has been done.
const AFTERWARDS: Duration = Duration::from_secs(2);
/// A client that cannot keep up asks something else.
const RATE_LEAST: f64 = 9_500.0;
/// Of one part to another, as a share.
const NOISE: f64 = 0.15;
/// Microseconds a failure: a hundredth of a core.
const CONTROLLER: Target = Target::AtMost(1.0);
/// Milliseconds: a hundredth of a core while that lasts.
const AFTER: Target = Target::AtMost(20.0);

#[cfg(test)]
mod tests {
    use super::*;

    /// 10,000 failures a second, 50 us each; the controller as given, in us a failure.
    fn run(controller: [f64; 4], memory: [f64; 4]) -> Run {
        let start = Instant::now();
        let mut all = Reading { at: start, memory: memory[0], spent: 0.0, controller: 0.0 };
        let mut readings = [all; 5];
        for (index, reading) in readings.iter_mut().enumerate().skip(1) {
            all.at += Duration::from_secs(1);
            all.spent += 0.5;
            all.controller += controller[index - 1] * 1e-2;
            all.memory = memory.get(index).copied().unwrap_or(memory[3]);
            *reading = all;
        }
        Run { readings, rate: 10_000.0 }
    }

    #[test]
    fn what_stays_the_same_passes_and_what_grows_does_not() {
        let failed = |run: &Run| run.judge().iter().filter(|it| it.failed()).count();
        assert_eq!(failed(&run([5.0, 5.0, 5.0, 0.0], [9e6; 4])), 0);
        assert_eq!(failed(&run([5.0, 5.5, 6.5, 0.0], [9e6; 4])), 1, "the controller takes longer");
        assert_eq!(failed(&run([5.0, 5.0, 5.0, 5.0], [9e6; 4])), 1, "it has not heard all yet");
        assert_eq!(failed(&run([5.0, 5.0, 5.0, 0.0], [9e6, 9e6, 9e6, 11e6])), 1, "memory grows");
        let slow = Run { rate: 9_000.0, ..run([0.0; 4], [9e6; 4]) };
        assert_eq!(failed(&slow), 4);
    }
}
