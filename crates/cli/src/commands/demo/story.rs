//! The result as people read it: tables for the terminal, and a page with pictures around them.

use std::thread::available_parallelism;

use loadline_core::{
    time::Duration,
    units::{Rate, Ratio},
};
use loadline_measure::record::{LoadRecord, Series, StudyVerdict};
use loadline_report::{
    Block, Cell, Curve, Mark, Page, Pair, Pairs, Picture, PlotError, Section, Share, Table, Tone,
    compare, millis, over_time, percent, response_against_rate, share_against_rate, utc,
};

use super::{
    judge,
    plan::{CORES, DISTANCE, MAX_RATE, SCALE, SERVERS, SERVICE_TIME},
    published,
    site::{FAR, NEAR},
    study::{Measured, answered, near_share, rate},
};

/// The parts of the study with their texts, tables and pictures.
pub(crate) fn sections(measured: &Measured) -> Result<Vec<Section>, PlotError> {
    Ok(vec![
        one_server(measured),
        one_region(measured)?,
        two_regions(measured)?,
        failover(measured)?,
    ])
}

/// The whole page.
pub(crate) fn page(
    measured: &Measured,
    sections: Vec<Section>,
    verdicts: Vec<StudyVerdict>,
) -> Page {
    let cores = available_parallelism().map_or_else(|_| "?".to_owned(), |cores| cores.to_string());
    let runs = measured.runs();
    let began = runs.iter().map(|run| run.record.started_unix_ms).min().unwrap_or_default();
    let lead = LEAD.iter().map(|text| (*text).to_owned());
    Page {
        title: TITLE.into(),
        lead: lead.chain(faults(measured)).collect(),
        verdicts,
        sections,
        footer: format!(
            "Measured {} by loadline {} with {cores} processors. Workers, proxy and load generator \
             were separate processes on the loopback. Response times count from the instant a \
             request was planned for.",
            utc(began),
            env!("CARGO_PKG_VERSION"),
        ),
    }
}

/// How many runs could not be judged, and what helps; none where all could.
pub(crate) fn faults(measured: &Measured) -> Option<String> {
    let late = judge::late_runs(measured);
    let lag = late.iter().map(|run| run.record.lag.p99).max()?;
    Some(format!(
        "{} of {} runs made verdicts INVALID (p99 of their lag up to {}): let the demo run while \
         the machine does nothing else. The faults of each run are in the output of --json.",
        late.len(),
        measured.runs().len(),
        millis(lag),
    ))
}

fn one_server(measured: &Measured) -> Section {
    let headings =
        ["rate", "average", "x 10", "published", "maximum", "failed", "published", "verdict"];
    let requests = measured.one_server.first().map_or(0, |record| record.planned);
    let caption = format!("One server, {requests} requests at each rate (published: 500)");
    let mut table = Table::new(caption, &headings);
    let verdicts = judge::one_server(&measured.one_server);
    let rows = measured.one_server.iter().zip(published::ONE_SERVER).zip(&verdicts);
    for ((record, published), verdict) in rows {
        table.push([
            rate(record).to_string().into(),
            millis(record.response.mean).into(),
            scaled(record.response.mean).into(),
            format!("{:.1} ms", published.average).into(),
            millis(record.response.max).into(),
            record.outcomes.failed().to_string().into(),
            published.errors.to_string().into(),
            Cell::of_verdict(verdict),
        ]);
    }
    let text = format!(
        "A server has {CORES} cores that take {} for a request, so it carries {} per second. \
         Beyond that nothing makes it faster: requests wait, longer with every request.",
        millis(SERVICE_TIME),
        carried(1),
    );
    Section {
        heading: "(a) One server".into(),
        blocks: vec![Block::Text(text), Block::Table(table)],
    }
}

fn one_region(measured: &Measured) -> Result<Section, PlotError> {
    let headings = ["rate", "average", "x 10", "published", "maximum", "failed", "verdict"];
    let mut table = Table::new("One region of three servers", &headings);
    let verdicts = judge::one_region(&measured.one_region);
    for (record, verdict) in measured.one_region.iter().zip(&verdicts) {
        table.push([
            rate(record).to_string().into(),
            millis(record.response.mean).into(),
            scaled(record.response.mean).into(),
            published_region(rate(record)).into(),
            millis(record.response.max).into(),
            record.outcomes.failed().to_string().into(),
            Cell::of_verdict(verdict),
        ]);
    }
    let text = format!(
        "The proxy spreads requests over {SERVERS} servers that carry {} per second. Nothing \
         tells it what they carry, and there is nowhere else to go: at 200/s the average is many \
         times that at 100/s, and rises for as long as the load lasts.",
        carried(SERVERS),
    );
    let mark = Mark {
        rate: Rate::per_sec(carried(SERVERS)),
        text: format!("a region carries {}/s", carried(SERVERS)),
    };
    let curves = [
        curve("one region", Tone::Warm, &measured.one_region),
        curve("two regions", Tone::Cool, &measured.two_regions),
    ];
    let title = "Response time against rate: one region, and two with overflow";
    let picture = response_against_rate(title, &curves, &[mark])?;
    Ok(Section {
        heading: "(b) One region of three servers".into(),
        blocks: vec![Block::Text(text), Block::Picture(picture), Block::Table(table)],
    })
}

fn two_regions(measured: &Measured) -> Result<Section, PlotError> {
    let text = format!(
        "A second region stands {} away, for the 110 ms that the sister tutorial measures; this \
         one does not say how far its regions are apart. Each is given at most {MAX_RATE}. The \
         proxy counts every request against that rate, so the first request over it is the first \
         that goes far: the excess and no more, from the first second of the first run. The \
         published system measures rates over intervals and needed three runs to settle.",
        millis(DISTANCE),
    );
    Ok(Section {
        heading: "(c) Two regions of three servers, 100/s each".into(),
        blocks: vec![
            Block::Text(text),
            Block::Picture(five_runs(measured)?),
            Block::Table(double_table(measured)),
            Block::Picture(shares(measured)?),
            Block::Table(curve_table(measured)),
        ],
    })
}

fn double_table(measured: &Measured) -> Table {
    let headings =
        ["run", "average", "x 10", "published", "maximum", "x 10", "published", "far", "verdict"];
    let caption = "Once at 100/s, then five runs at 200/s, from a fresh proxy";
    let mut table = Table::new(caption, &headings);
    let verdicts = judge::double_rate(&measured.once, &measured.double);
    // The first verdict is on the one run, then each of the five has two.
    let once = verdicts.first().map_or_else(|| "".into(), Cell::of_verdict);
    let runs = verdicts.get(1..).unwrap_or_default().chunks(2);
    let runs = runs.filter_map(|both| both.iter().find(|verdict| !verdict.pass).or(both.first()));
    let names = (1..).map(|number| format!("run {number}"));
    let rows = measured.double.iter().zip(published::TWO_REGIONS_DOUBLE).zip(runs).zip(names);
    table.push(double_row("100/s".into(), &measured.once, published::TWO_REGIONS_ONCE, once));
    for (((record, published), verdict), name) in rows {
        table.push(double_row(name, record, published, Cell::of_verdict(verdict)));
    }
    table
}

fn double_row(
    name: String,
    record: &LoadRecord,
    published: published::Run,
    verdict: Cell,
) -> [Cell; 9] {
    [
        name.into(),
        millis(record.response.mean).into(),
        scaled(record.response.mean).into(),
        format!("{:.1} ms", published.average).into(),
        millis(record.response.max).into(),
        scaled(record.response.max).into(),
        format!("{:.1} ms", published.max).into(),
        far_share(record).into(),
        verdict,
    ]
}

fn curve_table(measured: &Measured) -> Table {
    let headings = ["rate", "average", "maximum", "far", "failed"];
    let mut table = Table::new("Two regions at the rates of the single one", &headings);
    for record in &measured.two_regions {
        table.push([
            rate(record).to_string().into(),
            millis(record.response.mean).into(),
            millis(record.response.max).into(),
            far_share(record).into(),
            record.outcomes.failed().to_string().into(),
        ]);
    }
    table
}

fn failover(measured: &Measured) -> Result<Section, PlotError> {
    let text = "Under 100/s the three near servers are killed (SIGKILL). Requests that were on \
                their way to them are sent again, to another server, the last time to one of \
                another group. The near group falls below its share of healthy servers and \
                yields to the far one."
        .to_owned();
    let timeline = measured.timeline();
    let title = "The near region is killed: response time and shares by tenths of a second";
    let picture = over_time(title, &timeline)?;
    let mut table = Table::new(
        "Before and after",
        &["", "requests", "near", "far", "failed", "average", "maximum"],
    );
    let killed = (measured.killed_at.as_nanos() / timeline.step.as_nanos()) as usize;
    let (before, after) = measured.failover.split_at(killed.min(measured.failover.len()));
    let (during, after) = after.split_at(after.len().min(WHILE_CHANGING));
    for (name, slices) in [("before", before), ("0.5 s after", during), ("later", after)] {
        table.push(failover_row(name, slices));
    }
    Ok(Section {
        heading: "(d) The near region is killed under load".into(),
        blocks: vec![Block::Text(text), Block::Picture(picture), Block::Table(table)],
    })
}

fn failover_row(name: &str, slices: &[LoadRecord]) -> [Cell; 7] {
    let sum = |of: &dyn Fn(&LoadRecord) -> u64| slices.iter().map(of).sum::<u64>();
    let answers = sum(&|slice| slice.response.count);
    let total = sum(&|slice| slice.response.mean.as_nanos() * slice.response.count);
    let mean = Duration::from_nanos(total.checked_div(answers).unwrap_or(0));
    let max = slices.iter().map(|slice| slice.response.max).max().unwrap_or_default();
    [
        name.into(),
        sum(&|slice| slice.planned).to_string().into(),
        sum(&|slice| answered(slice, NEAR)).to_string().into(),
        sum(&|slice| answered(slice, FAR)).to_string().into(),
        sum(&|slice| slice.outcomes.failed()).to_string().into(),
        millis(mean).into(),
        millis(max).into(),
    ]
}

fn curve(name: &str, tone: Tone, records: &[LoadRecord]) -> Curve {
    let points = records.iter().map(|record| (rate(record), record.response.clone())).collect();
    Curve { tone, series: Series { name: name.into(), points } }
}

fn five_runs(measured: &Measured) -> Result<Picture, PlotError> {
    let ms = |time: Duration| (time * SCALE).as_millis_f64();
    let requests = measured.double.first().map_or(0, |record| record.planned);
    let pair = |(published, record): (published::Run, &LoadRecord)| Pair {
        published: published.average,
        measured: ms(record.response.mean),
    };
    let pairs = Pairs {
        quantity: "average response time, ms (measured x 10)".into(),
        each: format!("run of {requests} requests at 200/s"),
        pairs: published::TWO_REGIONS_DOUBLE.into_iter().zip(&measured.double).map(pair).collect(),
        limit: Some((1.5 * ms(measured.once.response.mean), "1.5 times that at 100/s:".into())),
    };
    compare("Five runs at double rate, from a fresh proxy", &pairs)
}

fn shares(measured: &Measured) -> Result<Picture, PlotError> {
    let share = |record: &LoadRecord| Share { rate: rate(record), near: near_share(record) };
    let shares: Vec<_> = measured.two_regions.iter().map(share).collect();
    share_against_rate("Share of traffic by region against rate", &shares, MAX_RATE)
}

fn far_share(record: &LoadRecord) -> String {
    let (near, far) = (answered(record, NEAR), answered(record, FAR));
    percent(Ratio::part(far, near + far))
}

fn published_region(rate: Rate) -> String {
    let published = published::ONE_REGION.iter();
    let mut same = published.filter(|(per_sec, _)| Rate::per_sec(per_sec * SCALE) == rate);
    same.next().map(|(_, average)| format!("{average:.0} ms")).unwrap_or_default()
}

fn scaled(time: Duration) -> String {
    millis(time * SCALE)
}

/// What so many servers carry, in whole requests per second.
fn carried(servers: usize) -> u64 {
    let millis = SERVICE_TIME.as_nanos() / 1_000_000;
    (servers as u64 * CORES * 1_000 + millis / 2) / millis
}

/// Heading and tab of the page.
pub(crate) const TITLE: &str = "loadline demo: two regions held to their capacity";

const LEAD: [&str; 2] = [
    "The tutorial \"Capacity management with load balancing\" at ten times its speed: a request \
     takes 38 ms where theirs took 380 ms, and comes ten times as often. Times in columns \
     headed \"x 10\" compare with the published ones.",
    "A load balancer that only spreads load drowns with its region. One that knows what each \
     region carries keeps it there, and sends the excess where there is room.",
];
/// Slices shown apart after the kill.
const WHILE_CHANGING: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::demo::judge::tests::{late, measured, record};

    #[test]
    fn the_page_says_when_it_was_measured() {
        let mut run = record(40, 38.4, 40.0);
        run.started_unix_ms = 1_795_233_600_000;
        let page = page(&measured(&run), Vec::new(), Vec::new());
        assert!(page.html().contains("Measured 2026-11-21"), "{}", page.footer);
    }

    #[test]
    fn the_page_tells_above_its_verdicts_how_many_runs_could_not_be_judged() {
        let mut run = late(record(40, 38.4, 40.0));
        run.lag.p99 = Duration::from_millis(12);
        let measured = measured(&run);
        let html = page(&measured, Vec::new(), judge::all(&measured)).html();
        let (above, below) = html.split_once("Verdicts").unwrap();
        // All three were late, and what stands on the other two could be judged.
        assert!(
            above.contains("1 of 3 runs made verdicts INVALID (p99 of their lag up to 12.0 ms)")
        );
        assert!(below.contains(">INVALID</td>") && below.contains("could not be judged."));
    }

    #[test]
    fn late_slices_that_change_no_verdict_are_not_told_of() {
        let mut measured = measured(&record(40, 38.4, 40.0));
        measured.failover = vec![late(record(100, 70.0, 90.0)); 70];
        assert_eq!(faults(&measured), None);
        measured.failover = vec![late(record(100, 70.0, 1000.0)); 70];
        assert!(faults(&measured).unwrap().starts_with("70 of 72 runs made verdicts INVALID ("));
    }
}
