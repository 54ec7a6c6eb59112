//! Which runs a row lacks to be judged by.

use std::collections::BTreeMap;

use loadline_measure::record::StudyPhase;
use loadline_spanned::At;

use crate::study::read::Study;

impl Study {
    /// Whether a row that was run so many `times` is to be run again: a figure or plot of it stands
    /// on a phase that has fewer runs to be judged by than one time makes. Runs of any time count;
    /// one that failed is judged too.
    #[must_use]
    pub fn lacks_valid_runs(&self, row: &str, times: usize, phases: &[StudyPhase]) -> bool {
        let mut counts: BTreeMap<_, (usize, usize)> = BTreeMap::new();
        for run in phases.iter().filter(|run| self.is_shown(row, &run.phase)) {
            let (all, judged) = counts.entry((&run.phase, &run.at)).or_default();
            *all += 1;
            *judged += usize::from(run.faults.is_empty() || run.failed.is_some());
        }
        counts.values().any(|(all, judged)| judged * times < *all)
    }

    /// Whether a figure or plot of the row stands on a phase.
    fn is_shown(&self, row: &str, phase: &str) -> bool {
        let is = |of: &Option<At<String>>, rows: &[At<String>]| {
            of.as_ref().is_some_and(|of| of.value == phase)
                && (rows.is_empty() || rows.iter().any(|own| own.value == row))
        };
        let mut figures = self.file.figure.iter().map(|at| &at.value);
        let mut plots = self.file.plot.iter().map(|at| &at.value);
        figures.any(|entry| is(&entry.phase, &entry.rows))
            || plots.any(|entry| is(&entry.phase, &entry.rows))
    }
}
