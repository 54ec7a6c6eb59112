//! Series of single requests, target beside target.

use loadline_measure::record::{ProbeKind, ProbeRecord, ProbeSample, ProbeTarget};

use super::{capacity, load::shares, part, picture};
use crate::{
    figures::{bare_url, digits},
    page::{Block, Section},
    plot::{
        PlotError, Tone,
        layers::Layers,
        scatter::{Dot, Dots, times_by_number},
    },
    table::{Align, Table},
};

pub(super) fn section(name: &str, record: &ProbeRecord) -> Result<Section, PlotError> {
    let mut blocks = vec![Block::Table(targets(record))];
    if record.targets.iter().any(|target| !target.samples.is_empty()) {
        let series: Vec<_> = record.targets.iter().map(|target| dots(record, target)).collect();
        blocks.push(picture(times_by_number("Each by its number", &series)?));
    }
    if record.probe == ProbeKind::Ttfb
        && let Some(layers) = phases(record)
    {
        blocks.push(picture(layers.draw()?));
    }
    let what = match record.probe {
        ProbeKind::Ping => "Round trips",
        ProbeKind::Ttfb => "Time to first byte",
    };
    Ok(part(format!("{what}: {name}"), blocks))
}

/// The series of a target; where connections are kept, a ring is a request that opened one.
fn dots(record: &ProbeRecord, target: &ProbeTarget) -> Dots {
    let dot = |sample: &ProbeSample| Dot {
        number: sample.number,
        time: sample.good_time(),
        cold: record.keepalive && !sample.reused,
    };
    let name = bare_url(&target.target).to_owned();
    Dots { name, points: target.samples.iter().map(dot).collect() }
}

fn targets(record: &ProbeRecord) -> Table {
    let caption = match record.probe {
        ProbeKind::Ping => "Round trips",
        ProbeKind::Ttfb if record.keepalive => "Kept connections",
        ProbeKind::Ttfb => "A new connection each",
    };
    let headings =
        ["target", "protocol", "answered", "failed", "min", "median", "p95", "p99", "max"];
    let mut table = Table::new(caption, &headings);
    table.columns[1].align = Align::Left;
    for ProbeTarget { target, protocol, outcomes, time, .. } in &record.targets {
        table.push([
            target.as_str().into(),
            protocol.as_str().into(),
            outcomes.ok.to_string().into(),
            outcomes.failed().to_string().into(),
            capacity::time(time, time.min),
            capacity::time(time, time.p50),
            capacity::time(time, time.p95),
            capacity::time(time, time.p99),
            capacity::time(time, time.max),
        ]);
    }
    table
}

fn phases(record: &ProbeRecord) -> Option<Layers> {
    let names = ["DNS", "connect", "TLS", "first byte"];
    let tones = [Tone::Run(4), Tone::Run(6), Tone::Run(3), Tone::Run(0)];
    let answered = record.targets.iter().filter(|target| target.time.count > 0);
    let bar = |target: &ProbeTarget| {
        let [dns, connect, tls, first_byte, _] = shares(&target.phases, target.time.count);
        (target.target.clone(), vec![dns, connect, tls, first_byte])
    };
    let bars: Vec<_> = answered.map(bar).collect();
    let sentence = |(target, means): &(String, Vec<f64>)| {
        let named = names.iter().zip(means);
        let means: Vec<_> = named.map(|(name, mean)| format!("{name} {}", digits(*mean))).collect();
        format!("{target}: {} ms.", means.join(", "))
    };
    (!bars.is_empty()).then(|| Layers {
        title: "Phases up to the first byte, mean".into(),
        description: bars.iter().map(sentence).collect::<Vec<_>>().join(" "),
        quantity: "mean by phase, ms".into(),
        parts: names.into_iter().map(str::to_owned).zip(tones).collect(),
        bars,
    })
}

#[cfg(test)]
mod tests {
    use loadline_core::time::Duration;
    use loadline_measure::record::{Latency, Outcomes};

    use super::*;
    use crate::table::Cell;

    #[test]
    fn a_target_that_never_answered_has_no_times() {
        let time = Duration::from_millis(3);
        let good = ProbeTarget {
            target: "http://good/".into(),
            outcomes: Outcomes { ok: 60, ..Outcomes::default() },
            time: Latency { count: 60, min: time, p50: time, max: time, ..Latency::default() },
            ..ProbeTarget::default()
        };
        let silent = ProbeTarget {
            target: "http://silent/".into(),
            outcomes: Outcomes { server_error: 60, ..Outcomes::default() },
            ..ProbeTarget::default()
        };
        let targets = targets(&ProbeRecord { targets: vec![good, silent], ..Default::default() });
        let texts = |row: usize| targets.rows[row].iter().map(Cell::text).collect::<Vec<_>>();
        assert_eq!(texts(0)[4..6], ["3.0 ms", "3.0 ms"]);
        assert_eq!(texts(1)[2..], ["0", "60", "-", "-", "-", "-", "-"]);
    }

    #[test]
    fn pings_open_no_connections() {
        let caption = |probe| targets(&ProbeRecord { probe, ..ProbeRecord::default() }).caption;
        assert_eq!(caption(ProbeKind::Ping), "Round trips");
        assert_eq!(caption(ProbeKind::Ttfb), "A new connection each");
    }
}
