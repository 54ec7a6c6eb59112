//! A lab needs no root.

use std::{env, process::Command};

use loadline_core::time::Duration;
use loadline_lab::host::Program;

use crate::support::{PATIENT, is_root, options, round_trip, row, start, udp, v4, veth};

#[test]
fn a_user_without_rights_has_a_lab() {
    if !is_root() {
        return as_the_user();
    }
    // Nobody has no rights, and no process of the machine's that matters.
    let ran = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set=-all"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "unprivileged::a_user_without_rights_has_a_lab", "--nocapture"])
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    assert!(said.contains("a lab without root"), "{said}");
}

fn as_the_user() {
    for options in [options(), veth()] {
        let lab = start(&row(2, Duration::from_millis(5)), &options);
        assert!(lab.rootless());
        let (here, there) = (udp(&lab.hosts()[0], v4(1)), udp(&lab.hosts()[1], v4(2)));
        let took = round_trip(&here, &there, there.local_addr().unwrap());
        assert!(took >= Duration::from_micros(9_500), "{took}");
        let user = lab.hosts()[0].run(Program::new("id").arg("-u"), PATIENT).unwrap();
        assert_eq!(user.stdout, "0\n", "root inside");
        let joined = Command::new(env!("CARGO_BIN_EXE_loadline-host"))
            .args(["enter", &lab.hosts()[1].init().to_string(), "uname", "-n"])
            .output()
            .unwrap();
        assert_eq!(joined.stdout, b"h1\n", "{joined:?}");
        println!("a lab without root: {:?}", lab.notes());
    }
}
