//! Programs of traffic control: by TCX, or as kernels before 6.6 have it.

use aya::{
    Ebpf,
    programs::{
        ProgramError, SchedClassifier, TcAttachType,
        tc::{NlOptions, TcAttachOptions, TcError, qdisc_add_clsact, qdisc_detach_program},
    },
};

use crate::{
    error::{AttachError, LoadError},
    object::Object,
};

/// Has the kernel verify a program, unless it has.
pub(crate) fn load(program: &mut SchedClassifier) -> Result<(), LoadError> {
    match program.load() {
        Ok(()) | Err(ProgramError::AlreadyLoaded) => Ok(()),
        Err(error) => Err(LoadError::from_kernel(error.into())),
    }
}

/// Attaches the program of this name to an interface until its object is dropped.
pub(crate) fn attach(
    loaded: &mut Ebpf,
    name: &str,
    interface: &str,
    way: TcAttachType,
) -> Result<(), AttachError> {
    let program = Object::program_mut(loaded, Some(name))?;
    load(program)?;
    match program.attach(interface, way) {
        Ok(_) => return Ok(()),
        Err(ProgramError::TcError(TcError::IoError(_))) => {
            return Err(AttachError::Unknown(interface.to_owned()));
        }
        Err(_) => {}
    }
    // Both may be: the discipline there already, and a filter left by a process that was killed.
    drop(qdisc_add_clsact(interface));
    drop(qdisc_detach_program(interface, way, name));
    let options = TcAttachOptions::Netlink(NlOptions::default());
    let attached = program.attach_with_options(interface, way, options);
    attached.map(drop).map_err(|error| AttachError::kernel(interface, "tcx", error))
}
