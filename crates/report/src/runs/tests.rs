//! What a page of records must contain, and must not.

use loadline_core::{time::Duration, units::Rate};
use loadline_measure::record::{
    Bin, ComparedRun, ComparisonRecord, Criterion, Fault, Latency, Moment, ObjectiveRecord,
    Outcomes, Phases, PlanRecord, PlannedCase, PlannedGroup, ProbeRecord, ResourceRecord, RunCount,
    Spread, Spreads,
};

use super::*;

/// A run of ten seconds at this rate, in which answers took so many milliseconds.
fn load(rate: u64, ms: u64) -> LoadRecord {
    let time = Duration::from_millis(ms);
    let latency = Latency {
        count: 10 * rate,
        mean: time,
        p50: time,
        p99: time,
        max: time,
        ..Latency::default()
    };
    let moment = |second: u64| Moment {
        at: Duration::from_secs(second),
        planned: rate,
        outcomes: Outcomes { ok: rate, ..Outcomes::default() },
        mean: time,
        p50: time,
        p99: time,
        max: time,
        ..Moment::default()
    };
    let spread = Spread(vec![Bin { up_to: time, count: 10 * rate }]);
    LoadRecord {
        target: "http://a.example/?<script>".into(),
        model: LoadModel::Open {
            rate: Rate::per_sec(rate),
            arrivals: Arrivals::Constant,
            seed: 1,
            stages: Vec::new(),
        },
        elapsed: Duration::from_secs(10),
        planned: 10 * rate,
        outcomes: Outcomes { ok: 10 * rate, ..Outcomes::default() },
        response: latency.clone(),
        service: latency.clone(),
        phases: Phases { first_byte: latency, ..Phases::default() },
        spreads: Spreads { response: spread.clone(), service: spread, lag: Spread::default() },
        moments: (1..=10).map(moment).collect(),
        ..LoadRecord::default()
    }
}

fn named(name: &str, record: LoadRecord) -> Named {
    Named { name: name.into(), record: Record::Load(record) }
}

fn html(records: &[Named]) -> String {
    runs_page("Test", records).unwrap().html()
}

fn invalid(record: LoadRecord) -> LoadRecord {
    let fault = Fault { what: "own CPU at 99 %".into(), advice: "use more cores".into() };
    let generator = loadline_measure::record::Generator { faults: vec![fault], ..record.generator };
    LoadRecord { generator, ..record }
}

#[test]
fn several_runs_stand_in_every_table_and_every_plot() {
    let html = html(&[named("slow <1>", load(100, 50)), named("fast", load(200, 20))]);
    for part in [
        "Response time against rate", "Latency by percentile", "Where the time goes",
        "All runs over time", "Run slow &lt;1&gt;", "Run fast", "fast, response", "fast, service",
        "\noffered\n", "\nachieved\n", "\nin flight\n", "\nended, requests/s\n",
        "percentile of requests, %", "What became of every request", "100/s constant",
    ] {
        assert!(html.contains(part), "{part:?} is missing");
    }
}

/// As a record has them that somebody wrote by hand.
#[test]
fn counts_too_large_to_be_added_are_drawn_and_compared() {
    let mut forged = load(100, 50);
    let most = Outcomes { ok: u64::MAX, timeout: u64::MAX, ..Outcomes::default() };
    (forged.planned, forged.outcomes) = (u64::MAX, most);
    for moment in &mut forged.moments {
        (moment.planned, moment.outcomes) = (u64::MAX, most);
    }
    let bin = Bin { up_to: Duration::from_millis(50), count: u64::MAX };
    forged.spreads.response = Spread(vec![bin; 2]);
    let html = html(&[named("forged", forged.clone()), named("again", forged.clone())]);
    assert!(html.contains(&u64::MAX.to_string()));
    let limits = crate::Limits::default();
    let compared = crate::compare_runs(("forged", &forged), ("again", &forged), limits);
    assert!(!compared.regressed, "{compared:?}");
}

#[test]
fn one_run_has_nothing_to_be_laid_over() {
    let html = html(&[named("alone", load(100, 50))]);
    assert!(!html.contains("All runs over time"));
    assert!(!html.contains("Response time against rate"));
    assert!(html.contains("alone over time"));
}

/// As before and after a change.
#[test]
fn runs_at_one_rate_are_no_curve_against_the_rate() {
    let html = html(&[named("before", load(100, 50)), named("after", load(100, 20))]);
    assert!(html.contains("All runs over time"));
    assert!(!html.contains("Response time against rate"));
}

#[test]
fn an_invalid_run_is_called_so_wherever_it_is_named() {
    let html = html(&[named("good", load(100, 50)), named("bad", invalid(load(200, 20)))]);
    assert!(html.contains(">INVALID</td>"));
    assert!(html.contains("bad (invalid): own CPU at 99 %; use more cores."));
    assert!(html.contains("bad (invalid), response"));
    assert!(html.contains("mean (invalid)"));
    let marked = html.matches("bad (invalid)").count();
    assert_eq!(html.matches("bad").count() - html.matches("bad answer").count(), marked);
}

#[test]
fn a_breached_objective_is_told_with_its_figures() {
    let criterion = |text: &str, met| Criterion {
        text: text.into(),
        measured: "50.0 ms".into(),
        met,
        ..Criterion::default()
    };
    let objective = ObjectiveRecord {
        text: "p99<30ms, p50<90ms".into(),
        criteria: vec![criterion("p99<30ms", false), criterion("p50<90ms", true)],
    };
    let html = html(&[named("run", LoadRecord { objective: Some(objective), ..load(9, 50) })]);
    assert!(html.contains("<td class=\"fail\">breached</td>"));
    assert!(html.contains("run breached p99&lt;30ms (measured 50.0 ms)."));
}

#[test]
fn the_page_reaches_for_nothing_outside_itself_and_runs_no_script() {
    let html = html(&[named("a", load(100, 50)), named("b", load(200, 20))]);
    for reference in ["src=", "href=", "url(", "@import", "<script", "<link", "<img", "<iframe"] {
        assert!(!html.contains(reference), "the page contains {reference}");
    }
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn every_element_is_closed_in_its_order() {
    let html = html(&[named("a <b>", load(100, 50)), named("\"c\" & d", invalid(load(200, 20)))]);
    let mut open = Vec::new();
    for tag in html.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|tag| tag.0) {
        let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap();
        match tag {
            _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "at </{name}>"),
            _ if tag.starts_with('!') || tag.ends_with('/') || name == "meta" => {}
            _ => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?} stay open");
}

#[test]
fn a_run_of_nothing_is_still_a_page() {
    let html = html(&[named("none", LoadRecord::default())]);
    assert!(html.contains("Run none") && html.ends_with("</html>"));
    assert!(!html.contains("NaN"), "a figure is not a number");
}

#[test]
fn a_run_of_which_nothing_came_has_no_times() {
    let html = html(&[named("none", LoadRecord::default())]);
    let (summary, _) = html.split_once("</table>").unwrap();
    assert!(!summary.contains(" ms"), "{summary}");
}

#[test]
fn runs_without_phases_are_no_bars_among_those_that_have_them() {
    let simulated = LoadRecord { phases: Phases::default(), ..load(100, 50) };
    let runs = [named("simulated", simulated), named("measured", load(100, 50))];
    let runs = runs_page("Test", &runs).unwrap().html();
    let (_, phases) = runs.split_once("Mean by phase").unwrap();
    let (table, _) = phases.split_once("</table>").unwrap();
    assert!(table.contains("measured") && !table.contains("simulated"), "{table}");
}

#[test]
fn servers_that_hold_an_objective_in_some_runs_are_not_said_to_hold_it_in_every_case() {
    let case = |runs| PlannedCase { held: RunCount { runs, of: 5 }, ..PlannedCase::default() };
    let group = PlannedGroup { servers_now: 3, servers: 4, ..PlannedGroup::default() };
    let plan = PlanRecord {
        objective: "p99<47ms".into(),
        groups: vec![group],
        cases: vec![case(5), case(3)],
        ..PlanRecord::default()
    };
    let told = plan_verdict(&plan);
    assert!(told.starts_with("4 servers (now 3) hold p99<47ms in 8 of 10 runs, not in"), "{told}");
    let met = plan_verdict(&PlanRecord { met: true, ..plan });
    assert_eq!(met, "4 servers (now 3) hold p99<47ms in every case.");
}

#[test]
fn a_plan_of_drained_servers_says_so_and_not_that_more_do_not_help() {
    let case = PlannedCase { held: RunCount { runs: 0, of: 5 }, ..PlannedCase::default() };
    let objective = "p99<60ms".into();
    let plan = PlanRecord { objective, cases: vec![case], ..PlanRecord::default() };
    let told = plan_verdict(&plan);
    assert_eq!(told, "All servers are drained: nothing is there that could hold p99<60ms.");
}

#[test]
fn a_simulated_run_began_at_no_time() {
    let shown = html(&[named("simulation", load(100, 50))]);
    assert!(!shown.contains("1970"));
    let real = LoadRecord { started_unix_ms: 1_795_233_600_000, ..load(100, 50) };
    assert!(html(&[named("real", real)]).contains("2026-11-21"));
}

#[test]
fn probes_resources_and_comparisons_say_when_they_began() {
    let records = |started_unix_ms| {
        let run = ComparedRun { started_unix_ms, ..ComparedRun::default() };
        let probe = ProbeRecord { started_unix_ms, ..ProbeRecord::default() };
        let resources = ResourceRecord { started_unix_ms, ..ResourceRecord::default() };
        let comparison = ComparisonRecord { a: run.clone(), b: run, ..ComparisonRecord::default() };
        [Record::Probe(probe), Record::Resources(resources), Record::Comparison(comparison)]
    };
    for (record, times) in records(1_795_233_600_000).into_iter().zip([1, 1, 2]) {
        let html = html(&[Named { name: "dated".into(), record }]);
        assert_eq!(html.matches("2026-11-21").count(), times, "{html}");
    }
    for record in records(0) {
        assert!(!html(&[Named { name: "undated".into(), record }]).contains("1970"));
    }
}

#[test]
fn plans_are_told_in_a_few_words() {
    let stage = |from, to| loadline_measure::record::Stage {
        from: Rate::per_sec(from),
        to: Rate::per_sec(to),
        lasts: Duration::from_secs(60),
    };
    let open = |stages| LoadModel::Open {
        rate: Rate::per_sec(200),
        arrivals: Arrivals::Poisson,
        seed: 7,
        stages,
    };
    let think = Duration::from_secs(1);
    for (model, told) in [
        (LoadModel::default(), "1 user"),
        (LoadModel::Closed { users: 64, think }, "64 users, think 1s"),
        (open(Vec::new()), "200/s Poisson"),
        (
            LoadModel::Open {
                rate: Rate::milli_per_sec(49_983),
                arrivals: Arrivals::Poisson,
                seed: 7,
                stages: Vec::new(),
            },
            "49.983/s Poisson",
        ),
        (open(vec![stage(10, 10), stage(10, 400)]), "10/s to 400/s in 2 stages, Poisson"),
    ] {
        assert_eq!(plan(&model), told);
    }
}
