//! Load from several machines: agents that send a part of a plan each, and who leads them.
//!
//! The leader opens one TCP connection to each agent ([`Leader::connect`]), proves that it knows
//! the token and has the same version, and runs plans ([`Leader::measure`]):
//!
//! ```text
//! leader                                   agent
//!   job, which part of how many   ---->      opens its client
//!                                 <----    ready, or why not
//!   ping, some times              ---->
//!                                 <----    the time of its clock
//!   begin at, in the agent's time ---->      waits for that instant, sends its part
//!                                 <----    progress, twice a second
//!                                 <----    figures
//! ```
//!
//! Clocks of machines differ, so nothing goes by the time of day. Of several round trips the one
//! with the least delay `d` says how far the agent's monotonic clock is ahead: its reading less the
//! middle of the round trip, wrong by `d / 2` at most (Cristian 1989). All are told the same
//! instant in their own clocks.
//!
//! Both sides say something at least twice a second. Who hears nothing for five seconds gives the
//! other up: an agent ends its run, a leader ends the run of all and names the one it lost.

mod clocks;
mod conduct;
mod job;
mod leader;
mod link;
mod message;
mod server;
mod token;

pub use leader::{AgentError, Leader};
pub use server::{Limits, check_transport, serve};
pub use token::{Token, TokenError};

/// How long the other side may say nothing; longer than a machine of use is ever busy, and short
/// enough to wait for.
const SILENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// Where agents listen unless told otherwise.
pub const PORT: u16 = 9_320;
