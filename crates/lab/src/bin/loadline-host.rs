//! A process of a lab's host, for programs that use the library without being able to become one
//! themselves: see `loadline_lab::host::Options::program`.
//!
//! ```text
//! loadline-host lab host                        what the lab itself starts
//! loadline-host enter PID PROGRAM [ARGUMENT]... runs a program on the host with that first process
//! ```
#![forbid(unsafe_code)]

use std::{
    env, io,
    process::{Command, ExitCode},
};

use loadline_lab::host::{Entered, serve};

fn main() -> io::Result<ExitCode> {
    let mut words = env::args().skip(1);
    if words.next().as_deref() != Some("enter") {
        return serve().map(|()| ExitCode::SUCCESS);
    }
    let wrong = || io::Error::other("it is called as: loadline-host enter PID PROGRAM ARGUMENT...");
    let init = words.next().and_then(|word| word.parse().ok()).ok_or_else(wrong)?;
    let program = words.next().ok_or_else(wrong)?;
    let _entered = Entered::host("joined", init).map_err(io::Error::other)?;
    let status = Command::new(program).args(words).status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, Into::into))
}
