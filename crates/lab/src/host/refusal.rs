//! What a system that gives no namespaces refuses, and the setting that would change it.
//!
//! | what the kernel says | usual cause |
//! |---|---|
//! | `EPERM`, and `kernel.unprivileged_userns_clone` is 0 | Debian's switch |
//! | `EPERM` or `EACCES`, and `kernel.apparmor_restrict_unprivileged_userns` is 1 | Ubuntu's |
//! | `ENOSPC` | `user.max_user_namespaces` (or `max_net_namespaces`) is used up or 0 |
//! | `EPERM` otherwise | the seccomp filter of a container |
//! | `EINVAL`, `ENOSYS` | a kernel without them |

use std::fs;

use rustix::io::Errno;

/// The system refuses what a host is made of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this system refuses a host of the lab: cannot {what}: {reason}; {advice}")]
pub struct Refusal {
    /// What was refused.
    pub what: String,
    /// What the system says.
    pub reason: String,
    /// What to change.
    pub advice: String,
}

/// Settings of the kernel that decide who may have namespaces; none where a kernel has no such
/// switch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Switches {
    unprivileged_clone: Option<u64>,
    apparmor_restricts: Option<u64>,
    most_user_namespaces: Option<u64>,
}

impl Switches {
    /// As they are.
    pub(super) fn read() -> Self {
        let read = |name: &str| {
            let text = fs::read_to_string(format!("/proc/sys/{name}")).ok()?;
            text.trim().parse().ok()
        };
        Self {
            unprivileged_clone: read("kernel/unprivileged_userns_clone"),
            apparmor_restricts: read("kernel/apparmor_restrict_unprivileged_userns"),
            most_user_namespaces: read("user/max_user_namespaces"),
        }
    }

    /// What to change where the kernel gave this error.
    pub(super) fn advice(self, errno: Option<i32>) -> String {
        let is = |one: Errno| errno == Some(one.raw_os_error());
        let denied = is(Errno::PERM) || is(Errno::ACCESS);
        let advice = if denied && self.unprivileged_clone == Some(0) {
            "allow user namespaces with `sysctl kernel.unprivileged_userns_clone=1`"
        } else if denied && self.apparmor_restricts.is_some_and(|on| on != 0) {
            "let AppArmor allow them with `sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
        } else if is(Errno::NOSPC) && self.most_user_namespaces == Some(0) {
            "allow user namespaces with `sysctl user.max_user_namespaces=10000`"
        } else if is(Errno::NOSPC) {
            "too many namespaces exist: end other labs, or raise `sysctl user.max_net_namespaces` \
             and `user.max_user_namespaces`"
        } else if denied {
            "in a container, let its seccomp filter pass `unshare` and `mount`: for Docker and \
             Podman `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`"
        } else {
            "it takes a kernel with user, PID, mount, UTS and network namespaces"
        };
        format!("{advice}; or run as root of the machine")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(errno: Errno, switches: Switches) -> String {
        switches.advice(Some(errno.raw_os_error()))
    }

    #[test]
    fn each_cause_has_its_remedy() {
        let none = Switches::default();
        let debian = Switches { unprivileged_clone: Some(0), ..none };
        let ubuntu = Switches { apparmor_restricts: Some(1), ..none };
        let zero = Switches { most_user_namespaces: Some(0), ..none };
        let cases = [
            (advice(Errno::PERM, debian), "kernel.unprivileged_userns_clone=1"),
            (advice(Errno::ACCESS, ubuntu), "apparmor_restrict_unprivileged_userns=0"),
            (advice(Errno::NOSPC, zero), "user.max_user_namespaces=10000"),
            (advice(Errno::NOSPC, none), "end other labs"),
            (advice(Errno::PERM, none), "seccomp"),
            (advice(Errno::INVAL, none), "takes a kernel with"),
        ];
        for (said, part) in cases {
            assert!(said.contains(part), "`{said}` does not say `{part}`");
            assert!(said.ends_with("as root of the machine"));
        }
    }

    #[test]
    fn a_switch_that_allows_is_not_blamed() {
        let open = Switches {
            unprivileged_clone: Some(1),
            apparmor_restricts: Some(0),
            ..Switches::default()
        };
        assert!(advice(Errno::PERM, open).contains("seccomp"));
    }
}
