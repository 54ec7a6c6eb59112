//! HTTP/3: loadline beside Caddy and Envoy, and beside its own HTTP/2; HTTPS where it is offered
//! beside HTTPS where it is not.
//!
//! What a request costs in CPU time is measured as in `cost`, what a connection that waits takes in
//! memory by `idle`, what clients notice of a flood by `flood`. `loadline bench --http3` asks, as a
//! process of its own whose CPU time does not count.

pub(crate) mod client;
pub(crate) mod flood;
mod idle;
mod server;

use anyhow::Result;

use crate::cost::{self, Against, Case, Client, Contender, Role};
use crate::peers::{Kind, Workshop};
use crate::process::free_ports;
use crate::run::{Effort, Section};
use crate::verdict::Target;
use server::Server;

/// What can be measured, and is called so.
pub(crate) const PARTS: [&str; 6] = [SMALL, BESIDE_HTTP2, LARGE, HTTPS, idle::NAME, flood::NAME];

const SMALL: &str = "HTTP/3, small";
const BESIDE_HTTP2: &str = "HTTP/3, small beside HTTP/2";
const LARGE: &str = "HTTP/3, 10 MB";

/// What clients without HTTP/3 pay for its being offered.
const HTTPS: &str = "HTTPS beside HTTP/3";

/// Measures the wanted parts; nothing is judged without loadline.
pub(crate) fn measure(
    kinds: &[Kind],
    workshop: &Workshop,
    effort: Effort,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Section> {
    let has_loadline = kinds.contains(&Kind::Loadline);
    let mut servers = Server::ALL.to_vec();
    servers.retain(|server| *server != Server::Loadline || has_loadline);
    servers.retain(|server| server.is_installed(workshop));
    let backends: [u16; 4] = free_ports()?;
    let _backend = cost::start_backend(&backends, &workshop.directory)?;
    let mut section = Section::new("HTTP/3");
    let client = |streams| Client::Http3(streams, workshop.loadline.clone());
    let start = |server: &Server| server.start(workshop, &backends);
    if wanted(SMALL) || wanted(LARGE) {
        let running = servers.iter().map(start).collect::<Result<Vec<_>>>()?;
        let contenders: Vec<&Contender> = running.iter().collect();
        let small = (10, client(32));
        let small = Case::over_http3(SMALL, small, "/s", (Against::Peer, Target::AtMost(0.70)));
        let large = (8, client(1));
        let large = Case::over_http3(LARGE, large, "/l", (Against::Peer, Target::AtMost(0.80)));
        for case in [small, large].into_iter().filter(|case| wanted(case.name)) {
            cost::compare(&case, &contenders, effort, &mut section)?;
        }
    }
    if wanted(BESIDE_HTTP2) && has_loadline {
        let ours = Server::Loadline.start(workshop, &backends)?.called("HTTP/3", Role::Judged);
        let http2 = Server::Loadline.start(workshop, &backends)?;
        let http2 = http2.called("HTTP/2", Role::Yardstick).asked_by(Client::H2load(32));
        let against = (Against::Yardstick, Target::AtMost(1.5));
        let case = Case::over_http3(BESIDE_HTTP2, (10, client(32)), "/s", against);
        cost::compare(&case, &[&ours, &http2], effort, &mut section)?;
    }
    if wanted(HTTPS) && has_loadline {
        let offered = Server::Loadline.start(workshop, &backends)?;
        let offered = offered.called("with HTTP/3", Role::Judged);
        let without = Server::Loadline.start_with("http3 = false", workshop, &backends)?;
        let without = without.called("without", Role::Yardstick);
        let against = (Against::Yardstick, Target::AtMost(1.01));
        let case = Case::over_http3(HTTPS, (64, Client::Wrk), "/s", against);
        cost::compare(&case, &[&offered, &without], effort, &mut section)?;
    }
    if wanted(idle::NAME) {
        idle::measure(&servers, workshop, &backends, &mut section)?;
    }
    if wanted(flood::NAME) && has_loadline {
        flood::measure(workshop, &backends, effort, &mut section)?;
    }
    Ok(section)
}
