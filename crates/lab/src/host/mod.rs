//! Hosts on one machine: each is a few namespaces with a network interface, in which any program
//! runs as on a machine of its own.
//!
//! ```text
//! the lab's process --line--> outer process --> first process (PID 1 inside) --> programs
//!        |                    makes user and PID makes net, mount and UTS
//!        |                    namespaces, caps   namespaces, addresses, routes;
//!        |                    processors         starts programs when asked
//!        |-- router <--------- descriptor of the host's interface
//!        '-- switches <------- `eth0` of hosts on an Ethernet
//! ```
//!
//! Nothing has a name outside, so nothing can be left behind: namespaces are held by the processes
//! in them alone. When the lab's process goes, however it goes, the first process of each host
//! reads the end of its line and leaves, and with it the kernel ends all others; if the outer
//! process goes first, the kernel kills the first one. Where the user is not root, root inside is
//! the user outside.
//!
//! Namespaces must be made before a process has threads, so each host is the program itself,
//! started anew (`loadline lab host`), not a fork of the lab's process: a [`Lab`] can be started
//! from any thread.

mod child;
mod entered;
mod error;
mod handle;
mod inside;
mod lab;
mod machine;
mod message;
mod netlink;
mod program;
mod refusal;
mod running;
mod switch;

pub use child::{Child, Exit, Finished};
pub use entered::Entered;
pub use error::{HostError, LabError};
pub use handle::{Host, Traffic, Usage};
pub use inside::serve;
pub use lab::Lab;
pub use machine::{Machine, Options, PortChoice, Processors, Tcp};
pub use program::{Output, Program};
pub use refusal::Refusal;
pub use running::{Announced, Running, RunningError, RunningHost, announced, running};
pub use rustix::process::Signal;
