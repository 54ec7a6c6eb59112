//! What goes wrong.

use loadline_core::{
    time::{Duration, Instant},
    units::Ratio,
};
use loadline_spanned::At;

use super::{Lasts, Reader};
use crate::{
    scenario::{Fault, Trouble},
    station::OutageKind,
    traffic::file::FaultEntry,
};

/// What goes wrong, as it is called.
#[derive(Clone, Copy, Debug)]
enum Word {
    Down,
    Unreachable,
    Slow,
    Stall,
    Errors,
    Traffic,
    Cache,
    StoreAway,
    CutOff,
}

impl Reader<'_> {
    pub(super) fn fault(&mut self, at: &At<FaultEntry>) -> Option<Fault> {
        let fault = &at.value;
        let of = [&fault.region, &fault.service, &fault.group, &fault.server].map(Option::as_ref);
        let whom = self.selector(of);
        let what = match self.word(&fault.what, &WORDS)? {
            Word::Down => Trouble::Outage(OutageKind::Down),
            Word::Unreachable => Trouble::Outage(OutageKind::Unreachable),
            Word::Slow => Trouble::Slow(self.factor(at, SLOW_MAX)?),
            Word::Stall => Trouble::Stall,
            Word::Errors => Trouble::Errors(self.share(at)?),
            Word::Traffic => Trouble::Traffic(self.factor(at, TRAFFIC_MAX)?),
            Word::Cache => Trouble::Cache,
            Word::StoreAway => Trouble::StoreAway,
            Word::CutOff => Trouble::CutOff,
        };
        self.begins(&fault.at);
        let at = Instant::ZERO + fault.at.value.max(Duration::from_nanos(1));
        Some(Fault { at, lasts: self.positive(fault.lasts.as_ref()), what, whom })
    }

    /// Sees to it that a fault begins while requests come.
    fn begins(&mut self, at: &At<Duration>) {
        let (Lasts::Here(lasts) | Lasts::Elsewhere(lasts)) = self.lasts;
        if at.value < lasts {
            return;
        }
        let message = format!("it never begins: requests come for {lasts}");
        let help = "let it begin earlier, or make `duration` longer";
        match self.lasts {
            Lasts::Here(_) => self.error(&at.span, message, help),
            // Somebody who looks at the beginning alone may mean that.
            Lasts::Elsewhere(_) => self.problems.warning(&at.span, message, "this", help),
        }
    }

    fn factor(&mut self, at: &At<FaultEntry>, most: f64) -> Option<f64> {
        let Some(factor) = &at.value.factor else {
            let message = format!("`{}` needs `factor`", at.value.what.value);
            self.error(&at.span, message, "add how many times: factor = 3.0");
            return None;
        };
        self.at_most(most, factor.value, &factor.span);
        self.above(0.0, factor).filter(|factor| *factor <= most)
    }

    fn share(&mut self, at: &At<FaultEntry>) -> Option<f64> {
        let Some(share) = &at.value.share else {
            let help = "add which share of responses is an error: share = \"10%\"";
            self.error(&at.span, "`errors` needs `share`".to_owned(), help);
            return None;
        };
        if share.value > Ratio::ONE {
            self.error(&share.span, "expected at most 100%".to_owned(), "write it like \"10%\"");
            return None;
        }
        Some(share.value.as_f64())
    }
}

/// A millisecond takes a quarter of an hour.
const SLOW_MAX: f64 = 1e6;

/// Beyond this the rate itself is another.
const TRAFFIC_MAX: f64 = 1e3;

const WORDS: [(&str, Word); 9] = [
    ("down", Word::Down),
    ("unreachable", Word::Unreachable),
    ("slow", Word::Slow),
    ("stall", Word::Stall),
    ("errors", Word::Errors),
    ("traffic", Word::Traffic),
    ("cache", Word::Cache),
    ("store-away", Word::StoreAway),
    ("cut-off", Word::CutOff),
];
