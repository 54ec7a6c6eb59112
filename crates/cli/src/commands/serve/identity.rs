//! As whom the process goes on once it holds what only root may have.

use anyhow::{Context as _, bail};
use loadline_control::Process;
use nix::unistd::{Gid, Group, Uid, User, geteuid, initgroups, setgid, setuid};

/// A user and a group of the machine.
#[derive(Debug)]
pub(super) struct Identity {
    name: std::ffi::CString,
    uid: Uid,
    gid: Gid,
}

impl Identity {
    /// Whom the file asks for; none where it asks for nobody.
    pub(super) fn of(process: &Process) -> anyhow::Result<Option<Self>> {
        let Some(name) = &process.user else { return Ok(None) };
        let user = User::from_name(name).with_context(|| format!("looking for user `{name}`"))?;
        let user = user.with_context(|| format!("there is no user `{name}`: edge.user"))?;
        let gid = match &process.group {
            None => user.gid,
            Some(group) => {
                let known = Group::from_name(group);
                let known = known.with_context(|| format!("looking for group `{group}`"))?;
                known.with_context(|| format!("there is no group `{group}`: edge.group"))?.gid
            }
        };
        if user.uid != geteuid() && !geteuid().is_root() {
            bail!("only root can go on as `{name}`: start as root, or leave edge.user out");
        }
        let name = std::ffi::CString::new(name.as_str())?;
        Ok(Some(Self { name, uid: user.uid, gid }))
    }

    /// Sees to it that no thread started from now on can gain privileges by starting a program.
    pub(super) fn renounce() -> anyhow::Result<()> {
        rustix::thread::set_no_new_privs(true).context("renouncing privileges")
    }

    /// Becomes it, with its supplementary groups, for good.
    pub(super) fn assume(&self) -> anyhow::Result<()> {
        if geteuid() == self.uid {
            return Ok(());
        }
        initgroups(&self.name, self.gid).context("setting the supplementary groups")?;
        setgid(self.gid).context("setting the group")?;
        setuid(self.uid).context("setting the user")?;
        if setuid(Uid::from_raw(0)).is_ok() {
            bail!("root could be had again");
        }
        tracing::info!(user = ?self.name, uid = %self.uid, gid = %self.gid, "goes on as");
        Ok(())
    }

    /// Who it is, for files that are to be its own.
    pub(super) fn ids(&self) -> (u32, u32) {
        (self.uid.as_raw(), self.gid.as_raw())
    }
}
