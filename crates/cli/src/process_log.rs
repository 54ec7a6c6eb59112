//! The log of the process: notices for people, or for whoever collects them, on the standard error.

use std::io::{IsTerminal as _, stderr};

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Text for people
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// Begins to write; `RUST_LOG` sets how much.
pub(crate) fn start(format: LogFormat) {
    let level = std::env::var("RUST_LOG").ok().and_then(|level| level.parse().ok());
    let log = tracing_subscriber::fmt()
        .with_writer(stderr)
        .with_target(false)
        // Whoever collected the log may be gone; to say so there would end the thread.
        .log_internal_errors(false)
        .with_max_level(level.unwrap_or(tracing::Level::INFO));
    match format {
        LogFormat::Text => log.with_ansi(has_colours()).init(),
        LogFormat::Json => {
            log.json().flatten_event(true).init();
            std::panic::set_hook(Box::new(|panic| tracing::error!("a defect: {panic}")));
        }
    }
}

/// Colours are for terminals, and not for everybody: <https://no-color.org>.
fn has_colours() -> bool {
    stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty())
}
