//! Every example is right, and says what the documentation says it does.

use loadline_control::{LocalOnly, counts, describe, load, parse, parse_with};
use loadline_core::{
    fleet::{
        AccessLog, Fleet, HashKey, LogField, LogFormat, LogTarget, Overflow, PolicyKind, Probe,
        WhenFull,
    },
    time::Duration,
    units::{Rate, Ratio},
};

use crate::{examples, repository};

fn example(name: &str) -> Fleet {
    let loaded = load(&repository("examples").join(name)).expect("a right example");
    loaded.fleet
}

#[test]
fn every_example_is_right_and_warns_of_nothing() {
    let examples = examples();
    assert!(examples.len() >= 4);
    for (name, text) in examples {
        let loaded = parse_with(&name, &text, &LocalOnly).unwrap();
        assert!(loaded.warnings.is_empty(), "{name}: {:?}", loaded.warnings);
        assert!(text.starts_with("# "), "{name} begins with what it shows");
    }
}

#[test]
fn every_relative_path_counts_from_the_directory_of_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = std::fs::read_to_string(repository("examples/every-key.toml")).expect("an example");
    let elsewhere = ["\"/etc/loadline/", "\"/run/loadline/", "\"/var/log/loadline/", "\"tls/"];
    let near = elsewhere.iter().fold(text, |text, it| text.replace(it, "\"near/"));
    let paths = near.matches("\"near/").count();
    std::fs::write(folder.path().join("a.toml"), near).expect("a file");
    let loaded = load(&folder.path().join("a.toml")).expect("a right file");
    let (shown, base) = (format!("{loaded:?}"), folder.path().join("near").display().to_string());
    assert!(paths >= 10 && shown.matches(&base).count() >= paths, "{paths} of {shown}");
    assert!(!shown.contains("\"near/"), "{shown}");
}

#[test]
fn the_least_file_has_the_defaults_and_one_region() {
    let fleet = example("minimal.toml");
    assert_eq!(fleet.edge.region, "local");
    assert_eq!(fleet.services.len(), 1);
    let service = &fleet.services[0];
    let [group] = service.groups.as_slice() else { panic!("one group") };
    assert_eq!((group.name.as_str(), group.rtt), ("local", Some(Duration::ZERO)));
    assert_eq!(group.scaler, Ratio::ONE);
    assert_eq!(service.policy, PolicyKind::LeastRequests);
    assert_eq!(service.health, None);
    assert!(service.ejection.is_some());
}

#[test]
fn the_tutorial_has_two_regions_of_100_per_second() {
    let fleet = example("two-regions.toml");
    let groups = &fleet.services[0].groups;
    let rates: Vec<_> = groups.iter().map(|group| group.capacity.max_rate).collect();
    assert_eq!(rates, [Some(Rate::per_sec(100)); 2]);
    // The file gives the distance from the far side: it holds both ways.
    let distances: Vec<_> = groups.iter().map(|group| group.rtt).collect();
    assert_eq!(distances, [Some(Duration::ZERO), Some(Duration::from_millis(110))]);
    let health = fleet.services[0].health.as_ref().expect("a check");
    assert_eq!(health.probe, Probe::Http { path: "/health-check".to_owned(), host: None });
    assert!(health.lenient);
    assert_eq!(health.fast_interval, Duration::from_millis(250));
}

#[test]
fn limits_per_server_hold_for_servers_that_set_none() {
    let fleet = example("every-key.toml");
    assert_eq!(
        fleet.edge.access_log,
        Some(AccessLog {
            to: LogTarget::File("/var/log/loadline/access.log".to_owned()),
            format: LogFormat::Json,
            successes: Ratio::percent(10),
            query: false,
            fields: vec![LogField::Host, LogField::TlsVersion],
        })
    );
    let web = &fleet.services[0];
    assert_eq!(web.name, "web", "services keep the order of the file");
    assert_eq!(web.hash, HashKey::Header("X-User".to_owned()));
    assert_eq!(web.overflow, Overflow::Soonest);
    let [own, inherited] = web.groups[0].servers.as_slice() else { panic!("two servers") };
    assert_eq!((own.weight, own.capacity.max_in_flight), (2, Some(120)));
    assert_eq!((inherited.weight, inherited.capacity.max_in_flight), (1, Some(80)));
    assert_eq!((own.max_connections, inherited.max_connections), (2048, 1024));
    assert_eq!(web.groups[1].rtt, Some(Duration::from_millis(112)), "its own, not the region's");
    let files = &fleet.services[1];
    assert_eq!((files.when_full, files.ejection), (WhenFull::Spread, None));
    assert_eq!(fleet.listeners[1].service, 1);
}

#[test]
fn a_distance_that_only_checks_can_tell_stays_open() {
    let text = r#"
        [edge]
        region = "a"
        [[listener]]
        bind = ":8080"
        service = "web"
        [service.web]
        health = { tcp = true }
        [[service.web.group]]
        servers = ["10.0.0.1:80"]
        [[service.web.group]]
        region = "b"
        servers = ["10.0.1.1:80"]
    "#;
    let fleet = parse("open.toml", text).unwrap().fleet;
    let distances: Vec<_> = fleet.services[0].groups.iter().map(|group| group.rtt).collect();
    assert_eq!(distances, [Some(Duration::ZERO), None]);
}

#[test]
fn what_is_hardly_meant_is_a_warning_at_its_place() {
    let text = "\
[[listener]]
bind = \":8080\"
service = \"web\"

[service.web]
hash = \"path\"
health = { tcp = true, host = \"a\" }
[[service.web.group]]
burst = 5
servers = [\"10.0.0.1:80\"]

[service.spare]
[[service.spare.group]]
servers = [\"10.0.0.2:80\"]
";
    let warnings = parse("warn.toml", text).unwrap().warnings;
    let found: Vec<_> =
        warnings.iter().map(|it| (it.line(), it.column(), it.is_warning())).collect();
    assert_eq!(found, [(6, 8, true), (7, 31, true), (9, 9, true), (12, 10, true)]);
}

#[test]
fn the_plan_in_words_names_the_groups_in_the_order_they_are_filled() {
    let fleet = example("two-regions.toml");
    assert_eq!(counts(&fleet), "1 listener, 1 service, 2 groups, 6 servers");
    let words = describe(&fleet);
    assert_eq!(words, include_str!("snapshots/two-regions.txt"), "{words}");
}
