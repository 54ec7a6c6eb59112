//! Wrong files and wrong commands, each with what has to be said about it.

use std::{fs, net::TcpListener};

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
