//! Where studies are: a path, or a name in the nearest folder called `studies`.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// The file of a study: `given` where that is a file, else the study of this name.
pub(super) fn study(given: &str) -> PathBuf {
    let path = PathBuf::from(given);
    if path.is_file() || given.contains('/') || given.ends_with(".toml") {
        return path;
    }
    folder().map(|folder| folder.join(format!("{given}.toml"))).unwrap_or(path)
}

/// The studies that come with loadline, by name.
pub(super) fn all() -> Vec<PathBuf> {
    let entries = folder().and_then(|folder| fs::read_dir(folder).ok());
    let paths = entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut studies: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect();
    studies.sort();
    studies
}

/// The folder `studies` in this directory or one above it, or above the binary.
fn folder() -> Option<PathBuf> {
    let program = env::current_exe().ok();
    let starts = [env::current_dir().ok(), program];
    let folders = starts.iter().flatten().flat_map(|start| start.ancestors());
    folders.map(|folder: &Path| folder.join("studies")).find(|folder| folder.is_dir())
}
