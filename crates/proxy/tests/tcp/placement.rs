//! Which server a connection goes to: the same rules as for requests.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use loadline_core::{
    decide::{census::Condition, ending::Ending},
    fleet::{
        AccessLog, Ejection, Fleet, LogField, LogTarget, PolicyKind, Protocol, Retry, Then,
        WhenFull,
    },
    state::ServiceCounter,
    time::Duration,
    units::{Rate, Ratio},
};
use socket2::{Domain, Socket, Type};

use crate::support::{
    PATIENCE, Proxy, SHORT, counting, echo, exactly, fleet, group, nobody, service, until_closed,
    wait_until,
};

/// Two groups, of which the near one has room for one connection.
fn near_and_far() -> Fleet {
    let mut service = service("db", &[echo("near")]);
    service.groups[0].capacity.max_in_flight = Some(1);
    let mut far = group("far", &[echo("far!")]);
    far.rtt = Some(Duration::from_millis(30));
    service.groups.push(far);
    fleet(Protocol::Tcp, vec![service])
}

#[test]
fn connections_beyond_the_capacity_overflow_and_return_when_there_is_room() {
    let proxy = Proxy::of(near_and_far());
    let mut first = proxy.connect();
    assert_eq!(exactly(&mut first, 4), "near");
    let mut second = proxy.connect();
    assert_eq!(exactly(&mut second, 4), "far!");
    drop(first);
    wait_until(|| proxy.runtime.tallies().requests() == 1, "the end of the first");
    assert_eq!(exactly(&mut proxy.connect(), 4), "near");
    assert_eq!(
        proxy.runtime.tallies().services["db"].counters[ServiceCounter::Overflowed],
        0,
        "the second goes on"
    );
    second.write_all(b"x").unwrap();
    assert_eq!(exactly(&mut second, 1), "x");
}

#[test]
fn the_access_log_says_why_a_connection_went_past_the_nearest_group() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let log = AccessLog::to(LogTarget::File(path.display().to_string()));
    let mut fleet = near_and_far();
    fleet.edge.access_log = Some(AccessLog { fields: vec![LogField::OverflowReason], ..log });
    let proxy = Proxy::of(fleet);
    let mut first = proxy.connect();
    assert_eq!(exactly(&mut first, 4), "near");
    assert_eq!(proxy.ask(b""), "far!");
    drop(first);
    proxy.runtime.stop(Duration::from_secs(1));
    let log = fs::read_to_string(path).unwrap();
    let reason = " overflow_reason=\"max-in-flight\"";
    let told = |group: &str| log.lines().find(|line| line.contains(group)).unwrap();
    assert!(told("db/far/").ends_with(reason), "{log}");
    assert!(!told("db/near/").contains("overflow_reason"), "{log}");
}

#[test]
fn a_connection_for_which_there_is_no_room_waits_or_is_closed() {
    let mut service = service("db", &[echo("here")]);
    service.groups[0].capacity.max_in_flight = Some(1);
    let wait = |timeout, length| WhenFull::Queue { timeout, length, then: Then::Shed };
    service.when_full = wait(Duration::from_secs(4), 1);
    let proxy = Proxy::of(fleet(Protocol::Tcp, vec![service.clone()]));
    let mut first = proxy.connect();
    assert_eq!(exactly(&mut first, 4), "here");
    let mut second = proxy.connect();
    wait_until(
        || proxy.runtime.tallies().services["db"].counters[ServiceCounter::Queued] == 1,
        "the second to queue",
    );
    assert_eq!(until_closed(&mut proxy.connect()), "", "the queue has one place");
    proxy.expect(Ending::QueueFull, 1);
    drop(first);
    assert_eq!(exactly(&mut second, 4), "here");

    service.when_full = wait(SHORT, 1);
    let proxy = Proxy::of(fleet(Protocol::Tcp, vec![service.clone()]));
    let mut first = proxy.connect();
    assert_eq!(exactly(&mut first, 4), "here");
    assert_eq!(until_closed(&mut proxy.connect()), "");
    proxy.expect(Ending::QueueTimeout, 1);

    service.when_full = WhenFull::Shed;
    let proxy = Proxy::of(fleet(Protocol::Tcp, vec![service]));
    let mut first = proxy.connect();
    assert_eq!(exactly(&mut first, 4), "here");
    assert_eq!(until_closed(&mut proxy.connect()), "");
    proxy.expect(Ending::Shed, 1);
}

#[test]
fn a_rate_counts_connections() {
    let mut service = service("db", &[echo("here")]);
    service.groups[0].capacity.max_rate = Some(Rate::per_sec(1));
    service.groups[0].capacity.burst = Some(2);
    service.when_full = WhenFull::Shed;
    let proxy = Proxy::of(fleet(Protocol::Tcp, vec![service]));
    let (mut served, start) = (0, Instant::now());
    for _ in 0..6 {
        served += usize::from(!until_closed_after(&mut proxy.connect()).is_empty());
    }
    // The rate gives one more for each second that this takes.
    let more = usize::try_from(start.elapsed().as_secs()).unwrap();
    assert!((2..=3 + more).contains(&served), "{served}");
}

/// What a server says first, if it is reached.
fn until_closed_after(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = [0; 4];
    let count = stream.read(&mut bytes).unwrap_or(0);
    bytes[..count].to_vec()
}

#[test]
fn one_refused_connection_takes_a_server_of_tcp_out() {
    let mut service = service("db", &[nobody(), echo("here")]);
    service.policy = PolicyKind::RoundRobin;
    let time = Duration::from_secs(60);
    service.ejection = Some(Ejection { time, time_max: time, ..Ejection::default() });
    let proxy = Proxy::of(fleet(Protocol::Tcp, vec![service]));
    let retries_after = |count: u64| {
        assert_eq!(exactly(&mut proxy.connect(), 4), "here");
        proxy.expect(Ending::Complete, count);
        proxy.runtime.tallies().services["db"].counters[ServiceCounter::Retries]
    };
    let refused = (1..=20).find(|count| retries_after(*count) == 1);
    let refused = refused.expect("the turn of the one that refuses");
    let state = || proxy.runtime.handle().state();
    let condition = || state().services[0].groups[0].servers[0].condition;
    wait_until(|| condition() == Condition::Ejected, "one refusal takes it out");
    (1..=20).for_each(|more| assert_eq!(retries_after(refused + more), 1));
}

#[test]
fn a_connection_that_a_server_refused_goes_elsewhere_whatever_the_retry_budget() {
    let mut service = service("db", &[nobody(), echo("here")]);
    service.policy = PolicyKind::RoundRobin;
    service.ejection = None;
    service.retry = Retry { budget: Ratio::ZERO, min_rate: Rate::default(), ..Retry::default() };
    let proxy = Proxy::of(fleet(Protocol::Tcp, vec![service]));
    for _ in 0..6 {
        assert_eq!(exactly(&mut proxy.connect(), 4), "here");
    }
    proxy.expect(Ending::Complete, 6);
}

#[test]
fn where_every_server_refuses_the_client_is_closed() {
    let proxy = Proxy::to(&[nobody()]);
    assert_eq!(until_closed(&mut proxy.connect()), "");
    proxy.expect(Ending::ConnectRefused, 1);
}

#[test]
fn a_server_is_given_no_more_connections_than_it_may_have() {
    let (crowded, count) = counting(|mut stream| drop(until_closed(&mut stream)));
    let mut service = service("db", &[crowded, echo("other")]);
    service.policy = PolicyKind::RoundRobin;
    service.groups[0].servers[0].max_connections = 1;
    let proxy = Proxy::of(fleet(Protocol::Tcp, vec![service]));
    let served = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..6).map(|_| proxy.connect()).collect();
    for mut client in clients.iter().map(|client| client.try_clone().unwrap()) {
        let served = served.clone();
        thread::spawn(move || {
            let told = until_closed_after(&mut client);
            served.fetch_add(usize::from(!told.is_empty()), Relaxed);
        });
    }
    wait_until(|| served.load(Relaxed) == 5, "all but one to be served by the other");
    wait_until(|| count.load(Relaxed) > 0, "the one that may");
    assert_eq!(count.load(Relaxed), 1);
}

/// What a client at 127.0.0.`last` is told first.
fn from(last: u8, proxy: SocketAddr) -> String {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let own = SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0));
    socket.bind(&own.into()).unwrap();
    socket.connect(&proxy.into()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    exactly(&mut TcpStream::from(socket), 4)
}

#[test]
fn a_policy_that_hashes_keeps_a_client_with_its_server() {
    let mut service = service("db", &[echo("one."), echo("two."), echo("6666")]);
    service.policy = PolicyKind::Maglev;
    let proxy = Proxy::of(fleet(Protocol::Tcp, vec![service]));
    let first: Vec<String> = (2..22).map(|last| from(last, proxy.address)).collect();
    let again: Vec<String> = (2..22).map(|last| from(last, proxy.address)).collect();
    assert_eq!(first, again);
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 3, "all servers are used");
}
