//! How far a study is: a bar on a terminal, one plain line a step elsewhere.

use std::{
    io::{IsTerminal as _, Write as _, stderr},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use loadline_lab::study::Event;

/// Progress on the standard error; none where it is quiet.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
}

impl Progress {
    /// Progress in so many steps.
    pub(super) fn start(steps: usize, quiet: bool) -> Self {
        if quiet || !stderr().is_terminal() {
            return Self { bar: None, quiet };
        }
        let style = ProgressStyle::with_template(TEMPLATE);
        let bar = ProgressBar::new(steps as u64)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar: Some(bar), quiet }
    }

    /// Something happened.
    pub(super) fn tell(&self, event: &Event) {
        match event {
            Event::Row { title } => self.line(&format!("row {title}")),
            Event::Again { title, steps } => {
                if let Some(bar) = &self.bar {
                    bar.inc_length(*steps as u64);
                }
                self.line(&format!("row {title}, again: some of its runs were invalid"));
            }
            Event::Without { note } => self.line(&format!("note: {note}")),
            Event::Skipped { title, reason } => self.line(&format!("skipped {title}: {reason}")),
            Event::Step { title } => match &self.bar {
                Some(bar) => bar.set_message(title.clone()),
                None => self.line(title),
            },
            Event::Done { fault } => {
                if let Some(bar) = &self.bar {
                    bar.inc(1);
                }
                if let Some(fault) = fault {
                    self.line(&format!("  not used: {fault}"));
                }
            }
        }
    }

    /// No more steps; leaves the terminal clean.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None if self.quiet => {}
            // Where nobody listens any more there is nobody to tell.
            None => drop(writeln!(stderr(), "{text}")),
        }
    }
}

const TEMPLATE: &str = "{elapsed:>4} {bar:16} {pos}/{len}  {wide_msg}";
