//! Measurements and their evaluation: records, objectives, statistics, bottlenecks and formulas.
//!
//! A tool writes a [`record`]. [`objective`] judges it, [`bottleneck`] names the resource that ran
//! out first, [`statistics`] gives confidence intervals, and [`formula`] computes what to expect.
#![forbid(unsafe_code)]

pub mod bottleneck;
pub mod formula;
pub mod objective;
pub mod record;
pub mod statistics;
