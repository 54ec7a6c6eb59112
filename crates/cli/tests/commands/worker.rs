//! `loadline worker` as people run it: the binary, a signal, an exit code.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

/// A worker process; killed where a test fails before it was stopped.
struct Worker {
    process: Child,
    address: String,
}

impl Worker {
    fn start(args: &[&str]) -> Self {
        let mut process = loadline(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let address = first.trim_end().strip_prefix("listening on ").unwrap().to_owned();
        Self { process, address }
    }

    /// Asks on a connection of its own, and gives everything that was answered.
    fn get(&self, path: &str) -> String {
        let mut stream = self.ask(path);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn ask(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        stream
    }

    fn terminate(mut self) -> ExitStatus {
        let told = Command::new("kill").arg(self.process.id().to_string()).status().unwrap();
        assert!(told.success());
        self.process.wait().unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both fail where the process has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn loadline(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.arg("worker").args(args);
    command
}

#[test]
fn it_says_where_it_listens_draws_the_set_and_ends_when_told() {
    let worker = Worker::start(&[
        "mandelbrot", "--listen=127.0.0.1:0", "--service-time=10ms", "--region=europe-west3",
        "--report-utilization",
    ]);
    let answer = worker.get("/");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n"), "{answer}");
    assert!(answer.contains("\r\nX-Served-By: europe-west3/"), "{answer}");
    assert!(answer.contains("\r\nendpoint-load-metrics: TEXT cpu_utilization=0."), "{answer}");
    assert!(answer.contains("PNG\r\n"), "{answer}");
    let stats = worker.get("/stats");
    assert!(stats.contains(r#""accepted":1,"answered":1,"aborted":0"#), "{stats}");
    assert_eq!(worker.terminate().code(), Some(0));
}

#[test]
fn told_to_end_it_first_answers_what_it_has() {
    let worker = Worker::start(&["json", "--listen=127.0.0.1:0"]);
    let mut waiting = worker.ask("/");
    // The 100 ms of the response run; the counts are asked on another connection, so they tell.
    while !worker.get("/stats").contains(r#""accepted":1"#) {}
    assert_eq!(worker.terminate().code(), Some(0));
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\n{\"hello\": \"world\"}"), "{answer}");
}

#[test]
fn two_workers_cannot_share_an_address() {
    let first = Worker::start(&["fixed", "--listen=127.0.0.1:0"]);
    let second = loadline(&["fixed", "--listen", &first.address]).output().unwrap();
    assert_eq!(second.status.code(), Some(2));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains(&format!("cannot listen on {}", first.address)), "{said}");
}

#[test]
fn what_cannot_be_is_refused_with_what_would_be_right() {
    for (args, hint) in [
        (["fixed", "--size=100"], "`16KiB`"),
        (["json", "--delay=5"], "`500ms`"),
        (["page", "--cores=0"], "--cores"),
        (["page", "--listen=nowhere"], "127.0.0.1:9001"),
        (["page", "--report-utilization"], "without a number of cores"),
        (["page", "--name=a\r\nb"], "cannot be a name"),
    ] {
        let refused = loadline(&args).output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains(hint), "{args:?}: {said}");
    }
}
