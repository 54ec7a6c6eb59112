//! The network between real hosts: delays, rates, loss, jitter, changes and what finds no way.
//!
//! What the network decides is tested to the nanosecond without a clock, beside the code. Here it
//! is held against this machine, which may be busy: times are the kernel's own, taken where a
//! packet comes out, and a run in which the router was late or the machine's host took time is
//! invalid by the lab's own rule. It is then judged by what lateness cannot explain: nothing
//! arrives early.
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

mod delays;
mod shapes;
mod support;
mod ways;
