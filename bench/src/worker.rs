//! Test servers of known capacity, `loadline worker fixed`, on the core of the load.

use anyhow::Result;

use crate::peers::Workshop;
use crate::process::Process;
use crate::run::LOAD_CORE;

/// Starts one on a port of loopback with these options.
pub(crate) fn start(port: u16, options: &[&str], workshop: &Workshop) -> Result<Process> {
    let listen = format!("127.0.0.1:{port}");
    let program = workshop.loadline.display().to_string();
    let arguments =
        ["worker", "fixed", "--listen", &listen].into_iter().chain(options.iter().copied());
    let command: Vec<String> =
        std::iter::once(program).chain(arguments.map(str::to_owned)).collect();
    let log = workshop.directory.join(format!("worker-{port}.log"));
    let mut server = Process::start(LOAD_CORE, &command, &log)?;
    server.wait_for(port)?;
    Ok(server)
}
