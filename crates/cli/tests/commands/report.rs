//! `loadline report` as people call it: real runs in, one page out, and what is told of files that

//! are no records.

use std::fs;

use crate::runs::{bench, loadline, text};
use crate::served::Worker;

#[test]
fn two_runs_of_bench_become_one_page_that_needs_nothing_but_itself() {
    let folder = tempfile::tempdir().unwrap();
    let worker = Worker::start(&[]);
    let slow = bench(&worker, &["--rate", "50", "--requests", "50"], folder.path(), "slow");
    let fast = bench(&worker, &["--users", "2", "--requests", "50"], folder.path(), "fast");
    let page = folder.path().join("page.html");
    let named = format!("two users={fast}");
    let output =
        loadline(&["report", &slow, &named, "-o", page.to_str().unwrap(), "--title", "A & B"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("wrote"), "{}", text(&output.stderr));
    let html = fs::read_to_string(page).unwrap();
    for part in
        ["<title>A &amp; B</title>", "Run slow", "Run two users", "50/s constant", "2 users"]
    {
        assert!(html.contains(part), "{part:?} is missing");
    }
    for outside in ["src=", "href=", "url(", "@import", "<script"] {
        assert!(!html.contains(outside), "the page contains {outside}");
    }
}

#[test]
fn a_page_can_go_to_the_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let worker = Worker::start(&[]);
    let run = bench(&worker, &["--users", "1", "--requests", "3"], folder.path(), "run");
    let output = loadline(&["report", &run, "-o", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("<!DOCTYPE html>"));
}

#[test]
fn a_file_that_is_no_record_is_told_with_its_place_and_what_would_be_right() {
    let folder = tempfile::tempdir().unwrap();
    let old = "{\n  \"schema_version\": 1,\n  \"kind\": \"load\"\n}\n";
    for (content, told) in [
        (old, "`schema_version` is 1, this loadline"),
        ("{}", "no `schema_version`"),
        ("{\n  \"schema_version\": 2,\n  \"kind\": \"lode\"\n}", "`lode`; the kinds are load"),
        ("{\n  \"schema_version\": 2,\n  \"kind\": \"load\"\n}", "missing field `target`"),
        ("{\n  \"schema_version\": 2,\n}", "not JSON at line 3, column 1"),
    ] {
        let path = folder.path().join("wrong.json");
        fs::write(&path, content).unwrap();
        let output = loadline(&["report", path.to_str().unwrap(), "-o", "-"]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("wrong.json") && error.contains(told), "{told:?}: {error}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn wrong_usage_exits_with_one_and_a_page_that_cannot_be_written_with_two() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(loadline(&["report"]).status.code(), Some(1));
    let output = loadline(&["report", "/no/such/file.json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/no/such/file.json"));
    let worker = Worker::start(&[]);
    let run = bench(&worker, &["--users", "1", "--requests", "1"], folder.path(), "run");
    let output = loadline(&["report", &run, "-o", "/no/such/folder/page.html"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/no/such/folder/page.html"));
}
