//! Objectives (SLO): what a run must show, as text, and whether it did.
//!
//! An objective is a list of criteria, all of which must be met: `p99<300ms, errors<0.1%`. Each
//! compares one figure of a run with a bound by `<`, `<=`, `>` or `>=`:
//!
//! | figure | what it is of | bound |
//! |---|---|---|
//! | `p50` `p90` `p95` `p99` `p99.9` `mean` `max` | response time, from the plan | `300ms` |
//! | `service-p99` and so on | service time, from the send | `300ms` |
//! | `errors` | requests not answered ok, of all planned | `0.1%` |
//! | `availability` | requests answered ok, of all planned | `99.9%` |
//! | `rate` | successful responses per second | `450/s`, or `0.99*target` |
//!
//! `target` is the planned rate of an open loop. What is compared with it is the share of the
//! planned requests that was answered while the plan went on, so that neither the last answers
//! coming in after the plan nor the luck of random arrivals counts against the server.
//!
//! A request that failed counts as infinitely late: of 1,000 requests of which 20 failed, the p99
//! is `never`, whatever the others took. A mean and a maximum are so as soon as one failed.
//!
//! A run without a successful response meets no criterion of time, and one without a planned
//! request meets none at all: there is nothing that would show it. One that was interrupted before
//! anything came of a request cannot be judged.
//!
//! A percentile of few requests is judged all the same, and its verdict says how far it goes
//! ([`Criterion::confidence`](crate::record::Criterion)): by order statistics, 95 % on the side
//! that matters.

mod confidence;
mod judge;
mod pressure;
mod rest;
mod spent;

pub use rest::Rest;
pub use spent::Spent;

use core::{fmt, str::FromStr};

use crate::record::{LoadModel, LoadRecord, ObjectiveRecord};
use loadline_core::{
    time::Duration,
    units::{Rate, Ratio, UnitError},
};

/// What a run must show: criteria that must all be met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objective {
    criteria: Vec<Criterion>,
}

/// One figure against its bound.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Criterion {
    text: String,
    figure: Figure,
    relation: Relation,
}

/// A figure and its bound, which share a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Time {
        of: Of,
        statistic: Statistic,
        bound: Duration,
    },
    Errors(Ratio),
    Availability(Ratio),
    Rate(Rate),
    /// The rate as a share of the planned one.
    RateOfTarget(Ratio),
}

/// The kind of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Response,
    Service,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statistic {
    P50,
    P90,
    P95,
    P99,
    P999,
    Mean,
    Max,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Below,
    AtMost,
    Above,
    AtLeast,
}

/// A text that is not an objective.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectiveError {
    /// There is no criterion at all.
    #[error("an objective needs a criterion; write it like `p99<300ms, errors<0.1%`")]
    Empty,
    /// One of the criteria is wrong.
    #[error("criterion {number} of the objective, `{criterion}`: {why}; write it like `{example}`")]
    Criterion {
        /// Which, counted from 1.
        number: usize,
        /// As it was given.
        criterion: String,
        /// What is wrong with it.
        why: String,
        /// A right one.
        example: &'static str,
    },
}

impl Objective {
    /// Whether `record` met it, criterion by criterion. Requests that a run cut off when it was
    /// interrupted are not judged.
    #[must_use]
    pub fn judge(&self, record: &LoadRecord) -> ObjectiveRecord {
        let record = &*record.without_cut_off();
        let criteria = self.criteria.iter().map(|criterion| criterion.judge(record)).collect();
        ObjectiveRecord { text: self.to_string(), criteria }
    }

    /// Whether it can be judged of such a run: only an open loop has a planned rate to compare
    /// with.
    #[must_use]
    pub fn suits(&self, model: &LoadModel) -> bool {
        let relative = |criterion: &Criterion| matches!(criterion.figure, Figure::RateOfTarget(_));
        matches!(model, LoadModel::Open { .. }) || !self.criteria.iter().any(relative)
    }
}

impl FromStr for Objective {
    type Err = ObjectiveError;

    /// Reads criteria with commas between them: `p99<300ms, errors<0.1%`.
    ///
    /// # Errors
    /// [`ObjectiveError`] with the first criterion that is wrong and a right one like it.
    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        if text.trim().is_empty() {
            return Err(ObjectiveError::Empty);
        }
        let read = |(index, item): (usize, &str)| {
            let item = item.trim();
            criterion(item).map_err(|Wrong { why, example }| ObjectiveError::Criterion {
                number: index + 1,
                criterion: item.to_string(),
                why,
                example,
            })
        };
        let criteria: Result<_, _> = text.split(',').enumerate().map(read).collect();
        Ok(Self { criteria: criteria? })
    }
}

impl fmt::Display for Objective {
    /// Prints what [`FromStr`] reads, as it was given.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, criterion) in self.criteria.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}", criterion.text)?;
        }
        Ok(())
    }
}

impl Relation {
    fn holds<T: PartialOrd + Copy>(self, measured: T, bound: T) -> bool {
        match self {
            Self::Below => measured < bound,
            Self::AtMost => measured <= bound,
            Self::Above => measured > bound,
            Self::AtLeast => measured >= bound,
        }
    }

    /// Whether the bound is an upper one.
    fn limits_above(self) -> bool {
        matches!(self, Self::Below | Self::AtMost)
    }
}

impl Statistic {
    /// The share of the times that a percentile is not below; none of a mean or an extreme.
    fn share(self) -> Option<f64> {
        match self {
            Self::P50 => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
            Self::P999 => Some(0.999),
            Self::Mean | Self::Max => None,
        }
    }
}

/// What is wrong with a criterion, and a right one.
struct Wrong {
    why: String,
    example: &'static str,
}

impl Wrong {
    fn new(why: &str, example: &'static str) -> Self {
        Self { why: why.to_string(), example }
    }
}

fn criterion(text: &str) -> Result<Criterion, Wrong> {
    if text.is_empty() {
        return Err(Wrong::new("nothing stands between the commas", TIME_EXAMPLE));
    }
    let Some(at) = text.find(['<', '>', '=', '!']) else {
        return Err(Wrong::new("it compares nothing; use <, <=, > or >=", TIME_EXAMPLE));
    };
    let (name, rest) = text.split_at(at);
    let relations = [
        ("<=", Relation::AtMost),
        (">=", Relation::AtLeast),
        ("<", Relation::Below),
        (">", Relation::Above),
    ];
    let found = relations
        .iter()
        .find_map(|(sign, relation)| Some((*relation, rest.strip_prefix(sign)?.trim())));
    let Some((relation, bound)) = found else {
        return Err(Wrong::new("figures are compared by <, <=, > or >=", TIME_EXAMPLE));
    };
    let figure = figure(name.trim(), bound)?;
    Ok(Criterion { text: text.to_string(), figure, relation })
}

fn figure(name: &str, bound: &str) -> Result<Figure, Wrong> {
    let wrong = |example| move |error: UnitError| Wrong { why: error.fault(), example };
    let share = |example| bound.parse::<Ratio>().map_err(wrong(example));
    match name {
        "errors" => Ok(Figure::Errors(share("errors<0.1%")?)),
        "availability" => Ok(Figure::Availability(share("availability>=99.9%")?)),
        "rate" => match bound.split_once('*') {
            Some((factor, target)) => of_target(factor.trim(), target.trim()),
            None => {
                bound.parse().map(Figure::Rate).map_err(wrong("rate>=450/s` or `rate>=0.99*target"))
            }
        },
        _ => {
            let (of, statistic) = match name.strip_prefix("service-") {
                Some(statistic) => (Of::Service, statistic),
                None => (Of::Response, name),
            };
            let named = STATISTICS.iter().find(|(known, _)| *known == statistic);
            let Some((_, statistic)) = named else {
                return Err(Wrong { why: unknown(name), example: TIME_EXAMPLE });
            };
            let bound = bound.parse().map_err(wrong(TIME_EXAMPLE))?;
            Ok(Figure::Time { of, statistic: *statistic, bound })
        }
    }
}

/// The bound `factor*target`, the factor as a number (`0.99`) or in percent.
fn of_target(factor: &str, target: &str) -> Result<Figure, Wrong> {
    let wrong = |why| Wrong::new(why, "rate>=0.99*target");
    if target != "target" {
        return Err(wrong("only `target`, the planned rate, can be multiplied"));
    }
    let share = match factor.parse::<f64>() {
        Ok(number) if (0.0..=MOST_OF_TARGET).contains(&number) => {
            Some(Ratio::ppm(libm::round(number * 1e6) as u32))
        }
        Ok(_) => None,
        Err(_) => factor.parse().ok(),
    };
    share.map(Figure::RateOfTarget).ok_or_else(|| wrong("the factor is a number from 0 to 10"))
}

fn unknown(name: &str) -> String {
    format!(
        "`{name}` is no figure; there are p50, p90, p95, p99, p99.9, mean, max (of the service \
         time: service-p99), errors, availability, rate"
    )
}

const STATISTICS: [(&str, Statistic); 7] = [
    ("p50", Statistic::P50),
    ("p90", Statistic::P90),
    ("p95", Statistic::P95),
    ("p99", Statistic::P99),
    ("p99.9", Statistic::P999),
    ("mean", Statistic::Mean),
    ("max", Statistic::Max),
];

const TIME_EXAMPLE: &str = "p99<300ms";

/// More than this is a slip.
const MOST_OF_TARGET: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Objective {
        text.parse().unwrap()
    }

    #[test]
    fn an_objective_prints_as_it_was_given() {
        let text = "p99<300ms, errors<0.1%, rate>=450/s, service-p99.9<=2s, availability>99.9%";
        assert_eq!(read(text).to_string(), text);
        assert_eq!(read(" mean < 1m30s,max>=5us ").to_string(), "mean < 1m30s, max>=5us");
        assert_eq!(
            read("rate>=99%*target").criteria[0].figure,
            read("rate>=0.99*target").criteria[0].figure
        );
    }

    #[test]
    fn a_wrong_criterion_is_pointed_at_and_a_right_one_shown() {
        for (text, told) in [
            ("", &["p99<300ms, errors<0.1%"][..]),
            ("p99<300ms,", &["criterion 2", "between the commas", "`p99<300ms`"]),
            ("errors<0.1%, p99<300", &["criterion 2", "`p99<300`", "`p99<300ms`"]),
            ("p99<", &["criterion 1", "`` is not a duration; write it like `p99<300ms`"]),
            ("p98<300ms", &["`p98` is no figure", "p99.9"]),
            ("service-errors<1%", &["`service-errors` is no figure"]),
            ("p99=300ms", &["<, <=, > or >="]),
            ("p99 300ms", &["compares nothing"]),
            ("<300ms", &["`` is no figure"]),
            ("p99<>300ms", &["`>300ms` is not a duration"]),
            ("errors<0.001", &["`errors<0.1%`"]),
            ("rate>=450", &["`450` is not a rate", "`rate>=450/s` or `rate>=0.99*target`"]),
            ("rate>=0.99*plan", &["`rate>=0.99*target`", "only `target`"]),
            ("rate>=990*target", &["from 0 to 10"]),
            ("rate>=NaN*target", &["from 0 to 10"]),
        ] {
            let error = text.parse::<Objective>().unwrap_err().to_string();
            for part in told {
                assert!(error.contains(part), "{text:?}: {part:?} is not in: {error}");
            }
            assert_eq!(error.matches("write it like").count(), 1, "{error}");
        }
    }

    #[test]
    fn only_an_open_loop_has_a_target() {
        let closed = LoadModel::default();
        let open = LoadModel::Open {
            rate: Rate::per_sec(10),
            arrivals: crate::record::Arrivals::Constant,
            seed: 1,
            stages: vec![],
        };
        assert!(read("p99<1s, rate>=10/s").suits(&closed));
        assert!(!read("p99<1s, rate>=0.9*target").suits(&closed));
        assert!(read("p99<1s, rate>=0.9*target").suits(&open));
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_is_read_is_read_again(text in ".{0,40}") {
            if let Ok(objective) = text.parse::<Objective>() {
                prop_assert_eq!(objective.to_string().parse::<Objective>().unwrap(), objective);
            }
        }

        /// As the one before, of texts that nearly always are objectives.
        #[test]
        fn every_figure_goes_with_every_relation(
            parts in prop::collection::vec(
                (0usize..7, any::<bool>(), 0usize..4, 1u64..10_000), 1..6),
        ) {
            let item = |(statistic, service, relation, ms): &(usize, bool, usize, u64)| {
                let prefix = if *service { "service-" } else { "" };
                let sign = ["<", "<=", ">", ">="][*relation];
                format!("{prefix}{}{sign}{ms}ms", STATISTICS[*statistic].0)
            };
            let text = parts.iter().map(item).collect::<Vec<_>>().join(", ");
            let objective: Objective = text.parse().unwrap();
            prop_assert_eq!(objective.criteria.len(), parts.len());
            prop_assert_eq!(objective.to_string(), text);
        }
    }
}
