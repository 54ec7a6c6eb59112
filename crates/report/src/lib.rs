//! Records drawn: text tables, SVG plots, one self-contained HTML page.
//!
//! ```text
//! LoadRecord --> Table ---> terminal, page
//!            --> Picture -> page, .svg file
//! ```
//! Everything here is a pure function of its arguments: no file is read or written, no clock is
//! asked, so the same records give the same bytes.
#![forbid(unsafe_code)]

mod comparison;
mod figures;
mod markdown;
mod page;
mod plot;
mod runs;
mod table;

pub use comparison::{Limits, compare_runs, comparison_table, plan_difference};
pub use figures::{bare_url, digits, five_digits, millis, per_second, percent, utc};
pub use markdown::keep_written;
pub use page::{Block, Page, Section};
pub use plot::{
    PlotError, Tone,
    bars::{Bars, Group},
    curves::{Curve, Mark, response_against_rate},
    pairs::{Pair, Pairs, compare},
    picture::Picture,
    scatter::{Dot, Dots, scatter_top, times_by_number},
    share::{Share, share_against_rate},
    timeline::{Slice, Timeline, over_time},
};
pub use runs::{
    Named, agreement_page, agreement_reasons, agreement_table, explanation_tables, plan_tables,
    plan_verdict, ranking_table, runs_page, simulation_tables, study_notes, study_page,
    study_tables,
};
pub use table::{Align, Cell, Column, Table};
