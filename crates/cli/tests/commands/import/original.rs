//! The program that a configuration was written for, beside `loadline serve` on what was imported.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use super::loadline;

/// A process that is ended when it is dropped.
pub(super) struct Running {
    process: Child,
    log: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Running {
    fn start(mut command: Command, log: PathBuf, address: &str) -> Self {
        let file = fs::File::create(&log).unwrap();
        command.stdout(file.try_clone().unwrap()).stderr(file).stdin(Stdio::null());
        let mut running = Self { process: command.spawn().unwrap(), log };
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(address).is_err() {
            let ended = running.process.try_wait().unwrap();
            let log = || fs::read_to_string(&running.log).unwrap();
            assert!(ended.is_none() && Instant::now() < until, "{ended:?}: {}", log());
            thread::sleep(Duration::from_millis(20));
        }
        running
    }
}

/// A port of the loopback on which nobody listens, and that the kernel gives to nobody who asks for
/// any (`ip_local_port_range`): it is taken only later.
pub(super) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    let mut ports = std::iter::repeat_with(|| NEXT.fetch_add(1, Relaxed)).take(10_000);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

/// Starts HAProxy or nginx with the configuration; it listens at `address` then.
pub(super) fn start(folder: &str, text: &str, directory: &Path, address: &str) -> Running {
    let log = directory.join("original.log");
    let file = directory.join("original.conf");
    let command = if folder == "haproxy" {
        // Of what it may do as root nothing is tried, nor how many descriptors there are.
        let unwanted = [
            "chroot", "user ", "group ", "uid ", "gid ", "daemon", "stats socket", "maxconn",
            "lua-load",
        ];
        let kept =
            text.lines().filter(|it| !unwanted.iter().any(|word| it.trim().starts_with(word)));
        fs::write(&file, kept.collect::<Vec<_>>().join("\n") + "\n").unwrap();
        let mut command = Command::new("haproxy");
        command.args(["-db", "-f"]).arg(&file);
        command
    } else {
        let http = if text.contains("http {") {
            text.to_owned()
        } else {
            format!("events {{ }}\nhttp {{\n{text}\n}}\n")
        };
        let own = directory.display();
        let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let folders = kinds.map(|kind| format!("{kind}_temp_path {own}/{kind};\n")).concat();
        let first = format!("http {{\naccess_log off;\n{folders}");
        let http = http.replacen("http {", &first, 1);
        let kept =
            http.lines().filter(|line| !line.contains("/var/log") && !line.contains("include"));
        fs::write(&file, kept.collect::<Vec<_>>().join("\n")).unwrap();
        let mut command = Command::new("nginx");
        let main = format!("daemon off; master_process off; pid {own}/pid; error_log stderr;");
        command.arg("-e").arg("stderr").arg("-g").arg(main).arg("-c").arg(&file);
        command
    };
    Running::start(command, log, address)
}

/// Imports the configuration and serves it; it listens at `address` then.
pub(super) fn serve_imported(folder: &str, text: &str, directory: &Path, address: &str) -> Running {
    let from = directory.join("imported.conf");
    let to = directory.join("loadline.toml");
    fs::write(&from, text).unwrap();
    let program = ["import", "--from", folder, "-o", to.to_str().unwrap(), from.to_str().unwrap()];
    let imported = loadline(&program);
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let checked = loadline(&["check", to.to_str().unwrap()]);
    let file = || fs::read_to_string(&to).unwrap();
    assert!(checked.status.success(), "{}\n{}", String::from_utf8_lossy(&checked.stderr), file());
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.arg("serve").arg(&to);
    Running::start(command, directory.join("loadline.log"), address)
}
