//! Clients of HTTP/3 that are no crates.

use std::path::PathBuf;

/// What `scripts/setup test` installed of this name; none where it could not.
pub(crate) fn installed(name: &str) -> Option<PathBuf> {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = target.with_file_name("http3-clients").join("bin").join(name);
    path.exists().then_some(path)
}
