//! `loadline import`: the command, and what it makes of the examples beside the original programs.

mod original;
mod replay;
mod stand_in;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

/// The folders of the examples.
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../import/tests/examples");

fn loadline(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loadline")).args(arguments).output().unwrap()
}

fn example(name: &str) -> PathBuf {
    Path::new(EXAMPLES).join(name)
}

/// The examples of one program, by name.
fn examples(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(example(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = entries.filter(|it| !it.to_string_lossy().ends_with(".toml")).collect();
    all.sort();
    all
}

#[test]
fn the_file_goes_to_standard_output_and_the_summary_does_not() {
    let output = loadline(&["import", example("haproxy/content-switching.cfg").to_str().unwrap()]);
    let (text, told) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
    let (text, told) = (text.unwrap(), told.unwrap());
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(text.contains("[[service.static.group]]"), "{text}");
    assert!(told.contains("lines read") && told.contains("carried over"), "{told}");
    assert!(!text.contains("lines read,"), "{text}");
}

#[test]
fn a_file_that_is_there_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("loadline.toml");
    let arguments = ["import", "-o", to.to_str().unwrap()];
    let from = example("nginx/site.conf");
    let from = [from.to_str().unwrap()];
    assert_eq!(loadline(&[&arguments[..], &from].concat()).status.code(), Some(0));
    let written = fs::read_to_string(&to).unwrap();
    assert!(written.contains("[service.app_server]"), "{written}");
    assert_eq!(loadline(&[&arguments[..], &from].concat()).status.code(), Some(2));
}

#[test]
fn scripts_get_each_line_with_its_place() {
    let output = loadline(&["import", "--json", example("nginx/access.conf").to_str().unwrap()]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["program"], "nginx");
    let remarks = told["remarks"].as_array().unwrap();
    let auth = remarks.iter().find(|it| it["text"] == "auth_basic closed").unwrap();
    assert_eq!((auth["line"].as_u64(), auth["carried_over"].as_bool()), (Some(20), Some(false)));
    let lost = told["not_carried_over"].as_u64().unwrap();
    assert_eq!(told["lines"].as_u64().unwrap(), lost + told["carried_over"].as_u64().unwrap());
    // What protected something is told to whoever looks at nothing else.
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("line 20 PROTECTED something"), "{log}");
}

#[test]
fn what_cannot_be_read_is_shown_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("haproxy.cfg");
    fs::write(&from, "frontend f\n    bind :80\n    default_backend nowhere\n").unwrap();
    let output = loadline(&["import", from.to_str().unwrap()]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("haproxy.cfg:3:21") && told.contains("`nowhere`"), "{told}");
    assert!(output.stdout.is_empty());
    fs::write(&from, "some text\n").unwrap();
    let output = loadline(&["import", from.to_str().unwrap()]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("--from haproxy"), "{told}");
    assert_eq!(loadline(&["import", "/nowhere/haproxy.cfg"]).status.code(), Some(1));
}

#[test]
fn a_configuration_of_envoy_is_told_from_a_file_that_nobody_knows() {
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("envoy.yaml");
    for (text, expected) in [
        ("# edge\nstatic_resources:\n  listeners: []\n", "a configuration of Envoy"),
        ("{ \"static_resources\": {} }\n", "a configuration of Envoy"),
        ("http:\n  routers: {}\n", "JSON or YAML"),
        ("{\n  \"apps\": {}\n}\n", "JSON or YAML"),
    ] {
        fs::write(&from, text).unwrap();
        let output = loadline(&["import", from.to_str().unwrap()]);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(expected) && !told.contains("--from"), "{told}");
    }
}

#[test]
fn files_are_included_by_patterns_of_a_shell() {
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, status: u16| {
        let to = directory.path().join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, format!("server {{ listen {status}; return {status}; }}\n")).unwrap();
    };
    put("sites/a/one.conf", 401);
    put("sites/b/two.conf", 402);
    put("sites/.c/three.conf", 403);
    put("conf.d/b.conf", 404);
    put("conf.d/.b.conf", 405);
    put("conf.d/B.conf", 406);
    put("conf.d/b.conf.old", 407);
    put("x/1.conf", 408);
    for (pattern, expected) in [
        ("sites/*/*.conf", &[401, 402][..]),
        ("conf.d/[a-z]*.conf", &[404]),
        ("conf.d/[!a-z]*", &[406]),
        ("conf.d/*", &[404, 406, 407]),
        ("?/?.conf", &[408]),
        ("nowhere/*.conf", &[]),
    ] {
        let from = directory.path().join("nginx.conf");
        let text = format!("http {{ include {pattern}; server {{ listen 80; return 400; }} }}\n");
        fs::write(&from, text).unwrap();
        let output = loadline(&["import", from.to_str().unwrap()]);
        let text = String::from_utf8(output.stdout).unwrap();
        let found: Vec<u16> =
            (401..409).filter(|it| text.contains(&format!("deny = {it}\n"))).collect();
        assert_eq!(found, expected, "{pattern}: {text}");
    }
}
