//! The machine that a study runs on: what its figures cannot be read without.

use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::super::{Study, Tool};

/// Kernel, processors, memory, and the version of every tool that is installed.
pub(super) fn environment(study: &Study) -> BTreeMap<String, String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let line = |text: &str, key: &str| {
        let found = text.lines().find(|line| line.starts_with(key));
        found.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    let (cpu, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let mut all = BTreeMap::new();
    let mut note = |name: &str, value: Option<String>| {
        all.extend(value.filter(|value| !value.is_empty()).map(|value| (name.to_owned(), value)));
    };
    note("kernel", Some(read("/proc/sys/kernel/osrelease").trim().to_owned()));
    note("processor", line(&cpu, "model name"));
    note("cores", Some(cores.to_string()));
    note("memory", line(&memory, "MemTotal"));
    note("loadline", Some(env!("CARGO_PKG_VERSION").to_owned()));
    for tool in study.tools() {
        note(&tool.name, tool_version(tool));
    }
    all
}

/// The first line of what a tool says of its version; none where it is not installed.
#[must_use]
pub fn tool_version(tool: &Tool) -> Option<String> {
    let (program, arguments) = tool.version.split_first()?;
    let output =
        Command::new(find_program(program)?).args(arguments).stdin(Stdio::null()).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    said.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

/// The path of a program: as given where that is a path, else from the `PATH` and from where
/// systems keep what administrators use.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return is_program(Path::new(name)).then(|| PathBuf::from(name));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SYSTEM.map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    let executable =
        |metadata: fs::Metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0;
    fs::metadata(path).is_ok_and(executable)
}

/// Where HAProxy and nginx are, and the `PATH` of ordinary users does not look.
const SYSTEM: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
