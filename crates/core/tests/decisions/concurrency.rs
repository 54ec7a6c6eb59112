//! A limit that is found: nobody who is not in overload has anything of it, and who is keeps what
//! the servers can carry.

mod batches;
mod cold;

use loadline_core::{
    decide::{
        concurrency::SearchState,
        controller::Change,
        overflow_reason::OverflowReason,
        plan::{Decision, PickContext},
        reason::Reason,
    },
    fleet::{Capacity, Class, Service, WhenFull},
    time::Instant,
    units::Ratio,
};

use crate::{
    fleets::{check, group},
    simulation::{
        Outcome, Simulation, THINK,
        draws::Draws,
        station::{Station, Weather, instant, seconds},
        traffic::{Arrivals, Work},
    },
};

/// Servers, what they work on, and when it comes.
#[derive(Clone, Debug)]
struct Case {
    name: &'static str,
    servers: u8,
    /// Of each server.
    cores: usize,
    work: Work,
    arrivals: Arrivals,
    weather: Weather,
}

fn case(name: &'static str, cores: usize, work: Work, arrivals: Arrivals) -> Case {
    Case { name, servers: 1, cores, work, arrivals, weather: Weather::default() }
}

impl Case {
    /// Arrivals at random, at this part of what the cores can do.
    fn at(name: &'static str, cores: usize, work: Work, load: f64) -> Self {
        case(name, cores, work, Arrivals::poisson(load * cores as f64 / work.mean()))
    }

    fn with(self, weather: Weather) -> Self {
        Self { weather, ..self }
    }

    /// Requests a second that the servers can carry.
    fn capacity(&self) -> f64 {
        f64::from(self.servers) * self.cores as f64 / self.work.mean()
    }

    fn jobs(&self, seed: u64) -> Vec<(f64, (f64, bool))> {
        let (mut arrivals, mut work) = (Draws(seed), Draws(!seed));
        let times = self.arrivals.times(&mut arrivals);
        times.into_iter().map(|at| (at, self.work.draw(&mut work))).collect()
    }

    fn station(&self) -> Station {
        Station::new(self.cores, self.weather.clone())
    }

    /// Through an edge that finds the limit of its group.
    fn simulation(&self, when_full: WhenFull, seed: u64) -> Simulation {
        let mut simulation = self.edge(when_full, seed);
        for (at, work) in self.jobs(seed) {
            simulation.arrive(at, 0, work);
        }
        simulation
    }

    /// The same before anything comes.
    fn edge(&self, when_full: WhenFull, seed: u64) -> Simulation {
        let capacity = Capacity { auto: Some(true), ..Capacity::default() };
        let groups = vec![group("near", 0, self.servers, capacity)];
        let health = Some(check());
        let service = Service { groups, health, when_full, ..Service::named("web") };
        Simulation::new(&service, 1, &self.station(), seed)
    }

    /// Response times in seconds without anything between clients and the one server.
    fn direct(&self, seed: u64) -> Vec<f64> {
        let mut station = self.station();
        let mut answer = |(at, work)| seconds(station.serve(instant(at), work)) - at;
        self.jobs(seed).into_iter().map(&mut answer).collect()
    }
}

fn response_times(outcomes: &[Outcome]) -> Vec<f64> {
    let time = |it: &Outcome| it.answered.map(|(at, _)| at.since(it.came).as_secs_f64());
    outcomes.iter().filter_map(time).collect()
}

fn quantile(times: &[f64], part: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() as f64 * part) as usize).min(sorted.len() - 1)]
}

/// Services that are not in overload, none like the other.
fn healthy() -> Vec<Case> {
    use Work::{Constant, Exponential, Lognormal, LongPolls, Pareto, Two};
    let pause = |long, every| Weather { pause: Some((long, every)), ..Weather::default() };
    let speeds = |speeds: &[(f64, f64)]| Weather { speeds: speeds.to_vec(), ..Weather::default() };
    let warm_up = |warm_up| Weather { warm_up, ..Weather::default() };
    let batches = |rate, size, every| Arrivals::Batches(rate, size, every);
    let phases = |phases: &[(f64, f64)]| Arrivals::Poisson(phases.to_vec());
    vec![
        Case::at("24 cores, 120 ms", 24, Lognormal(0.12, 0.5), 0.6),
        Case::at("a pause every 7 s", 6, Constant(0.06), 0.5).with(pause(0.4, 7.0)),
        case("even", 5, Constant(0.045), Arrivals::Even(90.0)),
        case("even work at random", 5, Constant(0.045), Arrivals::poisson(90.0)),
        Case::at("uneven work", 5, Lognormal(0.045, 0.8), 0.63),
        Case::at("slow by nature", 50, Lognormal(2.0, 0.3), 0.8),
        Case::at("two kinds, 1 and 100 ms", 4, Two(0.001, 0.1, 0.3), 0.7),
        Case::at("two kinds, 5 and 500 ms", 4, Two(0.005, 0.5, 0.01), 0.7),
        Case::at("Pareto, 1.5", 8, Pareto(0.02, 1.5), 0.6),
        Case::at("Pareto, 2.2", 4, Pareto(0.02, 2.2), 0.85),
        Case::at("cold start", 8, Exponential(0.02), 0.3).with(warm_up(10.0)),
        Case::at("cold start of even work", 5, Constant(0.045), 0.3).with(warm_up(5.0)),
        Case::at("long polls beside short ones", 8, LongPolls(0.02, 0.2, 20.0), 0.5),
        Case::at("few long polls", 8, LongPolls(0.02, 0.02, 30.0), 0.75),
        case("a batch every 10 s", 16, Constant(0.02), batches(200.0, 200, 10.0)),
        case("a large batch", 8, Exponential(0.02), batches(120.0, 500, 15.0)),
        case("batches of 60 to two cores", 2, Exponential(0.02), batches(30.0, 60, 5.0)),
        Case::at("twice as fast for a while", 8, Exponential(0.02), 0.8)
            .with(speeds(&[(10.0, 2.0), (20.0, 1.0)])),
        Case::at("half as fast for a while", 8, Exponential(0.02), 0.4)
            .with(speeds(&[(10.0, 0.5), (20.0, 1.0)])),
        Case::at("half as fast, 200 cores", 200, Lognormal(0.1, 0.3), 0.4)
            .with(speeds(&[(10.0, 0.5)])),
        Case::at("one core", 1, Exponential(0.02), 0.85),
        Case::at("one core, even work", 1, Constant(0.02), 0.85),
        Case::at("one core of 2 ms", 1, Exponential(0.002), 0.85),
        Case::at("8 cores at 85 %", 8, Exponential(0.02), 0.85),
        Case::at("200 cores at 85 %", 200, Exponential(0.05), 0.85),
        case(
            "a rising load",
            8,
            Exponential(0.02),
            phases(&[(120.0, 10.0), (340.0, 10.0), (200.0, 10.0)]),
        ),
        Case::at("a pause of a second", 8, Exponential(0.02), 0.7).with(pause(1.0, 15.0)),
        Case::at("short pauses", 8, Exponential(0.02), 0.8).with(pause(0.05, 1.0)),
        Case::at("0.8 a second", 2, Exponential(1.0), 0.4),
        Case::at("5 a second", 1, Exponential(0.12), 0.6),
    ]
}

#[test]
fn nobody_is_refused_or_kept_waiting_who_is_not_in_overload() {
    for case in healthy() {
        for seed in 1..=3 {
            for when_full in [WhenFull::Shed, Service::named("web").when_full] {
                unharmed(&case, when_full, seed);
            }
        }
    }
}

fn unharmed(case: &Case, when_full: WhenFull, seed: u64) {
    let outcomes = case.simulation(when_full, seed).run();
    let refused = outcomes.iter().filter(|outcome| outcome.refused.is_some()).count();
    assert_eq!(refused, 0, "{}, seed {seed}: of {}", case.name, outcomes.len());
    let (through, direct) = (response_times(&outcomes), case.direct(seed));
    for part in [0.5, 0.99] {
        let ratio = quantile(&through, part) / quantile(&direct, part);
        assert!(ratio < 1.03, "{}, seed {seed}: quantile {part} is {ratio} of direct", case.name);
    }
}

/// Users who each have one request in flight, as those of h2load, wrk and k6: however unevenly the
/// machine lets them and the server run, there are never more in flight than users. (More users
/// than the server answers in a third of a second are an overload when they come.)
#[test]
fn users_who_wait_for_their_answers_are_not_refused_on_a_busy_machine() {
    use Work::{Constant, Exponential, Lognormal};
    let works = [Constant(0.0002), Exponential(0.0005), Constant(0.002), Lognormal(0.02, 0.8)];
    for (users, cores) in [(20, 1), (50, 2), (100, 8), (200, 1), (200, 8), (1_000, 4)] {
        let all_answered = |work: &&Work| work.mean() * users as f64 / cores as f64;
        for work in works.iter().filter(|work| all_answered(work) < 0.33) {
            for seed in 1..=20 {
                let mut refused = uneven(users, cores, *work, seed);
                refused.retain(|outcome| outcome.refused.is_some());
                let name = format!("{users} users, {cores} cores of {work:?}, seed {seed}");
                assert_eq!(refused.len(), 0, "{name}: first {:?}", refused.first());
            }
        }
    }
}

/// So many users of a server that runs now fast and now hardly at all, as the users do too: they
/// see their answers in batches.
fn uneven(users: usize, cores: usize, work: Work, seed: u64) -> Vec<Outcome> {
    let mut draws = Draws(!seed);
    let speeds = (0..1_000).map(|n| (f64::from(n) * 0.02, 2.0 * draws.uniform().powi(3) + 0.02));
    let weather = Weather { speeds: speeds.collect(), ..Weather::default() };
    let case = Case { weather, ..case("users", cores, work, Arrivals::Poisson(vec![])) };
    let mut simulation = case.simulation(WhenFull::Shed, seed);
    let requests = (case.capacity() * 3.0) as usize + 10 * users;
    simulation.keep_in_flight(users, requests, |draws, now| {
        let batch = 0.005 + 0.02 * draws.uniform();
        let at = ((now + THINK) / batch).ceil() * batch;
        (at, case.work.draw(draws).0)
    })
}

/// So many times what the servers can carry for thirty seconds, after a second of little traffic,
/// and a little afterwards.
fn overload(servers: u8, cores: usize, work: Work, times: f64) -> Case {
    let arrivals = Arrivals::Poisson(vec![]);
    let mut case = Case { servers, ..case("overload", cores, work, arrivals) };
    let capacity = case.capacity();
    let little = capacity / 8.0;
    case.arrivals = Arrivals::Poisson(vec![(little, 1.0), (capacity * times, 30.0), (little, 5.0)]);
    case
}

/// What came of an overload from its first second to its 31st.
#[derive(Debug)]
struct Kept {
    /// Answers a second as part of the capacity.
    answers: f64,
    /// Of what was answered, over the mean work.
    p99: f64,
    /// How long after its end a request was refused, in seconds.
    recovery: f64,
}

fn kept(case: &Case, simulation: &mut Simulation) -> Kept {
    let outcomes = simulation.run();
    let during = |at: Instant| (1.0..31.0).contains(&seconds(at));
    let answers = outcomes.iter().filter_map(|it| it.answered).filter(|(at, _)| during(*at));
    let answers = answers.count() as f64 / 30.0 / case.capacity();
    let came: Vec<Outcome> = outcomes.iter().filter(|it| during(it.came)).copied().collect();
    let p99 = quantile(&response_times(&came), 0.99) / case.work.mean();
    let refused = outcomes.iter().filter(|it| it.refused.is_some()).map(|it| seconds(it.came));
    Kept { answers, p99, recovery: refused.fold(31.0, f64::max) - 31.0 }
}

#[test]
fn twice_and_four_times_the_load_leave_95_percent_of_the_capacity_and_fast_answers() {
    for times in [2.0, 4.0] {
        for seed in 1..=5 {
            let case = overload(2, 4, Work::Constant(0.02), times);
            let when_full = Service::named("web").when_full;
            let kept = kept(&case, &mut case.simulation(when_full, seed));
            assert!(kept.answers >= 0.95, "{times} times, seed {seed}: {kept:?}");
            assert!(kept.p99 <= 2.5, "{times} times, seed {seed}: {kept:?}");
            assert!(kept.recovery <= 0.2, "{times} times, seed {seed}: {kept:?}");
        }
    }
}

/// The part of class high that is refused in twice the load, of which it is a tenth.
fn refused_of_high(work: Work, cores: usize, seed: u64) -> f64 {
    let case = overload(1, cores, work, 2.0);
    let mut simulation = case.edge(Service::named("web").when_full, seed);
    for (n, (at, work)) in case.jobs(seed).into_iter().enumerate() {
        let class = if n.is_multiple_of(10) { Class::High } else { Class::Normal };
        simulation.arrive_as(class, at, 0, work);
    }
    let outcomes = simulation.run();
    let is_late = |it: &&Outcome| (1.0..31.0).contains(&seconds(it.came));
    let high: Vec<&Outcome> = outcomes.iter().step_by(10).filter(is_late).collect();
    let refused = high.iter().filter(|it| it.refused.is_some()).count();
    refused as f64 / high.len() as f64
}

#[test]
fn the_tenth_that_is_of_class_high_is_served_in_twice_the_load() {
    let works = [Work::Constant(0.04), Work::Exponential(0.04)];
    for (work, cores) in works.into_iter().flat_map(|work| [(work, 4), (work, 16)]) {
        for seed in 1..=3 {
            let refused = refused_of_high(work, cores, seed);
            assert!(refused <= 0.02, "{work:?}, {cores} cores, seed {seed}: {refused}");
        }
    }
}

#[test]
fn a_class_waits_for_no_longer_than_others_where_all_are_of_it() {
    for seed in 1..=3 {
        let case = overload(2, 4, Work::Constant(0.02), 2.0);
        let mut simulation = case.edge(Service::named("web").when_full, seed);
        for (at, work) in case.jobs(seed) {
            simulation.arrive_as(Class::High, at, 0, work);
        }
        let kept = kept(&case, &mut simulation);
        assert!(kept.answers >= 0.95 && kept.p99 <= 2.5, "seed {seed}: {kept:?}");
    }
}

#[test]
fn whatever_the_work_and_the_cores_the_servers_stay_busy_in_overload() {
    use Work::{Constant, Exponential, Lognormal, Pareto, Two};
    let cases = [
        (1, 8, Exponential(0.02)),
        (2, 4, Lognormal(0.02, 1.0)),
        (1, 1, Constant(0.02)),
        (1, 2, Exponential(0.05)),
        (1, 24, Lognormal(0.12, 0.5)),
        (2, 100, Exponential(0.05)),
        (4, 16, Exponential(0.002)),
        (1, 4, Two(0.005, 0.5, 0.01)),
        (1, 8, Pareto(0.02, 1.5)),
    ];
    for (servers, cores, work) in cases {
        for times in [2.0, 4.0] {
            let case = overload(servers, cores, work, times);
            let kept = kept(&case, &mut case.simulation(WhenFull::Shed, 1));
            assert!(
                kept.answers >= 0.9,
                "{servers} x {cores} of {work:?}, {times} times: {kept:?}"
            );
        }
    }
}

/// The limit is found of the servers that are there, so what is lost of it with some of them is
/// lost once, and comes back with them.
#[test]
fn servers_that_are_left_of_a_group_stay_busy_in_overload() {
    for (servers, cores, down) in [(2, 16, 1), (2, 32, 1), (3, 8, 1), (4, 4, 3)] {
        for when_full in [WhenFull::Shed, Service::named("web").when_full] {
            let left = f64::from(servers - down) / f64::from(servers);
            let mut case = overload(servers, cores, Work::Constant(0.02), 1.0);
            let capacity = case.capacity();
            let phases = vec![(capacity * left / 8.0, 1.0), (capacity * left * 1.5, 60.0)];
            case.arrivals = Arrivals::Poisson(phases);
            let mut simulation = case.simulation(when_full, 1);
            (0..down).for_each(|n| simulation.check(n.into(), false));
            simulation.run_until(instant(30.0));
            (0..down).for_each(|n| simulation.check(n.into(), true));
            let outcomes = simulation.run();
            let answers = |from: f64, to: f64| {
                let within = |(at, _): &(Instant, _)| (from..to).contains(&seconds(*at));
                let answered = outcomes.iter().filter_map(|it| it.answered).filter(within);
                answered.count() as f64 / (to - from)
            };
            let name = format!("{down} of {servers} x {cores} down, {when_full:?}");
            let kept = answers(5.0, 30.0) / case.capacity() / left;
            assert!(kept >= 0.95, "{name}: {kept} of what is left");
            let again = answers(31.0, 60.0) / case.capacity() / f64::min(1.0, 1.5 * left);
            assert!(again >= 0.95, "{name}: {again} once they are back");
        }
    }
}

#[test]
fn a_scaler_leaves_its_part_of_a_limit_and_no_part_of_that_again() {
    for (scaler, least) in [(25, 0.2), (50, 0.45), (75, 0.65)] {
        let case = overload(1, 32, Work::Constant(0.02), 2.0);
        let capacity = Capacity { auto: Some(true), ..Capacity::default() };
        let mut near = group("near", 0, 1, capacity);
        near.scaler = Ratio::percent(scaler);
        let (groups, when_full) = (vec![near], WhenFull::Shed);
        let service = Service { groups, when_full, ..Service::named("web") };
        let mut simulation = Simulation::new(&service, 1, &case.station(), 1);
        for (at, work) in case.jobs(1) {
            simulation.arrive(at, 0, work);
        }
        let kept = kept(&case, &mut simulation);
        assert!((least..least + 0.35).contains(&kept.answers), "{scaler} %: {kept:?}");
    }
}

/// Half a second of twice the load, of which some requests take half a minute by themselves.
#[test]
fn a_short_overload_beside_long_polls_does_not_stop_the_service() {
    for seed in 1..=5 {
        let work = Work::LongPolls(0.02, 0.04, 30.0);
        let per_sec = 8.0 / work.mean();
        let phases = vec![(per_sec * 0.5, 60.0), (per_sec * 2.0, 0.5), (per_sec * 0.5, 30.0)];
        let case = case("long polls", 8, work, Arrivals::Poisson(phases));
        let outcomes = case.simulation(WhenFull::Shed, seed).run();
        let refused = outcomes.iter().filter(|it| it.refused.is_some()).count();
        assert!(refused < 500, "seed {seed}: {refused} refused, of {}", outcomes.len());
        let within = |second: f64| {
            move |it: &&Outcome| {
                it.answered.is_some_and(|(at, _)| (second..second + 1.0).contains(&seconds(at)))
            }
        };
        for second in 62..90 {
            let answered = outcomes.iter().filter(within(f64::from(second))).count();
            assert!(answered > 100, "seed {seed}, second {second}: {answered} answered");
        }
    }
}

#[test]
fn a_service_that_becomes_slower_or_faster_in_overload_is_followed() {
    for (speed, work) in [(0.5, Work::Exponential(0.02)), (2.0, Work::Constant(0.02))] {
        let mut case = overload(2, 4, work, 2.0 * f64::max(speed, 1.0));
        case.weather.speeds = vec![(11.0, speed)];
        let outcomes = case.simulation(WhenFull::Shed, 1).run();
        let during =
            |it: &&Outcome| it.answered.is_some_and(|(at, _)| (13.0..31.0).contains(&seconds(at)));
        let answers = outcomes.iter().filter(during).count() as f64 / 18.0;
        assert!(answers >= 0.9 * case.capacity() * speed, "{speed} times as fast: {answers}/s");
    }
}

/// None of them can tell its own queue from that of the others: answers are late (decision 4).
#[test]
fn three_edges_before_one_group_keep_it_busy_together() {
    let case = overload(2, 12, Work::Exponential(0.02), 2.0);
    let capacity = Capacity { auto: Some(true), ..Capacity::default() };
    let groups = vec![group("near", 0, 2, capacity)];
    let service = Service { groups, when_full: WhenFull::Shed, ..Service::named("web") };
    let mut simulation = Simulation::new(&service, 3, &case.station(), 1);
    for (n, (at, work)) in case.jobs(1).into_iter().enumerate() {
        simulation.arrive(at, n % 3, work);
    }
    let kept = kept(&case, &mut simulation);
    assert!(kept.answers >= 0.95, "{kept:?}");
}

#[test]
fn a_limit_ends_when_the_load_does() {
    let case = overload(2, 4, Work::Constant(0.02), 2.0);
    let mut simulation = case.simulation(WhenFull::Shed, 1);
    let stage = |simulation: &Simulation| {
        simulation.plan_of(0).services[0].groups[0].state().auto().stage()
    };
    simulation.run_until(instant(30.0));
    assert!(stage(&simulation).limits(), "{:?}", stage(&simulation));
    simulation.run_until(instant(36.0));
    assert_eq!(stage(&simulation), SearchState::Open);
}

#[test]
fn a_limit_of_a_server_that_stops_answering_is_let_go() {
    let case = overload(1, 8, Work::Constant(0.02), 2.0);
    let mut simulation = case.simulation(WhenFull::Shed, 1);
    simulation.run_until(instant(20.0));
    simulation.stations.values_mut().for_each(|station| station.pause_until(24.0));
    simulation.run_until(instant(22.0));
    let stage = simulation.plan_of(0).services[0].groups[0].state().auto().stage();
    assert_eq!(stage, SearchState::Open);
    let outcomes = simulation.run();
    let after =
        |it: &&Outcome| it.answered.is_some_and(|(at, _)| (25.0..31.0).contains(&seconds(at)));
    let answers = outcomes.iter().filter(after).count() as f64 / 6.0;
    assert!(answers >= 0.95 * case.capacity(), "{answers}/s");
}

#[test]
fn the_log_says_of_every_limit_that_it_began_and_that_it_ended() {
    let case = overload(1, 8, Work::Constant(0.02), 2.0);
    let mut simulation = case.simulation(WhenFull::Shed, 1);
    simulation.run_until(instant(20.0));
    simulation.stations.values_mut().for_each(|station| station.pause_until(24.0));
    simulation.run();
    let told = simulation.changes.iter().map(|(_, change)| matches!(change, Change::Limited(_)));
    let told: Vec<bool> = told.collect();
    assert_eq!(told.last(), Some(&false), "{told:?}");
    let turns = (0..told.len()).all(|n| told[n] == n.is_multiple_of(2));
    assert!(turns, "a beginning and an end by turns: {told:?}");
}

/// Servers of two cores and 10 ms get so many times what they can carry. Six seconds later they
/// stop for three: they stand still, or work on and keep what they have to say to themselves.
fn stopped(times: f64, withholds: bool, when_full: WhenFull) -> (Simulation, f64) {
    const STOP: (f64, f64) = (6.0, 9.0);
    let mut case = overload(2, 2, Work::Constant(0.01), times);
    let capacity = case.capacity();
    case.arrivals = Arrivals::Poisson(vec![(capacity / 4.0, 2.0), (capacity * times, 47.0)]);
    case.weather.withholds = withholds.then_some(STOP);
    let mut simulation = case.simulation(when_full, 1);
    simulation.stations.values_mut().for_each(|station| station.connections = 1_024);
    simulation.run_until(instant(STOP.0));
    if !withholds {
        simulation.stations.values_mut().for_each(|station| station.pause_until(STOP.1));
    }
    (simulation, STOP.1)
}

#[test]
fn a_limit_is_found_again_after_the_servers_stopped_for_three_seconds_in_overload() {
    for (times, withholds) in [1.2, 1.5, 2.0].into_iter().flat_map(|it| [(it, true), (it, false)]) {
        for when_full in [WhenFull::Shed, Service::named("web").when_full] {
            let name = format!("{times} times, withholds: {withholds}, {when_full:?}");
            let (mut simulation, begin) = stopped(times, withholds, when_full);
            let found = (1..=100).find(|tenths| {
                simulation.run_until(instant(begin + f64::from(*tenths) * 0.1));
                let plan = simulation.plan_of(0);
                plan.services[0].groups[0].state().auto().stage().limits()
            });
            assert!(found.is_some(), "{name}: no limit in ten seconds");
            let outcomes = simulation.run();
            let is_late = |it: &&Outcome| seconds(it.came) > begin + 15.0;
            let late: Vec<Outcome> = outcomes.iter().filter(is_late).copied().collect();
            let late = response_times(&late);
            assert!(quantile(&late, 0.5) < 0.03, "{name}: {}", quantile(&late, 0.5));
            assert!(quantile(&late, 0.99) < 0.1, "{name}: {}", quantile(&late, 0.99));
        }
    }
}

#[test]
fn a_limit_is_found_of_servers_that_take_no_more_connections_before_their_queue_proves_it() {
    for when_full in [WhenFull::Shed, Service::named("web").when_full] {
        let case = overload(2, 2, Work::Constant(0.01), 1.2);
        let mut simulation = case.simulation(when_full, 1);
        simulation.stations.values_mut().for_each(|station| station.connections = 40);
        let outcomes = simulation.run();
        let is_late = |it: &&Outcome| (21.0..31.0).contains(&seconds(it.came));
        let late: Vec<Outcome> = outcomes.iter().filter(is_late).copied().collect();
        let median = quantile(&response_times(&late), 0.5);
        assert!(median < 0.03, "{when_full:?}: {median} s");
    }
}

/// Load and latency that rise for a while, evenly, of a server that works on all it gets at a time.
#[derive(Clone, Copy, Debug)]
struct Growth {
    per_sec: (f64, f64),
    latency: (f64, f64),
    lasts: f64,
}

impl Growth {
    /// Between two values, as it is at a time.
    fn at(&self, (from, to): (f64, f64), at: f64) -> f64 {
        from + (to - from) * ((at - 5.0) / self.lasts).clamp(0.0, 1.0)
    }

    /// Requests that were refused, and by how many seconds the others were kept waiting.
    fn harm(&self, when_full: WhenFull, seed: u64) -> (usize, Vec<f64>) {
        let phases = (0..).map(|n| f64::from(n) * 0.1).take_while(|at| *at < self.lasts + 25.0);
        let phases = phases.map(|at| (self.at(self.per_sec, at), 0.1)).collect();
        let case = case("growth", 1, Work::Constant(0.02), Arrivals::Poisson(phases));
        let (mut simulation, mut draws) = (case.edge(when_full, seed), Draws(!seed));
        let mut works = Vec::new();
        for at in case.arrivals.times(&mut Draws(seed)) {
            let work = self.at(self.latency, at) * (0.7 + 0.6 * draws.uniform());
            simulation.arrive(at, 0, (work, false));
            works.push(work);
        }
        let outcomes = simulation.run();
        let waited = |(outcome, work): (&Outcome, &f64)| {
            outcome.answered.map(|(at, _)| at.since(outcome.came).as_secs_f64() - work)
        };
        let refused = outcomes.iter().filter(|outcome| outcome.refused.is_some()).count();
        (refused, outcomes.iter().zip(&works).filter_map(waited).collect())
    }
}

#[test]
fn a_service_whose_load_and_latency_grow_together_is_neither_refused_nor_kept_waiting() {
    for (per_sec, latency, lasts) in [
        ((50.0, 800.0), (0.02, 0.06), 10.0),
        ((20.0, 200.0), (0.02, 0.2), 30.0),
        ((50.0, 800.0), (0.02, 0.03), 10.0),
        ((50.0, 400.0), (0.02, 0.2), 10.0),
        ((20.0, 100.0), (0.1, 1.0), 20.0),
        ((100.0, 2_000.0), (0.02, 0.1), 20.0),
        ((300.0, 330.0), (0.02, 0.2), 5.0),
        ((100.0, 800.0), (0.02, 0.04), 1.0),
    ] {
        let growth = Growth { per_sec, latency, lasts };
        for seed in 1..=3 {
            for when_full in [WhenFull::Shed, Service::named("web").when_full] {
                let (refused, waited) = growth.harm(when_full, seed);
                assert_eq!(refused, 0, "{growth:?}, seed {seed}, {when_full:?}");
                let (p99, longest) = (quantile(&waited, 0.99), f64::max(0.03, latency.1 / 20.0));
                assert!(p99 < longest, "{growth:?}, seed {seed}, {when_full:?}: {p99} s");
            }
        }
    }
}

/// What comes in the first twenty seconds after a start, at so many times what the servers carry.
fn from_the_start(cores: usize, work: Work, times: f64) -> Case {
    let mut case = case("from the start", cores, work, Arrivals::Poisson(vec![]));
    case.arrivals = Arrivals::Poisson(vec![(case.capacity() * times, 20.0)]);
    case
}

/// Of what came from then until then: the p99 over the mean work, and the answers a second as part
/// of the capacity.
fn between(case: &Case, outcomes: &[Outcome], from: f64, to: f64) -> (f64, f64) {
    let during = |it: &&Outcome| (from..to).contains(&seconds(it.came));
    let times = response_times(&outcomes.iter().filter(during).copied().collect::<Vec<_>>());
    let part = times.len() as f64 / (to - from) / case.capacity();
    (quantile(&times, 0.99) / case.work.mean(), part)
}

/// A balancer that starts, or a service that is new, in the middle of an overload.
#[test]
fn an_overload_from_the_first_request_on_is_found() {
    use Work::{Constant, Exponential, Lognormal};
    for (cores, work) in [
        (4, Constant(0.04)),
        (8, Exponential(0.02)),
        (20, Exponential(0.02)),
        (30, Lognormal(0.15, 0.3)),
        (100, Exponential(0.02)),
        (200, Exponential(0.05)),
    ] {
        for times in [1.4, 2.0, 4.0] {
            for seed in 1..=3 {
                let case = from_the_start(cores, work, times);
                let when_full = Service::named("web").when_full;
                let outcomes = case.simulation(when_full, seed).run();
                let (p99, answers) = between(&case, &outcomes, 10.0, 20.0);
                let name = format!("{cores} cores of {work:?}, {times} times, seed {seed}");
                assert!(p99 < 8.0, "{name}: p99 is {p99} times the work");
                assert!(answers >= 0.93, "{name}: {answers} of the capacity");
            }
        }
    }
}

/// Cores that work on requests of one size end together where they began together: their responses
/// come in waves.
#[test]
fn a_limit_holds_where_responses_come_in_waves() {
    for (cores, time) in [(24, 0.02), (64, 0.05), (100, 0.1), (200, 0.2), (16, 0.2)] {
        for times in [1.5, 2.0, 4.0] {
            for seed in 1..=3 {
                let mut case = from_the_start(cores, Work::Constant(time), times);
                let capacity = case.capacity();
                let phases = vec![(capacity * 0.5, 5.0), (capacity * times, 20.0)];
                case.arrivals = Arrivals::Poisson(phases);
                let when_full = Service::named("web").when_full;
                let outcomes = case.simulation(when_full, seed).run();
                let (p99, answers) = between(&case, &outcomes, 15.0, 25.0);
                let name = format!("{cores} cores of {time} s, {times} times, seed {seed}");
                assert!(p99 < 2.5, "{name}: p99 is {p99} times the work");
                assert!(answers >= 0.93, "{name}: {answers} of the capacity");
            }
        }
    }
}

#[test]
fn few_cores_refuse_nobody_for_long_after_an_overload() {
    use Work::{Constant, Exponential};
    for (cores, work, load) in
        [(2, Constant(0.05), 0.75), (2, Exponential(0.05), 0.6), (4, Exponential(0.04), 0.55)]
    {
        for seed in 1..=6 {
            let mut case = from_the_start(cores, work, 1.0);
            let capacity = case.capacity();
            let phases =
                vec![(capacity * 0.3, 5.0), (capacity * 2.0, 14.0), (capacity * load, 60.0)];
            case.arrivals = Arrivals::Poisson(phases);
            let outcomes = case.simulation(Service::named("web").when_full, seed).run();
            let refused = outcomes.iter().filter(|it| it.refused.is_some());
            let last = refused.map(|it| seconds(it.came)).fold(0.0, f64::max);
            assert!(last < 27.0, "{cores} cores of {work:?}, seed {seed}: {last}");
        }
    }
}

/// From the eighth second on requests take so many times as long, and come so many times as fast
/// as they can be answered then.
fn slowed(servers: u8, cores: usize, work: Work, (times, load): (f64, f64), seconds: f64) -> Case {
    let mut case = Case { servers, ..case("slowed", cores, work, Arrivals::Poisson(vec![])) };
    case.arrivals = Arrivals::Poisson(vec![(case.capacity() / times * load, 8.0 + seconds)]);
    case.weather.speeds = vec![(8.0, 1.0 / times)];
    case
}

/// The same servers, and as many 40 ms away that do not become slower.
fn with_far(case: &Case, seed: u64) -> Simulation {
    let capacity = Capacity { auto: Some(true), ..Capacity::default() };
    let far = group("far", 40, case.servers, capacity);
    let groups = vec![group("near", 0, case.servers, capacity), far];
    let service = Service { groups, health: Some(check()), ..Service::named("web") };
    let mut simulation = Simulation::new(&service, 1, &case.station(), seed);
    for server in &service.groups[1].servers {
        let station = Station::new(case.cores, Weather::default());
        simulation.stations.insert(server.address, station);
    }
    for (at, work) in case.jobs(seed) {
        simulation.arrive(at, 0, work);
    }
    simulation
}

#[test]
fn a_request_that_goes_past_a_limit_that_was_found_says_so() {
    let case = slowed(1, 8, Work::Constant(0.02), (2.0, 2.0), 12.0);
    let mut simulation = with_far(&case, 1);
    simulation.run_until(instant(18.0));
    let service = &simulation.plan_of(0).services[0];
    assert!(service.groups[0].state().auto().stage().limits());
    let now = simulation.now;
    let ask = |draw| PickContext { now, key: draw, draw, tried: &[], stick: None };
    let sent = (0..100).map(|draw| service.pick(&ask(draw)));
    let sent = sent.take_while(|it| matches!(it, Decision::Send(_))).collect::<Vec<_>>();
    let reasons = sent.iter().filter_map(|it| match it {
        Decision::Send(permit) => permit.overflow_reason(),
        _ => None,
    });
    let reasons: Vec<OverflowReason> = reasons.collect();
    assert!(!reasons.is_empty(), "{sent:?}");
    assert!(reasons.iter().all(|it| *it == OverflowReason::LimitFound), "{reasons:?}");
}

#[test]
fn who_is_refused_while_a_limit_is_being_confirmed_is_told_of_it() {
    let case = overload(1, 8, Work::Constant(0.02), 2.0);
    let queue = Service::named("web").when_full;
    for (when_full, reason) in
        [(WhenFull::Shed, Reason::FoundLimit), (queue, Reason::FoundQueueFull)]
    {
        let mut simulation = case.simulation(when_full, 1);
        let stage = |simulation: &Simulation| {
            simulation.plan_of(0).services[0].groups[0].state().auto().stage()
        };
        let mut confirming = Vec::new();
        for at in (1_000..31_000).map(|ms| f64::from(ms) / 1e3) {
            simulation.run_until(instant(at));
            if stage(&simulation) == SearchState::Confirming {
                confirming.push(instant(at)..instant(at + 1e-3));
            }
        }
        let outcomes = simulation.run();
        let during = |it: &&Outcome| confirming.iter().any(|time| time.contains(&it.came));
        let during = outcomes.iter().filter(during).filter_map(|it| it.refused);
        let refused: Vec<Reason> = during.collect();
        assert!(refused.contains(&reason), "{refused:?}");
        let is_of_file = |it: &Reason| matches!(it, Reason::Full | Reason::QueueFull);
        assert!(!refused.iter().any(is_of_file), "{refused:?}");
    }
}

/// The p99 of what came from ten seconds after the slowdown on, over the mean work.
fn p99_after_slowdown(case: &Case, outcomes: &[Outcome]) -> f64 {
    let is_late = |it: &&Outcome| seconds(it.came) >= 18.0;
    let late: Vec<Outcome> = outcomes.iter().filter(is_late).copied().collect();
    quantile(&response_times(&late), 0.99) / case.work.mean()
}

#[test]
fn a_service_that_becomes_slower_than_its_load_is_found_within_ten_seconds() {
    use Work::{Constant, Exponential};
    for (servers, cores, work) in [
        (3, 4, Constant(0.02)),
        (1, 8, Constant(0.02)),
        (3, 4, Exponential(0.02)),
        (1, 16, Exponential(0.02)),
        (1, 64, Exponential(0.02)),
    ] {
        for (load, before) in [1.35, 2.0, 3.0].into_iter().flat_map(|it| [(it, 0.4), (it, 0.7)]) {
            for seed in 1..=3 {
                let case = slowed(servers, cores, work, (load / before, load), 25.0);
                let when_full = Service::named("web").when_full;
                let name = format!("{servers} x {cores} of {work:?}, {before} to {load}, {seed}");
                let p99 = p99_after_slowdown(&case, &case.simulation(when_full, seed).run());
                assert!(p99 <= 8.0 * load / before, "{name}: p99 is {p99} times the work before");
                let p99 = p99_after_slowdown(&case, &with_far(&case, seed).run());
                assert!(p99 <= 8.0 * load / before, "{name}, far: {p99} times the work before");
            }
        }
    }
}

/// Three servers of four cores and 40 ms with 180 requests a second that take 90 ms from then on.
#[test]
fn what_a_slower_group_cannot_answer_goes_to_the_far_one() {
    for seed in 1..=12 {
        let case = slowed(3, 4, Work::Exponential(0.04), (2.25, 1.35), 25.0);
        let outcomes = with_far(&case, seed).run();
        let p99 = p99_after_slowdown(&case, &outcomes) * case.work.mean();
        assert!(p99 < 0.72, "seed {seed}: {p99} s");
        let went_far = |it: &&Outcome| it.answered.is_some_and(|(_, (group, _))| group == 1);
        let far = outcomes.iter().filter(went_far).count();
        assert!(far > 500, "seed {seed}: {far} of {} went far", outcomes.len());
    }
}

#[test]
fn a_service_that_becomes_slower_within_its_capacity_is_refused_nothing() {
    use Work::{Constant, Exponential, Lognormal, Pareto, Two};
    for (servers, cores, work) in [
        (1, 1, Constant(0.02)),
        (2, 1, Exponential(0.02)),
        (1, 2, Constant(0.05)),
        (1, 4, Exponential(0.02)),
        (3, 4, Exponential(0.04)),
        (1, 8, Lognormal(0.02, 1.6)),
        (2, 8, Constant(0.04)),
        (1, 16, Lognormal(0.1, 0.5)),
        (1, 64, Exponential(0.05)),
        (1, 64, Constant(0.1)),
        (4, 4, Two(0.005, 0.2, 0.05)),
        (1, 8, Pareto(0.02, 2.2)),
        (1, 200, Exponential(0.1)),
    ] {
        for (before, load) in [(0.5, 0.9), (0.3, 0.85), (0.2, 0.9)] {
            for (seed, when_full) in [(1, WhenFull::Shed), (2, Service::named("web").when_full)] {
                let case = slowed(servers, cores, work, (load / before, load), 30.0);
                let outcomes = case.simulation(when_full, seed).run();
                let refused = outcomes.iter().filter(|it| it.refused.is_some()).count();
                let name = format!("{servers} x {cores} of {work:?}, {before} to {load}");
                assert_eq!(refused, 0, "{name}, seed {seed}: of {}", outcomes.len());
            }
        }
    }
}

#[test]
fn a_load_of_1_2_times_the_capacity_is_found_where_work_is_exponential() {
    for (cores, seed) in [8, 12].into_iter().flat_map(|cores| (1..=6).map(move |it| (cores, it))) {
        let mut case = from_the_start(cores, Work::Exponential(0.02), 1.0);
        let capacity = case.capacity();
        case.arrivals = Arrivals::Poisson(vec![(capacity * 0.5, 8.0), (capacity * 1.2, 20.0)]);
        let mut simulation = case.simulation(Service::named("web").when_full, seed);
        let found = (1..=150).find(|tenths| {
            simulation.run_until(instant(8.0 + f64::from(*tenths) * 0.1));
            let plan = simulation.plan_of(0);
            plan.services[0].groups[0].state().auto().stage().limits()
        });
        assert!(found.is_some(), "{cores} cores, seed {seed}: no limit in 15 s");
    }
}

/// Four cores of 20 ms are in overload again and again, and stop for two seconds in the first.
#[test]
fn an_overload_after_one_with_a_stop_is_found_as_soon_as_any() {
    for (gap, seed) in [8.0, 15.0].into_iter().flat_map(|gap| (1..=3).map(move |seed| (gap, seed)))
    {
        let mut phases = vec![(100.0, 4.0), (400.0, 12.0)];
        phases.extend([(100.0, gap), (400.0, 6.0)].repeat(4));
        let case = case("again", 4, Work::Constant(0.02), Arrivals::Poisson(phases));
        let mut simulation = case.simulation(WhenFull::Shed, seed);
        simulation.run_until(instant(8.0));
        simulation.stations.values_mut().for_each(|station| station.pause_until(10.0));
        let outcomes = simulation.run();
        for again in 0..4 {
            let begin = 16.0 + gap + f64::from(again) * (gap + 6.0);
            let during = |it: &&Outcome| (begin..begin + 6.0).contains(&seconds(it.came));
            let times =
                response_times(&outcomes.iter().filter(during).copied().collect::<Vec<_>>());
            let p99 = quantile(&times, 0.99);
            assert!(p99 < 1.0, "{gap} s between, seed {seed}, overload {again}: {p99} s");
        }
    }
}
