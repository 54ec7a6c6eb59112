//! A client inside the process, which collects what is sent to it.

use std::{io, mem};

use super::Socket;

/// A response in memory, to a request of our own.
#[derive(Debug, Default)]
pub(crate) struct Taken(Vec<u8>);

impl Socket {
    /// A client whose response nobody waits for.
    pub(crate) const NOBODY: Self = Self::Nobody(None);

    /// A client that keeps its response in memory, if that is not longer than [`TAKEN_MAX`].
    pub(crate) fn taking() -> Self {
        Self::Nobody(Some(Box::default()))
    }

    /// Whether it is a client of our own.
    pub(crate) const fn is_nobody(&self) -> bool {
        matches!(self, Self::Nobody(_))
    }

    /// Whether it is one that keeps its response.
    pub(crate) const fn is_taking(&self) -> bool {
        matches!(self, Self::Nobody(Some(_)))
    }

    /// What has been kept of the response.
    pub(crate) fn taken(&mut self) -> Vec<u8> {
        let Self::Nobody(Some(taken)) = self else { return Vec::new() };
        mem::take(&mut taken.0)
    }
}

/// Keeps the pieces where they are waited for.
pub(super) fn take(taken: &mut Option<Box<Taken>>, pieces: [&[u8]; 2]) -> io::Result<usize> {
    let length = pieces[0].len() + pieces[1].len();
    if let Some(taken) = taken {
        if taken.0.len() + length > TAKEN_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        pieces.iter().for_each(|piece| taken.0.extend_from_slice(piece));
    }
    Ok(length)
}

/// How long a response may be that is kept in memory: a page with a form and its style.
const TAKEN_MAX: usize = 1 << 20;
