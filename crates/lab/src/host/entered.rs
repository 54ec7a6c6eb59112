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
    /// is `init`. Programs that it starts from then on run there; it does itself as far as files
    /// and network go. It must be the user who started the lab.
    ///
    /// # Errors
    /// [`HostError::Gone`] where there is no such process, else the system's.
    pub fn host(name: &str, init: u32) -> Result<Self, HostError> {
        let failed = |what: &'static str| {
            let (host, what) = (name.to_owned(), what.to_owned());
            move |source| HostError::Failed { host, what, source }
        };
        let dir = env::current_dir();
        let open = |kind: &str| File::open(format!("/proc/{init}/ns/{kind}"));
        if !fs::exists(format!("/proc/{init}/ns")).unwrap_or(false) {
            return Err(HostError::Gone { host: name.to_owned() });
        }
        // All are opened before the first is entered, after which this /proc may be another.
        let opened = (|| -> io::Result<_> {
            let user = is_another(init, "user")?.then(|| open("user")).transpose()?;
            let others = KINDS.map(|(kind, entry)| open(kind).map(|file| (file, entry)));
            Ok((user, others.into_iter().collect::<io::Result<Vec<_>>>()?))
        })();
        let (user, others) = opened.map_err(failed("be looked into"))?;
        let user = user.map(|file| (file, LinkNameSpaceType::User));
        for (namespace, kind) in user.into_iter().chain(others) {
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
