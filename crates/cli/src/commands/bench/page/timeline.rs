//! How a run went in time: a row of marks for each of a few figures.

use loadline_core::{time::Duration, units::Rate};
use loadline_measure::record::{LoadRecord, Moment};
use loadline_report::{millis, per_second};

use super::line;

/// A span of the run, drawn as one mark of each row.
#[derive(Clone, Copy, Default)]
struct Column {
    ok_per_s: f64,
    failed_per_s: f64,
    in_flight: u64,
    p99: Duration,
}

/// The rows, where there is more than one moment.
pub(super) fn write(page: &mut String, record: &LoadRecord) {
    let record = record.without_cut_off();
    let last = record.moments.last().map_or(Duration::ZERO, |moment| moment.at);
    let end = last.max(record.elapsed);
    let columns = columns(&record.moments, end);
    if columns.len() < 2 {
        return;
    }
    line(page, format_args!("\nIn time   from 0 to {:.1} s", end.as_secs_f64()));
    let of = |figure: fn(&Column) -> f64| columns.iter().map(figure).collect::<Vec<_>>();
    let per_s = |most: f64| per_second(Rate::milli_per_sec((most * 1e3).round() as u64));
    row(page, "ok", &of(|column| column.ok_per_s), per_s);
    if columns.iter().any(|column| column.failed_per_s > 0.0) {
        row(page, "not ok", &of(|column| column.failed_per_s), per_s);
    }
    row(page, "in flight", &of(|column| column.in_flight as f64), |most| format!("{most:.0}"));
    row(page, "p99", &of(|column| column.p99.as_millis_f64()), |most| match most > 0.0 {
        true => millis(Duration::from_nanos((most * 1e6) as u64)),
        false => "none".to_owned(),
    });
}

fn row(page: &mut String, name: &str, figures: &[f64], told: impl Fn(f64) -> String) {
    let most = figures.iter().copied().fold(0.0, f64::max);
    let mark = |figure: &f64| {
        let height = if most > 0.0 { figure / most } else { 0.0 };
        let steps = (height * (MARKS.len() - 1) as f64).ceil() as usize;
        MARKS[steps.min(MARKS.len() - 1)]
    };
    let marks: String = figures.iter().map(mark).collect();
    line(page, format_args!("  {name:<10}{marks}  max {}", told(most)));
}

/// The moments gathered into at most [`WIDTH`] spans of the same number of them. A last one that
/// is shorter than half a moment goes with the one before it: its rate would be luck. The last
/// moment ends with its last event, the last span with the run.
fn columns(moments: &[Moment], end: Duration) -> Vec<Column> {
    let Some(first) = moments.first() else { return Vec::new() };
    let each = moments.len().div_ceil(WIDTH);
    let mut bounds: Vec<usize> = (0..moments.len()).step_by(each).chain([moments.len()]).collect();
    let began = |bound: usize| match bound.checked_sub(1) {
        _ if bound == moments.len() => end,
        Some(before) => moments[before].at,
        None => Duration::ZERO,
    };
    if let [.., _, last, _] = bounds[..]
        && end.saturating_sub(began(last)) * 2 < first.at
    {
        bounds.remove(bounds.len() - 2);
    }
    let column = |pair: &[usize]| {
        let lasts = began(pair[1]).saturating_sub(began(pair[0]));
        gather(&moments[pair[0]..pair[1]], lasts)
    };
    bounds.windows(2).map(column).collect()
}

fn gather(span: &[Moment], lasts: Duration) -> Column {
    let seconds = lasts.as_secs_f64().max(1e-9);
    let ok: u64 = span.iter().map(|moment| moment.outcomes.ok).sum();
    let failed: u64 = span.iter().map(|moment| moment.outcomes.failed()).sum();
    Column {
        ok_per_s: ok as f64 / seconds,
        failed_per_s: failed as f64 / seconds,
        in_flight: span.iter().map(Moment::most_in_flight).max().unwrap_or(0),
        p99: span.iter().map(|moment| moment.p99).max().unwrap_or_default(),
    }
}

/// Rising marks; the lowest stands for nothing at all.
const MARKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Leaves room for the name and the maximum in 80 columns.
const WIDTH: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_measure::record::Outcomes;

    fn moment(ms: u64, ok: u64, timeout: u64) -> Moment {
        Moment {
            at: Duration::from_millis(ms),
            outcomes: Outcomes { ok, timeout, ..Outcomes::default() },
            in_flight: ok / 10,
            p99: Duration::from_millis(ok),
            ..Moment::default()
        }
    }

    fn drawn(moments: Vec<Moment>) -> String {
        let mut page = String::new();
        write(&mut page, &LoadRecord { moments, ..LoadRecord::default() });
        page
    }

    #[test]
    fn each_figure_has_a_row_with_its_highest_mark_and_what_that_is() {
        let page = drawn(vec![moment(1_000, 80, 0), moment(2_000, 0, 5), moment(3_000, 40, 0)]);
        let rows: Vec<_> = page.lines().collect();
        assert_eq!(
            rows,
            [
                "",
                "In time   from 0 to 3.0 s",
                "  ok        █ ▄  max 80/s",
                "  not ok     █   max 5/s",
                "  in flight █ ▄  max 8",
                "  p99       █ ▄  max 80.0 ms",
            ]
        );
    }

    #[test]
    fn a_run_without_a_response_has_no_response_time() {
        let page = drawn(vec![moment(1_000, 0, 5), moment(2_000, 0, 5)]);
        assert!(page.contains("  p99           max none"), "{page}");
    }

    #[test]
    fn what_an_interrupt_cut_off_is_not_among_what_was_not_ok() {
        let mut moments = vec![moment(1_000, 80, 0), moment(2_000, 40, 0)];
        moments[1].outcomes.cut_off = 3;
        let outcomes = Outcomes { ok: 120, cut_off: 3, ..Outcomes::default() };
        let record = LoadRecord { interrupted: true, outcomes, moments, ..LoadRecord::default() };
        let mut page = String::new();
        write(&mut page, &record);
        assert!(page.contains("  ok  ") && !page.contains("not ok"), "{page}");
    }

    #[test]
    fn a_short_last_moment_makes_no_rate_of_its_own() {
        let page = drawn(vec![moment(1_000, 10, 0), moment(2_000, 10, 0), moment(2_001, 2, 0)]);
        assert!(page.contains("max 12/s"), "{page}");
    }

    #[test]
    fn the_last_span_ends_with_the_run_and_not_with_its_last_event() {
        // Ten requests per second for a second.
        let at = |tenth: u64| if tenth == 10 { 903 } else { tenth * 100 };
        let moments = (1..=10).map(|tenth| moment(at(tenth), 1, 0)).collect();
        let elapsed = Duration::from_secs(1);
        let mut page = String::new();
        write(&mut page, &LoadRecord { moments, elapsed, ..LoadRecord::default() });
        assert!(page.contains("from 0 to 1.0 s") && page.contains("max 10/s"), "{page}");
    }

    #[test]
    fn a_long_run_keeps_its_width_and_a_short_one_has_no_rows() {
        let page = drawn((1..=1_000).map(|second| moment(second * 1_000, 10, 1)).collect());
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        assert_eq!(drawn(vec![moment(1_000, 10, 0)]), "");
        assert_eq!(drawn(Vec::new()), "");
    }
}
