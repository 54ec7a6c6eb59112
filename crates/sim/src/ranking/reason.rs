//! Why the first policy is first, in words, from what was measured.

use loadline_measure::record::{RankedPolicy, RunCount};

/// A possible cause of a difference: its figure, the least difference worth a word, and its words.
struct Cause {
    of: fn(&RankedPolicy) -> f64,
    least: f64,
    said: fn(f64) -> String,
}

const CAUSES: [Cause; 4] = [
    Cause {
        of: |it| it.failed,
        least: 0.001,
        said: |share| format!("{} of requests failed", percent(share)),
    },
    Cause {
        of: |it| it.to_slow,
        least: 0.01,
        said: |share| format!("{} went to slow servers", percent(share)),
    },
    Cause {
        of: |it| it.found_busy,
        least: 0.01,
        said: |share| format!("{} found every core of their server busy", percent(share)),
    },
    Cause {
        of: |it| it.imbalance,
        least: 0.05,
        said: |times| format!("one server was given {times:.2} times the mean"),
    },
];

/// The first policy beside the one that the configuration has, or beside the first that is worse.
pub(super) fn reason(policies: &[RankedPolicy], alike: u32, configured: &[String]) -> String {
    let Some((first, others)) = policies.split_first() else { return String::new() };
    let equals: Vec<&str> =
        others[..alike as usize - 1].iter().map(|it| it.policy.as_str()).collect();
    let mut text = match &equals[..] {
        [] => format!("{} is first.", first.policy),
        [one] => format!("{} is first; {one} is not worse beyond chance.", first.policy),
        [most @ .., last] => {
            let most = most.join(", ");
            format!("{} is first; {most} and {last} are not worse beyond chance.", first.policy)
        }
    };
    let worse = &others[equals.len()..];
    let is_configured = |it: &&RankedPolicy| configured.contains(&it.policy);
    let Some(other) = worse.iter().find(is_configured).or(worse.first()) else {
        return text + " These runs tell no policy from another.";
    };
    if let (Some(RunCount { runs, of }), Some(best)) = (other.met, first.met)
        && runs < best.runs
    {
        text += &format!(
            " {} meets the objective in {runs} of {of} runs, {} in {}.",
            other.policy, first.policy, best.runs
        );
    }
    if let Some(times) = other.times_the_first {
        let (low, high) = (times.low, times.high);
        text += &format!(" The p99 of {} is {low:.2} to {high:.2} times as long.", other.policy);
    }
    let mut causes: Vec<(f64, &Cause)> = CAUSES
        .iter()
        .filter_map(|cause| {
            let (here, there) = ((cause.of)(first), (cause.of)(other));
            (there - here >= cause.least).then(|| (there / here.max(1e-6), cause))
        })
        .collect();
    causes.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, cause) in &causes {
        let (here, there) = ((cause.said)((cause.of)(first)), (cause.said)((cause.of)(other)));
        text += &format!(" With {} {here}, with {} {there}.", first.policy, other.policy);
    }
    if causes.is_empty() {
        text += " Where requests went hardly differs; when they came there does.";
    }
    text
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        small if small > 0.0 && small < 10.0 => format!("{small:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_measure::statistics::Interval;

    fn policy(name: &str, times: Option<(f64, f64)>, to_slow: f64) -> RankedPolicy {
        RankedPolicy {
            policy: name.to_owned(),
            times_the_first: times.map(|(low, high)| Interval { low, high }),
            p99_ms: Some(1.0),
            to_slow,
            imbalance: 1.0,
            ..RankedPolicy::default()
        }
    }

    #[test]
    fn the_first_is_held_against_the_configured_one() {
        let policies = [
            policy("quick", None, 0.01),
            policy("even", Some((0.9, 1.2)), 0.02),
            policy("slow", Some((1.5, 1.6)), 0.05),
            policy("mine", Some((2.0, 3.0)), 0.25),
        ];
        let text = reason(&policies, 2, &["mine".to_owned()]);
        assert_eq!(
            text,
            "quick is first; even is not worse beyond chance. The p99 of mine is 2.00 to 3.00 \
             times as long. With quick 1.0 % went to slow servers, with mine 25 % went to slow \
             servers."
        );
    }

    #[test]
    fn a_policy_that_misses_the_objective_is_said_to() {
        let met = |runs| Some(RunCount { runs, of: 5 });
        let first = RankedPolicy { met: met(5), ..policy("one", None, 0.0) };
        let other = RankedPolicy { met: met(0), ..policy("other", Some((0.9, 1.1)), 0.0) };
        let text = reason(&[first, other], 1, &["other".to_owned()]);
        let expected = "one is first. other meets the objective in 0 of 5 runs, one in 5.";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn where_all_are_alike_none_is_called_better() {
        let policies = [policy("one", None, 0.0), policy("other", Some((0.9, 1.1)), 0.5)];
        let text = reason(&policies, 2, &["other".to_owned()]);
        assert!(text.ends_with("These runs tell no policy from another."), "{text}");
    }
}
