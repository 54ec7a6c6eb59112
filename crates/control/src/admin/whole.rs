//! A weight in JSON, however it is written: by JSON Schema 575.0 is an integer, too.

use std::fmt;

use loadline_core::decide::overrides::WEIGHT_MAX;
use serde::{
    Deserialize, Deserializer,
    de::{Error, Unexpected, Visitor},
};

/// A whole number from 0; a weight that is too large is refused where it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole(pub(super) u32);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u32(Number)
    }
}

struct Number;

impl Visitor<'_> for Number {
    type Value = Whole;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {WEIGHT_MAX}")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Whole, E> {
        let wrong = |_| E::invalid_value(Unexpected::Unsigned(number), &self);
        u32::try_from(number).map(Whole).map_err(wrong)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Whole, E> {
        let wrong = |_| E::invalid_value(Unexpected::Signed(number), &self);
        u32::try_from(number).map(Whole).map_err(wrong)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Whole, E> {
        let is_whole = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
        let wrong = || E::invalid_type(Unexpected::Float(number), &self);
        is_whole.then_some(Whole(number as u32)).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_whole_however_it_is_written() {
        let read = |text| serde_json::from_str::<Whole>(text).map_err(|error| error.to_string());
        for (text, number) in [("575", 575), ("575.0", 575), ("5.75e2", 575), ("0", 0), ("-0", 0)] {
            assert_eq!(read(text), Ok(Whole(number)), "{text}");
        }
        for (text, told) in [
            ("2.5", "floating point `2.5`, expected a whole number from 0"),
            ("-1", "integer `-1`, expected a whole number from 0"),
            ("-1.0", "expected a whole number from 0"),
            ("4294967296", "integer `4294967296`, expected a whole number from 0 to 1000"),
            ("1e300", "expected a whole number from 0"),
            ("\"2\"", "string \"2\", expected a whole number from 0"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
