//! Values written as bare numbers: counts, which have no unit, the scaler and the smoothing.

use std::{borrow::Cow, fmt, marker::PhantomData};

use loadline_core::units::Ratio;
use loadline_spanned::Complaint;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole<const MIN: u32, const MAX: u32>(pub(crate) u32);

impl<const MIN: u32, const MAX: u32> Whole<MIN, MAX> {
    fn described() -> String {
        match (MIN, MAX) {
            (0, u32::MAX) => "a whole number".to_owned(),
            (_, u32::MAX) => format!("a whole number, at least {MIN}"),
            _ => format!("a whole number from {MIN} to {MAX}"),
        }
    }
}

impl<'de, const MIN: u32, const MAX: u32> Deserialize<'de> for Whole<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WholeVisitor::<MIN, MAX>)
    }
}

struct WholeVisitor<const MIN: u32, const MAX: u32>;

impl<const MIN: u32, const MAX: u32> Visitor<'_> for WholeVisitor<MIN, MAX> {
    type Value = Whole<MIN, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Whole::<MIN, MAX>::described())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        match u32::try_from(number) {
            Ok(fitting) if (MIN..=MAX).contains(&fitting) => Ok(Whole(fitting)),
            _ => {
                let described = Whole::<MIN, MAX>::described();
                // It says nothing of the largest number that there is.
                let help = match number > i64::from(u32::MAX) && MAX == u32::MAX {
                    true => format!("write {described}, and at most {MAX}"),
                    false => format!("write {described}"),
                };
                Err(Complaint::new(format!("`{number}` is out of range"), help).carried())
            }
        }
    }
}

impl<const MIN: u32, const MAX: u32> JsonSchema for Whole<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Whole".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "integer",
            "title": Self::described(),
            "minimum": MIN,
            "maximum": MAX,
        })
    }
}

/// A kind of number that need not be whole.
pub(crate) trait Numeric: Sized {
    /// What it may be: "a number from 1 to 100".
    const WHAT: &'static str;

    /// The number, if it may be.
    fn read(number: f64) -> Option<Self>;

    /// The JSON Schema of it.
    fn schema() -> Schema;
}

/// A value that stands in the file as a number, whole or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number<T>(pub(crate) T);

impl<'de, T: Numeric> Deserialize<'de> for Number<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor(PhantomData))
    }
}

struct NumberVisitor<T>(PhantomData<T>);

impl<T: Numeric> Visitor<'_> for NumberVisitor<T> {
    type Value = Number<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::WHAT)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        self.visit_f64(number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        let wrong = || {
            // As it is written: with an exponent where it has hundreds of digits without.
            let written = format!("{number:?}");
            let written = written.trim_end_matches(".0");
            let message = format!("`{written}` is out of range");
            Complaint::new(message, format!("write {}", T::WHAT)).carried()
        };
        T::read(number).map(Number).ok_or_else(wrong)
    }
}

impl<T: Numeric> JsonSchema for Number<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Number".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        T::schema()
    }
}

/// The part of a capacity in use: 0, or 0.1 to 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scaler(pub(crate) Ratio);

impl Numeric for Scaler {
    const WHAT: &'static str = "0 to drain, or a number from 0.1 to 1";

    fn read(number: f64) -> Option<Self> {
        let fits = number == 0.0 || (0.1..=1.0).contains(&number);
        fits.then(|| Self(Ratio::ppm((number * 1e6).round() as u32)))
    }

    fn schema() -> Schema {
        json_schema!({
            "type": "number",
            "title": Self::WHAT,
            "anyOf": [{ "const": 0 }, { "minimum": 0.1, "maximum": 1 }],
        })
    }
}

/// How slowly something follows: one part in so many of the way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Smoothing(pub(crate) f64);

impl Numeric for Smoothing {
    const WHAT: &'static str = "a number from 1, which is at once, to 100";

    fn read(number: f64) -> Option<Self> {
        (1.0..=100.0).contains(&number).then_some(Self(number))
    }

    fn schema() -> Schema {
        json_schema!({ "type": "number", "title": Self::WHAT, "minimum": 1, "maximum": 100 })
    }
}
