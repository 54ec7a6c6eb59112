//! `loadline l4 decapsulate`: packets of `ipip` leave their tunnel on a server without one.

use std::{net::IpAddr, process::ExitCode, time::Duration};

use loadline_l4::{Attachment, AttachmentChange, Datapath, Decapsulator};
use tokio::time::interval;

use crate::commands::{chain, series, stop_signal::StopSignal, tell, xdp_mode::XdpMode};

/// Decapsulate `ipip` packets on a server whose kernel has no tunnel module
///
/// For a server without the kernel modules ipip and ip6_tunnel: packets that arrive in a tunnel for
/// one of these addresses are given to the kernel as the client sent them. Runs until SIGINT or
/// SIGTERM; needs CAP_BPF and CAP_NET_ADMIN, or root.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The network interface on which packets come in
    interface: String,

    /// The service addresses, which this server has on its loopback interface; at most 64
    #[arg(required = true, value_name = "ADDRESS")]
    addresses: Vec<IpAddr>,

    /// How the XDP or TCX program is attached to the interface
    #[arg(long, value_enum, value_name = "MODE", default_value_t = XdpMode::Auto)]
    xdp_mode: XdpMode,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut decapsulator = Decapsulator::load()?;
    for address in &args.addresses {
        decapsulator.serve(*address)?;
    }
    let mut attachment = Attachment::to(&args.interface, args.xdp_mode.into());
    let attached = attachment.begin(|name, how| decapsulator.attach(name, how))?.name();
    series::print(&format!("decapsulating on {}, {attached}\n", args.interface))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut stop, mut looks) = (StopSignal::new()?, interval(LOOK));
        loop {
            tokio::select! {
                () = stop.received() => return Ok(ExitCode::SUCCESS),
                _ = looks.tick() => {
                    let attach = |name: &str, how| decapsulator.attach(name, how);
                    let change = attachment.look(Datapath::now(), attach);
                    change.into_iter().for_each(|change| tell(&told(&args.interface, change)));
                }
            }
        }
    })
}

/// What has become of the program at the interface, in words.
fn told(interface: &str, change: AttachmentChange) -> String {
    match change {
        AttachmentChange::Lost => {
            format!("not decapsulating: {interface} was deleted; waiting for another of the name")
        }
        AttachmentChange::Attached(how) => {
            format!("decapsulating on {interface} again, {}", how.name())
        }
        AttachmentChange::Refused(error) => {
            format!("not decapsulating: {}", chain(&error.into()))
        }
    }
}

/// How often the interface is looked for.
const LOOK: Duration = Duration::from_millis(100);

const AFTER_HELP: &str = "\
Example, on a server of a service at 10.0.0.100:
  ip address add 10.0.0.100/32 dev lo
  loadline l4 decapsulate eth0 10.0.0.100

Exit codes: 0 ended as told, 1 wrong usage, 2 the kernel refuses, or there is no such interface.";
