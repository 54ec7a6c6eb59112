//! Servers that die or hang under load: no client of an idempotent request notices, and every other
//! is told.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use crate::process::{Process, file};

fn servers() -> [Process; 3] {
    let args = ["worker", "fixed", "--cores", "4", "--service-time", "5ms"];
    [(); 3].map(|()| Process::start(&[&args[..], &["--listen", "127.0.0.1:0"]].concat()))
}

/// A proxy that gives each server its turn, so that nobody gets round the one that hangs: by
/// `least-requests` the two POSTs that wait for it can keep every GET away from it.
fn in_turn(servers: &[Process]) -> Process {
    let addresses: Vec<&String> = servers.iter().map(|server| &server.address).collect();
    let config = format!(
        "[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n\
         [service.web]\npolicy = \"round-robin\"\n[[service.web.group]]\nservers = {addresses:?}\n"
    );
    let path = file("in-turn.toml", &config);
    Process::start(&["serve", path.to_str().unwrap()])
}

/// The status line of one request on a connection of its own.
fn ask(proxy: &Process, head: &str) -> String {
    let mut stream = TcpStream::connect(&proxy.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or("closed without an answer").to_owned()
}

/// What six clients met.
struct Met {
    /// What was not 200, of GETs and of POSTs.
    failures: [Vec<String>; 2],
    requests: usize,
}

/// Has six clients ask one request after another; `happens` when they are well under way, after
/// which each asks [`REQUESTS`] more, and `ends` when nobody asks with GET any more.
fn outage(proxy: &Process, happens: impl FnOnce(), ends: impl FnOnce()) -> Met {
    let (answered, has_happened) = (&AtomicUsize::new(0), &AtomicBool::new(false));
    let client = |head: &'static str| {
        move || {
            let (mut failed, mut after) = (Vec::new(), 0);
            while after < REQUESTS {
                after += usize::from(has_happened.load(Relaxed));
                let status = ask(proxy, head);
                answered.fetch_add(1, Relaxed);
                failed.extend(Some(status).filter(|status| status != "HTTP/1.1 200 OK"));
            }
            failed
        }
    };
    thread::scope(|scope| {
        let gets = [(); 4].map(|()| scope.spawn(client(GET)));
        let posts = [(); 2].map(|()| scope.spawn(client(POST)));
        let deadline = Instant::now() + PATIENCE;
        while answered.load(Relaxed) < REQUESTS && Instant::now() < deadline {
            thread::yield_now();
        }
        happens();
        has_happened.store(true, Relaxed);
        let gets = gets.map(|client| client.join().unwrap()).concat();
        ends();
        let posts = posts.map(|client| client.join().unwrap()).concat();
        Met { failures: [gets, posts], requests: answered.load(Relaxed) }
    })
}

#[test]
fn a_killed_server_fails_no_get_and_the_posts_it_had_are_told_and_counted() {
    let servers = servers();
    let proxy = Process::proxy(&servers.each_ref());
    let Met { failures: [gets, posts], requests } =
        outage(&proxy, || servers[1].signal("KILL"), || ());
    assert!(gets.is_empty(), "{gets:?}");
    // A request meets its end in one of the six connections that the server had, if the kernel
    // takes its time to close them.
    assert!(posts.len() <= 6, "one for each connection to it at most: {posts:?}");
    assert!(posts.iter().all(|status| status == "HTTP/1.1 502 Bad Gateway"), "{posts:?}");
    let ended = proxy.terminate();
    let counted = ended.endings();
    let failed = counted.iter().filter(|(name, _)| *name != "complete").map(|(_, count)| count);
    assert_eq!(failed.sum::<u64>(), posts.len() as u64, "{counted:?}");
    assert_eq!(counted["complete"], (requests - posts.len()) as u64);
    assert!(ended.log.contains("server is ejected"), "{}", ended.log);
}

#[test]
fn a_server_that_hangs_fails_nobody_and_what_must_not_be_repeated_waits_for_it() {
    let servers = servers();
    let proxy = in_turn(&servers);
    let Met { failures: [gets, posts], requests } =
        outage(&proxy, || servers[1].signal("STOP"), || servers[1].signal("CONT"));
    assert!(gets.is_empty(), "{gets:?}");
    assert!(posts.is_empty(), "{posts:?}");
    let ended = proxy.terminate();
    assert_eq!(ended.endings()["complete"], requests as u64);
    assert!(ended.log.contains("it does not respond"), "{}", ended.log);
}

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
const POST: &str =
    "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";
/// Of each client: more than a server gets while nobody knows yet that it is gone.
const REQUESTS: usize = 100;
/// Longer than a hang is noticed in, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(30);
