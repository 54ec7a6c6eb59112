//! Lists of servers that are kept elsewhere: reads them and puts what they say in force.
//!
//! [`Lists`] decides what an answer means; here is where answers come from. Whoever watches the
//! files calls [`Site::relist`](crate::admin::Site::relist) when one has changed.

mod list;

use std::path::Path;

use loadline_core::{
    discovery::{Lists, Outcome},
    fleet::{Fleet, ListPlace, Source},
    time::{Duration, Instant},
};

/// A list that a file names cannot be used, and none was known before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {source_name} {why}")]
pub struct DiscoveryError {
    source_name: String,
    why: String,
}

/// The time by which lists age, since the process began to follow any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(std::time::Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    pub(crate) fn now(self) -> Instant {
        Instant::ZERO + Duration::from_std(self.0.elapsed())
    }
}

/// Finds out what the lists say that `fleet` names: for a check, which follows nothing.
///
/// # Errors
/// [`DiscoveryError`] for the first that cannot be used.
pub fn look_up(fleet: &Fleet) -> Result<Lists, DiscoveryError> {
    let mut lists = Lists::default();
    begin(&mut lists, fleet, Instant::ZERO)?;
    Ok(lists)
}

/// Follows the lists that `fleet` names, and reads every file among them again.
///
/// # Errors
/// [`DiscoveryError`] where a file is broken.
pub(crate) fn begin(lists: &mut Lists, fleet: &Fleet, now: Instant) -> Result<(), DiscoveryError> {
    lists.follow(fleet);
    for (source, answer) in read_files(lists) {
        if let Outcome::Kept { why, .. } = take(lists, now, &source, answer) {
            return Err(DiscoveryError { source_name: source.to_string(), why });
        }
    }
    Ok(())
}

/// Reads the files of `lists` again; whether any list is another now.
pub(crate) fn reread(lists: &mut Lists, now: Instant) -> bool {
    let answers = read_files(lists).into_iter();
    let changed = answers.map(|(source, answer)| take(lists, now, &source, answer));
    changed.filter(|outcome| matches!(outcome, Outcome::Changed(_))).count() > 0
}

type Answer = Result<Vec<loadline_core::discovery::Listed>, String>;

fn read_files(lists: &Lists) -> Vec<(Source, Answer)> {
    let answer = |source: &Source| match &source.place {
        ListPlace::File(path) => (source.clone(), list::read(Path::new(path))),
    };
    lists.sources().map(answer).collect()
}

/// Takes an answer in, and tells the log what follows from it.
fn take(lists: &mut Lists, now: Instant, source: &Source, answer: Answer) -> Outcome {
    let outcome = lists.take(now, source, answer);
    match &outcome {
        Outcome::Changed(change) => tracing::info!(list = %source, %change, "servers"),
        Outcome::Kept { why, is_news: true } => {
            tracing::warn!(list = %source, %why, "the list stays as it was");
        }
        Outcome::Same | Outcome::Kept { .. } => {}
    }
    outcome
}
