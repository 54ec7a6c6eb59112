//! Values written as bare numbers: counts, which have no unit, and the scaler.

use std::{borrow::Cow, fmt};

use loadline_core::units::Ratio;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

use super::text::Complaint;

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
            _ => Err(Complaint::new(
                format!("`{number}` is out of range"),
                format!("write {}", Whole::<MIN, MAX>::described()),
            )
            .carried()),
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

/// The part of a capacity in use: 0, or 0.1 to 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scaler(pub(crate) Ratio);

impl<'de> Deserialize<'de> for Scaler {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalerVisitor)
    }
}

struct ScalerVisitor;

impl Visitor<'_> for ScalerVisitor {
    type Value = Scaler;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCALER)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        self.visit_f64(number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        if number == 0.0 || (0.1..=1.0).contains(&number) {
            return Ok(Scaler(Ratio::ppm((number * 1e6).round() as u32)));
        }
        let help = format!("write {SCALER}");
        Err(Complaint::new(format!("a scaler of {number} is out of range"), help).carried())
    }
}

impl JsonSchema for Scaler {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Scaler".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "number",
            "title": SCALER,
            "anyOf": [{ "const": 0 }, { "minimum": 0.1, "maximum": 1 }],
        })
    }
}

const SCALER: &str = "0 to drain, or a number from 0.1 to 1";
