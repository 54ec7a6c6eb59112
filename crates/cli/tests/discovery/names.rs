//! Servers that are found by name.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    edge::{Edge, assert_all_well},
    served::Worker,
    zone::Zone,
};

/// A test server at this address.
fn worker(listen: &str) -> Worker {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    let command = command.args(["worker", "fixed", "--listen", listen]).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
    Worker { process, address }
}

fn port(worker: &Worker) -> &str {
    worker.address.rsplit_once(':').unwrap().1
}

fn dns(port: u16) -> String {
    format!(
        "[dns]\nservers = [\"127.0.0.1:{port}\"]\ntimeout = \"200ms\"\nattempts = 0\n\
         min_ttl = \"100ms\"\nmax_ttl = \"1s\"\nstart_wait = \"2s\""
    )
}

/// What is told of a server of the group.
fn told<'a>(group: &'a Value, server: &Worker) -> &'a Value {
    let mut servers = group["servers"].as_array().unwrap().iter();
    servers.find(|it| it["address"] == *server.address).unwrap()
}

#[test]
fn addresses_come_and_go_with_their_zone_and_stay_while_nobody_answers() {
    let one = worker("127.0.0.2:0");
    let two = worker(&format!("127.0.0.3:{}", port(&one)));
    let mut zone = Zone::start("web A 127.0.0.2");
    let group = format!("discover = {{ dns = \"web.test:{}\" }}", port(&one));
    let mut edge = Edge::start(&dns(zone.port), &group);
    let load = edge.load(12);
    edge.until_servers(&[&one]);
    edge.change(&one.address, r#"{"weight": 7}"#);

    zone.set("web A 127.0.0.2\nweb A 127.0.0.3");
    edge.until_servers(&[&one, &two]);
    edge.until(|group| told(group, &one)["weight"] == 7 && told(group, &two)["weight"] == 1);

    zone.set("other A 127.0.0.2");
    edge.until(|group| group["discovery"]["refused"].as_u64() > Some(0));
    edge.until_servers(&[&one, &two]);

    zone.stop();
    let group = edge.until(|group| group["discovery"]["failed"].as_u64() > Some(1));
    assert_eq!(group["discovery"]["stale"], true, "{group:#}");
    edge.until_servers(&[&one, &two]);

    zone.set("web A 127.0.0.3");
    zone.run();
    let group = edge.until_servers(&[&two]);
    assert_eq!(group["discovery"]["stale"], false, "{group:#}");
    assert_all_well(load);
    edge.stop();
    let log = edge.log();
    assert_eq!(log.matches("lists no server").count(), 1, "told once: {log}");
}

#[test]
fn services_tell_ports_weights_and_who_stands_by() {
    let (first, backup) = (worker("127.0.0.1:0"), worker("127.0.0.1:0"));
    let zone = Zone::start(&format!(
        "host A 127.0.0.1\n_http._tcp.web SRV 10 30 {} host\n_http._tcp.web SRV 20 0 {} host",
        port(&first),
        port(&backup)
    ));
    let check = "[service.web.health]\ntcp = true\ninterval = \"50ms\"\nfall = 1";
    let settings = format!("{}\n{check}", dns(zone.port));
    let edge = Edge::start(&settings, "discover = { srv = \"_http._tcp.web.test\" }");
    let group = edge.until_servers(&[&first, &backup]);
    assert_eq!(told(&group, &first)["weight"], 30);
    assert_eq!(told(&group, &backup)["weight"], 1);
    assert_all_well(edge.load(1));
    let group = edge.group();
    assert!(told(&group, &first)["requests"].as_u64() > Some(0));
    assert_eq!(told(&group, &backup)["requests"], json!(0), "it stands by");

    let address = first.address.clone();
    drop(first);
    edge.until(|group| {
        let servers = group["servers"].as_array().unwrap();
        servers.iter().any(|it| it["address"] == *address && it["condition"] == "down")
    });
    assert_all_well(edge.load(1));
    assert!(told(&edge.group(), &backup)["requests"].as_u64() > Some(0));
}

#[test]
fn services_are_found_by_a_name_that_is_an_alias() {
    let server = worker("127.0.0.1:0");
    let zone = Zone::start(&format!(
        "host A 127.0.0.1\n_http._tcp.web CNAME _http._tcp.live\n\
         _http._tcp.live SRV 0 1 {} host",
        port(&server)
    ));
    let edge = Edge::start(&dns(zone.port), "discover = { srv = \"_http._tcp.web.test\" }");
    edge.until_servers(&[&server]);
    assert_all_well(edge.load(1));
}

#[test]
fn nobody_waits_long_for_a_name_server_that_is_silent() {
    let zone = Zone::start("web A 127.0.0.1");
    zone.hang();
    let server = worker("127.0.0.1:0");
    let settings = dns(zone.port).replace("start_wait = \"2s\"", "start_wait = \"100ms\"");
    let group = format!("discover = {{ dns = \"web.test:{}\" }}", port(&server));
    let edge = Edge::start(&settings, &group);
    let group = edge.group();
    assert_eq!((&group["standing"], &group["servers"]), (&json!("closed"), &json!([])));
    let trouble = group["discovery"]["trouble"].as_str().unwrap();
    assert!(
        trouble.contains("no answer within 100ms") || trouble.contains("timed out"),
        "{trouble}"
    );
    assert!(trouble.ends_with(&format!(": 127.0.0.1:{}", zone.port)), "{trouble}");

    zone.wake();
    edge.until_servers(&[&server]);
    assert_all_well(edge.load(1));
}

#[test]
fn check_says_what_would_be_asked_and_asks_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edge.toml");
    let text = "[[listener]]\nbind = \":0\"\nservice = \"web\"\n[dns]\nservers = [\"192.0.2.53\"]\n\
        [service.web]\n[[service.web.group]]\ndiscover = { srv = \"_http._tcp.web.test\" }\n";
    std::fs::write(&file, text).unwrap();
    let check = Command::new(env!("CARGO_BIN_EXE_loadline")).arg("check").arg(&file).output();
    let said = String::from_utf8(check.unwrap().stdout).unwrap();
    assert!(said.contains("SRV records of _http._tcp.web.test"), "{said}");
    assert!(said.contains("names are asked of 192.0.2.53:53"), "{said}");
}
