//! What was recorded of real traffic: access logs, and the records of runs.

mod line;

use std::{fs, net::SocketAddr, path::Path, sync::Arc};

use loadline_core::time::Duration;
use loadline_measure::record::{Document, Record};

pub(crate) use line::{AnsweredBy, Logged};

/// The requests of an access log, in the order they came.
#[derive(Debug, Default)]
pub(crate) struct Log {
    requests: Vec<Logged>,
    /// How many lines are none of an access log, and the number of the first.
    pub(crate) unreadable: Option<(usize, usize)>,
}

/// Which requests of a log are meant. What a log does not tell of a request selects it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Which {
    pub(crate) service: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) server: Option<SocketAddr>,
    /// Those, too, that a cache answered.
    pub(crate) cached: bool,
}

impl Log {
    /// Reads the log at `path`.
    ///
    /// # Errors
    /// Why it cannot be read, or that none of its lines is one of an access log.
    pub(crate) fn load(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let bytes = fs::read(path).map_err(|error| format!("cannot read `{shown}`: {error}"))?;
        let log = Self::parse(&String::from_utf8_lossy(&bytes));
        match log.requests.is_empty() {
            true => Err(format!("`{shown}` has no line of an access log")),
            false => Ok(log),
        }
    }

    fn parse(text: &str) -> Self {
        let mut log = Self::default();
        for (index, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            match line::parse(text) {
                Some(logged) => log.requests.push(logged),
                None => log.unreadable.get_or_insert((0, index + 1)).0 += 1,
            }
        }
        log.requests.sort_by_key(|logged| logged.at);
        log.spread_seconds();
        log
    }

    /// Lays the requests of each second evenly in it, where the log knows no fractions.
    fn spread_seconds(&mut self) {
        if self.requests.iter().any(|logged| logged.at % SECOND != 0) {
            return;
        }
        for second in self.requests.chunk_by_mut(|one, other| one.at == other.at) {
            let count = second.len() as i64;
            let places = second.iter_mut().zip(0..);
            places.for_each(|(logged, place)| logged.at += SECOND * place / count);
        }
    }

    /// When the requests came that are meant, since the first of the log.
    pub(crate) fn arrivals(&self, which: &Which) -> Vec<Duration> {
        let begin = self.requests.first().map_or(0, |logged| logged.at);
        let since = |logged: &Logged| Duration::from_nanos((logged.at - begin).unsigned_abs());
        self.meant(which).map(since).collect()
    }

    /// How long servers took for the requests that are meant, as far as the log tells.
    pub(crate) fn times(&self, which: &Which) -> Vec<Duration> {
        self.meant(which).filter_map(|logged| logged.time).collect()
    }

    /// The services that it names, each once.
    pub(crate) fn services(&self) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.requests.iter().filter_map(|logged| logged.service.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn meant<'a>(&'a self, which: &'a Which) -> impl Iterator<Item = &'a Logged> {
        self.requests.iter().filter(move |logged| {
            let asks = match logged.answered_by {
                AnsweredBy::Server => true,
                AnsweredBy::Cache => which.cached,
                AnsweredBy::Edge => false,
            };
            asks && fits(which.service.as_ref(), logged.service.as_ref())
                && fits(which.group.as_ref(), logged.group.as_ref())
                && fits(which.server.as_ref(), logged.server.as_ref())
        })
    }
}

fn fits<T: PartialEq>(meant: Option<&T>, told: Option<&T>) -> bool {
    meant.is_none() || told.is_none() || meant == told
}

/// How long the servers of a recorded run took: its service times, as quantiles that are equally
/// likely.
///
/// # Errors
/// Why it cannot be read, or that it is no record of a load test with such times.
pub(crate) fn service_times(path: &Path) -> Result<Arc<[Duration]>, String> {
    let shown = path.display();
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| format!("cannot read `{shown}`: {error}"))?;
    let document = Document::read(text.as_bytes())
        .map_err(|error| format!("`{shown}` is no record of a run: {error}"))?;
    let Record::Load(load) = document.record else {
        return Err(format!("`{shown}` is a record, but not of a load test"));
    };
    let spread = &load.spreads.service;
    let count = spread.count().min(QUANTILES);
    if count == 0 {
        return Err(format!("`{shown}` has no service times: no request succeeded"));
    }
    let quantile = |index| spread.quantile((index as f64 + 0.5) / count as f64);
    Ok((0..count).filter_map(quantile).collect())
}

const SECOND: i64 = 1_000_000_000;

/// Enough for a p99.99, and less than a megabyte.
const QUANTILES: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_without_fractions_of_a_second_is_spread_over_each() {
        let line = |second: u32| {
            format!("10.0.0.9 - - [21/Nov/2026:04:00:0{second} +0000] \"GET / HTTP/1.1\" 200 1\n")
        };
        let text: String = [0, 0, 1, 1, 1, 1].map(line).concat();
        let arrivals = Log::parse(&text).arrivals(&Which::default());
        let millis = [0, 500, 1_000, 1_250, 1_500, 1_750].map(Duration::from_millis);
        assert_eq!(arrivals, millis);
    }

    #[test]
    fn requests_of_another_service_are_not_meant_and_keep_their_distance() {
        let line = |service: &str, millis: u32| {
            format!(
                "2026-11-21T04:00:00.{millis:03}Z 10.0.0.9:41234 GET \"/\" HTTP/1.1 200 1 \
                 {service}/near/10.0.0.11:80 complete 0 0.0 0.2 38.1 38.3\nnonsense\n"
            )
        };
        let log = Log::parse(&[line("api", 100), line("web", 350)].concat());
        let which = Which { service: Some("web".to_owned()), ..Which::default() };
        assert_eq!(log.arrivals(&which), [Duration::from_millis(250)]);
        assert_eq!(log.times(&which), [Duration::from_micros(37_900)]);
        assert_eq!(log.services(), ["api", "web"]);
        assert_eq!(log.unreadable, Some((2, 2)));
    }

    #[test]
    fn what_loadline_answered_itself_does_not_come_again() {
        let line = |millis: u32, ending: &str| {
            format!(
                "2026-11-21T04:00:00.{millis:03}Z 10.0.0.9:41234 GET \"/\" HTTP/1.1 200 1 web/- \
                 {ending} 0 - - - 0.1\n"
            )
        };
        let lines = [line(100, "ruled"), line(200, "cached"), line(300, "shed")];
        let log = Log::parse(&lines.concat());
        let (to_cache, shed) = (Duration::from_millis(100), Duration::from_millis(200));
        assert_eq!(log.arrivals(&Which::default()), [shed]);
        let cached = Which { cached: true, ..Which::default() };
        assert_eq!(log.arrivals(&cached), [to_cache, shed]);
        assert_eq!(log.unreadable, None);
    }
}
