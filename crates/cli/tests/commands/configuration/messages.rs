//! Wrong files and wrong commands, each with what has to be said about it.

use std::{fs, net::TcpListener, process::Command};

use super::{
    said::loadline,
    slips::{COMMANDS, RIGHT, SLIPS},
};

#[test]
fn the_file_before_the_slips_is_right() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.toml"), RIGHT).unwrap();
    let said = loadline(&["check", "a.toml"], directory.path());
    assert_eq!(said.code, Some(0), "{}", said.text);
}

#[test]
fn a_wrong_file_is_refused_with_the_place_and_what_would_be_right() {
    let directory = tempfile::tempdir().unwrap();
    let mut faults = Vec::new();
    for (right, slip, place, words) in SLIPS {
        let text = RIGHT.replacen(right, slip, 1);
        assert_ne!(text, RIGHT, "{right} is in the file");
        fs::write(directory.path().join("a.toml"), text).unwrap();
        let place = format!("a.toml:{place}:");
        let words = [&[&*place], *words].concat();
        for command in ["check", "serve"] {
            let said = loadline(&[command, "a.toml"], directory.path());
            let found = said.faults(1, &words);
            faults.extend(found.iter().map(|it| format!("{command}, {slip}: {it}: {}", said.text)));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn a_file_of_another_program_is_named_with_the_command_that_imports_it() {
    const HAPROXY: &str = "global\n  maxconn 9\nfrontend f\n  bind :80\n";
    const NGINX: &str = "worker_processes 1;\nhttp {\n  server { listen 80; }\n}\n";
    const CADDY: &str = "example.com {\n  reverse_proxy 10.0.0.1:80\n}\n";
    let directory = tempfile::tempdir().unwrap();
    for (name, text, program) in [
        ("haproxy.cfg", HAPROXY, "HAProxy"),
        ("nginx.conf", NGINX, "nginx"),
        ("Caddyfile", CADDY, "Caddy"),
    ] {
        fs::write(directory.path().join(name), text).unwrap();
        let told = format!("a configuration of {program}: loadline import {name}");
        let asked = ["explain", name, "--request", "http://a/"];
        for args in [&["check", name][..], &["serve", name], &["sim", name], &asked] {
            let said = loadline(args, directory.path());
            assert!(said.code == Some(1) && said.text.contains(&told), "{args:?}: {}", said.text);
        }
    }
    fs::write(directory.path().join("a.toml"), RIGHT.replace("\"web\"", "\"web\";")).unwrap();
    let said = loadline(&["check", "a.toml"], directory.path());
    assert!(!said.text.contains("loadline import"), "{}", said.text);
}

#[test]
fn what_is_said_of_a_file_stays_on_one_line_in_a_log_however_long_its_path_is() {
    let directory = tempfile::tempdir().unwrap();
    let map =
        directory.path().join("a-name-of-sixty-characters-and-more-as-deployments-make-them.map");
    fs::write(&map, "/older\n").unwrap();
    let text = format!("[maps.moved]\nof = \"$path\"\nfile = \"{}\"\n{RIGHT}", map.display());
    fs::write(directory.path().join("a.toml"), text).unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_loadline"));
    let ended = check.args(["check", "a.toml"]).current_dir(&directory).output().unwrap();
    let log = String::from_utf8(ended.stderr).unwrap();
    let whole = format!("`{}`: line 1, column 7: `/older` has no value", map.display());
    assert!(log.lines().any(|line| line.contains(&whole)), "{log}");
}

#[test]
fn of_many_warnings_the_first_fifty_are_printed_and_the_rest_counted() {
    let directory = tempfile::tempdir().unwrap();
    let unused = |nth| {
        let group = format!("[[service.s{nth}.group]]\nservers = [\"10.0.0.1:80\"]\n");
        format!("[service.s{nth}]\n{group}")
    };
    let unused: String = (0..2_000).map(unused).collect();
    fs::write(directory.path().join("a.toml"), format!("{RIGHT}{unused}")).unwrap();
    let said = loadline(&["check", "a.toml"], directory.path());
    assert_eq!(said.text.matches("no listener names the service").count(), 50, "{}", said.text);
    assert!(said.text.contains("and 1950 more; `loadline check --json` lists all"));
}

#[test]
fn a_warning_far_out_on_a_line_of_a_right_file_is_printed_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let route = |nth| format!("{{ path = \"/a/{nth:040}\", service = \"web\" }}, ");
    let routes: String = (0..2_000).map(route).collect();
    let routes = format!("routes = [{routes}{}]\n", route(7).trim_end_matches(", "));
    let text = RIGHT.replacen("service = \"web\"\n", &format!("service = \"web\"\n{routes}"), 1);
    fs::write(directory.path().join("a.toml"), text).unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_loadline"));
    let ended = check.args(["check", "a.toml"]).current_dir(&directory).output().unwrap();
    let log = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success() && log.len() < 5_000, "{log}");
    assert!(log.contains("route 8 matches all that it matches"), "{log}");
    let column = "routes = [".len() + 2_000 * route(0).len() + 1;
    assert!(log.contains(&format!("a.toml:7:{column}]")), "{log}");
}

#[test]
fn a_wrong_list_of_many_servers_on_one_line_does_not_fill_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let server = |nth: u16| format!("\"10.1.{}.{}:80\", ", nth >> 8, nth & 255);
    let servers: String = (0..20_000).map(server).collect();
    let text = RIGHT.replace("[\"10.0.0.1:80\"]", &format!("[{servers}\"10.0.0.2:port\"]"));
    fs::write(directory.path().join("a.toml"), text).unwrap();
    for command in ["check", "serve"] {
        let said = loadline(&[command, "a.toml"], directory.path());
        assert_eq!(said.code, Some(1), "{}", said.text);
        assert!(said.text.contains("`10.0.0.2:port`"), "{}", said.text);
        assert!(said.text.len() < 5_000, "{} bytes", said.text.len());
    }
}

#[test]
fn of_many_services_the_nearest_and_some_are_told_of_a_name_that_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let service = |nth| {
        format!("[[service.s{nth:04}.group]]\nregion = \"near\"\nservers = [\"10.0.0.1:80\"]\n")
    };
    let services: String = (0..2_000).map(service).collect();
    let route = |nth| format!("    {{ path = \"/{nth}\", service = \"s-{nth:04}\" }},\n");
    let routes: String = (0..2_000).map(route).collect();
    let routes = format!("service = \"web\"\nroutes = [\n{routes}]\n");
    let text = RIGHT.replacen("service = \"web\"\n", &routes, 1) + &services;
    fs::write(directory.path().join("a.toml"), text).unwrap();
    let said = loadline(&["check", "a.toml"], directory.path());
    assert_eq!(said.code, Some(1), "{}", said.text);
    assert!(said.text.contains("did you mean `s0000`? expected one of `web`, `s0000`, `s0001`"));
    assert!(said.text.contains("`s0038` and 1961 more"), "{}", said.text);
    let said = loadline(&["check", "a.toml", "--json"], directory.path());
    assert_eq!(said.text.matches("there is no service").count(), 2_000);
    assert_eq!(said.text.matches("expected one of `web`").count(), 2_000, "each has its help");
    assert!(said.text.len() < 2_000_000, "{} bytes", said.text.len());
}

#[test]
fn of_several_files_json_says_in_which_one_a_problem_is() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("conf.d")).unwrap();
    fs::write(directory.path().join("a.toml"), format!("include = [\"conf.d\"]\n{RIGHT}")).unwrap();
    fs::write(directory.path().join("conf.d/b.toml"), "[[listener]]\nbnd = 1\n").unwrap();
    for (checked, file) in [("a.toml", "./conf.d/b.toml"), ("conf.d", "conf.d/b.toml")] {
        let mut check = Command::new(env!("CARGO_BIN_EXE_loadline"));
        check.args(["check", checked, "--json"]).current_dir(&directory);
        let printed = check.output().unwrap().stdout;
        let record: serde_json::Value = serde_json::from_slice(&printed).unwrap();
        let problems = record["problems"].as_array().unwrap();
        let found = problems.iter().find(|it| it["line"] == 2 && it["column"] == 1);
        assert_eq!(found.unwrap()["file"], file, "{record}");
        assert_eq!(record["file"], checked);
    }
}

#[test]
fn a_wrong_command_is_refused_with_what_would_be_right() {
    let directory = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let files = [
        ("a.toml", RIGHT.to_owned()),
        ("taken.toml", RIGHT.replace("127.0.0.1:0", &taken)),
        ("administration.toml", format!("[admin]\nbind = \"{taken}\"\n{RIGHT}")),
    ];
    fs::create_dir(directory.path().join("empty")).unwrap();
    for (name, text) in &files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let mut faults = Vec::new();
    for (line, code, words) in COMMANDS {
        let line = line.replace("TAKEN", &taken);
        let args: Vec<&str> = line.split_whitespace().collect();
        let said = loadline(&args, directory.path());
        let found = said.faults(*code, words);
        faults.extend(found.iter().map(|it| format!("{line}: {it}: {}", said.text)));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
