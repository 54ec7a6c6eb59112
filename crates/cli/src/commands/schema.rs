//! `loadline schema`: print what is made of the code: schemas of the configuration, of records and
//! of the API, and the references in `docs/`.

mod records;

use std::process::ExitCode;

use loadline_control::{Page, admin};

/// Print the JSON Schema of the configuration or of records, and other references
///
/// Editors that know TOML (Even Better TOML, taplo) complete and check a file with it.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The schema of the records that commands which measure, check or simulate print with --json,
    /// instead of the configuration
    #[arg(long)]
    records: bool,
    /// Print the reference of every key instead, as Markdown
    #[arg(long)]
    markdown: bool,
    /// Print the description of the admin API (OpenAPI 3.1) instead
    #[arg(long, conflicts_with_all = ["records", "markdown"])]
    openapi: bool,
    /// Print the table of all metrics instead, as Markdown
    #[arg(long, conflicts_with_all = ["records", "markdown", "openapi"])]
    metrics: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let text = match (args.records, args.markdown) {
        _ if args.openapi => Page::OpenApi.json_or(admin::openapi),
        _ if args.metrics => admin::metrics_reference(),
        (false, true) => Page::Configuration.text_or(loadline_control::reference),
        (true, true) => Page::Records.text_or(records::reference),
        (false, false) => Page::ConfigurationSchema.json_or(loadline_control::schema),
        (true, false) => Page::RecordsSchema.json_or(records::schema),
    };
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

const AFTER_HELP: &str = "\
Examples:
  loadline schema --records > records.schema.json
  loadline schema > loadline.schema.json
  # and as the first line of the configuration:
  #:schema ./loadline.schema.json

Exit codes: 0 printed, 1 wrong usage, 2 could not be printed.";
