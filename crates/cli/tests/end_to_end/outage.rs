//! Servers that die or hang under load: no client of an idempotent request notices, and every other
//! is told.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use crate::process::Process;

fn servers() -> [Process; 3] {
    let args = ["worker", "fixed", "--cores", "4", "--service-time", "5ms"];
    [(); 3].map(|()| Process::start(&[&args[..], &["--listen", "127.0.0.1:0"]].concat()))
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

/// Has six clients ask one request after another; `happens` when they are well under way, `ends`
/// when nobody asks with GET any more. What was not 200, of GETs and of POSTs.
fn failures(proxy: &Process, happens: impl FnOnce(), ends: impl FnOnce()) -> [Vec<String>; 2] {
    let answered = &AtomicUsize::new(0);
    let client = |head: &'static str| {
        move || {
            let mut answers: Vec<String> = (0..REQUESTS)
                .map(|_| (ask(proxy, head), answered.fetch_add(1, Relaxed)).0)
                .collect();
            answers.retain(|status| status != "HTTP/1.1 200 OK");
            answers
        }
    };
    thread::scope(|scope| {
        let gets = [(); 4].map(|()| scope.spawn(client(GET)));
        let posts = [(); 2].map(|()| scope.spawn(client(POST)));
        let deadline = Instant::now() + PATIENCE;
        while answered.load(Relaxed) < REQUESTS {
            assert!(Instant::now() < deadline, "no load");
            thread::yield_now();
        }
        happens();
        let gets = gets.map(|client| client.join().unwrap()).concat();
        ends();
        [gets, posts.map(|client| client.join().unwrap()).concat()]
    })
}

#[test]
fn a_killed_server_fails_no_get_and_the_posts_it_had_are_told_and_counted() {
    let servers = servers();
    let proxy = Process::proxy(&servers.each_ref());
    let [gets, posts] = failures(&proxy, || servers[1].signal("KILL"), || ());
    assert!(gets.is_empty(), "{gets:?}");
    assert!(posts.len() <= 2, "one of each client at most was with it: {posts:?}");
    assert!(posts.iter().all(|status| status == "HTTP/1.1 502 Bad Gateway"), "{posts:?}");
    let ended = proxy.terminate();
    let counted = ended.endings();
    let failed = counted.iter().filter(|(name, _)| *name != "complete").map(|(_, count)| count);
    assert_eq!(failed.sum::<u64>(), posts.len() as u64, "{counted:?}");
    assert_eq!(counted["complete"], 6 * REQUESTS as u64 - posts.len() as u64);
    assert!(ended.log.contains("server is ejected"), "{}", ended.log);
}

#[test]
fn a_server_that_hangs_fails_nobody_and_what_must_not_be_repeated_waits_for_it() {
    let servers = servers();
    let proxy = Process::proxy(&servers.each_ref());
    let [gets, posts] =
        failures(&proxy, || servers[1].signal("STOP"), || servers[1].signal("CONT"));
    assert!(gets.is_empty(), "{gets:?}");
    assert!(posts.is_empty(), "{posts:?}");
    let ended = proxy.terminate();
    assert_eq!(ended.endings()["complete"], 6 * REQUESTS as u64);
    assert!(ended.log.contains("it hangs"), "{}", ended.log);
}

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
const POST: &str =
    "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";
/// Of each client: more than a server gets while nobody knows yet that it is gone.
const REQUESTS: usize = 100;
/// Longer than a hang is noticed in, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(30);
