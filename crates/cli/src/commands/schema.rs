//! `loadline schema`: print the JSON Schema of the configuration.

use std::{
    io::{Write, stdout},
    process::ExitCode,
};

use anyhow::Context;

/// Print the JSON Schema of the configuration
///
/// Editors that know TOML (Even Better TOML, taplo) complete and check a file with it.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Print the reference of every key instead, as Markdown
    #[arg(long)]
    markdown: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let text = if args.markdown {
        loadline_control::reference()
    } else {
        let schema = serde_json::to_string_pretty(&loadline_control::schema());
        schema.context("writing the schema as JSON")? + "\n"
    };
    stdout().write_all(text.as_bytes()).context("printing the schema")?;
    Ok(ExitCode::SUCCESS)
}

const AFTER_HELP: &str = "\
Example:
  loadline schema > loadline.schema.json
  # and as the first line of the configuration:
  #:schema ./loadline.schema.json";
