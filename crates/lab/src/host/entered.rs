//! Joining a host of a lab that another process holds.

use std::{
    env,
    fs::{self, File},
    io,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::os::fd::AsFd;

use super::HostError;

/// Proof that this process is on a host now: what it starts runs there.
#[derive(Debug)]
pub struct Entered(());

impl Entered {
    /// Moves this process, which must not have started a thread, onto the host whose first process
    /// is `init`. This process uses the host's files and network from then on; programs it starts
    /// run there. It must be the user who started the lab.
    ///
    /// # Errors
    /// [`HostError::Gone`] where there is no such process, else the system's.
    pub fn host(name: &str, init: u32) -> Result<Self, HostError> {
        let failed = |what: &'static str| {
            let (host, what) = (name.to_owned(), what.to_owned());
            move |source| HostError::Failed { host, what, source }
        };
        let dir = env::current_dir();
        if !fs::exists(format!("/proc/{init}/ns")).unwrap_or(false) {
            return Err(HostError::Gone { host: name.to_owned() });
        }
        // All are opened before the first is entered, after which this /proc may be another.
        let namespaces = open_namespaces(init).map_err(failed("be looked into"))?;
        for (namespace, kind) in namespaces {
            move_into_link_name_space(namespace.as_fd(), Some(kind))
                .map_err(io::Error::from)
                .map_err(failed("be entered"))?;
        }
        // A new mount namespace begins at its root.
        let back = dir.and_then(env::set_current_dir);
        back.or_else(|_| env::set_current_dir("/")).map_err(failed("be entered"))?;
        Ok(Self(()))
    }
}

/// The namespaces to enter, in their order; that of users only where it is another.
fn open_namespaces(init: u32) -> io::Result<Vec<(File, LinkNameSpaceType)>> {
    let user = is_another(init, "user")?.then_some(("user", LinkNameSpaceType::User));
    let kinds = user.into_iter().chain(KINDS);
    let open = |kind: &str| File::open(format!("/proc/{init}/ns/{kind}"));
    kinds.map(|(kind, entry)| open(kind).map(|file| (file, entry))).collect()
}

fn is_another(init: u32, kind: &str) -> io::Result<bool> {
    let own = fs::read_link(format!("/proc/self/ns/{kind}"))?;
    Ok(own != fs::read_link(format!("/proc/{init}/ns/{kind}"))?)
}

const KINDS: [(&str, LinkNameSpaceType); 4] = [
    ("net", LinkNameSpaceType::Network),
    ("uts", LinkNameSpaceType::HostNameAndNISDomainName),
    ("pid", LinkNameSpaceType::ProcessID),
    ("mnt", LinkNameSpaceType::Mount),
];
