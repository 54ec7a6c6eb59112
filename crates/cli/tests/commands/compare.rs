//! `loadline compare` as people call it: verdicts on real runs, the record, and the exit codes.

use crate::runs::{bench, loadline, text};
use crate::served::Worker;
use loadline_measure::record::{ComparisonRecord, Document, Finding, LoadRecord, Record};

const PLAN: [&str; 4] = ["--rate", "100", "--duration", "2s"];

fn comparison(stdout: &[u8]) -> ComparisonRecord {
    let document = Document::read(stdout).unwrap();
    let Record::Comparison(record) = document.record else { panic!("a comparison is expected") };
    record
}

fn finding(record: &ComparisonRecord, name: &str) -> Finding {
    record.figures.iter().find(|figure| figure.name == name).unwrap().finding
}

#[test]
fn a_server_that_is_far_slower_is_a_regression_and_exits_with_three() {
    let folder = tempfile::tempdir().unwrap();
    let before = bench(&Worker::start(&["--service-time", "3ms"]), &PLAN, folder.path(), "before");
    let slow = Worker::start(&["--cores", "64", "--service-time", "400ms"]);
    let after = bench(&slow, &PLAN, folder.path(), "after");

    let output = loadline(&["compare", &before, &after]);
    let page = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{page}{}", text(&output.stderr));
    assert!(page.contains("A  before") && page.contains("B is a regression."), "{page}");
    let widest = page.lines().skip(3).map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{page}");

    let output = loadline(&["compare", &before, &after, "--json"]);
    assert_eq!(output.status.code(), Some(3));
    let record = comparison(&output.stdout);
    assert!(record.regressed);
    assert_eq!((record.a.name.as_str(), record.b.name.as_str()), ("before", "after"));
    assert_eq!(finding(&record, "mean"), Finding::Worse);
    assert_eq!(finding(&record, "p50"), Finding::Worse);
    assert_eq!(finding(&record, "max"), Finding::NotJudged);

    let output = loadline(&["compare", &after, &before, "--json"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(finding(&comparison(&output.stdout), "p50"), Finding::Better);
}

#[test]
fn a_run_beside_itself_is_no_regression() {
    let folder = tempfile::tempdir().unwrap();
    let worker = Worker::start(&["--service-time", "2ms"]);
    let run = bench(&worker, &PLAN, folder.path(), "run");
    let output = loadline(&["compare", &format!("a={run}"), &format!("b={run}")]);
    let page = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{page}");
    assert!(page.contains("No regression is shown."), "{page}");
}

#[test]
fn runs_of_different_plans_are_compared_only_by_force() {
    let folder = tempfile::tempdir().unwrap();
    let worker = Worker::start(&[]);
    let open = bench(&worker, &["--rate", "50", "--requests", "20"], folder.path(), "open");
    let closed = bench(&worker, &["--users", "2", "--requests", "20"], folder.path(), "closed");
    let output = loadline(&["compare", &open, &closed]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("50/s constant against 2 users"), "{error}");
    assert!(error.contains("--force"), "{error}");
    let output = loadline(&["compare", &open, &closed, "--force", "--json"]);
    assert!(matches!(output.status.code(), Some(0 | 3)));
    let warnings = comparison(&output.stdout).warnings.join("; ");
    assert!(warnings.contains("different plans"), "{warnings}");
}

#[test]
fn what_is_no_load_run_is_told_and_exits_with_one() {
    let folder = tempfile::tempdir().unwrap();
    let record = Document::new(Record::Comparison(ComparisonRecord::default()));
    let path = folder.path().join("other.json");
    std::fs::write(&path, serde_json::to_string(&record).unwrap()).unwrap();
    let path = path.to_str().unwrap();
    for (arguments, told) in [
        (&["compare", path, path][..], "kind `comparison`; only load runs"),
        (&["compare", path, "/no/such/file"], "other.json"),
        (&["compare", path], "B"),
        (&["compare", path, path, "--threshold", "much"], "`5%` or `0.05`"),
    ] {
        let output = loadline(arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.contains(told), "{arguments:?}: {error}");
    }
}

#[test]
fn a_run_of_which_nothing_came_is_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let worker = Worker::start(&[]);
    let run = bench(&worker, &["--users", "1", "--requests", "20"], folder.path(), "run");
    let none = folder.path().join("none.json");
    let record = Document::new(Record::Load(LoadRecord::default()));
    std::fs::write(&none, serde_json::to_string(&record).unwrap()).unwrap();
    let none = none.to_str().unwrap();
    for pair in [[run.as_str(), none], [none, run.as_str()], [none, none]] {
        let output = loadline(&["compare", pair[0], pair[1], "--force"]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{pair:?}: {error}");
        assert!(error.contains("no request of ") && error.contains("none"), "{pair:?}: {error}");
        assert!(error.contains("nothing to compare"), "{pair:?}: {error}");
    }
}
