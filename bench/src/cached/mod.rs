//! The cache: loadline beside nginx, Varnish and Apache Traffic Server.
//!
//! What a hit costs in CPU time is measured as in `cost`, held against the peer that is cheapest;
//! what an object of 1 kB takes in memory by `memory`; how long requests take while every second
//! one is a miss by `half_misses`; which requests are hits by `popularity`; what a server is asked
//! when thousands want the same by `herd` and, of an object that comes slowly, by `slow_object`;
//! and whether its cache can do without it by `origin_down`.

mod client;
mod half_misses;
mod herd;
mod memory;
mod origin;
mod origin_down;
mod popularity;
mod server;
mod slow_object;

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::cost::{self, Case, Contender};
use crate::peers::Workshop;
use crate::process::free_ports;
use crate::run::{Effort, Section};
use crate::verdict::Target;
use server::{Cache, Running};

/// What can be measured, and is called so.
pub(crate) const PARTS: [&str; 7] = [
    "cache, hits",
    half_misses::NAME,
    memory::NAME,
    popularity::NAME,
    herd::NAME,
    slow_object::NAME,
    origin_down::NAME,
];

/// Measures the wanted parts for every cache that is installed; without loadline, for its peers.
pub(crate) fn measure(
    workshop: &Workshop,
    effort: Effort,
    peers_only: bool,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Section> {
    let mut caches = Cache::ALL.to_vec();
    caches.retain(|cache| !(peers_only && *cache == Cache::Loadline));
    caches.retain(|cache| is_installed(*cache));
    let mut section = Section::new("cache");
    for part in PARTS.into_iter().filter(|part| wanted(part)) {
        match part {
            half_misses::NAME => {
                half_misses::measure(&caches, workshop, effort, &mut section)?;
            }
            memory::NAME => memory::measure(&caches, workshop, &mut section)?,
            popularity::NAME => popularity::measure(&caches, workshop, &mut section)?,
            herd::NAME => herd::measure(&caches, workshop, &mut section)?,
            slow_object::NAME => {
                slow_object::measure(&caches, workshop, effort, &mut section)?;
            }
            origin_down::NAME => origin_down::measure(&caches, workshop, &mut section)?,
            _ => hits(&caches, workshop, effort, &mut section)?,
        }
    }
    Ok(section)
}

/// What a hit costs. The server is gone when that is measured: what is no hit is an error.
fn hits(
    caches: &[Cache],
    workshop: &Workshop,
    effort: Effort,
    section: &mut Section,
) -> Result<()> {
    let servers: [u16; 4] = free_ports()?;
    let backend = cost::start_backend_with(&["--cacheable"], &servers, &workshop.directory)?;
    let running: Vec<Running> =
        caches.iter().map(|cache| cache.start(workshop, servers[0])).collect::<Result<_>>()?;
    let floor = Contender::memory(workshop)?;
    let caches = running.iter().map(|it| &it.contender);
    let contenders: Vec<&Contender> = caches.chain([&floor]).collect();
    let cases = [
        Case::beside_peers("cache, hit of 1 kB", 64, "/k", Target::AtMost(0.80)),
        Case::beside_peers("cache, hit of 50 kB", 64, "/m", Target::AtMost(0.80)),
        Case::beside_peers("cache, hit of 10 MB", 8, "/l", Target::AtMost(1.05)),
    ];
    cases.iter().try_for_each(|case| cost::warm_up(case, &contenders))?;
    drop(backend);
    cases.iter().try_for_each(|case| cost::compare(case, &contenders, effort, section))
}

fn is_installed(cache: Cache) -> bool {
    let (program, flag) = match cache {
        Cache::Loadline => return true,
        Cache::Nginx => ("nginx", "-v"),
        Cache::Varnish => ("varnishd", "-V"),
        Cache::TrafficServer => ("traffic_server", "-V"),
    };
    let mut command = Command::new(Path::new(program));
    let ran = command.arg(flag).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if ran.is_err() {
        println!("{} is left out: `scripts/setup bench` could not install it.", cache.name());
    }
    ran.is_ok()
}
