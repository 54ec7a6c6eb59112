//! The dashboard and the alert rules: readable by their programs, about metrics that there are.

use std::{fs, process::Command};

use serde_json::Value;

use crate::repository;

/// The metrics of loadline that `text` names.
fn metrics(text: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(|c| !is_name(c));
    words.filter(|word| word.starts_with("loadline_")).collect()
}

/// Fails where `text` names a metric that the documentation does not list.
fn check_metrics(text: &str, at_least: usize) {
    let page = fs::read_to_string(repository("docs/operation.md")).expect("the page of metrics");
    let named = metrics(text);
    assert!(named.len() >= at_least, "{named:?}");
    for name in named {
        let family = name.strip_suffix("_bucket").unwrap_or(name);
        assert!(page.contains(&format!("| `{family}` |")), "there is no metric {name}");
    }
}

#[test]
fn promtool_takes_the_alert_rules_and_their_metrics_are_there() {
    let path = repository("examples/monitoring/alerts.yml");
    let checked = Command::new("promtool").args(["check", "rules"]).arg(&path).output();
    let checked = checked.expect("promtool");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    check_metrics(&fs::read_to_string(path).expect("the rules"), 10);
}

#[test]
fn every_alert_has_its_row_in_the_manual_and_what_the_manual_alerts_on_is_a_rule() {
    let read = |path| fs::read_to_string(repository(path)).expect("a file");
    let rules = read("examples/monitoring/alerts.yml");
    let page = read("docs/operation.md");
    let table = page.split_once("| alert | fires when |\n").expect("the table of alerts").1;
    let rows = table.lines().take_while(|line| line.starts_with('|')).skip(1);
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let told: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    assert_eq!(told, alerts.collect::<Vec<_>>());
    let advice = "loadline_standby_whole == 0";
    assert!(read("docs/standby.md").contains(&format!("Alert on `{advice}`")));
    assert!(rules.contains(&format!("expr: {advice}\n")), "{advice}");
}

#[test]
fn every_panel_of_the_dashboard_asks_for_metrics_that_are_there() {
    let text = fs::read_to_string(repository("examples/monitoring/dashboard.json"));
    let dashboard: Value = serde_json::from_str(&text.expect("the dashboard")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|it| it["targets"].as_array().expect("targets"));
    let queries: Vec<&str> = targets.map(|it| it["expr"].as_str().expect("a query")).collect();
    assert!(panels.len() > 10 && queries.len() >= panels.len());
    let folder = tempfile::tempdir().expect("a folder");
    let rules: Vec<Value> = queries
        .iter()
        .map(|query| {
            let query = query.replace("$__rate_interval", "5m").replace("$service", ".*");
            serde_json::json!({ "record": "panel", "expr": query })
        })
        .collect();
    // JSON is YAML too, and promtool reads queries in rules alone. Equal names are no error of it.
    let rules = serde_json::json!({ "groups": [{ "name": "panels", "rules": rules }] });
    let path = folder.path().join("panels.yml");
    fs::write(&path, rules.to_string()).expect("a file");
    let arguments = ["check", "rules", "--lint=none"];
    let checked = Command::new("promtool").args(arguments).arg(&path).output().expect("promtool");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    check_metrics(&queries.join("\n"), 20);
}
