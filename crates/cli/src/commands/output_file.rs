//! A file that a result goes to: opened before a run, written after it.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

/// It keeps what it holds until there is a result.
#[derive(Debug)]
pub(super) struct OutputFile {
    path: PathBuf,
    file: File,
    /// It was made for a result that has not come.
    is_in_vain: bool,
}

impl OutputFile {
    /// The file of a result; a pipe or a device will do.
    ///
    /// # Errors
    /// Where it cannot be written. An hour's run should not end in such a file.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let is_in_vain = !path.exists();
        let opened = File::options().write(true).create(true).truncate(false).open(path);
        let file = opened.with_context(|| cannot_write(path))?;
        Ok(Self { path: path.to_owned(), file, is_in_vain })
    }

    /// As [`Self::open`], where a file is asked for; `-` is none, but the standard output.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(super) fn asked(path: Option<&Path>) -> anyhow::Result<Option<Self>> {
        path.filter(|path| path.as_os_str() != STDOUT).map(Self::open).transpose()
    }

    /// The same in a folder that is made where there is none.
    ///
    /// # Errors
    /// Where the folder cannot be made, or the file not be written.
    pub(super) fn open_in_folder(path: &Path) -> anyhow::Result<Self> {
        if let Some(folder) = path.parent() {
            let made = fs::create_dir_all(folder);
            made.with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
        }
        Self::open(path)
    }

    /// Replaces what it holds.
    ///
    /// # Errors
    /// Where it cannot be written any more.
    pub(super) fn write(&mut self, result: &str) -> anyhow::Result<()> {
        self.is_in_vain = false;
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

impl Drop for OutputFile {
    /// An empty file would look like a result.
    fn drop(&mut self) {
        if self.is_in_vain {
            // Where it cannot be removed it stays: nothing follows from it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether a record is printed instead of its page: for `--json`, and for `-o -`.
pub(super) fn is_printed(json: bool, output: Option<&Path>) -> bool {
    json || output.is_some_and(|path| path.as_os_str() == STDOUT)
}

/// What the standard output is called where a file is asked for.
const STDOUT: &str = "-";

fn cannot_write(path: &Path) -> String {
    format!("cannot write `{}`", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_dash_is_the_standard_output_and_no_file() {
        let [dash, file] = ["-", "/dev/null"].map(|path| Some(Path::new(path)));
        assert!(is_printed(false, dash) && OutputFile::asked(dash).unwrap().is_none());
        assert!(!is_printed(false, file) && OutputFile::asked(file).unwrap().is_some());
        assert!(is_printed(true, None) && OutputFile::asked(None).unwrap().is_none());
    }

    #[test]
    fn a_run_without_a_result_leaves_no_file_and_what_was_there_before() {
        let folder = tempfile::tempdir().unwrap();
        let [new, old] = ["new.json", "old.json"].map(|name| folder.path().join(name));
        fs::write(&old, "").unwrap();
        for path in [&new, &old] {
            drop(OutputFile::open(path).unwrap());
        }
        assert_eq!((new.exists(), old.exists()), (false, true));
    }

    #[test]
    fn a_result_goes_to_what_is_no_regular_file_and_says_where_it_could_not_go() {
        OutputFile::open(Path::new("/dev/null")).unwrap().write("{}\n").unwrap();
        let full = OutputFile::open(Path::new("/dev/full")).unwrap().write("{}\n");
        let error = format!("{:#}", full.unwrap_err());
        assert!(error.contains("`/dev/full`: No space left"), "{error}");
    }
}
