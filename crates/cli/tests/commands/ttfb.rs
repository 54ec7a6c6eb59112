//! `loadline ttfb` as people call it: against servers whose delay is known.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    process::{Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use loadline_measure::record::{
    Document, Outcomes, ProbeKind, ProbeOutcome, ProbeRecord, ProbeTarget, Record,
};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// A server that waits `delay` before each response, until the test ends.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Server {
    fn start(at: IpAddr, delay: Duration, answer: &'static str) -> Self {
        let listener = TcpListener::bind((at, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        thread::spawn(move || {
            for stream in listener.incoming().map(Result::unwrap) {
                count.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || serve(stream, delay, answer));
            }
        });
        Self { address, connections }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

fn serve(mut stream: TcpStream, delay: Duration, answer: &str) {
    let mut head = Vec::new();
    let mut bytes = [0; 1024];
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        head.extend_from_slice(&bytes[..count]);
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            thread::sleep(delay);
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn ttfb(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loadline")).arg("ttfb").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn record(json: &[u8]) -> ProbeRecord {
    let document = Document::read(json).unwrap();
    let Record::Probe(record) = document.record else { panic!("a probe record is expected") };
    record
}

fn only(record: &ProbeRecord) -> &ProbeTarget {
    assert_eq!(record.targets.len(), 1);
    &record.targets[0]
}

#[test]
fn the_wait_of_a_server_is_found_in_the_phase_where_it_was() {
    let slow = Server::start(V4, Duration::from_millis(100), OK);
    let prompt = Server::start(V4, Duration::ZERO, OK);
    let named = format!("http://localhost:{}/", prompt.address.port());
    let output = ttfb(&[&slow.url(), &named, "-n", "12", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let record = record(&output.stdout);
    assert_eq!((record.probe, record.planned, record.keepalive), (ProbeKind::Ttfb, 12, false));
    let [slow_one, prompt_one] = &record.targets[..] else { panic!("two targets are expected") };
    let ms = |time: loadline_core::time::Duration| time.as_millis_f64();
    assert!((100.0..200.0).contains(&ms(slow_one.phases.first_byte.p50)), "{:?}", slow_one.phases);
    assert!(ms(slow_one.phases.connect.p50) < 50.0, "{:?}", slow_one.phases);
    assert!(ms(slow_one.time.min) >= 100.0 && ms(prompt_one.time.p50) < 50.0);
    let looked_up = [slow_one, prompt_one].map(|target| target.phases.dns.count);
    assert_eq!(looked_up, [0, 12], "an address is not looked up, a name each time");
    for target in [slow_one, prompt_one] {
        assert_eq!(target.outcomes, Outcomes { ok: 12, ..Outcomes::default() });
        assert_eq!((target.connections, target.protocol.as_str()), (12, "HTTP/1.1"));
        for sample in &target.samples {
            let parts = [sample.dns, sample.connect, sample.first_byte].into_iter().flatten();
            let parts: loadline_core::time::Duration = parts.sum();
            assert!(parts <= sample.time.unwrap(), "the parts exceed the whole: {sample:?}");
        }
    }
    assert_eq!(slow.connections.load(Ordering::SeqCst), 12);
    // They took turns: each request of the one began after that of the other.
    let turns = slow_one.samples.iter().zip(&prompt_one.samples);
    assert!(turns.clone().all(|(first, second)| first.at < second.at));
    assert!(turns.clone().zip(turns.skip(1)).all(|((_, before), (after, _))| before.at < after.at));
}

#[test]
fn a_kept_connection_is_opened_once() {
    let server = Server::start(V4, Duration::ZERO, OK);
    let output = ttfb(&[&server.url(), "-n", "20", "--keepalive", "--json"]);
    let record = record(&output.stdout);
    let target = only(&record);
    assert_eq!((target.connections, target.phases.connect.count), (1, 1));
    assert_eq!((target.time.count, target.phases.first_byte.count), (20, 20));
    assert!(!target.samples[0].reused && target.samples[1..].iter().all(|sample| sample.reused));
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[test]
fn the_page_shows_phases_and_plot_and_the_picture_is_written() {
    let servers = [0, 5].map(|ms| Server::start(V4, Duration::from_millis(ms), OK));
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (svg, json) = (file("ttfb.svg"), file("ttfb.json"));
    let urls = servers.each_ref().map(Server::url);
    let output = ttfb(&[&urls[0], &urls[1], "-n", "30", "--plot", &svg, "-o", &json]);
    let page = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{page}");
    for part in [
        "30 requests to each of 2 targets in turn, a new connection each",
        "HTTP/1.1, 127.0.0.1:",
        "30 ok, 0 failed, 30 connections",
        "  connect",
        "  first byte",
        "TTFB = from before DNS",
        "Time to first byte of the first 30 requests, ms",
        "request  1 ",
    ] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    let drawn = std::fs::read_to_string(svg).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.matches("<circle").count() >= 40, "{drawn}");
    assert_eq!(record(&std::fs::read(json).unwrap()).targets.len(), 2);
}

#[test]
fn ttfb_counts_by_the_letter_of_ping_too() {
    let server = Server::start(V4, Duration::ZERO, OK);
    for flag in ["-c", "-n", "--count", "--requests"] {
        let output = ttfb(&[&server.url(), flag, "2", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{flag}: {}", text(&output.stderr));
        assert_eq!(record(&output.stdout).planned, 2, "{flag}");
    }
    let help = text(&ttfb(&["--help"]).stdout);
    assert!(
        help.contains("-c, --count <N>") && help.contains("alias") && help.contains("-n"),
        "{help}"
    );
}

#[test]
fn a_record_for_the_standard_output_takes_the_place_of_the_page() {
    let server = Server::start(V4, Duration::ZERO, OK);
    let output = ttfb(&[&server.url(), "-n", "2", "-o", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(record(&output.stdout).planned, 2);
}

#[test]
fn ipv6_is_spoken_too() {
    let server = Server::start(IpAddr::V6(Ipv6Addr::LOCALHOST), Duration::ZERO, OK);
    let output = ttfb(&[&server.url(), "-n", "3", "--json"]);
    let record = record(&output.stdout);
    let target = only(&record);
    assert_eq!((target.time.count, target.address.as_str()), (3, &*server.address.to_string()));
}

#[test]
fn nobody_there_is_a_failure_with_its_class() {
    // Taken and not listened on while it lives.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let url = format!("http://{}/", socket.local_addr().unwrap());
    let well = Server::start(V4, Duration::ZERO, OK);
    let output = ttfb(&[&url, &well.url(), "-n", "4"]);
    let page = text(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "one of two is silent:\n{page}");
    assert!(page.contains("0 ok, 4 connect refused, 0 connections"), "{page}");
    assert!(page.contains("4 ok, 0 failed, 4 connections"), "{page}");
}

#[test]
fn a_server_that_never_answers_is_left_after_the_timeout() {
    let hung = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", hung.local_addr().unwrap());
    let output = ttfb(&[&url, "-n", "2", "--timeout", "60ms", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let record = record(&output.stdout);
    let target = only(&record);
    assert_eq!(target.outcomes, Outcomes { timeout: 2, ..Outcomes::default() });
    assert_eq!((target.time.count, target.phases.connect.count), (0, 0));
    assert!(target.samples.iter().all(|sample| sample.time.is_none()));
}

#[test]
fn an_error_page_is_an_answer_that_is_in_no_figure() {
    let answer = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    let server = Server::start(V4, Duration::ZERO, answer);
    let output = ttfb(&[&server.url(), "-n", "3", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let record = record(&output.stdout);
    let target = only(&record);
    assert_eq!(target.outcomes, Outcomes { server_error: 3, ..Outcomes::default() });
    assert_eq!(target.time.count, 0);
    let errors = target.samples.iter().filter(|s| s.outcome == ProbeOutcome::ServerError);
    assert!(errors.clone().all(|sample| sample.status == Some(503) && sample.time.is_some()));
    assert_eq!(errors.count(), 3);
}

#[test]
fn an_interrupt_or_the_end_of_a_time_limit_ends_the_series_with_what_there_is() {
    for signal in ["-INT", "-TERM"] {
        let server = Server::start(V4, Duration::ZERO, OK);
        let url = server.url();
        let mut run = Command::new(env!("CARGO_BIN_EXE_loadline"));
        run.args(["ttfb", &url, "-n", "100000", "--interval", "10ms", "--json"]);
        let mut run = run.stdout(Stdio::piped()).spawn().unwrap();
        // The third connection says that two requests are done; the signal is heeded by then.
        while server.connections.load(Ordering::SeqCst) < 3 {
            assert!(run.try_wait().unwrap().is_none(), "it ended before it was interrupted");
            thread::yield_now();
        }
        let told = Command::new("kill").args([signal, &run.id().to_string()]).status().unwrap();
        assert!(told.success());
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{signal}");
        let record = record(&output.stdout);
        assert!(record.interrupted && record.planned == 100_000);
        let target = only(&record);
        assert!((2..100_000).contains(&target.outcomes.ok), "{:?}", target.outcomes);
        assert_eq!(target.outcomes.total(), target.samples.len() as u64);
    }
}

#[test]
fn wrong_usage_is_told_with_what_would_be_right() {
    for (arguments, told) in [
        (&[][..], "URL"),
        (&["localhost", "-n", "0"], "above zero"),
        (&["localhost", "--timeout", "0"], "above zero"),
        (&["localhost", "--http1.1", "--http2"], "cannot be used with"),
        (&["localhost", "--tls1.3", "--tls-max", "1.2"], "leave one of them out"),
        (&["localhost", "-H", "X"], "Accept: text/html"),
        (&["localhost", "--interval", "soon"], "500ms"),
        (&["ftp://localhost"], "http://"),
    ] {
        let output = ttfb(arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.contains(told), "{arguments:?}: {error}");
    }
}

#[test]
fn a_plot_for_the_standard_output_takes_the_place_of_the_page() {
    let server = Server::start(V4, Duration::ZERO, OK);
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.current_dir(folder.path()).args(["ttfb", &server.url(), "-n", "2", "--plot", "-"]);
    let output = command.args(["-q", "-o", "ttfb.json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let drawn = text(&output.stdout);
    assert!(drawn.starts_with("<svg") && drawn.trim_end().ends_with("</svg>"), "{drawn}");
    assert!(!folder.path().join("-").exists());
    let written = std::fs::read(folder.path().join("ttfb.json")).unwrap();
    assert_eq!(record(&written).planned, 2);
    for both in ["--json", "-o-"] {
        let output = ttfb(&[&server.url(), "-n", "2", "--plot", "-", both]);
        assert_eq!(output.status.code(), Some(1), "{both}: {}", text(&output.stdout));
        assert!(text(&output.stderr).contains("both print"), "{both}");
    }
}
