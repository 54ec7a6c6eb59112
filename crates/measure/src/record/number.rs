//! Quantities as numbers whose key names the unit: what scripts and plots want of a record.

use serde::Deserializer;

/// A duration as milliseconds with their fraction, exact to the nanosecond up to 100 days.
pub(crate) mod ms {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use loadline_core::time::Duration;

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(time.as_millis_f64())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let millis = f64::deserialize(from)?;
        Ok(Duration::from_nanos(libm::round(millis * 1e6) as u64))
    }
}

/// A duration as seconds with their fraction.
pub(crate) mod secs {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use loadline_core::time::Duration;

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(time.as_secs_f64())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let secs = f64::deserialize(from)?;
        Ok(Duration::from_nanos(libm::round(secs * 1e9) as u64))
    }
}

/// A rate as requests per second with their fraction.
pub(crate) mod per_s {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use loadline_core::units::Rate;

    pub(crate) fn serialize<S: Serializer>(rate: &Rate, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(rate.as_per_sec_f64())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Rate, D::Error> {
        let rate = f64::deserialize(from)?;
        Ok(Rate::milli_per_sec(libm::round(rate * 1e3) as u64))
    }
}

/// Milliseconds; null for what never came.
pub(crate) mod ms_or_never {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use loadline_core::time::Duration;

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        (*time < Duration::MAX).then(|| time.as_millis_f64()).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let ms: Option<f64> = Option::deserialize(from)?;
        Ok(ms.map_or(Duration::MAX, |ms| Duration::from_nanos(libm::round(ms * 1e6) as u64)))
    }
}

/// Seconds, where there are any.
pub(crate) mod some_secs {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use loadline_core::time::Duration;

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(Duration::as_secs_f64).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let secs: Option<f64> = Option::deserialize(from)?;
        Ok(secs.map(|secs| Duration::from_nanos(libm::round(secs * 1e9) as u64)))
    }
}

/// A number; null where it is infinite, which JSON cannot say.
pub(crate) mod bound {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(crate) fn serialize<S: Serializer>(bound: &f64, to: S) -> Result<S::Ok, S::Error> {
        bound.is_finite().then_some(*bound).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(from)?.unwrap_or(f64::INFINITY))
    }
}

/// A value that is there; infinite where it is null.
pub(crate) fn value_or_never<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    bound::deserialize(from).map(Some)
}

/// Counts by status. Keys of JSON are text, and a tagged record does not turn them back by itself.
pub(crate) mod by_status {
    use std::collections::BTreeMap;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

    type Counts = BTreeMap<u16, u64>;

    pub(crate) fn serialize<S: Serializer>(counts: &Counts, to: S) -> Result<S::Ok, S::Error> {
        let named: BTreeMap<_, _> =
            counts.iter().map(|(status, count)| (format!("{status}"), count)).collect();
        named.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Counts, D::Error> {
        let named = BTreeMap::<String, u64>::deserialize(from)?;
        let number = |(status, count): (String, u64)| Ok((status.parse()?, count));
        let counts: Result<Counts, core::num::ParseIntError> =
            named.into_iter().map(number).collect();
        counts.map_err(D::Error::custom)
    }
}
