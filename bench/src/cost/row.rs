//! What one proxy made of the rounds of a case, and what is judged of it.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Against, Case, Client, Role, SMALL};
use crate::process::CpuTime;
use crate::run::Effort;
use crate::stats::Summary;
use crate::verdict::{Target, Verdict};
use crate::wrk::{Load, Outcome};

/// The samples of one proxy in one case, in the order of the rounds.
pub(super) struct Row {
    name: &'static str,
    role: Role,
    pub(super) samples: Vec<Sample>,
}

/// One proxy in one round.
pub(super) struct Sample {
    outcome: Outcome,
    /// CPU time per request in microseconds.
    cost: f64,
    /// The part of it in user space.
    user: f64,
}

impl Sample {
    /// Of no requests or no time, no cost: not a number, as nothing that is made of it will be.
    pub(super) fn new(outcome: Outcome, spent: CpuTime) -> Self {
        let cost = match outcome.requests {
            requests @ 1.. if !spent.total.is_zero() => micros(spent.total) / requests as f64,
            _ => f64::NAN,
        };
        Self { outcome, cost, user: cost * spent.user_share() }
    }
}

impl Row {
    pub(super) const fn new(name: &'static str, role: Role) -> Self {
        Self { name, role, samples: Vec::new() }
    }

    fn summary(&self, figure: impl Fn(&Sample) -> f64) -> Summary {
        Summary::of(self.samples.iter().map(figure))
    }

    fn cost(&self) -> Summary {
        self.summary(|sample| sample.cost)
    }

    fn errors(&self) -> u64 {
        self.samples.iter().map(|sample| sample.outcome.errors).sum()
    }

    /// What went wrong with it, whoever it is: the comparison is with others' work.
    fn flaw(&self) -> Option<String> {
        let errors: u64 = self.samples.iter().map(|sample| sample.outcome.errors).sum();
        if self.samples.iter().any(|sample| sample.cost.is_nan()) {
            return Some(format!("a round without an answer with {}", self.name));
        }
        (errors > 0).then(|| format!("{errors} errors with {}", self.name))
    }

    /// The ratio of the costs in each round.
    fn ratio_to(&self, other: &Self) -> Summary {
        let pairs = self.samples.iter().zip(&other.samples);
        Summary::of(pairs.map(|(mine, theirs)| mine.cost / theirs.cost))
    }

    pub(super) fn to_json(&self) -> Value {
        let samples: Vec<Value> = self
            .samples
            .iter()
            .map(|sample| {
                json!({
                    "cpu_us_per_request": sample.cost,
                    "user_us_per_request": sample.user,
                    "requests": sample.outcome.requests,
                    "requests_per_second": sample.outcome.rate,
                    "p50_us": sample.outcome.p50.map(micros),
                    "p99_us": sample.outcome.p99.map(micros),
                    "errors": sample.outcome.errors,
                })
            })
            .collect();
        json!({ "proxy": self.name, "rounds": samples })
    }
}

/// Judges loadline, if it ran, against what the case says; what it costs beside each peer is told.
pub(super) fn judge(case: &Case, rows: &[Row]) -> Vec<Verdict> {
    let Some(ours) = rows.iter().find(|row| row.role == Role::Judged) else { return Vec::new() };
    let peers = || rows.iter().filter(|row| row.role == Role::Peer);
    let other = match case.against {
        Against::Yardstick => rows.iter().find(|row| row.role == Role::Yardstick),
        Against::Peer => peers().min_by(|a, b| a.cost().median.total_cmp(&b.cost().median)),
    };
    let mut verdicts = vec![judge_ratio(case, ours, other, rows)];
    if case.name == SMALL {
        let user = ours.summary(|sample| sample.user).median;
        let name = format!("{}, user time", case.name);
        verdicts.push(Verdict::new(name, user, Target::AtMost(USER_TIME)).unit(" us"));
    }
    let judged = other.map(|row| row.name);
    let told = rows.iter().filter(|row| ![Some(ours.name), judged].contains(&Some(row.name)));
    verdicts.extend(told.map(|row| {
        let name = format!("{}, to {}", case.name, row.name);
        Verdict::new(name, ours.ratio_to(row).median, Target::Wish(1.0))
    }));
    verdicts
}

fn judge_ratio(case: &Case, ours: &Row, other: Option<&Row>, rows: &[Row]) -> Verdict {
    let Some(other) = other else {
        let flaw = Some("there is nothing to compare with".to_owned());
        return Verdict::new(case.name, f64::NAN, case.target).flaw(flaw);
    };
    let ratio = ours.ratio_to(other);
    println!("ratio to {}: {:.2} ({:.2}..{:.2})", other.name, ratio.median, ratio.min, ratio.max);
    let flaws: Vec<String> = rows.iter().filter_map(Row::flaw).collect();
    let flaw = (!flaws.is_empty()).then(|| flaws.join(", "));
    let name = format!("{}, to {}", case.name, other.name);
    Verdict::new(name, ratio.median, case.target).flaw(flaw)
}

/// The last column is the ratio to the yardstick, where there is one.
pub(super) fn table(case: &Case, rows: &[Row], effort: Effort) -> String {
    let Load { scheme, connections, path, .. } = case.load;
    let Effort { rounds, seconds, .. } = effort;
    let yardstick = rows.iter().find(|row| row.role == Role::Yardstick);
    let last = yardstick.map_or_else(String::new, |row| format!("  to {}", row.name));
    let streams = match case.client {
        Client::Wrk => String::new(),
        _ => format!(" x {} streams", case.client.streams()),
    };
    let mut text = format!(
        "{}: {scheme}, GET {path}, {connections} connections{streams}, {rounds} rounds of \
         {seconds} s\n{COLUMNS}{last}",
        case.name
    );
    for row in rows {
        let cost = row.cost();
        let middle = |figure: fn(&Sample) -> f64| row.summary(figure).median;
        text += &format!(
            "\n{:9}{:>15.1}{:>15}{:>9.1}{:>12.0}{:>9}{:>9}{:>8}",
            row.name,
            cost.median,
            format!("{:.1}..{:.1}", cost.min, cost.max),
            middle(|sample| sample.user),
            middle(|sample| sample.outcome.rate),
            told(middle(|sample| sample.outcome.p50.map_or(f64::NAN, micros))),
            told(middle(|sample| sample.outcome.p99.map_or(f64::NAN, micros))),
            row.errors(),
        );
        if let Some(yardstick) = yardstick {
            text += &format!("{:>width$.2}", row.ratio_to(yardstick).median, width = last.len());
        }
    }
    text
}

/// What the client does not tell is a dash.
fn told(figure: f64) -> String {
    if figure.is_nan() { "-".to_owned() } else { format!("{figure:.0}") }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

const COLUMNS: &str = "          \
    CPU us/request       min..max     user  requests/s   p50 us   p99 us  errors";

/// Of the data path for a small request, in microseconds: the budget of all features together.
const USER_TIME: f64 = 2.2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::cases;

    fn row(name: &'static str, role: Role, costs: &[f64]) -> Row {
        let sample = |cost: &f64| Sample { outcome: Outcome::default(), cost: *cost, user: 1.0 };
        Row { name, role, samples: costs.iter().map(sample).collect() }
    }

    fn case(name: &str) -> Case {
        cases().into_iter().find(|case| case.name == name).expect("a case of this name")
    }

    fn said(case_name: &str, rows: &[Row]) -> Vec<String> {
        judge(&case(case_name), rows).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_proxy_at_the_floor_passes_however_dear_its_peers_are_and_one_above_it_fails() {
        // The machine halves its speed in the last round: the medians alone would say 1.20.
        let mut rows = [
            row("loadline", Role::Judged, &[6.0, 6.0, 12.0]),
            row("haproxy", Role::Peer, &[24.0, 24.0, 48.0]),
            row("floor", Role::Yardstick, &[5.0, 6.0, 12.0]),
        ];
        let expected = [
            "PASS small keep-alive, to floor 1.00 (<= 1.10)",
            "PASS small keep-alive, user time 1.00 us (<= 2.20 us)",
            "INFO small keep-alive, to haproxy 0.25 (good is <= 1.00)",
        ];
        assert_eq!(said("small keep-alive", &rows), expected);
        rows[0].samples.iter_mut().for_each(|sample| sample.cost *= 1.2);
        let above = &said("small keep-alive", &rows)[0];
        assert_eq!(above, "FAIL small keep-alive, to floor 1.20 (<= 1.10)");
    }

    #[test]
    fn where_the_floor_cannot_go_the_cheaper_peer_is_the_measure() {
        let rows = [
            row("loadline", Role::Judged, &[6.0]),
            row("haproxy", Role::Peer, &[12.0]),
            row("nginx", Role::Peer, &[8.0]),
        ];
        let expected = [
            "PASS TLS keep-alive, to nginx 0.75 (<= 0.80)",
            "INFO TLS keep-alive, to haproxy 0.50 (good is <= 1.00)",
        ];
        assert_eq!(said("TLS keep-alive", &rows), expected);
    }

    #[test]
    fn an_error_with_anyone_fails_the_case() {
        let mut rows =
            [row("loadline", Role::Judged, &[1.0]), row("floor", Role::Yardstick, &[9.0])];
        rows[1].samples[0].outcome.errors = 3;
        let verdict = &judge(&case("50 kB"), &rows)[0];
        assert!(verdict.to_string().ends_with(": 3 errors with floor"), "{verdict}");
        assert!(verdict.failed());
    }

    #[test]
    fn without_a_floor_or_a_peer_the_case_fails_and_without_loadline_nothing_is_judged() {
        let alone = [row("loadline", Role::Judged, &[9.0])];
        for name in ["small keep-alive", "TLS handshakes"] {
            assert!(judge(&case(name), &alone)[0].failed(), "{name}");
        }
        assert!(judge(&case("50 kB"), &[row("nginx", Role::Peer, &[9.0])]).is_empty());
    }

    #[test]
    fn a_round_without_an_answer_or_without_time_fails_the_case_though_others_went_well() {
        let mut rows =
            [row("loadline", Role::Judged, &[5.0; 7]), row("floor", Role::Yardstick, &[5.0; 7])];
        let answered = Outcome { requests: 60_000, ..Outcome::default() };
        let mut spent = CpuTime::default();
        spent.total = Duration::from_millis(900);
        for (outcome, spent) in [(Outcome::default(), spent), (answered, CpuTime::default())] {
            rows[1].samples[3] = Sample::new(outcome, spent);
            assert!(judge(&case("50 kB"), &rows)[0].failed());
        }
    }
}
