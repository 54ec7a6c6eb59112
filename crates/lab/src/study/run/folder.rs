//! The folder of a run: everything needed to repeat it and to report it.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::AtomicBool,
    time::{SystemTime, UNIX_EPOCH},
};

use loadline_core::time::Duration;

use super::{RunError, environment::find_program, file_error, sleep};
use crate::study::{
    Study,
    plan::{Content, Plan},
};

/// Makes the folder of a run with the study in it.
pub(super) fn begin(folder: &Path, study: &Study) -> Result<(), RunError> {
    fs::create_dir_all(folder).map_err(file_error("make the folder", folder))?;
    let path = folder.join("study.toml");
    fs::write(&path, study.text()).map_err(file_error("write", &path))
}

/// Milliseconds since 1970-01-01 UTC.
pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The folder of a row.
#[derive(Clone, Debug)]
pub(super) struct RowFolder(PathBuf);

impl RowFolder {
    pub(super) fn make(run: &Path, row: &str) -> Result<Self, RunError> {
        let folder = run.join("rows").join(row);
        // Outputs are appended to, since a program may be started again: those of an earlier run
        // in this folder would be read as this one's.
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(file_error("empty the folder", &folder)(error));
            }
            _ => {}
        }
        for part in ["files", "logs", "phases"] {
            let part = folder.join(part);
            fs::create_dir_all(&part).map_err(file_error("make the folder", &part))?;
        }
        // Programs on hosts start elsewhere: to them only a whole path means the same.
        folder.canonicalize().map(Self).map_err(file_error("find", &folder))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn write_files(&self, plan: &Plan) -> Result<(), RunError> {
        for (name, content) in &plan.files {
            let path = self.0.join("files").join(name);
            match content {
                Content::Text(text) => {
                    fs::write(&path, text).map_err(file_error("write", &path))?;
                }
                Content::CopyOf(from) => {
                    fs::copy(from, &path).map_err(file_error("copy", from))?;
                }
            }
        }
        Ok(())
    }

    /// Runs a command on the real machine, in this folder; kills it where the study is to end.
    pub(super) fn prepare(&self, command: &[String], stop: &AtomicBool) -> Result<(), RunError> {
        let failed = |why: String| RunError::Command { command: command.join(" "), why };
        let Some((program, arguments)) = command.split_first() else { return Ok(()) };
        let path = find_program(program).ok_or_else(|| failed("it is not installed".to_owned()))?;
        let before = self.read("logs", PREPARE).len();
        let mut child = Command::new(path)
            .args(arguments)
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.log("logs", PREPARE)?)
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|error| failed(error.to_string()))? {
                break status;
            }
            if let Err(error) = sleep(LOOK_AGAIN, stop) {
                // It fails only where it has ended by now.
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        };
        match status.success() {
            true => Ok(()),
            false => {
                let said = self.read("logs", PREPARE);
                Err(failed(said.get(before..).unwrap_or_default().trim().to_owned()))
            }
        }
    }

    /// The file that an output goes to, after what is in it.
    pub(super) fn log(&self, folder: &str, name: &str) -> Result<File, RunError> {
        let path = self.path_of(folder, name);
        let opened = File::options().append(true).create(true).open(&path);
        opened.map_err(file_error("write", &path))
    }

    pub(super) fn path_of(&self, folder: &str, name: &str) -> PathBuf {
        self.0.join(folder).join(name)
    }

    /// What a file holds; what cannot be read holds nothing.
    pub(super) fn read(&self, folder: &str, name: &str) -> String {
        let bytes = fs::read(self.path_of(folder, name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), RunError> {
        let path = self.0.join(name);
        fs::write(&path, text).map_err(file_error("write", &path))
    }
}

/// What commands on the real machine said of errors.
const PREPARE: &str = "prepare.err";
/// An end is seen so late at most.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
