//! A formula of the source documents with its inputs and results.

use serde::{Deserialize, Serialize};

/// A formula of the source documents with its inputs and results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FormulaRecord {
    /// Its name: `bandwidth`, `ports`, `replication`, `fibre`, `queue` or `credits`.
    pub name: String,
    /// The question that it answers.
    pub question: String,
    /// The formula as its source writes it.
    pub formula: String,
    /// The document and the section that it comes from.
    pub source: String,
    /// What it was worked out from.
    pub inputs: Vec<Quantity>,
    /// What came out.
    pub results: Vec<FormulaResult>,
    /// What is to be known of the results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// How the results change with one of the inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<FormulaCurve>,
}

/// A number with its name and unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quantity {
    /// What it is.
    pub name: String,
    /// How much.
    pub value: f64,
    /// Of what: `Mb/s`, `ms`, `%`; empty for a bare number.
    pub unit: String,
}

/// A result of a formula.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FormulaResult {
    /// What came out.
    #[serde(flatten)]
    pub quantity: Quantity,
    /// The figure that the source prints for the same inputs, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
}

/// Results along one input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FormulaCurve {
    /// The columns; the first is the input, the last is what is drawn.
    pub columns: Vec<Column>,
    /// A value for each column.
    pub rows: Vec<Vec<f64>>,
}

/// The heading of a column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Column {
    /// What stands in it.
    pub name: String,
    /// In which unit.
    pub unit: String,
}

impl Quantity {
    /// So much of that unit.
    #[must_use]
    pub fn new(name: impl Into<String>, value: f64, unit: impl Into<String>) -> Self {
        Self { name: name.into(), value, unit: unit.into() }
    }
}

impl FormulaResult {
    /// A result that its source does not print.
    #[must_use]
    pub fn new(name: impl Into<String>, value: f64, unit: impl Into<String>) -> Self {
        Self { quantity: Quantity::new(name, value, unit), published: None }
    }

    /// The same with the figure that the source prints for these inputs, where it does.
    #[must_use]
    pub fn published(self, figure: Option<f64>) -> Self {
        Self { published: figure, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_stands_flat_beside_the_printed_figure() {
        let outcome = FormulaResult::new("round trip", 75.0, "ms").published(Some(75.0));
        let json = serde_json::to_string(&outcome).unwrap();
        assert_eq!(json, r#"{"name":"round trip","value":75.0,"unit":"ms","published":75.0}"#);
        assert_eq!(serde_json::from_str::<FormulaResult>(&json).unwrap(), outcome);
    }
}
