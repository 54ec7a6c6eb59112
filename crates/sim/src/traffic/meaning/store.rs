//! The ways between edges and the store through which they share.

use loadline_core::{time::Duration, units::Ratio};
use loadline_spanned::At;

use super::Reader;
use crate::traffic::{StoreLinks, file::StoreEntry};

impl Reader<'_> {
    /// The ways from the edges in these regions.
    pub(super) fn store(&mut self, at: Option<&At<StoreEntry>>, regions: &[String]) -> StoreLinks {
        let Some(at) = at else { return StoreLinks::near(regions.len()) };
        let StoreEntry { rtt, rtts, jitter, loss } = &at.value;
        let by_region = rtts.as_ref().map(|it| &it.value);
        let names: Vec<&str> = regions.iter().map(String::as_str).collect();
        for (rtts, region) in rtts.iter().flat_map(|it| it.value.keys().map(move |key| (it, key))) {
            if !regions.contains(region) {
                let message = format!("there is no edge in region `{region}`");
                self.error(&rtts.span, message, loadline_spanned::known(region, &names));
            }
        }
        let of = |region| by_region.and_then(|it| it.get(region)).copied().or(*rtt);
        let rtts = regions.iter().map(|region| of(region).unwrap_or(StoreLinks::NEAR));
        StoreLinks {
            rtts: rtts.collect(),
            jitter: jitter.unwrap_or(Duration::ZERO),
            loss: loss.as_ref().map_or(0.0, |it| self.loss(it)),
        }
    }

    fn loss(&mut self, at: &At<Ratio>) -> f64 {
        if at.value > Ratio::percent(50) {
            self.error(&at.span, "expected at most 50%".to_owned(), "write it like \"0.1%\"");
        }
        at.value.as_f64()
    }
}
