//! Attaching to a network interface, and by which of the ways it allows.

use aya::{
    Ebpf,
    programs::{ProgramError, TcAttachType, Xdp, XdpMode},
};
use loadline_core::time::{Duration, Instant};
use loadline_linux::netlink::Netlink;
use nix::net::if_::{if_indextoname, if_nametoindex};

use crate::{error::AttachError, object::Object, traffic_control};

/// How to attach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attach {
    /// The first of the others that works; to forward on a veth not native.
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

/// Where a program is attached. Whoever deletes the interface detaches it, and the kernel attaches
/// nothing to another of the same name.
#[derive(Debug)]
pub struct Attachment {
    interface: String,
    how: Attach,
    /// Index of the interface; none while the program is nowhere.
    place: Option<(u32, Attached)>,
    /// Index of an interface of the name that refused the program, and when to try it again.
    refusal: Option<(u32, Instant)>,
}

/// What has become of an attachment.
#[derive(Debug)]
pub enum AttachmentChange {
    /// The interface was deleted.
    Lost,
    /// The program is attached to another interface of the name.
    Attached(Attached),
    /// That interface does not take it.
    Refused(AttachError),
}

impl Attachment {
    /// A program that is to be attached to an interface.
    #[must_use]
    pub fn to(interface: &str, how: Attach) -> Self {
        Self { interface: interface.to_owned(), how, place: None, refusal: None }
    }

    /// Name of the interface.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// How the program is attached; none where it is not.
    #[must_use]
    pub fn attached(&self) -> Option<Attached> {
        self.place.map(|(_, attached)| attached)
    }

    /// Attaches the program by `attach`.
    ///
    /// # Errors
    /// No such interface, or it refuses.
    pub fn begin(
        &mut self,
        attach: impl FnOnce(&str, Attach) -> Result<Attached, AttachError>,
    ) -> Result<Attached, AttachError> {
        let attached = attach(&self.interface, self.how)?;
        self.place = index(&self.interface).map(|index| (index, attached));
        Ok(attached)
    }

    /// Looks whether the interface is still there, and attaches the program by `attach` to another
    /// of the name, or to one that refused it 10 s ago. To be called from time to time; says each
    /// change once.
    pub fn look(
        &mut self,
        now: Instant,
        attach: impl FnOnce(&str, Attach) -> Result<Attached, AttachError>,
    ) -> Option<AttachmentChange> {
        if let Some((index, _)) = self.place {
            if is_there(index) {
                return None;
            }
            self.place = None;
            return Some(AttachmentChange::Lost);
        }
        let index = index(&self.interface)?;
        let refusal = self.refusal.filter(|(of, _)| *of == index);
        if refusal.is_some_and(|(_, again)| now < again) {
            return None;
        }
        match self.begin(attach) {
            Ok(attached) => Some(AttachmentChange::Attached(attached)),
            Err(error) => {
                self.refusal = Some((index, now + AGAIN));
                refusal.is_none().then_some(AttachmentChange::Refused(error))
            }
        }
    }
}

/// How long after a refusal the program is attached again.
const AGAIN: Duration = Duration::from_secs(10);

/// The number of the interface with this name.
fn index(interface: &str) -> Option<u32> {
    if_nametoindex(interface).ok()
}

/// Whether the interface with this number is there, under whatever name. nix takes the missing name
/// of one that is not for an empty one.
fn is_there(index: u32) -> bool {
    if_indextoname(index).is_ok_and(|name| !name.is_empty())
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
        // On a veth, XDP_TX of a program in the driver loses packets unless the other end has a
        // program too, and packets have no checksums yet, which traffic control alone leaves be.
        Attach::Auto if object.traffic_control.is_some() && is_veth(interface) => {
            &[Attached::Tcx, Attached::Generic][..]
        }
        Attach::Auto => &[Attached::Native, Attached::Generic, Attached::Tcx],
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

/// Whether an interface is one end of a virtual pair.
fn is_veth(interface: &str) -> bool {
    let link = Netlink::open().and_then(|mut netlink| netlink.link(interface));
    link.is_ok_and(|link| link.kind.as_deref() == Some("veth"))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Of no interface.
    const DELETED: u32 = i32::MAX as u32;

    fn refuse(_: &str, _: Attach) -> Result<Attached, AttachError> {
        Err(AttachError::OnlyXdp)
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_program_whose_interface_was_deleted_is_attached_to_the_next_of_the_name() {
        let mut attachment = Attachment::to("lo", Attach::Auto);
        attachment.place = Some((DELETED, Attached::Native));
        let lost = attachment.look(at(1), refuse);
        assert!(matches!(lost, Some(AttachmentChange::Lost)), "{lost:?}");
        assert_eq!(attachment.attached(), None);
        let refused = attachment.look(at(1), refuse);
        assert!(matches!(refused, Some(AttachmentChange::Refused(_))), "{refused:?}");
        assert!(attachment.look(at(11), refuse).is_none(), "said once");
        let attached = attachment.look(at(21), |_, _| Ok(Attached::Generic));
        assert!(matches!(attached, Some(AttachmentChange::Attached(Attached::Generic))));
        assert!(attachment.look(at(22), refuse).is_none(), "it stays");
        assert_eq!(attachment.attached(), Some(Attached::Generic));
    }

    #[test]
    fn an_interface_that_refuses_is_asked_again_after_ten_seconds_and_another_one_at_once() {
        let mut attachment = Attachment::to("lo", Attach::Auto);
        let mut asked = 0;
        let mut look = |attachment: &mut Attachment, now| {
            let refuse = |_: &str, _| {
                asked += 1;
                Err(AttachError::OnlyXdp)
            };
            drop(attachment.look(at(now), refuse));
            asked
        };
        let asked = [0, 1, 9, 10, 11, 19, 20].map(|now| look(&mut attachment, now));
        assert_eq!(asked, [1, 1, 1, 2, 2, 2, 3]);
        attachment.refusal = Some((DELETED, at(30)));
        assert_eq!(look(&mut attachment, 21), 4);
    }

    #[test]
    fn an_interface_that_is_not_there_is_waited_for() {
        let mut attachment = Attachment::to("no-such-one", Attach::Auto);
        assert!(attachment.look(at(0), refuse).is_none());
    }
}
