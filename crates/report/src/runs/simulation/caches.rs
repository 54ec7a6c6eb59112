//! What caches of edges did in a simulated run: hit ratios, and what was left to the servers.

use loadline_measure::record::{CacheMoment, SimulatedCache};

use super::{BARS, SPARK_WIDTH};
use crate::{
    figures::{digits, percent_to_tenths},
    plot::{
        PlotError, Tone,
        lines::{Along, Chart, Kind, Line, Lines},
        panel::Stroke,
        picture::Picture,
    },
    table::{Align, Table},
};

pub(super) fn table(caches: &[SimulatedCache]) -> Table {
    let headings = [
        "cache", "hit ratio over time", "requests", "hits", "of bytes", "joined", "stale",
        "to servers",
    ];
    let mut table = Table::new("What caches answered", &headings);
    table.columns[1].align = Align::Left;
    for cache in caches {
        table.push([
            cache.edge.as_str().into(),
            spark(&cache.moments).into(),
            cache.requests.to_string().into(),
            percent_to_tenths(cache.hit_ratio).into(),
            percent_to_tenths(cache.byte_hit_ratio).into(),
            cache.collapsed.to_string().into(),
            cache.stale.to_string().into(),
            cache.fetches.to_string().into(),
        ]);
    }
    table
}

/// The hit ratio over time, from none to all.
fn spark(moments: &[CacheMoment]) -> String {
    let per_bar = moments.len().div_ceil(SPARK_WIDTH).max(1);
    let bars = moments.chunks(per_bar).map(|some| {
        let hits = some.iter().fold(0_u64, |sum, it| sum.saturating_add(it.hits));
        let requests = some.iter().fold(0_u64, |sum, it| sum.saturating_add(it.requests));
        let level = hits as f64 / requests.max(1) as f64 * (BARS.len() - 1) as f64;
        BARS[(level.round() as usize).min(BARS.len() - 1)]
    });
    bars.collect()
}

/// The hit ratio by requests and by bytes, and below it the load of the servers.
pub(super) fn over_time(title: String, cache: &SimulatedCache) -> Result<Picture, PlotError> {
    let points = |of: &dyn Fn(&CacheMoment) -> f64| {
        cache.moments.iter().map(|it| (it.at.as_secs_f64(), of(it))).collect()
    };
    let line = |name: &str, tone, stroke, points| Line {
        name: name.to_owned(),
        tone,
        stroke,
        points,
        dots: false,
    };
    // Where nothing was asked for there is no ratio.
    let ratio = |part: u64, whole: u64| part as f64 * 100.0 / whole as f64;
    let by_requests = points(&|it| ratio(it.hits, it.requests));
    let by_bytes = points(&|it| ratio(it.bytes.saturating_sub(it.bytes_fetched), it.bytes));
    let ratios = vec![
        line("of requests", Tone::Run(0), Stroke::Thick, by_requests),
        line("of bytes", Tone::Run(1), Stroke::Dashed, by_bytes),
    ];
    let load = points(&|it| it.fetches_per_s);
    let load = vec![line("to servers", Tone::Run(0), Stroke::Thick, load)];
    let charts = [("hit ratio, %", ratios), ("requests/s that go on to the servers", load)];
    let charts =
        charts.map(|(title, lines)| Chart { title: title.into(), lines, kind: Kind::Even });
    let (all, hits) = (cache.requests, percent_to_tenths(cache.hit_ratio));
    let most = cache.moments.iter().map(|it| it.fetches_per_s).fold(0.0, f64::max);
    let most = digits(most);
    let lines = Lines {
        title,
        description: format!(
            "{hits} of {all} requests were hits; at most {most} per second went on to the servers."
        ),
        x_title: "simulated seconds".into(),
        x: Along::Time,
        charts: charts.into(),
        marks: Vec::new(),
    };
    lines.draw()
}
