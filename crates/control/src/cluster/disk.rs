//! What an edge remembers of its cluster, in a file of its state directory: who it is, which
//! cluster it belongs to, and the last configuration that was published.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::Published;
use crate::private_file;

/// The file, as it was last read or written.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    kept: Kept,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    instance: String,
    cluster: Option<String>,
    published: Option<Published>,
}

/// The file cannot be read, or written.
#[derive(Debug, thiserror::Error)]
#[error("cluster.state_dir: `{path}`: {source}")]
pub struct DiskError {
    path: String,
    source: io::Error,
}

impl Disk {
    /// Reads the file of this directory. One that is not there is an edge that is new.
    ///
    /// # Errors
    /// One that cannot be read; an edge that is new stands in its place.
    pub fn open(state_dir: &Path) -> (Self, Result<(), DiskError>) {
        let path = state_dir.join(FILE);
        let found = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        let (kept, outcome) = match found {
            Ok(kept) => (kept, Ok(())),
            Err(source) => (None, Err(DiskError { path: path.display().to_string(), source })),
        };
        let new = || Kept { instance: drawn(), cluster: None, published: None };
        (Self { path, kept: kept.unwrap_or_else(new) }, outcome)
    }

    /// The last configuration that was taken.
    #[must_use]
    pub fn published(&self) -> Option<&Published> {
        self.kept.published.as_ref()
    }

    pub(super) fn instance(&self) -> &str {
        &self.kept.instance
    }

    pub(super) fn cluster(&self) -> Option<&str> {
        self.kept.cluster.as_deref()
    }

    pub(super) fn keep_cluster(&mut self, id: &str) -> Result<(), DiskError> {
        if self.kept.cluster.as_deref() == Some(id) {
            return Ok(());
        }
        self.kept.cluster = Some(id.to_owned());
        self.write()
    }

    pub(super) fn keep_published(&mut self, published: &Published) -> Result<(), DiskError> {
        if self.kept.published.as_ref() == Some(published) {
            return Ok(());
        }
        self.kept.published = Some(published.clone());
        self.write()
    }

    /// Replaces the file as a whole, readable to its owner alone: a configuration may have secrets.
    fn write(&self) -> Result<(), DiskError> {
        let wrong = |source| DiskError { path: self.path.display().to_string(), source };
        let write = || {
            if let Some(parent) = self.path.parent() {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
            }
            private_file::replace(&self.path, &serde_json::to_vec(&self.kept)?)
        };
        write().map_err(wrong)
    }
}

/// A random name, unique in practice.
pub(super) fn drawn() -> String {
    format!("{:016x}", rand::random::<u64>())
}

const FILE: &str = "cluster.json";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_was_taken_is_there_after_a_restart_and_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let state_dir = folder.path().join("state");
        let (mut disk, found) = Disk::open(&state_dir);
        found.unwrap();
        assert!(disk.published().is_none());
        let published = Published { version: 7, text: "# seven".to_owned(), name: None };
        disk.keep_published(&published).unwrap();
        disk.keep_cluster("shop").unwrap();
        let (again, found) = Disk::open(&state_dir);
        found.unwrap();
        assert_eq!(again.published(), Some(&published));
        assert_eq!((again.cluster(), again.instance()), (Some("shop"), disk.instance()));
        let mode = fs::metadata(state_dir.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_is_damaged_is_told_of_and_does_not_stop_an_edge() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), "{ \"instance\": ").unwrap();
        let (disk, found) = Disk::open(folder.path());
        assert!(found.unwrap_err().to_string().contains("cluster.json"));
        assert!(disk.published().is_none());
    }
}
