//! The file with the process id.

use std::{
    fs::{self, Permissions},
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

/// The path of the file.
#[derive(Debug)]
pub(super) struct PidFile(pub(super) PathBuf);

impl PidFile {
    /// Puts the id of this process there, in the place of another id. Whoever reads it meanwhile
    /// finds one id or the other.
    pub(super) fn write(&self) -> anyhow::Result<()> {
        if loadline_control::has_other_content(&self.0) {
            let path = self.0.display();
            anyhow::bail!("cannot write the process id to {path}, which has something else in it");
        }
        let directory = self.0.parent().filter(|it| *it != Path::new(""));
        let directory = directory.unwrap_or(Path::new("."));
        let readable = Permissions::from_mode(0o644);
        let mut next = tempfile::Builder::new();
        let next = next.prefix(".loadline-").permissions(readable);
        // Where there is no directory, nothing is said of a file that was to be in it.
        let made = fs::metadata(directory).and_then(|_| next.tempfile_in(directory));
        let written = made.and_then(|mut file| {
            writeln!(file, "{}", std::process::id())?;
            Ok(file.persist(&self.0)?)
        });
        written.map(drop).with_context(|| {
            let path = self.0.display();
            format!("cannot write the process id to {path}, whose directory must be writable")
        })
    }

    /// Removes it, unless another process has put its own id there.
    pub(super) fn remove(&self) {
        let Ok(text) = fs::read_to_string(&self.0) else { return };
        if text.trim().parse() != Ok(std::process::id()) {
            return;
        }
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "the file cannot be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_process_id_stays_whole() {
        let directory = tempfile::tempdir().unwrap();
        let file = PidFile(directory.path().join("loadline.toml"));
        fs::write(&file.0, "[edge]\n").unwrap();
        let error = file.write().unwrap_err().to_string();
        assert!(error.contains("something else"), "{error}");
        assert_eq!(fs::read_to_string(&file.0).unwrap(), "[edge]\n");
        fs::write(&file.0, "").unwrap();
        file.write().unwrap();
    }

    #[test]
    fn the_id_of_another_process_stays_and_ones_own_goes() {
        let directory = tempfile::tempdir().unwrap();
        let file = PidFile(directory.path().join("pid"));
        fs::write(&file.0, "1\n").unwrap();
        file.remove();
        assert_eq!(fs::read_to_string(&file.0).unwrap(), "1\n");
        file.write().unwrap();
        let own = format!("{}\n", std::process::id());
        assert_eq!(fs::read_to_string(&file.0).unwrap(), own);
        file.remove();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
