//! Why there is no lab, and why a host did not do what it was asked.

use std::{io, path::PathBuf};

use loadline_core::time::Duration;

use super::refusal::Refusal;
use crate::{
    topology::TopologyError,
    wan::{PortError, StartError},
};

/// Why there is no lab.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The network cannot be.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A host's name cannot be that of a machine.
    #[error(
        "a host is called `{name}`; a name is letters, digits, `-`, `_` and `.`, at most 63, \
         begins with a letter or digit and is not `localhost`, like `pop-1`"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// Nobody is called so.
    #[error("there is no host `{name}`; the hosts are {known}")]
    NoSuchHost {
        /// The name.
        name: String,
        /// Those that are.
        known: String,
    },
    /// A host cannot be such a machine.
    #[error("{what} of host `{host}` is {value}; {right}")]
    Machine {
        /// The host's name.
        host: String,
        /// Name of the wrong setting.
        what: String,
        /// Its value.
        value: String,
        /// What would be right.
        right: String,
    },
    /// The system gives no namespaces.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Hosts are to be on an Ethernet, which this user may not make.
    #[error(
        "hosts on an Ethernet take rights that this user lacks: {missing} (and CAP_BPF and \
         CAP_PERFMON where loadline forwards packets on it); run as root of the machine"
    )]
    Rights {
        /// The missing rights.
        missing: String,
    },
    /// The program that becomes a host does not start.
    #[error("cannot start {} as host `{host}`: {source}", program.display())]
    Program {
        /// Path of the program.
        program: PathBuf,
        /// The host's name.
        host: String,
        /// What the system says.
        source: io::Error,
    },
    /// A host's port cannot be had.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The router does not start.
    #[error(transparent)]
    Router(#[from] StartError),
    /// A host cannot be set up.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// Why a host did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The host has ended.
    #[error("host `{host}` has ended; its last words, if any, are on standard error")]
    Gone {
        /// Name of the host.
        host: String,
    },
    /// The system refuses it.
    #[error("host `{host}` cannot {what}: {source}")]
    Failed {
        /// Name of the host.
        host: String,
        /// What it was to do.
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// A program ran longer than it may.
    #[error("{program} on host `{host}` has not ended within {limit}{last_words}")]
    TooLong {
        /// The host's name.
        host: String,
        /// Name of the program as in the command.
        program: String,
        /// How long it had.
        limit: Duration,
        /// What it said last, if that was kept.
        last_words: String,
    },
}
