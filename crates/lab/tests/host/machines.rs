//! What hosts may use of the machine, and what no lab can be.

use loadline_core::{time::Duration, units::Ratio};
use loadline_lab::{
    host::{Lab, LabError, Machine, Options, Processors, Program, Tcp},
    topology::Topology,
};

use crate::{
    skipped::skipped,
    support::{PATIENT, named, options, row, start, v4},
};

fn with(processors: Processors) -> Options {
    let mut options = options();
    let machine = Machine { processors, ..Machine::default() };
    options.machines.insert("h0".to_owned(), machine);
    options
}

#[test]
fn a_host_with_one_core_has_one() {
    let one = Processors { cores: Some(1), ..Processors::default() };
    let lab = start(&row(2, Duration::from_millis(1)), &with(one));
    let counted = lab.hosts()[0].run(Program::new("nproc"), PATIENT).unwrap();
    assert_eq!(counted.stdout, "1\n");
    let all = std::thread::available_parallelism().unwrap();
    let counted = lab.hosts()[1].run(Program::new("nproc"), PATIENT).unwrap();
    assert_eq!(counted.stdout, format!("{all}\n"));
}

#[test]
fn a_host_that_is_to_have_more_cores_than_the_machine_is_told_of() {
    let many = Processors { cores: Some(9_999), ..Processors::default() };
    let lab = start(&row(1, Duration::from_millis(1)), &with(many));
    let said = "cores instead of 9999: this machine has no more";
    let is_said = |note: &String| note.starts_with("host h0 has ") && note.ends_with(said);
    assert!(lab.notes().iter().any(is_said), "{:?}", lab.notes());
}

#[test]
fn a_share_of_processor_time_holds_or_the_lab_says_that_it_does_not() {
    let share = Processors { share: Some(Ratio::percent(20)), ..Processors::default() };
    let lab = start(&row(1, Duration::from_millis(1)), &with(share));
    let host = &lab.hosts()[0];
    let mut busy = host.spawn(Program::new("sh").args(["-c", "while :; do :; done"])).unwrap();
    let begin = host.usage().unwrap();
    assert!(busy.wait_with_deadline(Duration::from_millis(1_500)).is_err());
    let end = host.usage().unwrap();
    let used =
        end.cpu.saturating_sub(begin.cpu).as_secs_f64() / end.at.since(begin.at).as_secs_f64();
    if lab.notes().iter().any(|note| note.contains("no processor share for h0")) {
        return skipped("control groups, for a share of a processor");
    }
    println!("used {used:.3} of a processor");
    // One period of 100 ms and two ticks may fall outside.
    assert!(used < 0.26, "{used}");
}

#[test]
fn a_lab_that_cannot_be_is_refused_before_anything_is_started() {
    let said = |topology: &Topology, options: &Options| {
        Lab::start(topology, options).unwrap_err().to_string()
    };
    let twice = named(&[("a", &[v4(1), v4(1)])], &[]);
    assert!(said(&twice, &options()).contains("twice; name it once"));
    let bad = named(&[("a/b", &[v4(1)])], &[]);
    assert!(said(&bad, &options()).contains("like `pop-1`"));
    let mut unknown = options();
    unknown.machines.insert("h9".to_owned(), Machine::default());
    assert!(said(&row(2, Duration::ZERO), &unknown).contains("the hosts are h0, h1"));
}

#[test]
fn a_setting_that_the_kernel_does_not_have_is_named() {
    let mut options = options();
    let mut machine = Machine::default();
    machine.settings.insert("net.ipv4.tcp_fast_as_light".to_owned(), "1".to_owned());
    options.machines.insert("h0".to_owned(), machine);
    let said = Lab::start(&row(1, Duration::ZERO), &options).unwrap_err().to_string();
    assert!(said.contains("tcp_fast_as_light") && said.contains("No such file"), "{said}");
}

#[test]
fn a_congestion_control_that_the_kernel_does_not_have_is_named() {
    let mut options = options();
    let tcp = Tcp { congestion: Some("light".to_owned()), ..Tcp::default() };
    options.machines.insert("h0".to_owned(), Machine { tcp, ..Machine::default() });
    let said = Lab::start(&row(1, Duration::ZERO), &options).unwrap_err().to_string();
    assert!(said.contains("`light`"), "{said}");
    assert!(said.contains("tcp_available_congestion_control"), "{said}");
}

#[test]
fn a_program_that_is_no_host_is_told_as_one() {
    let wrong = |program: &str| Options { program: Some(program.into()), ..options() };
    let start = |program| Lab::start(&row(1, Duration::ZERO), &wrong(program)).unwrap_err();
    assert!(matches!(start("/nowhere"), LabError::Program { .. }));
    let said = start("true").to_string();
    assert!(said.contains("host `h0` has ended"), "{said}");
}
