//! Credits: a burstable processor over a load curve, as the t2 instances have it.
//!
//! One credit is one core at 100 % for a minute, so that the balance is kept as core time. Credits
//! are earned at the baseline share all the time and spent at the share that is used:
//! `d(balance)/dt = cores * (baseline - used)`, from 0 to the most that it holds. Without credits
//! no more than the baseline can be used.
//!
//! "How far can you go with HAProxy and a t2.micro", section "A note about t2 instances and CPU
//! credits": "The t2.micro instance type can use up to 10% CPU consistently without consuming CPU
//! credits." That is 0.1 core-minutes a minute, the 6 credits per hour of the vendor's table, which
//! has also the 30 credits at launch and the most, what is earned in 24 hours: 144.

use core::{fmt, str::FromStr};

use super::{FormulaError, above_zero};
use loadline_core::{
    time::Duration,
    units::{Count, Ratio},
};

/// Credits as core time at 100 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Credits(Duration);

impl Credits {
    /// `n` credits.
    #[must_use]
    pub fn new(n: u64) -> Self {
        Self(CREDIT * n)
    }

    /// `n` credits, if so many can be told.
    ///
    /// # Errors
    /// [`FormulaError`] beyond.
    pub fn checked(what: &'static str, n: u64) -> Result<Self, FormulaError> {
        if n > MOST_CREDITS {
            return Err(FormulaError::range(what, n, "at most 100000000"));
        }
        Ok(Self::new(n))
    }

    /// Credits, with their fraction.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0.as_secs_f64() / CREDIT.as_secs_f64()
    }
}

/// A burstable machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// How many cores it has.
    pub cores: Count,
    /// The share of each core that it may use for ever.
    pub baseline: Ratio,
    /// The balance at the start.
    pub initial: Credits,
    /// The balance beyond which nothing is added.
    pub most: Credits,
}

impl Machine {
    /// The t2.micro: one core, 10 %, 30 credits at launch, 144 at most.
    pub const T2_MICRO: Self = Self {
        cores: Count::new(1),
        baseline: Ratio::percent(10),
        initial: Credits(Duration::from_secs(30 * 60)),
        most: Credits(Duration::from_secs(144 * 60)),
    };

    /// A machine of the t2 kind: 30 credits for each core at launch, and room for what it earns in
    /// 24 hours.
    ///
    /// # Errors
    /// [`FormulaError`] where there are no cores or more than 1024, or the baseline is zero or
    /// above 100 %.
    pub fn t2(cores: Count, baseline: Ratio) -> Result<Self, FormulaError> {
        let mut machine =
            Self { cores, baseline, initial: Credits::default(), most: Credits::default() };
        machine.check()?;
        machine.most = machine.core_time(baseline, Duration::from_secs(86_400));
        machine.initial = Credits::new(30 * cores.get()).min(machine.most);
        Ok(machine)
    }

    /// What it earns in an hour: 60 credits for each whole core of its baseline.
    #[must_use]
    pub fn earned_per_hour(&self) -> Credits {
        self.core_time(self.baseline, Duration::from_secs(3_600))
    }

    /// How long a balance lasts at that load; none where it does not fall.
    #[must_use]
    pub fn lasts(&self, balance: Credits, load: Ratio) -> Option<Duration> {
        let excess = load.as_ppm().checked_sub(self.baseline.as_ppm()).filter(|ppm| *ppm > 0)?;
        Some(self.time_for(balance, excess))
    }

    /// The core time of that share of all cores.
    fn core_time(&self, share: Ratio, span: Duration) -> Credits {
        let nanos =
            u128::from(span.as_nanos()) * u128::from(share.as_ppm()) * u128::from(self.cores.get())
                / u128::from(PPM);
        Credits(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// How long the balance changes by `credits`, at so many millionths of each core.
    fn time_for(&self, credits: Credits, ppm: u32) -> Duration {
        let rate = u128::from(ppm) * u128::from(self.cores.get());
        let nanos = u128::from(credits.0.as_nanos()) * u128::from(PPM) / rate.max(1);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn check(&self) -> Result<(), FormulaError> {
        above_zero("a number of cores", self.cores)?;
        if self.cores.get() > MOST_CORES {
            return Err(FormulaError::range("a number of cores", self.cores, "at most 1024"));
        }
        if self.baseline == Ratio::ZERO || self.baseline > Ratio::ONE {
            let right = "above 0% and at most 100%";
            return Err(FormulaError::range("a baseline", self.baseline, right));
        }
        if self.initial > self.most {
            let initial = self.initial.as_f64();
            let right = "at most what the balance holds";
            return Err(FormulaError::range("an initial balance", initial, right));
        }
        Ok(())
    }
}

/// The load of a machine over time, stage by stage: "20%:10m, 100%:30m".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadCurve(Vec<(Ratio, Duration)>);

impl LoadCurve {
    /// Shares of all cores, each for a time.
    ///
    /// # Errors
    /// [`FormulaError`] where there is no stage, a share is above 100 %, a stage takes no time, or
    /// all together more than a year.
    pub fn new(stages: Vec<(Ratio, Duration)>) -> Result<Self, FormulaError> {
        if stages.is_empty() {
            return Err(FormulaError::range("a number of stages", 0, "above zero"));
        }
        for (load, span) in &stages {
            above_zero("the time of a stage", *span)?;
            if *load > Ratio::ONE {
                return Err(FormulaError::range("a load", load, "at most 100% of all cores"));
            }
        }
        let whole: Duration = stages.iter().map(|(_, span)| *span).sum();
        if whole > A_YEAR {
            return Err(FormulaError::range("the time of all stages", whole, "at most 366d"));
        }
        Ok(Self(stages))
    }

    /// Utilization and how long it lasts, stage by stage.
    #[must_use]
    pub fn stages(&self) -> &[(Ratio, Duration)] {
        &self.0
    }
}

impl FromStr for LoadCurve {
    type Err = FormulaError;

    /// Reads `20%:10m, 100%:30m`.
    ///
    /// # Errors
    /// [`FormulaError`] where a stage cannot be read or means nothing.
    fn from_str(text: &str) -> Result<Self, FormulaError> {
        let stage = |stage: &str| {
            let (load, span) = stage.split_once(':')?;
            Some((load.trim().parse().ok()?, span.trim().parse().ok()?))
        };
        let read = |text: &str| {
            stage(text).ok_or_else(|| FormulaError::Curve { text: text.trim().to_string() })
        };
        Self::new(text.split(',').map(read).collect::<Result<_, _>>()?)
    }
}

impl fmt::Display for LoadCurve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (load, span)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{load}:{span}")?;
        }
        Ok(())
    }
}

/// The balance over a load curve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// Where the balance begins, bends and ends. Straight lines join the points.
    pub points: Vec<Point>,
    /// All that was earned and kept.
    pub earned: Credits,
    /// All that was spent.
    pub spent: Credits,
    /// When the balance was first empty with more than the baseline asked for.
    pub runs_out: Option<Duration>,
}

impl Course {
    /// The moment at that time, on the straight line between its neighbours; none outside the
    /// course. At a bend it is the one that begins there.
    #[must_use]
    pub fn at(&self, at: Duration) -> Option<Point> {
        let next = self.points.partition_point(|point| point.at <= at);
        let from = self.points.get(next.checked_sub(1)?)?;
        let Some(to) = self.points.get(next) else { return (from.at == at).then_some(*from) };
        let way = |whole: Credits| part_of(whole, since(from, at), since(from, to.at));
        let balance = if to.balance > from.balance {
            sum(from.balance, way(difference(to.balance, from.balance)))
        } else {
            difference(from.balance, way(difference(from.balance, to.balance)))
        };
        Some(Point { at, balance, ..*from })
    }

    /// The balance at the end.
    #[must_use]
    pub fn last(&self) -> Credits {
        self.points.last().map(|point| point.balance).unwrap_or_default()
    }
}

/// A moment of a course.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Since the start of the curve.
    pub at: Duration,
    /// Balance at this time.
    pub balance: Credits,
    /// Requested load from this time on.
    pub load: Ratio,
    /// Carried load from this time on.
    pub carried: Ratio,
}

/// The balance of a machine under a load curve.
///
/// # Errors
/// [`FormulaError`] where the machine means nothing.
pub fn course(machine: &Machine, curve: &LoadCurve) -> Result<Course, FormulaError> {
    machine.check()?;
    let mut walk = Walk {
        machine,
        at: Duration::ZERO,
        balance: machine.initial,
        course: Course {
            points: Vec::new(),
            earned: Credits::default(),
            spent: Credits::default(),
            runs_out: None,
        },
    };
    for (load, span) in curve.stages() {
        walk.stage(*load, *span);
    }
    let (load, carried) =
        walk.course.points.last().map(|p| (p.load, p.carried)).unwrap_or_default();
    walk.push(load, carried);
    Ok(walk.course)
}

struct Walk<'a> {
    machine: &'a Machine,
    at: Duration,
    balance: Credits,
    course: Course,
}

impl Walk<'_> {
    /// A stage in at most two parts: until the balance is empty or full, and from there on.
    fn stage(&mut self, load: Ratio, span: Duration) {
        let baseline = self.machine.baseline;
        let (room, ppm) = if load > baseline {
            (self.balance, load.as_ppm() - baseline.as_ppm())
        } else {
            (difference(self.machine.most, self.balance), baseline.as_ppm() - load.as_ppm())
        };
        let bend = if ppm == 0 { span } else { self.machine.time_for(room, ppm).min(span) };
        let change = self.machine.core_time(Ratio::ppm(ppm), bend);
        if bend > Duration::ZERO {
            self.push(load, load);
            self.move_by(load, bend, change);
        }
        let rest = span.saturating_sub(bend);
        if rest == Duration::ZERO {
            return;
        }
        if load > baseline {
            self.balance = Credits::default();
            self.course.runs_out.get_or_insert(self.at);
        } else {
            self.balance = self.machine.most;
        }
        let carried = load.min(baseline);
        self.push(load, carried);
        self.move_by(carried, rest, Credits::default());
    }

    /// Goes on for `span`; the balance rises or falls by `change`.
    fn move_by(&mut self, carried: Ratio, span: Duration, change: Credits) {
        let spent = self.machine.core_time(carried, span);
        self.course.spent = sum(self.course.spent, spent);
        if carried > self.machine.baseline {
            self.balance = difference(self.balance, change);
            self.course.earned = sum(self.course.earned, difference(spent, change));
        } else {
            self.balance = sum(self.balance, change);
            self.course.earned = sum(self.course.earned, sum(spent, change));
        }
        self.at = self.at + span;
    }

    fn push(&mut self, load: Ratio, carried: Ratio) {
        self.course.points.push(Point { at: self.at, balance: self.balance, load, carried });
    }
}

fn since(from: &Point, at: Duration) -> Duration {
    at.saturating_sub(from.at)
}

/// What has come of `whole` after `span` of `all` the time.
fn part_of(whole: Credits, span: Duration, all: Duration) -> Credits {
    let nanos = u128::from(whole.0.as_nanos()) * u128::from(span.as_nanos());
    let nanos = nanos / u128::from(all.as_nanos()).max(1);
    Credits(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
}

fn sum(a: Credits, b: Credits) -> Credits {
    Credits(a.0 + b.0)
}

fn difference(a: Credits, b: Credits) -> Credits {
    Credits(a.0.saturating_sub(b.0))
}

const CREDIT: Duration = Duration::from_secs(60);

/// No machine has nearly as many, and the time that they are can be told.
const MOST_CREDITS: u64 = 100_000_000;

const PPM: u32 = 1_000_000;

const MOST_CORES: u64 = 1_024;

const A_YEAR: Duration = Duration::from_secs(366 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{format, vec};

    fn over(curve: &str) -> Course {
        course(&Machine::T2_MICRO, &curve.parse().unwrap()).unwrap()
    }

    fn near(credits: Credits, expected: f64) -> bool {
        (credits.as_f64() - expected).abs() < 1e-9
    }

    #[test]
    fn a_t2_micro_earns_six_credits_an_hour_and_holds_a_day_of_them() {
        let micro = Machine::T2_MICRO;
        assert_eq!(micro.earned_per_hour(), Credits::new(6));
        assert_eq!(micro.most, Credits::new(24 * 6));
        assert_eq!(micro.initial, Credits::new(30));
        assert_eq!(Machine::t2(Count::new(1), Ratio::percent(10)), Ok(micro));
    }

    #[test]
    fn the_balance_of_launch_lasts_33_minutes_and_a_full_one_160() {
        let micro = Machine::T2_MICRO;
        let lasts = |credits| micro.lasts(Credits::new(credits), Ratio::ONE).unwrap();
        assert_eq!(lasts(30), Duration::from_secs(2_000));
        assert_eq!(lasts(144), Duration::from_secs(160 * 60));
        assert_eq!(micro.lasts(micro.initial, Ratio::percent(10)), None);
    }

    #[test]
    fn the_tests_of_the_post_earn_more_than_they_spend() {
        let course = over("2%:5m, 7%:5m");
        assert!(near(course.last(), 30.0 + 0.4 + 0.15), "{course:?}");
        assert!(near(course.spent, 0.1 + 0.35) && near(course.earned, 1.0));
        assert_eq!(course.runs_out, None);
    }

    #[test]
    fn without_credits_the_baseline_is_left() {
        let course = over("20%:10m, 100%:40m");
        // 30 - 10 * 0.1 = 29 credits last 29 / 0.9 minutes at full load.
        assert_eq!(
            course.runs_out,
            Some(Duration::from_nanos(600_000_000_000 + 1_933_333_333_333))
        );
        let bends: Vec<_> = course.points.iter().map(|point| (point.load, point.carried)).collect();
        let (fifth, all, tenth) = (Ratio::percent(20), Ratio::ONE, Ratio::percent(10));
        assert_eq!(bends, vec![(fifth, fifth), (all, all), (all, tenth), (all, tenth)]);
        assert_eq!(course.last(), Credits::default());
    }

    #[test]
    fn a_full_balance_takes_no_more() {
        let course = over("0%:20h, 100%:1m");
        assert!(near(course.points[1].balance, 144.0), "{course:?}");
        assert_eq!(course.points[1].at, Duration::from_secs(19 * 3_600));
        assert!(near(course.last(), 143.1));
        assert!(near(course.earned, 114.0 + 0.1), "what is not kept is not earned");
    }

    #[test]
    fn between_two_bends_the_balance_is_on_a_line() {
        let course = over("100%:10m, 0%:10m");
        let balance = |minutes: u64| course.at(Duration::from_secs(60 * minutes)).unwrap().balance;
        assert!(near(balance(5), 25.5) && near(balance(10), 21.0) && near(balance(15), 21.5));
        assert!(near(balance(20), 22.0));
        assert_eq!(course.at(Duration::from_secs(1_201)), None);
        assert_eq!(course.at(Duration::from_secs(600)).unwrap().load, Ratio::ZERO);
    }

    #[test]
    fn at_the_baseline_the_balance_stays() {
        let course = over("10%:100h");
        assert_eq!((course.last(), course.points.len()), (Credits::new(30), 2));
    }

    #[test]
    fn a_curve_reads_what_it_prints_and_refuses_what_is_none() {
        let curve: LoadCurve = " 20%:10m,100% : 30m ".parse().unwrap();
        assert_eq!(format!("{curve}"), "20%:10m, 100%:30m");
        for (text, told) in [
            ("", "`` is not a load curve"),
            ("20%", "like `20%:10m, 100%:30m`"),
            ("20:10m", "not a load curve"),
            ("20%:10m,", "not a load curve"),
            ("101%:10m", "at most 100%"),
            ("20%:0s", "the time of a stage of 0s"),
            ("20%:300d, 20%:300d", "at most 366d"),
        ] {
            let error = text.parse::<LoadCurve>().unwrap_err();
            assert!(format!("{error}").contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn a_machine_that_means_nothing_is_refused() {
        let micro = Machine::T2_MICRO;
        for machine in [
            Machine { cores: Count::default(), ..micro },
            Machine { cores: Count::new(1_025), ..micro },
            Machine { baseline: Ratio::ZERO, ..micro },
            Machine { baseline: Ratio::percent(101), ..micro },
            Machine { initial: Credits::new(145), ..micro },
        ] {
            assert!(course(&machine, &"1%:1m".parse().unwrap()).is_err(), "{machine:?}");
        }
    }

    proptest! {
        #[test]
        fn the_balance_stays_in_its_bounds_and_adds_up(
            stages in prop::collection::vec((0..=100u32, 1..10_000u64), 1..20),
            cores in 1..8u64,
        ) {
            let machine = Machine { cores: Count::new(cores), ..Machine::T2_MICRO };
            let stage = |(load, secs)| (Ratio::percent(load), Duration::from_secs(secs));
            let whole: u64 = stages.iter().map(|(_, secs)| secs).sum();
            let curve = LoadCurve::new(stages.into_iter().map(stage).collect()).unwrap();
            let course = course(&machine, &curve).unwrap();
            prop_assert!(course.points.iter().all(|point| point.balance <= machine.most));
            prop_assert!(course.points.is_sorted_by_key(|point| point.at));
            prop_assert_eq!(course.points.last().unwrap().at, Duration::from_secs(whole));
            let kept = 30.0 + course.earned.as_f64() - course.spent.as_f64();
            prop_assert!((kept - course.last().as_f64()).abs() < 1e-6);
            let throttled = course.points.iter().any(|point| point.carried < point.load);
            prop_assert_eq!(throttled, course.runs_out.is_some());
        }
    }
}
