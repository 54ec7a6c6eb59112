//! What a decision costs: runs the benchmark `pick` of `loadline-core` and judges its lines.
//!
//! It prints `pick POLICY NS ns ALLOCS allocs` for every policy, with 10 groups of 100 servers.

use std::env;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::run::Section;
use crate::verdict::{Target, Verdict};

pub(crate) const NAME: &str = "pick";

/// Builds and runs the benchmark; cargo must be at hand, as it is where this was built.
pub(crate) fn measure() -> Result<Section> {
    println!("\npick: 10 groups of 100 servers");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["bench", "--quiet", "--package", "loadline-core", "--bench", "pick"])
        .output()
        .context("start cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("cargo bench: {}:\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let lines: Vec<Line> = text.lines().filter_map(Line::parse).collect();
    let mut section = Section::new(NAME);
    judge(&lines).into_iter().for_each(|verdict| section.judge(verdict));
    section.record("policies", lines.iter().map(Line::to_json).collect());
    Ok(section)
}

#[derive(Debug, PartialEq)]
struct Line {
    policy: String,
    nanoseconds: f64,
    allocations: f64,
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["pick", policy, nanoseconds, "ns", allocations, "allocs"] = words[..] else {
            return None;
        };
        Some(Self {
            policy: policy.to_owned(),
            nanoseconds: nanoseconds.parse().ok()?,
            allocations: allocations.parse().ok()?,
        })
    }

    fn to_json(&self) -> Value {
        json!({
            "policy": self.policy,
            "nanoseconds": self.nanoseconds,
            "allocations": self.allocations,
        })
    }
}

fn judge(lines: &[Line]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for Line { policy, nanoseconds, allocations } in lines {
        let flaw = (*allocations > 0.0).then(|| format!("it allocates {allocations} times"));
        let name = format!("pick {policy}");
        let verdict = Verdict::new(name, *nanoseconds, Target::AtMost(150.0)).unit(" ns");
        verdicts.push(verdict.flaw(flaw));
    }
    verdicts.push(Verdict::new("pick, policies", lines.len() as f64, Target::AtLeast(9.0)));
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_is_judged_by_time_and_allocations() {
        let text = "running\npick maglev 41.5 ns 0 allocs\npick peak-ewma 90 ns 2 allocs\n";
        let lines: Vec<Line> = text.lines().filter_map(Line::parse).collect();
        let said: Vec<String> = judge(&lines).iter().map(ToString::to_string).collect();
        let expected = [
            "PASS pick maglev 41.5 ns (<= 150 ns)",
            "FAIL pick peak-ewma 90 ns (<= 150 ns): it allocates 2 times",
            "FAIL pick, policies 2 (>= 9)",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn a_benchmark_that_says_nothing_fails() {
        assert!(judge(&[]).iter().all(Verdict::failed));
    }
}
