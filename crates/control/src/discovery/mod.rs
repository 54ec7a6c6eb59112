//! Lists of servers that are kept elsewhere: reads or asks for them and puts what they say in
//! force.
//!
//! [`Lists`] decides what an answer means, and when to ask again; here is where answers come from.
//! Whoever watches the files calls [`LiveConfiguration::relist`] when one has changed;
//! [`follow_names`] asks name servers, on a thread that carries no traffic.

mod ask;
mod list;

use std::{fmt, io, net::SocketAddr, path::Path, sync::Arc, thread};

use loadline_core::{
    decide::discovery::{AnswerValidity, Heard, Listed, Lists, Outcome},
    fleet::{Fleet, ListPlace, Source},
    time::{Duration, Instant},
};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::admin::LiveConfiguration;
use ask::Asking;

/// A list that a file names cannot be used, and none was known before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {source_name}: {why}")]
pub struct DiscoveryError {
    source_name: String,
    why: String,
}

/// Who is asked for names, and how long answers count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameServers {
    /// Their addresses; those of `/etc/resolv.conf` where there are none.
    pub servers: Vec<SocketAddr>,
    /// How long one may take for an answer.
    pub timeout: Duration,
    /// Further attempts for one question.
    pub attempts: u32,
    /// How long answers count.
    pub terms: AnswerValidity,
    /// The longest that a start or a reload waits for the first answers.
    pub start_wait: Duration,
}

impl Default for NameServers {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            timeout: Duration::from_secs(1),
            attempts: 1,
            terms: AnswerValidity { min: Duration::from_secs(1), max: Duration::from_secs(60) },
            start_wait: Duration::from_secs(3),
        }
    }
}

/// "10.0.0.53:53, 10.0.0.54:53; answers count for 1s to 1m".
impl fmt::Display for NameServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.servers.as_slice() {
            [] => f.write_str("those of /etc/resolv.conf")?,
            [first, others @ ..] => {
                write!(f, "{first}")?;
                others.iter().try_for_each(|other| write!(f, ", {other}"))?;
            }
        }
        write!(f, "; answers count for {} to {}", self.terms.min, self.terms.max)
    }
}

/// The servers of a list, or why they are unknown; and how long that counts, if it says so.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) servers: Result<Vec<Listed>, String>,
    pub(crate) ttl: Option<Duration>,
}

impl Answer {
    fn failed(why: impl Into<String>) -> Self {
        Self { servers: Err(why.into()), ttl: None }
    }
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

/// Whether the file at `path` has a list of servers that can be used.
///
/// # Errors
/// What is wrong with it, for people.
pub(crate) fn check(path: &Path, may_be_empty: bool) -> Result<(), String> {
    let servers = list::read(path)?;
    let fits = may_be_empty || !servers.is_empty();
    fits.then_some(()).ok_or_else(|| "it lists no server".to_owned())
}

/// Reads the lists that `fleet` names and that are files: for a check, which asks nobody and logs
/// nothing.
///
/// # Errors
/// [`DiscoveryError`] for the first that cannot be used.
pub fn read(fleet: &Fleet) -> Result<Lists, DiscoveryError> {
    let mut lists = Lists::default();
    read_again(&mut lists, fleet, Instant::ZERO, Lists::take)?;
    Ok(lists)
}

/// Finds out what the lists say that `fleet` names, for a start after a process that has `heard` of
/// some of the names. One about which nobody has answered after [`NameServers::start_wait`] is
/// asked for again later.
///
/// # Errors
/// [`DiscoveryError`] for the first file that cannot be used.
pub fn begin(
    fleet: &Fleet,
    names: &NameServers,
    heard: Vec<Heard>,
) -> Result<Lists, DiscoveryError> {
    begin_again(Lists::of_heard(heard), fleet, names, Instant::ZERO)
}

/// The fleet of the file with the servers that are listed: the same where none are.
#[must_use]
pub fn listed(lists: &Lists, file: &Arc<Fleet>) -> Arc<Fleet> {
    let is_as_written = lists.sources().next().is_none();
    if is_as_written { file.clone() } else { Arc::new(lists.applied_to(file)) }
}

/// The lists of `fleet` after a reload: files are read again, new names are asked for as by
/// [`begin`], and the rest stays known.
pub(crate) fn begin_again(
    before: Lists,
    fleet: &Fleet,
    names: &NameServers,
    now: Instant,
) -> Result<Lists, DiscoveryError> {
    let mut lists = before;
    read_again(&mut lists, fleet, now, take)?;
    ask_first(&mut lists, names, now);
    Ok(lists)
}

/// Takes an answer about a list in.
type Take = fn(&mut Lists, Instant, &Source, Result<Vec<Listed>, String>) -> Outcome;

/// Follows the lists that `fleet` names, and reads every file among them.
fn read_again(
    lists: &mut Lists,
    fleet: &Fleet,
    now: Instant,
    take: Take,
) -> Result<(), DiscoveryError> {
    lists.follow(fleet);
    let files = lists.sources().cloned().collect();
    for (source, answer) in read_files(files) {
        if let Outcome::Kept { why, .. } = take(lists, now, &source, answer) {
            return Err(DiscoveryError { source_name: source.to_string(), why });
        }
    }
    Ok(())
}

/// What the file of a list says, or why it cannot be known.
type FileAnswer = (Source, Result<Vec<Listed>, String>);

/// Takes in what files say that have been read again; those lists that are others now.
pub(crate) fn reread(lists: &mut Lists, answers: Vec<FileAnswer>, now: Instant) -> Vec<Source> {
    let changed = answers.into_iter().filter_map(|(source, answer)| {
        let outcome = take(lists, now, &source, answer);
        matches!(outcome, Outcome::Changed(_)).then_some(source)
    });
    changed.collect()
}

/// Takes an answer about a name in; whether its list is another now.
pub(crate) fn answered(
    lists: &mut Lists,
    now: Instant,
    source: &Source,
    Answer { servers, ttl }: Answer,
    terms: &AnswerValidity,
) -> bool {
    let outcome = take(lists, now, source, servers);
    lists.expire(now, source, ttl, terms);
    matches!(outcome, Outcome::Changed(_))
}

/// Asks for the names of a site again and again, each when its answer expires. Never ends.
pub async fn follow_names(site: Arc<LiveConfiguration>) {
    let mut answers = JoinSet::new();
    let mut reloads = site.reloads();
    loop {
        let (due, names) = site.names_due();
        if !due.is_empty() {
            let (asking, names) = (Asking::of(&names), Arc::new(names));
            for source in due {
                let (asking, names) = (asking.clone(), names.clone());
                answers.spawn(async move {
                    let answer = asking.ask(&source.place).await;
                    (source, answer, names)
                });
            }
        }
        let wait = site.next_name_due();
        tokio::select! {
            Some(done) = answers.join_next() => {
                // One that panicked has said so on its own, and is due again after a reload.
                if let Ok((source, answer, asked)) = done {
                    site.found(&source, answer, &asked);
                }
            }
            () = sleep(wait.to_std()), if wait < Duration::MAX => {}
            Ok(()) = reloads.changed() => {}
        }
    }
}

/// Asks for the names of which nothing is known, all at a time, no longer than `start_wait`. On a
/// thread of its own, for the caller may be one that runs tasks.
fn ask_first(lists: &mut Lists, names: &NameServers, now: Instant) {
    let new = lists.due_first();
    if new.is_empty() {
        return;
    }
    let asked = thread::scope(|scope| {
        let asking = scope.spawn(|| ask_all(&new, names));
        asking.join().unwrap_or_else(|_| Err(io::Error::other("the thread that asks has ended")))
    });
    let answers = asked.unwrap_or_else(|error| {
        let failed = |source: &Source| (source.clone(), Answer::failed(error.to_string()));
        new.iter().map(failed).collect()
    });
    for (source, answer) in answers {
        answered(lists, now, &source, answer, &names.terms);
    }
}

fn ask_all(sources: &[Source], names: &NameServers) -> io::Result<Vec<(Source, Answer)>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let limit = names.start_wait;
    let answers = runtime.block_on(async {
        let asking = Asking::of(names);
        let mut answers = JoinSet::new();
        for source in sources.iter().cloned() {
            let asking = asking.clone();
            answers.spawn(async move {
                let answer = timeout(limit.to_std(), asking.ask(&source.place)).await;
                (source, answer.unwrap_or_else(|_| asking.late(limit)))
            });
        }
        answers.join_all().await
    });
    Ok(answers)
}

/// Reads those of the lists that are files, which may take as long as a disk does.
pub(crate) fn read_files(lists: Vec<Source>) -> Vec<FileAnswer> {
    let answer = |source: Source| {
        let ListPlace::File(path) = &source.place else { return None };
        let answer = list::read(Path::new(path));
        Some((source, answer))
    };
    lists.into_iter().filter_map(answer).collect()
}

/// Takes an answer in, and tells the log what follows from it.
fn take(
    lists: &mut Lists,
    now: Instant,
    source: &Source,
    answer: Result<Vec<Listed>, String>,
) -> Outcome {
    let outcome = lists.take(now, source, answer);
    match &outcome {
        Outcome::Changed(change) => tracing::info!(list = %source, %change, "servers"),
        Outcome::Kept { why, is_news: true } => {
            tracing::warn!(list = %source, %why, "the list of servers is not updated");
        }
        Outcome::Same | Outcome::Kept { .. } => {}
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_takes_over_while_dns_is_silent_serves_what_the_one_before_knew() {
        let text = "[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n[service.web]\n\
                    [[service.web.group]]\ndiscover = { dns = \"web.test:80\" }\n";
        let fleet = crate::parse_with("a", text, &crate::LocalOnly).unwrap().fleet;
        let source = fleet.services[0].groups[0].discovery.as_ref().unwrap().source.clone();
        let mut before = Lists::default();
        before.follow(&fleet);
        let server = Listed::at(([10, 0, 0, 1], 80).into());
        before.take(Instant::ZERO, &source, Ok(vec![server]));
        // Nobody reads what is asked there.
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let names =
            NameServers { servers: vec![silent.local_addr().unwrap()], ..NameServers::default() };
        let begun = std::time::Instant::now();
        let lists = begin(&fleet, &names, before.heard()).unwrap();
        assert!(begun.elapsed() < names.start_wait.to_std(), "it has waited for an answer");
        let servers = &lists.applied_to(&fleet).services[0].groups[0].servers;
        assert_eq!(servers.len(), 1);
        assert_eq!(servers[0].address, server.address);
    }
}
