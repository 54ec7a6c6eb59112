//! Checks of servers that the edges of a region divide among them, through a real etcd.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread::{sleep, spawn},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{edge::Edge, etcd::Etcd};

/// Servers that are checked, until the test process ends.
struct Farm {
    addresses: Vec<String>,
    noted: Arc<Mutex<Noted>>,
}

#[derive(Default)]
struct Noted {
    /// When which edge has checked which server.
    checks: Vec<(Instant, String, usize)>,
    /// Servers that are down for all.
    down: BTreeSet<usize>,
    /// An edge that reaches none of them.
    cut_off: Option<String>,
}

impl Farm {
    fn start() -> Self {
        let noted = Arc::new(Mutex::new(Noted::default()));
        let server = |number| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let noted = noted.clone();
            spawn(move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    let noted = noted.clone();
                    spawn(move || answer(stream, number, &noted));
                }
            });
            address
        };
        Self { addresses: (0..SERVERS).map(server).collect(), noted }
    }

    fn note(&self, change: impl FnOnce(&mut Noted)) {
        change(&mut self.noted.lock().unwrap());
    }

    /// Which servers have been checked since then, by whom, each as often as it was.
    fn checks(&self, since: Instant) -> Vec<(String, usize)> {
        let noted = self.noted.lock().unwrap();
        let since = noted.checks.iter().filter(|(at, ..)| *at >= since);
        since.map(|(_, edge, server)| (edge.clone(), *server)).collect()
    }

    /// Which edge has checked which server in the second from now on.
    fn checked_within_a_second(&self) -> BTreeSet<(String, usize)> {
        let since = Instant::now();
        sleep(Duration::from_secs(1));
        self.checks(since).into_iter().collect()
    }

    /// An edge that checks these servers, each five times a second.
    fn edge(&self, etcd: &Etcd, name: &str) -> Edge {
        let service = format!(
            "[service.web]\nhealth = {{ http = \"/{name}\", interval = \"200ms\", \
             fast_interval = \"100ms\", timeout = \"2s\" }}\nejection = false\n\
             [[service.web.group]]\nregion = \"here\"\nservers = {:?}\n",
            self.addresses
        );
        Edge::of(etcd, name, "share_health = true", &service).start()
    }
}

/// A response whose path tells which edge asks.
fn answer(stream: TcpStream, server: usize, noted: &Mutex<Noted>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut line, mut field) = (String::new(), String::new());
        reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
        while field != "\r\n" {
            field.clear();
            reader.read_line(&mut field).ok().filter(|length| *length > 0)?;
        }
        let edge = line.split(' ').nth(1)?.trim_start_matches('/').to_owned();
        let is_up = {
            let mut noted = noted.lock().unwrap();
            noted.checks.push((Instant::now(), edge.clone(), server));
            !noted.down.contains(&server) && noted.cut_off.as_ref() != Some(&edge)
        };
        let status = if is_up { "200 OK" } else { "503 Service Unavailable" };
        let response = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        reader.get_mut().write_all(response.as_bytes()).ok()?;
    }
}

/// The servers that an edge has down.
fn down(edge: &Edge) -> BTreeSet<usize> {
    let state = edge.state();
    let servers = state["services"][0]["groups"][0]["servers"].as_array().unwrap();
    let is_down = |server: &Value| server["condition"] == "down";
    (0..servers.len()).filter(|number| is_down(&servers[*number])).collect()
}

fn until(what: &str, is_so: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        sleep(Duration::from_millis(50));
    }
    begun.elapsed()
}

/// Edges that divide the checks of the farm.
fn three(etcd: &Etcd, farm: &Farm) -> [Edge; 3] {
    let edges = ["edge-1", "edge-2", "edge-3"].map(|name| farm.edge(etcd, name));
    for edge in &edges {
        until("the edges share checks", || {
            edge.log().contains("checks of servers are shared edges=3")
        });
    }
    until_divided(farm, 3);
    edges
}

/// Waits until each server is checked by one edge, and all of so many edges have some.
fn until_divided(farm: &Farm, edges: usize) {
    until("each server is checked by one edge", || {
        let pairs = farm.checked_within_a_second();
        let who: BTreeSet<&String> = pairs.iter().map(|(edge, _)| edge).collect();
        pairs.len() == SERVERS && who.len() == edges
    });
}

#[test]
fn three_edges_check_each_server_once_and_a_second_edge_is_asked_before_one_is_given_up() {
    let (etcd, farm) = (Etcd::start(), Farm::start());
    let edges = three(&etcd, &farm);
    let since = Instant::now();
    sleep(Duration::from_secs(2));
    let (count, seconds) = (farm.checks(since).len() as f64, since.elapsed().as_secs_f64());
    // Five checks of each server in a second, fifteen if each edge made its own.
    let each = count / SERVERS as f64 / seconds;
    assert!((2.5..=7.5).contains(&each), "{count} checks of {SERVERS} servers in {seconds} s");

    let metrics = edges[0].metrics();
    assert!(metrics.contains("loadline_cluster_checking_edges 3"), "{metrics}");
    farm.note(|noted| noted.down = BTreeSet::from([3, 17]));
    let since = Instant::now();
    for edge in &edges {
        until("all have them down", || down(edge) == BTreeSet::from([3, 17]));
    }
    let took = since.elapsed();
    let asked: BTreeSet<_> = farm.checks(since).into_iter().filter(|(_, it)| *it == 3).collect();
    assert!(asked.len() >= 2, "only {asked:?} have looked");
    println!("down at all edges after {took:?}");
    farm.note(|noted| noted.down.clear());
    for edge in &edges {
        until("all have them up", || down(edge).is_empty());
    }
}

#[test]
fn an_edge_that_alone_reaches_no_server_gives_them_up_for_itself_and_for_nobody_else() {
    let (etcd, farm) = (Etcd::start(), Farm::start());
    let [first, second, third] = three(&etcd, &farm);
    farm.note(|noted| noted.cut_off = Some("edge-1".to_owned()));
    until("edge-1 has its servers down", || !down(&first).is_empty());
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        for edge in [&second, &third] {
            assert_eq!(down(edge), BTreeSet::new());
        }
    }
}

#[test]
fn servers_of_an_edge_that_is_gone_are_checked_by_others_and_without_the_store_by_all() {
    let (mut etcd, farm) = (Etcd::start(), Farm::start());
    let [mut first, mut second, third] = three(&etcd, &farm);
    first.stop();
    until_divided(&farm, 2);
    etcd.kill();
    until("both check all", || farm.checked_within_a_second().len() == 2 * SERVERS);
    farm.note(|noted| noted.down = BTreeSet::from([5]));
    for edge in [&second, &third] {
        until("both have it down", || down(edge) == BTreeSet::from([5]));
    }
    // Who is down is checked by two.
    farm.note(|noted| noted.down.clear());
    etcd.begin();
    until_divided(&farm, 2);
    second.kill();
    until("one checks all", || {
        let pairs = farm.checked_within_a_second();
        pairs.len() == SERVERS && pairs.iter().all(|(edge, _)| edge == "edge-3")
    });
}

const SERVERS: usize = 24;
