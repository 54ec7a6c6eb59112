//! Real keepalived on a host.

use std::{
    fs::{Permissions, set_permissions, write},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::host::Host;

/// A running keepalived.
pub(crate) struct Keepalived(Child);

impl Keepalived {
    /// Writes its file and starts it, where it finds nothing wrong with the file.
    pub(crate) fn start(host: &Host, configuration: &str, path: &Path) -> Self {
        Self::test(host, configuration, path);
        let mut daemon = host.command("keepalived");
        daemon.args(["--dont-fork", "--log-console", "--vrrp", "--use-file"]).arg(path);
        for (option, name) in [("--pid", "pid"), ("--vrrp_pid", "vrrp.pid")] {
            daemon.arg(option).arg(path.with_extension(name));
        }
        Self(daemon.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Writes its file, with which there must be nothing wrong.
    pub(crate) fn test(host: &Host, configuration: &str, path: &Path) {
        write(path, configuration).unwrap();
        // keepalived reads no file that anybody may run.
        set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        let mut test = host.command("keepalived");
        let test = test.arg("--config-test").arg("--use-file").arg(path).output();
        let test = test.expect("keepalived: `scripts/setup test` installs it");
        let told = String::from_utf8_lossy(&test.stderr);
        assert!(test.status.success(), "{told}\n{configuration}");
    }
}

impl Drop for Keepalived {
    fn drop(&mut self) {
        // It ends its children too; `nsenter` has become it.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}
