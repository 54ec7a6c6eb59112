//! One slip at a time: the error stands in its line and says what would be right.

use loadline_lab::study::{Mode, Study};

use super::{SMALLEST, told};

/// What is said of the smallest study with one text replaced, with the line of what replaced it.
fn said(from: &str, to: &str) -> (String, usize) {
    assert!(SMALLEST.contains(from), "{from}");
    let text = SMALLEST.replacen(from, to, 1);
    let line = text[..SMALLEST.find(from).unwrap()].matches('\n').count() + 1;
    let errors = Study::parse("study.toml", &text, Mode::Full).map(|_| ()).unwrap_err();
    (told(&errors), line)
}

#[test]
fn a_slip_is_told_in_its_line_with_what_would_be_right() {
    let cases = [
        ("title =", "titel =", "unknown key `titel` - did you mean `title`?"),
        ("\"10ms\"", "\"10\"", "`10` is no quantity here - write it with its unit"),
        ("\"10ms\"", "\"5.5ms\"", "is not a duration of whole numbers - write `5500us`"),
        ("\"server\"]\nrtt", "\"sever\"]\nrtt", "there is no host or region `sever` in this row"),
        ("host = \"server\"", "host = \"sever\"", "did you mean `server`?"),
        ("{server.address}:80", "{sever.address}:80", "`{sever.address}` is unknown"),
        ("port = 80", "port = \"http\"", "`http` is no port"),
        ("port = 80", "prt = 80", "did you mean `port`?"),
        ("\"{n}\"", "\"{=n*}\"", "cannot be worked out"),
        ("phase = \"first-byte\"", "phase = \"last-byte\"", "there is no phase `last-byte`"),
        ("\"1.5 * 20\"", "\"1.5 * tfb\"", "there is no figure `tfb` - did you mean `ttfb`?"),
        ("\"1.5 * 20\"", "\"1.5 *\"", "it ends where a number"),
        ("name = \"ttfb\"", "name = \"TTFB\"", "`TTFB` is no name"),
        ("unit = \"ms\"", "of = \"avg\"", "`avg` is no way to sum up"),
        ("unit = \"ms\"", "at = { m = 1 }", "the phase has no `for` called `m`"),
        ("unit = \"ms\"", "rows = [\"direct\"]", "there is no row `direct`"),
        ("repeat = 2", "needs = \"siege\"", "it needs an unknown tool `siege`"),
        ("repeat = 2", "measure = { a = 'avg' }", "has not exactly one group"),
        ("repeat = 2", "after = [{ stop = \"wab\" }]", "there is no program `wab`"),
        ("repeat = 2", "after = [{ wait = \"1s\", stop = \"web\" }]", "exactly one thing"),
        ("repeat = 2", "after = [{ signal = \"UP\", to = \"web\" }]", "no signal `UP`"),
        ("repeat = 2", "repeat = \"twice\"", "4294967295, found string \"twice\" - docs/lab.md"),
        ("repeat = 2", "repeat = 0", "a phase that runs 0 times"),
        ("[10, 20]", "[]", "`n` has no values: the phase would not run"),
        ("\"10ms\"", "\"10ms", "not TOML: "),
    ];
    for (from, to, part) in cases {
        let (said, line) = said(from, to);
        assert!(said.contains(part), "{to}: {said}");
        // What is missing in a table is told at its head, some lines above.
        let near = said.lines().any(|one| {
            let at: usize = one.split(':').next().unwrap().parse().unwrap_or(0);
            at <= line && line < at + 8
        });
        assert!(near, "{to} is in line {line}, not where it is told: {said}");
    }
}

#[test]
fn a_machine_that_cannot_be_is_told_before_anything_starts() {
    for (key, part) in [
        ("cpu = \"0%\"", "the share of host `client` is 0%; it is at least 1%"),
        (
            "initial_window = 0",
            "the initial window of host `client` is 0; it is at least 1 segment",
        ),
        ("window = \"0B\"", "the window of host `client` is 0B"),
        ("congestion = \"cu bic\"", "the congestion control of host `client` is `cu bic`"),
    ] {
        let (said, line) = said("[host.client]", &format!("[host.client]\n{key}"));
        assert!(said.starts_with(&format!("{}: {part}", line + 1)), "{key}: {said}");
    }
}

#[test]
fn hosts_that_can_never_meet_are_told_where_one_says_its_address() {
    let (told, line) = said("[host.client]", "[host.client]\naddress = \"fd00::1\"");
    let message = "no host but `client` has an address of IPv6";
    assert!(told.starts_with(&format!("{}: {message}", line + 1)), "{told}");
    let with = |server: &str| {
        let text = SMALLEST
            .replace("[host.client]", "[host.client]\naddress = \"fd00::1\"")
            .replace("[host.server]", &format!("[host.server]\n{server}"));
        Study::parse("study.toml", &text, Mode::Full).is_ok()
    };
    assert!(with("address = \"fd00::2\""));
    assert!(with("also = [\"fd00::2\"]"));
}

#[test]
fn a_band_that_nothing_is_in_is_told() {
    let (told, line) = said("at_least = 20", "at_least = 31");
    let message = "nothing is at least 31 and at most 30";
    assert_eq!(told.matches(message).count(), 1, "{told}");
    assert!(told.starts_with(&format!("{}: {message}", line + 1)), "{told}");
    let same = SMALLEST.replace("at_least = 20", "at_least = 30");
    assert!(Study::parse("study.toml", &same, Mode::Full).is_ok());
    let quick = SMALLEST.replace("at_least = 20", "quick = { at_least = 2, at_most = 1 }");
    let errors = Study::parse("study.toml", &quick, Mode::Full).map(|_| ()).unwrap_err();
    assert!(super::told(&errors).contains("nothing is at least 2 and at most 1"));
}

#[test]
fn hosts_that_cannot_be_on_an_ethernet_so_are_told_where_they_say_it() {
    let slips = [
        ("10.1.0.1", "10.1.0.2/24", 1, "`10.1.0.1` is no address on an Ethernet"),
        ("10.1.0.1/24", "10.2.0.2/24", 2, "is alone on the Ethernet 10.1.0.0/24"),
        ("10.1.0.1/24", "10.1.0.1/24", 2, "hosts `client` and `server` have the address 10.1.0.1"),
        ("10.1.0.1/24", "10.1.0.2/16", 2, "write one prefix for hosts of one Ethernet"),
        ("10.0.0.8/24", "10.0.0.9/24", 2, "holds 10.0.0.1, which host `client` has towards"),
    ];
    for (client, server, errors, part) in slips {
        let with = |name: &str, address: &str| format!("[host.{name}]\nethernet = \"{address}\"");
        let text = SMALLEST
            .replace("[host.client]", &with("client", client))
            .replace("[host.server]", &with("server", server));
        let wrong = Study::parse("study.toml", &text, Mode::Full).map(|_| ()).unwrap_err();
        let said = told(&wrong);
        assert!(said.contains(part) && said.contains("docs/lab.md"), "{said}");
        let line = text[..text.find("ethernet =").unwrap()].matches('\n').count() + 1;
        assert!(said.starts_with(&format!("{line}: ")), "{said}");
        assert!(wrong.errors().len() >= errors, "{said}");
    }
}

#[test]
fn a_figure_of_a_phase_that_its_rows_do_not_have_is_told() {
    let text = SMALLEST
        .replace("[host.client]", "[row.near]\n[row.far]\n[host.client]")
        .replace("repeat = 2", "rows = [\"far\"]")
        .replace("unit = \"ms\"", "rows = [\"near\"]");
    let errors = Study::parse("study.toml", &text, Mode::Full).map(|_| ()).unwrap_err();
    let line = text[..text.find("phase = ").unwrap()].matches('\n').count() + 1;
    let message = "no row of this figure has the phase `first-byte` - rows with it are far";
    assert_eq!(told(&errors), format!("{line}: {message}\n"));
    let both = text.replace("rows = [\"near\"]", "rows = [\"near\", \"far\"]");
    assert!(Study::parse("study.toml", &both, Mode::Full).is_ok());
}

#[test]
fn figures_that_are_worked_out_from_each_other_are_told() {
    let figure =
        |name: &str, from: &str| format!("\n[[figure]]\nname = {name:?}\ncompute = {from:?}\n");
    let circle = [figure("one", "other + 1"), figure("other", "2 * one"), figure("third", "one")];
    let text = format!("{SMALLEST}{}", circle.concat());
    let errors = Study::parse("study.toml", &text, Mode::Full).map(|_| ()).unwrap_err();
    let said = told(&errors);
    assert!(said.contains("`one` is worked out from itself"), "{said}");
    assert!(said.contains("`other` is worked out from itself"), "{said}");
    assert!(!said.contains("`third`"), "{said}");
}

#[test]
fn what_is_missing_is_told_where_it_should_stand() {
    let cases = [
        ("name = \"web\"\n", "`name` is missing here"),
        ("host = \"client\"\n", "`host` is missing here"),
        ("take = \"targets.0.time.p50_ms\"\n", "`take` is missing here"),
        ("phase = \"first-byte\"\n", "a figure comes from one place"),
        ("title = \"Ten milliseconds\"\n", "the study has no title"),
    ];
    for (from, part) in cases {
        assert!(said(from, "").0.contains(part), "{from}: {}", said(from, "").0);
    }
}

#[test]
fn all_errors_are_told_at_once() {
    let text = SMALLEST.replace("rtt = \"10ms\"", "rtt = \"10\"").replace("{n}", "{m}");
    let errors = Study::parse("study.toml", &text, Mode::Full).map(|_| ()).unwrap_err();
    assert_eq!(errors.errors().len(), 2, "{}", told(&errors));
}

#[test]
fn regions_without_a_link_are_told() {
    let text = SMALLEST
        .replace("[host.server]", "[host.server]\nregion = \"us\"\n[host.far]\nregion = \"asia\"");
    let errors = Study::parse("study.toml", &text, Mode::Full).map(|_| ()).unwrap_err();
    let told = told(&errors);
    assert!(told.contains("there is no link between `client` and `far`"), "{told}");
    assert!(told.contains("there is no link between `server` and `far`"), "{told}");
}
