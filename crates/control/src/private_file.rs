//! Files with secrets, readable to their owner alone.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// Replaces a file as a whole, mode 0600, so that a crash leaves the old one or the new one. What
/// is written first stands beside it, with `.new` behind its name.
///
/// # Errors
/// The system's; the file is as before then.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = Path::new(&name);
    // One that is left over may be of another mode.
    let _ = fs::remove_file(new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(new, path)?;
    path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}
