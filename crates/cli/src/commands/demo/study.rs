//! The four parts of the study, and what they measured.
//!
//! Parts (a) and the curves of (b) and (c) run side by side, each against processes of its own:
//! the workers wait rather than compute, so they do not take each other's time, and both curves
//! see the same machine. The five runs and the failure have the machine to themselves.

use loadline_core::{
    time::Duration,
    units::{Count, Rate, Ratio},
};
use loadline_measure::record::{LoadModel, LoadRecord, StudyRecord, StudyRun, StudyVerdict};
use loadline_report::{Slice, Timeline};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use super::{
    plan::{Load, MAX_RATE, Plan, RUNS, SERVER_RATES, SLICE, SLICE_LOAD},
    process::bench,
    progress::Progress,
    site::{DemoProcesses, FAR, NEAR, Shape, worker},
};

/// Every record of the study.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// (a) One server at [`SERVER_RATES`].
    pub(crate) one_server: Vec<LoadRecord>,
    /// (b) One region, in the order of rates.
    pub(crate) one_region: Vec<LoadRecord>,
    /// (c) Two regions at the same rates.
    pub(crate) two_regions: Vec<LoadRecord>,
    /// (c) Two regions, afresh: once at the capacity of one.
    pub(crate) once: LoadRecord,
    /// (c) The same proxy, then five times at twice that.
    pub(crate) double: Vec<LoadRecord>,
    /// (d) The run with the failure, slice by slice.
    pub(crate) failover: Vec<LoadRecord>,
    /// (d) When the near region was killed, from the beginning.
    pub(crate) killed_at: Duration,
}

impl Measured {
    /// Every run with its name.
    pub(crate) fn runs(&self) -> Vec<StudyRun> {
        let named = |part: &'static str, records: &[LoadRecord]| -> Vec<StudyRun> {
            let run = |(index, record): (usize, &LoadRecord)| StudyRun {
                name: format!("{part}, {}, {}", index + 1, rate(record)),
                record: record.clone(),
            };
            records.iter().enumerate().map(run).collect()
        };
        [
            named("one server", &self.one_server),
            named("one region", &self.one_region),
            named("two regions", &self.two_regions),
            named("two regions, once", std::slice::from_ref(&self.once)),
            named("two regions, double rate", &self.double),
            named("near region killed, slice", &self.failover),
        ]
        .concat()
    }

    /// The record of every run, in the order of [`Measured::runs`].
    pub(crate) fn records_mut(&mut self) -> impl Iterator<Item = &mut LoadRecord> {
        let before = self.one_server.iter_mut().chain(&mut self.one_region);
        let before = before.chain(&mut self.two_regions).chain([&mut self.once]);
        before.chain(&mut self.double).chain(&mut self.failover)
    }

    /// Everything that was measured and judged, for programs to read.
    pub(crate) fn record(&self, title: &str, verdicts: &[StudyVerdict]) -> StudyRecord {
        StudyRecord {
            title: title.to_owned(),
            pass: verdicts.iter().all(|verdict| verdict.pass),
            verdicts: verdicts.to_vec(),
            runs: self.runs(),
            lab: None,
        }
    }

    /// The run with the failure as a time line.
    pub(crate) fn timeline(&self) -> Timeline {
        let slice = |record: &LoadRecord| Slice {
            mean: record.response.mean,
            max: record.response.max,
            near: Count::new(answered(record, NEAR)),
            far: Count::new(answered(record, FAR)),
            failed: Count::new(record.outcomes.failed()),
        };
        let event = (self.killed_at, "near region killed".to_owned());
        Timeline { step: SLICE, slices: self.failover.iter().map(slice).collect(), event }
    }
}

/// The rate a record was planned with; zero for a closed loop.
pub(crate) fn rate(record: &LoadRecord) -> Rate {
    match record.model {
        LoadModel::Open { rate, .. } => rate,
        LoadModel::Closed { .. } => Rate::default(),
    }
}

/// Requests that servers of this region answered.
pub(crate) fn answered(record: &LoadRecord, region: &str) -> u64 {
    let of_region = |name: &&String| name.strip_prefix(region).is_some_and(|n| n.starts_with('-'));
    let names = record.by_header.keys().filter(of_region);
    names.filter_map(|name| record.by_header.get(name)).sum()
}

/// The near region's part of all responses.
pub(crate) fn near_share(record: &LoadRecord) -> Ratio {
    let near = answered(record, NEAR);
    Ratio::part(near, near + answered(record, FAR))
}

/// Runs all four parts.
pub(crate) async fn run(plan: &Plan, progress: &Progress) -> anyhow::Result<Measured> {
    let one_server = one_server(plan, progress).await?;
    let (one_region, two_regions) = curves(plan, progress).await?;
    let (once, double) = double_rate(plan, progress).await?;
    let failover = failover(plan, progress).await?;
    let killed_at = SLICE * u64::from(plan.killed_at);
    Ok(Measured { one_server, one_region, two_regions, once, double, failover, killed_at })
}

async fn one_server(plan: &Plan, progress: &Progress) -> anyhow::Result<Vec<LoadRecord>> {
    progress.step("(a) one server: 40, 50, 70 and 100 per second, a server each");
    let measure = async |rate| {
        let server = worker(NEAR, 1).await?;
        bench(server.address, Load::new(rate, plan.server_requests)).await
    };
    let [a, b, c, d] = SERVER_RATES;
    let (a, b, c, d) = tokio::try_join!(measure(a), measure(b), measure(c), measure(d))?;
    progress.done();
    Ok(vec![a, b, c, d])
}

async fn curves(
    plan: &Plan,
    progress: &Progress,
) -> anyhow::Result<(Vec<LoadRecord>, Vec<LoadRecord>)> {
    let one = DemoProcesses::start(Shape::OneRegion).await?;
    let two = DemoProcesses::start(Shape::TwoRegions(MAX_RATE)).await?;
    let (mut one_region, mut two_regions) = (Vec::new(), Vec::new());
    for load in &plan.curve {
        progress.step(&format!("(b, c) one region and two, side by side: {}", load.rate));
        let both = tokio::try_join!(bench(one.address(), *load), bench(two.address(), *load))?;
        one_region.push(both.0);
        two_regions.push(both.1);
        progress.done();
    }
    Ok((one_region, two_regions))
}

async fn double_rate(
    plan: &Plan,
    progress: &Progress,
) -> anyhow::Result<(LoadRecord, Vec<LoadRecord>)> {
    let site = DemoProcesses::start(Shape::TwoRegions(MAX_RATE)).await?;
    progress.step(&format!("(c) two regions, a fresh proxy: {}", plan.once.rate));
    let once = bench(site.address(), plan.once).await?;
    progress.done();
    let mut double = Vec::with_capacity(RUNS);
    for number in 1..=RUNS {
        progress.step(&format!("(c) run {number} of {RUNS}: {}", plan.double.rate));
        double.push(bench(site.address(), plan.double).await?);
        progress.done();
    }
    Ok((once, double))
}

/// One load, cut into runs of the generator that each begin at their own instant whatever became
/// of those before, so that each slice has a record of its own.
async fn failover(plan: &Plan, progress: &Progress) -> anyhow::Result<Vec<LoadRecord>> {
    let mut site = DemoProcesses::start(Shape::TwoRegions(MAX_RATE)).await?;
    progress.step(&format!("(d) {} servers at 100/s: the near 3 are killed", site.servers()));
    let (start, address) = (Instant::now(), site.address());
    let mut slices = JoinSet::new();
    for index in 0..plan.slices {
        sleep_until(start + SLICE.to_std() * index).await;
        if index == plan.killed_at {
            site.kill_near().await?;
        }
        slices.spawn(async move { (index, bench(address, SLICE_LOAD).await) });
    }
    let mut records = slices.join_all().await;
    records.sort_by_key(|(index, _)| *index);
    progress.done();
    records.into_iter().map(|(_, record)| record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::demo::judge::tests::record;

    #[test]
    fn answers_are_counted_by_the_region_in_the_name() {
        let mut measured = record(200, 58.0, 97.0);
        measured.by_header =
            [("near-1", 120), ("near-2", 130), ("far-1", 240), ("nearly", 7), ("", 3)]
                .map(|(name, count)| (name.to_owned(), count))
                .into();
        assert_eq!(answered(&measured, NEAR), 250);
        assert_eq!(answered(&measured, FAR), 240);
        assert_eq!(near_share(&measured), Ratio::part(250, 490));
    }
}
