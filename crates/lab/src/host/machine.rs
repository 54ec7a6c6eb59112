//! What a host is as a machine: how its TCP behaves, what it forwards, how much processor it has.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf};

use loadline_core::units::{Bytes, Ratio};

use super::LabError;
use crate::topology::{HostSpec, Topology};

/// How a lab is to be made.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The program that becomes each host when it is called with the arguments `lab host`, and
    /// then calls [`serve`](super::serve) before it starts a thread. This very program if
    /// omitted.
    pub program: Option<PathBuf>,
    /// How the host's packets reach the router.
    pub port: PortChoice,
    /// Names beside those of the hosts, with the addresses that every host takes them for.
    pub names: BTreeMap<String, Vec<IpAddr>>,
    /// By the name of the host; a host without an entry is an ordinary machine.
    pub machines: BTreeMap<String, Machine>,
}

/// How a host's packets reach the router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortChoice {
    /// TUN, or else what works without; the lab's notes say so.
    #[default]
    Best,
    /// TUN, or no lab.
    Tun,
    /// A pair of virtual Ethernet interfaces with a packet socket on the outer one.
    Veth,
}

/// One host as a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Bytes of the largest packet, 1,280 to 65,521.
    pub mtu: u32,
    /// How TCP behaves towards every other host.
    pub tcp: Tcp,
    /// How it behaves towards single addresses.
    pub tcp_to: BTreeMap<IpAddr, Tcp>,
    /// Addresses of the host in the topology that are not its own: it sends packets for them on,
    /// unchanged, to the nearest other host with that address.
    pub forwards: Vec<IpAddr>,
    /// Settings of the kernel for this host alone, like `net.ipv4.tcp_slow_start_after_idle` =
    /// `0`; names begin with `net.`.
    pub settings: BTreeMap<String, String>,
    /// What it may use of the machine's processors.
    pub processors: Processors,
}

/// How TCP behaves along a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// The congestion control, as the kernel calls it: `cubic`, `reno`, `bbr`. The kernel's own
    /// default if omitted.
    pub congestion: Option<String>,
    /// Segments sent before the first acknowledgement; the kernel's 10 if omitted.
    pub initial_window: Option<u32>,
    /// The largest window that is advertised; the kernel's if omitted.
    pub window: Option<Bytes>,
}

/// What a host may use of the machine's processors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processors {
    /// How many at once; all if omitted. Hosts take turns in which ones they get.
    pub cores: Option<usize>,
    /// How much processor time in all, where 100% is one processor; at least 1%. It takes a
    /// cgroup that this user can make; where there is none, the lab's notes say so.
    pub share: Option<Ratio>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            mtu: 1_500,
            tcp: Tcp::default(),
            tcp_to: BTreeMap::new(),
            forwards: Vec::new(),
            settings: BTreeMap::new(),
            processors: Processors::default(),
        }
    }
}

impl Default for Tcp {
    /// `cubic`, so that a result does not hang on what the machine is set to.
    fn default() -> Self {
        Self { congestion: Some("cubic".to_owned()), initial_window: None, window: None }
    }
}

impl Options {
    /// Whether such hosts can be, in a topology that can be.
    pub(super) fn check(&self, topology: &Topology) -> Result<(), LabError> {
        let names = topology.hosts.iter().map(|host| &host.name);
        names.chain(self.names.keys()).try_for_each(|name| check_name(name))?;
        for (name, machine) in &self.machines {
            let host = topology.host(name).ok_or_else(|| no_such_host(name, topology))?;
            machine.check(&topology.hosts[host])?;
        }
        Ok(())
    }
}

impl Machine {
    /// Whether a host can be such a machine.
    pub(crate) fn check(&self, host: &HostSpec) -> Result<(), LabError> {
        let wrong = |what: &str, value: String, right: &str| LabError::Machine {
            host: host.name.clone(),
            what: what.to_owned(),
            value,
            right: right.to_owned(),
        };
        if !(LEAST_MTU..=LARGEST_MTU).contains(&self.mtu) {
            return Err(wrong("the MTU", self.mtu.to_string(), "it is 1280 to 65521 bytes"));
        }
        if let Some(address) = self.forwards.iter().find(|it| !host.addresses.contains(it)) {
            let right = "what a host forwards is among its addresses in the topology";
            return Err(wrong("a forwarded address", address.to_string(), right));
        }
        if let Some(name) = self.settings.keys().find(|name| !is_network_setting(name)) {
            let right = "only a setting of the network is a host's own, like \
                         `net.ipv4.tcp_slow_start_after_idle`";
            return Err(wrong("a setting", name.clone(), right));
        }
        if self.processors.cores == Some(0) {
            return Err(wrong("the number of cores", "0".to_owned(), "it is at least 1"));
        }
        match self.processors.share.filter(|&share| share < LEAST_SHARE) {
            Some(share) => Err(wrong("the share", share.to_string(), "it is at least 1%")),
            None => self.check_tcp(host),
        }
    }

    fn check_tcp(&self, host: &HostSpec) -> Result<(), LabError> {
        for tcp in self.tcp_to.values().chain([&self.tcp]) {
            tcp.check(&host.name)?;
        }
        Ok(())
    }
}

impl Tcp {
    fn check(&self, host: &str) -> Result<(), LabError> {
        let wrong = |what: &str, value: String, right: &str| LabError::Machine {
            host: host.to_owned(),
            what: what.to_owned(),
            value,
            right: right.to_owned(),
        };
        if let Some(name) = self.congestion.as_ref().filter(|name| !is_congestion(name)) {
            let right = "it is a name of the kernel's, like `cubic`";
            return Err(wrong("the congestion control", format!("`{name}`"), right));
        }
        if self.initial_window == Some(0) {
            return Err(wrong("the initial window", "0".to_owned(), "it is at least 1 segment"));
        }
        let bytes = self.window.map(Bytes::get);
        if bytes.is_some_and(|bytes| bytes == 0 || u32::try_from(bytes).is_err()) {
            let window = self.window.unwrap_or_default().to_string();
            return Err(wrong("the window", window, "it is 1 B to 4 GB"));
        }
        Ok(())
    }
}

/// What is said of a host that is not there.
pub(super) fn no_such_host(name: &str, topology: &Topology) -> LabError {
    let known: Vec<&str> = topology.hosts.iter().map(|host| host.name.as_str()).collect();
    LabError::NoSuchHost { name: name.to_owned(), known: known.join(", ") }
}

fn check_name(name: &str) -> Result<(), LabError> {
    let usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if begins && name.len() <= LONGEST_NAME && name.bytes().all(usual) && name != "localhost" {
        return Ok(());
    }
    Err(LabError::Name { name: name.to_owned() })
}

fn is_network_setting(name: &str) -> bool {
    let usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    name.starts_with("net.") && !name.contains("..") && name.bytes().all(usual)
}

fn is_congestion(name: &str) -> bool {
    let usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    !name.is_empty() && name.len() < LONGEST_CONGESTION && name.bytes().all(usual)
}

/// What IPv6 asks of every link.
const LEAST_MTU: u32 = 1_280;

/// The router's buffers hold 64 KiB, headers included.
const LARGEST_MTU: u32 = 65_521;

/// Below, the kernel's shortest turns are longer than a period gives.
const LEAST_SHARE: Ratio = Ratio::percent(1);

/// Of a label in the domain name system.
const LONGEST_NAME: usize = 63;

/// The kernel's `TCP_CA_NAME_MAX`.
const LONGEST_CONGESTION: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, machine: Machine) -> String {
        let address = "10.0.0.1".parse().unwrap();
        let hosts = vec![HostSpec::new("edge", &[address])];
        let topology = Topology { hosts, ..Topology::default() };
        let machines = BTreeMap::from([(name.to_owned(), machine)]);
        let options = Options { machines, ..Options::default() };
        options.check(&topology).map_or_else(|error| error.to_string(), |()| "right".to_owned())
    }

    #[test]
    fn an_ordinary_machine_is_right() {
        assert_eq!(said("edge", Machine::default()), "right");
    }

    #[test]
    fn what_no_machine_can_be_is_told_with_what_would_be_right() {
        let machine = Machine::default;
        let setting = |name: &str| BTreeMap::from([(name.to_owned(), "1".to_owned())]);
        let tcp = |name: &str| Tcp { congestion: Some(name.into()), ..Tcp::default() };
        let share = Processors { share: Some(Ratio::ppm(9_999)), ..Processors::default() };
        let other = "10.0.0.2".parse().unwrap();
        let cases = [
            (said("egde", machine()), "the hosts are edge"),
            (said("edge", Machine { mtu: 1_279, ..machine() }), "1280 to 65521"),
            (said("edge", Machine { forwards: vec![other], ..machine() }), "among its addresses"),
            (said("edge", Machine { settings: setting("vm.x"), ..machine() }), "only a setting"),
            (said("edge", Machine { settings: setting("net../x"), ..machine() }), "only a setting"),
            (said("edge", Machine { tcp: tcp("cu bic"), ..machine() }), "like `cubic`"),
            (said("edge", Machine { processors: share, ..machine() }), "at least 1%"),
        ];
        for (said, part) in cases {
            assert!(said.contains(part), "`{said}` does not say `{part}`");
        }
    }

    #[test]
    fn a_name_is_one_that_files_and_programs_can_take() {
        for name in ["edge", "pop-1", "us.east_2", "9"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["-x", "a/b", "a#b", "localhost", &"x".repeat(64), ".."] {
            let said = check_name(name).unwrap_err().to_string();
            assert!(said.contains("like `pop-1`"), "{said}");
        }
    }
}
