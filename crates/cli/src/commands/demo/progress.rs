//! How far the demo is: a bar on a terminal, one plain line a step elsewhere.

use std::{
    io::{IsTerminal as _, Write as _, stderr},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

/// Progress on the standard error.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Progress in so many steps.
    pub(crate) fn start(steps: u64) -> Self {
        if !stderr().is_terminal() {
            return Self { bar: None };
        }
        let style = ProgressStyle::with_template(TEMPLATE);
        let bar = ProgressBar::new(steps)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar: Some(bar) }
    }

    /// A step begins.
    pub(crate) fn step(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            // Where nobody listens any more there is nobody to tell.
            None => drop(writeln!(stderr(), "{what}")),
        }
    }

    /// The step is done.
    pub(crate) fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// No more steps; leaves the terminal clean.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

const TEMPLATE: &str = "{elapsed:>4} {bar:16} {pos}/{len}  {wide_msg}";
