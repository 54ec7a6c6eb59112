//! Which runs a row lacks to be judged by.

use std::collections::BTreeMap;

use loadline_measure::record::StudyPhase;

use crate::study::read::Study;

impl Study {
    /// Whether a row that was run so many `times` is to be run again: a figure or plot stands on
    /// a phase that has fewer runs to be judged by than one time makes. Runs of any time count;
    /// one that failed is judged too.
    #[must_use]
    pub fn lacks_valid_runs(&self, times: usize, phases: &[StudyPhase]) -> bool {
        let mut counts: BTreeMap<_, (usize, usize)> = BTreeMap::new();
        for run in phases.iter().filter(|run| self.is_shown(&run.phase)) {
            let (all, judged) = counts.entry((&run.phase, &run.at)).or_default();
            *all += 1;
            *judged += usize::from(run.faults.is_empty() || run.failed.is_some());
        }
        counts.values().any(|(all, judged)| judged * times < *all)
    }

    /// Whether a figure or plot stands on a phase. In which row does not matter: formulas name
    /// figures of others.
    fn is_shown(&self, phase: &str) -> bool {
        let figures = self.file.figure.iter().map(|at| &at.value.phase);
        let plots = self.file.plot.iter().map(|at| &at.value.phase);
        figures.chain(plots).flatten().any(|of| of.value == phase)
    }
}
