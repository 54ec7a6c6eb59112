//! What can be wrong with a command line beyond what clap sees.

use std::{
    fmt,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

/// A command line that cannot be run; it ends with the exit code for wrong usage.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UsageError {
    /// Flags that do not go together, and what to use instead.
    #[error("{0}")]
    Conflict(&'static str),
    /// Weights that do not match the URLs.
    #[error("--weights has {given} of them for {urls} URLs; give one each, like --weights 3,1")]
    Weights { given: usize, urls: usize },
    /// A file that cannot be read.
    #[error("cannot read {what} from `{}`", path.display())]
    Unreadable { what: &'static str, path: PathBuf, source: io::Error },
    /// A file whose content is not what it should be.
    #[error("`{}`: {why}", path.display())]
    WrongFile { path: PathBuf, why: String },
}

impl UsageError {
    pub(super) fn wrong_file(path: &Path, why: &dyn fmt::Display) -> Self {
        Self::WrongFile { path: path.to_owned(), why: why.to_string() }
    }
}

/// What a file holds; `-` is the standard input, as for curl.
pub(super) fn read_file(what: &'static str, path: &Path) -> Result<Vec<u8>, UsageError> {
    let read = if path.as_os_str() == "-" { read_input() } else { std::fs::read(path) };
    read.map_err(|source| UsageError::Unreadable { what, path: path.to_owned(), source })
}

fn read_input() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes)?;
    Ok(bytes)
}
