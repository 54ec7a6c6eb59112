//! What packages carry beside the program: completions of shells and manual pages.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::runs::{loadline, text};

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

fn commands() -> Vec<String> {
    let help = text(&loadline(&["--help"]).stdout);
    let list = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let named = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = named.map(|line| line.split_whitespace().next().unwrap().to_owned());
    names.filter(|name| name != "help").collect()
}

#[test]
fn every_shell_completes_every_command() {
    let commands = commands();
    assert!(commands.len() >= 19, "{commands:?}");
    for shell in SHELLS {
        let script = text(&loadline(&["completions", shell]).stdout);
        let missing: Vec<_> = commands.iter().filter(|name| !script.contains(*name)).collect();
        assert!(missing.is_empty(), "{shell} does not know {missing:?}");
    }
}

/// The script is run by the shell it is for, which is asked what follows `loadline ser`.
#[test]
fn bash_completes_a_command_that_was_begun() {
    assert_eq!(completed("(loadline ser)", "ser"), "serve");
}

#[test]
fn fish_offers_the_kinds_of_a_worker_and_the_shells_of_completions() {
    let script = text(&loadline(&["completions", "fish"]).stdout);
    let offered = [("worker", "mandelbrot"), ("worker", "fixed"), ("completions", "fish")];
    for (command, value) in offered {
        let condition = format!("-n '__fish_loadline_using_subcommand {command}'");
        let line = format!("complete -c loadline {condition} -f -a {value} -d ");
        assert!(script.contains(&line), "{command} {value}: {script}");
    }
}

/// Where bash is told nothing it offers files.
#[test]
fn bash_offers_files_where_an_argument_is_one_and_options_where_one_is_begun() {
    for command in ["check", "explain", "compare", "report"] {
        assert_eq!(completed(&format!("(loadline {command} '')"), ""), "", "{command}");
        let options = completed(&format!("(loadline {command} --)"), "--");
        assert!(options.contains("--help"), "{command}: {options}");
    }
    assert!(completed("(loadline top '')", "").contains("--help"));
    assert!(completed("(loadline cluster '')", "").contains("publish"));
}

/// What bash is told to offer for these words, of which the last is `begun`.
fn completed(words: &str, begun: &str) -> String {
    let script = text(&loadline(&["completions", "bash"]).stdout);
    let asked = format!(
        "{script}\nCOMP_WORDS={words}; COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
         _loadline_or_files loadline '{begun}' \"${{COMP_WORDS[COMP_CWORD - 1]}}\"\n\
         echo \"${{COMPREPLY[@]}}\"\n"
    );
    let mut bash = Command::new("bash")
        .args(["--norc", "-s"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    bash.stdin.take().unwrap().write_all(asked.as_bytes()).unwrap();
    let answer = bash.wait_with_output().unwrap();
    text(&answer.stdout).trim().to_owned()
}

#[test]
fn a_shell_that_nobody_knows_is_wrong_usage() {
    let told = loadline(&["completions", "tcsh"]);
    assert_eq!(told.status.code(), Some(1));
    assert!(text(&told.stderr).contains("possible values: bash"), "{}", text(&told.stderr));
}

#[test]
fn help_and_version_that_cannot_be_printed_are_a_failure() {
    for command in ["--version", "--help", "help"] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_loadline"));
        let output = program.arg(command).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}: {told}");
        assert!(told.contains("cannot print the result"), "{command}: {told}");
    }
}

/// A pipe that is closed early, as by `head`, is neither an error nor a panic.
#[test]
fn whoever_has_read_enough_hears_no_complaint() {
    let regions = "../../examples/two-regions.toml";
    let printing: [&[&str]; 4] =
        [&["completions", "zsh"], &["schema"], &["sim", regions, "--json"], &["check", regions]];
    for args in printing {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        let told = command.args(args).stdout(writer).output().unwrap();
        assert_eq!(told.status.code(), Some(0), "{args:?}");
        assert!(told.stderr.is_empty(), "{args:?}: {}", text(&told.stderr));
    }
}

/// What `loadline COMMAND --help` says, of the command and of all below it.
fn helps(command: &[String]) -> Vec<(Vec<String>, String)> {
    let arguments: Vec<_> = command.iter().map(String::as_str).chain(["--help"]).collect();
    let help = text(&loadline(&arguments).stdout);
    let listed = help.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
    let listed = listed.split_once("\n\n").map_or(listed, |(list, _)| list);
    let named = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = named.filter_map(|line| line.split_whitespace().next());
    let below = names.filter(|name| *name != "help");
    let below: Vec<_> = below.map(|it| [command, &[it.to_owned()]].concat()).collect();
    let below = below.iter().flat_map(|it| helps(it));
    [(command.to_vec(), help.clone())].into_iter().chain(below).collect()
}

#[test]
fn the_help_of_every_command_has_an_example_and_its_exit_codes() {
    let helps = helps(&[]);
    assert!(helps.len() >= 50, "{}", helps.len());
    let lacks = helps.iter().filter_map(|(command, help)| {
        let name = format!("loadline {}", command.join(" "));
        let after = help.split_once("\nExample").map_or("", |(_, after)| after);
        let example = !after.contains(name.trim_end());
        let codes = !after.contains("Exit codes: ");
        (example || codes).then(|| format!("{name}: example {}, codes {}", !example, !codes))
    });
    let lacks: Vec<_> = lacks.collect();
    assert!(lacks.is_empty(), "an example or exit codes are missing:\n{}", lacks.join("\n"));
}

fn man(folder: &Path) -> Output {
    loadline(&["man", "--out", folder.to_str().unwrap()])
}

#[test]
fn every_command_has_a_page_with_its_options_and_examples() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("share/man1");
    let written = man(&pages);
    assert!(written.status.success(), "{}", text(&written.stderr));
    for name in commands() {
        let page = fs::read_to_string(pages.join(format!("loadline-{name}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH NAME"), "{name}: {page}");
    }
    let program = fs::read_to_string(pages.join("loadline.1")).unwrap();
    assert!(program.contains("loadline\\-serve(1)"), "{program}");
    let serve = fs::read_to_string(pages.join("loadline-serve.1")).unwrap();
    for part in ["\\-\\-listen", "loadline serve loadline.toml"] {
        assert!(serve.contains(part), "{part} is not in\n{serve}");
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let told = man(&file);
    assert_eq!(told.status.code(), Some(2));
    assert!(text(&told.stderr).contains("writing manual pages to"), "{}", text(&told.stderr));
}
