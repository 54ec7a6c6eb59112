//! A cache that the cases are tried on, as a process with its own folder, before one server.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use crate::ports::reserved;

/// The command of a cache with its own folder, on a port, before a server.
pub(crate) type Launcher = fn(&Path, u16, SocketAddr) -> Command;

/// A cache that runs; it ends when this is dropped.
pub(crate) struct Cache {
    process: Child,
    pub(crate) address: String,
    folder: tempfile::TempDir,
}

impl Cache {
    /// Starts a cache before the server at `origin`, and waits until it listens.
    pub(crate) fn start(command: Launcher, origin: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = reserved().port();
        let mut command = command(folder.path(), port, origin);
        let log = fs::File::create(folder.path().join("output.log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let process = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let address = format!("127.0.0.1:{port}");
        let mut cache = Self { process, address, folder };
        cache.wait_until_it_listens();
        cache
    }

    fn wait_until_it_listens(&mut self) {
        for _ in 0..STARTS_WITHIN_TENTHS {
            if TcpStream::connect(&self.address).is_ok() {
                return;
            }
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "ended at once: {}", self.log());
            thread::sleep(Duration::from_millis(100));
        }
        panic!("does not listen: {}", self.log());
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("output.log")).unwrap()
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // Some have children, which end with them if they are asked to.
        let id = self.process.id().to_string();
        let _ = Command::new("kill").arg(&id).status();
        for _ in 0..STARTS_WITHIN_TENTHS {
            if self.process.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One server and a cache with its defaults; servers are neither checked nor ejected, since they
/// fail as the cases want.
pub(crate) fn loadline(folder: &Path, port: u16, origin: SocketAddr) -> Command {
    let file = folder.join("loadline.toml");
    let text = format!(
        "[[listener]]\n\
         bind = \"127.0.0.1:{port}\"\n\
         service = \"origin\"\n\
         routes = [{{ path = \"/\", service = \"origin\", cache = {{}} }}]\n\
         [service.origin]\n\
         ejection = false\n\
         [[service.origin.group]]\n\
         servers = [\"{origin}\"]\n"
    );
    fs::write(&file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.arg("serve").arg(file);
    command
}

const STARTS_WITHIN_TENTHS: u32 = 200;
