//! Waiting for packets that are on their way through the program.
//!
//! The kernel waits for all programs that run when a map within a map is replaced, so that whoever
//! replaced it knows that nobody uses the old one (`maybe_wait_bpf_programs`). `membarrier` would
//! wait as long, but not on hosts with `nohz_full`.

use std::fmt;

use aya::{
    Ebpf,
    maps::{Array, ArrayOfMaps, MapData, MapError},
};

use crate::error::TableError;

/// A map within a map, which no program looks at.
pub(crate) struct Wait {
    outer: ArrayOfMaps<MapData, Array<MapData, u32>>,
    inner: Array<MapData, u32>,
}

impl Wait {
    /// Takes the table from the program.
    pub(crate) fn open(loaded: &mut Ebpf) -> Result<Self, TableError> {
        let outer = loaded.take_map(TABLE).ok_or(MapError::ElementNotFound);
        let outer = outer.and_then(ArrayOfMaps::try_from).map_err(TableError::kernel(TABLE))?;
        let inner = Array::create(1, 0).map_err(TableError::kernel(TABLE))?;
        let mut wait = Self { outer, inner };
        // A kernel that cannot wait is to say so before anything depends on it.
        wait.for_packets()?;
        Ok(wait)
    }

    /// Returns when every packet that was on its way through the program has left it.
    pub(crate) fn for_packets(&mut self) -> Result<(), TableError> {
        self.outer.set(0, &self.inner, 0).map_err(|error| TableError::Wait(Box::new(error)))
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").finish_non_exhaustive()
    }
}

const TABLE: &str = "replaced";
