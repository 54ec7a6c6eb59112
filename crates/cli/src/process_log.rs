//! The log of the process: notices for people, or for whoever collects them, on the standard error.
//!
//! A process that serves has a thread write it ([`write_behind`]): who reads the standard error may
//! stop reading, and nobody is to wait for that. Other commands write it themselves.

mod queue;

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    io::{self, IsTerminal as _, Write, stderr},
    panic::{self, PanicHookInfo},
    sync::OnceLock,
    thread,
    time::Duration,
};

use queue::Queue;
use tracing::Level;
use tracing_subscriber::{
    filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Text for people
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// The log of this process. Dropping it waits until all lines are written, or for a second.
#[must_use]
pub(crate) struct ProcessLog;

impl Drop for ProcessLog {
    fn drop(&mut self) {
        flush(FLUSH_MAX);
    }
}

/// Begins to write; `RUST_LOG` sets how much.
pub(crate) fn start(format: LogFormat) -> ProcessLog {
    let level = std::env::var("RUST_LOG").ok().and_then(|level| level.parse().ok());
    let level = level.unwrap_or(Level::INFO);
    let log = tracing_subscriber::fmt()
        .with_writer(|| StandardError)
        .with_target(false)
        // Whoever collected the log may be gone; to say so there would end the thread.
        .log_internal_errors(false)
        .with_max_level(level);
    match format {
        LogFormat::Text => log.with_ansi(has_colours()).finish().with(filter(level)).init(),
        LogFormat::Json => {
            log.json().flatten_event(true).finish().with(filter(level)).init();
            panic::set_hook(Box::new(|panic| {
                tracing::error!("a defect: {panic}");
                flush(PANIC_FLUSH_MAX);
            }));
        }
    }
    ProcessLog
}

/// What is written at this level. Libraries warn of what peers send, as long and as often as these
/// like: their warnings are for who asks for details.
fn filter(level: Level) -> Targets {
    let of_libraries = if level > Level::INFO { level } else { Level::ERROR };
    Targets::new().with_default(of_libraries).with_target("loadline", level)
}

/// From now on a thread writes, and nobody else waits for the standard error, but who panics, for
/// [`PANIC_FLUSH_MAX`]. Lines beyond what the queue holds are dropped and counted.
///
/// # Errors
/// If there is no thread to be had.
pub(crate) fn write_behind(format: LogFormat) -> io::Result<()> {
    let thread = thread::Builder::new().name("process-log".into());
    thread.spawn(|| write(QUEUE.get_or_init(Queue::default)))?;
    QUEUE.get_or_init(Queue::default);
    if format == LogFormat::Text {
        panic::set_hook(Box::new(|panic| {
            tell(&of_panic(panic));
            flush(PANIC_FLUSH_MAX);
        }));
    }
    Ok(())
}

/// Says something in the log that is no event. Where nobody listens any more there is nobody to
/// tell.
pub(crate) fn tell(text: &str) {
    let _ = StandardError.write_all(format!("{text}\n").as_bytes());
}

/// Lines dropped because the standard error was not read.
pub(crate) fn dropped() -> u64 {
    QUEUE.get().map_or(0, Queue::dropped)
}

/// Waits until everything is written, or for so long.
fn flush(most: Duration) {
    if let Some(queue) = QUEUE.get() {
        queue.flush(most);
    }
}

/// Writes what is in the queue, for ever.
fn write(queue: &Queue) {
    loop {
        // Where nobody listens any more there is nobody to tell.
        let _ = stderr().write_all(&queue.next());
        let lines = queue.take_untold();
        if lines > 0 {
            tracing::warn!(lines, "lines of this log were dropped: standard error was not read");
        }
    }
}

/// The standard error, or the queue of its thread.
struct StandardError;

impl Write for StandardError {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let Some(queue) = QUEUE.get() else { return stderr().write(lines) };
        queue.add(lines);
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the standard library says of a panic, which it would write itself.
fn of_panic(panic: &PanicHookInfo<'_>) -> String {
    let thread = thread::current();
    let text = format!("thread '{}' {panic}", thread.name().unwrap_or("<unnamed>"));
    let backtrace = Backtrace::capture();
    match backtrace.status() {
        BacktraceStatus::Captured => format!("{text}\nstack backtrace:\n{backtrace}"),
        _ => text,
    }
}

/// Whether the standard error is written in colours. The rules are those of clap, which writes
/// there too: <https://no-color.org> and <https://bixense.com/clicolors>.
pub(crate) fn has_colours() -> bool {
    let variable = |name| std::env::var_os(name).filter(|it| !it.is_empty());
    let is_wanted = std::env::var_os("CLICOLOR").map(|it| it != "0");
    if variable("NO_COLOR").is_some() {
        return false;
    }
    if variable("CLICOLOR_FORCE").is_some() {
        return true;
    }
    let has_them =
        std::env::var_os("TERM").is_some_and(|it| it != "dumb") || std::env::var_os("CI").is_some();
    stderr().is_terminal() && is_wanted.unwrap_or(has_them)
}

/// Lines for the thread that writes; none while there is no such thread.
static QUEUE: OnceLock<Queue> = OnceLock::new();

/// The longest that the end of the process waits for lines to be written.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// The longest that a panic waits, by which the process may end at once.
const PANIC_FLUSH_MAX: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_libraries_are_written_where_details_are_asked_for() {
        for (level, ours, theirs) in [
            (Level::ERROR, Level::ERROR, Level::ERROR),
            (Level::WARN, Level::WARN, Level::ERROR),
            (Level::INFO, Level::INFO, Level::ERROR),
            (Level::DEBUG, Level::DEBUG, Level::DEBUG),
            (Level::TRACE, Level::TRACE, Level::TRACE),
        ] {
            let filter = filter(level);
            for at in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE] {
                let written = |target| filter.would_enable(target, &at);
                assert_eq!(written("loadline::commands"), at <= ours, "{level}: {at}");
                assert_eq!(written("loadline_proxy::tls"), at <= ours, "{level}: {at}");
                assert_eq!(written("rustls::msgs::handshake"), at <= theirs, "{level}: {at}");
            }
        }
    }
}
