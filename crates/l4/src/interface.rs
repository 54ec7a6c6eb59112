//! Attaching to a network interface, and by which of the ways it allows.

use aya::{
    Ebpf,
    programs::{ProgramError, TcAttachType, Xdp, XdpMode},
};

use crate::{error::AttachError, object::Object, traffic_control};

/// How to attach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attach {
    /// The first of the others that works.
    #[default]
    Auto,
    /// In the driver, before the kernel has made anything of the packet.
    Native,
    /// In the network stack; with any driver, slower.
    Generic,
    /// In traffic control; with any driver, with packets as the kernel has them.
    Tcx,
}

/// How it was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// In the driver.
    Native,
    /// In the network stack.
    Generic,
    /// In traffic control.
    Tcx,
}

impl Attached {
    /// As it is called in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Tcx => "tcx",
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
    let ways = match how {
        Attach::Auto => &[Attached::Native, Attached::Generic, Attached::Tcx][..],
        Attach::Native => &[Attached::Native],
        Attach::Generic => &[Attached::Generic],
        Attach::Tcx => &[Attached::Tcx],
    };
    let mut refusal = AttachError::OnlyXdp;
    for way in ways {
        match attach_by(object, loaded, interface, *way) {
            Ok(()) => return Ok(*way),
            Err(AttachError::OnlyXdp) => {}
            Err(error @ AttachError::Kernel { .. }) => refusal = error,
            Err(other) => return Err(other),
        }
    }
    Err(refusal)
}

fn attach_by(
    object: &Object,
    loaded: &mut Ebpf,
    interface: &str,
    way: Attached,
) -> Result<(), AttachError> {
    let mode = match way {
        Attached::Native => XdpMode::Driver,
        Attached::Generic => XdpMode::Skb,
        Attached::Tcx => {
            let Some(name) = object.traffic_control else { return Err(AttachError::OnlyXdp) };
            return traffic_control::attach(loaded, name, interface, TcAttachType::Ingress);
        }
    };
    let program: &mut Xdp = Object::program_mut(loaded, object.xdp)?;
    match program.attach(interface, mode) {
        Ok(_) => Ok(()),
        Err(ProgramError::UnknownInterface { name }) => Err(AttachError::Unknown(name)),
        Err(error) => Err(AttachError::kernel(interface, way.name(), error)),
    }
}
