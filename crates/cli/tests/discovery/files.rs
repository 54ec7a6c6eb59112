//! Servers that are listed in a file.

use std::{fs, process::Command};

use serde_json::{Value, json};

use crate::{
    edge::{Edge, assert_all_well, replace},
    served::Worker,
};

fn list(servers: &[&Worker]) -> String {
    let servers: Vec<&str> = servers.iter().map(|it| it.address.as_str()).collect();
    json!({ "servers": servers }).to_string()
}

#[test]
fn servers_come_and_go_with_their_file_and_what_is_broken_changes_nothing() {
    let (one, two) = (Worker::start(&[]), Worker::start(&[]));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("web.json");
    fs::write(&path, list(&[&one])).unwrap();
    let edge = Edge::start("", &format!("discover = {{ file = {path:?} }}"));
    let load = edge.load(12);

    let group = edge.until_servers(&[&one]);
    assert_eq!(group["discovery"]["servers"], 1);
    edge.change(&one.address, r#"{"weight": 7}"#);
    let told = format!(
        "# service.web, group here: weight = 7 of {:?} is for the list of its `discover`\n",
        one.address
    );
    assert_eq!(edge.lines(), told, "the file has no entry for it");

    replace(&path, &list(&[&one, &two]));
    edge.until_servers(&[&one, &two]);
    let weight = |group: &Value| {
        let servers = group["servers"].as_array().unwrap();
        servers.iter().find(|it| it["address"] == *one.address).unwrap()["weight"].clone()
    };
    edge.until(|group| weight(group) == 7);

    replace(&path, r#"{"servers": ["10.0.0.1"]}"#);
    let group = edge.until(|group| group["discovery"]["stale"] == true);
    let trouble = group["discovery"]["trouble"].as_str().unwrap();
    assert!(trouble.contains("`10.0.0.1` is not an address"), "{trouble}");
    edge.until_servers(&[&one, &two]);
    let labels = "{service=\"web\",group=\"here\"";
    assert_eq!(edge.metric(&format!("loadline_discovery_stale{labels}}}")), "1.0");
    let failed = format!("loadline_discovery_updates_total{labels},result=\"failed\"}}");
    assert_eq!(edge.metric(&failed), "1");

    replace(&path, r#"{"servers": []}"#);
    edge.until(|group| group["discovery"]["refused"] == 1);
    edge.until_servers(&[&one, &two]);

    replace(&path, &list(&[&two]));
    let group = edge.until_servers(&[&two]);
    assert_eq!(group["discovery"]["stale"], false);
    assert_all_well(load);
    edge.until_logged(&["is not an address", "lists no server"]);
}

#[test]
fn a_list_that_is_broken_at_the_start_is_told_by_check_and_by_serve() {
    let folder = tempfile::tempdir().unwrap();
    let (file, list) = (folder.path().join("edge.toml"), folder.path().join("web.toml"));
    let text = format!(
        "[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n[service.web]\n\
         [[service.web.group]]\ndiscover = {{ file = {list:?} }}\n"
    );
    fs::write(&file, text).unwrap();
    for (content, told) in [("servers = [", "not TOML: at line 1"), ("servers = []", "no server")] {
        fs::write(&list, content).unwrap();
        for command in ["check", "serve"] {
            let run = Command::new(env!("CARGO_BIN_EXE_loadline")).arg(command).arg(&file).output();
            let run = run.unwrap();
            let said = String::from_utf8(run.stderr).unwrap();
            assert_eq!(run.status.code(), Some(1), "{said}");
            assert!(said.contains("web.toml") && said.contains(told), "{command}: {said}");
        }
    }
    fs::write(&list, "servers = [\"10.0.0.1:80\", \"10.0.0.2:80\"]").unwrap();
    let check = Command::new(env!("CARGO_BIN_EXE_loadline")).arg("check").arg(&file).output();
    let check = check.unwrap();
    let said = String::from_utf8(check.stdout).unwrap();
    assert!(said.contains("2 servers of the file") && said.contains("web.toml"), "{said}");
    let logged = String::from_utf8(check.stderr).unwrap();
    assert!(!logged.contains("10.0.0.1:80"), "{logged}");
}
