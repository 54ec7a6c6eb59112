//! `loadline plan` as people call it: every figure that the source documents print.

use std::process::{Command, Output};

use loadline_measure::record::{Document, FormulaRecord, Record};

fn plan(arguments: &str) -> Output {
    let arguments = arguments.split_whitespace();
    Command::new(env!("CARGO_BIN_EXE_loadline")).arg("plan").args(arguments).output().unwrap()
}

fn record(arguments: &str) -> FormulaRecord {
    let output = plan(&format!("{arguments} --json"));
    let document = Document::read(&output.stdout).unwrap();
    let Record::Formula(record) = document.record else { panic!("a formula is expected") };
    record
}

fn result(record: &FormulaRecord, name: &str) -> f64 {
    let found = record.results.iter().find(|result| result.quantity.name == name);
    found.unwrap_or_else(|| panic!("{name:?} is not in {record:#?}")).quantity.value
}

fn page(arguments: &str, exit_code: i32) -> String {
    let output = plan(arguments);
    let page = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(exit_code), "{arguments}: {page}");
    for line in page.lines() {
        assert!(line.chars().count() <= 80, "{arguments}: {line}");
    }
    page
}

const FORMULAS: [&str; 6] = ["bandwidth", "ports", "replication", "fibre", "queue", "credits"];

#[test]
fn plan_alone_lists_every_formula_in_a_line() {
    let list = page("", 0);
    for formula in FORMULAS {
        assert!(list.lines().any(|line| line.trim_start().starts_with(formula)), "{formula}");
    }
}

#[test]
fn each_formula_alone_works_out_the_example_of_its_document() {
    for formula in FORMULAS {
        let page = page(formula, 0);
        let record = record(formula);
        assert_eq!(record.name, formula);
        assert!(!record.formula.is_empty() && !record.inputs.is_empty());
        assert!(page.contains("Source: ") && !record.source.is_empty(), "{page}");
    }
}

#[test]
fn what_a_document_prints_comes_out_to_its_last_digit() {
    let mut compared = 0;
    for arguments in
        ["bandwidth", "bandwidth --limit 180Mb/s --size 50kB", "ports", "replication", "fibre"]
    {
        for result in record(arguments).results {
            let Some(published) = result.published else { continue };
            let decimals = published.to_string().split_once('.').map_or(0, |(_, part)| part.len());
            let scale = 10f64.powi(i32::try_from(decimals).unwrap());
            let (found, name) = (result.quantity.value, result.quantity.name);
            // The post alone cuts off instead of rounding: 460.8 to 460.
            let is_same = if published == 460.0 {
                found.floor() == published
            } else {
                ((found - published) * scale).abs() <= 0.5 + 1e-9
            };
            assert!(is_same, "{arguments}: {name} is {found} and not {published}");
            compared += 1;
        }
    }
    assert_eq!(compared, 2 + 1 + 5 + 3 + 2);
}

#[test]
fn the_figures_of_the_issue_are_on_the_pages() {
    for (arguments, figures) in [
        ("bandwidth --rate 3500/s --size 1KiB --nat", &["28.672 Mb/s", "57.344 Mb/s"][..]),
        ("bandwidth --limit 180Mb/s --size 50kB", &["450 /s", "460.8 /s", " 460\n"]),
        ("ports", &["4300.7 /s", "2150.3 /s", "8601.3 /s", "1066.3 /s", "2132.5 /s"]),
        ("ports --return-addresses 2 --fin-timeout 15s", &["8601.3 /s      8601.3\n"]),
        ("ports --time-wait 30s", &["2132.5 /s      2132.5\n"]),
        ("replication", &["150500 B/s", "7290 B/s", "1.2623 Mb/s       1.262\n", "2.5246 Mb/s"]),
        ("fibre --distance 7500km", &["75 ms", "112.5 ms"]),
        ("queue", &["5.063 /s        5.05\n", "5.54."]),
    ] {
        let page = page(arguments, 0);
        for figure in figures {
            assert!(page.contains(figure), "{figure:?} is not in\n{page}");
        }
    }
}

#[test]
fn other_inputs_than_the_documents_have_no_printed_figure_beside_them() {
    for arguments in [
        "bandwidth --rate 3501/s",
        "bandwidth --limit 180Mb/s --size 51kB",
        "bandwidth --limit 180Mb/s --nat",
        "ports --return-addresses 3 --fin-timeout 15s",
        "ports --destinations 2",
        "replication --rate 3501/s",
        "fibre --distance 7501km",
        "queue --servers 2 --service 396ms",
    ] {
        let record = record(arguments);
        assert!(record.results.iter().all(|result| result.published.is_none()), "{arguments}");
        assert!(!page(arguments, 0).contains("the document\n"), "{arguments}");
    }
}

#[test]
fn a_measured_round_trip_is_compared_with_the_ideal() {
    assert!(page("fibre --measured 111ms", 0).contains("near the ideal: at most 1.5"));
    assert!(page("fibre --measured 230ms", 0).contains("above 1.5 times"));
    let edge = page("fibre --measured 1195us", 0);
    assert!(edge.contains("something nearer answered") && edge.contains("119.5 km"), "{edge}");
}

#[test]
fn a_queue_beyond_its_capacity_says_so_and_fails_the_verdict() {
    let page = page("queue --servers 4 --service 800ms --rate 5/s", 3);
    let told = "the queue grows without bound at 5/s; capacity is c/T = 5/s";
    assert!(page.contains(told), "{page}");
    assert!(!page.contains("mean wait  "), "there is no wait to print: {page}");
}

#[test]
fn the_load_line_of_a_queue_is_kept_at_it_and_breached_above() {
    let asked = "queue --servers 4 --service 40ms --cv 0 --within p99<300ms";
    let line = result(&record(asked), "load line: 99% within 300ms");
    assert!((80.0..100.0).contains(&line), "{line}");
    assert!(page(&format!("{asked} --rate {line}/s"), 0).contains("are within 300ms"));
    let above = page(&format!("{asked} --rate {:.3}/s", line + 0.1), 3);
    assert!(above.contains("are not within 300ms"), "{above}");
}

#[test]
fn a_bound_under_the_service_time_has_no_load_line() {
    let page = page("queue --service 40ms --cv 0 --within p99<39ms", 3);
    assert!(page.contains("no load keeps 99% within 39ms"), "{page}");
}

#[test]
fn credits_run_out_and_leave_the_baseline() {
    let record = record("credits --load 20%:10m,100%:40m");
    assert!((result(&record, "runs out after") - (10.0 + 29.0 / 0.9)).abs() < 1e-9);
    assert!((result(&record, "at 100 % the most lasts") - 160.0).abs() < 1e-9);
    let curve = record.curve.unwrap();
    let last = curve.rows.last().unwrap();
    assert_eq!(last[..], [50.0, 100.0, 10.0, 0.0], "time, load, carried, balance");
}

#[test]
fn wrong_usage_is_told_with_what_would_be_right() {
    for (arguments, told) in [
        ("--json", "needs a formula"),
        ("bandwidth --rate 35x", "100/s"),
        ("bandwidth --rate 0/s", "a rate of 0/s is out of range; it must be above zero"),
        ("bandwidth --rate 1/s --limit 1Mb/s", "cannot be used with"),
        ("bandwidth --limit 180MB/s", "`180Mb/s`"),
        ("ports --fin-timeout 0s", "a hold of 0s"),
        ("ports --range 65000-1024", "1024 to 65000"),
        ("ports --range 1024", "`1024-65000`"),
        ("replication --per-packet 0", "updates in a packet of 0"),
        ("fibre --distance 7500", "`7500km`"),
        ("fibre --distance 50000km", "40075km"),
        ("queue --rate 4/s", "--service"),
        ("queue --service 1s --servers 0", "1 to 10000"),
        ("queue --service 1s --cv NaN", "0 or 0.01 to 10"),
        ("queue --service 1s --within p100<2s", "below 100%"),
        ("queue --service 1s --within 2s", "`p99<300ms`"),
        ("credits --load 20%", "`20%:10m, 100%:30m`"),
        ("credits --baseline 0%", "a baseline of 0%"),
        ("credits --initial 145", "at most what the balance holds"),
        ("credits --initial 18446744073709551615", "balance of 18446744073709551615 is out"),
        ("credits --max 18446744073709551615", "balance of 18446744073709551615 is out"),
        ("ports --range 0-5", "a port above zero"),
    ] {
        let output = plan(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments}: {error}");
        assert!(error.contains(told), "{arguments}: {error}");
    }
}

/// The page of documentation holds commands and what they print; both are run and compared.
#[test]
fn the_worked_examples_of_the_documentation_are_what_is_printed() {
    let documentation = include_str!("../../../../docs/formulas.md");
    let mut examples = 0;
    for block in documentation.split("```console\n").skip(1) {
        let (block, _) = block.split_once("```").unwrap();
        let (command, shown) = block.split_once('\n').unwrap();
        let arguments = command.strip_prefix("$ loadline plan").unwrap();
        let output = plan(&arguments.replace('\'', ""));
        let printed = String::from_utf8(output.stdout).unwrap();
        for line in shown.lines().filter(|line| !line.is_empty()) {
            assert!(printed.lines().any(|other| other == line), "{line:?} is not in\n{printed}");
        }
        examples += 1;
    }
    assert!(examples >= FORMULAS.len(), "each formula has an example");
}
