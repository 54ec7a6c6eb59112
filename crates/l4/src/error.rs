//! What can go wrong between us and the kernel, and which right is missing.

use aya::{EbpfError, maps::MapError, programs::ProgramError};
use rustix::{
    io,
    thread::{CapabilitySet, capabilities},
};
use thiserror::Error;

use crate::ring::RING_SIZE;

/// Why the program cannot be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// It was not compiled.
    #[error("this loadline was built without packet forwarding: {reason}")]
    NotBuilt {
        /// What the build could not find.
        reason: &'static str,
    },
    /// The kernel refused.
    #[error("the kernel does not take the program{}", rights())]
    Kernel(#[source] Box<EbpfError>),
    /// Return addresses or ports that cannot be.
    #[error("return addresses are at most 16 of each family, and their ports from 1 to 65535")]
    Returns,
    /// A table could not be filled.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The memory of a table could not be mapped.
    #[error("a table cannot be mapped into memory")]
    Map(#[source] io::Errno),
    /// A table or program is not in the object; the build is at fault.
    #[error("the compiled program lacks a part that belongs to it; build again from clean sources")]
    Foreign,
}

impl LoadError {
    pub(crate) fn from_kernel(error: EbpfError) -> Self {
        Self::Kernel(Box::new(error))
    }
}

/// Why the program cannot be attached.
#[derive(Debug, Error)]
pub enum AttachError {
    /// No interface has this name.
    #[error("there is no interface `{0}`; `ip link` lists those that are there")]
    Unknown(String),
    /// Another program is there, or the driver has no such mode.
    #[error("interface `{interface}` does not take the program in {mode} mode{}", rights())]
    Kernel {
        /// Name of the network interface.
        interface: String,
        /// The last mode that was tried.
        mode: &'static str,
        /// What the kernel said.
        #[source]
        source: Box<ProgramError>,
    },
    /// The program is of XDP alone.
    #[error("this program cannot be attached as tcx, only as native or generic")]
    OnlyXdp,
    /// The program cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl AttachError {
    pub(crate) fn kernel(interface: &str, mode: &'static str, error: ProgramError) -> Self {
        Self::Kernel { interface: interface.to_owned(), mode, source: Box::new(error) }
    }
}

/// Why a table cannot be read or written.
#[derive(Debug, Error)]
pub enum TableError {
    /// The table has no place for this number.
    #[error("{what} {number} is too large: the tables were made for numbers below {limit}")]
    TooLarge {
        /// What the number is of.
        what: &'static str,
        /// The number that is too large.
        number: u32,
        /// What it must be below.
        limit: u32,
    },
    /// A number is of one server for as long as the tables live: its connections are known by it.
    #[error("server {number} is {known}; another needs a number of its own")]
    OtherServer {
        /// Number that the server was to have.
        number: u16,
        /// The server that has it.
        known: String,
    },
    /// Two numbers for one server would lend the same ports twice.
    #[error("{server} is server {known} already")]
    SameServer {
        /// Address and port.
        server: String,
        /// Its number.
        known: u16,
    },
    /// A ring of another size than the program has.
    #[error("a ring has {RING_SIZE} entries, not {0}")]
    RingSize(usize),
    /// Nobody is known by this number.
    #[error("service {0} has not been added")]
    UnknownService(u32),
    /// No server has this number.
    #[error("server {0} has not been set")]
    UnknownServer(u16),
    /// The kernel refused.
    #[error("the kernel does not take an entry of table `{table}`{}", rights())]
    Kernel {
        /// Name of the BPF map.
        table: &'static str,
        /// What the kernel said.
        #[source]
        source: Box<MapError>,
    },
    /// Nobody says how many processors there are.
    #[error("the number of processors cannot be found out")]
    Processors(#[source] std::io::Error),
    /// The kernel cannot say when packets on their way have left.
    #[error("the kernel does not wait for packets on their way{}", rights())]
    Wait(#[source] Box<MapError>),
}

impl TableError {
    pub(crate) fn kernel(table: &'static str) -> impl FnOnce(MapError) -> Self {
        move |source| Self::Kernel { table, source: Box::new(source) }
    }
}

/// Which capabilities this thread lacks, as the end of a sentence; nothing where it has all.
fn rights() -> String {
    let Ok(sets) = capabilities(None) else { return String::new() };
    if sets.effective.contains(CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN) {
        return String::new();
    }
    let needed = [
        (CapabilitySet::BPF, "CAP_BPF"),
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
        (CapabilitySet::PERFMON, "CAP_PERFMON"),
    ];
    let missing = needed.iter().filter(|(right, _)| !sets.effective.contains(*right));
    let missing: Vec<&str> = missing.map(|(_, name)| *name).collect();
    if missing.is_empty() {
        return String::new();
    }
    format!("; missing: {} (root of the machine has them)", missing.join(", "))
}
