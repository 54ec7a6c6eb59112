//! Packet forwarding: one XDP program in C (`bpf/`), its tables and its loader.
//!
//! A [`Datapath`] loads the program, fills its tables and attaches it to an interface. Packets to a
//! service are then forwarded by the kernel, before its network stack, by one of three methods
//! ([`Method`]); the rest goes to the kernel as if nobody had looked. Which server a flow belongs
//! to is decided by `loadline_core::forwarding`, whose rings are published here.
//!
//! Every packet ends in one [`Verdict`], which is counted. The program is compiled by `build.rs`;
//! where clang was missing, [`Datapath::load`] says so.
// unsafe: rings and queues are written through memory maps of the kernel's tables (`memory`).
#![deny(unsafe_code)]

mod datapath;
mod decapsulator;
mod error;
mod interface;
mod layout;
mod memory;
mod nat;
mod object;
mod settle;
mod verdict;

pub use datapath::{Count, Datapath, ServerCount, Sizes, Tried};
pub use decapsulator::Decapsulator;
pub use error::{AttachError, LoadError, TableError};
pub use interface::{Attach, Attached};
pub use layout::{Frontend, MAX_RETURNS, Method, Protocol, Server, Settings};
pub use verdict::Verdict;
