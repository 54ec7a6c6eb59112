//! A disk that is full: a file system with little room in a namespace of its own, and a limit on
//! the size of files. Both are another process's.

use std::{cell::Cell, env, process::Command};

use super::*;
use loadline_core::state::Purge;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn a_full_disk_is_left_alone_said_and_used_again_when_it_has_room() {
    let folder = tempfile::tempdir().unwrap();
    // Whoever writes beyond the limit would be killed by a signal otherwise.
    let script = "trap '' XFSZ; exec \"$0\" --exact \"$1\" --nocapture";
    let mut child = Command::new("sh");
    let run = child.args(["-c", script]).arg(env::current_exe().unwrap()).arg(CHILD);
    let output = run.env(FOLDER, folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("it goes on"), "{said}");
}

/// By itself it has nothing to do.
#[tokio::test]
async fn the_process_whose_disk_is_full() {
    let Ok(folder) = env::var(FOLDER) else { return };
    let disk = open_with(Path::new(&folder), SIZE);
    disk.offer(&url(1), &shared(1, 1_000));
    written(&disk, 1);
    let whole = getrlimit(Resource::Fsize);
    let limit = |bytes| setrlimit(Resource::Fsize, Rlimit { current: bytes, ..whole });
    limit(Some(40_000)).unwrap();
    let mut number = 2;
    while disk.state().writes_failed == 0 {
        disk.offer(&url(number), &shared(number, 30_000));
        number += 1;
        thread::sleep(StdDuration::from_millis(5));
    }
    wait_until(|| !disk.state().up);
    assert_eq!(read(&disk, 1).await.unwrap().1, body(1, 1_000), "it can still be read");
    let refused = disk.state().writes_refused;
    disk.offer(&url(900), &shared(900, 10));
    assert_eq!(disk.state().writes_refused, refused + 1);
    limit(Some(10)).unwrap();
    let purge = Purge { url: None, prefix: None, tag: Some("tag-1".into()), soft: false };
    let told = disk.purge(|| 1, Purged::By(&purge)).wait();
    assert!(told.is_err_and(|why| why.contains("too large")), "it is said");
    assert!(read(&disk, 1).await.is_none(), "it is gone all the same");
    setrlimit(Resource::Fsize, whole).unwrap();
    wait_until(|| disk.state().up);
    disk.offer(&url(902), &shared(902, 10));
    wait_until(|| place(&disk, 902).is_some());
    // What could not be recorded is now.
    let disk = restarted(disk, Path::new(&folder));
    assert!(read(&disk, 1).await.is_none() && read(&disk, 902).await.is_some());
    println!("it goes on");
}

#[test]
fn a_file_system_without_room_makes_some_by_the_oldest_and_is_used_again() {
    let namespace = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount"]);
        command
    };
    if !namespace().arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no namespace of its own can be had");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=12M none \"$2\" && exec \"$0\" --exact \"$1\" --nocapture";
    let mut child = namespace();
    let run = child.args(["sh", "-c", script]).arg(env::current_exe().unwrap()).arg(SMALL_CHILD);
    let run = run.arg(folder.path()).env(SMALL_FOLDER, folder.path());
    let output = run.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("it goes on"), "{said}");
}

/// By itself it has nothing to do.
#[tokio::test]
async fn the_process_whose_file_system_is_small() {
    let Ok(folder) = env::var(SMALL_FOLDER) else { return };
    let disk = open_with(Path::new(&folder), SIZE);
    let number = Cell::new(0);
    let fill = |until: &dyn Fn(&state::DiskCache) -> bool| {
        wait_until(|| {
            let next = number.replace(number.get() + 1);
            disk.offer(&url(next), &shared(next, 200_000));
            thread::sleep(StdDuration::from_millis(2));
            until(&disk.state())
        });
        number.get()
    };
    fill(&|state| state.writes_failed > 0);
    assert!(bytes_of(Path::new(&folder)) <= 12 << 20);
    // What had been written is as it was, but for the oldest, which made room.
    let first = fill(&|state| state.up);
    wait_until(|| disk.state().queued_bytes == 0);
    let there = disk.state().objects;
    assert!(there > 20 && there < first && disk.state().reclaimed > 0, "{there} of {first}");
    let mut right = 0;
    for number in 0..first {
        if let Some((_, found)) = read(&disk, number).await {
            assert_eq!(found, body(number, 200_000), "{number}");
            right += 1;
        }
    }
    assert_eq!((right, disk.state().damaged), (there, 0));
    // As often as it takes: it is never stuck.
    let before = disk.state();
    fill(&|state| state.written > before.written + 60);
    let failed = disk.state().writes_failed;
    fill(&|state| state.writes_failed > failed);
    fill(&|state| state.up);
    let disk = restarted(disk, Path::new(&folder));
    assert!(disk.state().objects > 0 && disk.state().damaged == 0, "{:?}", disk.state());
    println!("it goes on");
}

const SMALL_CHILD: &str = "cache::disk::tests::full::the_process_whose_file_system_is_small";
const SMALL_FOLDER: &str = "LOADLINE_TEST_SMALL_DISK";
const CHILD: &str = "cache::disk::tests::full::the_process_whose_disk_is_full";
const FOLDER: &str = "LOADLINE_TEST_DISK_FULL";
