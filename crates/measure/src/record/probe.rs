//! Series of single requests or pings, one target beside another.
//!
//! Every sample stands in the record, in the order of its number: what an average hides, such as
//! a first request that had to open connections further on, is seen in the series alone.

use serde::{Deserialize, Serialize};

use super::{Latency, Outcomes, Phases, number};
use loadline_core::time::Duration;

/// Series of single requests or pings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeRecord {
    /// What was measured.
    pub probe: ProbeKind,
    /// When the first was sent, in milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// From the first that was sent to the end of the last.
    #[serde(rename = "elapsed_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub elapsed: Duration,
    /// What was planned between one send to a target and the next; 0 is one straight after the
    /// other.
    #[serde(rename = "interval_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub interval: Duration,
    /// Whether a connection was used again after a response.
    pub keepalive: bool,
    /// How many were planned for each target.
    pub planned: u64,
    /// Whether the series was ended before all were sent.
    pub interrupted: bool,
    /// The targets, in the order in which they took turns.
    pub targets: Vec<ProbeTarget>,
}

/// What a series measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    /// Round trips: ICMP echo, or the opening of a TCP connection.
    #[default]
    Ping,
    /// Time to the first byte of a response.
    Ttfb,
}

/// One target with its series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeTarget {
    /// As it was asked for: a URL or a host.
    pub target: String,
    /// The address that was spoken to; empty where none was found.
    pub address: String,
    /// What was spoken: `HTTP/2 over TLS 1.3`, `ICMP echo`, `TCP connect to port 80`.
    pub protocol: String,
    /// Why this and not what would be better, where that needs saying; of times to first byte, how
    /// many look-ups of the name failed, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What became of each; the sum is the number of samples.
    pub outcomes: Outcomes,
    /// Responses that came again after they were counted.
    pub duplicates: u64,
    /// Connections that were opened to send on; 0 for ICMP.
    pub connections: u64,
    /// The times of those that ended well.
    pub time: Latency,
    /// The parts of these times, and the body that came after them; a phase counts only the
    /// requests that went through it.
    pub phases: Phases,
    /// Each of them.
    pub samples: Vec<ProbeSample>,
}

/// One request or ping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeSample {
    /// Counts from 1 for each target.
    pub number: u64,
    /// When it was sent, since the first of all.
    #[serde(rename = "at_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub at: Duration,
    /// What became of it.
    pub outcome: ProbeOutcome,
    /// The status of the response; none where no HTTP response came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Whether it went over a connection that an earlier one had opened.
    pub reused: bool,
    /// Ping: the round trip. Time to first byte: from before the look-up of the name to the first
    /// byte of the response. None where no response came.
    #[serde(
        default,
        rename = "time_ms",
        with = "maybe_ms",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub time: Option<Duration>,
    /// Looking the host's name up.
    #[serde(
        default,
        rename = "dns_ms",
        with = "maybe_ms",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub dns: Option<Duration>,
    /// Opening the TCP connection; over HTTP/3 the QUIC handshake, of which TLS is a part.
    #[serde(
        default,
        rename = "connect_ms",
        with = "maybe_ms",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub connect: Option<Duration>,
    /// The TLS handshake over TCP.
    #[serde(
        default,
        rename = "tls_ms",
        with = "maybe_ms",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub tls: Option<Duration>,
    /// From the request's last byte sent to the response's first byte read.
    #[serde(
        default,
        rename = "first_byte_ms",
        with = "maybe_ms",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub first_byte: Option<Duration>,
    /// From the response's first byte to its last; not part of the time to the first byte.
    #[serde(
        default,
        rename = "body_ms",
        with = "maybe_ms",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub body: Option<Duration>,
}

/// The class a request or ping ended in; the names are those of [`Outcomes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProbeOutcome {
    /// Answered: an echo, an open connection, or a status 1xx to 3xx.
    #[default]
    Ok,
    /// Answered with 4xx.
    ClientError,
    /// Answered with 5xx.
    ServerError,
    /// Refused, or the address was not reachable.
    ConnectRefused,
    /// The connection did not open in time.
    ConnectTimeout,
    /// No response in time.
    Timeout,
    /// The connection was reset or closed before the response was whole.
    Reset,
    /// The response was not valid.
    BadAnswer,
    /// Not sent: out of descriptors or ports here.
    Dropped,
    /// Under way when the series was ended.
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
