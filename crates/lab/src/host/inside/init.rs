//! The first process of a host: sets the host up, then does what it is asked.

use std::{fs::File, io, os::fd::AsFd};

use nix::sched::{CloneFlags, unshare};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::{
    super::message::{Boot, Booted, Channel, Failure},
    files, network,
    requests::Requests,
};

/// Is the host until the lab ends it.
pub(super) fn run(channel: &Channel) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let Some((boot, _)) = channel.receive::<Boot>()? else { return Ok(()) };
    let (port, booted) = match set_up(&boot) {
        Ok(done) => done,
        Err(failure) => return channel.send(&Err::<Booted, _>(failure), &[]),
    };
    // Programs of the host are to find nothing at their standard input.
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    let requests = Requests::new()?;
    channel.send(&Ok::<_, Failure>(booted), &[port.as_fd()])?;
    drop(port);
    while let Some((request, descriptors)) = channel.receive()? {
        match requests.answer(request, descriptors) {
            Ok((reply, Some(descriptor))) => {
                channel.send(&Ok::<_, Failure>(reply), &[descriptor.as_fd()])?;
            }
            Ok((reply, None)) => channel.send(&Ok::<_, Failure>(reply), &[])?,
            Err(failure) => channel.send(&Err::<(), _>(failure), &[])?,
        }
    }
    Ok(())
}

fn set_up(boot: &Boot) -> Result<(std::os::fd::OwnedFd, Booted), Failure> {
    let mut notes = Vec::new();
    let refused = |failure: Failure| Failure { refused: true, ..failure };
    let namespaces = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWUTS;
    unshare(namespaces).map_err(Failure::of("make a network namespace")).map_err(refused)?;
    rustix::system::sethostname(boot.name.as_bytes()).map_err(Failure::of("take its name"))?;
    files::set_up(&boot.hosts_file, &mut notes).map_err(refused)?;
    let (descriptor, inner) = network::set_up(boot, &mut notes)?;
    Ok((descriptor, Booted { inner, notes }))
}
