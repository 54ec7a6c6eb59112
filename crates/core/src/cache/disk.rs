//! What the second tier of a cache, on disk, decides: what is written there, which segment leaves,
//! what a purge takes out of it, and when a disk that failed is tried again.
//!
//! ```text
//!  oldest                                            newest
//!  [segment 7][segment 8][segment 9] ... [segment 37][segment 38 ...
//!      '-- leaves as a whole where its room is needed
//! ```
//! Responses are appended to the newest of a row of segments. None is changed or deleted by itself:
//! the oldest segment leaves as a whole, and what was purged is told by [`Purges`].

mod admission;
mod purges;
mod retry;
mod segments;

pub use admission::{Admission, admit, is_usable};
pub use purges::{Named, PURGE_BYTES, PurgeRecord, Purges, Verdict};
pub use retry::Retry;
pub use segments::{SIZE_MIN, Shape};
