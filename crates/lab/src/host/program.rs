//! What a host is to run.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    path::PathBuf,
};

/// A program with its arguments, as `std::process::Command`, but for a host.
#[derive(Debug)]
pub struct Program {
    pub(super) path: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) dir: Option<PathBuf>,
    pub(super) stdin: Option<File>,
    pub(super) stdout: Output,
    pub(super) stderr: Output,
}

/// Where a program's words go.
#[derive(Debug, Default)]
pub enum Output {
    /// Kept in memory; see [`Child::stdout`](super::Child::stdout).
    #[default]
    Kept,
    /// Into a file, from where it stands.
    To(File),
    /// Into a pipe; see [`Child::take_stdout`](super::Child::take_stdout). A pipe that nobody
    /// reads stops the program when it is full.
    Piped,
    /// Nowhere.
    Nowhere,
    /// Where those of the lab's process go.
    Inherited,
}

impl Program {
    /// A path, or a name to be found in the `PATH` that the lab began with.
    #[must_use]
    pub fn new(path: impl AsRef<OsStr>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            dir: None,
            stdin: None,
            stdout: Output::default(),
            stderr: Output::default(),
        }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item: AsRef<OsStr>>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// A variable of the environment, besides those that the lab began with.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Where it begins, instead of the directory that the lab began in.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// What it reads; nothing where this is not told.
    #[must_use]
    pub fn stdin(mut self, file: File) -> Self {
        self.stdin = Some(file);
        self
    }

    /// Where its output goes.
    #[must_use]
    pub fn stdout(mut self, output: Output) -> Self {
        self.stdout = output;
        self
    }

    /// Where its errors go.
    #[must_use]
    pub fn stderr(mut self, output: Output) -> Self {
        self.stderr = output;
        self
    }
}
