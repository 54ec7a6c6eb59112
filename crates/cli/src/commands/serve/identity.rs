//! Changes to `edge.user` and `edge.group` once everything that needs root is open.

use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt as _, fchown},
    path::Path,
};

use anyhow::{Context as _, bail};
use loadline_control::Process;
use loadline_core::fleet::{Fleet, LogTarget};
use nix::errno::Errno;
use nix::unistd::{
    Gid, Group, Uid, User, getegid, geteuid, getgrouplist, initgroups, setgid, setuid,
};
use rustix::fs::{Mode, OFlags, getxattr_query};

/// A user and a group of the machine.
#[derive(Debug)]
pub(crate) struct Identity {
    name: std::ffi::CString,
    uid: Uid,
    gid: Gid,
    /// Whether the file names the group.
    is_group_named: bool,
}

/// Why nobody can go on as whom the file asks for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IdentityError {
    /// There is no such user.
    #[error("there is no user `{0}`: edge.user")]
    User(String),
    /// There is no such group.
    #[error("there is no group `{0}`: edge.group")]
    Group(String),
    /// Only root can become another.
    #[error("only root can switch to `{0}`")]
    NotRoot(String),
    /// The machine does not say.
    #[error("cannot find out who `{name}` is: {why}")]
    Unknown { name: String, why: Errno },
}

impl Identity {
    /// Whom the file asks for; none where it asks for nobody.
    pub(crate) fn of(process: &Process) -> Result<Option<Self>, IdentityError> {
        let Some(name) = &process.user else { return Ok(None) };
        let unknown = |name: &String| {
            let name = name.clone();
            move |why| IdentityError::Unknown { name, why }
        };
        let user = User::from_name(name).map_err(unknown(name))?;
        let user = user.ok_or_else(|| IdentityError::User(name.clone()))?;
        let gid = match &process.group {
            None => user.gid,
            Some(group) => {
                let known = Group::from_name(group).map_err(unknown(group))?;
                known.ok_or_else(|| IdentityError::Group(group.clone()))?.gid
            }
        };
        if user.uid != geteuid() && !geteuid().is_root() {
            return Err(IdentityError::NotRoot(name.clone()));
        }
        // A name that the machine knows has no zero byte in it.
        let name = std::ffi::CString::new(name.as_str()).unwrap_or_default();
        Ok(Some(Self { name, uid: user.uid, gid, is_group_named: process.group.is_some() }))
    }

    /// Whether the mode of a directory, in which this process can make files, forbids it to make
    /// any there. Where there is an access control list, that decides, and nothing is known.
    pub(crate) fn is_kept_out_of(&self, directory: &Path) -> bool {
        let Ok(about) = fs::metadata(directory) else { return false };
        if self.uid.is_root() || self.uid == geteuid() {
            return false;
        }
        if getxattr_query(directory, ACCESS_LIST).is_ok() {
            return false;
        }
        let groups = getgrouplist(&self.name, self.gid).unwrap_or_default();
        let of_group = groups.contains(&Gid::from_raw(about.gid()));
        let shift = match about.uid() == self.uid.as_raw() {
            true => 6,
            false if of_group => 3,
            false => 0,
        };
        about.mode() >> shift & WRITE_AND_SEARCH != WRITE_AND_SEARCH
    }

    /// Sees to it that no thread started from now on can gain privileges by starting a program.
    pub(super) fn renounce() -> anyhow::Result<()> {
        rustix::thread::set_no_new_privs(true).context("renouncing privileges")
    }

    /// Gives it the file of the access log, which it will open again by its name. Never what a link
    /// in a directory of its own leads to: it could have any file of the machine.
    fn own_log(&self, fleet: &Fleet) -> anyhow::Result<()> {
        let log = fleet.edge.access_log.as_ref().map(|log| &log.to);
        let Some(LogTarget::File(path)) = log else { return Ok(()) };
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        // A link, a device or a pipe belongs to others as well.
        let Ok(file) = rustix::fs::open(path, flags, Mode::empty()).map(File::from) else {
            return Ok(());
        };
        let (user, group) = self.ids();
        let about = file.metadata().context("looking at the access log")?;
        if about.is_file() && about.nlink() == 1 && [0, user].contains(&about.uid()) {
            fchown(&file, Some(user), Some(group)).context("giving the access log to its user")?;
        }
        Ok(())
    }

    /// Becomes it, with its supplementary groups, for good.
    pub(super) fn assume(&self, fleet: &Fleet) -> anyhow::Result<()> {
        if geteuid() == self.uid {
            if self.is_group_named && getegid() != self.gid {
                tracing::warn!("edge.group has no effect: the process is edge.user from its start");
            }
            return Ok(());
        }
        self.own_log(fleet)?;
        initgroups(&self.name, self.gid).context("setting the supplementary groups")?;
        setgid(self.gid).context("setting the group")?;
        setuid(self.uid).context("setting the user")?;
        if setuid(Uid::from_raw(0)).is_ok() {
            bail!("cannot drop root permanently");
        }
        tracing::info!(user = ?self.name, uid = %self.uid, gid = %self.gid, "running as");
        Ok(())
    }

    /// Who it is, for files that are to be its own.
    pub(super) fn ids(&self) -> (u32, u32) {
        (self.uid.as_raw(), self.gid.as_raw())
    }
}

/// The bits of a mode that let somebody make files in a directory (inode(7)).
const WRITE_AND_SEARCH: u32 = 0o3;
/// What a directory with an access control list has (acl(5)).
const ACCESS_LIST: &str = "system.posix_acl_access";
