//! The configuration of keepalived, which moves the addresses (VRRP, RFC 9568).
//!
//! All balancers begin as backups, and whoever becomes active stays so while it lives
//! (`nopreempt`): one that comes back must first be told everything. Packets that reach the kernel
//! while nobody forwards them must not be answered, for it would reset every connection:
//! `no_accept`.

use std::{
    fmt::{self, Write as _},
    net::{IpAddr, SocketAddr},
};

use loadline_core::time::Duration;

/// A virtual router, as keepalived is to run it. Shown, it is the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualRouter {
    /// The interface that gets the addresses.
    pub interface: String,
    /// Number of the virtual router, the same on all balancers.
    pub number: u8,
    /// Who becomes active first: the highest.
    pub priority: u8,
    /// How often the active says that it lives, in hundredths of a second at the finest.
    pub interval: Duration,
    /// Addresses that move: those of services, and the return addresses of NAT.
    pub addresses: Vec<IpAddr>,
    /// A listener of this host at one of these addresses, which therefore must answer there.
    pub accepts: Option<SocketAddr>,
    /// A command that fails when packets are not forwarded.
    pub check: String,
}

impl fmt::Display for VirtualRouter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { interface, number, priority, check, .. } = self;
        writeln!(f, "# keepalived for loadline, which made this of its own file.")?;
        block(f, "global_defs", GLOBAL)?;
        let asked = [&format!("script \"{check}\"")[..], CHECK].join("\n");
        block(f, "vrrp_script loadline", &asked)?;
        let accept = match self.accepts {
            Some(listener) => format!("# The listener {listener} serves these addresses.\naccept"),
            None => "no_accept".to_owned(),
        };
        let mut instance = format!(
            "state BACKUP\nnopreempt\ninterface {interface}\nvirtual_router_id {number}\n\
             priority {priority}\nadvert_int {}\n{accept}\n",
            seconds(self.interval)
        );
        // Those of one family are told, the others move with them.
        let v6 = self.addresses.first().is_some_and(IpAddr::is_ipv6);
        let mut told: Vec<&IpAddr> =
            self.addresses.iter().filter(|it| it.is_ipv6() == v6).collect();
        told.truncate(TOLD_MAX);
        let silent: Vec<&IpAddr> = self.addresses.iter().filter(|it| !told.contains(it)).collect();
        addresses(&mut instance, "virtual_ipaddress", &told)?;
        addresses(&mut instance, "virtual_ipaddress_excluded", &silent)?;
        instance += "track_script {\n    loadline\n}";
        block(f, "vrrp_instance loadline", &instance)
    }
}

fn block(f: &mut fmt::Formatter<'_>, name: &str, lines: &str) -> fmt::Result {
    writeln!(f, "\n{name} {{")?;
    lines.lines().try_for_each(|line| writeln!(f, "    {line}"))?;
    writeln!(f, "}}")
}

fn addresses(to: &mut String, name: &str, of: &[&IpAddr]) -> fmt::Result {
    if of.is_empty() {
        return Ok(());
    }
    writeln!(to, "{name} {{")?;
    for address in of {
        writeln!(to, "    {address}/{}", if address.is_ipv6() { 128 } else { 32 })?;
    }
    writeln!(to, "}}")
}

/// Seconds with hundredths, as finely as VRRP tells them.
fn seconds(interval: Duration) -> String {
    let text = format!("{:.2}", interval.as_secs_f64());
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `no_accept` takes version 3.
const GLOBAL: &str = "\
vrrp_version 3
vrrp_garp_master_delay 1
script_user root
enable_script_security";

/// One failure is enough: who asks is told at once where nobody answers.
const CHECK: &str = "\
interval 1
timeout 3
fall 1
rise 1
init_fail";

/// Addresses in one advertisement: it has to fit a packet.
const TOLD_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_other_family_and_those_that_do_not_fit_are_excluded() {
        let v4 = (1..=22).map(|host| IpAddr::from([10, 0, 0, host]));
        let v6 = IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]);
        let router = VirtualRouter {
            interface: "eth0".to_owned(),
            number: 51,
            priority: 100,
            interval: Duration::from_millis(250),
            addresses: v4.chain([v6]).collect(),
            accepts: None,
            check: "/usr/bin/loadline l4 status".to_owned(),
        };
        let text = router.to_string();
        let (_, excluded) = text.split_once("virtual_ipaddress_excluded {").unwrap();
        let lines: Vec<&str> = excluded.lines().map(str::trim).skip(1).take(4).collect();
        assert_eq!(lines, ["10.0.0.21/32", "10.0.0.22/32", "fd00::1/128", "}"]);
        for line in ["    advert_int 0.25\n", "    no_accept\n", "    nopreempt\n"] {
            assert!(text.contains(line), "{text}");
        }
        assert!(text.contains("    script \"/usr/bin/loadline l4 status\"\n"), "{text}");
        let accepts = Some(SocketAddr::from(([0; 4], 443)));
        let accepting = VirtualRouter { accepts, ..router }.to_string();
        assert!(accepting.contains("    accept\n") && !accepting.contains("no_accept"));
        assert!(accepting.contains("    # The listener 0.0.0.0:443 serves"), "{accepting}");
    }

    #[test]
    fn seconds_are_written_as_keepalived_reads_them() {
        let text = |millis| seconds(Duration::from_millis(millis));
        assert_eq!([text(1_000), text(10), text(1_500)], ["1", "0.01", "1.5"]);
        assert_eq!(text(40_000), "40");
    }
}
