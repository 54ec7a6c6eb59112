//! Memory in pages of 2 MB: a simulation of many servers looks all over a large memory, and spends
//! a third of its time on searching for pages of 4 kB.

use std::{env, os::unix::process::CommandExt as _, path::PathBuf, process::Command};

/// Begins the program anew with such pages, unless its user has set up the allocator: that reads
/// its settings before `main`. Goes on without them where that fails.
pub(super) fn use_huge_pages() {
    if env::var_os(ALLOCATOR).is_some() {
        return;
    }
    let mut arguments = env::args_os();
    let mut program = Command::new(program_path());
    program.arg0(arguments.next().unwrap_or_default()).args(arguments);
    let error = program.env(ALLOCATOR, "thp:always,metadata_thp:always").exec();
    tracing::debug!(%error, "cannot use huge pages");
}

/// The program by its own name, which is that of the process in `ps` and `top`; where the file is
/// gone, by the kernel's.
fn program_path() -> PathBuf {
    let own = env::current_exe().ok().filter(|path| path.exists());
    own.unwrap_or_else(|| "/proc/self/exe".into())
}

/// What jemalloc reads.
const ALLOCATOR: &str = "_RJEM_MALLOC_CONF";

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel names a process after the file that it executes.
    #[test]
    fn a_simulation_is_named_like_the_program() {
        let name = program_path().file_name().map(ToOwned::to_owned);
        let own = env::current_exe().unwrap();
        assert_eq!(name.as_deref(), own.file_name());
    }
}
