//! The other end of `ipip`, for servers whose kernel has no tunnels.

use std::net::IpAddr;

use aya::{Ebpf, maps::HashMap};

use crate::{
    datapath::table_of,
    error::{AttachError, LoadError, TableError},
    interface::{Attach, Attached, attach},
    layout::address,
    object::DECAPSULATOR,
    test_run::{Hook, TestRunResult, try_packet},
};

/// Takes packets for addresses of this host out of their tunnel, until it is dropped.
#[derive(Debug)]
pub struct Decapsulator {
    loaded: Ebpf,
}

impl Decapsulator {
    /// Loads the program.
    ///
    /// # Errors
    /// It was not compiled, or the kernel refuses; the missing capability is named.
    pub fn load() -> Result<Self, LoadError> {
        Ok(Self { loaded: DECAPSULATOR.load(&[], &[])? })
    }

    /// Lets packets to this service address out of a tunnel; all others stay as they are.
    ///
    /// # Errors
    /// The kernel's, for more than 64.
    pub fn serve(&mut self, to: IpAddr) -> Result<(), TableError> {
        let mut served: HashMap<_, [u8; 16], u32> = table_of(&mut self.loaded, "served")?;
        served.insert(address(to), 1, 0).map_err(TableError::kernel("served"))
    }

    /// Attaches it to an interface.
    ///
    /// # Errors
    /// No such interface, or it refuses. There is none for traffic control.
    pub fn attach(&mut self, interface: &str, how: Attach) -> Result<Attached, AttachError> {
        attach(&DECAPSULATOR, &mut self.loaded, interface, how)
    }

    /// What would become of a frame, as [`Datapath::try_packet`](crate::Datapath::try_packet).
    ///
    /// # Errors
    /// The kernel refuses a frame of this length.
    pub fn try_packet(&self, frame: &[u8]) -> Result<TestRunResult, LoadError> {
        try_packet(&DECAPSULATOR, &self.loaded, Hook::Xdp, frame)
    }
}
