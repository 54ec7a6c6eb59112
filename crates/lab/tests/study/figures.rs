//! Measurements against expectations.

use std::collections::BTreeMap;

use loadline_lab::study::{Conditions, Mode, Study, judge};
use loadline_measure::record::{
    LoadRecord, Reading, Record, StudyFigure, StudyFinding, StudyLab, StudyPhase, StudyRecord,
    StudyRow, StudyVerdict,
};

use super::{SMALLEST, told};

/// A study of one phase over rates, with these figures.
fn study(figures: &str, mode: Mode) -> Study {
    let head = SMALLEST.split("[[figure]]").next().unwrap();
    let head = head
        .replace("n = [10, 20]", "rate = [5, 10, 20]")
        .replace("{n}", "{rate}")
        .replace("title =", "quick = { speed = 10 }\ntitle =")
        .replace(
            "[host.client]",
            concat!(
                "[tool.haproxy]\n[row.loadline]\n",
                "[row.haproxy]\npeer = \"haproxy\"\n[host.client]",
            ),
        );
    Study::parse("study.toml", &(head + figures), mode).map_err(|errors| told(&errors)).unwrap()
}

/// A run at a rate with this mean.
fn run(row: &str, rate: u32, repeat: u32, mean: f64) -> StudyPhase {
    StudyPhase {
        row: row.into(),
        phase: "first-byte".into(),
        at: BTreeMap::from([("rate".into(), rate.to_string())]),
        repeat,
        readings: BTreeMap::from([
            ("mean_ms".into(), Reading::Number(mean)),
            ("verdict".into(), Reading::Text("network".into())),
        ]),
        ..StudyPhase::default()
    }
}

fn judged(study: &Study, phases: Vec<StudyPhase>) -> StudyRecord {
    let conditions = Conditions { rows: study.rows().to_vec(), ..Conditions::default() };
    judge(study, conditions, phases)
}

fn lab(record: &StudyRecord) -> &StudyLab {
    record.lab.as_ref().unwrap()
}

fn number(figure: &StudyFigure) -> f64 {
    match figure.measured {
        Some(Reading::Number(number)) => number,
        ref other => panic!("{}: {other:?} {}", figure.name, figure.reason),
    }
}

/// The findings by the names of figures, of loadline's row or of none.
fn findings(record: &StudyRecord) -> BTreeMap<&str, StudyFinding> {
    let own = lab(record).figures.iter().filter(|figure| figure.row != "haproxy");
    own.map(|figure| (figure.name.as_str(), figure.finding)).collect()
}

const AVERAGES: &str = r#"
[[figure]]
name = "at_10"
unit = "ms"
phase = "first-byte"
at = { rate = 10 }
take = "mean_ms"
published = 500
source = "the tutorial, last figure"
within = "5%"

[[figure]]
name = "at_20"
unit = "ms"
phase = "first-byte"
at = { rate = 20 }
take = "mean_ms"
at_least = "4 * at_10"

[[figure]]
name = "knee"
unit = "/s"
phase = "first-byte"
take = "mean_ms"
along = "rate"
reaches = "2 * at_10"
at_least = 10
at_most = 15
"#;

#[test]
fn figures_are_held_against_what_was_published_and_against_each_other() {
    let study = study(AVERAGES, Mode::Full);
    let phases = vec![
        run("loadline", 5, 1, 400.0),
        run("loadline", 10, 1, 490.0),
        run("loadline", 10, 2, 510.0),
        run("loadline", 20, 1, 2500.0),
    ];
    let record = judged(&study, phases);
    let figures = &lab(&record).figures;
    assert_eq!(number(&figures[0]), 500.0);
    assert_eq!(figures[0].runs, 2);
    assert_eq!(figures[1].target, "at least 4 * at_10 = 2000 ms");
    // From 500 at 10/s to 2500 at 20/s a straight line is at 1000 after a quarter.
    assert_eq!(number(&figures[2]), 12.5);
    assert!(record.pass && record.verdicts.len() == 3, "{:?}", record.verdicts);
}

#[test]
fn what_is_outside_of_its_band_fails() {
    let study = study(AVERAGES, Mode::Full);
    let phases = vec![
        run("loadline", 5, 1, 400.0),
        run("loadline", 10, 1, 540.0),
        run("loadline", 20, 1, 1900.0),
    ];
    let record = judged(&study, phases);
    assert!(!record.pass);
    assert!(findings(&record).values().all(|finding| *finding != StudyFinding::Shown));
    assert_eq!(findings(&record)["at_10"], StudyFinding::Fail);
    assert_eq!(findings(&record)["at_20"], StudyFinding::Fail);
}

#[test]
fn a_number_is_a_text_that_prints_it() {
    let is = |text: &str, mean: f64| {
        let figure = format!(
            "[[figure]]\nname = \"mean\"\nphase = \"first-byte\"\ntake = \"mean_ms\"\n\
             is = \"{text}\"\n"
        );
        let study = study(&figure, Mode::Full);
        findings(&judged(&study, vec![run("loadline", 5, 1, mean)]))["mean"]
    };
    assert_eq!(is("100", 100.0), StudyFinding::Pass);
    assert_eq!(is("0.25", 0.25), StudyFinding::Pass);
    assert_eq!(is("12345.5", 12_345.5), StudyFinding::Pass);
    assert_eq!(is("100", 101.0), StudyFinding::Fail);
    assert_eq!(is("", 0.0), StudyFinding::Fail);
}

#[test]
fn at_ten_times_the_speed_times_grow_and_the_knee_stays() {
    let study = study(AVERAGES, Mode::Quick);
    let phases = vec![run("loadline", 10, 1, 50.0), run("loadline", 20, 1, 250.0)];
    let record = judged(&study, phases);
    let figures = &lab(&record).figures;
    assert_eq!([number(&figures[0]), number(&figures[1])], [500.0, 2500.0]);
    assert_eq!(number(&figures[2]), 12.5);
}

/// The knee of a study, over runs at 10/s and 20/s of repetitions with these means.
fn knee(figures: &str, repeats: &[[f64; 2]]) -> StudyFigure {
    let study = study(figures, Mode::Full);
    let repeats = (1..).zip(repeats);
    let runs = |(repeat, means): (u32, &[f64; 2])| {
        [run("loadline", 10, repeat, means[0]), run("loadline", 20, repeat, means[1])]
    };
    let record = judged(&study, repeats.flat_map(runs).collect());
    lab(&record).figures[2].clone()
}

#[test]
fn a_curve_that_begins_at_the_level_does_not_reach_it_at_its_first_value() {
    let figures = AVERAGES.replace("\"2 * at_10\"", "400");
    let figure = knee(&figures, &[[500.0, 2500.0]]);
    assert_eq!((figure.measured, figure.finding), (None, StudyFinding::Fail));
    assert_eq!(figure.reason, "already at the level at 10, the lowest value with a valid run");
}

#[test]
fn where_a_curve_begins_is_not_known_with_its_lower_runs_invalid() {
    let study = study(&AVERAGES.replace("\"2 * at_10\"", "400"), Mode::Full);
    let busy = StudyPhase { faults: vec!["steal".into()], ..run("loadline", 5, 1, 100.0) };
    let record = judged(&study, vec![busy, run("loadline", 10, 1, 500.0)]);
    assert_eq!(findings(&record)["knee"], StudyFinding::Invalid);
}

#[test]
fn where_a_curve_reaches_a_level_is_not_known_across_a_value_with_invalid_runs_only() {
    let study = study(&AVERAGES.replace("\"2 * at_10\"", "1000"), Mode::Full);
    let knee = |between: &[StudyPhase]| {
        let ends = [run("loadline", 5, 1, 400.0), run("loadline", 20, 1, 1600.0)];
        lab(&judged(&study, [&ends[..], between].concat())).figures[2].clone()
    };
    let busy = StudyPhase { faults: vec!["steal".into()], ..run("loadline", 10, 1, 9999.0) };
    let unknown = knee(std::slice::from_ref(&busy));
    assert_eq!((unknown.measured, unknown.finding), (None, StudyFinding::Invalid));
    assert_eq!(unknown.reason, "all runs at 10 are invalid");
    // From 700 at 10/s to 1600 at 20/s a straight line is at 1000 after a third.
    let known = knee(&[busy, run("loadline", 10, 2, 700.0)]);
    assert_eq!((number(&known).round(), known.finding), (13.0, StudyFinding::Pass));
}

#[test]
fn a_curve_is_of_the_runs_and_the_values_that_its_figure_says() {
    let level = AVERAGES.replace("\"2 * at_10\"", "1000");
    let with = |key: &str| level.replace("along =", &format!("{key}\nalong ="));
    let repeats = [[500.0, 2500.0], [900.0, 900.0]];
    assert_eq!(number(&knee(&with("run = 1"), &repeats)), 12.5);
    assert_eq!(knee(&with("run = 2"), &repeats).reason, "it does not reach 1000");
    // From 900 to 2500 it is at 1000 after a sixteenth.
    assert_eq!(number(&knee(&with("of = \"max\""), &repeats)), 10.625);
    let only = knee(&with("at = { rate = 20 }"), &repeats);
    assert_eq!(only.reason, "already at the level at 20, the lowest value with a valid run");
}

#[test]
fn a_level_of_a_rate_is_held_against_rates_at_the_published_speed() {
    let figures = AVERAGES
        .replace("\"2 * at_10\"", "10")
        .replace("take = \"mean_ms\"\nalong", "take = \"achieved_per_s\"\nalong");
    let study = study(&figures, Mode::Quick);
    let achieved = |rate, achieved: f64| {
        let mut run = run("loadline", rate, 1, 1.0);
        run.readings.insert("achieved_per_s".into(), Reading::Number(achieved));
        run
    };
    let record = judged(&study, vec![achieved(10, 50.0), achieved(20, 150.0)]);
    // 5/s and 15/s, at the tenth of the speed.
    assert_eq!(number(&lab(&record).figures[2]), 15.0);
}

#[test]
fn a_band_on_what_was_not_run_any_more_judges_nothing() {
    let study = study(AVERAGES, Mode::Full);
    let why = Some("interrupted".to_owned());
    let left_out = StudyPhase { skipped: true, failed: why, ..run("loadline", 10, 1, 0.0) };
    let record = judged(&study, vec![run("loadline", 20, 1, 2500.0), left_out]);
    let shown = [StudyFinding::Shown; 3];
    assert_eq!(["at_10", "at_20", "knee"].map(|name| findings(&record)[name]), shown);
    assert!(lab(&record).figures[1].reason.contains("interrupted"));
}

#[test]
fn an_invalid_run_is_in_no_figure() {
    let study = study(AVERAGES, Mode::Full);
    let bad = StudyPhase { faults: vec!["steal".into()], ..run("loadline", 10, 2, 9999.0) };
    let record = judged(&study, vec![run("loadline", 10, 1, 500.0), bad.clone()]);
    let figure = &lab(&record).figures[0];
    assert_eq!((number(figure), figure.runs, figure.invalid), (500.0, 1, 1));
    let record = judged(&study, vec![bad]);
    assert_eq!(findings(&record)["at_10"], StudyFinding::Invalid);
    // What was not run at all is no invalid run.
    assert_eq!(findings(&record)["at_20"], StudyFinding::Fail);
}

#[test]
fn a_figure_of_invalid_runs_is_invalid_in_the_verdicts_too() {
    let study = study(AVERAGES, Mode::Full);
    let bad = StudyPhase { faults: vec!["steal".into()], ..run("loadline", 10, 1, 9999.0) };
    let record = judged(&study, vec![bad, run("loadline", 20, 1, 2500.0)]);
    let words: Vec<_> = record.verdicts.iter().map(StudyVerdict::word).collect();
    assert_eq!(words, ["INVALID"; 3]);
    assert!(!record.pass && record.verdicts.iter().all(|verdict| !verdict.fails()));
}

#[test]
fn what_is_worked_out_from_an_invalid_run_is_invalid_and_does_not_fail() {
    let study = study(AVERAGES, Mode::Full);
    let bad = StudyPhase { faults: vec!["steal".into()], ..run("loadline", 10, 1, 9999.0) };
    let record = judged(&study, vec![bad, run("loadline", 20, 1, 2500.0)]);
    let invalid = [StudyFinding::Invalid; 3];
    assert_eq!(["at_10", "at_20", "knee"].map(|name| findings(&record)[name]), invalid);
}

#[test]
fn peers_are_shown_and_not_judged() {
    let study = study(AVERAGES, Mode::Full);
    let record = judged(&study, vec![run("haproxy", 10, 1, 9000.0), run("loadline", 10, 1, 500.0)]);
    let peer = lab(&record).figures.iter().find(|figure| figure.row == "haproxy").unwrap();
    assert_eq!((number(peer), peer.finding), (9000.0, StudyFinding::Shown));
    assert!(record.verdicts.iter().all(|verdict| !verdict.name.contains("haproxy")));
}

#[test]
fn words_sums_and_other_rows_can_be_asked_for() {
    let study = study(
        r#"
[[figure]]
name = "limit"
phase = "first-byte"
take = "verdict"
is = "network"
[[figure]]
name = "slowest"
unit = "ms"
phase = "first-byte"
take = "mean_ms"
of = "max"
published = { loadline = 700, haproxy = 5000 }
source = "the tutorial"
at_most = "published.slowest"
[[figure]]
name = "against_haproxy"
compute = "slowest@loadline / slowest@haproxy"
at_most = 0.5
[[figure]]
name = "client_cost"
unit = "ms"
phase = "first-byte"
take = "mean_ms"
published = 201
source = "latency, HTTPS"
within = "1%"
not_reproduced = "a constant cost of the client that the document does not name"
"#,
        Mode::Full,
    );
    let phases = vec![
        run("loadline", 10, 1, 500.0),
        run("loadline", 10, 2, 600.0),
        run("haproxy", 10, 1, 3000.0),
    ];
    let record = judged(&study, phases);
    let found = findings(&record);
    assert_eq!(found["limit"], StudyFinding::Pass);
    assert_eq!(found["slowest"], StudyFinding::Pass);
    assert_eq!(found["against_haproxy"], StudyFinding::Pass);
    assert_eq!(found["client_cost"], StudyFinding::NotReproduced);
    let ratio = lab(&record).figures.iter().find(|figure| figure.row.is_empty()).unwrap();
    assert_eq!(number(ratio), 0.2);
    assert_eq!(record.verdicts.len(), 3, "what is not reproduced is no verdict");
}

#[test]
fn a_figure_over_rows_one_of_which_was_not_run_is_not_judged() {
    let ratio = r#"
[[figure]]
name = "ratio"
compute = "at_10@loadline / at_10@haproxy"
at_most = 1
"#;
    let study = study(&(AVERAGES.to_owned() + ratio), Mode::Full);
    let skipped = |row: &StudyRow| {
        let skipped = (row.name == "haproxy").then(|| "not asked for".to_owned());
        StudyRow { skipped, ..row.clone() }
    };
    let rows: Vec<_> = study.rows().iter().map(skipped).collect();
    let conditions = Conditions { rows, ..Conditions::default() };
    let record = judge(&study, conditions, vec![run("loadline", 10, 1, 500.0)]);
    assert_eq!(findings(&record)["ratio"], StudyFinding::Shown);
    let ratio = lab(&record).figures.iter().find(|figure| figure.name == "ratio").unwrap();
    assert_eq!(ratio.reason, "`at_10@haproxy` was not measured");
}

#[test]
fn what_a_shortened_run_does_not_judge_has_no_published_figure_beside_it() {
    let figures = AVERAGES.replace("within = \"5%\"", "within = \"5%\"\nquick = {}");
    let published = |mode| {
        let record = judged(&study(&figures, mode), vec![run("loadline", 10, 1, 500.0)]);
        (lab(&record).figures[0].published, lab(&record).figures[0].finding)
    };
    assert_eq!(published(Mode::Full), (Some(500.0), StudyFinding::Pass));
    assert_eq!(published(Mode::Quick), (None, StudyFinding::Shown));
}

#[test]
fn published_figures_that_contradict_each_other_are_found_by_arithmetic() {
    let study = study(
        r#"
[[check]]
title = "transaction rate"
compute = "80 / 14.45"
printed = 5.05
unit = "/s"
note = "siege counts differently"
[[check]]
title = "limit"
compute = "(180 * 1024 * 1024) / (50 * 1024 * 8)"
printed = 460
[[check]]
title = "share, rounded to a whole number"
compute = "100 / 330 / (1/330 + 1/370 + 1/520)"
printed = 40
[[check]]
title = "throughput, cut off instead of rounded"
compute = "1.81 / 14.45"
printed = 0.12
"#,
        Mode::Full,
    );
    let record = judged(&study, Vec::new());
    let agrees: Vec<_> = lab(&record).checks.iter().map(|check| check.agrees).collect();
    assert_eq!(agrees, [false, true, true, false]);
    assert!((lab(&record).checks[0].computed - 5.536).abs() < 0.001);
}

#[test]
fn a_path_that_leads_nowhere_fails_and_says_where() {
    let study =
        study(&AVERAGES.replace("take = \"mean_ms\"", "take = \"response.mean\""), Mode::Full);
    let record = judged(&study, vec![run("loadline", 10, 1, 500.0)]);
    let figure = &lab(&record).figures[0];
    assert_eq!(figure.finding, StudyFinding::Fail);
    assert!(figure.reason.contains("there is no `response`"), "{}", figure.reason);
}

#[test]
fn one_repeat_of_ten_that_failed_fails_the_figure_and_is_counted() {
    let study = study(AVERAGES, Mode::Full);
    let failed = "it ended exit code 2: connection refused";
    let gone = StudyPhase { failed: Some(failed.into()), ..run("loadline", 10, 10, 1.0) };
    let mut phases: Vec<_> = (1..10).map(|repeat| run("loadline", 10, repeat, 500.0)).collect();
    phases.extend([gone, run("loadline", 20, 1, 2500.0)]);
    let record = judged(&study, phases);
    let figure = &lab(&record).figures[0];
    assert_eq!((figure.runs, figure.failed), (9, 1));
    assert_eq!(figure.finding, StudyFinding::Fail);
    assert_eq!(figure.reason, format!("1 of 10 runs failed: {failed}"));
    // What is held against it does not stand on nine of ten runs either.
    assert_eq!(findings(&record)["knee"], StudyFinding::Fail);
}

#[test]
fn times_of_no_answers_are_not_zero_milliseconds() {
    let study = study(&AVERAGES.replace("mean_ms", "response.mean_ms"), Mode::Full);
    let nothing = Record::Load(LoadRecord { planned: 500, ..LoadRecord::default() });
    let silent = StudyPhase { record: Some(Box::new(nothing)), ..run("loadline", 10, 1, 0.0) };
    let record = judged(&study, vec![silent]);
    let figure = &lab(&record).figures[0];
    assert_eq!((figure.finding, &figure.measured), (StudyFinding::Fail, &None));
    assert!(figure.reason.contains("`response.mean_ms` is nothing"), "{}", figure.reason);
}

#[test]
fn a_count_over_no_run_is_not_zero() {
    let counted = r#"
[[figure]]
name = "late"
phase = "first-byte"
take = "mean_ms"
of = "count"
at_most = 0
"#;
    let study = study(counted, Mode::Full);
    let failed = StudyPhase { failed: Some("killed".into()), ..run("loadline", 10, 1, 0.0) };
    assert_eq!(findings(&judged(&study, vec![failed]))["late"], StudyFinding::Fail);
}

#[test]
fn a_study_of_which_nothing_was_judged_has_not_passed() {
    let study = study(AVERAGES, Mode::Full);
    assert!(!judged(&study, Vec::new()).pass);
    assert!(!judged(&study, vec![run("haproxy", 10, 1, 500.0)]).pass);
}

#[test]
fn a_band_around_what_was_not_published_for_a_row_holds_nothing() {
    let figures = AVERAGES.replace("published = 500", "published = { haproxy = 500 }");
    let study = study(&figures, Mode::Full);
    let record = judged(&study, vec![run("loadline", 10, 1, 9000.0)]);
    assert_eq!(findings(&record)["at_10"], StudyFinding::Shown);
}

#[test]
fn a_row_is_run_again_until_what_its_figures_stand_on_has_a_valid_run() {
    let study = study(AVERAGES, Mode::Full);
    let busy = |rate| StudyPhase { faults: vec!["busy".into()], ..run("loadline", rate, 1, 1.0) };
    let well = |rate| run("loadline", rate, 1, 1.0);
    let lacks = |times, phases: &[StudyPhase]| study.lacks_valid_runs(times, phases);
    let first = vec![busy(5), well(10), well(20)];
    let second = [first.clone(), vec![well(5), busy(10), busy(20)]].concat();
    assert!(lacks(1, &first), "the knee stands on the rate of 5 too");
    assert!(!lacks(2, &second), "each rate has a valid run by now");

    let warm = StudyPhase { phase: "warm".into(), ..busy(5) };
    assert!(!lacks(1, &[well(5), well(10), well(20), warm]), "no figure stands on it");
    let failed = StudyPhase { failed: Some("no answer".into()), ..busy(5) };
    assert!(!lacks(1, &[failed, well(10), well(20)]), "a run that failed is judged");

    let repeated = [busy(5), well(5), well(10), well(10), well(20), well(20)];
    assert!(lacks(1, &repeated), "two runs were asked for, and one is valid");
}
