//! `loadline top`: what an edge does, live on a terminal.

mod view;
mod watcher;

use std::{
    io::IsTerminal as _,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use loadline_core::state::State;
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyEventKind},
};

use crate::commands::{
    administration::Administration, series, stop_signal::StopSignal, wrong_usage,
};
use watcher::{Next, Watcher};

/// Show live where traffic goes, and how close each group is to its load line
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The admin interface of a running loadline: an address or the path of its socket
    #[arg(value_name = "ADDR", default_value = "127.0.0.1:9090")]
    place: Administration,

    /// Time between two updates
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = series::span)]
    interval: loadline_core::time::Duration,

    /// Print the view once, 80 columns wide, and exit
    #[arg(long)]
    once: bool,

    /// Print the state once as JSON, as /api/state has it, and exit
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Where the admin interface cannot be reached or the terminal not be used.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if !args.json && !args.once && !std::io::stdout().is_terminal() {
        return Ok(wrong_usage("the output is no terminal: use --once or --json"));
    }
    let state = args.place.state()?;
    if args.json {
        series::print(&(serde_json::to_string_pretty(&state)? + "\n"))?;
    } else if args.once {
        series::print(&view::page(&Watcher::new(state), ONCE_COLUMNS))?;
    } else {
        let interval = args.interval.to_std().max(INTERVAL_MIN);
        let is_stopped = stop_flag()?;
        // Gives the terminal back as it was, after a panic as well.
        ratatui::run(|terminal| watch(terminal, &args.place, interval, state, &is_stopped))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A flag that SIGTERM and SIGINT set. SIGHUP ends the process as it does by default: it says that
/// the terminal is gone.
fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let runtime = loadline_load::runtime()?;
    let mut stop = {
        let _inside = runtime.enter();
        StopSignal::new()?
    };
    let is_stopped = Arc::new(AtomicBool::new(false));
    let flag = is_stopped.clone();
    thread::spawn(move || {
        runtime.block_on(stop.received());
        flag.store(true, Relaxed);
    });
    Ok(is_stopped)
}

/// Shows the state until somebody has seen enough, or the process is told to end.
fn watch(
    terminal: &mut DefaultTerminal,
    source: &Administration,
    interval: Duration,
    state: State,
    is_stopped: &AtomicBool,
) -> anyhow::Result<()> {
    let mut watcher = Watcher::new(state);
    let mut due = Instant::now() + interval;
    loop {
        terminal.draw(|frame| view::draw(frame, &mut watcher)).context("cannot draw")?;
        if let Some(event) = next_event(due, is_stopped)? {
            let pressed = match event {
                Event::Key(key) if key.kind == KeyEventKind::Press => watcher.press(key),
                _ => Next::GoOn,
            };
            if pressed == Next::Quit {
                return Ok(());
            }
            continue;
        }
        if is_stopped.load(Relaxed) {
            return Ok(());
        }
        due = Instant::now() + interval;
        if !watcher.is_paused() {
            watcher.take(source.state());
        }
    }
}

/// What happens at the terminal until `due`, if anything does and nobody says stop.
fn next_event(due: Instant, is_stopped: &AtomicBool) -> anyhow::Result<Option<Event>> {
    while !is_stopped.load(Relaxed) {
        let left = due.saturating_duration_since(Instant::now());
        if event::poll(left.min(POLL_MAX))? {
            return Ok(Some(event::read()?));
        }
        if left <= POLL_MAX {
            break;
        }
    }
    Ok(None)
}

/// More often nothing new is to be seen: rates are taken over a second.
const INTERVAL_MIN: Duration = Duration::from_millis(200);

/// How long a signal may go unnoticed.
const POLL_MAX: Duration = Duration::from_millis(250);

/// The width of a page.
const ONCE_COLUMNS: u16 = 80;

const AFTER_HELP: &str = "\
Keys: q quit, space pause, s sort, / filter by name, v servers, arrows scroll, ? help.

Each group has a bar: its load, and a mark at its load line; all bars of a service have one scale.
Where traffic overflows, an arrow says how much and where to. Rates are those of the last second.

Examples:
  loadline top
  loadline top 127.0.0.1:9091
  loadline top /run/loadline.sock --once
  loadline top --json | jq '.services[0].rates'

Exit codes: 0 done, 1 wrong usage or no terminal to show it on, 2 the admin interface cannot be
reached.";
