//! A lab from its start to its end.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process,
};

use loadline_core::time::Duration;
use loadline_linux::clock;
use rustix::io::Errno;

use super::{
    Host, HostError, LabError, Machine, Options, PortChoice, Refusal,
    machine::no_such_host,
    message::{Boot, Booted, Channel, Enclose, Enclosed, Failure, RouteTo},
    refusal::Switches,
    switch::{self, Switch},
};
use crate::{
    topology::{HostSpec, Topology},
    wan::{Port, Router, RouterHandle, calibration_hosts},
};

/// Hosts that run, and the network between them. Dropping it ends everything on them.
#[derive(Debug)]
pub struct Lab {
    hosts: Vec<Host>,
    router: RouterHandle,
    rootless: bool,
    notes: Vec<String>,
    _switches: Vec<Switch>,
    outers: Outers,
}

/// A host whose processes have been started, but that is not set up.
struct Begun {
    init: u32,
    channel: Channel,
}

/// The outer processes of hosts, which end when their lines do.
#[derive(Debug, Default)]
struct Outers(Vec<process::Child>);

impl Lab {
    /// Starts the hosts of `topology` and the router between them. Takes a few milliseconds a
    /// host; from any thread.
    ///
    /// # Errors
    /// See [`LabError`]; what had been started has ended then.
    pub fn start(topology: &Topology, options: &Options) -> Result<Self, LabError> {
        topology.check()?;
        options.check(topology)?;
        Self::check_rights(topology)?;
        let mut outers = Outers::default();
        let mut notes = Vec::new();
        let begun = enclose(topology, options, &mut outers, &mut notes)?;
        let rootless = begun.iter().any(|(_, rootless)| *rootless);
        let begun: Vec<Begun> = begun.into_iter().map(|(begun, _)| begun).collect();
        let ports = boot(topology, options, &begun, &mut notes)?;
        let inits: Vec<u32> = begun.iter().map(|begun| begun.init).collect();
        let switches = switch::connect(topology, &inits)?;
        let hosts = topology.hosts.iter().zip(begun);
        let hosts = hosts.map(|(spec, begun)| Host::new(spec.clone(), begun.init, begun.channel));
        let hosts: Vec<Host> = hosts.collect();
        let mut router = Router::start(topology.clone(), ports)?;
        notes.extend(calibrate(&mut router, topology, &hosts).err());
        notes.sort();
        notes.dedup();
        Ok(Self { hosts, router, rootless, notes, _switches: switches, outers })
    }

    /// Whether this process may have a lab of this topology: an Ethernet takes the rights of root.
    ///
    /// # Errors
    /// [`LabError::Rights`].
    pub fn check_rights(topology: &Topology) -> Result<(), LabError> {
        switch::check_rights(topology)
    }

    /// The hosts, in the order of the topology.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The host of that name.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`].
    pub fn host(&self, name: &str) -> Result<&Host, LabError> {
        let host = self.hosts.iter().find(|host| host.name() == name);
        host.ok_or_else(|| no_such_host(name, self.router.topology()))
    }

    /// The router between its hosts.
    #[must_use]
    pub fn router(&self) -> &RouterHandle {
        &self.router
    }

    /// The network, to change it.
    pub fn router_mut(&mut self) -> &mut RouterHandle {
        &mut self.router
    }

    /// Whether root on the hosts is an ordinary user outside.
    #[must_use]
    pub fn rootless(&self) -> bool {
        self.rootless
    }

    /// What the hosts had to do without, for the record: each a sentence, none twice.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Ends all programs, hosts and the router, and waits until they are gone.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for host in &self.hosts {
            host.close();
        }
        self.outers.end();
    }
}

impl Outers {
    /// Waits for processes whose lines have been closed; kills those that stay.
    fn end(&mut self) {
        let until = clock::now() + LEAVE;
        while self.0.iter_mut().any(|outer| matches!(outer.try_wait(), Ok(None))) {
            if clock::now() >= until {
                break;
            }
            std::thread::sleep(LOOK_AGAIN.to_std());
        }
        for mut outer in self.0.drain(..) {
            // Both fail only where it has ended already.
            let _ = outer.kill();
            let _ = outer.wait();
        }
    }
}

impl Drop for Outers {
    fn drop(&mut self) {
        self.end();
    }
}

/// Has the router subtract the delay that this machine adds itself; gives the reason if that fails.
fn calibrate(router: &mut RouterHandle, topology: &Topology, hosts: &[Host]) -> Result<(), String> {
    // Without two hosts to measure between, there is nothing to be exact about.
    let Some(pair) = calibration_hosts(topology) else { return Ok(()) };
    let not_exact = |error: &dyn fmt::Display| format!("delays are some 50us too long: {error}");
    let socket = |host: usize| {
        let address = topology.hosts[host].addresses[0];
        hosts[host].udp(SocketAddr::new(address, 0)).map_err(|error| not_exact(&error))
    };
    let [first, second] = pair;
    let sockets = (socket(first)?, socket(second)?);
    let measured = router.calibrate((first, &sockets.0), (second, &sockets.1));
    measured.map(drop).map_err(|error| not_exact(&error))
}

/// Starts the processes of all hosts; tells of each whether it is rootless.
fn enclose(
    topology: &Topology,
    options: &Options,
    outers: &mut Outers,
    notes: &mut Vec<String>,
) -> Result<Vec<(Begun, bool)>, LabError> {
    let program = options.program.clone().unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    let mut deal = Deal::new();
    let mut channels = Vec::new();
    for spec in &topology.hosts {
        let processors = machine(options, spec).processors;
        let (outer, channel) = start_outer(&program, &spec.name)?;
        outers.0.push(outer);
        let dealt = processors.cores.map_or_else(Vec::new, |cores| deal.next(cores));
        notes.extend(missing_cores(&spec.name, processors.cores, dealt.len()));
        let enclose = Enclose {
            host: spec.name.clone(),
            processors: dealt,
            share_ppm: processors.share.map(loadline_core::units::Ratio::as_ppm),
        };
        channel.send(&enclose, &[]).map_err(|source| no_line(&spec.name, source))?;
        channels.push(channel);
    }
    let mut begun = Vec::new();
    for (spec, channel) in topology.hosts.iter().zip(channels) {
        let (enclosed, _) = reply::<Enclosed>(&spec.name, &channel)?;
        notes.extend(enclosed.notes);
        begun.push((Begun { init: enclosed.init, channel }, enclosed.rootless));
    }
    Ok(begun)
}

/// What is said of a host that is to have more cores than there are.
fn missing_cores(host: &str, wanted: Option<usize>, dealt: usize) -> Option<String> {
    let wanted = wanted.filter(|wanted| *wanted > dealt)?;
    Some(format!("host {host} has {dealt} cores instead of {wanted}: this machine has no more"))
}

/// Tells each host what to become; gives their ports.
fn boot(
    topology: &Topology,
    options: &Options,
    begun: &[Begun],
    notes: &mut Vec<String>,
) -> Result<Vec<Port>, LabError> {
    let hosts_file = hosts_file(topology, options);
    for (spec, begun) in topology.hosts.iter().zip(begun) {
        let boot = boot_of(spec, &machine(options, spec), options.port, &hosts_file);
        begun.channel.send(&boot, &[]).map_err(|source| no_line(&spec.name, source))?;
    }
    let mut ports = Vec::new();
    for (spec, begun) in topology.hosts.iter().zip(begun) {
        let (booted, descriptors) = reply::<Booted>(&spec.name, &begun.channel)?;
        notes.extend(booted.notes);
        let lost = || no_line(&spec.name, io::ErrorKind::InvalidData.into());
        let descriptor = descriptors.into_iter().next().ok_or_else(lost)?;
        ports.push(Port::from_parts(descriptor, booted.inner));
    }
    Ok(ports)
}

fn start_outer(program: &Path, host: &str) -> Result<(process::Child, Channel), LabError> {
    let failed =
        |source| LabError::Program { program: program.to_owned(), host: host.to_owned(), source };
    let (here, there) = Channel::pair().map_err(failed)?;
    here.set_patience(PATIENCE).map_err(failed)?;
    let outer = process::Command::new(program)
        .args(super::inside::ARGUMENTS)
        // An interrupt from the terminal is for the lab, which then ends its hosts in order.
        .process_group(0)
        .stdin(there.into_descriptor())
        .stdout(process::Stdio::null())
        .spawn()
        .map_err(failed)?;
    Ok((outer, here))
}

fn reply<T: serde::de::DeserializeOwned>(
    host: &str,
    channel: &Channel,
) -> Result<(T, Vec<std::os::fd::OwnedFd>), LabError> {
    match channel.receive::<Result<T, Failure>>() {
        Ok(Some((Ok(reply), descriptors))) => Ok((reply, descriptors)),
        Ok(Some((Err(failure), _))) => Err(not_set_up(host, failure)),
        Ok(None) => Err(HostError::Gone { host: host.to_owned() }.into()),
        Err(source) => Err(no_line(host, source)),
    }
}

fn not_set_up(host: &str, failure: Failure) -> LabError {
    if failure.refused {
        let advice = Switches::read().advice(failure.errno);
        return Refusal { what: failure.what, reason: failure.reason, advice }.into();
    }
    let what = failure.what.clone();
    HostError::Failed { host: host.to_owned(), what, source: failure.into_io() }.into()
}

fn no_line(host: &str, source: io::Error) -> LabError {
    if source.raw_os_error() == Some(Errno::PIPE.raw_os_error()) {
        return HostError::Gone { host: host.to_owned() }.into();
    }
    HostError::Failed { host: host.to_owned(), what: "be set up".to_owned(), source }.into()
}

fn machine(options: &Options, spec: &HostSpec) -> Machine {
    options.machines.get(&spec.name).cloned().unwrap_or_default()
}

fn boot_of(spec: &HostSpec, machine: &Machine, port: PortChoice, hosts_file: &str) -> Boot {
    let own = |address: &&IpAddr| !machine.forwards.contains(address);
    let everywhere = RouteTo::new(None, &machine.tcp);
    let single = machine.tcp_to.iter().map(|(to, tcp)| RouteTo::new(Some(*to), tcp));
    Boot {
        name: spec.name.clone(),
        addresses: spec.addresses.iter().filter(own).copied().collect(),
        mtu: machine.mtu,
        forwards: !machine.forwards.is_empty(),
        routes: std::iter::once(everywhere).chain(single).collect(),
        settings: machine.settings.clone(),
        hosts_file: hosts_file.to_owned(),
        tun: port != PortChoice::Veth,
        veth: port != PortChoice::Tun,
    }
}

/// Names for `/etc/hosts`. An address that several hosts share is no host's name: it gets one
/// among [`Options::names`], or none.
fn hosts_file(topology: &Topology, options: &Options) -> String {
    let mut lines = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
    let shared = |address: &IpAddr| {
        topology.hosts.iter().filter(|host| host.addresses.contains(address)).count() > 1
    };
    for host in &topology.hosts {
        for address in host.addresses.iter().filter(|address| !shared(address)) {
            lines += &format!("{address} {}\n", host.name);
        }
    }
    for (name, addresses) in &options.names {
        for address in addresses {
            lines += &format!("{address} {name}\n");
        }
    }
    lines
}

/// Deals out the processors that this process may use, in turns.
struct Deal {
    all: Vec<usize>,
    next: usize,
}

impl Deal {
    fn new() -> Self {
        let set = rustix::thread::sched_getaffinity(None);
        let set = set.unwrap_or_else(|_| rustix::thread::CpuSet::new());
        let most = rustix::thread::CpuSet::MAX_CPU;
        Self { all: (0..most).filter(|&processor| set.is_set(processor)).collect(), next: 0 }
    }

    fn next(&mut self, cores: usize) -> Vec<usize> {
        let dealt = self.all.iter().cycle().skip(self.next).take(cores.min(self.all.len()));
        let dealt: Vec<usize> = dealt.copied().collect();
        self.next = (self.next + dealt.len()) % self.all.len().max(1);
        dealt
    }
}

/// The longest that a host may take to answer, on a machine that is very busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long the kernel may take to end a host's processes before they are killed.
const LEAVE: Duration = Duration::from_secs(5);

const LOOK_AGAIN: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_dealt_in_turns() {
        let mut deal = Deal { all: vec![0, 2, 3], next: 0 };
        assert_eq!(deal.next(1), [0]);
        assert_eq!(deal.next(1), [2]);
        assert_eq!(deal.next(2), [3, 0]);
        assert_eq!(deal.next(9), [2, 3, 0]);
    }

    #[test]
    fn a_name_stands_for_a_hosts_own_addresses_and_not_for_shared_ones() {
        let host = |name: &str, addresses: &[&str]| {
            let parsed: Vec<IpAddr> = addresses.iter().map(|it| it.parse().unwrap()).collect();
            HostSpec::new(name, &parsed)
        };
        let hosts = vec![host("a", &["10.0.0.1", "10.9.9.9", "fd00::1"]), host("b", &["10.9.9.9"])];
        let topology = Topology { hosts, ..Topology::default() };
        let mut options = Options::default();
        options.names.insert("shop".to_owned(), vec!["10.9.9.9".parse().unwrap()]);
        let file = hosts_file(&topology, &options);
        assert!(file.ends_with("10.0.0.1 a\nfd00::1 a\n10.9.9.9 shop\n"), "{file}");
    }
}
