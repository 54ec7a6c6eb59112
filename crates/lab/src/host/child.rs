//! A program that runs on a host.

use std::{
    fmt,
    fs::File,
    io::{self, PipeReader, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::FileExt,
    },
    sync::Arc,
};

use loadline_core::time::Duration;
use loadline_linux::clock;
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{MemfdFlags, memfd_create},
    process::Signal,
};

use super::{HostError, Output, handle::Line, message::Request};

/// A program on a host. It runs on when this is dropped, at most as long as the lab.
#[derive(Debug)]
pub struct Child {
    line: Arc<Line>,
    name: String,
    pid: u32,
    /// Where the host writes how it ended.
    end: PipeReader,
    exit: Option<Exit>,
    stdout: OutputLines,
    stderr: OutputLines,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(u8),
    /// By this signal.
    Signal(u8),
    /// It was ended together with its host.
    WithHost,
}

/// A program that has ended, with its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub exit: Exit,
    /// Its output, if it was kept.
    pub stdout: String,
    /// Its errors, if they were kept.
    pub stderr: String,
}

/// One output of a program, as the lab has it.
#[derive(Debug)]
pub(super) enum OutputLines {
    Kept(File),
    Pipe(Option<PipeReader>),
    Elsewhere,
}

impl Child {
    pub(super) fn new(
        line: Arc<Line>,
        name: String,
        pid: u32,
        end: PipeReader,
        [stdout, stderr]: [OutputLines; 2],
    ) -> Self {
        Self { line, name, pid, end, exit: None, stdout, stderr }
    }

    /// Its number, as the programs of its host see it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// The system's.
    pub fn try_wait(&mut self) -> Result<Option<Exit>, HostError> {
        self.wait_until_end(Duration::ZERO)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// [`HostError::TooLong`] where it has not ended within `limit`; it goes on then.
    pub fn wait_with_deadline(&mut self, limit: Duration) -> Result<Exit, HostError> {
        match self.wait_until_end(limit)? {
            Some(exit) => Ok(exit),
            None => Err(HostError::TooLong {
                host: self.line.host().to_owned(),
                program: self.name.clone(),
                limit,
                last_words: self.last_words(),
            }),
        }
    }

    /// Sends a signal to it and to what it started, as far as that stayed in its process group.
    ///
    /// # Errors
    /// [`HostError::Gone`] where the host is not there any more. That the program is not is none.
    pub fn signal(&self, signal: Signal) -> Result<(), HostError> {
        self.line.ask(&Request::Signal { group: self.pid, signal: signal.as_raw() }, &[])?;
        Ok(())
    }

    /// Asks it to end, and kills it with what it started where it does not within `grace`.
    ///
    /// # Errors
    /// Those of [`signal`](Self::signal) and [`wait_with_deadline`](Self::wait_with_deadline).
    pub fn stop(&mut self, grace: Duration) -> Result<Exit, HostError> {
        if let Some(exit) = self.try_wait()? {
            return Ok(exit);
        }
        self.signal(Signal::TERM)?;
        if let Some(exit) = self.wait_until_end(grace)? {
            return Ok(exit);
        }
        self.kill()
    }

    /// Kills it with what it started.
    ///
    /// # Errors
    /// Those of [`signal`](Self::signal) and [`wait_with_deadline`](Self::wait_with_deadline).
    pub fn kill(&mut self) -> Result<Exit, HostError> {
        self.signal(Signal::KILL)?;
        self.wait_with_deadline(DEATH)
    }

    /// What it has written to its output so far, if that is [kept](Output::Kept).
    #[must_use]
    pub fn stdout(&self) -> String {
        self.stdout.read()
    }

    /// What it has written to its errors so far, if they are [kept](Output::Kept).
    #[must_use]
    pub fn stderr(&self) -> String {
        self.stderr.read()
    }

    /// Its output, if that is [piped](Output::Piped) and was not taken before.
    pub fn take_stdout(&mut self) -> Option<PipeReader> {
        self.stdout.take()
    }

    /// Its errors, if they are [piped](Output::Piped) and were not taken before.
    pub fn take_stderr(&mut self) -> Option<PipeReader> {
        self.stderr.take()
    }

    /// For an error: how it ended, if it did, and the last it said.
    fn last_words(&mut self) -> String {
        let ended = self.try_wait().ok().flatten();
        let ended = ended.map(|exit| format!("; `{}` ended {exit}", self.name));
        let said = self.stderr() + &self.stdout();
        let said = said.trim_end();
        let from = said.len().saturating_sub(LAST_WORDS);
        let tail = said.get(said.ceil_char_boundary(from)..).unwrap_or_default();
        let said = if tail.is_empty() { String::new() } else { format!(", having said:\n{tail}") };
        ended.unwrap_or_default() + &said
    }

    /// Waits for its end, for so long at most.
    pub(crate) fn wait_until_end(&mut self, limit: Duration) -> Result<Option<Exit>, HostError> {
        if self.exit.is_none() {
            let failed = |source| HostError::Failed {
                host: self.line.host().to_owned(),
                what: format!("tell how `{}` ended", self.name),
                source,
            };
            self.exit = read_end(&mut self.end, limit).map_err(failed)?;
        }
        Ok(self.exit)
    }
}

impl Exit {
    /// Whether it ended by itself with the code 0.
    #[must_use]
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }

    /// As it goes through the pipe.
    pub(super) fn to_bytes(self) -> [u8; 2] {
        match self {
            Self::Code(code) => [BY_ITSELF, code],
            Self::Signal(signal) => [BY_SIGNAL, signal],
            Self::WithHost => [0, 0],
        }
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        match *bytes {
            [BY_ITSELF, code] => Self::Code(code),
            [BY_SIGNAL, signal] => Self::Signal(signal),
            _ => Self::WithHost,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "with exit code {code}"),
            Self::Signal(signal) => write!(f, "by signal {signal}"),
            Self::WithHost => f.write_str("with its host"),
        }
    }
}

impl OutputLines {
    /// The lab's end of an output, and the program's.
    pub(super) fn open(output: Output, inherited: impl AsFd) -> io::Result<(Self, OwnedFd)> {
        match output {
            Output::Kept => {
                let kept = File::from(memfd_create("words", MemfdFlags::CLOEXEC)?);
                let program = kept.try_clone()?;
                Ok((Self::Kept(kept), program.into()))
            }
            Output::To(file) => Ok((Self::Elsewhere, file.into())),
            Output::Piped => {
                let (reader, writer) = io::pipe()?;
                Ok((Self::Pipe(Some(reader)), writer.into()))
            }
            Output::Nowhere => {
                let nowhere = File::options().write(true).open("/dev/null")?;
                Ok((Self::Elsewhere, nowhere.into()))
            }
            Output::Inherited => Ok((Self::Elsewhere, inherited.as_fd().try_clone_to_owned()?)),
        }
    }

    fn read(&self) -> String {
        let Self::Kept(file) = self else { return String::new() };
        let read = || {
            let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX)];
            // Where the program writes is not moved by that.
            file.read_exact_at(&mut bytes, 0)?;
            io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().unwrap_or_default()
    }

    fn take(&mut self) -> Option<PipeReader> {
        match self {
            Self::Pipe(reader) => reader.take(),
            Self::Kept(_) | Self::Elsewhere => None,
        }
    }
}

/// Reads how a program ended, if it does within `limit`.
fn read_end(end: &mut PipeReader, limit: Duration) -> io::Result<Option<Exit>> {
    let until = clock::now() + limit;
    loop {
        let left = until.since(clock::now());
        let timeout = rustix::event::Timespec::try_from(left.to_std()).map_err(io::Error::other)?;
        let ready = match poll(&mut [PollFd::new(end, PollFlags::IN)], Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        if ready == 0 {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        end.read_to_end(&mut bytes)?;
        return Ok(Some(Exit::from_bytes(&bytes)));
    }
}

const BY_ITSELF: u8 = 1;
const BY_SIGNAL: u8 = 2;

/// Bytes of a program's words that an error repeats.
const LAST_WORDS: usize = 2_000;

/// How long the kernel may take to end what was killed; more means that it waits for a disk.
const DEATH: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn an_end_goes_through_the_pipe_as_it_was() {
        for exit in [Exit::Code(0), Exit::Code(200), Exit::Signal(9), Exit::WithHost] {
            let (mut reader, mut writer) = io::pipe().unwrap();
            writer.write_all(&exit.to_bytes()).unwrap();
            drop(writer);
            assert_eq!(read_end(&mut reader, Duration::from_secs(1)).unwrap(), Some(exit));
        }
    }

    #[test]
    fn a_pipe_that_closes_without_a_word_means_that_the_host_ended() {
        let (mut reader, writer) = io::pipe().unwrap();
        drop(writer);
        let end = read_end(&mut reader, Duration::from_secs(1)).unwrap();
        assert_eq!(end, Some(Exit::WithHost));
    }

    #[test]
    fn what_is_kept_can_be_read_while_more_is_written() {
        let (words, program) = OutputLines::open(Output::Kept, io::stdout()).unwrap();
        let mut program = File::from(program);
        program.write_all(b"one ").unwrap();
        assert_eq!(words.read(), "one ");
        program.write_all(b"two").unwrap();
        assert_eq!(words.read(), "one two");
    }
}
