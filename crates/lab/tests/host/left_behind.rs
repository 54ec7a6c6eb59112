//! When the process that holds a lab is gone, so is the lab, however that process went.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use loadline_core::{time::Duration, units::Ratio};
use loadline_lab::host::{Host, Lab, Machine, Processors, Program};

use crate::support::{PATIENT, eventually, is_alive, is_root, options, row, start, veth};

#[test]
fn nothing_is_left_after_a_lab_is_dropped() {
    let before = machine();
    let lab = held();
    let pids = processes_of(&lab);
    assert!(pids.len() >= 4, "{pids:?}");
    drop(lab);
    assert!(pids.iter().all(|&pid| !is_alive(pid)), "{pids:?}");
    assert_eq!(machine(), before);
}

#[test]
fn a_child_that_is_still_held_keeps_nothing_alive() {
    let lab = held();
    let pids = processes_of(&lab);
    let mut child = lab.hosts()[0].spawn(Program::new("sleep").arg("600")).unwrap();
    drop(lab);
    assert!(pids.iter().all(|&pid| !is_alive(pid)), "{pids:?}");
    let end = child.wait_with_deadline(PATIENT).unwrap();
    assert_eq!(end.to_string(), "with its host");
    assert!(child.signal(loadline_lab::host::Signal::TERM).is_err());
}

#[test]
fn nothing_is_left_after_a_panic_an_abort_and_kill_9() {
    for way in ["panic", "abort", "kill -9"] {
        let before = machine();
        let mut holder = hold(way);
        let mut line = String::new();
        let stdout = holder.stdout.take().unwrap();
        // Names of tests come first.
        for read in BufReader::new(stdout).lines() {
            line = read.unwrap();
            if line.contains("holding ") {
                break;
            }
        }
        let pids: Vec<u32> = line
            .rsplit_once("holding ")
            .unwrap_or_default()
            .1
            .split(' ')
            .map(|pid| pid.parse().unwrap())
            .collect();
        assert!(pids.len() >= 4, "{line}");
        if way == "kill -9" {
            assert!(pids.iter().all(|&pid| is_alive(pid)), "{pids:?}");
            holder.kill().unwrap();
        }
        assert!(!holder.wait().unwrap().success());
        eventually("no process is left", || pids.iter().all(|&pid| !is_alive(pid)));
        eventually("the machine is as before", || machine() == before);
    }
}

#[test]
fn a_host_that_is_killed_takes_its_programs_with_it_and_is_told_as_gone() {
    let lab = start(&row(2, Duration::from_millis(1)), &options());
    let mut child = lab.hosts()[0].spawn(Program::new("sleep").arg("600")).unwrap();
    let killed = Command::new("kill").args(["-9", &lab.hosts()[0].init().to_string()]).status();
    assert!(killed.unwrap().success());
    assert_eq!(child.wait_with_deadline(PATIENT).unwrap().to_string(), "with its host");
    let said = lab.hosts()[0].usage().unwrap_err().to_string();
    assert!(said.contains("host `h0` has ended"), "{said}");
    assert!(lab.hosts()[1].run(Program::new("true"), PATIENT).unwrap().exit.success());
}

/// Not a test: the process that others start and end.
#[test]
fn holder() {
    let Ok(way) = env::var(HOLD) else { return };
    let lab = held();
    let pids: Vec<String> = processes_of(&lab).iter().map(u32::to_string).collect();
    println!("holding {}", pids.join(" "));
    match way.as_str() {
        "panic" => panic!("as asked"),
        "abort" => std::process::abort(),
        _ => std::thread::sleep(PATIENT.to_std()),
    }
}

fn hold(way: &str) -> std::process::Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "left_behind::holder", "--nocapture"])
        .env(HOLD, way)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A lab with programs on it, one of which has left its process group, and a share and an Ethernet
/// if they can be had.
fn held() -> Lab {
    let mut options = veth();
    let share = Processors { share: Some(Ratio::percent(50)), ..Processors::default() };
    let machine = Machine { processors: share, ..Machine::default() };
    options.machines.insert("h0".to_owned(), machine);
    let mut topology = row(2, Duration::from_millis(1));
    if is_root() {
        for (host, address) in topology.hosts.iter_mut().zip(["10.1.0.1/24", "10.1.0.2/24"]) {
            host.ethernet = Some(address.parse().unwrap());
        }
    }
    let lab = start(&topology, &options);
    for script in ["sleep 600 & sleep 600", "setsid sleep 600 & exec sleep 600"] {
        lab.hosts()[1].spawn(Program::new("sh").args(["-c", script])).unwrap();
    }
    lab
}

/// The processes of all hosts, as this process sees them: everything below this one.
fn processes_of(lab: &Lab) -> Vec<u32> {
    let parents = || {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
    };
    let all: Vec<(u32, u32)> = parents().collect();
    let mut found: Vec<u32> = lab.hosts().iter().map(Host::init).collect();
    let outers = all.iter().filter(|(pid, _)| found.contains(pid)).map(|(_, parent)| *parent);
    let outers: Vec<u32> = outers.collect();
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(all.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.extend(outers);
    found
}

/// What a lab could leave on a machine, besides processes: mounts, interfaces, named network
/// namespaces, cgroups of hosts that nobody runs.
fn machine() -> [Vec<String>; 4] {
    let names = |directory: &str| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let groups = names("/sys/fs/cgroup/cpu").into_iter();
    let groups = groups.filter(|name| {
        let pid = name.strip_prefix("loadline-").and_then(|name| name.rsplit_once('-'));
        pid.is_some_and(|(_, pid)| !fs::exists(format!("/proc/{pid}")).unwrap())
    });
    [
        mounts.lines().map(str::to_owned).collect(),
        names("/sys/class/net"),
        names("/run/netns"),
        groups.collect(),
    ]
}

const HOLD: &str = "LOADLINE_TEST_HOLDS_A_LAB";
