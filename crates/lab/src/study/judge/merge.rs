//! Runs of one study put together: rows that were measured apart, judged as one.
//!
//! Every run tells of all rows, those left out included. A row counts with the runs that have it;
//! one that none has stays left out. What differs in the circumstances is told of the first run.

use loadline_measure::record::{StudyLab, StudyPhase};

use super::Conditions;

/// The circumstances and the phases of all of `runs`, in their order.
#[must_use]
pub fn merge(runs: Vec<StudyLab>) -> (Conditions, Vec<StudyPhase>) {
    let mut runs = runs.into_iter();
    let Some(first) = runs.next() else { return (Conditions::default(), Vec::new()) };
    let mut conditions = Conditions {
        rows: first.rows,
        seed: first.seed,
        started_unix_ms: first.started_unix_ms,
        elapsed_s: first.elapsed_s,
        environment: first.environment,
        delays: first.delays,
    };
    let mut phases = first.phases;
    for run in runs {
        for row in run.rows.into_iter().filter(|row| row.skipped.is_none()) {
            match conditions.rows.iter_mut().find(|known| known.name == row.name) {
                Some(known) => known.skipped = None,
                None => conditions.rows.push(row),
            }
        }
        conditions.started_unix_ms = conditions.started_unix_ms.min(run.started_unix_ms);
        conditions.elapsed_s += run.elapsed_s;
        for (name, value) in run.environment {
            conditions.environment.entry(name).or_insert(value);
        }
        conditions.delays.extend(run.delays);
        phases.extend(run.phases);
    }
    (conditions, phases)
}

#[cfg(test)]
mod tests {
    use loadline_measure::record::StudyRow;

    use super::*;

    fn row(name: &str, skipped: bool) -> StudyRow {
        let skipped = skipped.then(|| "not asked for".to_owned());
        StudyRow { name: name.into(), skipped, ..StudyRow::default() }
    }

    fn run(began: u64, rows: Vec<StudyRow>) -> StudyLab {
        let measured = rows.iter().filter(|row| row.skipped.is_none());
        let phase = |row: &StudyRow| StudyPhase { row: row.name.clone(), ..StudyPhase::default() };
        let phases = measured.map(phase).collect();
        StudyLab { rows, phases, started_unix_ms: began, elapsed_s: 5.0, ..StudyLab::default() }
    }

    #[test]
    fn rows_measured_apart_become_one_study_in_the_order_of_its_file() {
        let peer = run(200, vec![row("ours", true), row("peer", false), row("none", true)]);
        let ours = run(100, vec![row("ours", false), row("peer", true), row("none", true)]);
        let (conditions, phases) = merge(vec![peer, ours]);
        let rows = [row("ours", false), row("peer", false), row("none", true)];
        assert_eq!(conditions.rows, rows);
        assert_eq!((conditions.started_unix_ms, conditions.elapsed_s), (100, 10.0));
        let measured: Vec<_> = phases.iter().map(|phase| &*phase.row).collect();
        assert_eq!(measured, ["peer", "ours"]);
    }

    #[test]
    fn a_row_in_two_runs_counts_with_both() {
        let again = || run(100, vec![row("ours", false)]);
        let (conditions, phases) = merge(vec![again(), again()]);
        assert_eq!((conditions.rows.len(), phases.len()), (1, 2));
        assert_eq!(merge(Vec::new()), (Conditions::default(), Vec::new()));
    }
}
