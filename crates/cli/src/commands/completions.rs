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
    let mut script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => script = with_files(&script, &name, &program),
        Shell::Fish => add_values(&program, &name, "", &mut script),
        _ => {}
    }
    script
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

/// Adds to the script for fish the values that arguments can have: clap adds those of options.
/// `above` is the condition for `program` where that is itself a command of the one of this name.
fn add_values(program: &Command, name: &str, above: &str, script: &mut String) {
    for command in program.get_subcommands() {
        let own = command.get_name();
        let condition = match above {
            "" => format!("__fish_{name}_using_subcommand {own}"),
            _ => format!("{above}; and __fish_seen_subcommand_from {own}"),
        };
        add_values(command, name, &condition, script);
        let values = command.get_positionals().flat_map(Arg::get_possible_values);
        for value in values.filter(|value| !value.is_hide_set()) {
            let help = value.get_help().map(ToString::to_string).unwrap_or_default();
            let help = help.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', " ");
            let value = value.get_name();
            *script += &format!("complete -c {name} -n '{condition}' -f -a {value} -d '{help}'\n");
        }
    }
}

const AFTER_HELP: &str = "\
Examples:
  loadline completions bash > ~/.local/share/bash-completion/completions/loadline
  loadline completions zsh > /usr/local/share/zsh/site-functions/_loadline
  loadline completions fish > ~/.config/fish/completions/loadline.fish

Exit codes: 0 printed, 1 wrong usage, 2 could not be printed.";

#[cfg(test)]
mod tests {
    use clap::builder::PossibleValue;

    use super::*;

    #[test]
    fn fish_is_told_the_values_of_arguments_of_commands_below_commands_too() {
        let values = ["all", "one"].map(|name| PossibleValue::new(name).help("It's \\ this"));
        let hidden = PossibleValue::new("none").hide(true);
        let values = values.into_iter().chain([hidden]).collect::<Vec<_>>();
        let kind = || Arg::new("kind").required(true).value_parser(values.clone());
        let below = Command::new("show").arg(kind());
        let top = Command::new("x")
            .subcommand(Command::new("run").arg(kind()).arg(Arg::new("file")))
            .subcommand(Command::new("lab").subcommand(below));
        let script = script(Shell::Fish, top);
        let told: Vec<_> = script.lines().filter(|line| line.contains(" this'")).collect();
        let run = "complete -c x -n '__fish_x_using_subcommand run' -f -a";
        let show = "complete -c x -n '__fish_x_using_subcommand lab; and \
                    __fish_seen_subcommand_from show' -f -a";
        let wanted = [run, show].map(|it| ["all", "one"].map(|value| format!("{it} {value}")));
        let wanted = wanted.concat().into_iter().map(|it| format!(r"{it} -d 'It\'s \\ this'"));
        assert_eq!(told, wanted.collect::<Vec<_>>());
        assert!(!script.contains("-a none"), "{script}");
    }
}
