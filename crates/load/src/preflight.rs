//! What can be known before a run: whether descriptors and ports suffice for it.
//!
//! Each connection takes a descriptor and a local port. A port that this side closed first rests in
//! TIME_WAIT, on Linux for 60 s, before it can go to the same server again. So with `p` ports in
//! the range and `a` source addresses, of new connections for ever
//!
//! `rate <= p x a / rest`, for example (65000 - 1024) / 60 s = 1066 per second
//!
//! (IBM, WebSphere Edge Load Balancer tuning, "client tuning"). Where `net.ipv4.tcp_tw_reuse`
//! allows it a port rests for a second only; as it comes, that is on the loopback. A server that
//! closes first takes the rest upon itself, so the limit may be higher than what is said here, but
//! not lower.

use std::{collections::HashSet, fmt, fs, path::Path, str::FromStr};

use loadline_core::{
    time::Duration,
    units::{Count, Rate},
};
use rustix::process::{Resource, getrlimit};

use crate::{
    plan::{LoadPlan, Pattern, Until},
    target::Target,
    transport::Protocol,
};

/// Something that may keep a plan from being carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What was found, with its figures.
    pub what: String,
    /// What to change.
    pub advice: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.advice)
    }
}

/// What may keep `plan` from being carried out on this machine, as its limits stand now; raise
/// the limit of descriptors [before](crate::raise_descriptor_limit).
#[must_use]
pub fn preflight(plan: &LoadPlan) -> Vec<Notice> {
    check(plan, &Machine::read(Path::new("/proc/sys/net/ipv4")))
}

/// What the machine has for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Machine {
    /// Open files this process may have; none where there is no limit.
    descriptors: Option<u64>,
    /// Ports of one address that connections go out from.
    ports: u64,
    /// How long a closed one rests, towards other machines.
    rest: Duration,
    /// The same on the loopback.
    loopback_rest: Duration,
}

impl Machine {
    /// The figures of this machine; the kernel's defaults where they cannot be read.
    fn read(settings: &Path) -> Self {
        let text = |name| fs::read_to_string(settings.join(name)).unwrap_or_default();
        let range = numbers::<u64>(&text("ip_local_port_range"));
        let (low, high) = match range[..] {
            [low, high] if low <= high => (low, high),
            _ => DEFAULT_PORTS,
        };
        let delay = numbers(&text("tcp_tw_reuse_delay")).first().copied();
        let soon = delay.map_or(DEFAULT_REUSE, Duration::from_millis);
        let reuse = numbers::<u8>(&text("tcp_tw_reuse")).first().copied();
        let (rest, loopback_rest) = match reuse.unwrap_or(REUSE_ON_LOOPBACK) {
            0 => (TIME_WAIT, TIME_WAIT),
            REUSE_ON_LOOPBACK => (TIME_WAIT, soon),
            _ => (soon, soon),
        };
        let descriptors = getrlimit(Resource::Nofile).current;
        Self { descriptors, ports: high - low + 1, rest, loopback_rest }
    }
}

/// The figures that the kernel writes in a file, as far as they are figures.
fn numbers<T: FromStr>(text: &str) -> Vec<T> {
    text.split_whitespace().map_while(|word| word.parse().ok()).collect()
}

fn check(plan: &LoadPlan, machine: &Machine) -> Vec<Notice> {
    let addresses = plan.transport.sources.len().max(1) as u64;
    let supply = Supply { ports: machine.ports, addresses, rest: rest(plan, machine) };
    let held =
        held(plan).and_then(|held| descriptors(&held, machine).or_else(|| supply.held(&held)));
    let renewed = if plan.keepalive { None } else { supply.renewed(plan) };
    held.into_iter().chain(renewed).collect()
}

/// Connections that a plan holds at a time.
struct Held {
    connections: u64,
    /// Of them, those to one server.
    to_one: u64,
    /// Whether so many are held only if the server does not answer.
    at_worst: bool,
    /// Whether the server may choose HTTP/2, over which requests share them.
    may_be_shared: bool,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connections, at_worst, .. } = self;
        if self.may_be_shared {
            f.write_str("unless the server chooses HTTP/2, ")?;
        }
        match at_worst {
            true => write!(f, "a server that hangs would be held {connections} connections"),
            false => write!(f, "the plan holds {connections} connections"),
        }
    }
}

/// How many connections `plan` needs at a time, as far as that is known: over HTTP/2 and HTTP/3
/// requests share them, as the server allows. Of a closed loop every user keeps one to each server.
fn held(plan: &LoadPlan) -> Option<Held> {
    let (servers, kept) = (servers(plan), plan.transport.connections.map(u64::from));
    let shared = matches!(plan.transport.protocol, Protocol::Http2 | Protocol::Http3);
    let may_be_shared = plan.transport.protocol == Protocol::Auto
        && plan.keepalive
        && plan.targets.iter().all(|(target, _)| target.is_secure());
    let of_each = |to_one: u64| Held {
        connections: to_one.saturating_mul(servers),
        to_one,
        at_worst: false,
        may_be_shared,
    };
    match &plan.pattern {
        _ if shared => kept.map(of_each),
        Pattern::Closed { users, .. } => {
            let users = u64::from(*users);
            let held = of_each(kept.map_or(users, |kept| kept.min(users)));
            let connections = if plan.keepalive { held.connections } else { users };
            Some(Held { connections, ..held })
        }
        Pattern::Open { timetable, until, max_in_flight } => {
            let due = (timetable.peak_rate() * plan.timeout).get();
            let bounds = [Some(timetable.planned(*until)), max_in_flight.map(u64::from)];
            let all = bounds.into_iter().flatten().fold(due, u64::min);
            let most = kept.map_or(u64::MAX, |kept| kept.saturating_mul(servers));
            let to_one = all.min(kept.unwrap_or(u64::MAX));
            let connections = all.min(most);
            Some(Held { connections, to_one, at_worst: true, may_be_shared })
        }
    }
}

/// How many servers the targets of `plan` are on.
fn servers(plan: &LoadPlan) -> u64 {
    let server = |target: &Target| (target.is_secure(), target.host().to_owned(), target.port());
    let all: HashSet<_> = plan.targets.iter().map(|(target, _)| server(target)).collect();
    all.len() as u64
}

fn descriptors(held: &Held, machine: &Machine) -> Option<Notice> {
    let limit = machine.descriptors?;
    (held.connections + OWN_DESCRIPTORS > limit).then(|| Notice {
        what: format!("{held} at once, and this process may open {limit} files"),
        advice: "raise the hard limit (ulimit -Hn), or bound what is under way \
                 (--max-in-flight, fewer --users)"
            .to_owned(),
    })
}

/// How long a closed port rests before it can go to the servers of `plan` again.
fn rest(plan: &LoadPlan, machine: &Machine) -> Duration {
    let on_loopback = |host: &str| {
        let address = host.parse::<std::net::IpAddr>();
        address.map_or(host == "localhost", |address| address.is_loopback())
    };
    let all = plan.targets.iter().all(|(target, _)| on_loopback(target.host()));
    if all { machine.loopback_rest } else { machine.rest }
}

/// Local ports towards one server.
struct Supply {
    /// Ports of one address.
    ports: u64,
    /// Source addresses.
    addresses: u64,
    /// How long a closed one rests.
    rest: Duration,
}

impl Supply {
    fn all(&self) -> u64 {
        self.ports * self.addresses
    }

    /// The notice where connections held at once are more than there are ports.
    fn held(&self, held: &Held) -> Option<Notice> {
        let to_one = Held { connections: held.to_one, ..*held };
        (held.to_one > self.all()).then(|| Notice {
            what: format!("{to_one} at once, and {self}"),
            advice: self.advice("", held.to_one),
        })
    }

    /// The notice where a new connection for each request takes more ports than there are.
    fn renewed(&self, plan: &LoadPlan) -> Option<Notice> {
        let most = Count::new(self.all()) / self.rest;
        let rest = self.rest;
        match &plan.pattern {
            Pattern::Open { timetable, until, .. } => {
                let span = rest.min(timetable.lasts(*until));
                let peak = timetable.peak_rate();
                let taken = (peak * span).get().min(timetable.planned(*until));
                (taken > self.all()).then(|| Notice {
                    what: format!(
                        "{peak} on new connections takes {taken} ports within the {rest} that a \
                         closed one rests, and {self}, enough for {}",
                        Whole(most)
                    ),
                    advice: self.advice("keep connections, ", taken),
                })
            }
            Pattern::Closed { users, until, .. } => {
                let long = match until {
                    Until::Requests(each) => u64::from(*users).saturating_mul(*each) > self.all(),
                    Until::Elapsed(span) => *span >= rest && rest == TIME_WAIT,
                };
                long.then(|| Notice {
                    what: format!(
                        "a closed port rests for {rest}, and {self}: at most {} on new \
                         connections for long",
                        Whole(most)
                    ),
                    advice: self.advice("keep connections, ", self.all() + 1),
                })
            }
        }
    }

    /// What to do to have so many ports.
    fn advice(&self, first: &str, wanted: u64) -> String {
        let addresses = wanted.div_ceil(self.ports);
        format!(
            "{first}send from {addresses} addresses (--source-address), or widen \
             net.ipv4.ip_local_port_range"
        )
    }
}

impl fmt::Display for Supply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.addresses {
            1 => write!(f, "one source address has {} ports", self.ports),
            addresses => write!(f, "{addresses} source addresses have {} ports", self.all()),
        }
    }
}

/// A rate without its fraction.
struct Whole(Rate);

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0.as_milli_per_sec() / 1_000)
    }
}

/// The kernel's `TCP_TIMEWAIT_LEN`, which cannot be set.
const TIME_WAIT: Duration = Duration::from_secs(60);

/// The kernel's default of `tcp_tw_reuse_delay`, fixed before Linux 6.14.
const DEFAULT_REUSE: Duration = Duration::from_secs(1);

/// The value of `tcp_tw_reuse` that allows it on the loopback only, the default since Linux 4.19.
const REUSE_ON_LOOPBACK: u8 = 2;

/// The kernel's default range of local ports.
const DEFAULT_PORTS: (u64, u64) = (32_768, 60_999);

/// Standard streams, the event loop, timers, the files of certificates, with some to spare.
const OWN_DESCRIPTORS: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timetable;
    use loadline_measure::record::Arrivals;

    /// The client of the tuning guide: ports 1024 to 65000, 60 s, 200000 descriptors.
    const CLIENT: Machine = Machine {
        descriptors: Some(200_000),
        ports: 65_000 - 1_024,
        rest: TIME_WAIT,
        loopback_rest: DEFAULT_REUSE,
    };

    fn open(url: &str, rate: u64, secs: u64) -> LoadPlan {
        let until = Until::Elapsed(Duration::from_secs(secs));
        LoadPlan::open(url, Rate::per_sec(rate), until).unwrap()
    }

    fn only(notices: &[Notice]) -> String {
        assert_eq!(notices.len(), 1, "{notices:?}");
        notices[0].to_string()
    }

    #[test]
    fn the_tuning_guides_client_can_have_1066_connections_a_second() {
        let mut plan = open("server.example", 2_000, 300);
        plan.timeout = Duration::from_secs(10);
        assert_eq!(check(&plan, &CLIENT), [], "kept connections take a port once");
        plan.keepalive = false;
        let notice = only(&check(&plan, &CLIENT));
        for part in ["takes 120000 ports within the 1m", "63976 ports", "1066/s", "2 addresses"] {
            assert!(notice.contains(part), "{part:?} is not in {notice}");
        }
        let halved = Machine { rest: Duration::from_secs(30), ..CLIENT };
        assert_eq!(check(&plan, &halved), [], "with 30 s it is 2132 per second");
        plan.transport.sources = vec!["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()];
        assert_eq!(check(&plan, &CLIENT), [], "two addresses have twice the ports");
    }

    #[test]
    fn a_short_run_needs_only_the_ports_of_its_own_requests() {
        let mut plan = open("server.example", 2_000, 30);
        plan.keepalive = false;
        plan.timeout = Duration::from_secs(1);
        assert_eq!(check(&plan, &CLIENT), []);
    }

    #[test]
    fn on_the_loopback_ports_rest_for_a_second() {
        for (url, few) in [("127.0.0.1:8080", true), ("localhost", true), ("10.0.0.1", false)] {
            let mut plan = open(url, 5_000, 60);
            plan.keepalive = false;
            plan.timeout = Duration::from_secs(1);
            assert_eq!(check(&plan, &CLIENT).is_empty(), few, "{url}");
        }
    }

    #[test]
    fn a_closed_loop_on_new_connections_is_told_its_limit() {
        let each = |requests| {
            let mut plan = LoadPlan::closed("a.example", 64, Until::Requests(requests)).unwrap();
            plan.keepalive = false;
            check(&plan, &CLIENT)
        };
        assert_eq!(each(900), []);
        let notice = only(&each(1_100));
        for part in ["rests for 1m", "at most 1066/s", "keep connections", "2 addresses"] {
            assert!(notice.contains(part), "{part:?} is not in {notice}");
        }
    }

    #[test]
    fn descriptors_are_counted_for_the_worst_case() {
        let small = Machine { descriptors: Some(1_024), ..CLIENT };
        let users = |users| LoadPlan::closed("a.example", users, Until::Requests(1)).unwrap();
        assert_eq!(check(&users(900), &small), []);
        assert!(only(&check(&users(1_000), &small)).contains("holds 1000 connections at once"));
        let mut plan = open("a.example", 100, 60);
        let notice = only(&check(&plan, &small));
        assert!(notice.contains("a server that hangs would be held 3000 connections"), "{notice}");
        let unlimited = Machine { descriptors: None, ..CLIENT };
        assert_eq!(check(&plan, &unlimited), []);
        plan.transport.protocol = Protocol::Http2;
        assert_eq!(check(&plan, &small), [], "requests share connections");
        plan.transport.protocol = Protocol::Http1;
        let Pattern::Open { max_in_flight, .. } = &mut plan.pattern else { unreachable!() };
        *max_in_flight = Some(500);
        assert_eq!(check(&plan, &small), []);
    }

    #[test]
    fn users_who_share_connections_need_no_more_than_these() {
        let small = Machine { descriptors: Some(1_024), ..CLIENT };
        let mut plan = LoadPlan::closed("https://a.example", 5_000, Until::Requests(9)).unwrap();
        plan.transport.protocol = Protocol::Http2;
        assert_eq!(check(&plan, &small), [], "requests share connections");
        plan.transport.protocol = Protocol::Auto;
        let notice = only(&check(&plan, &small));
        let expected = "unless the server chooses HTTP/2, the plan holds 5000 connections at once";
        assert!(notice.starts_with(expected), "{notice}");
        plan.transport.protocol = Protocol::Http1;
        assert!(only(&check(&plan, &small)).starts_with("the plan holds 5000 connections"));
        plan.transport.connections = Some(100);
        assert_eq!(check(&plan, &small), []);
        let target = |number: u32| (format!("{number}.example").parse().unwrap(), 1);
        plan.targets = (0..20).map(target).collect();
        assert!(only(&check(&plan, &small)).contains("holds 2000 connections at once"));
        let few = Machine { ports: 1_000, ..CLIENT };
        assert_eq!(check(&plan, &few), [], "a port serves towards every server");
        plan.targets = vec![("a.example".parse().unwrap(), 1); 20];
        assert_eq!(check(&plan, &small), [], "twenty paths of one server");
    }

    #[test]
    fn more_connections_than_ports_are_noticed() {
        let few = Machine { ports: 28_232, ..CLIENT };
        let users = LoadPlan::closed("a.example", 30_000, Until::Requests(1)).unwrap();
        let notice = only(&check(&users, &few));
        assert!(notice.contains("one source address has 28232 ports"), "{notice}");
        assert!(notice.contains("2 addresses"), "{notice}");
    }

    #[test]
    fn a_plan_without_requests_or_end_gives_no_panic() {
        let listed = Timetable::listed(Vec::new());
        let idle = Timetable::steady(Rate::default(), Arrivals::Poisson, 1);
        for timetable in [listed, idle] {
            for until in [Until::Requests(u64::MAX), Until::Elapsed(Duration::MAX)] {
                let mut plan = open("a.example", 1, 1);
                let timetable = timetable.clone();
                plan.pattern = Pattern::Open { timetable, until, max_in_flight: None };
                plan.keepalive = false;
                assert_eq!(check(&plan, &CLIENT), []);
            }
        }
    }

    #[test]
    fn a_machine_that_says_nothing_has_the_kernels_defaults() {
        let machine = Machine::read(Path::new("/nonexistent"));
        assert_eq!((machine.ports, machine.rest), (28_232, TIME_WAIT));
        assert_eq!(machine.loopback_rest, DEFAULT_REUSE);
        let own = Machine::read(Path::new("/proc/sys/net/ipv4"));
        assert!(own.ports > 0 && own.rest <= TIME_WAIT);
    }
}
