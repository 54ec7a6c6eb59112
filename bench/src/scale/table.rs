//! The costs of each size as a table, and what they are held against.

use std::fmt;

use serde_json::{Map, Value, json};

use super::Wanted;
use super::fleet::Size;
use crate::verdict::{Target, Verdict};

/// What one size costs; what was not measured is not a number.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    pub(crate) size: Size,
    pub(crate) start_s: f64,
    pub(crate) check_file_s: f64,
    /// Bytes, beyond those of a process without all these servers; with the administration too.
    pub(crate) memory: f64,
    pub(crate) memory_admin: f64,
    /// Of a core.
    pub(crate) idle_percent: f64,
    pub(crate) idle_admin_percent: f64,
    pub(crate) reload_s: f64,
    pub(crate) request_us: f64,
    pub(crate) health_check_us: f64,
    pub(crate) health_change_us: f64,
    pub(crate) scrape_s: f64,
    pub(crate) scrape_bytes: f64,
    /// By how much the process is larger at most while it is read.
    pub(crate) scrape_memory: f64,
    /// Why something was not measured.
    pub(crate) trouble: Option<String>,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
struct Figure {
    name: &'static str,
    value: f64,
    /// Below which it is not told apart from nothing.
    resolution: f64,
}

impl Costs {
    pub(crate) const fn unknown(size: Size) -> Self {
        let none = f64::NAN;
        Self {
            size,
            start_s: none,
            check_file_s: none,
            memory: none,
            memory_admin: none,
            idle_percent: none,
            idle_admin_percent: none,
            reload_s: none,
            request_us: none,
            health_check_us: none,
            health_change_us: none,
            scrape_s: none,
            scrape_bytes: none,
            scrape_memory: none,
            trouble: None,
        }
    }

    pub(crate) fn judge(&self, wanted: &Wanted) -> Vec<Verdict> {
        let Size { services, each } = self.size;
        let verdict = |what: &str, measured: f64, most: f64, unit| {
            let name = format!("scale, {services} services of {each}: {what}");
            let verdict = Verdict::new(name, measured, Target::AtMost(most)).unit(unit);
            verdict.flaw(self.trouble.clone().filter(|_| measured.is_nan()))
        };
        let mut verdicts = vec![
            verdict("listening", self.start_s, wanted.start_s, " s"),
            verdict("CPU of a reload", self.reload_s, wanted.reload_s, " s"),
            verdict("idle", self.idle_percent, wanted.idle_percent, " %"),
            verdict("idle, administered", self.idle_admin_percent, wanted.idle_percent, " %"),
        ];
        if let Some(most) = wanted.memory {
            let each = self.memory / self.size.servers() as f64;
            verdicts.push(verdict("memory of a server", each, most, " B"));
        }
        if let Some(most) = wanted.health_change_us {
            verdicts.push(verdict("health change", self.health_change_us, most, " us"));
        }
        verdicts
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut record: Map<String, Value> =
            self.figures().iter().map(|it| (it.name.to_owned(), json!(it.value))).collect();
        record.insert("services".to_owned(), json!(self.size.services));
        record.insert("each".to_owned(), json!(self.size.each));
        record.insert("servers".to_owned(), json!(self.size.servers()));
        record.insert("trouble".to_owned(), json!(self.trouble));
        Value::Object(record)
    }

    /// Of every figure in the record, with what is too small to be seen.
    pub(crate) fn names() -> impl Iterator<Item = (&'static str, f64)> {
        let none = Self::unknown(Size { services: 0, each: 0 });
        none.figures().into_iter().map(|figure| (figure.name, figure.resolution))
    }

    fn figures(&self) -> [Figure; 13] {
        let figure = |name, value, resolution| Figure { name, value, resolution };
        [
            figure("start, s", self.start_s, 0.02),
            figure("check of the file, s", self.check_file_s, 0.02),
            figure("memory, bytes", self.memory, 1e6),
            figure("memory with the administration, bytes", self.memory_admin, 1e6),
            figure("idle, % of a core", self.idle_percent, 0.1),
            figure("idle with the administration, % of a core", self.idle_admin_percent, 0.1),
            figure("reload, s of CPU", self.reload_s, 0.02),
            figure("request, us of CPU", self.request_us, 1.0),
            figure("health check, us of CPU", self.health_check_us, 1.0),
            figure("health change, us of CPU", self.health_change_us, 5.0),
            figure("scrape, s of CPU", self.scrape_s, 0.005),
            figure("size of a scrape, bytes", self.scrape_bytes, 1e6),
            figure("memory of a scrape, bytes", self.scrape_memory, 1e6),
        ]
    }
}

/// That no cost grows faster than the number of servers, by sizes each ten times the one before.
pub(crate) fn judge_growth(costs: &[Costs]) -> Vec<Verdict> {
    let figures: Vec<_> = costs.iter().map(Costs::figures).collect();
    let growth = |place: usize| {
        let steps = figures.windows(2).map(|pair| pair[1][place].growth_from(pair[0][place]));
        steps.fold(0.0, |most, step| if step.is_nan() { step } else { step.max(most) })
    };
    let verdict = |(place, (name, _)): (usize, (&str, f64))| {
        let name = format!("scale, ten times the servers: {name}");
        Verdict::new(name, growth(place), Target::AtMost(GROWTH_MOST))
    };
    Costs::names().enumerate().map(verdict).collect()
}

impl Figure {
    /// How many times the one of a smaller size it is.
    fn growth_from(self, smaller: Self) -> f64 {
        if self.value.is_nan() || smaller.value.is_nan() {
            return f64::NAN;
        }
        self.value / smaller.value.max(self.resolution)
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size { services, each } = self.size;
        let megabytes = |bytes: f64| bytes / 1e6;
        write!(
            f,
            "{services:>8}{each:>6}{:>8.3}{:>8.3}{:>8.1}{:>8.1}{:>8.2}{:>8.2}{:>8.3}{:>9.1}{:>7.0}\
             {:>8.1}{:>8.3}{:>8.1}{:>8.1}",
            self.start_s,
            self.check_file_s,
            megabytes(self.memory),
            megabytes(self.memory_admin),
            self.idle_percent,
            self.idle_admin_percent,
            self.reload_s,
            self.request_us,
            self.health_check_us,
            self.health_change_us,
            self.scrape_s,
            megabytes(self.scrape_bytes),
            megabytes(self.scrape_memory),
        )?;
        self.trouble.as_ref().map_or(Ok(()), |trouble| write!(f, "\n         {trouble}"))
    }
}

/// The name of these figures in the record of a run.
pub(crate) const RECORD: &str = "costs";

pub(crate) const HEAD: &str = "                 start   check     memory, MB     idle, %  reload  \
                               request  check  change  scrape of which
services  each       s       s        with admin   with admin   CPU s       us     us      us   \
                               CPU s      MB   MB RAM";

/// Ten times, and what two measurements differ by.
const GROWTH_MOST: f64 = 12.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(services: usize, reload_s: f64) -> Costs {
        Costs { reload_s, ..Costs::unknown(Size { services, each: 10 }) }
    }

    #[test]
    fn a_cost_that_grows_faster_than_the_servers_fails_and_one_too_small_to_see_does_not() {
        let reload = |figures: [f64; 3]| {
            let sizes = [100, 1_000, 10_000].into_iter().zip(figures);
            let sizes: Vec<Costs> = sizes.map(|(count, reload)| costs(count, reload)).collect();
            let verdicts = judge_growth(&sizes);
            verdicts.into_iter().find(|it| it.to_string().contains("reload")).unwrap()
        };
        assert!(!reload([0.1, 1.0, 9.0]).failed());
        assert!(reload([0.1, 0.2, 2.6]).failed());
        assert!(!reload([0.000_1, 0.01, 0.2]).failed());
        assert!(reload([0.1, f64::NAN, 0.1]).failed(), "what was not measured");
    }

    #[test]
    fn what_could_not_be_measured_fails_and_says_why() {
        let trouble = Some("not in force".to_owned());
        let costs = Costs { trouble, start_s: 0.5, ..costs(10, 0.1) };
        let wanted = &super::super::WANTED[1];
        let said: Vec<String> = costs.judge(wanted).iter().map(ToString::to_string).collect();
        assert_eq!(said[0], "PASS scale, 10 services of 10: listening 0.50 s (<= 1.00 s)");
        assert!(said[2].starts_with("FAIL") && said[2].ends_with("not in force"), "{}", said[2]);
    }
}
