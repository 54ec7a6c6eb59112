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

/// Every policy must be there. Other lines are situations, such as every group being full.
fn judge(lines: &[Line]) -> Vec<Verdict> {
    let missing = policies().filter(|policy| !lines.iter().any(|line| line.policy == *policy));
    let missing = missing.map(|policy| {
        let name = format!("pick {policy}");
        let flaw = Some("the benchmark does not name it".to_owned());
        Verdict::new(name, f64::NAN, Target::AtMost(LIMIT)).unit(" ns").flaw(flaw)
    });
    lines.iter().map(judge_line).chain(missing).collect()
}

fn judge_line(line: &Line) -> Verdict {
    let Line { policy, nanoseconds, allocations } = line;
    let is_policy = policies().any(|name| name == policy);
    let target = if is_policy { Target::AtMost(LIMIT) } else { Target::Wish(LIMIT) };
    let flaw = (*allocations > 0.0).then(|| format!("it allocates {allocations} times"));
    Verdict::new(format!("pick {policy}"), *nanoseconds, target).unit(" ns").flaw(flaw)
}

/// The policies there are: the words that the reference of the file lists for `policy`.
fn policies() -> impl Iterator<Item = &'static str> {
    let listed = REFERENCE.split_once("\nWords for `policy`:\n\n").map_or("", |(_, rest)| rest);
    let words = listed.lines().map_while(|line| line.strip_prefix("- `\""));
    words.filter_map(|line| Some(line.split_once('"')?.0))
}

const REFERENCE: &str = include_str!("../../docs/configuration.md");
/// In nanoseconds.
const LIMIT: f64 = 150.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_is_judged_by_time_and_allocations_and_a_situation_is_told() {
        let text = "running\npick maglev 41.5 ns 0 allocs\npick peak-ewma 90 ns 2 allocs\n\
                    pick full 180 ns 0 allocs\nbuild maglev 3 ms\n";
        let lines: Vec<Line> = text.lines().filter_map(Line::parse).collect();
        let said: Vec<String> = judge(&lines).iter().map(ToString::to_string).collect();
        let expected = [
            "PASS pick maglev 41.5 ns (<= 150 ns)",
            "FAIL pick peak-ewma 90 ns (<= 150 ns): it allocates 2 times",
            "INFO pick full 180 ns (good is <= 150 ns)",
        ];
        assert_eq!(said[..3], expected);
        assert_eq!(said.len(), 3 + policies().count() - 2);
    }

    #[test]
    fn the_policies_are_those_of_the_reference() {
        assert!(policies().count() >= 10, "{:?}", policies().collect::<Vec<_>>());
        assert!(policies().any(|policy| policy == "peak-ewma"));
    }

    #[test]
    fn a_benchmark_that_says_nothing_fails() {
        let verdicts = judge(&[]);
        assert_eq!(verdicts.len(), policies().count());
        assert!(verdicts.iter().all(Verdict::failed));
    }
}
