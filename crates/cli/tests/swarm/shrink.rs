//! Makes a failing case small: leaves out table after table and key after key, as long as the same
//! promise is broken.

use std::path::Path;

use crate::{
    case::Case,
    run::{Violation, run},
};

/// The smallest case that was found, and what it breaks.
pub(crate) fn shrink(case: Case, violation: Violation, dir: &Path) -> (Case, Violation) {
    let mut best = (case, violation);
    let mut left = RUNS_MAX;
    'smaller: loop {
        for candidate in candidates(&best.0) {
            if left == 0 {
                return best;
            }
            left -= 1;
            if let Ok(Err(violation)) = run(&candidate, dir, "candidate")
                && violation.checker == best.1.checker
            {
                best = (candidate, violation);
                continue 'smaller;
            }
        }
        return best;
    }
}

fn candidates(case: &Case) -> Vec<Case> {
    let traffic = case.traffic.smaller().into_iter();
    let traffic = traffic.map(|traffic| Case { traffic, ..case.clone() });
    let configuration = case.configuration.smaller().into_iter();
    let configuration = configuration.map(|configuration| Case { configuration, ..case.clone() });
    traffic.chain(configuration).collect()
}

/// Enough for every part of a large case twice.
const RUNS_MAX: u32 = 400;
