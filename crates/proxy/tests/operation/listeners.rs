//! What a reload does to listeners and to the connections that came through them.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
};

use loadline_core::{
    fleet::{HeadLimits, Listener},
    time::Duration,
    units::Bytes,
};
use loadline_proxy::runtime::{ReloadError, Runtime};

use crate::{
    ports::reserved,
    support::{
        Client, anywhere, asked_anew, becomes, fleet, listener, occupied, server, tcp,
        wait_until_refused,
    },
};

/// Asks at an address until this server answers: a reload comes into force with the next tick.
fn wait_for(address: SocketAddr, name: &str) {
    assert!(becomes(|| Client::to(address).ask() == name), "{name} never answers");
}

/// Waits, as the administration does before it answers, until a reload is in force.
fn settle(proxy: &Runtime) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(proxy.handle().settled());
}

#[test]
fn a_listener_is_added_and_the_others_keep_their_connections() {
    let servers = [server("one"), server("two")];
    let first = listener(anywhere(), 0);
    let proxy = Runtime::start(fleet(std::slice::from_ref(&first), &servers)).unwrap();
    let mut kept = Client::to(proxy.local_addrs()[0]);
    assert_eq!(kept.ask(), "one");
    let added = reserved();
    // In front of the other: its place in the file is not what a listener is known by.
    proxy.reload(fleet(&[listener(added, 1), first], &servers)).unwrap();
    assert_eq!(proxy.local_addrs()[0], added);
    assert_eq!(Client::to(added).ask(), "two");
    assert_eq!(kept.ask(), "one");
    proxy.stop(Duration::ZERO);
}

#[test]
fn a_connection_of_a_listener_that_goes_has_one_more_request_answered() {
    let servers = [server("one"), server("two")];
    let (stays, goes) = (listener(anywhere(), 0), listener(reserved(), 1));
    let proxy = Runtime::start(fleet(&[goes.clone(), stays.clone()], &servers)).unwrap();
    let mut kept = Client::to(goes.bind);
    assert_eq!(kept.ask(), "two");
    let stay = proxy.local_addrs()[1];
    let mut other = Client::to(stay);
    assert_eq!(other.ask(), "one");
    // Not even its service is left.
    proxy.reload(fleet(&[stays], &servers[..1])).unwrap();
    wait_until_refused(goes.bind);
    kept.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    let (head, body) = kept.answer();
    assert!(head.contains("connection: close"), "{head}");
    assert_eq!(body, "two");
    assert!(kept.is_closed());
    assert_eq!(other.ask(), "one");
    proxy.stop(Duration::ZERO);
}

#[test]
fn once_a_reload_is_in_force_nobody_is_taken_in_by_a_listener_that_it_takes_out() {
    let servers = [server("one")];
    let (stays, goes) = (listener(anywhere(), 0), listener(reserved(), 0));
    let both = fleet(&[stays.clone(), goes.clone()], &servers);
    let proxy = Runtime::start(both.clone()).unwrap();
    for round in 0..20 {
        assert_eq!(Client::to(goes.bind).ask(), "one");
        proxy.reload(fleet(std::slice::from_ref(&stays), &servers)).unwrap();
        settle(&proxy);
        assert!(TcpStream::connect(goes.bind).is_err(), "round {round}");
        proxy.reload(both.clone()).unwrap();
    }
    proxy.stop(Duration::ZERO);
}

#[test]
fn once_a_reload_is_in_force_whoever_comes_meets_what_the_listener_speaks_now() {
    let servers = [server("one"), server("two")];
    let bind = reserved();
    let proxy = Runtime::start(fleet(&[listener(bind, 0)], &servers)).unwrap();
    for round in 0..20 {
        assert_eq!(asked_anew(bind).as_deref(), Some("one"), "round {round}");
        proxy.reload(fleet(&[tcp(bind, 1)], &servers)).unwrap();
        settle(&proxy);
        assert!((0..4).all(|_| asked_anew(bind).as_deref() == Some("two")), "round {round}");
        proxy.reload(fleet(&[listener(bind, 0)], &servers)).unwrap();
        settle(&proxy);
    }
    proxy.stop(Duration::ZERO);
}

#[test]
fn what_a_listener_that_went_has_left_is_cut_at_its_deadline_and_nothing_else_is() {
    let servers = [server("one"), server("two")];
    let (stays, goes) = (listener(anywhere(), 0), listener(reserved(), 1));
    let proxy = Runtime::start(fleet(&[goes.clone(), stays.clone()], &servers)).unwrap();
    let [mut idle, mut tunnel, mut safe] =
        [goes.bind, goes.bind, proxy.local_addrs()[1]].map(Client::to);
    assert_eq!(idle.ask(), "two");
    tunnel.upgrade();
    safe.upgrade();
    let mut without = fleet(&[stays], &servers);
    without.edge.drain_timeout = Duration::from_secs(1);
    proxy.reload(without).unwrap();
    tunnel.echo("still there");
    assert!(tunnel.is_closed() && idle.is_closed());
    safe.echo("not concerned");
    proxy.stop(Duration::ZERO);
}

#[test]
fn tunnels_live_through_any_number_of_reloads() {
    let servers = [server("one"), server("two")];
    let first = listener(anywhere(), 0);
    let proxy = Runtime::start(fleet(std::slice::from_ref(&first), &servers)).unwrap();
    let mut tunnel = Client::to(proxy.local_addrs()[0]);
    tunnel.upgrade();
    for round in 0..20 {
        let second = listener(reserved(), 1);
        proxy.reload(fleet(&[second, first.clone()], &servers)).unwrap();
        tunnel.echo(&format!("round {round}"));
        proxy.reload(fleet(std::slice::from_ref(&first), &servers)).unwrap();
        tunnel.echo(&format!("and back {round}"));
    }
    proxy.stop(Duration::ZERO);
}

#[test]
fn a_reload_that_raises_the_limit_of_a_full_listener_lets_in_who_waits_there() {
    let (bound, servers) = (listener(anywhere(), 0), [server("one")]);
    let of = |max_connections| {
        let mut fleet = fleet(&[Listener { max_connections, ..bound.clone() }], &servers);
        fleet.edge.threads = 1;
        fleet
    };
    let proxy = Runtime::start(of(1)).unwrap();
    let (_tunnel, mut next) = occupied(&proxy);
    proxy.reload(of(2)).unwrap();
    assert_eq!(next.answer().1, "one");
    proxy.stop(Duration::ZERO);
}

#[test]
fn an_address_that_is_taken_refuses_the_reload_as_a_whole() {
    let servers = [server("one"), server("two")];
    let first = listener(anywhere(), 0);
    let proxy = Runtime::start(fleet(std::slice::from_ref(&first), &servers)).unwrap();
    let address = proxy.local_addrs()[0];
    let taken = TcpListener::bind(anywhere()).unwrap();
    let (new, taken) = (reserved(), taken.local_addr().unwrap());
    let wrong = fleet(&[listener(anywhere(), 1), listener(new, 0), listener(taken, 0)], &servers);
    let refused = proxy.reload(wrong).unwrap_err();
    assert!(matches!(refused, ReloadError::Bind(ref it) if it.address == taken), "{refused}");
    assert!(TcpListener::bind(new).is_ok(), "nothing was left bound");
    assert_eq!(Client::to(address).ask(), "one");
    assert_eq!(proxy.local_addrs(), [address]);
    proxy.stop(Duration::ZERO);
}

#[test]
fn a_listener_may_come_back_at_once_and_may_change_what_it_speaks() {
    let servers = [server("one"), server("two")];
    let (first, other) = (listener(anywhere(), 0), reserved());
    let with = |it| fleet(&[first.clone(), it], &servers);
    let proxy = Runtime::start(with(listener(other, 1))).unwrap();
    let mut kept = Client::to(other);
    assert_eq!(kept.ask(), "two");
    for _ in 0..20 {
        proxy.reload(fleet(std::slice::from_ref(&first), &servers)).unwrap();
        proxy.reload(with(listener(other, 0))).unwrap();
    }
    wait_for(other, "one");
    proxy.reload(with(tcp(other, 1))).unwrap();
    // The server's own response, carried as bytes.
    wait_for(other, "two");
    assert_eq!(kept.ask(), "two", "as when it came in");
    proxy.stop(Duration::ZERO);
}

#[test]
fn a_listener_that_changes_what_it_speaks_under_traffic_goes_on_with_every_worker() {
    let servers = [server("one")];
    let bind = reserved();
    let proxy = Runtime::start(fleet(&[listener(bind, 0)], &servers)).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    // Whoever comes at the very moment of a change may come to nobody.
                    let _ = asked_anew(bind);
                }
            });
        }
        for round in 0..30 {
            let next = if round % 2 == 0 { tcp(bind, 0) } else { listener(bind, 0) };
            proxy.reload(fleet(&[next], &servers)).unwrap();
            assert!(becomes(|| asked_anew(bind).is_some()));
        }
        is_over.store(true, SeqCst);
    });
    // The kernel shares them out among the workers.
    assert!((0..40).all(|_| asked_anew(bind).as_deref() == Some("one")));
    proxy.stop(Duration::ZERO);
}

#[test]
fn an_address_may_grow_into_all_addresses_of_its_port() {
    let servers = [server("one"), server("two")];
    let narrow = reserved();
    let proxy = Runtime::start(fleet(&[listener(narrow, 0)], &servers)).unwrap();
    let wide = SocketAddr::from(([0, 0, 0, 0], narrow.port()));
    proxy.reload(fleet(&[listener(wide, 1)], &servers)).unwrap();
    // The narrow one closes; whoever comes at that very moment comes to nobody.
    assert!(becomes(|| asked_anew(narrow).as_deref() == Some("two")));
    proxy.stop(Duration::ZERO);
}

#[test]
fn a_head_of_which_half_has_come_is_answered_though_a_reload_lowers_the_limit() {
    let servers = [server("one")];
    let of = |listener: &Listener| {
        let mut fleet = fleet(std::slice::from_ref(listener), &servers);
        fleet.edge.threads = 1;
        fleet
    };
    let small = listener(anywhere(), 0);
    let limits = HeadLimits { size: Bytes::new(1 << 20), ..HeadLimits::default() };
    let large = Listener { limits, ..small.clone() };
    let proxy = Runtime::start(of(&large)).unwrap();
    let address = proxy.local_addrs()[0];
    let (mut half, head) = (Client::to(address), "x".repeat(400_000));
    half.send(&format!("GET / HTTP/1.1\r\nHost: x\r\nX-Long: {head}"));
    // Most of that has been read once the other, which came later, is answered.
    assert_eq!(Client::to(address).ask(), "one");
    proxy.reload(of(&small)).unwrap();
    let long = format!("GET / HTTP/1.1\r\nHost: x\r\nX-Long: {}\r\n\r\n", &head[..20_000]);
    let refused = || {
        let mut client = Client::to(address);
        client.send(&long);
        client.answer().0.starts_with("http/1.1 431 ")
    };
    assert!(becomes(refused), "the reload is never in force");
    half.send("\r\n\r\n");
    assert_eq!(half.answer().1, "one", "it began under the limit before");
    assert!((0..20).all(|_| refused()), "and the limit it began under is not given on");
    proxy.stop(Duration::ZERO);
}
