//! A cgroup that holds a host to its share of processor time, in either version of cgroups.
//!
//! The share is given in periods of 100 ms: a host with 20 % has at most 20 ms of processor time
//! in each, on all its processors together. The group is removed when the host ends; if the outer
//! process is killed instead, the next host to be started removes it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process, thread,
    time::Duration,
};

/// The group that this process is in, with the host to come.
pub(super) struct Group {
    group: PathBuf,
    /// Where this process was before.
    home: PathBuf,
}

/// Where groups can be made, and how they are told their share.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// The directory to make them in.
    parent: PathBuf,
    /// The group of this process.
    home: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Group {
    /// Makes a group for a host and moves this process there. Says in words why it cannot.
    pub(super) fn enter(host: &str, share_ppm: u32) -> Result<Self, String> {
        let places = places(
            &fs::read_to_string("/proc/self/mounts").unwrap_or_default(),
            &fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
        );
        let mut why = "there is no cgroup controller of processor time".to_owned();
        for place in places {
            match place.enter(host, share_ppm) {
                Ok(group) => return Ok(group),
                Err(error) => {
                    let parent = place.parent.display();
                    why = format!("this user cannot make a cgroup in {parent} ({error})");
                }
            }
        }
        Err(why)
    }

    /// Moves this process back and removes the group, which is empty then.
    pub(super) fn leave(self) -> io::Result<()> {
        fs::write(self.home.join(PROCESSES), process::id().to_string())?;
        for _ in 0..ATTEMPTS {
            // The kernel may still be at taking the dead apart.
            if fs::remove_dir(&self.group).is_ok() {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
        fs::remove_dir(&self.group)
    }
}

impl Place {
    fn enter(&self, host: &str, share_ppm: u32) -> io::Result<Group> {
        self.sweep();
        let group = self.parent.join(format!("{PREFIX}{host}-{}", process::id()));
        fs::create_dir(&group)?;
        self.limit(&group, share_ppm).inspect_err(|_| {
            // It is empty; where it stays all the same, the next host tries again.
            let _ = fs::remove_dir(&group);
        })?;
        Ok(Group { group, home: self.home.clone() })
    }

    fn limit(&self, group: &Path, share_ppm: u32) -> io::Result<()> {
        let quota = u64::from(share_ppm) * PERIOD_MICROS / 1_000_000;
        match self.version {
            Version::One => {
                fs::write(group.join("cpu.cfs_period_us"), PERIOD_MICROS.to_string())?;
                fs::write(group.join("cpu.cfs_quota_us"), quota.to_string())?;
            }
            Version::Two => fs::write(group.join("cpu.max"), format!("{quota} {PERIOD_MICROS}"))?,
        }
        fs::write(group.join(PROCESSES), process::id().to_string())
    }

    /// Removes groups of hosts whose outer process was killed.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.parent) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            let Some((_, pid)) = name.and_then(|name| name.rsplit_once('-')) else { continue };
            if !Path::new("/proc").join(pid).exists() {
                // It fails where somebody is still in it.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

/// Where groups with a share could be made, the best first, from the kernel's tables of mounts and
/// of this process's groups.
fn places(mounts: &str, own: &str) -> Vec<Place> {
    let mut found = Vec::new();
    for mount in mounts.lines() {
        let mut words = mount.split(' ').skip(1);
        let (Some(at), Some(kind), Some(options)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let at = Path::new(at);
        if kind == "cgroup" && options.split(',').any(|option| option == "cpu") {
            let home = at.join(path_in(own, |controllers| has_word(controllers, "cpu")));
            found.push(Place { parent: home.clone(), home, version: Version::One });
        }
        if kind == "cgroup2" {
            let home = at.join(path_in(own, str::is_empty));
            // A group with processes gives its children nothing, so they are put beside it.
            let parents = home.ancestors().take_while(|parent| parent.starts_with(at));
            let gives = |parent: &&Path| {
                let children = fs::read_to_string(parent.join("cgroup.subtree_control"));
                children.is_ok_and(|text| text.split_whitespace().any(|word| word == "cpu"))
            };
            let place = |parent: &Path| Place {
                parent: parent.to_owned(),
                home: home.clone(),
                version: Version::Two,
            };
            found.extend(parents.filter(gives).map(place));
        }
    }
    found
}

/// The path of this process's group, of the hierarchy with such controllers, below its mount.
fn path_in(own: &str, controllers: impl Fn(&str) -> bool) -> &str {
    let path = own.lines().find_map(|line| {
        let (these, path) = line.split_once(':')?.1.split_once(':')?;
        controllers(these).then_some(path)
    });
    path.unwrap_or("/").trim_start_matches('/')
}

fn has_word(list: &str, word: &str) -> bool {
    list.split(',').any(|one| one == word)
}

const PROCESSES: &str = "cgroup.procs";

const PREFIX: &str = "loadline-";

/// The kernel's own choice: short enough that no request notices, long enough to cost nothing.
const PERIOD_MICROS: u64 = 100_000;

const ATTEMPTS: usize = 50;
const PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_version_has_its_group_below_this_process() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
                      cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n";
        let own = "5:cpuset:/\n4:cpu,cpuacct:/some/job\n0::/else\n";
        let home = PathBuf::from("/sys/fs/cgroup/cpu,cpuacct/some/job");
        let place = Place { parent: home.clone(), home, version: Version::One };
        assert_eq!(places(mounts, own), [place]);
    }

    #[test]
    fn the_second_version_has_it_where_children_are_given_processor_time() {
        let root = tempfile::tempdir().unwrap();
        let slice = root.path().join("user.slice/session");
        fs::create_dir_all(&slice).unwrap();
        fs::write(root.path().join("cgroup.subtree_control"), "cpuset memory\n").unwrap();
        let gives = root.path().join("user.slice");
        fs::write(gives.join("cgroup.subtree_control"), "memory cpu\n").unwrap();
        let mounts = format!("cgroup2 {} cgroup2 rw,nsdelegate 0 0\n", root.path().display());
        let place = Place { parent: gives, home: slice, version: Version::Two };
        assert_eq!(places(&mounts, "0::/user.slice/session\n"), [place]);
    }

    #[test]
    fn without_cgroups_there_is_no_place() {
        assert_eq!(places("proc /proc proc rw 0 0\n", ""), []);
    }
}
