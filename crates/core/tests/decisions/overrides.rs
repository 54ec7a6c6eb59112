//! Changes at run time over the fleet of the file.

use std::{net::SocketAddr, sync::Arc};

use loadline_core::{
    decide::{
        controller::{Controller, Input},
        overrides::{Mode, Override, OverrideError, Overrides, Setting},
    },
    fleet::{
        Capacity, Discovery, Fleet, ListPlace, Maintenance, Server, ServerAddress, Service, Source,
        Store, StorePlace,
    },
    time::{Duration, Instant},
    units::Ratio,
};

use crate::fleets::{check, drain, fleet, group, passed, places};

/// Three servers that may be given 90 requests at a time together.
fn three_servers() -> Fleet {
    let capacity = Capacity { max_in_flight: Some(90), ..Capacity::default() };
    let groups = vec![group("near", 0, 3, capacity)];
    fleet(Service { groups, ..Service::named("web") })
}

fn change(setting: Setting) -> Override {
    Override { service: "web".into(), group: "near".into(), setting }
}

fn server(fleet: &Fleet, index: usize) -> SocketAddr {
    fleet.services[0].groups[0].servers[index].address
}

/// How many requests at a time the group may be given with these changes, while these servers are
/// down.
fn places_of(file: &Fleet, overrides: &Overrides, down: &[SocketAddr]) -> usize {
    let mut controller = Controller::new(Instant::ZERO, overrides.applied_to(file));
    let first = drain(&mut controller);
    let now = Instant::ZERO + Duration::from_secs(1);
    for (server, address) in first.checks {
        let failed = || Err("refused".to_owned());
        let passed = if down.contains(&address) { failed() } else { Ok(passed(1)) };
        controller.handle(now, Input::Checked { server, passed });
    }
    let plan = drain(&mut controller).plan.or(first.plan).unwrap();
    places(&plan, now)
}

#[test]
fn a_drained_server_leaves_its_part_to_the_others_and_one_in_maintenance_takes_it_away() {
    let file = three_servers();
    let first = server(&file, 0);
    for (mode, left) in [(Mode::Drain, 90), (Mode::Maintenance, 60)] {
        let mut overrides = Overrides::default();
        overrides.set(&file, change(Setting::Mode(first, mode))).unwrap();
        let group = &overrides.applied_to(&file).services[0].groups[0];
        assert_eq!(group.servers[0].weight, 0);
        assert_eq!(places_of(&file, &overrides, &[]), left, "{mode:?}");
    }
}

#[test]
fn the_latest_change_counts_and_what_the_file_says_takes_it_back() {
    let file = three_servers();
    let mut overrides = Overrides::default();
    let first = server(&file, 0);
    overrides.set(&file, change(Setting::Scaler(Ratio::percent(50)))).unwrap();
    overrides.set(&file, change(Setting::Weight(first, 7))).unwrap();
    overrides.set(&file, change(Setting::Weight(first, 9))).unwrap();
    let changed = overrides.applied_to(&file);
    assert_eq!(changed.services[0].groups[0].scaler, Ratio::percent(50));
    assert_eq!(changed.services[0].groups[0].servers[0].weight, 9);
    assert_eq!(overrides.iter().count(), 2);

    overrides.set(&file, change(Setting::Scaler(Ratio::ONE))).unwrap();
    overrides.set(&file, change(Setting::Weight(first, 1))).unwrap();
    assert!(overrides.is_empty());
    assert_eq!(overrides.applied_to(&file), file);
}

#[test]
fn a_service_is_put_in_maintenance_with_what_its_file_says_of_it_and_back() {
    let mut file = three_servers();
    let retry_after = Some(Duration::from_secs(60));
    file.services[0].maintenance = Some(Maintenance { retry_after, ..Maintenance::default() });
    let change = |enabled| Override {
        service: "web".into(),
        group: String::new(),
        setting: Setting::Maintenance(enabled),
    };
    let mut overrides = Overrides::default();
    overrides.set(&file, change(true)).unwrap();
    let changed = overrides.applied_to(&file).services[0].maintenance.clone().unwrap();
    assert_eq!((changed.enabled, changed.retry_after), (true, retry_after));
    let line = overrides.iter().next().unwrap().to_string();
    assert_eq!(line, "# service.web:\nmaintenance = { enabled = true }");
    overrides.set(&file, change(false)).unwrap();
    assert!(overrides.is_empty());
    // A file that says nothing of maintenance has it all the same.
    file.services[0].maintenance = None;
    overrides.set(&file, change(true)).unwrap();
    assert!(overrides.applied_to(&file).services[0].maintenance.as_ref().unwrap().enabled);
    let stranger = Override { service: "wep".into(), ..change(true) };
    assert_eq!(overrides.set(&file, stranger), Err(OverrideError::Service("wep".into())));
}

#[test]
fn a_change_copies_the_service_that_it_names_and_no_other() {
    let web = three_servers().services[0].clone();
    let named = |n| Service { name: format!("web{n}"), ..web.clone() };
    let file = Fleet { services: (0..20).map(named).collect(), ..three_servers() };
    let first = server(&file, 0);
    let (mut overrides, mut in_force) = (Overrides::default(), file.clone());
    let steps = [
        (3, Setting::Mode(first, Mode::Drain)),
        (7, Setting::Mode(first, Mode::Maintenance)),
        (7, Setting::Scaler(Ratio::percent(50))),
        (3, Setting::Weight(first, 9)),
        (3, Setting::Mode(first, Mode::Active)),
        (7, Setting::Mode(first, Mode::Active)),
        (3, Setting::Weight(first, 1)),
    ];
    for (n, setting) in steps {
        let service = format!("web{n}");
        overrides.set(&file, Override { service: service.clone(), ..change(setting) }).unwrap();
        let before = in_force.clone();
        in_force = overrides.applied_to_service(&service, &file, &before);
        assert!((0..20).all(|at| at == n || in_force.services.share(at, &before.services)));
        let anew = overrides.applied_to(&file);
        assert_eq!(in_force, anew);
        let named = |at| overrides.iter().any(|it| it.service == format!("web{at}"));
        assert!((0..20).all(|at| anew.services.share(at, &file.services) != named(at)));
    }
    assert!(in_force.services.share(3, &file.services), "taken back");
}

#[test]
fn whoever_is_drained_stays_so_whatever_its_weight_until_it_is_active_again() {
    let file = three_servers();
    let mut overrides = Overrides::default();
    let first = server(&file, 0);
    overrides.set(&file, change(Setting::Mode(first, Mode::Drain))).unwrap();
    overrides.set(&file, change(Setting::Weight(first, 9))).unwrap();
    let weight =
        |overrides: &Overrides| overrides.applied_to(&file).services[0].groups[0].servers[0].weight;
    assert_eq!(weight(&overrides), 0);
    overrides.set(&file, change(Setting::Mode(first, Mode::Active))).unwrap();
    assert_eq!(weight(&overrides), 9);
}

#[test]
fn what_is_not_there_or_out_of_range_is_refused_and_changes_nothing() {
    let file = three_servers();
    let mut overrides = Overrides::default();
    let stranger = SocketAddr::from(([10, 0, 0, 1], 80));
    let other = |service: &str, group: &str| Override {
        service: service.into(),
        group: group.into(),
        setting: Setting::Scaler(Ratio::ONE),
    };
    let refused = [
        (other("api", "near"), OverrideError::Service("api".into())),
        (other("web", "far"), OverrideError::Group("web".into(), "far".into())),
        (change(Setting::Weight(stranger, 1)), OverrideError::Server("near".into(), stranger)),
        (change(Setting::Scaler(Ratio::percent(5))), OverrideError::Scaler),
        (change(Setting::Weight(server(&file, 0), 1001)), OverrideError::Weight),
    ];
    for (change, error) in refused {
        assert_eq!(overrides.set(&file, change), Err(error));
    }
    assert!(overrides.is_empty());
}

/// Three servers of a list.
fn listed_servers() -> Fleet {
    let mut file = three_servers();
    let group = &mut file.services[0].groups[0];
    let source = Source { place: ListPlace::File("web.toml".into()), allow_empty: false };
    group.discovery = Some(Discovery { source, template: group.servers[0].clone() });
    file
}

#[test]
fn a_drained_server_that_has_left_its_list_can_be_activated_and_nothing_else_said_of_a_stranger() {
    let mut listed = listed_servers();
    let first = server(&listed, 0);
    let mut overrides = Overrides::default();
    overrides.set(&listed, change(Setting::Mode(first, Mode::Drain))).unwrap();
    overrides.set(&listed, change(Setting::Weight(first, 7))).unwrap();
    listed.services[0].groups[0].servers.remove(0);
    let active = change(Setting::Mode(first, Mode::Active));
    overrides.set(&listed, active.clone()).unwrap();
    overrides.set(&listed, change(Setting::Weight(first, 9))).unwrap();
    let left: Vec<_> = overrides.iter().map(|it| it.setting).collect();
    assert_eq!(left, [Setting::Weight(first, 9)]);
    let unknown = Err(OverrideError::Server("near".into(), first));
    assert_eq!(overrides.set(&listed, active), unknown, "there is nothing to take back");
}

#[test]
fn a_drained_server_whose_list_is_not_known_yet_is_drained_when_it_is_listed() {
    let (all, written) = (listed_servers(), three_servers());
    let first = server(&all, 0);
    let drain = change(Setting::Mode(first, Mode::Drain));
    let [mut unknown, mut removed] = [all.clone(), written];
    unknown.services[0].groups[0].servers.clear();
    removed.services[0].groups[0].servers.remove(0);
    let mut overrides = Overrides::default();
    overrides.restore(&unknown, drain.clone()).unwrap();
    assert_eq!(overrides.applied_to(&all).services[0].groups[0].servers[0].weight, 0);
    let error = Overrides::default().restore(&removed, drain);
    assert_eq!(error, Err(OverrideError::Server("near".into(), first)));
}

#[test]
fn a_change_says_the_line_of_the_file_that_keeps_it() {
    let scaler = change(Setting::Scaler(Ratio::percent(50)));
    assert!(scaler.to_string().ends_with("\nscaler = 0.5"), "{scaler}");
    let drain = change(Setting::Mode(server(&three_servers(), 0), Mode::Drain));
    let line = "drain of { address = \"127.110.0.0:80\" } among its servers:\nweight = 0";
    assert!(drain.to_string().ends_with(line), "{drain}");
    let active = change(Setting::Mode(server(&three_servers(), 0), Mode::Active)).to_string();
    assert!(active.ends_with("drain or maintenance of 127.110.0.0:80 is taken back"), "{active}");
    let limit = Duration::from_secs(30);
    let cut = change(Setting::Drain(server(&three_servers(), 0), limit)).to_string();
    let (_, comment) = cut.split_once("weight = 0  # ").unwrap();
    let told = ("cut after 30s by `deadline_s`", "`drain_timeout = \"30s\"` of the service");
    assert_eq!(comment.split_once("; in the file: "), Some(told));
    let weight = change(Setting::Weight(server(&three_servers(), 0), 5));
    let yields = |one: &Override, other| one.yields_to(other, &three_servers());
    assert!(yields(&weight, &drain) && !yields(&drain, &weight) && !yields(&scaler, &drain));
}

#[test]
fn a_change_of_a_store_says_a_line_that_its_group_can_have_or_none() {
    let store = Store::at(StorePlace::Files("/srv/www".into()));
    let mut fleet = three_servers();
    fleet.services[0].groups[0].servers = vec![Server::of_files(store.clone())];
    let line = |fleet: &Fleet, setting| change(setting).of_store(fleet);
    let place = server(&fleet, 0);
    let drain = Setting::Mode(place, Mode::Drain);
    let scaler = "# service.web, group near, drain of its store:\nscaler = 0";
    assert_eq!(line(&fleet, drain).as_deref(), Some(scaler));
    let weight = line(&fleet, Setting::Weight(place, 3)).unwrap();
    assert!(weight.ends_with("(3): a store has no servers in the file"), "{weight}");
    assert_eq!(line(&fleet, Setting::Mode(place, Mode::Active)), None);
    assert_eq!(line(&three_servers(), drain), None);
    let mut listed = listed_servers();
    let template = &mut listed.services[0].groups[0].discovery.as_mut().unwrap().template;
    template.store = Some(Arc::new(store));
    let one = line(&listed, Setting::Mode(server(&listed, 0), Mode::Drain)).unwrap();
    assert!(!one.contains('\n'), "others of its addresses go on: {one}");
}

#[test]
fn a_store_that_is_drained_and_has_another_scaler_gets_one_line() {
    let mut fleet = three_servers();
    let store = Store::at(StorePlace::Files("/srv/www".into()));
    fleet.services[0].groups[0].servers = vec![Server::of_files(store)];
    let place = server(&fleet, 0);
    let scaler = change(Setting::Scaler(Ratio::percent(50)));
    for out in [
        Setting::Mode(place, Mode::Drain),
        Setting::Mode(place, Mode::Maintenance),
        Setting::Drain(place, Duration::from_secs(30)),
        Setting::Weight(place, 0),
    ] {
        let out = change(out);
        assert!(scaler.yields_to(&out, &fleet) && !out.yields_to(&scaler, &fleet), "{out}");
        let elsewhere = Override { group: "far".into(), ..out };
        assert!(!scaler.yields_to(&elsewhere, &fleet), "{elsewhere}");
    }
    for other in [Setting::Weight(place, 3), Setting::Mode(place, Mode::Active), scaler.setting] {
        assert!(!scaler.yields_to(&change(other), &fleet), "{other:?}");
    }
}

#[test]
fn a_socket_whose_path_has_quotes_or_line_breaks_stays_in_its_comment() {
    let address: ServerAddress = "unix:/run/a\"b\\\n.sock".parse().unwrap();
    let weight = change(Setting::Weight(address.0, 5)).to_string();
    let line = r#"weight of { address = "unix:/run/a\"b\\\u000A.sock" } among its servers:"#;
    assert!(weight.ends_with(&format!("{line}\nweight = 5")), "{weight}");
}

/// Two servers that are asked first and two that stand by, which may be given 100 requests at a
/// time together.
fn two_and_two() -> Fleet {
    let capacity = Capacity { max_in_flight: Some(100), ..Capacity::default() };
    let mut near = group("near", 0, 4, capacity);
    near.servers[2..].iter_mut().for_each(|server| server.priority = 10);
    fleet(Service { groups: vec![near], health: Some(check()), ..Service::named("web") })
}

/// What becomes of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Up,
    Down,
    Changed(Mode),
}

/// How many requests at a time the group of [`two_and_two`] may be given.
fn places_with(file: &Fleet, cases: [Case; 4]) -> usize {
    let (mut overrides, mut down) = (Overrides::default(), Vec::new());
    for (at, case) in cases.into_iter().enumerate() {
        match case {
            Case::Up => {}
            Case::Down => down.push(server(file, at)),
            Case::Changed(mode) => {
                overrides.set(file, change(Setting::Mode(server(file, at), mode))).unwrap();
            }
        }
    }
    places_of(file, &overrides, &down)
}

const CASES: [Case; 4] =
    [Case::Up, Case::Down, Case::Changed(Mode::Drain), Case::Changed(Mode::Maintenance)];

#[test]
fn maintenance_takes_away_what_a_server_that_is_down_would_whatever_becomes_of_the_others() {
    let file = two_and_two();
    for n in 0_usize..256 {
        let cases = [0, 2, 4, 6].map(|shift| CASES[(n >> shift) & 3]);
        let maintenance = Case::Changed(Mode::Maintenance);
        let down = cases.map(|it| if it == maintenance { Case::Down } else { it });
        assert_eq!(places_with(&file, cases), places_with(&file, down), "{cases:?}");
    }
    let out = |out: &[usize]| {
        let mut cases = [Case::Up; 4];
        out.iter().for_each(|at| cases[*at] = Case::Changed(Mode::Maintenance));
        places_with(&file, cases)
    };
    let cases: [(&[usize], usize); 5] =
        [(&[0], 50), (&[2], 100), (&[1, 3], 50), (&[0, 1], 100), (&[0, 1, 2], 50)];
    for (servers, left) in cases {
        assert_eq!(out(servers), left, "{servers:?}");
    }
}

#[test]
fn a_drained_server_leaves_its_part_to_those_of_its_tier_whether_they_serve_or_stand_by() {
    let file = two_and_two();
    let (up, down, drained) = (Case::Up, Case::Down, Case::Changed(Mode::Drain));
    for (cases, left) in [
        ([up, drained, up, up], 100),
        ([up, up, drained, up], 100),
        ([up, down, drained, up], 50),
        ([up, down, up, up], 50),
        ([down, down, up, up], 100),
        ([down, down, up, drained], 100),
        ([down, down, up, down], 50),
        ([down, drained, up, down], 50),
        ([drained, drained, up, drained], 100),
        ([drained, drained, drained, drained], 0),
    ] {
        assert_eq!(places_with(&file, cases), left, "{cases:?}");
    }
}

#[test]
fn maintenance_counts_a_server_that_has_its_weight_by_a_change_whatever_their_addresses() {
    let mut file = three_servers();
    file.services[0].groups[0].servers[1].weight = 0;
    file.services[0].groups[0].servers[2].weight = 0;
    let mut overrides = Overrides::default();
    overrides.set(&file, change(Setting::Mode(server(&file, 0), Mode::Maintenance))).unwrap();
    overrides.set(&file, change(Setting::Weight(server(&file, 1), 1))).unwrap();
    assert_eq!(places_of(&file, &overrides, &[]), 45);
}
