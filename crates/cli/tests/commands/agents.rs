//! `loadline bench --with` and `capacity --with`: load from several machines, here from several
//! processes on the loopback.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use loadline_measure::record::{Document, LoadRecord, Outcomes, Record, Verdict};

use crate::{
    ports::reserved,
    runs::{loadline, text},
    served::{Worker, listening},
};

/// A file with a token.
struct Token(tempfile::NamedTempFile);

impl Token {
    fn new(text: &str) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        Self(file)
    }

    fn path(&self) -> &str {
        self.0.path().to_str().unwrap()
    }
}

fn token() -> Token {
    Token::new("0123456789abcdef\n")
}

/// `loadline agent` on a port of its own; ended when it is dropped.
struct Agent {
    process: Child,
    address: String,
}

impl Agent {
    fn start(token: &Token, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        command
            .args(["agent", "--listen", "127.0.0.1:0", "--token-file", token.path()])
            .args(options)
            .stderr(Stdio::null());
        let (process, address) = listening(&mut command);
        Self { process, address }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.process.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended by itself; that is for the test to find out.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The arguments that have these agents send.
fn with(agents: &[&Agent], token: &Token) -> Vec<String> {
    let names: Vec<_> = agents.iter().map(|agent| agent.address.as_str()).collect();
    ["--with", &names.join(","), "--token-file", token.path()].map(str::to_owned).to_vec()
}

fn bench(worker: &Worker, with: &[String], options: &[&str]) -> Output {
    let with = with.iter().map(String::as_str);
    let arguments: Vec<_> = ["bench", &worker.address, "--json", "--quiet"]
        .into_iter()
        .chain(options.iter().copied())
        .chain(with)
        .collect();
    loadline(&arguments)
}

fn record(output: &Output) -> LoadRecord {
    let document = Document::read(&output.stdout);
    let Ok(Document { record: Record::Load(record), .. }) = document else {
        panic!("no load record: {}{}", text(&output.stdout), text(&output.stderr));
    };
    record
}

/// Requests that became due in each tenth of a second.
fn planned(record: &LoadRecord) -> Vec<u64> {
    let moments = record.moments.iter().map(|moment| moment.planned);
    let mut planned: Vec<_> = moments.collect();
    while planned.last() == Some(&0) {
        planned.pop();
    }
    planned
}

/// A stalled machine makes a run of a test invalid, which is not the subject: 98 is as good as 0.
fn ran(output: &Output) -> bool {
    matches!(output.status.code(), Some(0 | 98))
}

#[test]
fn two_and_three_agents_send_the_instants_that_one_machine_would() {
    let (worker, token) = (Worker::start(&["--size", "10B"]), token());
    let agents = [(); 3].map(|()| Agent::start(&token, &[]));
    for plan in [
        &["--rate", "300", "--duration", "1s", "--arrivals", "poisson", "--seed", "7"][..],
        &["--stages", "50/s:1s, ..250/s:1s"],
    ] {
        let alone = record(&bench(&worker, &[], plan));
        for count in [2, 3] {
            let used: Vec<_> = agents.iter().take(count).collect();
            let output = bench(&worker, &with(&used, &token), plan);
            assert!(ran(&output), "{}", text(&output.stderr));
            let together = record(&output);
            assert_eq!(planned(&together), planned(&alone), "{count} agents, {plan:?}");
            assert_eq!((&together.model, together.planned), (&alone.model, alone.planned));
            assert_eq!(together.outcomes, Outcomes { ok: alone.planned, ..Outcomes::default() });
            assert_eq!(together.response.count, alone.planned);
            let names: Vec<_> = together.agents.iter().map(|agent| agent.name.as_str()).collect();
            assert_eq!(names, used.iter().map(|agent| &*agent.address).collect::<Vec<_>>());
            let shares: Vec<_> = together.agents.iter().map(|agent| agent.planned).collect();
            assert_eq!(shares.iter().sum::<u64>(), alone.planned);
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1, "{shares:?}");
            assert!(together.agents.iter().all(|agent| agent.lost.is_none()));
        }
    }
}

#[test]
fn a_closed_loop_is_dealt_out_by_users_and_the_page_names_the_agents() {
    let (worker, token) = (Worker::start(&["--size", "10B"]), token());
    let agents = [(); 2].map(|()| Agent::start(&token, &[]));
    let with = with(&[&agents[0], &agents[1]], &token);
    let together = record(&bench(&worker, &with, &["--users", "3", "--requests", "10"]));
    assert_eq!(together.outcomes.ok, 30);
    assert_eq!(together.agents.iter().map(|agent| agent.planned).collect::<Vec<_>>(), [20, 10]);
    let with: Vec<_> = with.iter().map(String::as_str).collect();
    let line = [&["bench", &worker.address, "-c", "1", "-n", "5", "-q"], &with[..]].concat();
    let page = text(&loadline(&line).stdout);
    assert!(page.contains(&format!("  {:<20} 5 sent, lag p99", agents[0].address)), "{page}");
    assert!(!page.contains(&agents[1].address), "it has no part in one user\n{page}");
}

#[test]
fn what_is_wrong_with_an_agent_is_told_and_nothing_is_sent() {
    let (worker, token) = (Worker::start(&[]), token());
    let other = Token::new("fedcba9876543210\n");
    let agent = Agent::start(&other, &[]);
    let closed = reserved().to_string();
    let old = of_another_version();
    let small = Agent::start(&token, &["--max-duration", "2s"]);
    for (name, told) in [
        (&agent.address, "its token is not ours"),
        (&closed, "is `loadline agent` running there?"),
        (&old, "it runs loadline 9.9.9 and this is"),
        (&small.address, "it sends for 2s at most (--max-duration)"),
    ] {
        let with = ["--with", name, "--token-file", token.path()].map(str::to_owned);
        let output = bench(&worker, &with, &["--rate", "10", "--duration", "3s"]);
        let error = text(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{error}");
        assert!(error.contains(&format!("agent {name}: ")) && error.contains(told), "{error}");
    }
    let few = ["--rate", "10", "--max-in-flight", "1"];
    let agents = [(); 2].map(|()| Agent::start(&token, &[]));
    let output = bench(&worker, &with(&[&agents[0], &agents[1]], &token), &few);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("(--max-in-flight) of 1 cannot be dealt to 2 agents"));
}

/// Something that greets as an agent of another version does.
fn of_another_version() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut length = [0; 4];
        stream.read_exact(&mut length).unwrap();
        let mut hello = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut hello).unwrap();
        let answer = br#"{"Version":"9.9.9"}"#;
        stream.write_all(&[&(answer.len() as u32).to_be_bytes()[..], answer].concat()).unwrap();
    });
    address
}

#[test]
fn an_agent_without_a_token_does_not_start() {
    for (token, told) in [("", "is no token"), ("short", "16 characters")] {
        let file = Token::new(token);
        let output = loadline(&["agent", "--listen", "127.0.0.1:0", "--token-file", file.path()]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(told), "{}", text(&output.stderr));
    }
    let output = loadline(&["agent", "--listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--token-file"));
    let output = loadline(&["bench", "localhost", "--rate", "1", "--with", "localhost"]);
    assert_eq!(output.status.code(), Some(1), "nor is one led without");
}

#[test]
fn an_agent_with_files_addresses_or_limits_that_cannot_be_used_does_not_start() {
    let token = token();
    let start = ["agent", "--listen", "127.0.0.1:0", "--token-file", token.path()];
    for (options, code, told) in [
        (["--cacert", "nosuch.pem"], 2, "nosuch.pem"),
        (["--cert", "nosuch.pem"], 2, "nosuch.pem"),
        (["--source-address", "192.0.2.9"], 2, "192.0.2.9: it must be an address of this machine"),
        (["--max-users", "0"], 1, "--max-users"),
        (["--max-rate", "0"], 1, "--max-rate"),
        (["--max-duration", "0s"], 1, "--max-duration"),
    ] {
        let output = loadline(&[&start[..], &options].concat());
        let error = text(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{error}");
        assert!(error.contains(told), "{options:?}: {error}");
    }
}

#[test]
fn strangers_and_nonsense_do_not_disturb_an_agent() {
    let (worker, token) = (Worker::start(&[]), token());
    let agent = Agent::start(&token, &[]);
    let mut strangers = Vec::new();
    for nonsense in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x02{}", &[255; 100]] {
        let mut stream = TcpStream::connect(&agent.address).unwrap();
        stream.write_all(nonsense).unwrap();
        strangers.push(stream);
    }
    let output = bench(&worker, &with(&[&agent], &token), &["--users", "1", "--requests", "3"]);
    assert_eq!(record(&output).outcomes.ok, 3);
}

/// Starts a bench and returns it when the worker has had a request.
fn start(worker: &Worker, with: &[String], options: &[&str]) -> Child {
    let child = Command::new(env!("CARGO_BIN_EXE_loadline"))
        .args(["bench", &worker.address, "--json", "--quiet"])
        .args(options)
        .args(with)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while served(worker) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "no request came");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

/// Requests that the worker has had, by its own count.
fn served(worker: &Worker) -> u64 {
    let mut stream = TcpStream::connect(&worker.address).unwrap();
    stream.write_all(b"GET /stats HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let stats: serde_json::Value = serde_json::from_str(body).unwrap();
    stats["accepted"].as_u64().unwrap()
}

#[test]
fn an_agent_that_was_stopped_for_a_second_makes_the_run_invalid_by_its_name() {
    let (worker, token) = (Worker::start(&["--size", "10B"]), token());
    let agents = [(); 2].map(|()| Agent::start(&token, &[]));
    let with = with(&[&agents[0], &agents[1]], &token);
    let child = start(&worker, &with, &["--rate", "200", "-d", "4s", "--slo", "errors<1%"]);
    agents[1].signal("-STOP");
    std::thread::sleep(Duration::from_millis(1_500));
    agents[1].signal("-CONT");
    let output = child.wait_with_output().unwrap();
    let record = record(&output);
    assert_eq!(output.status.code(), Some(98), "{:?}", record.generator);
    let named = format!("agent {}: ", agents[1].address);
    let faults = &record.generator.faults;
    assert!(faults.iter().any(|fault| fault.what.starts_with(&named)), "{faults:?}");
    assert!(record.agents[1].lag.max >= loadline_core::time::Duration::from_millis(1_000));
    assert_eq!(record.planned, 800, "all was sent in the end");
}

#[test]
fn an_agent_that_is_killed_ends_the_run_of_all_and_is_named() {
    let (worker, token) = (Worker::start(&["--size", "10B"]), token());
    let mut agents = [(); 3].map(|()| Agent::start(&token, &[]));
    let with = with(&[&agents[0], &agents[1], &agents[2]], &token);
    let child = start(&worker, &with, &["--rate", "100", "-d", "120s"]);
    let killed = Instant::now();
    agents[1].process.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(killed.elapsed() < Duration::from_secs(15), "{:?}", killed.elapsed());
    assert_eq!(output.status.code(), Some(98));
    let record = record(&output);
    let fault = &record.generator.faults[0].what;
    let named = format!("agent {} was lost ", agents[1].address);
    assert!(fault.starts_with(&named) && fault.contains("closed the connection"), "{fault}");
    assert!(record.interrupted && record.agents[1].lost.is_some());
    assert_eq!(record.planned, record.agents.iter().map(|agent| agent.planned).sum::<u64>());
    assert_eq!(record.outcomes.total(), record.planned, "those of the others are counted");
}

#[test]
fn an_agent_whose_leader_is_gone_stops_and_serves_the_next() {
    let (worker, token) = (Worker::start(&["--size", "10B"]), token());
    let agent = Agent::start(&token, &[]);
    let with = with(&[&agent], &token);
    let mut child = start(&worker, &with, &["--rate", "100", "-d", "120s"]);
    let second = bench(&worker, &with, &["--users", "1", "--requests", "1"]);
    assert_eq!(second.status.code(), Some(2));
    assert!(text(&second.stderr).contains("it sends for another leader"));
    child.kill().unwrap();
    child.wait().unwrap();
    let begun = Instant::now();
    loop {
        let next = bench(&worker, &with, &["--users", "1", "--requests", "1"]);
        if next.status.code() == Some(0) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{}", text(&next.stderr));
    }
    let before = served(&worker);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(served(&worker), before, "nothing is sent any more");
}

#[test]
fn a_load_line_is_searched_from_two_agents() {
    let worker = Worker::start(&["--cores", "2", "--service-time", "20ms"]);
    let token = token();
    let agents = [(); 2].map(|()| Agent::start(&token, &[]));
    let with = with(&[&agents[0], &agents[1]], &token);
    let with: Vec<_> = with.iter().map(String::as_str).collect();
    let search = ["--slo", "p99<200ms", "--quick", "--within", "20s", "--max-rate", "100/s"];
    let output = loadline(
        &[&["capacity", &worker.address, "--json", "--quiet"], &search[..], &with[..]].concat(),
    );
    assert!(!output.stdout.is_empty(), "{}", text(&output.stderr));
    let document = Document::read(&output.stdout).unwrap();
    let Record::Capacity(record) = document.record else { panic!("a search is expected") };
    assert!(record.rungs.iter().any(|rung| rung.users == 2), "{record:?}");
    assert!(record.rungs[0].throughput.as_per_sec_f64() > 10.0, "{:?}", record.rungs);
}

#[test]
fn a_search_that_loses_an_agent_names_it_and_prints_what_is_known() {
    let (worker, token) = (Worker::start(&["--cores", "2", "--service-time", "20ms"]), token());
    let mut agents = [(); 2].map(|()| Agent::start(&token, &[]));
    let child = Command::new(env!("CARGO_BIN_EXE_loadline"))
        .args(["capacity", &worker.address, "--slo", "p99<200ms", "--json", "--quiet"])
        .args(with(&[&agents[0], &agents[1]], &token))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    // One user has no more than 75 answers in its rung of 1.5 s.
    while served(&worker) < 150 {
        assert!(begun.elapsed() < Duration::from_secs(20), "no second rung came");
        std::thread::sleep(Duration::from_millis(20));
    }
    agents[1].process.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(98), "{}", text(&output.stderr));
    let Record::Capacity(record) = Document::read(&output.stdout).unwrap().record else {
        panic!("a search is expected")
    };
    assert_eq!(record.verdict, Verdict::GeneratorInvalid);
    assert_eq!(record.rungs[0].users, 1, "what was measured before is kept");
    let named = format!("agent {}: ", agents[1].address);
    assert!(record.notes.iter().any(|note| note.starts_with(&named)), "{:?}", record.notes);
}

#[test]
fn a_limit_that_cannot_be_dealt_out_is_told_before_a_search_begins() {
    let (worker, token) = (Worker::start(&[]), token());
    let agents = [(); 2].map(|()| Agent::start(&token, &[]));
    let with = with(&[&agents[0], &agents[1]], &token);
    let with: Vec<_> = with.iter().map(String::as_str).collect();
    let search = ["capacity", &worker.address, "--slo", "p99<1s", "--connections", "1"];
    let output = loadline(&[&search[..], &with[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("(--connections) of 1 cannot be dealt to 2 agents"));
    assert_eq!(served(&worker), 0);
}

#[test]
fn files_of_this_machine_are_refused_with_agents() {
    let own = ["bench", "https://localhost/", "--rate", "1", "--cacert", "ca.pem"];
    let output = loadline(&[&own[..], &["--with", "localhost", "--token-file", "x"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("give them to `loadline agent` there"));
}
