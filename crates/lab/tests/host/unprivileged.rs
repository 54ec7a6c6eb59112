//! A lab needs no root.

use std::{env, process::Command};

use loadline_core::time::Duration;
use loadline_lab::host::{Lab, Program};

use crate::support::{PATIENT, is_root, options, round_trip, row, start, udp, v4, veth};

#[test]
fn a_user_without_rights_has_a_lab() {
    if !is_root() {
        println!("a lab without root: {:?}", as_the_user());
        return;
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

#[test]
fn where_namespaces_are_refused_the_setting_to_change_is_named() {
    // In a user namespace of its own, whose limits hold for nobody else.
    let limits = "cd /proc/sys/user && echo 0 >max_user_namespaces && echo 0 >max_pid_namespaces";
    let ran = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c"])
        .arg(format!("{limits} && exec \"$0\" --exact unprivileged::refused --nocapture"))
        .arg(env::current_exe().unwrap())
        .env(REFUSED, "yes")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.contains("this system refuses a host of the lab"), "{ran:?}");
    assert!(said.contains("sysctl user.max_user_namespaces=10000"), "{said}");
}

/// Not a test: the process that finds namespaces refused.
#[test]
fn refused() {
    if env::var_os(REFUSED).is_some() {
        let lab = Lab::start(&row(2, Duration::ZERO), &options());
        println!("{}", lab.unwrap_err());
    }
}

/// Labs of this user; what they had to do without.
fn as_the_user() -> Vec<String> {
    let mut notes = Vec::new();
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
        notes.extend_from_slice(lab.notes());
    }
    notes
}

const REFUSED: &str = "LOADLINE_TEST_FINDS_NAMESPACES_REFUSED";
