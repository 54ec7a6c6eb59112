//! Studies: measurements as runnable files, with what was published beside what is measured.
//!
//! ```text
//! text --read--> Study --plan--> Plan (one a row) --run--> Measurement --judge--> StudyRecord
//! ```
//! A [`Study`] is one TOML file: hosts and links, what runs on them, the phases of load, what is
//! taken from each, the published figures and the bands that judge them. A *row* is one variant
//! of the study, such as a peer in the place of loadline. Reading, planning and judging are pure;
//! only [`run`] starts anything.

mod expand;
mod file;
mod formula;
mod judge;
mod place;
mod plan;
mod read;
mod run;
mod take;

pub use judge::{Conditions, compare, judge, merge};
pub use plan::{Action, Command, Content, Places, Plan, Program, Ready, Step, Verb};
pub use read::{Mode, Study, Tool};
pub use run::{
    Event, Held, Measured, NOT_BUILT, RunError, Setup, find_program, hold, run, steps, tool_version,
};
pub use take::{TakeError, readings};
