//! Where studies are: a path, or a name in the nearest folder called `studies`, or in that of the
//! package.

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

fn folder() -> Option<PathBuf> {
    folder_from(env::current_dir().ok().as_deref(), env::current_exe().ok().as_deref())
}

/// The folder `studies` in this directory or one above it, or above the binary, or else that of the
/// package of the binary.
fn folder_from(directory: Option<&Path>, program: Option<&Path>) -> Option<PathBuf> {
    let above = [directory, program].into_iter().flatten().flat_map(Path::ancestors);
    let prefix = program.and_then(|program| program.ancestors().nth(2));
    let of_package = prefix.map(|prefix| prefix.join("share/loadline/studies"));
    let mut folders = above.map(|folder| folder.join("studies")).chain(of_package);
    folders.find(|folder| folder.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn studies_of_a_package_are_found_unless_nearer_ones_are() {
        let root = tempfile::tempdir().unwrap();
        let path = |below: &str| root.path().join(below);
        let (here, program) = (path("home/me"), path("usr/bin/loadline"));
        let found = || folder_from(Some(&here), Some(&program));
        assert_eq!(found(), None);
        fs::create_dir_all(path("usr/share/loadline/studies")).unwrap();
        assert_eq!(found(), Some(path("usr/share/loadline/studies")));
        fs::create_dir_all(path("home/studies")).unwrap();
        assert_eq!(found(), Some(path("home/studies")));
    }
}
