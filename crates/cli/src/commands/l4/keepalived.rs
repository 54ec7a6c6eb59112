//! `loadline l4 keepalived`: the configuration of keepalived that belongs to a file.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context as _;
use loadline_control::Loaded;
use loadline_l4::standby::VirtualRouter;

use crate::commands::{print_errors, series};

/// Print the configuration of keepalived for two or more balancers
///
/// Each balancer needs its own, from its own file. VRRP alone decides which balancer is active;
/// loadline checks whether it has the addresses.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The configuration file of loadline
    file: PathBuf,

    /// The program with which keepalived checks that loadline runs [this one]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let loaded = match loadline_control::load(&args.file) {
        Ok(loaded) => loaded,
        Err(errors) => return Ok(print_errors(errors)),
    };
    let program = args.program.clone().map_or_else(std::env::current_exe, Ok)?;
    let router = router(&loaded, &program.display().to_string())?;
    series::print(&router.to_string())?;
    Ok(ExitCode::SUCCESS)
}

fn router(loaded: &Loaded, program: &str) -> anyhow::Result<VirtualRouter> {
    let forwarding = &loaded.fleet.forwarding;
    let standby = forwarding.datapath.as_ref().zip(forwarding.standby.as_ref());
    let (datapath, standby) =
        standby.context("there is no [l4.standby] in this file, so there is nothing to move")?;
    let admin = loaded.admin.as_ref();
    let admin = admin.context("there is no [admin] in this file for keepalived to ask")?;
    let addresses = forwarding.moving_addresses();
    let mut binds = loaded.fleet.listeners.iter().map(|listener| listener.bind);
    let accepts = binds.find(|bind| addresses.iter().any(|address| serves(bind.ip(), *address)));
    Ok(VirtualRouter {
        interface: datapath.interface.clone(),
        number: standby.router_id,
        priority: standby.priority,
        interval: standby.interval,
        addresses,
        accepts,
        check: format!("{program} l4 status {}", admin.bind),
    })
}

/// Whether a listener there gets what comes to an address.
fn serves(bind: IpAddr, address: IpAddr) -> bool {
    match bind {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => address.is_ipv4(),
        // Of both families.
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => true,
        bind => bind == address,
    }
}

const AFTER_HELP: &str = "\
Examples:
  loadline l4 keepalived /etc/loadline/loadline.toml >/etc/keepalived/keepalived.conf
  keepalived --config-test

Exit codes: 0 done, 1 wrong usage or configuration, 2 the file has no [l4.standby] or no [admin].";

#[cfg(test)]
mod tests {
    use loadline_control::LocalOnly;

    use super::*;

    const FILE: &str = "\
[admin]
bind = \"127.0.0.1:9090\"
[l4]
interface = \"eth7\"
return_addresses = [\"10.0.0.9\"]
[l4.standby]
bind = \"10.0.0.2:4343\"
peers = [\"10.0.0.3:4343\"]
key_file = \"/etc/loadline/standby.key\"
priority = 150
interval = \"500ms\"
[[listener]]
bind = \"10.0.0.100:80\"
protocol = \"tcp\"
forward = \"nat\"
service = \"web\"
[service.web]
[[service.web.group]]
servers = [\"10.0.0.11:80\"]
";

    fn made(file: &str) -> anyhow::Result<VirtualRouter> {
        let loaded = loadline_control::parse_with("a.toml", file, &LocalOnly).unwrap();
        router(&loaded, "/usr/bin/loadline")
    }

    #[test]
    fn the_addresses_of_services_and_of_nat_move_together() {
        let router = made(FILE).unwrap();
        let addresses: Vec<String> = router.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["10.0.0.100", "10.0.0.9"]);
        assert_eq!((&*router.interface, router.number, router.priority), ("eth7", 51, 150));
        assert_eq!(router.check, "/usr/bin/loadline l4 status 127.0.0.1:9090");
        assert_eq!(router.accepts, None);
    }

    #[test]
    fn the_kernel_answers_where_the_proxy_has_an_address_that_moves() {
        for (bind, is_served) in [
            ("10.0.0.100:443", true),
            ("0.0.0.0:443", true),
            ("[::]:443", true),
            ("10.0.0.2:443", false),
            ("[fd00::1]:443", false),
        ] {
            let proxied = format!("[[listener]]\nbind = \"{bind}\"\nservice = \"web\"\n");
            let file = FILE.replace("[service.web]\n", &format!("{proxied}[service.web]\n"));
            let served = is_served.then(|| bind.parse().unwrap());
            assert_eq!(made(&file).unwrap().accepts, served, "{bind}");
        }
    }

    #[test]
    fn a_file_without_a_standby_has_nothing_to_move() {
        let (before, rest) = FILE.split_once("[l4.standby]").unwrap();
        let (_, after) = rest.split_once("[[listener]]").unwrap();
        let error = made(&format!("{before}[[listener]]{after}")).unwrap_err().to_string();
        assert!(error.contains("[l4.standby]"), "{error}");
    }
}
