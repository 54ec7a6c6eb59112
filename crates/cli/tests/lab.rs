//! `loadline lab` as people run it: studies in namespaces, from the file to the verdict.
//!
//! Where the system refuses namespaces there is no lab to test: then the command has to say so and
//! what to change, which is what these tests hold it to instead.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

#[path = "../../core/tests/skipped/mod.rs"]
mod skipped;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;
use skipped::skipped;

fn loadline(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.args(args);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether there is no lab here; then the refusal has been held to what it must say.
fn refused(output: &Output) -> bool {
    let told = text(&output.stderr);
    if !told.contains("this system refuses a host of the lab") {
        return false;
    }
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("; "), "it says what to change: {told}");
    skipped("namespaces, for a lab; only its refusal was tested");
    true
}

/// A folder of this test alone, empty.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // It is there only where the test ran before.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs a study with this text; gives the output and the folder of the run.
fn run(name: &str, study: &str, more: &[&str]) -> (Output, PathBuf) {
    let folder = folder(name);
    let file = folder.join(format!("{name}.toml"));
    fs::write(&file, study).unwrap();
    let out = folder.join("run");
    let args = ["lab", "run", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    (loadline(&[&args[..], more].concat()).output().unwrap(), out)
}

/// The band's lower end: two round trips are carried four times, and a lab that was calibrated
/// while other tests kept the machine busy takes up to 0.25 ms off each.
const TEN_MS: &str = r#"
title = "Ten milliseconds"
[host.client]
[host.server]
[[link]]
between = ["client", "server"]
rtt = "10ms"
[[program]]
name = "web"
host = "server"
run = ["{loadline}", "worker", "fixed", "--listen", "{server.address}:80"]
ready = { line = "listening on" }
[[phase]]
name = "first-byte"
host = "client"
run = ["{loadline}", "ttfb", "http://{server.address}/", "-n", "10", "--json", "--quiet"]
[limits]
lateness = "1s"
steal = "100%"
[[figure]]
name = "ttfb"
title = "time to first byte, a connection each"
unit = "ms"
phase = "first-byte"
take = "targets.0.time.min_ms"
published = 20
source = "two round trips"
at_least = 19
at_most = 60
"#;

/// The band of its figure.
const BAND: &str = "at_least = 19\nat_most = 60";

#[test]
fn two_hosts_and_ten_milliseconds() {
    let (output, out) = run("ten-ms", TEN_MS, &[]);
    if refused(&output) {
        return;
    }
    let (told, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}{errors}");
    let line = told.lines().find(|line| line.starts_with("PASS loadline: time to first byte"));
    assert!(line.is_some(), "{told}");
    for file in ["study.toml", "record.json", "report.html", "command.txt", "result.txt"] {
        assert!(out.join(file).is_file(), "{file}");
    }
    let row = out.join("rows/loadline");
    assert!(fs::read_to_string(row.join("logs/web.out")).unwrap().contains("listening on"));
    let router: Value =
        serde_json::from_slice(&fs::read(row.join("router.json")).unwrap()).unwrap();
    assert!(router["links"][0]["packets"].as_u64().unwrap() > 0, "{router}");

    let record: Value =
        serde_json::from_slice(&fs::read(out.join("record.json")).unwrap()).unwrap();
    assert_eq!(record["lab"]["phases"][0]["record"]["kind"], "probe");
    let delay = &record["lab"]["delays"][0];
    assert_eq!(delay["asked_ms"], 10.0);
    assert!(delay["p50_ms"].as_f64().unwrap() > 9.0, "{delay}");
    assert!(record["lab"]["environment"]["kernel"].is_string());

    let page = out.join("page.html");
    let page = page.to_str().unwrap();
    let report = loadline(&["report", out.join("record.json").to_str().unwrap(), "-o", page]);
    let report = { report }.output().unwrap();
    assert!(report.status.success(), "{}", text(&report.stderr));
    assert!(fs::read_to_string(page).unwrap().contains("time to first byte, a connection each"));

    // What was measured can be held against a study that was changed meanwhile.
    let file = out.join("../ten-ms.toml");
    fs::write(&file, TEN_MS.replace(BAND, "at_most = 15")).unwrap();
    let page = out.join("page.md");
    fs::write(&page, "# Ten\n\n## Verdicts\n\n- PASS\n\n## What differs\n\nOurs.\n").unwrap();
    let [file, out, page] = [&file, &out, &page].map(|path| path.to_str().unwrap());
    let judged = loadline(&["lab", "judge", file, out, "--markdown", page]).output().unwrap();
    assert_eq!(judged.status.code(), Some(3), "{}", text(&judged.stderr));
    assert!(text(&judged.stdout).contains("FAIL loadline: time to first byte"));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("\n- FAIL loadline") && page.contains("\n## What differs\n\nOurs.\n"));
}

#[test]
fn a_verdict_that_fails_is_code_3_and_only_invalid_runs_are_98() {
    let slow = TEN_MS.replace(BAND, "at_most = 15");
    let (output, _) = run("too-slow", &slow, &["--json"]);
    if refused(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&record["kind"], &record["pass"]), (&"study".into(), &false.into()));
    let schema = loadline(&["schema", "--records"]).output().unwrap().stdout;
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<_> = schema.iter_errors(&record).map(|error| error.to_string()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");

    let late = TEN_MS.replace("lateness = \"1s\"", "lateness = \"1ns\"");
    let (output, out) = run("too-late", &late, &[]);
    assert_eq!(output.status.code(), Some(98), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("INVALID loadline: time to first byte"));
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("0 pass, 1 could not be judged."), "{page}");
}

#[test]
fn what_happens_meanwhile_is_done_to_programs_and_links() {
    let study = TEN_MS.replace(
        "[limits]",
        r#"
[[phase]]
name = "acts"
before = [{ stop = "web" }, { start = "web" }, { link = ["client", "server"], rtt = "40ms" }]
[[phase]]
name = "far"
host = "client"
run = ["{loadline}", "ttfb", "http://{server.address}/", "-n", "5", "--json", "--quiet"]
[[phase]]
name = "cut"
host = "client"
before = [{ cut = "server" }]
after = [{ join = "server" }]
run = ["sh", "-c", "{loadline} ttfb http://{server.address}/ -n 1 -m 0.3 --json --quiet; true"]
[[phase]]
name = "other-program"
host = "client"
run = ["sh", "-c", "echo avg 12.5 ms; hostname"]
measure = { avg = 'avg ([0-9.]+)', host = '\n(\w+)\n' }
[[figure]]
name = "far"
unit = "ms"
phase = "far"
take = "targets.0.time.min_ms"
at_least = "ttfb + 50"
[[figure]]
name = "cut"
phase = "cut"
take = "targets.0.outcomes.ok"
at_most = 0
[[figure]]
name = "avg"
phase = "other-program"
take = "avg"
at_least = 12.5
at_most = 12.5
[[figure]]
name = "on_the_host"
phase = "other-program"
take = "host"
is = "client"
[limits]"#,
    );
    let (output, _) = run("actions", &study, &[]);
    if refused(&output) {
        return;
    }
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}{}", text(&output.stderr));
    assert_eq!(told.lines().filter(|line| line.starts_with("PASS ")).count(), 5, "{told}");
}

#[test]
fn an_action_that_is_due_after_the_end_fails_the_phase_and_is_told() {
    let study = TEN_MS.replace(
        "host = \"client\"\n",
        "host = \"client\"\nduring = [{ at = \"9m\", kill = \"web\" }]\n",
    );
    let (output, _) = run("after-the-end", &study, &["--again", "0"]);
    if refused(&output) {
        return;
    }
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{told}{}", text(&output.stderr));
    let reason = "`kill web` was due at 9m, but the command ended after";
    assert!(told.contains(reason), "{told}");
}

#[test]
fn a_command_beside_a_phase_that_prints_no_record_fails_it_with_its_last_words() {
    let beside = "[[phase.beside]]\nname = \"new\"\nhost = \"client\"\n\
                  run = [\"ls\", \"/not-there\"]\n[limits]";
    let study = TEN_MS.replace("[limits]", beside);
    let (output, _) = run("beside", &study, &["--again", "0"]);
    if refused(&output) {
        return;
    }
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{told}{}", text(&output.stderr));
    assert!(told.contains("`new`, beside it, printed no record: "), "{told}");
    assert!(told.contains("ls: cannot access '/not-there'"), "{told}");
}

#[test]
fn a_peer_that_is_not_installed_is_skipped_and_said() {
    let study = TEN_MS.replace(
        "[host.client]",
        "[tool.no-such-proxy]\ninstall = \"apt-get install it\"\n[row.loadline]\n\
         [row.peer]\ntitle = \"The peer\"\npeer = \"no-such-proxy\"\n[host.client]",
    );
    let (output, _) = run("no-peer", &study, &["--peer", "no-such-proxy"]);
    if refused(&output) {
        return;
    }
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}{}", text(&output.stderr));
    let skipped = "SKIPPED The peer (no-such-proxy is not installed: apt-get install it)";
    assert!(told.contains(skipped), "{told}");
    let (output, _) = run("unknown-peer", &study, &["--peer", "nginx"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("there are no-such-proxy"));
}

#[test]
fn a_study_on_an_ethernet_tells_a_user_without_rights_and_is_code_77() {
    let with = |name: &str, at: u8| format!("[host.{name}]\nethernet = \"10.1.0.{at}/24\"");
    let study = TEN_MS
        .replace("[host.client]", &with("client", 1))
        .replace("[host.server]", &with("server", 2));
    let folder = folder("no-rights");
    let file = folder.join("no-rights.toml");
    fs::write(&file, study).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let out = folder.join("run");
    let loadline = env!("CARGO_BIN_EXE_loadline");
    let mut command = Command::new(loadline);
    if rustix::process::geteuid().is_root() {
        // Nobody has no rights.
        command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        command.args(["--bounding-set=-all", loadline]);
    }
    let output = command.args(["lab", "run"]).arg(&file).arg("--out").arg(&out).output().unwrap();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(77), "{told}");
    for part in ["CAP_SYS_ADMIN and CAP_NET_ADMIN", "CAP_BPF", "run as root of the machine"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn a_wrong_study_is_code_1_and_the_error_points_into_it() {
    let (output, _) = run("wrong", &TEN_MS.replace("\"10ms\"", "\"10\""), &[]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    for part in ["`10` is no quantity here", "rtt = \"10\"", "write it with its unit"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let output = loadline(&["lab", "run", "no-such-study"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("lab list"), "{}", text(&output.stderr));
}

#[test]
fn a_program_that_does_not_start_is_code_2_with_its_last_words() {
    let wrong = TEN_MS.replace("\"worker\", \"fixed\"", "\"worker\", \"fxed\"");
    let (output, _) = run("no-start", &wrong, &[]);
    if refused(&output) {
        return;
    }
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("`web` did not start") && told.contains("fxed"), "{told}");
}

#[test]
fn a_row_that_forwards_packets_is_skipped_by_a_loadline_that_was_built_without() {
    let rows = "[row.first]\n[row.second]\n[row.third]\n";
    let web = r#"["sh", "-c", """[ {row} != second ] || { echo 'loadline: packets cannot be \
        forwarded: this loadline was built without packet forwarding: no clang' >&2; exit 2; }; \
        exec {loadline} worker fixed --listen {server.address}:80"""]"#;
    let study = TEN_MS
        .replace("[host.client]", &format!("{rows}[host.client]"))
        .replace(r#"["{loadline}", "worker", "fixed", "--listen", "{server.address}:80"]"#, web);
    let (output, _) = run("no-forwarding", &study, &[]);
    if refused(&output) {
        return;
    }
    let (told, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}{errors}");
    let why = "`web` did not start: this loadline was built without packet forwarding: no clang";
    let skipped = format!("SKIPPED second ({why})");
    for part in ["PASS first: time to first byte", &skipped, "PASS third: time to first byte"] {
        assert!(told.contains(part), "{part}: {told}{errors}");
    }
    let (output, _) = run("only-forwarding", &study, &["--row", "second"]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(77), "{errors}");
    assert!(errors.contains(why), "{errors}");
}

/// The record in the folder of a run, and whether its report is there.
fn record(out: &Path) -> Value {
    assert!(out.join("report.html").is_file());
    serde_json::from_slice(&fs::read(out.join("record.json")).unwrap()).unwrap()
}

#[test]
fn what_was_measured_before_a_program_that_does_not_start_is_kept() {
    let rows = "[row.first]\nvalues = { kind = \"fixed\" }\n[row.second]\n\
                values = { kind = \"fxed\" }\n[row.third]\nvalues = { kind = \"fixed\" }\n";
    let study = TEN_MS
        .replace("[host.client]", &format!("{rows}[host.client]"))
        .replace("\"worker\", \"fixed\"", "\"worker\", \"{kind}\"");
    let (output, out) = run("second-row", &study, &[]);
    if refused(&output) {
        return;
    }
    let (told, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{told}{errors}");
    assert!(errors.contains("`web` did not start"), "{errors}");
    assert!(told.contains("PASS first: time to first byte"), "{told}");
    assert!(told.contains("SKIPPED third (`web` did not start"), "{told}");
    let record = record(&out);
    let rows = record["lab"]["rows"].as_array().unwrap();
    let skipped: Vec<_> = rows.iter().map(|row| row["skipped"].is_string()).collect();
    assert_eq!(skipped, [false, true, true]);
    assert!(record["lab"]["figures"][0]["measured"].is_number(), "{record}");
}

#[test]
fn an_interrupt_keeps_what_was_measured_and_does_not_wait_for_what_waits() {
    let study = TEN_MS.replace(
        "[limits]",
        r#"
[[phase]]
name = "pause"
before = [{ wait = "10m" }]
[[phase]]
name = "later"
host = "client"
run = ["{loadline}", "ttfb", "http://{server.address}/", "-n", "5", "--json", "--quiet"]
[[figure]]
name = "later"
phase = "later"
take = "targets.0.time.min_ms"
at_most = "2 * ttfb"
[limits]"#,
    );
    let folder = folder("interrupted");
    let file = folder.join("interrupted.toml");
    fs::write(&file, study).unwrap();
    let out = folder.join("run");
    let mut command = loadline(&["lab", "run", file.to_str().unwrap()]);
    let command = command.arg("--out").arg(&out).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let told: Vec<_> = lines.by_ref().take_while(|line| !line.contains("pause, run 1")).collect();
    let began = std::time::Instant::now();
    // It has ended by itself where there is no lab here.
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    let last: Vec<_> = lines.collect();
    let mut output = child.wait_with_output().unwrap();
    output.stderr = [told, last].concat().join("\n").into_bytes();
    if refused(&output) {
        return;
    }
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    let (told, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{told}{errors}");
    assert!(errors.contains("interrupted"), "{errors}");
    assert!(told.contains("PASS loadline: time to first byte"), "{told}");
    let figures = &record(&out)["lab"]["figures"];
    assert_eq!(figures[0]["finding"], "shown", "{figures}");
    assert_eq!(figures[0]["reason"], "interrupted", "{figures}");
}

#[test]
fn the_study_of_a_new_user_runs_as_it_is() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/lab/three-regions.toml");
    let folder = folder("three-regions");
    let (file, out) = (file.to_str().unwrap(), folder.to_str().unwrap());
    let output = loadline(&["lab", "run", file, "--out", out]).output().unwrap();
    if refused(&output) {
        return;
    }
    // A machine that is busy may make runs invalid; that has to be said, and nothing else.
    let told = text(&output.stdout);
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 98)), "{code:?} {told}{}", text(&output.stderr));
    assert!(!told.contains("FAIL "), "{told}");
}

#[test]
fn the_eight_questions_have_answers() {
    let folder = folder("questions");
    let args = ["lab", "assignment", "--quick", "--quiet", "--out", folder.to_str().unwrap()];
    let output = loadline(&args).output().unwrap();
    if refused(&output) {
        return;
    }
    // A machine that is busy may miss bands of a few milliseconds; questions are answered still.
    let told = text(&output.stdout);
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 3 | 98)), "{code:?} {told}{}", text(&output.stderr));
    let asked = told.lines().filter(|line| line.ends_with('?')).collect::<Vec<_>>();
    assert_eq!(asked.len(), 8, "{told}");
    assert!((1..).zip(&asked).all(|(number, line)| line.starts_with(&format!("{number}. "))));
    assert!(told.contains(" ms: what 300 requests more at once take longer"), "{told}");
    assert!(!told.contains(['{', '}']), "{told}");
    let record: Value =
        serde_json::from_slice(&fs::read(folder.join("record.json")).unwrap()).unwrap();
    let figures = record["lab"]["figures"].as_array().unwrap();
    let question = |number: u32| {
        let source = format!("report, question {number}");
        let is_it =
            |figure: &Value| figure["source"].as_str().is_some_and(|it| it.starts_with(&source));
        figures.iter().any(is_it)
    };
    assert!((1..=8).all(question), "{figures:#?}");
}

/// A lab that is up, ended with the value.
struct Up(Child, String);

impl Up {
    /// None where the system gives no lab.
    fn start(name: &str) -> Option<Self> {
        let folder = folder(name);
        let file = folder.join(format!("{name}.toml"));
        fs::write(&file, TEN_MS).unwrap();
        let mut command = loadline(&["lab", "up", file.to_str().unwrap()]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        if first.is_empty() {
            assert!(refused(&child.wait_with_output().unwrap()));
            return None;
        }
        assert_eq!(first.trim(), format!("lab {name} is up"));
        Some(Self(child, name.to_owned()))
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // It has ended already where the test went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_lab_can_be_held_looked_into_and_ended() {
    let name = format!("held-{}", std::process::id());
    let Some(mut up) = Up::start(&name) else { return };
    let ask = |args: &[&str]| {
        let line = [&["lab", "shell", "client", "--lab", &up.1, "--"][..], args].concat();
        loadline(&line).output().unwrap()
    };
    let output = ask(&["hostname"]);
    assert_eq!(text(&output.stdout).trim(), "client", "{}", text(&output.stderr));
    assert_eq!(ask(&["sh", "-c", "exit 7"]).status.code(), Some(7));
    let asked = ask(&[env!("CARGO_BIN_EXE_loadline"), "ttfb", "server", "-n", "2", "--quiet"]);
    assert!(asked.status.success(), "{}", text(&asked.stderr));
    let list = loadline(&["lab", "list"]).output().unwrap();
    assert!(text(&list.stdout).contains(&format!("running: {name} ")), "{}", text(&list.stdout));
    let none = loadline(&["lab", "shell", "sever", "--lab", &name]).output().unwrap();
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stderr).contains("client, server"), "{}", text(&none.stderr));

    let down = loadline(&["lab", "down", &name]).output().unwrap();
    assert!(down.status.success(), "{}", text(&down.stderr));
    assert_eq!(up.0.wait().unwrap().code(), Some(0));
    let again = loadline(&["lab", "down", &name]).output().unwrap();
    assert_eq!(again.status.code(), Some(1), "{}", text(&again.stdout));
}

#[test]
fn budgets_are_used_up_in_virtual_time_and_the_page_says_so() {
    let page = folder("overflow").join("overflow.md");
    let args = ["lab", "overflow", "--quick", "--markdown", page.to_str().unwrap()];
    let output = loadline(&args).output().unwrap();
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}{}", text(&output.stderr));
    assert_eq!(told.lines().filter(|line| line.starts_with("PASS ")).count(), 16, "{told}");
    let page = fs::read_to_string(page).unwrap();
    assert!(told.lines().all(|line| page.contains(line)), "{page}");
}
