//! Memory in pages of 2 MB: a simulation of many servers looks all over a large memory, and spends
//! a third of its time on searching for pages of 4 kB.

use std::{env, os::unix::process::CommandExt as _, process::Command};

/// Begins the program anew with such pages, unless its user has set up the allocator: that reads
/// its settings before `main`. Goes on without them where that fails.
pub(super) fn use_huge_pages() {
    if env::var_os(ALLOCATOR).is_some() {
        return;
    }
    let mut arguments = env::args_os();
    let mut program = Command::new("/proc/self/exe");
    program.arg0(arguments.next().unwrap_or_default()).args(arguments);
    let error = program.env(ALLOCATOR, "thp:always,metadata_thp:always").exec();
    tracing::debug!(%error, "cannot use huge pages");
}

/// What jemalloc reads.
const ALLOCATOR: &str = "_RJEM_MALLOC_CONF";
