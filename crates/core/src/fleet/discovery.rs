//! Groups whose servers are found out rather than written.

use alloc::string::String;
use core::fmt;

use super::Server;

/// How the servers of a group are found out.
#[derive(Clone, Debug, PartialEq)]
pub struct Discovery {
    /// Where they are listed.
    pub source: Source,
    /// What each of them has beside its address, its weight and its priority.
    pub template: Server,
}

/// A list of servers that somebody else keeps. Groups with the same source share the list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// Where it is.
    pub place: ListPlace,
    /// Whether a list without servers is taken; it is mostly a mistake.
    pub allow_empty: bool,
}

/// Where a list of servers is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListPlace {
    /// A file, by its path.
    File(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            ListPlace::File(path) => write!(f, "file {path}"),
        }
    }
}
