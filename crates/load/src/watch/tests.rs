//! The sampler on this machine: processes that burn, sleep, end and have children.

use std::{
    io::{Read as _, Write as _},
    process::{Child, Command, Stdio},
};

use loadline_measure::record::Role;

use super::*;

/// A process of ours; killed when the test is over.
struct Burner(Child);

impl Burner {
    fn start(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    fn subject(&self) -> Subject {
        Subject { who: Who::Pid(self.0.id()), role: Role::Server }
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        // Both fail where it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn watch(subjects: Vec<Subject>) -> Watcher {
    let interval = Some(Duration::from_millis(20));
    Watcher::start(WatchPlan { subjects, interval, ..WatchPlan::default() }).unwrap()
}

/// Waits for what the watch will see sooner or later.
fn wait_for(what: impl Fn() -> bool) {
    while !what() {
        thread::sleep(core::time::Duration::from_millis(5));
    }
}

/// Lets the watch take so many readings; one more than asked for, as one may be under way.
fn see(watcher: &Watcher, readings: u64) {
    let before = watcher.readings();
    wait_for(|| watcher.readings() > before + readings);
}

#[test]
fn a_process_that_burns_has_used_its_cpu_and_one_that_sleeps_has_not() {
    let burner = Burner::start("while :; do :; done");
    let sleeper = Burner::start("read line");
    let watcher = watch(vec![burner.subject(), sleeper.subject()]);
    see(&watcher, 20);
    let record = watcher.finish();
    let used = |pid: u32| -> f64 {
        let of = |sample: &loadline_measure::record::Sample| {
            sample.processes.iter().find(|one| one.pid == pid).unwrap().cores()
        };
        record.samples.iter().map(of).sum::<f64>() / record.samples.len() as f64
    };
    let (burnt, slept) = (used(burner.0.id()), used(sleeper.0.id()));
    assert!(burnt > 0.05 && burnt < 1.2, "{burnt}");
    assert!(slept < 0.02, "{slept}");
    assert!(record.samples.len() >= 5, "{}", record.samples.len());
    assert!(record.samples.is_sorted_by_key(|sample| sample.at));
    for sample in &record.samples {
        let cpu = sample.cpu;
        let sum = cpu.user + cpu.system + cpu.softirq + cpu.steal + cpu.idle;
        assert!((sum - 1.0).abs() < 0.001, "{sum}");
        assert_eq!(sample.cores.len() as u32, record.machine.cores);
    }
    let first = &record.processes[0];
    assert_eq!((first.role, first.ended), (Role::Server, false));
    assert!(first.descriptor_limit.is_some());
    assert!(record.samples[0].processes[0].descriptors.unwrap() >= 3);
}

#[test]
fn a_process_that_ends_midway_is_said_to_have_ended_and_the_rest_goes_on() {
    let short = Burner::start("read line");
    let long = Burner::start("read line");
    let watcher = watch(vec![short.subject(), long.subject()]);
    assert!(!watcher.is_alone());
    let (ended, lives) = (short.0.id(), long.0.id());
    drop(short);
    see(&watcher, 3);
    assert!(!watcher.is_alone());
    drop(long);
    wait_for(|| watcher.is_alone());
    let record = watcher.finish();
    let of = |pid| record.processes.iter().find(|one| one.pid == pid).unwrap();
    assert!(of(ended).ended && of(lives).ended);
    assert!(of(ended).until < of(lives).until);
}

#[test]
fn children_and_their_children_are_followed_in_their_parents_role() {
    // The innermost waits for the end of the input that all three share.
    let mut parent = Burner::start("read line; sh -c 'sh -c \"echo here; read line; :\"; :'; :");
    let watcher = watch(vec![parent.subject()]);
    let mut input = parent.0.stdin.take().unwrap();
    input.write_all(b"go\n").unwrap();
    parent.0.stdout.take().unwrap().read_exact(&mut [0; 4]).unwrap();
    see(&watcher, 1);
    drop(input);
    wait_for(|| watcher.is_alone());
    let record = watcher.finish();
    assert_eq!(record.processes.len(), 3, "{:?}", record.processes);
    assert!(record.processes.iter().all(|process| process.role == Role::Server));
    assert!(record.processes[1].from > Duration::ZERO);
}

#[test]
fn a_process_that_is_not_there_is_refused() {
    // The kernel gives no number above 2^22.
    let nobody = Subject { who: Who::Pid(u32::MAX), role: Role::Watched };
    let plan = WatchPlan { subjects: vec![nobody], ..WatchPlan::default() };
    let refused = Watcher::start(plan).err().unwrap();
    assert!(refused.to_string().contains("no process 4294967295"), "{refused}");
}

#[test]
fn a_name_that_nobody_has_and_an_interface_that_is_not_there_are_not_seen() {
    let subjects = subjects("lb=no-such-program").unwrap();
    let limits = vec!["no0=1Mb/s".parse().unwrap()];
    let watcher = Watcher::start(WatchPlan { subjects, limits, ..WatchPlan::default() }).unwrap();
    let record = watcher.finish();
    for part in ["`no-such-program`", "no0: there is no interface"] {
        assert!(record.not_seen.iter().any(|one| one.contains(part)), "{:?}", record.not_seen);
    }
    assert_eq!(record.samples.len(), 1, "a watch of no time has one sample");
    assert!(record.verdict.remarks[0].contains("too few samples"));
}

#[test]
fn a_program_that_is_not_there_yet_is_waited_for() {
    let watcher = watch(subjects("server=no-such-program").unwrap());
    see(&watcher, 2);
    assert!(!watcher.is_alone());
}

#[test]
fn traffic_over_the_loopback_and_a_full_listen_queue_are_counted() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    // The table of sockets is read at the first, and then when the cost of that is made good.
    let watcher = watch(Vec::new());
    see(&watcher, 1);
    client.write_all(&[0; 100_000]).unwrap();
    see(&watcher, 1);
    let record = watcher.finish();
    let lo = record.samples.iter().flat_map(|sample| &sample.interfaces);
    let most = lo.filter(|one| one.name == "lo").map(|one| one.sent_bytes_per_s).max();
    assert!(most.unwrap() > 100_000, "{most:?}");
    let waits = record.samples.iter().map(|sample| sample.sockets.longest_listen_queue).max();
    assert!(waits.unwrap() >= 1, "the connection was never accepted");
    assert!(record.samples.iter().any(|sample| sample.sockets.established >= 2));
    assert!(record.samples.iter().any(|sample| sample.sockets.ports_in_use >= 1));
}

#[test]
fn a_long_run_is_thinned_to_a_reading_a_second() {
    let mut machine = Machine::open().unwrap();
    let mut processes = Processes::find(&[]).unwrap();
    let at = |n| FAST * n;
    let readings: Vec<Reading> =
        (0..=100).map(|n| Reading::take(now(), at(n), &mut machine, &mut processes)).collect();
    let state = Arc::default();
    let (began, chosen, interval) = (now(), None, FAST);
    let mut watch = Watch { began, chosen, interval, readings, machine, processes, state };
    watch.thin();
    assert_eq!(watch.interval, SLOW);
    let seconds: Vec<f64> =
        watch.readings.iter().map(|reading| reading.at.as_secs_f64().round()).collect();
    assert_eq!(seconds, (0..=10).map(f64::from).collect::<Vec<_>>());
}
