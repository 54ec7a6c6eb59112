//! What runs in the processes of a host.
//!
//! The same program is started twice over: once outside, where it makes the namespaces that only
//! children enter, and once as their first process. Each reads from the line in the place of its
//! standard input what it is to do.

mod files;
mod group;
mod init;
mod network;
mod outer;
mod reaper;
mod requests;
mod usage;

use std::{io, process};

use super::message::Channel;

/// What a program is called with to become a host.
pub(super) const ARGUMENTS: [&str; 2] = ["lab", "host"];

/// Is a process of a host until the host ends. To be called by the program of
/// [`Options::program`](super::Options::program) before it starts a thread.
///
/// # Errors
/// Where this process was not started by a [`Lab`](super::Lab), or the line breaks.
pub fn serve() -> io::Result<()> {
    let channel = Channel::from_stdin()?;
    if process::id() == 1 { init::run(&channel) } else { outer::run(channel) }
}
