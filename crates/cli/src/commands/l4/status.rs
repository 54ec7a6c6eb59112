//! `loadline l4 status`: whether this balancer is active, and what those that stand by know.

use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use loadline_core::{
    state::{PeerLink, Role, Standby, StandbyPeer},
    time::Duration,
};

use crate::commands::{administration::Administration, series, size};

/// Show whether this balancer is active or standby, and the state of replication
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The admin interface of a running loadline: an address or the path of its socket
    #[arg(value_name = "ADDR", default_value = "127.0.0.1:9090")]
    place: Administration,

    /// Print JSON, as `standby` in /api/state
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let state = args.place.state()?;
    let standby = state.standby.context(
        "nobody stands by for this loadline: there is no [l4.standby] in the file it runs with",
    )?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&standby)? + "\n",
        false => page(&standby),
    };
    series::print(&text)?;
    let detached = state.forwarding.filter(|it| !it.is_attached());
    ensure!(
        detached.is_none(),
        "packets are not forwarded: the interface was deleted; see the log"
    );
    Ok(ExitCode::SUCCESS)
}

fn page(standby: &Standby) -> String {
    let since = whole_seconds(standby.role_s);
    let mut page = match standby.role {
        Role::Active => format!("active for {since}: packets come here\n"),
        Role::Standby => format!("standby for {since}\n"),
    };
    for peer in &standby.peers {
        page += &about(peer, standby.role);
    }
    if standby.unplaced > 0 {
        page += &format!(
            "{} flows or connections of the active have no place here: compare both files\n",
            standby.unplaced
        );
    }
    if standby.refused > 0 {
        let refused = standby.refused;
        page += &format!("{refused} datagrams refused: of strangers, or sealed with another key\n");
    }
    page
}

fn about(peer: &StandbyPeer, role: Role) -> String {
    let lag = peer.lag_s.map(|lag| format!("{:.0} ms", lag * 1e3)).unwrap_or_default();
    let link = match (peer.link, role) {
        (PeerLink::Silent, _) => "not heard of".to_owned(),
        (PeerLink::Joining, Role::Active) => format!("is being told everything, lag {lag}"),
        (PeerLink::Joining, Role::Standby) => "tells us everything".to_owned(),
        (PeerLink::Whole, Role::Active) => {
            format!("follows, {} facts behind, lag {lag}", peer.behind.unwrap_or_default())
        }
        (PeerLink::Whole, Role::Standby) => format!("is followed, heard of {lag} ago"),
    };
    let counts = &peer.counts;
    format!(
        "{} {link}\n  sent {} records in {} datagrams, {}; received {} in {}, {}; \
         {} datagrams lost, {} resynchronizations\n",
        peer.address,
        counts.records_sent,
        counts.datagrams_sent,
        size(counts.bytes_sent as f64),
        counts.records_received,
        counts.datagrams_received,
        size(counts.bytes_received as f64),
        counts.datagrams_lost,
        counts.resynchronizations,
    )
}

fn whole_seconds(seconds: f64) -> Duration {
    Duration::from_secs(seconds as u64)
}

const AFTER_HELP: &str = "\
keepalived asks this to know whether loadline lives and forwards packets: `loadline l4 keepalived`
prints its file.

Examples:
  loadline l4 status
  loadline l4 status /run/loadline.sock --json | jq .role

Exit codes: 0 done, 1 wrong usage, 2 the admin interface cannot be reached, no standby,
or packets are not forwarded.";

#[cfg(test)]
mod tests {
    use loadline_core::state::PeerCounts;

    use super::*;

    fn standby(role: Role, link: PeerLink) -> Standby {
        let counts = PeerCounts {
            records_sent: 1_200,
            datagrams_sent: 40,
            bytes_sent: 31_000,
            datagrams_lost: 1,
            resynchronizations: 2,
            ..PeerCounts::default()
        };
        let behind = (role == Role::Active).then_some(3);
        let address = "10.0.0.2:4343".to_owned();
        let peer = StandbyPeer { address, link, lag_s: Some(0.012), behind, counts };
        Standby { role, role_s: 75.9, unplaced: 0, refused: 0, peers: vec![peer] }
    }

    #[test]
    fn an_active_says_how_far_the_other_is() {
        assert_eq!(
            page(&standby(Role::Active, PeerLink::Whole)),
            "active for 75s: packets come here\n\
             10.0.0.2:4343 follows, 3 facts behind, lag 12 ms\n  \
             sent 1200 records in 40 datagrams, 31.0 kB; received 0 in 0, 0B; 1 datagrams lost, \
             2 resynchronizations\n"
        );
    }

    #[test]
    fn a_standby_says_whom_it_follows_and_what_is_wrong() {
        let mut followed = standby(Role::Standby, PeerLink::Whole);
        (followed.unplaced, followed.refused) = (4, 5);
        let page = page(&followed);
        assert!(page.starts_with("standby for 75s\n10.0.0.2:4343 is followed, heard of 12 ms ago"));
        assert!(page.contains("4 flows or connections") && page.contains("5 datagrams refused"));
    }
}
