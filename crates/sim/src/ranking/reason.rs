//! Why the first policy is first, in words, from what was measured.

use loadline_measure::{
    record::{RankedPolicy, RunCount},
    statistics::Interval,
};

use super::Compared;

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
pub(super) fn reason(policies: &[Compared], alike: u32, configured: &[String]) -> String {
    let Some((Compared { ranked: first, .. }, others)) = policies.split_first() else {
        return String::new();
    };
    let equals: Vec<&str> =
        others[..alike as usize - 1].iter().map(|it| it.ranked.policy.as_str()).collect();
    let mut text = match &equals[..] {
        [] => format!("{} is first.", first.policy),
        [one] => format!("{} is first; {one} is not worse beyond chance.", first.policy),
        [most @ .., last] => {
            let most = most.join(", ");
            format!("{} is first; {most} and {last} are not worse beyond chance.", first.policy)
        }
    };
    let worse = &others[equals.len()..];
    let is_configured = |it: &&Compared| configured.contains(&it.ranked.policy);
    let Some(compared) = worse.iter().find(is_configured).or(worse.first()) else {
        return text + " These runs tell no policy from another.";
    };
    let other = &compared.ranked;
    if let (Some(RunCount { runs, of }), Some(best)) = (other.met, first.met)
        && runs < best.runs
    {
        text += &format!(
            " {} meets the objective in {runs} of {of} runs, {} in {}.",
            other.policy, first.policy, best.runs
        );
    }
    text += &beside_the_first(compared);
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

/// How far a policy is from the first in what they are ranked by.
fn beside_the_first(it: &Compared) -> String {
    let name = &it.ranked.policy;
    let times = |of: &str, Interval { low, high }: Interval| {
        format!(" The {of} of {name} is {low:.2} to {high:.2} times as long.")
    };
    match (it.ranked.times_the_first, it.fails_more, it.p50_times) {
        (Some(p99), ..) => times("p99", p99),
        (None, Some(Interval { low, high }), _) if low > 0.0 => {
            let (low, high) = (low * 100.0, high * 100.0);
            format!(" With {name} {low:.1} to {high:.1} points more of the requests failed.")
        }
        (None, _, Some(p50)) => times("p50", p50),
        (None, _, None) => String::new(),
    }
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

    fn policy(name: &str, times: Option<(f64, f64)>, to_slow: f64) -> Compared {
        let ranked = RankedPolicy {
            policy: name.to_owned(),
            times_the_first: times.map(|(low, high)| Interval { low, high }),
            p99_ms: Some(1.0),
            to_slow,
            imbalance: 1.0,
            ..RankedPolicy::default()
        };
        Compared { ranked, ..Compared::default() }
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
        let (mut first, mut other) =
            (policy("one", None, 0.0), policy("other", Some((0.9, 1.1)), 0.0));
        (first.ranked.met, other.ranked.met) = (met(5), met(0));
        let text = reason(&[first, other], 1, &["other".to_owned()]);
        let expected = "one is first. other meets the objective in 0 of 5 runs, one in 5.";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn a_policy_that_fails_more_is_said_to_where_there_is_no_p99() {
        let fails_more = Some(Interval { low: 0.08, high: 0.104 });
        let (mut first, mut other) = (policy("one", None, 0.0), policy("other", None, 0.0));
        (first.ranked.failed, other.ranked.failed) = (0.057, 0.152);
        other.fails_more = fails_more;
        let text = reason(&[first, other], 1, &["other".to_owned()]);
        assert_eq!(
            text,
            "one is first. With other 8.0 to 10.4 points more of the requests failed. With one \
             5.7 % of requests failed, with other 15 % of requests failed."
        );
    }

    #[test]
    fn where_all_are_alike_none_is_called_better() {
        let policies = [policy("one", None, 0.0), policy("other", Some((0.9, 1.1)), 0.5)];
        let text = reason(&policies, 2, &["other".to_owned()]);
        assert!(text.ends_with("These runs tell no policy from another."), "{text}");
    }
}
