//! The file that a record goes to: opened before a run, written after it.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

/// It keeps what it holds until there is a record.
#[derive(Debug)]
pub(super) struct RecordFile {
    path: PathBuf,
    file: File,
}

impl RecordFile {
    /// The file of a record; a pipe or a device will do.
    ///
    /// # Errors
    /// Where it cannot be written. An hour's run should not end in such a file.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let opened = File::options().write(true).create(true).truncate(false).open(path);
        let file = opened.with_context(|| cannot_write(path))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Replaces what it holds.
    ///
    /// # Errors
    /// Where it cannot be written any more.
    pub(super) fn write(&mut self, record: &str) -> anyhow::Result<()> {
        self.replace(record).with_context(|| cannot_write(&self.path))
    }

    fn replace(&mut self, record: &str) -> std::io::Result<()> {
        // Nothing else has a length that could be set.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(record.as_bytes())
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write the record to `{}`", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_record_replaces_what_its_file_held_and_not_before_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        fs::write(&path, "a longer record of before").unwrap();
        let mut file = RecordFile::open(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a longer record of before");
        file.write("{}\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}\n");
    }

    #[test]
    fn a_record_goes_to_what_is_no_regular_file_and_says_where_it_could_not_go() {
        RecordFile::open(Path::new("/dev/null")).unwrap().write("{}\n").unwrap();
        let full = RecordFile::open(Path::new("/dev/full")).unwrap().write("{}\n");
        let error = format!("{:#}", full.unwrap_err());
        assert!(error.contains("`/dev/full`: No space left"), "{error}");
    }
}
