//! The files that make one configuration: the one that is named, and those that it includes; or
//! those of a folder.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
};

use loadline_spanned::{At, FileErrors, Problems, Source};
use toml::de::DeTable;

use crate::{masked, suggest::Configuration};

/// One of the files of a configuration.
pub(crate) struct Part {
    /// What errors call it.
    pub(crate) name: String,
    pub(crate) text: String,
    /// Whether it is for every edge of a cluster, and not a file here.
    pub(crate) is_published: bool,
}

/// Refuses what a published configuration may not say, since it is each edge's own.
pub(crate) fn refuse_own_tables(parts: &[Part], problems: &mut Problems) {
    let mut begin = 0;
    for part in parts {
        if part.is_published {
            refuse_in(&part.text, begin, problems);
        }
        begin += part.text.len() + 1;
    }
}

fn refuse_in(text: &str, begin: usize, problems: &mut Problems) {
    let (root, _) = DeTable::parse_recoverable(text);
    let own = root.get_ref().keys().filter(|key| OWN.contains(&&**key.get_ref()));
    for key in own {
        let span = begin + key.span().start..begin + key.span().end;
        let message = format!("`{}` in a published configuration", key.get_ref());
        let help = "it is each edge's own: write it in the file of the edge";
        problems.error(&span, message, "not for all edges", help);
    }
}

/// The files of the configuration at `path`, the one that is named first.
///
/// # Errors
/// One that cannot be read, at the place where it is included.
pub(crate) fn parts(path: &Path) -> Result<Vec<Part>, FileErrors> {
    if path.is_dir() {
        return of_folder(path);
    }
    let text = loadline_spanned::load::<Configuration>(path, "name a file that can be read")?;
    let mut parts = vec![part(path, text)];
    let mut names = HashSet::from([parts[0].name.clone()]);
    let mut problems = Problems::default();
    for pattern in loadline_spanned::texts_of(&parts[0].text, KEY) {
        include(&pattern, path, (&mut parts, &mut names), &mut problems);
    }
    if problems.failed() {
        let shown = parts.iter().map(|part| (part.name.clone(), masked::masked(&part.text)));
        let source = Source::of_parts::<Configuration>(shown.collect());
        return Err(problems.into_errors(&source));
    }
    Ok(parts)
}

/// The files that the configuration at `path` includes, those that are missing too, and the folders
/// in which others may appear.
#[must_use]
pub fn included(path: &Path) -> Vec<PathBuf> {
    if path.is_dir() {
        return files_in(path, "*.toml").unwrap_or_default();
    }
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut all = Vec::new();
    for At { value, .. } in loadline_spanned::texts_of(&text, KEY) {
        let place = folder_of(path).join(&value);
        match named(&place) {
            Ok(Named::File) => all.push(place),
            Ok(Named::Files(folder, files)) => {
                all.push(folder);
                all.extend(files);
            }
            Err(_) if value.contains('*') => all.push(folder_of(&place).to_owned()),
            Err(_) => all.push(place),
        }
    }
    all
}

fn of_folder(folder: &Path) -> Result<Vec<Part>, FileErrors> {
    let name = folder.display().to_string();
    let cannot = |why: &str| {
        let mut problems = Problems::default();
        problems.unplaced(format!("cannot read `{name}`: {why}"), "name a file, or add one");
        problems.into_errors(&Source::new::<Configuration>(&name, String::new()))
    };
    let files = files_in(folder, "*.toml").map_err(|error| cannot(&error.to_string()))?;
    if files.is_empty() {
        return Err(cannot("no file in it ends in .toml"));
    }
    let help = "take it out of the folder, or let it be read";
    let text = |path: &Path| loadline_spanned::load::<Configuration>(path, help);
    files.iter().map(|path| Ok(part(path, text(path)?))).collect()
}

/// Adds the files that `pattern` of the file at `path` names, each once.
fn include(
    pattern: &At<String>,
    path: &Path,
    (parts, names): (&mut Vec<Part>, &mut HashSet<String>),
    problems: &mut Problems,
) {
    let At { value, span } = pattern;
    let before = parts.len();
    let place = folder_of(path).join(value);
    let files = match named(&place) {
        Ok(Named::File) => vec![place],
        Ok(Named::Files(_, files)) => files,
        Err(error) => {
            let message = format!("cannot read `{}`: {error}", place.display());
            let help = "name a file, a folder or a pattern with `*`: \"conf.d/*.toml\"";
            return problems.error(span, message, "here", help);
        }
    };
    let mut begin = parts.iter().map(|part| part.text.len() + 1).sum::<usize>();
    for file in files {
        let name = file.display().to_string();
        if !names.insert(name.clone()) {
            continue;
        }
        if parts.len() == FILES_MAX {
            let message = format!("more than {FILES_MAX} files");
            return problems.error(span, message, "here", "write fewer and larger ones");
        }
        match fs::read(&file) {
            Ok(bytes) => {
                let text = loadline_spanned::decoded(bytes, begin, problems);
                begin += text.len() + 1;
                parts.push(part(&file, text));
            }
            Err(error) => {
                let message = format!("cannot read `{name}`: {error}");
                problems.error(span, message, "here", "let it be read, or leave it out");
            }
        }
    }
    for part in &parts[before..] {
        if !loadline_spanned::texts_of(&part.text, KEY).is_empty() {
            let message = format!("`{}` includes others", part.name);
            problems.error(span, message, "this one", "include them here, in the first file");
        }
    }
}

fn part(path: &Path, text: String) -> Part {
    Part { name: path.display().to_string(), text, is_published: false }
}

/// What an entry of `include` names.
enum Named {
    File,
    /// The files of a folder.
    Files(PathBuf, Vec<PathBuf>),
}

fn named(place: &Path) -> io::Result<Named> {
    let last = place.file_name().map(|name| name.to_string_lossy().into_owned());
    let last = last.unwrap_or_default();
    if last.contains('*') {
        let folder = folder_of(place);
        let files = match files_in(folder, &last) {
            Err(error) if may_be_absent(&error, folder) => Vec::new(),
            found => found?,
        };
        return Ok(Named::Files(folder.to_owned(), files));
    }
    if fs::metadata(place)?.is_dir() {
        return Ok(Named::Files(place.to_owned(), files_in(place, "*.toml")?));
    }
    Ok(Named::File)
}

/// A star matches nothing in a folder that is not there; in the name of a folder it is an error.
fn may_be_absent(error: &io::Error, folder: &Path) -> bool {
    error.kind() == io::ErrorKind::NotFound && !folder.to_string_lossy().contains('*')
}

/// The files of a folder whose names fit, in the order of the names. Hidden ones are left out, and
/// folders and special files; not a link that leads nowhere, so that whoever reads it says so.
fn files_in(folder: &Path, pattern: &str) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let fits = |name: &String| !name.starts_with('.') && fits(name, pattern);
        let is_other = |path: &Path| fs::metadata(path).is_ok_and(|found| !found.is_file());
        if name.as_ref().is_some_and(fits) && !is_other(&path) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Whether `name` is as `pattern` says, in which a star is any text.
fn fits(name: &str, pattern: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return name == pattern };
    let Some(name) = name.strip_prefix(begin) else { return false };
    let borders = name.char_indices().map(|(at, _)| at).chain([name.len()]);
    borders.into_iter().any(|at| fits(&name[at..], rest))
}

/// The folder of a file, that of the process where it has none.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("."),
    }
}

/// What is said by the file of an edge alone.
const OWN: [&str; 4] = ["include", "edge", "admin", "cluster"];

const KEY: &str = "include";

/// A file for each of many virtual hosts; it bounds what a star can open.
const FILES_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text_of_a_name() {
        for (name, pattern, expected) in [
            ("a.toml", "*.toml", true),
            ("a.toml", "a*", true),
            ("a.toml.bak", "*.toml", false),
            ("site-a.toml", "site-*.toml", true),
            ("site.toml", "site-*.toml", false),
            ("a.toml", "a.toml", true),
        ] {
            assert_eq!(fits(name, pattern), expected, "{name} {pattern}");
        }
    }
}
