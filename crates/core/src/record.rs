//! What a load run writes: the plan, what became of every request, three latencies.
//!
//! Records are plain data that any crate can print, draw or compare.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::{time::Duration, units::Rate};

/// One load run, whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadRecord {
    /// What was asked, as a URL.
    pub target: String,
    /// How requests were planned.
    pub model: LoadModel,
    /// From the first planned instant to the last answer.
    pub elapsed: Duration,
    /// Requests that were planned.
    pub planned: u64,
    /// What became of each of them; the sum is `planned`.
    pub outcomes: Outcomes,
    /// From the planned instant to the end of the answer, successful requests only.
    pub response: Latency,
    /// From the send (on a new connection: its connect) to the end of the answer, successful
    /// requests only.
    pub service: Latency,
    /// From the planned instant to the send: how late the generator was.
    pub lag: Latency,
    /// Bytes of answers, heads included.
    pub bytes_read: u64,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Answers by the value of the header that was asked for (for example which server answered).
    pub by_header: BTreeMap<String, u64>,
}

impl LoadRecord {
    /// Successful requests per second of the run.
    #[must_use]
    pub fn achieved_rate(&self) -> Rate {
        crate::units::Count::new(self.outcomes.ok) / self.elapsed
    }
}

/// How requests were planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "snake_case")]
pub enum LoadModel {
    /// So many users, each sending its next request after the answer to the last.
    Closed {
        /// Users at a time.
        users: u32,
    },
    /// Requests at planned instants, whatever the answers do.
    Open {
        /// Mean planned rate.
        rate: Rate,
        /// How the instants lie.
        arrivals: Arrivals,
    },
}

/// How planned instants lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// At even distances.
    Constant,
    /// Independent of each other: exponential distances.
    Poisson,
}

/// What became of the requests: each is in exactly one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes {
    /// Answered with 1xx to 3xx.
    pub ok: u64,
    /// Answered with 4xx.
    pub client_error: u64,
    /// Answered with 5xx.
    pub server_error: u64,
    /// The connection was refused or the address was not reachable.
    pub connect_refused: u64,
    /// The connection did not open in time.
    pub connect_timeout: u64,
    /// No whole answer in time.
    pub timeout: u64,
    /// The connection was reset or closed before the answer was whole.
    pub reset: u64,
    /// The answer was not valid HTTP.
    pub bad_answer: u64,
    /// Not sent: the generator was out of descriptors, ports or its in-flight limit.
    pub dropped: u64,
    /// Under way when the run was ended.
    pub cut_off: u64,
}

impl Outcomes {
    /// Every class with its name, in the order of the documentation.
    #[must_use]
    pub fn classes(&self) -> [(&'static str, u64); 10] {
        [
            ("ok", self.ok),
            ("4xx", self.client_error),
            ("5xx", self.server_error),
            ("connect refused", self.connect_refused),
            ("connect timeout", self.connect_timeout),
            ("timeout", self.timeout),
            ("reset", self.reset),
            ("bad answer", self.bad_answer),
            ("dropped", self.dropped),
            ("cut off", self.cut_off),
        ]
    }

    /// All requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.classes().iter().map(|(_, count)| count).sum()
    }

    /// All that are not ok.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.total() - self.ok
    }
}

/// A distribution of times in short; all zero where nothing was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// The shortest.
    pub min: Duration,
    /// The arithmetic mean.
    pub mean: Duration,
    /// The standard deviation.
    pub stddev: Duration,
    /// Half are at most this.
    pub p50: Duration,
    /// 90 % are at most this.
    pub p90: Duration,
    /// 95 % are at most this.
    pub p95: Duration,
    /// 99 % are at most this.
    pub p99: Duration,
    /// 99.9 % are at most this.
    pub p999: Duration,
    /// The longest.
    pub max: Duration,
}

/// Points of a curve: response time against rate, as the tutorials draw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What the curve shows.
    pub name: String,
    /// Rate and the response time measured at it.
    pub points: Vec<(Rate, Latency)>,
}
