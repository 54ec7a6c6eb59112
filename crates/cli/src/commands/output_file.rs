//! A file that a result goes to: opened before a run, written after it.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

/// It keeps what it holds until there is a result.
#[derive(Debug)]
pub(super) struct OutputFile {
    path: PathBuf,
    file: File,
}

impl OutputFile {
    /// The file of a result; a pipe or a device will do.
    ///
    /// # Errors
    /// Where it cannot be written. An hour's run should not end in such a file.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let opened = File::options().write(true).create(true).truncate(false).open(path);
        let file = opened.with_context(|| cannot_write(path))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// The same in a folder that is made where there is none.
    ///
    /// # Errors
    /// Where the folder cannot be made, or the file not be written.
    pub(super) fn open_in_folder(path: &Path) -> anyhow::Result<Self> {
        if let Some(folder) = path.parent() {
            let made = std::fs::create_dir_all(folder);
            made.with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
        }
        Self::open(path)
    }

    /// Replaces what it holds.
    ///
    /// # Errors
    /// Where it cannot be written any more.
    pub(super) fn write(&mut self, result: &str) -> anyhow::Result<()> {
        self.replace(result).with_context(|| cannot_write(&self.path))
    }

    fn replace(&mut self, result: &str) -> std::io::Result<()> {
        // Nothing else has a length that could be set.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(result.as_bytes())
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write `{}`", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_result_replaces_what_its_file_held_and_not_before_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        fs::write(&path, "a longer record of before").unwrap();
        let mut file = OutputFile::open(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a longer record of before");
        file.write("{}\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}\n");
    }

    #[test]
    fn a_result_goes_to_what_is_no_regular_file_and_says_where_it_could_not_go() {
        OutputFile::open(Path::new("/dev/null")).unwrap().write("{}\n").unwrap();
        let full = OutputFile::open(Path::new("/dev/full")).unwrap().write("{}\n");
        let error = format!("{:#}", full.unwrap_err());
        assert!(error.contains("`/dev/full`: No space left"), "{error}");
    }
}
