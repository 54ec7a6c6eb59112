//! What a host has of the file system for itself: `/etc/hosts`, `/etc/resolv.conf`, `/proc` and
//! `/sys`. All else is the machine's.

use std::{ffi::CStr, fs, io};

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};

use super::super::message::Failure;

/// Makes a mount namespace for this process, and puts them in place there.
pub(super) fn set_up(hosts: &str, notes: &mut Vec<String>) -> Result<(), Failure> {
    // First of all, and here: without a namespace of its own, this would change the machine. The
    // outer process keeps the machine's view, which it needs to remove a cgroup.
    unshare(CloneFlags::CLONE_NEWNS).map_err(Failure::of("make a mount namespace"))?;
    // What is mounted here is not to be seen outside.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(Failure::of("keep its mounts to itself"))?;
    name_files(hosts, notes).map_err(Failure::of("make its /etc/hosts"))?;
    let none: Option<&CStr> = None;
    if let Err(error) = mount("proc", "/proc", "proc", MountFlags::empty(), none) {
        notes.push(format!(
            "hosts see all processes of the machine, and their processor time is not counted: \
             /proc cannot be mounted ({error})"
        ));
    }
    // Without it, programs that look up interfaces there do not find the host's.
    let _ = mount("sysfs", "/sys", "sysfs", MountFlags::empty(), none);
    Ok(())
}

fn name_files(hosts: &str, notes: &mut Vec<String>) -> io::Result<()> {
    // The files need a place to be made in, which may go once they are bound where they belong:
    // any directory will do that there is everywhere.
    let none: Option<&CStr> = None;
    mount("loadline", PLACE, "tmpfs", MountFlags::empty(), none)?;
    let mut bind = || -> io::Result<()> {
        for (name, text) in [("hosts", hosts), ("resolv.conf", RESOLVER)] {
            let made = format!("{PLACE}/{name}");
            fs::write(&made, text)?;
            if let Err(error) = mount_bind(&made, format!("/etc/{name}")) {
                notes.push(format!("hosts share the machine's /etc/{name}: {error}"));
            }
        }
        Ok(())
    };
    let bound = bind();
    unmount(PLACE, UnmountFlags::DETACH)?;
    bound
}

const PLACE: &str = "/proc";

/// Names that are not in `/etc/hosts` are unknown at once: nobody listens there.
const RESOLVER: &str = "# A host of the lab knows the names in /etc/hosts alone.\n\
                        nameserver 127.0.0.1\n";
