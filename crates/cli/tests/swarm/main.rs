//! The swarm: random configurations under random traffic and faults in the simulator, and promises
//! that must hold for each.
//!
//! ```text
//! seed --generate--> Case (two files) --read--> Scenario --simulate--> facts --> checkers
//!                      ^                                                            |
//!                      '------------------- shrink <------ broken promise ---------'
//! ```
//! `SEED=n` runs one, `SEEDS=n` that many, from `FIRST=n` on; `STOP=1` no more after the first that
//! fails. `SHRINK=0` leaves it as large as it is, `FACTS=n` prints what came last before it failed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]
#![expect(clippy::print_stdout, reason = "what was found is for whoever runs it")]

mod account;
mod case;
mod check;
mod draw;
mod generate;
#[path = "../mutations/list.rs"]
mod mutations;
mod run;
mod shrink;

use std::{
    env,
    panic::catch_unwind,
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};

use run::{Totals, run};

#[test]
fn promises_hold_in_random_cases() {
    let number = |name: &str| env::var(name).ok().map(|said| said.parse::<u64>().unwrap());
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("FIRST").unwrap_or(1);
            first..first + number("SEEDS").unwrap_or(SEEDS)
        }
    };
    let next = AtomicU64::new(seeds.start);
    let stops = number("STOP").is_some();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let (mut tried, mut broken) = (Totals::default(), Vec::new());
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds.end {
                return (tried, broken);
            }
            let panicked = |_| Err(format!("SEED={seed}: a panic, see above"));
            match catch_unwind(|| try_seed(seed)).unwrap_or_else(panicked) {
                Ok(more) => {
                    tried.requests += more.requests;
                    tried.events += more.events;
                }
                Err(report) => {
                    broken.push((seed, report));
                    if stops {
                        next.store(seeds.end, Relaxed);
                    }
                }
            }
        }
    };
    let done: Vec<(Totals, Vec<(u64, String)>)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let requests: u64 = done.iter().map(|(tried, _)| tried.requests).sum();
    let mut broken: Vec<_> = done.into_iter().flat_map(|(_, broken)| broken).collect();
    broken.sort();
    let reports: Vec<_> = broken.iter().map(|(_, report)| report.as_str()).collect();
    assert!(
        broken.is_empty(),
        "{} of {} cases, {requests} requests in the others:\n{}",
        broken.len(),
        seeds.end - seeds.start,
        reports.join("\n")
    );
    println!("{requests} requests");
}

/// So that `make mutations` does not find out later.
#[test]
fn faults_are_put_into_code_that_is_there() {
    for mutation in mutations::MUTATIONS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src").join(mutation.file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches(mutation.old).count(), 1, "{}", mutation.name);
        assert_ne!(mutation.old, mutation.new);
    }
}

fn try_seed(seed: u64) -> Result<Totals, String> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("swarm").join(seed.to_string());
    let case = generate::case(seed);
    let ran = run(&case, &dir, "case").map_err(|error| format!("seed {seed}: {error}"))?;
    let Err(violation) = ran else {
        let _ = std::fs::remove_dir_all(&dir);
        return ran.map_err(|violation| violation.what);
    };
    let first = violation.what.clone();
    let (small, violation) = match env::var("SHRINK").as_deref() {
        Ok("0") => (case, violation),
        _ => shrink::shrink(case, violation, &dir),
    };
    let (file, traffic) = small.write(&dir, "smallest");
    Err(format!(
        "SEED={seed}: {}: {first}\n    smallest: {}\n    loadline sim {} --traffic {}",
        violation.checker,
        violation.what,
        file.display(),
        traffic.display()
    ))
}

/// In a test run.
const SEEDS: u64 = 256;
