//! Attaching to a network interface, and by which of the ways it allows.

use aya::{
    Ebpf,
    programs::{ProgramError, XdpMode},
};

use crate::{error::AttachError, object::Object};

/// How to attach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attach {
    /// Native where the driver can, generic otherwise.
    #[default]
    Auto,
    /// In the driver, before the kernel has made anything of the packet.
    Native,
    /// In the network stack; with any driver, slower.
    Generic,
}

/// How it was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// In the driver.
    Native,
    /// In the network stack.
    Generic,
}

impl Attached {
    const fn mode(self) -> XdpMode {
        match self {
            Self::Native => XdpMode::Driver,
            Self::Generic => XdpMode::Skb,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}

/// Attaches the program until `loaded` is dropped.
pub(crate) fn attach(
    object: &Object,
    loaded: &mut Ebpf,
    interface: &str,
    how: Attach,
) -> Result<Attached, AttachError> {
    // The library panics at such a name.
    if interface.contains('\0') {
        return Err(AttachError::Unknown(interface.replace('\0', "?")));
    }
    let program = object.program_mut(loaded)?;
    let mut attach = |mode: Attached| match program.attach(interface, mode.mode()) {
        Ok(_) => Ok(mode),
        Err(ProgramError::UnknownInterface { name }) => Err(AttachError::Unknown(name)),
        Err(error) => Err(AttachError::Kernel {
            interface: interface.to_owned(),
            mode: mode.name(),
            source: Box::new(error),
        }),
    };
    match how {
        Attach::Native => attach(Attached::Native),
        Attach::Generic => attach(Attached::Generic),
        Attach::Auto => attach(Attached::Native).or_else(|error| match error {
            AttachError::Kernel { .. } => attach(Attached::Generic),
            other => Err(other),
        }),
    }
}
