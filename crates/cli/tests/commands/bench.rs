//! `loadline bench` as people call it: what it prints, and its exit codes.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use loadline_measure::record::{Document, LoadModel, LoadRecord, Outcomes, Record, SCHEMA_VERSION};

use crate::ports::reserved;

/// A server that answers every request with ten bytes, until the test ends.
fn server() -> SocketAddr {
    serve(|_, stream| stream.write_all(ANSWER))
}

/// A server that does this with request number so and so, counted from 0; an error ends the
/// connection.
fn serve(
    answer: impl Fn(u64, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (answer, number) = (Arc::new(answer), Arc::new(AtomicU64::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming().map(Result::unwrap) {
            let (answer, number) = (Arc::clone(&answer), Arc::clone(&number));
            std::thread::spawn(move || converse(stream, &*answer, &number));
        }
    });
    address
}

fn converse(
    mut stream: TcpStream,
    answer: &impl Fn(u64, &mut TcpStream) -> io::Result<()>,
    number: &AtomicU64,
) {
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    for _end_of_head in lines.map_while(Result::ok).filter(String::is_empty) {
        if answer(number.fetch_add(1, Relaxed), &mut stream).is_err() {
            break;
        }
    }
}

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nX-Served-By: a\r\nContent-Length: 10\r\n\r\n0123456789";

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loadline")).arg("bench").args(arguments).output().unwrap()
}

#[test]
fn four_users_with_twenty_requests_each_print_a_page_that_adds_up() {
    let url = format!("{}/path", server());
    let output = bench(&[&url, "--users", "4", "--requests", "20", "--count-by", "x-served-by"]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{page}");
    for part in ["closed loop, 4 users", "80  of 80 planned", "header a: 80", "status 200: 80"] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
}

fn read_record(json: &[u8]) -> LoadRecord {
    let document = Document::read(json).unwrap();
    assert_eq!(document.schema_version, SCHEMA_VERSION);
    let Record::Load(record) = document.record else { panic!("a load record is expected") };
    record
}

#[test]
fn the_json_of_an_open_loop_is_a_load_record() {
    let url = format!("http://{}/", server());
    let output = bench(&[&url, "--rate", "200", "--requests", "50", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let record = read_record(&output.stdout);
    assert!(matches!(record.model, LoadModel::Open { .. }));
    assert_eq!(record.outcomes, Outcomes { ok: 50, ..Outcomes::default() });
    assert_eq!((record.planned, record.bytes_read), (50, 50 * ANSWER.len() as u64));
    assert_eq!(record.head_bytes, record.bytes_read - 50 * 10);
    assert_eq!(record.spreads.response.count(), 50);
}

#[test]
fn a_page_and_a_record_come_of_one_run() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "x".repeat(100_000)).unwrap();
    let (url, path) = (server().to_string(), file.path().to_str().unwrap());
    let output = bench(&[&url, "-c", "2", "-n", "5", "-o", path, "--slo", "errors<1%"]);
    assert_eq!(output.status.code(), Some(0));
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("10  of 10 planned") && page.contains("  met       errors<1%"), "{page}");
    let record = read_record(&std::fs::read(file.path()).unwrap());
    assert_eq!((record.planned, record.outcomes.ok), (10, 10));
    assert!(record.objective.unwrap().is_met());
    let unwritable = bench(&[&url, "-c", "2", "-n", "5", "-o", "/no/such/directory/run.json"]);
    assert_eq!((unwritable.status.code(), unwritable.stdout.len()), (Some(2), 0), "no run for it");
}

#[test]
fn each_form_has_the_lines_that_scripts_look_for() {
    let url = format!("http://{}/", server());
    for (format, told) in [
        ("text", &["Outcomes", "p99", "Run     "][..]),
        ("siege", &["Transactions:\t\t          20 hits\n", "\nTransaction rate:\t"]),
        ("httperf", &["\nConnection time [ms]: min ", "replies 20 ", "header 55.0 ", "2xx=20 "]),
        ("json", &["\"kind\": \"load\"", "\"p99_ms\""]),
        ("csv", &["at_s,planned,ok,"]),
        (
            "hdr",
            &[
                "Value     Percentile TotalCount 1/(1-Percentile)\n",
                "Total count    =           20]",
            ],
        ),
    ] {
        let output = bench(&[&url, "-c", "2", "-n", "10", "--format", format]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{format}: {text}");
        for part in told {
            assert!(text.contains(part), "{format}: {part:?} is not in\n{text}");
        }
    }
}

/// Runs 20 requests against `address` and compares what became of them and the exit code.
fn judge(address: SocketAddr, slo: &str, expected: Outcomes, code: i32) {
    let url = address.to_string();
    let timeout = if expected.timeout > 0 { "300ms" } else { "10s" };
    let load = ["-c", "2", "-n", "10", "--timeout", timeout, "--no-keepalive", "--json"];
    let output = bench(&[&[&*url, "--slo", slo], &load[..]].concat());
    let record = read_record(&output.stdout);
    assert_eq!(record.outcomes, expected, "{slo}");
    assert_eq!(record.outcomes.total(), record.planned);
    // A busy machine may keep the generator from its plan; then nothing is judged.
    let code = if record.is_valid() { code } else { 98 };
    let (objective, faults) = (&record.objective, &record.generator.faults);
    assert_eq!(output.status.code(), Some(code), "{slo}: {objective:?}, {faults:?}");
}

#[test]
fn an_objective_that_is_met_exits_with_zero_and_a_breached_one_with_99() {
    let all = Outcomes { ok: 20, ..Outcomes::default() };
    judge(server(), "p99<10s, errors<0.1%", all, 0);
    judge(server(), "p99<1ns, errors<0.1%", all, 99);
}

#[test]
fn a_hung_server_breaches_every_objective() {
    let hung = Outcomes { timeout: 20, ..Outcomes::default() };
    judge(serve(|_, _| Ok(())), "errors<1%", hung, 99);
    judge(serve(|_, _| Ok(())), "p99<10s", hung, 99);
}

#[test]
fn a_percentile_is_breached_where_nine_in_ten_time_out_and_the_others_are_fast() {
    let one_in_ten =
        || serve(|number, stream| if number % 10 == 0 { stream.write_all(ANSWER) } else { Ok(()) });
    let outcomes = Outcomes { ok: 2, timeout: 18, ..Outcomes::default() };
    judge(one_in_ten(), "p99<10s", outcomes, 99);
    judge(one_in_ten(), "p50<10s", outcomes, 99);
    let url = one_in_ten().to_string();
    let line = ["-c", "1", "-n", "10", "--timeout", "300ms", "--no-keepalive", "--slo", "p99<10s"];
    let page = String::from_utf8(bench(&[&[&*url], &line[..]].concat()).stdout).unwrap();
    for part in ["never (9 of 10 failed)", "of all", "a failure as never"] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
}

#[test]
fn a_server_that_refuses_breaches_every_objective() {
    let refused = Outcomes { connect_refused: 20, ..Outcomes::default() };
    judge(reserved(), "availability>=99%", refused, 99);
    judge(reserved(), "p50<10s", refused, 99);
}

#[test]
fn a_server_that_answers_503_to_all_is_not_fast() {
    let busy =
        || serve(|_, stream| stream.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"));
    let errors = Outcomes { server_error: 20, ..Outcomes::default() };
    judge(busy(), "errors<50%", errors, 99);
    judge(busy(), "p99<10s", errors, 99);
    judge(busy(), "rate>=1/s", errors, 99);
}

#[test]
fn a_server_that_resets_half_has_half_its_requests_counted_so() {
    let half = || {
        serve(|number, stream| {
            if number % 2 == 0 {
                stream.write_all(ANSWER)
            } else {
                Err(io::ErrorKind::Other.into())
            }
        })
    };
    let outcomes = Outcomes { ok: 10, reset: 10, ..Outcomes::default() };
    judge(half(), "errors<50%", outcomes, 99);
    judge(half(), "errors<=50%", outcomes, 0);
}

/// 40 files do not hold 100 connections; what was dropped says nothing about the server.
#[test]
fn a_run_whose_generator_was_the_bottleneck_is_judged_by_nothing() {
    let url = server().to_string();
    let program = env!("CARGO_BIN_EXE_loadline");
    for (slo, code) in [("--slo errors<=100%", 98), ("--slo errors<=0%", 98), ("", 0)] {
        let line = format!("ulimit -n 40; exec {program} bench {url} -c 100 -n 1 {}", quoted(slo));
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        let [page, notices] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert_eq!(output.status.code(), Some(code), "{slo}: {page}");
        for part in ["Run     INVALID", "no free descriptor", "change: ", "dropped"] {
            assert!(page.contains(part), "{part:?} is not in\n{page}");
        }
        assert!(notices.contains("may open 40 files"), "told before the run: {notices}");
    }
}

/// A flag and its value, safe from the shell.
fn quoted(flag: &str) -> String {
    flag.split_once(' ').map_or(String::new(), |(flag, value)| format!("{flag} '{value}'"))
}

#[test]
fn requests_go_to_several_urls_by_their_weights_and_as_a_file_lists_them() {
    let paths = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::clone(&paths);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map(Result::unwrap) {
            let mut first = String::new();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut first).unwrap();
            seen[usize::from(first.starts_with("GET /b "))].fetch_add(1, Relaxed);
            let _ = stream.write_all(ANSWER);
        }
    });
    let [a, b] = ["a", "b"].map(|path| format!("{address}/{path}"));
    let load = ["-c", "1", "-n", "40", "--no-keepalive"];
    let output = bench(&[&[&*a, &*b, "--weights", "3,1"], &load[..]].concat());
    assert_eq!(output.status.code(), Some(0));
    assert_eq!([paths[0].load(Relaxed), paths[1].load(Relaxed)], [30, 10]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("# the site\n{a}\n{b} 3\n")).unwrap();
    let output = bench(&[&["--urls", file.path().to_str().unwrap()], &load[..]].concat());
    assert_eq!(output.status.code(), Some(0));
    assert_eq!([paths[0].load(Relaxed), paths[1].load(Relaxed)], [40, 40]);
}

#[test]
fn an_open_loop_goes_by_stages_or_by_a_file_of_instants() {
    let url = server().to_string();
    let staged = bench(&[&url, "--stages", "20/s:500ms, ..100/s:500ms", "--json"]);
    let record = read_record(&staged.stdout);
    assert_eq!((record.planned, record.outcomes.ok), (40, 40));
    let LoadModel::Open { stages, .. } = record.model else { panic!("an open loop") };
    assert_eq!(stages.len(), 2);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "0\n0.01\n20ms\n").unwrap();
    let listed = bench(&[&url, "--arrivals", file.path().to_str().unwrap(), "--json"]);
    assert_eq!(read_record(&listed.stdout).outcomes.ok, 3);
}

/// As [`bench`], with this on the standard input.
fn bench_reading(input: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.arg("bench").args(arguments).stdin(Stdio::piped());
    let mut bench = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // One that reads nothing has ended before; that is for the test to find out.
    let _ = bench.stdin.take().unwrap().write_all(input.as_bytes());
    bench.wait_with_output().unwrap()
}

#[test]
fn a_dash_is_the_standard_input_or_output() {
    let url = server().to_string();
    let one = ["-c", "1", "-n", "1", "-o", "-"];
    let listed = bench_reading(&format!("{url}/a\n"), &[&["--urls", "-"], &one[..]].concat());
    let target = format!("http://{url}/a");
    assert_eq!(read_record(&listed.stdout).target, target);
    let due = bench_reading("0\n0.01\n20ms\n", &[&url, "--arrivals", "-", "-o", "-"]);
    assert_eq!(read_record(&due.stdout).planned, 3);
    let sent = bench_reading("hello", &[&[&*url, "--body", "@-"], &one[..]].concat());
    assert_eq!(read_record(&sent.stdout).plan.unwrap().body_bytes, 5);
    assert!(!std::path::Path::new("-").exists());
    let csv = bench(&[&[&*url, "--format", "csv"], &one[..]].concat());
    assert_eq!((csv.status.code(), csv.stdout.len()), (Some(1), 0));
}

#[test]
fn a_user_thinks_between_its_requests() {
    let url = server().to_string();
    let output = bench(&[&url, "-c", "1", "-n", "4", "--think", "200ms", "--json"]);
    let record = read_record(&output.stdout);
    assert_eq!(record.outcomes.ok, 4);
    assert!(record.elapsed.as_millis_f64() >= 600.0, "{} for three pauses", record.elapsed);
    assert!(record.response.p50.as_millis_f64() < 200.0, "the pause is no part of the response");
}

#[test]
fn a_run_under_timeout_prints_what_there_is_when_its_time_is_over() {
    let (url, file) = (server().to_string(), tempfile::NamedTempFile::new().unwrap());
    let path = file.path().to_str().unwrap();
    let bench = [env!("CARGO_BIN_EXE_loadline"), "bench", &url, "--rate", "100"];
    let mut timeout = Command::new("timeout");
    timeout.args(["--preserve-status", "3"]).args(bench).args(["--duration", "1m", "-o", path]);
    let output = timeout.output().unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{page}");
    assert!(page.contains("interrupted: only what was due until then is counted"), "{page}");
    let record = read_record(&std::fs::read(file.path()).unwrap());
    assert!(record.interrupted && record.outcomes.ok > 0, "{:?}", record.outcomes);
}

#[test]
fn a_server_that_is_not_there_is_counted_and_no_failure_to_run() {
    let output = bench(&[&reserved().to_string(), "--users", "1", "--requests", "3"]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(page.contains("connect refused          3"), "{page}");
}

#[test]
fn wrong_usage_is_told_and_exits_with_one() {
    for (arguments, told) in [
        (&["localhost"][..], "--users"),
        (&["--users", "1"], "a URL, or --urls FILE"),
        (&["localhost", "--users", "1", "--rate", "5"], "cannot be used with"),
        (&["localhost", "--rate", "5", "--stages", "5/s:1s"], "--stages alone"),
        (&["localhost", "--users", "1", "--arrivals", "poisson"], "--think"),
        (&["localhost", "--rate", "5", "--think", "1s"], "use --users"),
        (&["localhost", "--rate", "5", "--seed", "5"], "--arrivals poisson"),
        (&["localhost", "--users", "1", "--max-in-flight", "5"], "so many in flight"),
        (&["localhost", "--users", "0"], "above zero"),
        (&["localhost", "--rate", "0"], "above zero"),
        (&["localhost", "--rate", "fast"], "100/s"),
        (&["localhost", "--stages", "5/s"], "..50/s:5m"),
        (&["localhost", "--arrivals", "poison"], "constant, poisson, uniform or a file"),
        (&["localhost", "--rate", "5", "--arrivals", "poison"], "poisson, uniform or a file"),
        (&["localhost", "--users", "1", "--duration", "5"], "500ms"),
        (&["localhost", "--users", "1", "-H", "X"], "Accept: text/html"),
        (&["localhost", "--users", "1", "-H", "Connection: close"], "--no-keepalive"),
        (&["localhost", "--users", "1", "--body", "@/no/such/file"], "/no/such/file"),
        (&["localhost", "--users", "1", "--weights", "1,2"], "2 of them for 1 URLs"),
        (&["localhost", "--users", "1", "--slo", "p98<1s"], "`p98` is no figure"),
        (&["localhost", "--users", "1", "--slo", "rate>0.9*target"], "use --rate"),
        (&["localhost", "--users", "1", "--http2", "--no-keepalive"], "--http1.1"),
        (&["localhost", "--users", "1", "--tlsv1.3", "--tls-max", "1.2"], "leave one"),
        (&["localhost", "--users", "1", "--json", "--format", "csv"], "cannot be used with"),
    ] {
        let output = bench(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.contains(told), "{arguments:?}: {error}");
    }
}
