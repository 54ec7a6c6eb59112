//! A thundering herd: thousands of clients ask for one object at the same moment, just after it
//! has expired, and its server takes half a second. How often is the server asked?

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::json;

use super::client::Client;
use super::origin::{Objects, Origin};
use super::server::Cache;
use crate::peers::Workshop;
use crate::process;
use crate::run::Section;
use crate::verdict::{Target, Verdict};

/// Sends the herd at each cache.
pub(super) fn measure(caches: &[Cache], workshop: &Workshop, section: &mut Section) -> Result<()> {
    // Each client is a descriptor here, and another one where the server may be asked for it.
    let clients = CLIENTS.min(process::descriptor_limit() as usize / 2 - 100);
    println!("\n{NAME}: {clients} clients, one object that has expired\n{COLUMNS}");
    let mut figures = Vec::new();
    for cache in caches {
        let seen = herd(*cache, clients, workshop)?;
        println!(
            "{:9}{:>10}{:>10}{:>14.2}",
            cache.name(),
            seen.requests,
            seen.failed,
            seen.last.as_secs_f64()
        );
        if *cache == Cache::Loadline {
            section.judge(seen.judge());
        }
        figures.push(json!({ "proxy": cache.name(), "clients": clients, "failed": seen.failed,
            "requests_to_the_server": seen.requests, "last_s": seen.last.as_secs_f64() }));
    }
    section.record(NAME, figures);
    Ok(())
}

/// What came of it.
struct Herd {
    /// That the server got.
    requests: u64,
    failed: usize,
    /// When the last client had its response.
    last: Duration,
}

impl Herd {
    fn judge(&self) -> Verdict {
        let flaw = (self.failed > 0).then(|| format!("{} clients got no response", self.failed));
        let name = format!("{NAME}, requests to the server");
        Verdict::new(name, self.requests as f64, Target::AtMost(1.0)).flaw(flaw)
    }
}

fn herd(cache: Cache, clients: usize, workshop: &Workshop) -> Result<Herd> {
    let delay = Duration::from_millis(500);
    let objects = Objects { length: 10_000, cache_control: "max-age=1", delay, pace: None };
    let origin = Origin::start(0, objects)?;
    let running = cache.start(workshop, origin.port)?;
    let port = running.contender.port;
    let mut herd: Vec<Client> =
        (0..clients).map(|_| Client::connect(port)).collect::<Result<_>>().context("connect")?;
    Client::connect(port)?.fetch(1)?;
    thread::sleep(EXPIRED);
    let before = origin.requests();
    let begin = Instant::now();
    for client in &mut herd {
        client.send(1)?;
    }
    let failed = herd.iter_mut().filter_map(|client| client.receive().err()).count();
    Ok(Herd { requests: origin.requests() - before, failed, last: begin.elapsed() })
}

pub(super) const NAME: &str = "cache, herd";
const COLUMNS: &str = "           requests    failed  last after s";
const CLIENTS: usize = 10_000;
/// After which what may be kept for a second is stale by any clock.
const EXPIRED: Duration = Duration::from_millis(2_500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_request_to_the_server_fails_and_so_does_a_client_without_a_response() {
        let herd = |requests, failed| Herd { requests, failed, last: Duration::ZERO };
        assert!(!herd(1, 0).judge().failed());
        assert!(herd(2, 0).judge().failed() && herd(1, 1).judge().failed());
    }
}
