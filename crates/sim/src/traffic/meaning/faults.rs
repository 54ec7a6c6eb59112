//! What goes wrong.

use loadline_core::{
    time::{Duration, Instant},
    units::Ratio,
};
use loadline_spanned::{At, Span};

use super::{Lasts, Reader};
use crate::{
    scenario::{Fault, Selector, Trouble},
    station::OutageKind,
    traffic::file::FaultEntry,
};

/// What goes wrong, as it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        let word = self.word(&fault.what, &WORDS)?;
        self.fits_fault(at, word);
        self.hits(at, word, &whom);
        let what = match word {
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
        self.begins(&fault.at.span, fault.at.value, "it never begins");
        let at = Instant::ZERO + fault.at.value.max(Duration::from_nanos(1));
        Some(Fault { at, lasts: self.positive(fault.lasts.as_ref()), what, whom })
    }

    /// Keys that other faults have.
    fn fits_fault(&mut self, at: &At<FaultEntry>, word: Word) {
        let FaultEntry { what, factor, share, region, service, group, server, .. } = &at.value;
        let (has_region, has_service, has_server) = match word {
            Word::Traffic => (true, true, false),
            Word::Cache | Word::CutOff => (true, false, false),
            Word::StoreAway => (false, false, false),
            _ => (true, true, true),
        };
        let span = |key: &Option<At<String>>| key.as_ref().map(|at| at.span.clone());
        let keys = [
            ("factor", factor.as_ref().map(|at| at.span.clone()), word.has_factor()),
            ("share", share.as_ref().map(|at| at.span.clone()), word == Word::Errors),
            ("region", span(region), has_region),
            ("service", span(service), has_service),
            ("group", span(group), has_server),
            ("server", span(server), has_server),
        ];
        for (key, said, has) in keys {
            if let Some(said) = said.filter(|_| !has) {
                let message = format!("`{key}` has no effect on `{}`", what.value);
                self.error(&said, message, format!("leave it out{}", word.hint()));
            }
        }
    }

    /// Checks that the fault affects something.
    fn hits(&mut self, at: &At<FaultEntry>, word: Word, whom: &Selector) {
        let is_there = |region: &String| whom.region.as_ref().is_none_or(|said| said == region);
        let is_asked = |service: &usize| {
            let name = &self.fleet.services[*service].name;
            whom.service.as_ref().is_none_or(|said| said == name)
        };
        let Some(asked) = &self.asked else { return };
        let mut asked = asked.iter();
        let (hits, who) = match word {
            Word::StoreAway => return,
            Word::Traffic => {
                let hits = asked.any(|(region, service)| is_there(region) && is_asked(service));
                (hits, "no source comes in there and asks that service")
            }
            Word::Cache => (self.cached.iter().any(is_there), "no edge there has a cache"),
            Word::CutOff => (asked.any(|(region, _)| is_there(region)), "there is no edge there"),
            Word::Down | Word::Unreachable if whom.is_region() => {
                let hits = asked.any(|(region, _)| is_there(region));
                if hits {
                    return;
                }
                return self.selects_a_server(whom, &at.span);
            }
            _ => return self.selects_a_server(whom, &at.span),
        };
        if !hits && self.has_names(whom) {
            let message = format!("`{}` hits nothing: {who}", at.value.what.value);
            self.error(&at.span, message, "sources say where requests come in, with `edge`");
        }
    }

    /// Sees to it that something begins while requests come, and says whether it does.
    pub(super) fn begins(&mut self, span: &Span, at: Duration, complaint: &str) -> bool {
        let (Lasts::Here(lasts) | Lasts::Elsewhere(lasts)) = self.lasts;
        if at < lasts {
            return true;
        }
        let message = format!("{complaint}: requests come for {lasts}");
        let help = "let it begin earlier, or make `duration` longer";
        match self.lasts {
            Lasts::Here(_) => self.error(span, message, help),
            // Somebody who looks at the beginning alone may mean that.
            Lasts::Elsewhere(_) => self.problems.warning(span, message, "this", help),
        }
        false
    }

    fn factor(&mut self, at: &At<FaultEntry>, most: f64) -> Option<f64> {
        let Some(factor) = &at.value.factor else {
            let message = format!("`{}` needs `factor`", at.value.what.value);
            self.error(&at.span, message, "add how many times: factor = 3.0");
            return None;
        };
        let value = self.above(0.0, factor)?;
        self.at_most(most, value, &factor.span);
        (value <= most).then_some(value)
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

impl Word {
    fn has_factor(self) -> bool {
        matches!(self, Self::Slow | Self::Traffic)
    }

    /// What to say where a key does not fit.
    fn hint(self) -> &'static str {
        match self {
            Self::Down | Self::Unreachable | Self::Stall => "; `slow` has `factor`",
            Self::Traffic => "; whose traffic it is, `region` and `service` say",
            Self::Cache | Self::CutOff => "; which edges have it, `region` says",
            Self::StoreAway => "; the store is away for all",
            Self::Slow => "; `errors` has `share`",
            Self::Errors => "; `errors` has `share`, and `slow` and `traffic` have `factor`",
        }
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
