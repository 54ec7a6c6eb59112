//! The outer process of a host: makes the namespaces that only children enter, starts the first
//! process in them and waits for its end.

use std::{
    fs::{self, File},
    io,
    process::{Child, Command},
};

use nix::sched::{CloneFlags, unshare};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::{
    super::message::{Channel, Enclose, Enclosed, Failure},
    ARGUMENTS,
    group::Group,
};

/// Does what the lab says, until the host has ended.
pub(super) fn run(channel: Channel) -> io::Result<()> {
    let Some((request, _)) = channel.receive::<Enclose>()? else { return Ok(()) };
    let mut notes = Vec::new();
    let group = request.share_ppm.and_then(|share| {
        let made = Group::enter(&request.host, share);
        made.map_err(|why| notes.push(format!("no processor share for {}: {why}", request.host)))
            .ok()
    });
    let begun = begin(&request);
    let (mut init, rootless) = match begun {
        Ok(begun) => begun,
        Err(failure) => return channel.send(&Err::<Enclosed, _>(failure), &[]),
    };
    let enclosed = Enclosed { init: init.id(), rootless, notes };
    channel.send(&Ok::<_, Failure>(enclosed), &[])?;
    // From here on the line is between the lab and the first process alone.
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    drop(channel);
    init.wait()?;
    group.map_or(Ok(()), Group::leave)
}

/// Starts the first process; tells whether it is root inside alone.
fn begin(request: &Enclose) -> Result<(Child, bool), Failure> {
    if !request.processors.is_empty() {
        let mut set = CpuSet::new();
        request.processors.iter().for_each(|&processor| set.set(processor));
        sched_setaffinity(None, &set).map_err(Failure::of("keep to its processors"))?;
    }
    let rootless = separate().map_err(|failure| Failure { refused: true, ..failure })?;
    let init = Command::new("/proc/self/exe").args(ARGUMENTS).spawn();
    Ok((init.map_err(Failure::of("start its first process"))?, rootless))
}

/// Makes a PID namespace for children; in a user namespace where it does not work without.
fn separate() -> Result<bool, Failure> {
    if unshare(CloneFlags::CLONE_NEWPID).is_ok() {
        return Ok(false);
    }
    // They are the user's outside, and must be known before the new namespace knows none.
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    unshare(CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWUSER)
        .map_err(Failure::of("make a user namespace"))?;
    let write = |file: &str, text: String| {
        fs::write(format!("/proc/self/{file}"), text)
            .map_err(Failure::of(format!("write /proc/self/{file} of a user namespace")))
    };
    // The kernel asks for it before it lets a user map a group.
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("0 {} 1", user.as_raw()))?;
    write("gid_map", format!("0 {} 1", group.as_raw()))?;
    Ok(true)
}
