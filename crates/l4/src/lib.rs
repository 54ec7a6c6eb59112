//! Packet forwarding: one program in C (`bpf/`), for XDP and for traffic control, its tables and
//! its loader.
//!
//! A [`Datapath`] loads the program, fills its tables and attaches it to an interface. Packets to a
//! service are then forwarded by the kernel, before its network stack, by one of three
//! [methods](loadline_core::fleet::forwarding::Method); all other packets go to the kernel's stack
//! unchanged. [`ring`] decides which server a flow belongs to, [`replication`] what a standby gets;
//! both without I/O.
//!
//! Every packet ends in one [`Verdict`], which is counted. The program is compiled by `build.rs`;
//! where clang was missing, [`Datapath::load`] says so.
// unsafe: rings and queues are written through memory maps of the kernel's tables (`memory`).
#![deny(unsafe_code)]

mod check;
mod copy;
mod datapath;
mod decapsulator;
mod error;
mod events;
mod forwarder;
mod interface;
mod layout;
mod listing;
mod memory;
mod nat;
mod neighbour;
mod object;
mod path;
pub mod ports;
mod quic_ids;
mod removal;
pub mod replication;
pub mod ring;
mod settle;
pub mod standby;
mod tables;
mod test_run;
mod traffic_control;
mod verdict;
mod wait;

pub use check::{Check, Checks};
pub use copy::Connection;
pub use datapath::{Count, Datapath, ServerCount, Sizes};
pub use decapsulator::Decapsulator;
pub use error::{AttachError, LoadError, TableError};
pub use events::Event;
pub use forwarder::{Forwarder, StartError};
pub use interface::{Attach, Attached, Attachment, AttachmentChange};
pub use layout::{Frontend, MAX_RETURNS, Server, ServerName, Settings};
pub use listing::{Held, Lent};
pub use path::Path;
pub use settle::Unsettled;
pub use test_run::{Action, Hook, TestRunResult};
pub use verdict::Verdict;
