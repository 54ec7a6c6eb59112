//! The compiled programs, and their loading.

use aya::{Ebpf, EbpfLoader, programs::Xdp};

use crate::error::LoadError;

/// The program of the balancer.
pub(crate) const BALANCER: Object = Object {
    program: "balancer",
    bytes: aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/balancer.o")),
};

/// The program of a server behind a tunnel.
pub(crate) const DECAPSULATOR: Object = Object {
    program: "decapsulator",
    bytes: aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/decapsulate.o")),
};

/// What the build could not find; empty where the objects are there.
const MISSING: &str = include_str!(concat!(env!("OUT_DIR"), "/missing.txt"));

/// An object file with one XDP program.
pub(crate) struct Object {
    program: &'static str,
    bytes: &'static [u8],
}

impl Object {
    /// Makes the tables, each with its number of entries where one is given, and has the kernel
    /// verify the program.
    pub(crate) fn load(&self, sizes: &[(&'static str, u32)]) -> Result<Ebpf, LoadError> {
        if self.bytes.is_empty() {
            return Err(LoadError::NotBuilt { reason: MISSING });
        }
        let mut loader = EbpfLoader::new();
        for (table, entries) in sizes {
            loader.map_max_entries(table, *entries);
        }
        let mut object = loader.load(self.bytes).map_err(LoadError::from_kernel)?;
        self.program_mut(&mut object)?
            .load()
            .map_err(|error| LoadError::from_kernel(error.into()))?;
        Ok(object)
    }

    /// The program within its object.
    pub(crate) fn program_mut<'a>(&self, object: &'a mut Ebpf) -> Result<&'a mut Xdp, LoadError> {
        let program = object.program_mut(self.program);
        program.and_then(|program| program.try_into().ok()).ok_or(LoadError::Foreign)
    }

    /// The program within its object.
    pub(crate) fn program<'a>(&self, object: &'a Ebpf) -> Result<&'a Xdp, LoadError> {
        let program = object.program(self.program);
        program.and_then(|program| program.try_into().ok()).ok_or(LoadError::Foreign)
    }
}
