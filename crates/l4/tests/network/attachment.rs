//! Interfaces that are deleted and made anew while a program is attached to them.

use std::process::Command;

use loadline_l4::{Attach, Attached, Attachment, AttachmentChange, Datapath};

use crate::{OWN, bridge::bridge, forwarding};

#[test]
fn a_program_is_attached_again_to_an_interface_that_is_deleted_and_made_anew() {
    let Some(hub) = bridge() else { return };
    hub.enter(|| {
        ip("link add uplink type veth peer name far");
        let mut datapath = forwarding(OWN, 0, |_| 1);
        let mut attachment = Attachment::to("uplink", Attach::Generic);
        attachment.begin(|name, how| datapath.attach(name, how)).unwrap();
        assert!(attachment.look(Datapath::now(), |name, how| datapath.attach(name, how)).is_none());
        ip("link del uplink");
        ip("link add uplink type veth peer name far");
        assert!(!ip("link show dev uplink").contains("xdp"), "the kernel does not do it");
        let lost = attachment.look(Datapath::now(), |name, how| datapath.attach(name, how));
        assert!(matches!(lost, Some(AttachmentChange::Lost)), "{lost:?}");
        let again = attachment.look(Datapath::now(), |name, how| datapath.attach(name, how));
        let is_back = matches!(again, Some(AttachmentChange::Attached(Attached::Generic)));
        assert!(is_back, "{again:?}");
        assert!(ip("link show dev uplink").contains("xdp"));
    });
}

/// What `ip` tells in this namespace.
fn ip(words: &str) -> String {
    let output = Command::new("ip").args(words.split(' ')).output().unwrap();
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
