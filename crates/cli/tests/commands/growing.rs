//! The commands of `docs/growing.md` and `docs/simulating.md` print what stands there.

use std::{fs, path::PathBuf, process::Command};

use crate::runs::text;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Each command of the page with the lines it should print; `...` stands for lines left out.
fn commands(page: &str) -> Vec<(&str, Vec<&str>)> {
    let blocks = page.split("```console\n").skip(1);
    blocks
        .map(|block| {
            let (block, _) = block.split_once("```").unwrap();
            let (command, printed) = block.split_once('\n').unwrap();
            let command = command.strip_prefix("$ loadline ").unwrap();
            (command, printed.lines().filter(|line| *line != "...").collect())
        })
        .collect()
}

#[test]
fn every_command_of_the_page_on_growing_prints_what_it_says() {
    print_what_they_say("docs/growing.md", 6);
}

#[test]
fn the_ranking_of_policies_on_the_page_on_simulating_is_what_is_printed() {
    print_what_they_say("docs/simulating.md", 1);
}

/// Runs the commands of a page, of which it has at least so many.
fn print_what_they_say(page: &str, least: usize) {
    let page = fs::read_to_string(root().join(page)).unwrap();
    let commands = commands(&page);
    assert!(commands.len() >= least, "{commands:?}");
    for (command, printed) in commands {
        let output = Command::new(env!("CARGO_BIN_EXE_loadline"))
            .args(command.replace('\'', "").split_whitespace())
            .current_dir(root())
            .output()
            .unwrap();
        let told = text(&output.stdout);
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        let mut lines = told.lines();
        for line in printed {
            assert!(lines.any(|told| told == line), "{command} does not print\n{line}\n{told}");
        }
    }
}
