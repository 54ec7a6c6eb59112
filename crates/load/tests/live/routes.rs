//! Which target, from which address, over how many connections; and what an exchange consists of.

use std::{
    io::Write as _,
    net::{IpAddr, Ipv4Addr},
};

use loadline_core::{time::Duration, units::Rate};
use loadline_load::{LoadError, LoadPlan, Outcome, Prober, Protocol, Until};
use loadline_measure::record::{HostAddress, LoadPlanRecord, Outcomes};

use crate::{
    assert_or_kept, one_user,
    ports::reserved,
    run,
    secure::{Authority, Http2Behaviour, Served, Speech},
    server::{Server, read_request, wait_closed},
};

const EMPTY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

fn refused(plan: &LoadPlan) -> LoadError {
    let runtime = loadline_load::runtime().unwrap();
    runtime.block_on(loadline_load::run(plan, |_| ())).unwrap_err()
}

#[test]
fn a_record_names_the_address_of_a_name_that_was_loaded() {
    let server = Server::answering(EMPTY);
    assert!(run(&one_user(&server.url(), 1)).addresses.is_empty(), "an address has no other");
    let url = server.url().replace("127.0.0.1", "localhost");
    let addresses = run(&one_user(&url, 1)).addresses;
    let [HostAddress { host, address, known }] = &addresses[..] else { panic!("{addresses:?}") };
    let port = server.url().rsplit_once(':').unwrap().1.trim_end_matches('/').to_owned();
    assert_eq!(*host, format!("localhost:{port}"));
    assert_eq!(*address, format!("127.0.0.1:{port}"));
    assert!(*known >= 1);
}

#[test]
fn a_record_holds_the_plan_beside_its_model() {
    let server = Server::answering(EMPTY);
    let mut plan = one_user(&server.url(), 1);
    plan.keepalive = false;
    plan.transport.connections = Some(3);
    plan.method = "POST".to_owned();
    plan.body = vec![b'x'; 10];
    let expected = LoadPlanRecord {
        method: "POST".to_owned(),
        body_bytes: 10,
        timeout: plan.timeout,
        keepalive: false,
        connections: Some(3),
        max_in_flight: None,
    };
    assert_eq!(run(&plan).plan.as_deref(), Some(&expected));
}

#[test]
fn targets_are_asked_exactly_by_their_weights() {
    let servers = [
        Server::answering(b"HTTP/1.1 200 OK\r\nServed-By: a\r\nContent-Length: 0\r\n\r\n"),
        Server::answering(b"HTTP/1.1 200 OK\r\nServed-By: b\r\nContent-Length: 0\r\n\r\n"),
    ];
    let mut plan = LoadPlan::closed(&servers[0].url(), 3, Until::Requests(40)).unwrap();
    plan.targets = vec![
        (servers[0].url().parse().unwrap(), 3),
        (servers[1].url().parse().unwrap(), 2),
        (format!("{}other", servers[0].url()).parse().unwrap(), 1),
    ];
    plan.count_by = Some("Served-By".to_owned());
    let record = run(&plan);
    assert_eq!((record.by_header["a"], record.by_header["b"]), (80, 40));
    // Two targets of one address share its connections.
    assert!(servers.iter().all(|server| server.connections() <= 3));
}

#[test]
fn connections_come_from_each_source_address_in_turn() {
    let server =
        Served::start(Speech { http2: false, ..Speech::plain_http2(Http2Behaviour::Answer) });
    let mut plan = one_user(&format!("http://{}/", server.address), 6);
    plan.keepalive = false;
    let sources = [2, 3].map(|last| IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)));
    plan.transport.sources = sources.to_vec();
    assert_eq!(run(&plan).outcomes.ok, 6);
    assert_eq!(Vec::from_iter(server.peers()), [(sources[0], 3), (sources[1], 3)]);
}

#[test]
fn a_source_that_cannot_be_used_is_told_before_the_run() {
    let mut plan = one_user("http://127.0.0.1:9/", 1);
    plan.transport.sources = vec!["192.0.2.1".parse().unwrap()];
    assert!(refused(&plan).to_string().contains("address of this machine"));
    plan = one_user("http://[::1]:9/", 1);
    plan.transport.sources = vec!["127.0.0.2".parse().unwrap()];
    assert!(refused(&plan).to_string().contains("one is IPv4, the other IPv6"));
}

/// As where thousands of servers are looked for that do not answer.
#[test]
fn a_run_that_is_cancelled_while_its_servers_are_looked_for_ends_at_once() {
    let silent = Server::start(|_, mut stream| wait_closed(&mut stream));
    let plan = one_user(&silent.url().replace("http", "https"), 1);
    let begun = std::time::Instant::now();
    let record = loadline_load::runtime().unwrap().block_on(async {
        let cancel = tokio::time::sleep(std::time::Duration::from_millis(50));
        loadline_load::measure(&plan, |_| (), cancel).await.unwrap()
    });
    assert!(record.interrupted && record.planned == 0, "{record:?}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[test]
fn requests_wait_in_turn_for_one_of_few_connections() {
    let server = Server::start(|_, mut stream| {
        while read_request(&mut stream) {
            std::thread::sleep(std::time::Duration::from_millis(50));
            if stream.write_all(EMPTY).is_err() {
                break;
            }
        }
    });
    let mut plan =
        LoadPlan::open(&server.url(), Rate::per_sec(1_000), Until::Requests(20)).unwrap();
    plan.transport.connections = Some(2);
    let record = run(&plan);
    assert_eq!(record.outcomes, Outcomes { ok: 20, ..Outcomes::default() });
    assert_eq!((server.connections(), record.connections), (2, 2));
    // Ten turns of 50 ms on each connection, the last of them planned at 19 ms.
    assert!(record.response.max >= Duration::from_millis(480), "{}", record.response.max);
    let [service, response] = [&record.service, &record.response].map(|times| times.p50);
    assert!(service * 2 < response, "{service} of {response} are the server's");
    let is_prompt = record.lag.p50 < Duration::from_millis(20);
    assert_or_kept(is_prompt, &record, "the wait is no lag of the generator");
}

#[test]
fn who_waits_too_long_for_a_connection_has_timed_out() {
    let server = Server::start(|_, mut stream| wait_closed(&mut stream));
    let mut plan = LoadPlan::open(&server.url(), Rate::per_sec(1_000), Until::Requests(3)).unwrap();
    plan.transport.connections = Some(1);
    plan.timeout = Duration::from_millis(300);
    let Outcomes { timeout, connect_timeout, .. } = run(&plan).outcomes;
    // One whose turn comes in its last millisecond runs out of time while it connects.
    assert_eq!(timeout + connect_timeout, 3);
    assert!(timeout >= 2, "{connect_timeout} timed out connecting");
}

#[test]
fn phases_sum_to_the_whole_of_an_exchange() {
    let server = Server::start(|_, mut stream| {
        while read_request(&mut stream) {
            std::thread::sleep(std::time::Duration::from_millis(100));
            let begun = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na");
            std::thread::sleep(std::time::Duration::from_millis(100));
            if begun.is_err() || stream.write_all(b"b").is_err() {
                break;
            }
        }
    });
    let url = server.url().replace("127.0.0.1", "localhost");
    let plan = one_user(&url, 1);
    loadline_load::runtime().unwrap().block_on(async {
        let mut prober = Prober::new(&plan).await.unwrap();
        let first = prober.fetch(true).await;
        let phases = [first.dns, first.connect, first.first_byte, first.body];
        let sum = phases.map(Option::unwrap).into_iter().fold(Duration::ZERO, |sum, x| sum + x);
        assert!(sum <= first.total && first.total.saturating_sub(sum) * 4 < first.total);
        assert!(first.first_byte >= Some(Duration::from_millis(100)));
        // The first byte may be seen late.
        assert!(first.body >= Some(Duration::from_millis(50)));
        assert_eq!((first.outcome, first.reused, first.tls), (Ok(200), false, None));
        assert_eq!((first.protocol.as_str(), first.bytes), ("HTTP/1.1", 40));
        let second = prober.fetch(false).await;
        assert_eq!((second.reused, second.dns, second.connect), (true, None, None));
        assert!(!prober.fetch(false).await.reused);
    });
}

#[test]
fn a_probe_names_what_is_spoken_and_what_failed() {
    let authority = Authority::new();
    let tls = authority.server(&authority.sign("localhost"), rustls::ALL_VERSIONS, false);
    let server = Served::start(Speech::secure(tls, true));
    let mut plan = one_user(&format!("https://{}/", server.address), 1);
    plan.transport.tls.insecure = true;
    loadline_load::runtime().unwrap().block_on(async {
        let mut prober = Prober::new(&plan).await.unwrap();
        let fetched = prober.fetch(true).await;
        assert_eq!(fetched.protocol, "HTTP/2 over TLS 1.3");
        assert!(fetched.tls.is_some() && fetched.dns.is_none());
        assert!(prober.fetch(true).await.reused);
        plan.transport.protocol = Protocol::Http1;
        let fetched = Prober::new(&plan).await.unwrap().fetch(false).await;
        assert_eq!(fetched.protocol, "HTTP/1.1 over TLS 1.3");
        plan.transport.tls.insecure = false;
        let mut verifying = Prober::new(&plan).await.unwrap();
        assert_eq!(verifying.fetch(false).await.outcome, Err(Outcome::BadAnswer));
        let nobody = one_user(&reserved().to_string(), 1);
        let fetched = Prober::new(&nobody).await.unwrap().fetch(true).await;
        assert_eq!(fetched.outcome, Err(Outcome::ConnectRefused));
    });
}
