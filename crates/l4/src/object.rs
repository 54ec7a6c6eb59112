//! The compiled programs, and their loading.

use aya::{
    Ebpf, EbpfLoader,
    programs::{Program, ProgramError, Xdp},
};

use crate::error::LoadError;

/// The program of the balancer, in both kinds.
pub(crate) const BALANCER: Object = Object {
    xdp: Some("balancer"),
    traffic_control: Some("balancer_tc"),
    bytes: aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/balancer.o")),
};

/// The program of a server behind a tunnel.
pub(crate) const DECAPSULATOR: Object = Object {
    xdp: Some("decapsulator"),
    traffic_control: None,
    bytes: aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/decapsulate.o")),
};
/// The programs of health checks, two of traffic control.
pub(crate) const CHECKS: Object = Object {
    xdp: None,
    traffic_control: None,
    bytes: aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/check.o")),
};

/// What the build could not find; empty where the objects are there.
const MISSING: &str = include_str!(concat!(env!("OUT_DIR"), "/missing.txt"));

/// An object file, and its program by its names.
pub(crate) struct Object {
    /// For XDP.
    pub(crate) xdp: Option<&'static str>,
    /// For traffic control.
    pub(crate) traffic_control: Option<&'static str>,
    bytes: &'static [u8],
}

impl Object {
    /// Makes the tables and has the kernel verify the XDP program.
    pub(crate) fn load(
        &self,
        sizes: &[(&'static str, u32)],
        constants: &[(&'static str, &u32)],
    ) -> Result<Ebpf, LoadError> {
        let mut object = self.make(sizes, constants)?;
        let program: &mut Xdp = Self::program_mut(&mut object, self.xdp)?;
        program.load().map_err(|error| LoadError::from_kernel(error.into()))?;
        Ok(object)
    }

    /// Makes the tables, each with its number of entries where one is given, for programs with
    /// these constants.
    pub(crate) fn make(
        &self,
        sizes: &[(&'static str, u32)],
        constants: &[(&'static str, &u32)],
    ) -> Result<Ebpf, LoadError> {
        if self.bytes.is_empty() {
            return Err(LoadError::NotBuilt { reason: MISSING });
        }
        let mut loader = EbpfLoader::new();
        for (table, entries) in sizes {
            loader.map_max_entries(table, *entries);
        }
        for (name, value) in constants {
            loader.override_global(name, *value, true);
        }
        loader.load(self.bytes).map_err(LoadError::from_kernel)
    }

    /// A program within its object.
    pub(crate) fn program_mut<'a, T>(
        object: &'a mut Ebpf,
        name: Option<&str>,
    ) -> Result<&'a mut T, LoadError>
    where
        &'a mut T: TryFrom<&'a mut Program, Error = ProgramError>,
    {
        let program = name.and_then(|name| object.program_mut(name));
        program.and_then(|program| program.try_into().ok()).ok_or(LoadError::Foreign)
    }

    /// The same to read.
    pub(crate) fn program<'a, T>(object: &'a Ebpf, name: Option<&str>) -> Result<&'a T, LoadError>
    where
        &'a T: TryFrom<&'a Program, Error = ProgramError>,
    {
        let program = name.and_then(|name| object.program(name));
        program.and_then(|program| program.try_into().ok()).ok_or(LoadError::Foreign)
    }
}
