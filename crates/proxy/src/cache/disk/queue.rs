//! What is to be written, and what is to be read.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::{QUEUE_BYTES, index::Place};

/// Something to write.
#[derive(Debug)]
pub(super) enum Job {
    /// The value of a key.
    Put {
        hash: u64,
        key: Box<[u8]>,
        value: Vec<Bytes>,
        written: oneshot::Sender<()>,
        /// What the record takes.
        bytes: u64,
    },
    /// That a key has none.
    Remove { key: Box<[u8]> },
}

/// A value to read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) key: Box<[u8]>,
    pub(super) hash: u64,
    pub(super) place: Place,
    pub(super) answer: oneshot::Sender<Option<Bytes>>,
}

/// What is to be written, in order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    jobs: VecDeque<Job>,
    bytes: u64,
    is_closed: bool,
}

impl Queue {
    /// Adds a job; false if there is no room, which removals always have: each is for a key that is
    /// known.
    pub(super) fn push(&mut self, job: Job) -> bool {
        let bytes = job.bytes();
        let is_put = matches!(job, Job::Put { .. });
        if is_put && (self.is_closed || self.bytes + bytes > QUEUE_BYTES) {
            return false;
        }
        self.bytes += bytes;
        self.jobs.push_back(job);
        true
    }

    pub(super) fn pop(&mut self) -> Option<Job> {
        let job = self.jobs.pop_front()?;
        self.bytes -= job.bytes();
        Some(job)
    }

    /// Leaves out what would give a key a value; whether anything would have.
    pub(super) fn cancel(&mut self, of: u64) -> bool {
        let before = self.jobs.len();
        self.jobs.retain(|job| !matches!(job, Job::Put { hash, .. } if *hash == of));
        self.bytes = self.jobs.iter().map(Job::bytes).sum();
        self.jobs.len() < before
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Whether nothing is there, and nothing will come.
    pub(super) fn is_over(&self) -> bool {
        self.is_closed && self.jobs.is_empty()
    }
}

impl Job {
    /// What it takes of the room.
    fn bytes(&self) -> u64 {
        match self {
            Self::Put { bytes, .. } => *bytes,
            Self::Remove { .. } => 0,
        }
    }
}
