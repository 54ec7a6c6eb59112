//! What a worker makes anew when something changes.

use std::{
    fs,
    path::PathBuf,
    pin::pin,
    ptr,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    task::{self, Wake},
};

use loadline_core::{
    decide::{
        controller::{Controller, Input, Output},
        plan::{Decision, PickContext},
    },
    fleet::{
        Bucket, Capacity, Certificate, Class, Edge, Fleet, Group, ListenerTls, Protocol, Server,
        ServerTls, Store, StorePlace, Then, WhenFull,
    },
    rules::{Action, Conditions, LimitKey, Path, RateLimit, Routes, Rule, Split},
    units::Rate,
};

use super::*;
use crate::{
    listener::{handle::ListenerKey, set::Listeners},
    runtime::clock::Clock,
    tls::Keys,
};

/// A controller and the view of one worker.
struct Proxy {
    controller: Controller,
    shared: Arc<Shared>,
    counters: RefCell<Counters>,
    view: Rc<View>,
}

impl Proxy {
    fn of(fleet: &Fleet) -> Self {
        let clock = Clock::start();
        let mut controller = Controller::new(clock.now(), fleet.clone());
        let plan = published(&mut controller);
        let keys = Keys::load(fleet).unwrap();
        let shared = Shared::new(plan.clone(), Arc::default(), clock, Listeners::new(1), keys);
        let shared = shared.unwrap();
        let counters = RefCell::default();
        let view = view(&shared, &counters, plan, None);
        Self { controller, shared, counters, view }
    }

    /// Puts a change at run time in force; the view before it.
    fn amend(&mut self, fleet: &Fleet) -> Rc<View> {
        let input = Input::Reload(Arc::new(fleet.clone()));
        self.controller.handle(self.shared.clock.now(), input);
        let plan = published(&mut self.controller);
        self.shared.publish(plan.clone());
        let next = view(&self.shared, &self.counters, plan, Some(&self.view));
        std::mem::replace(&mut self.view, next)
    }

    /// The same for a file that is read again, as are those that it names.
    fn reload(&mut self, fleet: &Fleet) -> Rc<View> {
        let keys = self.shared.keys().reload(fleet).unwrap();
        self.shared.replace_keys(keys);
        self.amend(fleet)
    }

    /// Whether the contexts of these services are those of `before`.
    fn keeps_services(&self, before: &View) -> Vec<bool> {
        let pairs = self.view.services.iter().zip(before.services.iter());
        pairs.map(|(one, other)| Rc::ptr_eq(one, other)).collect()
    }

    /// Whether those of the listeners are.
    fn keeps_listeners(&self, before: &View) -> Vec<bool> {
        let listeners = self.view.plan.fleet.listeners.iter().enumerate();
        let keeps = |(index, listener): (usize, &Listener)| {
            let handle = handle(index, listener);
            let pair = self.view.listener_context(&handle).zip(before.listener_context(&handle));
            pair.is_some_and(|(one, other)| ptr::eq(one, other))
        };
        listeners.map(keeps).collect()
    }
}

/// The last plan that a controller has published.
fn published(controller: &mut Controller) -> Arc<Plan> {
    let mut plan = None;
    while let Some(output) = controller.poll() {
        if let Output::Publish(it) = output {
            plan = Some(it);
        }
    }
    plan.unwrap()
}

fn handle(index: usize, listener: &Listener) -> ListenerHandle {
    let key = ListenerKey { bind: listener.bind, nth: 0 };
    ListenerHandle::new((index, key), &Arc::default(), Arc::default())
}

/// A folder with a certificate and its key.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.renew();
        files
    }

    /// Writes another certificate with another key.
    fn renew(&self) {
        let own = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        fs::write(self.path("chain.pem"), own.cert.pem()).unwrap();
        fs::write(self.path("key.pem"), own.signing_key.serialize_pem()).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A listener in clear with a limited route and one with TLS; a service in clear, one with TLS
    /// and one with a bucket.
    fn fleet(&self) -> Fleet {
        let bind = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let (chain, key) = (self.name("chain.pem"), self.name("key.pem"));
        let certificate = Certificate { chain: chain.clone(), key, staple: None };
        let clear = Listener { routes: routes(1), ..Listener::new(bind(80), 0) };
        let tls = Some(ListenerTls::of(vec![certificate]));
        let secure = Listener { protocol: Protocol::Https, tls, ..Listener::new(bind(443), 0) };
        let service = |name: &str, server| Service {
            groups: vec![Group::within("here", vec![server])],
            ..Service::named(name)
        };
        let tls = ServerTls { authorities: Some(chain), ..ServerTls::default() };
        let bucket = Bucket { authority: "s3.test".to_owned(), ..Bucket::default() };
        let store = Some(Arc::new(Store::at(StorePlace::Bucket(bucket))));
        let services = vec![
            service("web", Server::at(bind(1))),
            Service { tls: Some(tls), ..service("safe", Server::at(bind(2))) },
            service("store", Server { store, ..Server::at(bind(3)) }),
        ];
        Fleet::of(Edge::within("here"), vec![clear, secure], services)
    }
}

/// A route with so many requests a second of each client.
fn routes(per_sec: u64) -> Routes {
    let (rate, by) = (Rate::per_sec(per_sec), LimitKey::Client);
    let conditions =
        Conditions { paths: vec![Path::prefix("/a").unwrap()], ..Conditions::default() };
    let limit = Some(RateLimit { rate, burst: 1, by, keys: 64 });
    let rule = Rule::new(conditions, Action::Service(Split::all(0)));
    Routes::new(vec![Rule { limit, ..rule }])
}

#[test]
fn a_drain_makes_no_listener_and_no_other_service_anew() {
    let files = Files::new();
    let mut fleet = files.fleet();
    let mut proxy = Proxy::of(&fleet);
    fleet.services[0].groups[0].servers[0].weight = 0;
    let before = proxy.amend(&fleet);
    assert_eq!(proxy.keeps_services(&before), [false, true, true]);
    assert_eq!(proxy.keeps_listeners(&before), [true, true]);
}

/// A service with one server.
fn service(index: u16) -> Service {
    Service {
        groups: vec![Group::within("here", vec![Server::at(([10, 0, 0, 1], index + 1).into())])],
        ..Service::named(&format!("s{index}"))
    }
}

/// So many of these, and one listener.
fn many(services: u16) -> Fleet {
    let listener = Listener::new(([127, 0, 0, 1], 80).into(), 0);
    let services = (0..services).map(service).collect();
    Fleet::of(Edge::within("here"), vec![listener], services)
}

#[test]
fn of_many_services_a_change_makes_one_anew_and_its_connections_alone_may_be_outdated() {
    let mut fleet = many(200);
    let mut proxy = Proxy::of(&fleet);
    fleet.services[130].timeouts.keep_alive = Duration::from_secs(7);
    let before = proxy.amend(&fleet);
    let keeps = proxy.keeps_services(&before);
    let anew: Vec<usize> = (0..200).filter(|index| !keeps[*index]).collect();
    assert_eq!(anew, [130]);
    let outdated = proxy.view.outdated(&before);
    assert!(outdated.all.is_empty());
    assert_eq!(outdated.links.len(), 1);
    // One more has all others stay.
    fleet.services.push(service(200));
    let before = proxy.amend(&fleet);
    assert!(proxy.keeps_services(&before).iter().all(|keeps| *keeps));
    assert_eq!((before.services.len(), proxy.view.services.len()), (200, 201));
}

#[test]
fn of_many_services_a_drain_closes_connections_to_its_server_and_looks_at_no_other() {
    let mut fleet = many(200);
    let mut proxy = Proxy::of(&fleet);
    let server =
        |view: &View, service: usize| view.plan.services[service].census[0].servers[0].state.id();
    let drained = server(&proxy.view, 130);
    fleet.services[130].groups[0].servers[0].weight = 0;
    let before = proxy.amend(&fleet);
    let outdated = proxy.view.outdated(&before);
    assert_eq!(outdated.all, BTreeSet::from([drained]));
    assert_eq!(outdated.all, outdated.links);
    // One that takes the place of another, before all services that stay.
    let mut services: Vec<Service> = fleet.services.iter().cloned().collect();
    let gone = server(&proxy.view, 0);
    services[0] = Service::named("new");
    services.insert(0, service(200));
    fleet.services = services.into();
    let before = proxy.amend(&fleet);
    let outdated = proxy.view.outdated(&before);
    assert_eq!(outdated.all, BTreeSet::from([gone, server(&proxy.view, 0)]));
    assert_eq!(outdated.all, outdated.links);
}

#[test]
fn of_many_services_one_that_is_to_be_connected_to_before_requests_come_is_found() {
    let mut fleet = many(200);
    let mut proxy = Proxy::of(&fleet);
    assert_eq!(proxy.view.warm().count(), 0);
    for (service, found) in [(0, 1), (130, 1)] {
        fleet.services[service].prewarm = 2;
        proxy.amend(&fleet);
        assert_eq!(proxy.view.warm().count(), found, "the listener leads to the first alone");
    }
}

#[test]
fn a_service_that_is_inserted_moves_the_others_and_makes_none_of_them_anew() {
    let files = Files::new();
    let mut fleet = many(200);
    fleet.services[190].tls =
        Some(ServerTls { authorities: Some(files.name("chain.pem")), ..ServerTls::default() });
    let mut proxy = Proxy::of(&fleet);
    for reads_files in [false, true] {
        let (at, new) = if reads_files { (150, 201) } else { (70, 200) };
        let mut services: Vec<Service> = fleet.services.iter().cloned().collect();
        services.insert(at, service(new));
        services.swap(3, 160);
        fleet.services = services.into();
        let before = if reads_files { proxy.reload(&fleet) } else { proxy.amend(&fleet) };
        let known: BTreeSet<_> = before.services.iter().map(Rc::as_ptr).collect();
        let now = || proxy.view.services.iter().enumerate();
        let anew = now().filter(|(_, it)| !known.contains(&Rc::as_ptr(it))).map(|(at, _)| at);
        assert_eq!(anew.collect::<Vec<_>>(), [at]);
        assert!(now().all(|(at, it)| *it.name == *fleet.services[at].name.as_bytes()));
        let outdated = proxy.view.outdated(&before);
        assert_eq!((outdated.all.len(), outdated.links.len()), (1, 1), "the new one");
    }
}

#[test]
fn a_listener_that_is_inserted_moves_the_others_and_makes_none_of_them_anew() {
    let listener = |port| {
        let bind = SocketAddr::from(([127, 0, 0, 1], port));
        Listener { routes: routes(1), ..Listener::new(bind, 0) }
    };
    let mut listeners = vec![listener(80), listener(81), listener(82)];
    let mut fleet = Fleet { listeners: listeners.clone().into(), ..many(1) };
    let mut proxy = Proxy::of(&fleet);
    listeners.insert(1, listener(90));
    fleet.listeners = listeners.into();
    let before = proxy.amend(&fleet);
    assert_eq!(proxy.keeps_listeners(&before), [true, false, true, true]);
    // As they are read from the file again.
    let read = [90, 80, 81, 82].map(listener).to_vec();
    let read = loadline_core::fleet::Listeners::from(read);
    fleet.listeners = read.in_common_with(&fleet.listeners);
    let before = proxy.reload(&fleet);
    assert_eq!(proxy.keeps_listeners(&before), [true, true, true, true]);
    fleet.listeners = vec![fleet.listeners[0].clone(), fleet.listeners[3].clone()].into();
    let before = proxy.amend(&fleet);
    assert_eq!(proxy.keeps_listeners(&before), [true, true]);
}

/// Counts how often somebody is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn who_waits_is_woken_by_a_configuration_that_changes_its_service_and_by_no_other() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    // Timers are set, and nobody hears of them.
    let _timers = runtime.enter();
    let mut fleet = many(2);
    let full = WhenFull::Queue { timeout: Duration::from_secs(9), length: 9, then: Then::Shed };
    fleet.services[0].when_full = full;
    fleet.services[0].groups[0].capacity =
        Capacity { max_in_flight: Some(1), ..Capacity::default() };
    let mut proxy = Proxy::of(&fleet);
    let (plan, clock) = (proxy.view.plan.clone(), proxy.shared.clock);
    let ask = PickContext { now: clock.now(), key: 0, draw: 0, tried: &[], stick: None };
    let Decision::Send(_sent) = plan.services[0].pick(&ask) else { panic!("there is room") };
    let Decision::Queue(place) = plan.services[0].pick(&ask) else { panic!("there is none") };
    let queue = proxy.shared.queue("s0");
    let waiter = queue.join(Class::Normal, place);
    let woken = Arc::new(Woken::default());
    let waker = task::Waker::from(woken.clone());
    let mut context = task::Context::from_waker(&waker);
    let mut waits = pin!(waiter.may_ask(clock));
    // It asks at first, and again after a while.
    while waits.as_mut().poll(&mut context).is_ready() {
        waiter.no_room(None);
        waits.set(waiter.may_ask(clock));
    }
    let mut counts = [1, 0].map(|service: usize| {
        fleet.services[service].timeouts.keep_alive = Duration::from_secs(7);
        proxy.amend(&fleet);
        woken.0.load(Relaxed)
    });
    counts[1] -= counts[0];
    assert_eq!(counts, [0, 1]);
}

#[test]
fn a_reload_makes_anew_what_a_renewed_certificate_is_part_of_and_nothing_else() {
    let files = Files::new();
    let fleet = files.fleet();
    let mut proxy = Proxy::of(&fleet);
    let before = proxy.reload(&fleet);
    assert_eq!(proxy.keeps_services(&before), [true, true, true]);
    assert_eq!(proxy.keeps_listeners(&before), [true, true]);
    files.renew();
    let before = proxy.reload(&fleet);
    assert_eq!(proxy.keeps_services(&before), [true, false, true]);
    assert_eq!(proxy.keeps_listeners(&before), [true, false]);
    let handle = handle(1, &fleet.listeners[1]);
    let shown = |view: &View| view.listener_context(&handle).unwrap().tls.clone().unwrap();
    assert!(!Arc::ptr_eq(&shown(&before), &shown(&proxy.view)));
}

#[test]
fn a_service_without_its_tls_of_before_is_spoken_to_in_clear() {
    let files = Files::new();
    let mut fleet = files.fleet();
    let mut proxy = Proxy::of(&fleet);
    proxy.reload(&fleet);
    assert!(proxy.view.services[1].tls.is_some());
    fleet.services[1].tls = None;
    // At the first reload the keys of before are still there, at the second they are not.
    for _ in 0..2 {
        proxy.reload(&fleet);
        assert!(proxy.view.services[1].tls.is_none());
        assert!(proxy.shared.keys().service(&fleet.services[1]).is_none(), "for its checks");
    }
}

#[test]
fn a_listener_that_is_changed_is_made_anew_alone_and_limits_are_those_of_the_plan() {
    let files = Files::new();
    let mut fleet = files.fleet();
    let mut proxy = Proxy::of(&fleet);
    fleet.listeners[1].max_connections = 7;
    let before = proxy.reload(&fleet);
    assert_eq!(proxy.keeps_listeners(&before), [true, false]);
    assert_eq!(proxy.keeps_services(&before), [true, true, true]);
    let handles = [0, 1].map(|index| handle(index, &fleet.listeners[index]));
    assert_eq!(proxy.view.listener_context(&handles[1]).unwrap().max_connections(), 7);
    for per_sec in [1, 2] {
        // Equal rules that are read again, then others.
        fleet.listeners[0].routes = routes(per_sec);
        let before = proxy.amend(&fleet);
        assert_eq!(proxy.keeps_listeners(&before), [false, true]);
        let limiters = &proxy.view.listener_context(&handles[0]).unwrap().limiters;
        assert!(Arc::ptr_eq(limiters, &proxy.view.plan.limiters(0)));
    }
}
