//! Nanoseconds that forwarding takes for each packet, as the kernel's test run counts them
//! (`make bench-l4`): ours, a reference program, and Katran's balancer where `KATRAN_OBJECT` names
//! an object file of it.
//!
//! A wrapper restores the packet each time and is subtracted; so is what it takes to shrink one
//! that has grown. Each case has tables of its own, begins with a packet of each of its flows, goes
//! on with packets of them in no order, and is the least of 15 runs, in which the programs take
//! turns. It judges by ratios of one run.
#![expect(clippy::print_stdout, reason = "results are what it is for")]

mod katran;
mod objects;

use std::{
    env,
    error::Error,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process::ExitCode,
    time::Instant,
};

use aya::{Ebpf, programs::ProgramFd};
use loadline_core::fleet::forwarding::{Affinity, Method, Protocol};
use loadline_l4::{
    Datapath, Frontend, Server, Settings, Sizes,
    ring::{Entry, RING_SIZE, Ring, RingServer, table},
};
use objects::{FRAME, Wrapper, build, program};
use rustix::thread::{CpuSet, sched_setaffinity};

pub(crate) type Failure = Box<dyn Error>;
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// What is run on packets of one kind.
struct Target {
    name: &'static str,
    program: ProgramFd,
    frame: [u8; FRAME],
    grows: bool,
}

/// How many flows the packets are of; none where each begins one.
const CASES: [(&str, Option<u32>); 4] = [
    ("one flow", Some(1)),
    ("64K flows", Some(1 << 16)),
    ("256K flows", Some(1 << 18)),
    ("all new", None),
];

const ROUNDS: usize = 15;
const PACKETS: u32 = 100_000;
pub(crate) const SERVERS: u16 = 4;

const SERVICE: [Ipv4Addr; 3] =
    [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 3)];
const RETURN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
/// The wrapper writes the lower half of the source, so that a response can only be from here.
const NAT_SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 9, 0, 0), 1_024);

const SYN: u8 = 2;
const ACK: u8 = 16;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("bench-l4: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool> {
    let mut core = CpuSet::new();
    core.set(0);
    sched_setaffinity(None, &core)?;
    // Words of the names of cases; cargo adds options of its own.
    let wanted: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let mut figures = Figures::default();
    for (case, flows) in CASES {
        if wanted.is_empty() || wanted.iter().any(|word| case.contains(word.as_str())) {
            figures.measure(case, flows)?;
        }
    }
    figures.print();
    let mut met = figures.judge();
    met &= judge_rings()?;
    Ok(met)
}

/// Nanoseconds by program and case.
#[derive(Default)]
struct Figures(Vec<(&'static str, &'static str, f64)>);

impl Figures {
    fn measure(&mut self, case: &'static str, flows: Option<u32>) -> Result<()> {
        let mut wrapper = Wrapper::build()?;
        let mut loaded = Loaded::new(&mut wrapper)?;
        let targets = loaded.targets(flows, &mut wrapper)?;
        let [bounce, grow] = wrapper.idle()?;
        let frame = frame(SERVICE[0], ACK);
        let packets = PACKETS.max(flows.unwrap_or(0) * 2);
        let mut least = vec![u32::MAX; targets.len()];
        let mut idle = [u32::MAX; 2];
        for _ in 0..ROUNDS {
            for (least, program) in idle.iter_mut().zip([&bounce, &grow]) {
                *least = wrapper.run(program, &frame, flows, packets)?.min(*least);
            }
            for (least, target) in least.iter_mut().zip(&targets) {
                if let Some(flows) = flows {
                    wrapper.open(&target.program, &target.frame, flows)?;
                }
                let took = wrapper.run(&target.program, &target.frame, flows, packets)?;
                *least = took.min(*least);
            }
        }
        let [bounce, grow] = idle.map(f64::from);
        for (target, least) in targets.iter().zip(least) {
            // Half of it is to grow, which is the program's own.
            let shrink = if target.grows { (grow - bounce) / 2.0 } else { 0.0 };
            self.0.push((target.name, case, f64::from(least) - bounce - shrink));
        }
        Ok(())
    }

    fn of(&self, name: &str, case: &str) -> Option<f64> {
        let found = self.0.iter().find(|(target, at, _)| *target == name && *at == case);
        found.map(|(_, _, nanos)| *nanos)
    }

    fn print(&self) {
        let cases = CASES.map(|(case, _)| case);
        println!("ns a packet {:>24}{:>12}{:>12}{:>12}", cases[0], cases[1], cases[2], cases[3]);
        for name in NAMES {
            let cells = cases.map(|case| {
                self.of(name, case).map_or_else(|| "-".to_owned(), |nanos| format!("{nanos:.1}"))
            });
            if cells.iter().any(|cell| cell != "-") {
                println!(
                    "{name:<24}{:>12}{:>12}{:>12}{:>12}",
                    cells[0], cells[1], cells[2], cells[3]
                );
            }
        }
        println!();
    }

    fn judge(&self) -> bool {
        let [one, many, _, new] = CASES.map(|(case, _)| case);
        // The reference looks no service up and counts nothing, so one flow is not judged by it.
        let verdicts = [
            (IPIP, KATRAN, one, 0.70),
            (IPIP, KATRAN, many, 0.50),
            (IPIP, KATRAN, new, 0.60),
            (IPIP, REFERENCE, many, 0.50),
            (IPIP, REFERENCE, new, 0.60),
            (MAC, IPIP, one, 1.15),
            (NAT, IPIP, one, 1.15),
        ];
        let mut met = true;
        for (name, over, case, target) in verdicts {
            let (Some(one), Some(other)) = (self.of(name, case), self.of(over, case)) else {
                continue;
            };
            met &= verdict(&format!("{name} over {over}, {case}"), one / other, target, "");
        }
        met
    }
}

const IPIP: &str = "ipip";
const MAC: &str = "mac";
const NAT: &str = "nat";
const NAT_RETURN: &str = "nat, answers";
const CHANGING: &str = "mac, servers change";
const REFERENCE: &str = "reference";
const KATRAN: &str = "katran ipip";
const NAMES: [&str; 7] = [MAC, IPIP, NAT, NAT_RETURN, CHANGING, REFERENCE, KATRAN];

/// Everything that is run, with tables that nobody has used.
struct Loaded {
    ours: Datapath,
    changing: Datapath,
    reference: Ebpf,
    katran: Option<Ebpf>,
}

impl Loaded {
    fn new(wrapper: &mut Wrapper) -> Result<Self> {
        let mut changing = ours()?;
        let mut ring = Ring::new(&vec![SERVERS + 2; RING_SIZE]);
        ring.assign(Datapath::now(), &turns());
        changing.publish(1, ring.entries())?;
        let reference = build("reference")?;
        let katran = katran::load(wrapper, SERVICE[2])?;
        Ok(Self { ours: ours()?, changing, reference, katran })
    }

    fn targets(&mut self, flows: Option<u32>, wrapper: &mut Wrapper) -> Result<Vec<Target>> {
        let flags = if flows.is_some() { ACK } else { SYN };
        let ours = self.ours.program()?;
        let target = |name, program: &ProgramFd, service, grows| {
            Ok::<_, Failure>(Target {
                name,
                program: program.try_clone()?,
                frame: frame(service, flags),
                grows,
            })
        };
        let mut targets = vec![
            target(MAC, ours, SERVICE[1], false)?,
            target(IPIP, ours, SERVICE[2], true)?,
            target(CHANGING, self.changing.program()?, SERVICE[1], false)?,
            target(REFERENCE, program(&self.reference, "reference")?, SERVICE[2], true)?,
        ];
        if let Some(katran) = &self.katran {
            targets.push(target(KATRAN, program(katran, katran::PROGRAM)?, SERVICE[2], true)?);
        }
        // Connections that begin use ports up, of which there are too few for all rounds.
        if let Some(flows) = flows {
            wrapper.open(ours, &frame(SERVICE[0], SYN), flows)?;
            targets.push(target(NAT, ours, SERVICE[0], false)?);
        }
        if flows == Some(1) {
            let mut answers = target(NAT_RETURN, ours, RETURN, false)?;
            answers.frame[26..30].copy_from_slice(&NAT_SERVER.0.octets());
            answers.frame[36..38].copy_from_slice(&FIRST_PORT.to_be_bytes());
            targets.push(answers);
        }
        Ok(targets)
    }
}

/// A balancer with a service of each method.
fn ours() -> Result<Datapath> {
    let returns: Vec<IpAddr> =
        (0..16).map(|n| Ipv4Addr::from_bits(RETURN.to_bits() + n).into()).collect();
    let settings = Settings { tunnel4: Ipv4Addr::new(10, 0, 0, 8), returns, ..Settings::default() };
    let sizes = Sizes { nat_servers: 1, flows: 1 << 20, nat: 1 << 19, ..Sizes::default() };
    let mut ours = Datapath::load(sizes, settings)?;
    let (address, port) = NAT_SERVER;
    ours.set_server(
        1,
        &Server { address: address.into(), port, service: None, mac: [2; 6], is_up: true },
    )?;
    for number in 2..=SERVERS + 2 {
        let address = Ipv4Addr::new(10, 0, 1, number as u8).into();
        ours.set_server(
            number,
            &Server { address, port: 0, service: None, mac: [2; 6], is_up: true },
        )?;
    }
    for (number, method) in [Method::Nat, Method::Mac, Method::Ipip].into_iter().enumerate() {
        let address = SocketAddr::new(SERVICE[number].into(), 80);
        let number = number as u32;
        ours.add_service(
            number,
            method,
            Affinity::Connection,
            &[Frontend { address, protocol: Protocol::Tcp }],
        )?;
        let servers = if method == Method::Nat { vec![1; RING_SIZE] } else { turns() };
        let ring: Vec<Entry> = servers.into_iter().map(Entry::settled).collect();
        ours.publish(number, &ring)?;
    }
    Ok(ours)
}

/// The first port that NAT lends.
const FIRST_PORT: u16 = 1_024;

/// The servers behind `mac` and `ipip` in turns around a ring.
fn turns() -> Vec<u16> {
    (0..RING_SIZE).map(|entry| 2 + (entry % usize::from(SERVERS)) as u16).collect()
}

/// A TCP segment of ten bytes to port 80 of a service.
fn frame(to: Ipv4Addr, flags: u8) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    frame[14..26].copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0x40, 0, 64, 6, 0, 0]);
    frame[26..30].copy_from_slice(&[10, 1, 0, 0]);
    frame[30..34].copy_from_slice(&to.octets());
    frame[36..38].copy_from_slice(&80_u16.to_be_bytes());
    (frame[46], frame[47]) = (0x50, flags);
    frame
}

/// Tables for 1,000 servers: made, even, and put in force.
fn judge_rings() -> Result<bool> {
    let members: Vec<RingServer> = (0..1_000_u16)
        .map(|number| RingServer {
            address: SocketAddr::new(
                Ipv4Addr::from_bits(0x0a00_0000 + u32::from(number)).into(),
                80,
            ),
            weight: 1,
            number: number + 1,
        })
        .collect();
    let mut ours = ours()?;
    let (mut made, mut loaded) = (f64::MAX, f64::MAX);
    let mut counts = [0_u32; 1_001];
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let servers = table(&members);
        made = made.min(begun.elapsed().as_secs_f64() * 1e3);
        let ring = Ring::new(&servers);
        let begun = Instant::now();
        ours.publish(1, ring.entries())?;
        loaded = loaded.min(begun.elapsed().as_secs_f64() * 1e3);
        counts = [0; 1_001];
        servers.iter().for_each(|server| counts[usize::from(*server)] += 1);
    }
    let (least, most) = (counts[1..].iter().min(), counts[1..].iter().max());
    let spread = f64::from(*most.unwrap_or(&0)) / f64::from(*least.unwrap_or(&0));
    let met = [
        verdict("table for 1,000 servers", made, 1.8, " ms"),
        verdict("its most entries over its least", spread, 1.1, ""),
        verdict("the same put in force", loaded, 20.0, " ms"),
    ];
    Ok(met.into_iter().all(|met| met))
}

fn verdict(name: &str, measured: f64, target: f64, unit: &str) -> bool {
    let met = measured <= target;
    let word = if met { "PASS" } else { "FAIL" };
    println!("{word} {name} {measured:.2}{unit} (at most {target:.2}{unit})");
    met
}
