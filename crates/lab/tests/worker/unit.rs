//! A forwarding unit and its machines, over loopback.

use std::{num::NonZeroU32, time::Instant};

use loadline_core::time::Duration;
use loadline_lab::{BindError, Config, ConfigError, Content, Fault, Forwarding, Machine, Pace};
use loadline_lab::{Sleep, Worker};
use serde_json::Value;

use crate::client::Running;

fn machine(path: &str) -> Running {
    let (region, _) = path.split_once('/').unwrap();
    let pace = Pace::Cores { cores: NonZeroU32::MIN, service: Duration::from_millis(2) };
    let names = Config::new(Content::Machine);
    Running::start(Config { name: Some(path.into()), region: region.into(), pace, ..names })
}

fn unit(machines: &[(&str, &Running)], limit: Duration) -> Running {
    let machine = |(path, running): &(&str, &Running)| {
        format!("{path}={}", running.address).parse::<Machine>().unwrap()
    };
    let machines = machines.iter().map(machine).collect();
    let forwarding = Forwarding { machines, limit, ..Forwarding::default() };
    Running::start(Config { forwarding, ..Config::new(Content::Unit) })
}

async fn get(running: &Running, path: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    let answer = running.connect().await.ask(&request).await;
    (answer.status, String::from_utf8(answer.body).unwrap())
}

#[tokio::test]
async fn a_request_goes_to_the_machine_its_path_names_and_tells_its_times() {
    let (asia, us) = (machine("asia/0"), machine("us/0"));
    let unit = unit(&[("asia/0", &asia), ("us/0", &us)], Duration::from_secs(30));
    for _ in 0..3 {
        let (status, body) = get(&unit, "/work/asia/0?n=1").await;
        assert_eq!(status, 200, "{body}");
        let told: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&told["machine"], &told["region"]), (&"0".into(), &"asia".into()));
        assert_eq!(told["work_time"], 2.0);
        assert!(told["response_time"].as_f64().unwrap() >= 2.0, "{body}");
    }
    assert_eq!((asia.stats().await.answered, us.stats().await.answered), (3, 0));
    assert_eq!(get(&unit, "/work/mars").await.0, 404);
    assert_eq!(get(&unit, "/").await.0, 404);
    assert_eq!(get(&unit, "/health-check").await.0, 200);
    assert_eq!(unit.stats().await.answered, 3);
}

#[tokio::test]
async fn without_a_machine_in_the_path_each_has_its_turn_by_chance() {
    let machines = ["us/0", "us/1", "emea/0"].map(|path| (path, machine(path)));
    let listed: Vec<_> = machines.iter().map(|(path, running)| (*path, running)).collect();
    let unit = unit(&listed, Duration::from_secs(30));
    for _ in 0..40 {
        assert_eq!(get(&unit, "/work/us").await.0, 200);
        assert_eq!(get(&unit, "/work").await.0, 200);
    }
    let mut answered = Vec::new();
    for (_, running) in &machines {
        answered.push(running.stats().await.answered);
    }
    assert_eq!(answered.iter().sum::<u64>(), 80);
    assert!(answered[0] > 10 && answered[1] > 10 && (1..40).contains(&answered[2]), "{answered:?}");
}

#[tokio::test]
async fn a_machine_that_is_late_gone_or_none_is_told_from_one_that_answers() {
    let hanging = Config { fault: Some(Fault::Hang), ..Config::new(Content::Machine) };
    let (hanging, other) = (Running::start(hanging), Running::start(Config::new(Content::Json)));
    let gone = machine("us/0");
    let unit = unit(
        &[("asia/0", &hanging), ("emea/0", &other), ("us/0", &gone)],
        Duration::from_millis(900),
    );
    assert_eq!(get(&unit, "/work/us").await.0, 200);
    gone.stop().await;
    let (status, body) = get(&unit, "/work/us").await;
    assert!(status == 502 && body.starts_with("us/0: it cannot be reached"), "{status} {body}");
    let (status, body) = get(&unit, "/work/emea").await;
    assert!(status == 502 && body.contains("worker machine"), "{status} {body}");
    let (status, body) = get(&unit, "/work/asia").await;
    assert!(status == 503 && body.contains("no answer in 900ms"), "{status} {body}");
}

#[tokio::test]
async fn one_that_sleeps_wakes_up_for_the_first_request_and_is_awake_for_the_next() {
    let wake = Duration::from_millis(300);
    let sleep = Some(Sleep { after: Duration::from_secs(3600), wake });
    let sleeper = Running::start(Config { sleep, ..Config::new(Content::Machine) });
    let begin = Instant::now();
    assert_eq!(get(&sleeper, "/").await.0, 200);
    let first = Duration::from_std(begin.elapsed());
    let begin = Instant::now();
    assert_eq!(get(&sleeper, "/").await.0, 200);
    let second = Duration::from_std(begin.elapsed());
    assert!(first >= wake + Duration::from_millis(20), "{first}");
    assert!(second < first, "{first}, then {second}");
}

#[tokio::test]
async fn a_unit_has_machines_each_once_and_nothing_else_has() {
    let machines = |paths: &[&str]| {
        let read = |path: &&str| format!("{path}=127.0.0.1:1").parse().unwrap();
        Forwarding { machines: paths.iter().map(read).collect(), ..Forwarding::default() }
    };
    let refused = |content, paths: &[&str]| {
        let config = Config { forwarding: machines(paths), ..Config::new(content) };
        match Worker::bind(config) {
            Err(BindError::Config(error)) => Some(error),
            _ => None,
        }
    };
    assert_eq!(refused(Content::Unit, &["us/0", "us/1"]), None);
    assert_eq!(refused(Content::Unit, &[]), Some(ConfigError::NoMachine));
    assert_eq!(refused(Content::Json, &["us/0"]), Some(ConfigError::NoUnit));
    let twice = Some(ConfigError::Twice { path: "us/0".into() });
    assert_eq!(refused(Content::Unit, &["us/0", "us/1", "us/0"]), twice);
}
