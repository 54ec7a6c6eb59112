//! A formula with its inputs and results.

use serde::{Deserialize, Serialize};

/// A formula with its inputs and results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FormulaRecord {
    /// Name of the formula: `bandwidth`, `ports`, `replication`, `fibre`, `queue` or `credits`.
    pub name: String,
    /// The question that the formula answers.
    pub question: String,
    /// The formula in the form of its source.
    pub formula: String,
    /// Source: document and section.
    pub source: String,
    /// Input values.
    pub inputs: Vec<Quantity>,
    /// Result values.
    pub results: Vec<FormulaResult>,
    /// Remarks on the results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Results for several values of one input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<FormulaCurve>,
}

/// A number with its name and unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quantity {
    /// Name of the quantity.
    pub name: String,
    /// Value.
    pub value: f64,
    /// Unit: `Mb/s`, `ms`, `%`; empty for a bare number.
    pub unit: String,
}

/// A result of a formula.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FormulaResult {
    /// Result values.
    #[serde(flatten)]
    pub quantity: Quantity,
    /// Result that the source publishes for the same inputs, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
}

/// Results for several values of one input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FormulaCurve {
    /// Columns: the first is the input, the last is drawn in plots.
    pub columns: Vec<Column>,
    /// Rows, with a value for each column.
    pub rows: Vec<Vec<f64>>,
}

/// The heading of a column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Column {
    /// Heading of the column.
    pub name: String,
    /// Unit of the column.
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
