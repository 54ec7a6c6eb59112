//! Series made by hand, and what must be said of them.

use super::*;
use crate::record::{
    Cpu, Fault, Generator, Interface, InterfaceSample, Machine, Moment, Outcomes, Process,
    ProcessSample, Resource, Role, Sample, Sockets,
};

/// One process `loadline[812]` on two cores with one interface, a sample a second.
fn run(role: Role, seconds: u64, sample: impl Fn(u64) -> Sample) -> ResourceRecord {
    let end = Duration::from_secs(seconds);
    let process = Process {
        pid: 812,
        name: "loadline".to_string(),
        role,
        from: Duration::ZERO,
        until: end,
        ended: false,
        descriptor_limit: Some(1_024),
    };
    let interface = Interface { name: "eth0".to_string(), ..Interface::default() };
    let samples =
        (1..=seconds).map(|second| Sample { at: Duration::from_secs(second), ..sample(second) });
    ResourceRecord {
        interval: Duration::from_secs(1),
        elapsed: end,
        machine: Machine { cores: 2, ephemeral_ports: 28_232, interfaces: vec![interface] },
        processes: vec![process],
        samples: samples.collect(),
        ..ResourceRecord::default()
    }
}

/// A machine busy to this share whose process uses so much of a core.
fn busy(share: f64, cores: f64) -> Sample {
    let softirq = share * 0.2;
    let cpu = Cpu { user: share - softirq, softirq, idle: 1.0 - share, ..Cpu::default() };
    let process =
        ProcessSample { pid: 812, user: cores, busiest_thread: cores, ..ProcessSample::default() };
    Sample { cpu, cores: vec![cpu; 2], processes: vec![process], ..Sample::default() }
}

fn carrying(mut sample: Sample, bytes_per_s: u64) -> Sample {
    let interface = InterfaceSample {
        name: "eth0".to_string(),
        sent_bytes_per_s: bytes_per_s,
        received_bytes_per_s: bytes_per_s / 20,
        ..InterfaceSample::default()
    };
    sample.interfaces = vec![interface];
    sample
}

fn losing(mut sample: Sample) -> Sample {
    sample.sockets.segments_sent = 20_000;
    sample.sockets.segments_resent = 200;
    sample
}

/// An open loop at `offered` per second of which `answered` come back; the rest waits.
fn load(seconds: u64, offered: u64, answered: u64) -> LoadRecord {
    let moment = |second: u64| Moment {
        at: Duration::from_secs(second),
        planned: offered,
        outcomes: Outcomes { ok: answered, ..Outcomes::default() },
        in_flight: (offered - answered) * second,
        ..Moment::default()
    };
    LoadRecord {
        elapsed: Duration::from_secs(seconds),
        moments: (1..=seconds).map(moment).collect(),
        ..LoadRecord::default()
    }
}

/// The same with a request of its last second that times out half a minute later.
fn with_late_timeout(mut load: LoadRecord) -> LoadRecord {
    let seconds = load.moments.len() as u64;
    load.moments.extend((1..=30).map(|second| Moment {
        at: Duration::from_secs(seconds + second),
        outcomes: Outcomes { timeout: u64::from(second == 30), ..Outcomes::default() },
        ..Moment::default()
    }));
    load
}

fn only(verdict: &BottleneckVerdict) -> &Bottleneck {
    assert_eq!(verdict.bottlenecks.len(), 1, "{verdict:#?}");
    &verdict.bottlenecks[0]
}

/// The t2.micro study: 1000/s of 50 kB offered for five minutes, CPU not the limit.
fn t2_micro() -> ResourceRecord {
    run(Role::LoadBalancer, 300, |second| {
        // It climbs for ten seconds, then 180 Mb/s hold it, give or take.
        let bytes =
            if second <= 10 { second * 2_200_000 } else { 22_300_000 + second % 3 * 200_000 };
        losing(carrying(busy(0.6, 0.55), bytes))
    })
}

#[test]
fn the_t2_micro_is_limited_by_the_network_it_was_said_to_have() {
    let mut record = t2_micro();
    record.machine.interfaces[0].given_bytes_per_s = Some(22_500_000);
    let verdict = judge(&record, None);
    let found = only(&verdict);
    assert_eq!((found.resource, found.since), (Resource::Network, Duration::from_secs(10)));
    assert_eq!(
        found.evidence,
        [
            "eth0 carried 22.5 MB/s (180 Mb/s) from 10 s on: 100 % of 180 Mb/s (given)",
            "58200 segments were sent again (1.0 %), 0 packets dropped",
            "the machine's CPU was 60 % busy meanwhile, lb 0.55 cores",
        ]
    );
}

#[test]
fn without_a_known_limit_bytes_that_stay_flat_under_rising_demand_are_the_network() {
    let verdict = judge(&t2_micro(), Some(&load(300, 1_000, 460)));
    let found = only(&verdict);
    assert_eq!(found.resource, Resource::Network);
    assert!(found.evidence[0].starts_with("1000/s were offered and 460/s answered from 16 s on"));
    assert!(found.evidence[1].contains("eth0 carried 22.5 MB/s (180 Mb/s) from 16 s on, flat"));
}

#[test]
fn the_same_without_losses_is_a_server_that_keeps_requests_waiting() {
    let record = run(Role::Server, 60, |_| carrying(busy(0.2, 0.1), 2_000_000));
    let verdict = judge(&record, Some(&load(60, 100, 40)));
    let found = only(&verdict);
    assert_eq!((found.resource, found.since), (Resource::ServerQueue, Duration::from_secs(4)));
    assert_eq!(
        found.evidence,
        [
            "100/s were offered and 40/s answered from 4.0 s on; in flight rose to 3600",
            "the servers used 0.10 cores and the machine's CPU was 20 % busy",
        ]
    );
}

#[test]
fn a_request_that_times_out_after_the_plan_changes_no_rate() {
    let record = run(Role::Server, 60, |_| carrying(busy(0.2, 0.1), 2_000_000));
    let verdict = judge(&record, Some(&with_late_timeout(load(60, 100, 40))));
    assert_eq!(
        only(&verdict).evidence[0],
        "100/s were offered and 40/s answered from 4.0 s on; in flight rose to 3600"
    );
    let verdict = judge(&record, Some(&with_late_timeout(load(60, 100, 100))));
    assert_eq!(verdict.first(), None);
}

#[test]
fn a_load_that_is_met_accuses_nobody_and_says_how_near_everything_came() {
    let record = run(Role::LoadBalancer, 60, |second| {
        carrying(busy(0.3, 0.3 + 0.002 * second as f64), 4_000_000)
    });
    let verdict = judge(&record, Some(&load(60, 100, 100)));
    assert_eq!(verdict.first(), None);
    assert_eq!(
        verdict.remarks,
        [
            "the busiest thread, of loadline[812], used 0.42 of a core at 60 s",
            "the machine's CPU was 30 % busy, 30 % at most (at 60 s)",
            "eth0 carried 4.0 MB/s (32.0 Mb/s) at most, no limit known",
        ]
    );
}

#[test]
fn a_saturated_thread_is_its_roles_cpu_from_the_second_on_that_it_is() {
    for (role, resource) in [
        (Role::LoadBalancer, Resource::LoadBalancerCpu),
        (Role::Server, Resource::ServerCpu),
        (Role::Generator, Resource::GeneratorCpu),
        (Role::Watched, Resource::WatchedCpu),
    ] {
        let full = |second| if second < 12 { busy(0.4, 0.5) } else { busy(0.7, 0.98) };
        let verdict = judge(&run(role, 40, full), None);
        let found = only(&verdict);
        assert_eq!((found.resource, found.since), (resource, Duration::from_secs(12)));
        assert_eq!(
            found.evidence,
            ["loadline[812] used 0.98 of a core from 12 s on, softirq 14 %"]
        );
    }
}

#[test]
fn many_threads_that_fill_all_cores_are_the_cpu_of_who_owns_them() {
    let spread = |_| {
        let mut sample = busy(0.99, 1.7);
        sample.processes[0].busiest_thread = 0.2;
        sample
    };
    let verdict = judge(&run(Role::Server, 20, spread), None);
    assert_eq!(only(&verdict).resource, Resource::ServerCpu);
    let shared = |_| {
        let mut sample = busy(0.99, 0.5);
        sample.processes[0].busiest_thread = 0.2;
        sample
    };
    let verdict = judge(&run(Role::Server, 20, shared), None);
    assert_eq!(only(&verdict).resource, Resource::MachineCpu);
    assert!(only(&verdict).evidence[1].contains("used 25 % of it: server 0.50 cores"));
}

#[test]
fn a_machine_that_others_fill_does_not_limit_who_sleeps() {
    let verdict = judge(&run(Role::Generator, 20, |_| busy(1.0, 0.01)), None);
    assert_eq!(verdict.first(), None);
    let said = "all cores were full from 1.0 s on, 0.5 % of them with what was watched";
    assert!(verdict.remarks.iter().any(|remark| remark.starts_with(said)), "{verdict:?}");
}

#[test]
fn of_a_machine_that_others_fill_nothing_is_used_by_what_was_watched_where_nothing_was() {
    let mut record = run(Role::Watched, 20, |_| busy(1.0, 0.0));
    record.processes.clear();
    let said = "all cores were full from 1.0 s on, 0 % of them with what was watched";
    let verdict = judge(&record, None);
    assert!(verdict.remarks.iter().any(|remark| remark.starts_with(said)), "{verdict:?}");
}

#[test]
fn load_that_is_not_met_while_others_fill_the_machine_is_said_and_laid_on_nobody() {
    let verdict = judge(&run(Role::Server, 60, |_| busy(1.0, 0.1)), Some(&load(60, 100, 40)));
    assert_eq!(verdict.first(), None);
    assert!(verdict.remarks[0].starts_with("100/s were offered and 40/s answered"), "{verdict:?}");
    assert!(verdict.remarks.iter().any(|remark| remark.contains("other processes disturb")));
}

#[test]
fn spent_credits_show_as_steal_and_go_before_the_cpu_they_fill() {
    let throttled = |second| {
        let mut sample = busy(0.5, 0.5);
        if second > 30 {
            sample.cpu = Cpu { user: 0.2, steal: 0.79, idle: 0.01, ..Cpu::default() };
            sample.processes[0].busiest_thread = 0.4;
            sample.processes[0].user = 0.4;
        }
        sample
    };
    let verdict = judge(&run(Role::LoadBalancer, 60, throttled), None);
    let order: Vec<Resource> = verdict.bottlenecks.iter().map(|one| one.resource).collect();
    assert_eq!(order, [Resource::Steal, Resource::MachineCpu]);
    assert!(verdict.bottlenecks[0].evidence[0].contains("withheld 79 % of the CPU from 31 s on"));
}

#[test]
fn ports_and_descriptors_count_from_the_first_sample_that_has_hardly_any_left() {
    let full = |second| {
        let mut sample = busy(0.2, 0.2);
        if second >= 7 {
            sample.sockets =
                Sockets { ports_in_use: 28_000, time_wait: 27_900, ..Sockets::default() };
        }
        sample.processes[0].descriptors = Some(if second >= 5 { 1_024 } else { 90 });
        sample
    };
    let verdict = judge(&run(Role::Generator, 20, full), None);
    let order: Vec<Resource> = verdict.bottlenecks.iter().map(|one| one.resource).collect();
    assert_eq!(order, [Resource::Descriptors, Resource::Ports]);
    assert_eq!(
        verdict.bottlenecks[0].evidence,
        ["loadline[812] had 1024 of 1024 descriptors open at 5.0 s"]
    );
    assert_eq!(
        verdict.bottlenecks[1].evidence,
        ["28000 of 28232 ephemeral ports were in use at 7.0 s, 27900 connections in TIME_WAIT"]
    );
}

#[test]
fn an_overflowing_listen_queue_is_the_servers_where_one_is_watched() {
    let overflowing = |second| {
        let mut sample = busy(0.1, 0.1);
        sample.sockets.listen_overflows = if second == 3 { 42 } else { 0 };
        sample.sockets.longest_listen_queue = 128;
        sample
    };
    let verdict = judge(&run(Role::Server, 20, overflowing), None);
    assert_eq!(only(&verdict).resource, Resource::ServerQueue);
    assert!(
        only(&verdict).evidence[0].starts_with("42 connections met a full listen queue from 3")
    );
    let verdict = judge(&run(Role::Generator, 20, overflowing), None);
    assert_eq!(verdict.first(), None);
    assert!(verdict.remarks.iter().any(|remark| remark.contains("--role server=PID")));
}

#[test]
fn a_core_full_of_packets_is_named_with_their_rate() {
    let packets = |_| {
        let mut sample = carrying(busy(0.5, 0.3), 5_000_000);
        sample.interfaces[0].received_packets_per_s = 40_000;
        sample.cores[1] = Cpu { softirq: 0.97, idle: 0.03, ..Cpu::default() };
        sample
    };
    let verdict = judge(&run(Role::LoadBalancer, 20, packets), None);
    assert_eq!(only(&verdict).resource, Resource::Softirq);
    assert_eq!(
        only(&verdict).evidence,
        ["core 1 spent 97 % on softirq from 1.0 s on, at 40000 packets/s"]
    );
}

#[test]
fn what_gives_out_first_is_named_first_and_its_followers_after_it() {
    let later = |second| {
        let sample = if second < 40 { busy(0.5, 0.5) } else { busy(0.9, 0.99) };
        carrying(sample, if second < 20 { 1_000_000 } else { 22_500_000 })
    };
    let mut record = run(Role::LoadBalancer, 80, later);
    record.machine.interfaces[0].speed_bytes_per_s = Some(23_000_000);
    let verdict = judge(&record, None);
    let order: Vec<_> = verdict.bottlenecks.iter().map(|one| (one.resource, one.since)).collect();
    let second = Duration::from_secs;
    let right = [(Resource::Network, second(20)), (Resource::LoadBalancerCpu, second(40))];
    assert_eq!(order, right);
}

#[test]
fn a_generator_that_doubts_itself_is_named_only_where_nothing_explains_it() {
    let fault = Fault { what: "it sent 80 % of the plan".to_string(), advice: "".to_string() };
    let mut met = load(20, 100, 100);
    met.generator = Generator { faults: vec![fault], ..Generator::default() };
    let verdict = judge(&run(Role::Generator, 20, |_| busy(0.3, 0.3)), Some(&met));
    assert_eq!(only(&verdict).resource, Resource::Generator);
    assert_eq!(only(&verdict).evidence, ["it sent 80 % of the plan"]);
    let verdict = judge(&run(Role::Generator, 20, |_| busy(0.6, 0.99)), Some(&met));
    assert_eq!(only(&verdict).resource, Resource::GeneratorCpu);
}

#[test]
fn a_load_that_began_later_than_the_watch_is_moved_onto_its_axis() {
    let mut record = run(Role::Server, 60, |_| carrying(busy(0.2, 0.1), 2_000_000));
    record.started_unix_ms = 1_000_000;
    let mut unmet = load(50, 100, 40);
    unmet.started_unix_ms = 1_008_000;
    let verdict = judge(&record, Some(&unmet));
    assert_eq!(only(&verdict).since, Duration::from_secs(8 + 4));
}

#[test]
fn too_few_samples_are_not_judged() {
    for seconds in [0, 1, 2] {
        let verdict = judge(&run(Role::Watched, seconds, |_| busy(1.0, 1.0)), None);
        assert_eq!(verdict.first(), None);
        let told = format!("too few samples to judge: {seconds}, it takes 3 (3.0 s)");
        assert_eq!(verdict.remarks, [told]);
    }
}
