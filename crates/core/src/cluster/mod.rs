//! Many edges, one fleet: the capacity of a group is shared between edges, exactly.
//!
//! ```text
//! observations --> Participant --Share--> Controller (limits of the plan)
//!                    |      ^
//!        its report, |      | reports of all sessions and the table of each service,
//!        a new table v      | in the order in which the store took them
//!                    the store (etcd)
//! ```
//!
//! # What is in the store
//! | key | value | who writes it |
//! |---|---|---|
//! | `edges/SESSION` | [`Report`]: demand, distances, what it saw | that edge, with its lease |
//! | `shares/SERVICE` | [`Table`]: what each session may use | anybody, by compare-and-swap |
//!
//! A session is one lease of one process; its id is never used again. The session whose report was
//! created first is elected: it computes shares ([`allot`]). Nothing that must be exact depends on
//! who that is, or on there being only one.
//!
//! # Why the sum is exact
//! An [`Entry`] of a table has a `share`, which its session may use once it has seen the table, and
//! a `bound`, the most that it may still be using. Three rules:
//!
//! 1. In every table the bounds of a group, with the floors of all edges, are the whole at most. A
//!    table replaces exactly the one it was made of (compare-and-swap).
//! 2. A share may be lowered at once; its bound follows only when the session's report says that it
//!    has seen a table in which the share was that low ([`ServiceReport::seen`]), or when the
//!    session is gone. So a shrink here is acknowledged, or has expired, before the grow there is
//!    written.
//! 3. An edge uses nothing but its floor once its lease may have ended: the decision about each
//!    request compares the time. It counts the lease from
//!    before it asked for it, and the store from when it heard of that, so the edge is the earlier.
//!
//! Acknowledgements and the end of a session are facts that never become false, so a late or
//! repeated message can do no harm, and neither can two edges that both believe to be elected.
//!
//! An edge that runs short takes what is free in the table by the same compare-and-swap, without
//! waiting for the elected one. Only durations are compared, never the clocks of two machines; how
//! much faster one may run than another is [`Settings::margin`].
//!
//! Shares are parts of the whole group, so rates, requests in flight and utilisation are shared
//! alike, and a change of capacity needs no new shares.

pub mod allot;
pub mod demand;
pub mod observe;
pub mod participant;
pub mod share;
pub mod table;

pub use participant::{Action, Answer, Event, Participant, RequestId, Settings, WhenAway};
pub use share::Share;
pub use table::{Entry, GroupReport, Report, Revision, ServiceReport, SessionId, Table};
