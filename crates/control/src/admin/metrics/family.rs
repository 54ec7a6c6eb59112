//! What a metric is, and how its samples are written.

use std::fmt;

use loadline_core::state::State;
use prometheus_client::{
    encoding::{
        DescriptorEncoder, EncodeLabel, EncodeLabelSet, LabelSetEncoder, MetricEncoder, NoLabelSet,
    },
    metrics::MetricType,
};

use super::{Detail, Process};

/// One metric with all its label values.
pub(super) trait Family {
    fn head(&self) -> &Head;

    /// Writes its samples.
    fn encode(
        &self,
        state: &State,
        process: &Process,
        encoder: &mut MetricEncoder<'_>,
    ) -> fmt::Result;
}

/// What is said of a metric above its samples.
pub(super) struct Head {
    /// Without the prefix `loadline_`, and without `_total`.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) labels: &'static [&'static str],
    pub(super) kind: MetricType,
}

/// What metrics are of: everything of one kind in a state, each with its label values.
pub(super) struct Subject<T> {
    pub(super) labels: &'static [&'static str],
    pub(super) each: Each<T>,
}

/// Tells all of a kind with their label values.
type Each<T> = fn(&State, Tell<'_, T>);

/// Takes label values and what they are of.
pub(super) type Tell<'a, T> = &'a mut dyn FnMut(&[&str], &T);

/// A metric of a [`Subject`].
pub(super) struct Metric<T> {
    head: Head,
    each: Each<T>,
    value: Value<T>,
}

enum Value<T> {
    Counter(fn(&T) -> u64),
    Gauge(fn(&T) -> f64),
    GaugeIfAny(fn(&T) -> Option<f64>),
}

/// A metric of this process. Such names are the same for every program.
pub(super) struct ProcessMetric {
    head: Head,
    value: fn(&Process) -> Option<f64>,
}

/// The labels of a sample.
struct Labels<'a> {
    names: &'a [&'a str],
    values: &'a [&'a str],
}

/// The value of a sample.
pub(super) enum Number {
    Count(u64),
    Gauge(f64),
}

impl Head {
    pub(super) fn full_name(&self) -> String {
        let prefix = if self.name.starts_with("process_") { "" } else { "loadline_" };
        format!("{prefix}{}", self.name)
    }

    pub(super) fn is_told(&self, detail: Detail) -> bool {
        detail == Detail::Servers || !self.labels.contains(&"server")
    }

    pub(super) fn describe<'e>(
        &self,
        name: &'e str,
        encoder: &'e mut DescriptorEncoder<'_>,
    ) -> Result<MetricEncoder<'e>, fmt::Error> {
        encoder.encode_descriptor(name, self.help, None, self.kind)
    }

    /// Writes a sample with these values of its labels.
    pub(super) fn encode(
        &self,
        values: &[&str],
        number: &Number,
        encoder: &mut MetricEncoder<'_>,
    ) -> fmt::Result {
        if values.is_empty() {
            return number.encode(encoder);
        }
        number.encode(&mut encoder.encode_family(&Labels { names: self.labels, values })?)
    }
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let mut labels = self.names.iter().zip(self.values);
        labels.try_for_each(|(name, value)| {
            EncodeLabel::encode(&(*name, *value), encoder.encode_label())
        })
    }
}

impl Number {
    fn encode(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => encoder.encode_counter::<NoLabelSet, _, u64>(count, None),
            Self::Gauge(value) => encoder.encode_gauge(value),
        }
    }
}

impl<T> Subject<T> {
    pub(super) const fn counter(
        &self,
        name: &'static str,
        help: &'static str,
        value: fn(&T) -> u64,
    ) -> Metric<T> {
        self.metric(name, help, MetricType::Counter, Value::Counter(value))
    }

    pub(super) const fn gauge(
        &self,
        name: &'static str,
        help: &'static str,
        value: fn(&T) -> f64,
    ) -> Metric<T> {
        self.metric(name, help, MetricType::Gauge, Value::Gauge(value))
    }

    /// Without a sample where there is no value.
    pub(super) const fn gauge_if_any(
        &self,
        name: &'static str,
        help: &'static str,
        value: fn(&T) -> Option<f64>,
    ) -> Metric<T> {
        self.metric(name, help, MetricType::Gauge, Value::GaugeIfAny(value))
    }

    const fn metric(
        &self,
        name: &'static str,
        help: &'static str,
        kind: MetricType,
        value: Value<T>,
    ) -> Metric<T> {
        let head = Head { name, help, labels: self.labels, kind };
        Metric { head, each: self.each, value }
    }
}

impl<T> Family for Metric<T> {
    fn head(&self) -> &Head {
        &self.head
    }

    fn encode(&self, state: &State, _: &Process, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        let mut written = Ok(());
        (self.each)(state, &mut |values, subject| {
            if let (Ok(()), Some(number)) = (written, self.value.of(subject)) {
                written = self.head.encode(values, &number, encoder);
            }
        });
        written
    }
}

impl<T> Value<T> {
    fn of(&self, subject: &T) -> Option<Number> {
        match self {
            Self::Counter(value) => Some(Number::Count(value(subject))),
            Self::Gauge(value) => Some(Number::Gauge(value(subject))),
            Self::GaugeIfAny(value) => value(subject).map(Number::Gauge),
        }
    }
}

impl ProcessMetric {
    pub(super) const fn counter(
        name: &'static str,
        help: &'static str,
        value: fn(&Process) -> Option<f64>,
    ) -> Self {
        Self { head: Head { name, help, labels: &[], kind: MetricType::Counter }, value }
    }

    pub(super) const fn gauge(
        name: &'static str,
        help: &'static str,
        value: fn(&Process) -> Option<f64>,
    ) -> Self {
        Self { head: Head { name, help, labels: &[], kind: MetricType::Gauge }, value }
    }
}

impl Family for ProcessMetric {
    fn head(&self) -> &Head {
        &self.head
    }

    fn encode(&self, _: &State, process: &Process, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        match ((self.value)(process), self.head.kind) {
            (None, _) => Ok(()),
            (Some(value), MetricType::Counter) => {
                encoder.encode_counter::<NoLabelSet, _, u64>(&value, None)
            }
            (Some(value), _) => encoder.encode_gauge(&value),
        }
    }
}
