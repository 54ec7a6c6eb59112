//! Series of single requests or pings, one target beside another.
//!
//! Every sample stands in the record, in the order of its number: what an average hides, such as
//! a first request that had to open connections further on, is seen in the series alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Latency, Outcomes, Phases, number};
use loadline_core::time::Duration;

/// Series of single requests (`ttfb`) or pings, one for each target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeRecord {
    /// Kind of probe.
    pub probe: ProbeKind,
    /// Time at which the first was sent, in milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// Duration in seconds, from the first send to the end of the last request.
    #[serde(rename = "elapsed_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub elapsed: Duration,
    /// Planned time between two sends to a target, in seconds; 0 sends the next as soon as one
    /// ends.
    #[serde(rename = "interval_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub interval: Duration,
    /// Whether connections were reused (keep-alive).
    pub keepalive: bool,
    /// Number of requests planned for each target.
    pub planned: u64,
    /// Whether the series was interrupted before all were sent.
    pub interrupted: bool,
    /// Targets, in the order in which they take turns.
    pub targets: Vec<ProbeTarget>,
}

/// Kind of probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    /// Round-trip time: ICMP echo, or a TCP connect.
    #[default]
    Ping,
    /// Time to the first byte of the response (TTFB).
    Ttfb,
}

/// One target with its series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeTarget {
    /// The target as given: a URL or a host.
    pub target: String,
    /// Address that was used; empty if none was found.
    pub address: String,
    /// Protocol: `HTTP/2 over TLS 1.3`, `ICMP echo`, `TCP connect to port 80`.
    pub protocol: String,
    /// Remark: why this protocol was used instead of a better one; for `ttfb`, how many DNS lookups
    /// failed, and why. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Samples by outcome; the sum is the number of samples.
    pub outcomes: Outcomes,
    /// Failed TLS handshakes, in the words of the TLS library, and HTTP/1.1 responses that were not
    /// valid or had too long a head, by reason.
    #[serde(default)]
    pub reasons: BTreeMap<String, u64>,
    /// Duplicate responses.
    pub duplicates: u64,
    /// Number of connections opened; 0 for ICMP.
    pub connections: u64,
    /// Times of successful samples.
    pub time: Latency,
    /// Phases of these times, and of the body after them; each counts only the requests that went
    /// through it.
    pub phases: Phases,
    /// All samples, in the order of their number.
    pub samples: Vec<ProbeSample>,
}

/// One request or ping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeSample {
    /// Number of the sample, from 1 for each target.
    pub number: u64,
    /// Send time, in seconds since the first send of all.
    #[serde(rename = "at_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub at: Duration,
    /// Outcome of the sample.
    pub outcome: ProbeOutcome,
    /// Status code of the response; absent without an HTTP response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Whether a connection of an earlier sample was reused.
    pub reused: bool,
    /// Ping: the round-trip time. `ttfb`: from before the DNS lookup to the first byte of the
    /// response. Absent without a response.
    #[serde(
        default,
        rename = "time_ms",
        with = "maybe_ms",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub time: Option<Duration>,
    /// DNS lookup of the host name.
    #[serde(
        default,
        rename = "dns_ms",
        with = "maybe_ms",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub dns: Option<Duration>,
    /// TCP connect; for HTTP/3 the QUIC handshake, TLS included.
    #[serde(
        default,
        rename = "connect_ms",
        with = "maybe_ms",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub connect: Option<Duration>,
    /// TLS handshake over TCP.
    #[serde(
        default,
        rename = "tls_ms",
        with = "maybe_ms",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub tls: Option<Duration>,
    /// From the last byte of the request sent to the first byte of the response.
    #[serde(
        default,
        rename = "first_byte_ms",
        with = "maybe_ms",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub first_byte: Option<Duration>,
    /// From the first to the last byte of the response; not part of `time_ms`.
    #[serde(
        default,
        rename = "body_ms",
        with = "maybe_ms",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub body: Option<Duration>,
}

/// Outcome of a request or ping, named as in [`Outcomes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProbeOutcome {
    /// Success: an echo, an open connection, or a response with status 1xx to 3xx.
    #[default]
    Ok,
    /// A response with status 4xx.
    ClientError,
    /// A response with status 5xx.
    ServerError,
    /// Connection refused, by a TLS alert too, or address unreachable.
    ConnectRefused,
    /// Timeout of the connect.
    ConnectTimeout,
    /// Timeout before the response.
    Timeout,
    /// Connection reset or closed before the response was complete.
    Reset,
    /// Invalid response.
    BadAnswer,
    /// Not sent: this machine had no file descriptor or port left.
    Dropped,
    /// In flight when the series was interrupted.
    CutOff,
}

impl ProbeTarget {
    /// Whether anything at all was answered, well or not.
    #[must_use]
    pub fn was_answered(&self) -> bool {
        let Outcomes { ok, client_error, server_error, .. } = self.outcomes;
        ok + client_error + server_error > 0
    }
}

impl ProbeSample {
    /// The time, where it ended well: failures are counted, never averaged in.
    #[must_use]
    pub fn good_time(&self) -> Option<Duration> {
        self.time.filter(|_| self.outcome == ProbeOutcome::Ok)
    }
}

impl ProbeOutcome {
    /// Counts one in this class.
    pub fn count_in(self, outcomes: &mut Outcomes) {
        let class = match self {
            Self::Ok => &mut outcomes.ok,
            Self::ClientError => &mut outcomes.client_error,
            Self::ServerError => &mut outcomes.server_error,
            Self::ConnectRefused => &mut outcomes.connect_refused,
            Self::ConnectTimeout => &mut outcomes.connect_timeout,
            Self::Timeout => &mut outcomes.timeout,
            Self::Reset => &mut outcomes.reset,
            Self::BadAnswer => &mut outcomes.bad_answer,
            Self::Dropped => &mut outcomes.dropped,
            Self::CutOff => &mut outcomes.cut_off,
        };
        *class += 1;
    }
}

/// A duration that may be absent, as milliseconds with their fraction.
mod maybe_ms {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use loadline_core::time::Duration;

    pub(super) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => to.serialize_some(&time.as_millis_f64()),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let millis = Option::<f64>::deserialize(from)?;
        Ok(millis.map(|millis| Duration::from_nanos(libm::round(millis * 1e6) as u64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Document, Record};

    #[test]
    fn a_series_reads_what_it_wrote_and_leaves_out_what_did_not_happen() {
        let lost = ProbeSample { outcome: ProbeOutcome::Timeout, ..ProbeSample::default() };
        let time = Some(Duration::from_micros(230_125));
        let answered = ProbeSample { number: 2, time, status: Some(200), ..lost };
        let target = ProbeTarget {
            samples: vec![lost, ProbeSample { outcome: ProbeOutcome::Ok, ..answered }],
            ..ProbeTarget::default()
        };
        let record = ProbeRecord { targets: vec![target], ..ProbeRecord::default() };
        let document = Document::new(Record::Probe(record));
        let value = serde_json::to_value(&document).unwrap();
        let [lost, answered] = [0, 1].map(|at| &value["targets"][0]["samples"][at]);
        assert_eq!((&value["kind"], &value["probe"]), (&"probe".into(), &"ping".into()));
        assert_eq!(lost["outcome"], "timeout");
        assert!(lost.get("time_ms").is_none());
        assert_eq!(answered["time_ms"], 230.125);
        assert_eq!(Document::read(value.to_string().as_bytes()).unwrap(), document);
    }

    #[test]
    fn every_class_is_counted_under_its_own_name() {
        let mut outcomes = Outcomes::default();
        let classes = [
            ProbeOutcome::Ok,
            ProbeOutcome::ClientError,
            ProbeOutcome::ServerError,
            ProbeOutcome::ConnectRefused,
            ProbeOutcome::ConnectTimeout,
            ProbeOutcome::Timeout,
            ProbeOutcome::Reset,
            ProbeOutcome::BadAnswer,
            ProbeOutcome::Dropped,
            ProbeOutcome::CutOff,
        ];
        for class in classes {
            class.count_in(&mut outcomes);
        }
        assert!(outcomes.classes().iter().all(|(_, count)| *count == 1), "{outcomes:?}");
    }
}
