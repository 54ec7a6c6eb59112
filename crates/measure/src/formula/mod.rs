//! The formulas of the source documents: what a system can do, worked out before it is measured.
//!
//! Pure functions of typed quantities, one file a formula. Each names the document and the section
//! that it is taken from; its tests hold the figures printed there. `docs/formulas.md` tells them
//! with worked examples.

pub mod bandwidth;
pub mod credits;
pub mod fibre;
pub mod ports;
pub mod queue;
pub mod replication;

use core::fmt;

/// Why a formula cannot be worked out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormulaError {
    /// An input for which the formula means nothing.
    #[error("{what} of {given} is out of range; it must be {right}")]
    Range {
        /// Name of the input.
        what: &'static str,
        /// The value that was given.
        given: String,
        /// What would be right.
        right: &'static str,
    },
    /// A result beyond what its type can hold.
    #[error("{what} is more than can be told; give smaller quantities")]
    TooLarge {
        /// Name of the result.
        what: &'static str,
    },
    /// A text that is no load curve.
    #[error("`{text}` is not a load curve; write it like `20%:10m, 100%:30m`")]
    Curve {
        /// The stage that cannot be read.
        text: String,
    },
}

impl FormulaError {
    fn range(what: &'static str, given: impl fmt::Display, right: &'static str) -> Self {
        Self::Range { what, given: given.to_string(), right }
    }
}

/// The input again where it is above zero.
fn above_zero<T>(what: &'static str, input: T) -> Result<T, FormulaError>
where
    T: Copy + Default + PartialEq + fmt::Display,
{
    if input == T::default() {
        return Err(FormulaError::range(what, input, "above zero"));
    }
    Ok(input)
}
