//! `loadline completions`: print what a shell completes commands and options with.

use std::process::ExitCode;

use clap_complete::Shell;

/// Print the completion script of a shell
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// `program` is the whole command line.
pub(crate) fn run(args: &Args, mut program: clap::Command) -> anyhow::Result<ExitCode> {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, name, &mut script);
    super::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

const AFTER_HELP: &str = "\
Examples:
  loadline completions bash > ~/.local/share/bash-completion/completions/loadline
  loadline completions zsh > /usr/local/share/zsh/site-functions/_loadline
  loadline completions fish > ~/.config/fish/completions/loadline.fish

Exit codes: 0 printed, 1 wrong usage, 2 could not be printed.";
