//! `loadline completions`: print what a shell completes commands and options with.

use std::process::ExitCode;

use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;

/// Print the completion script of a shell
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// `program` is the whole command line.
pub(crate) fn run(args: &Args, program: Command) -> anyhow::Result<ExitCode> {
    super::print(&script(args.shell, program))?;
    Ok(ExitCode::SUCCESS)
}

fn script(shell: Shell, mut program: Command) -> String {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, &name, &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => with_files(&script, &name, &program),
        _ => script,
    }
}

/// The script for bash, which also offers files where an argument is one: bash does so where
/// nothing else is offered (`-o default`), and clap offers options there.
fn with_files(script: &str, name: &str, program: &Command) -> String {
    let mut lines = Vec::new();
    add_lines(program, "", &mut lines);
    let lines: Vec<_> = lines.iter().map(|line| format!("\"{line}\"*")).collect();
    let script =
        script.replace(&format!("complete -F _{name} "), &format!("complete -F _{name}_or_files "));
    format!(
        "{script}
_{name}_or_files() {{
    _{name} \"$@\"
    case \"${{COMP_WORDS[*]:1}}\" in
        {})
            [[ -n $2 || \" ${{COMPREPLY[*]}}\" == *\" \"[!-]* ]] || COMPREPLY=()
            ;;
    esac
}}
",
        lines.join("|")
    )
}

/// The beginnings of command lines, without the program, that have a file or a folder as argument.
fn add_lines(program: &Command, before: &str, lines: &mut Vec<String>) {
    let is_path = |argument: &Arg| {
        let hint = argument.get_value_hint();
        matches!(hint, ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath)
    };
    for command in program.get_subcommands() {
        let line = format!("{before}{} ", command.get_name());
        add_lines(command, &line, lines);
        if command.get_positionals().any(is_path) {
            lines.push(line);
        }
    }
}

const AFTER_HELP: &str = "\
Examples:
  loadline completions bash > ~/.local/share/bash-completion/completions/loadline
  loadline completions zsh > /usr/local/share/zsh/site-functions/_loadline
  loadline completions fish > ~/.config/fish/completions/loadline.fish

Exit codes: 0 printed, 1 wrong usage, 2 could not be printed.";
