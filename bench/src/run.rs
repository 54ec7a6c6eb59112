//! The whole run: which parts, how long, and what is left of it: verdicts and raw figures.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Map, Value, json};

use crate::cost::{self, Case};
use crate::peers::{Kind, Workshop};
use crate::verdict::Verdict;
use crate::{
    cached, fixed_rate, generator, healthy, hitless, http3, idle, outage, overflow, overload, pick,
    process, scale, slow, steal,
};

/// The proxy has a core of its own; everything else shares the other.
pub(crate) const PROXY_CORE: usize = 0;
pub(crate) const LOAD_CORE: usize = 1;

/// Compare loadline with the floor, HAProxy, nginx and Envoy
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Three rounds of each instead of seven, and a smaller object for `cache, slow object`
    #[arg(long)]
    quick: bool,
    /// Rounds of each, whatever `--quick` says
    #[arg(long)]
    rounds: Option<usize>,
    /// Length of a round
    #[arg(long, default_value_t = 1, value_name = "SECONDS")]
    seconds: u64,
    /// Only the parts whose name contains this: a case, `fixed rate`, `overflow`, `overload`,
    /// `outage`, `hitless`, `slow clients`, `pick`, `generator`, `idle`, `scale`, `HTTP/3` or
    /// `cache`; repeat for more
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Leave loadline out: the figures of the peers alone, nothing judged
    #[arg(long)]
    peers_only: bool,
    /// The binary to measure [default: `loadline` beside this program]
    #[arg(long, value_name = "PATH")]
    loadline: Option<PathBuf>,
    /// Envoy [default: what `scripts/setup bench` installed; left out where there is none]
    #[arg(long, value_name = "PATH")]
    envoy: Option<PathBuf>,
    /// Write every raw figure there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// How much to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    /// Of a round.
    pub(crate) seconds: u64,
    /// Less of what is not repeated.
    pub(crate) is_quick: bool,
}

/// A part of the benchmark: what was judged and what was measured.
#[derive(Debug)]
pub(crate) struct Section {
    name: &'static str,
    verdicts: Vec<Verdict>,
    figures: Map<String, Value>,
}

/// What was measured of one proxy.
pub(crate) trait Row {
    /// What people read, below the columns.
    fn line(&self) -> String;
    /// What loadline is held to.
    fn judge(&self) -> Vec<Verdict>;
    /// Every figure.
    fn to_json(&self) -> Value;
}

impl Section {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, verdicts: Vec::new(), figures: Map::new() }
    }

    /// Prints the verdict and keeps it.
    pub(crate) fn judge(&mut self, verdict: Verdict) {
        println!("{verdict}");
        self.verdicts.push(verdict);
    }

    /// Measures one row of each kind, prints and records it; only loadline is judged.
    pub(crate) fn compare<R: Row>(
        &mut self,
        name: &str,
        kinds: &[Kind],
        measure: impl Fn(Kind) -> Result<R>,
    ) -> Result<()> {
        let mut rows = Vec::new();
        for &kind in kinds {
            let row = measure(kind)?;
            println!("{}", row.line());
            if kind == Kind::Loadline {
                row.judge().into_iter().for_each(|verdict| self.judge(verdict));
            }
            rows.push(row.to_json());
        }
        self.record(name, rows);
        Ok(())
    }

    pub(crate) fn record(&mut self, name: &str, figures: Vec<Value>) {
        self.figures.insert(name.to_owned(), Value::Array(figures));
    }
}

/// Runs it; says whether every verdict is good.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    ensure!(cores > LOAD_CORE, "needs two cores: one for the proxy, one for the load");
    process::raise_descriptor_limit()?;
    let scratch = tempfile::tempdir().context("make a directory for configurations")?;
    let workshop = Workshop {
        directory: scratch.path().to_owned(),
        loadline: beside(args.loadline.as_deref(), "loadline")?,
        envoy: beside(args.envoy.as_deref(), "../bench-venv/bin/envoy")?,
        caddy: beside(None, "../bench-venv/bin/caddy")?,
    };
    let mut kinds = vec![Kind::Loadline, Kind::HaProxy, Kind::Nginx, Kind::Envoy, Kind::Caddy];
    kinds.retain(|kind| !(args.peers_only && *kind == Kind::Loadline));
    let versions: Vec<String> = kinds.iter().map(|kind| kind.version(&workshop)).collect();
    println!("{}", versions.join("\n"));
    for kind in kinds.extract_if(.., |kind| !workshop.has(*kind)) {
        println!("{} is left out: `scripts/setup bench` could not install it.", kind.name());
    }
    let clock = steal::Clock::start();
    let sections = measure(args, &kinds, &workshop)?;
    let stolen = clock.percent();
    println!("\nThe machine's host took {stolen:.1} % of its time meanwhile.");
    if let Some(path) = &args.json {
        let record = record(&sections, &versions, stolen);
        fs::write(path, format!("{record:#}\n"))
            .with_context(|| format!("write {}", path.display()))?;
    }
    Ok(conclude(&sections, !args.peers_only))
}

fn measure(args: &Args, kinds: &[Kind], workshop: &Workshop) -> Result<Vec<Section>> {
    let wanted = |name: &str| args.only.is_empty() || args.only.iter().any(|o| name.contains(o));
    let rounds = args.rounds.unwrap_or(if args.quick { 3 } else { 7 });
    ensure!(rounds > 0 && args.seconds > 0, "a round and a second at least");
    let effort = Effort { rounds, seconds: args.seconds, is_quick: args.quick };
    let cases: Vec<Case> = cost::cases().into_iter().filter(|case| wanted(case.name)).collect();
    let mut sections = Vec::new();
    if !cases.is_empty() {
        sections.push(cost::measure(&cases, kinds, workshop, effort)?);
    }
    if wanted(fixed_rate::NAME) {
        sections.push(fixed_rate::measure(kinds, workshop, effort)?);
    }
    if wanted(overflow::NAME) {
        sections.push(overflow::measure(kinds, workshop, effort)?);
    }
    if wanted(overload::NAME) {
        sections.push(overload::measure(kinds, workshop, effort)?);
    }
    if wanted(healthy::NAME) && !args.peers_only {
        sections.push(healthy::measure(workshop, effort)?);
    }
    if wanted(outage::NAME) {
        sections.push(outage::measure(kinds, workshop)?);
    }
    if wanted(hitless::NAME) {
        sections.push(hitless::measure(kinds, workshop)?);
    }
    if wanted(slow::NAME) {
        sections.push(slow::measure(kinds, workshop, effort)?);
    }
    if wanted(pick::NAME) && !args.peers_only {
        sections.push(pick::measure()?);
    }
    if wanted(generator::NAME) && !args.peers_only {
        sections.push(generator::measure(workshop, effort)?);
    }
    if wanted(idle::NAME) {
        sections.push(idle::measure(kinds, workshop)?);
    }
    if wanted(scale::NAME) && !args.peers_only {
        sections.push(scale::measure(workshop, effort)?);
    }
    if http3::PARTS.into_iter().any(wanted) {
        sections.push(http3::measure(kinds, workshop, effort, &wanted)?);
    }
    if cached::PARTS.into_iter().any(wanted) {
        sections.push(cached::measure(workshop, effort, args.peers_only, &wanted)?);
    }
    if sections.is_empty() {
        bail!("nothing is called {:?}", args.only);
    }
    Ok(sections)
}

/// The given program, or the one at this place beside this program.
fn beside(given: Option<&Path>, place: &str) -> Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    let this = std::env::current_exe().context("find this program")?;
    Ok(this.with_file_name(place))
}

fn record(sections: &[Section], versions: &[String], stolen: f64) -> Value {
    let figures: Map<String, Value> = sections
        .iter()
        .map(|section| (section.name.to_owned(), Value::Object(section.figures.clone())))
        .collect();
    let verdicts = sections.iter().flat_map(|section| &section.verdicts);
    json!({
        "versions": versions,
        "steal_percent": stolen,
        "verdicts": verdicts.map(Verdict::to_json).collect::<Vec<_>>(),
        "figures": figures,
    })
}

/// Whether every verdict is good. Where loadline ran, a part without a verdict is not.
fn conclude(sections: &[Section], judged: bool) -> bool {
    let verdicts: Vec<&Verdict> = sections.iter().flat_map(|section| &section.verdicts).collect();
    let silent = sections.iter().filter(|section| judged && section.verdicts.is_empty());
    let silent =
        silent.map(|section| println!("FAIL {}: nothing was judged", section.name)).count();
    let failed = silent + verdicts.iter().filter(|verdict| verdict.failed()).count();
    println!("{failed} of {} verdicts failed.", silent + verdicts.len());
    failed == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Target;

    #[test]
    fn a_part_that_judged_nothing_fails_the_run_and_so_does_a_verdict() {
        let mut good = Section::new("good");
        good.judge(Verdict::new("a", 1.0, Target::AtMost(1.0)));
        let mut bad = Section::new("bad");
        bad.judge(Verdict::new("b", 2.0, Target::AtMost(1.0)));
        assert!(conclude(&[good], true));
        assert!(!conclude(&[bad], true));
        assert!(!conclude(&[Section::new("silent")], true));
        assert!(conclude(&[Section::new("silent")], false), "the peers alone are not judged");
    }
}
