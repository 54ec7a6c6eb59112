//! Measurements and their evaluation: records, objectives, statistics, bottlenecks and formulas.
//!
//! The tools write a [`record`]; [`objective`] judges it, [`bottleneck`] says which resource held
//! it back, [`statistics`] how sure its figures are, and [`formula`] what is expected of them.
#![forbid(unsafe_code)]

pub mod bottleneck;
pub mod formula;
pub mod objective;
pub mod record;
pub mod statistics;
