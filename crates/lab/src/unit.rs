//! A forwarding unit: one server in front of named machines in regions, which passes a request on
//! to the one its path names and tells how long that took.
//!
//! | path | goes to |
//! |---|---|
//! | `/work` | one of all machines, drawn at random |
//! | `/work/REGION` | one of the region, drawn at random |
//! | `/work/REGION/MACHINE` | this one |
//!
//! It answers `{"machine", "region", "response_time", "work_time"}`, times in milliseconds: the
//! response time from here to the machine and back, and the work as the machine tells it. What
//! takes longer than the limit is answered 503, as the router of the published platform does; a
//! machine that cannot be reached, or is none, 502.

mod remote;

use std::{net::SocketAddr, str::FromStr, sync::Mutex};

use loadline_core::time::Duration;
use loadline_linux::clock;
use rand::{RngExt as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};
use serde::Serialize;
use tokio::time::timeout;

use crate::{answer::PreparedResponse, service::lock};
use remote::Remote;

/// What a forwarding unit forwards to, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// The machines; none in what is no forwarding unit.
    pub machines: Vec<Machine>,
    /// How long a machine may take; 30 s.
    pub limit: Duration,
    /// What the random choices are drawn from.
    pub seed: u64,
}

/// A machine behind a forwarding unit, written `asia/0=10.0.0.2:80`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The region in its path.
    pub region: String,
    /// Its name in the region.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
}

/// A text that describes no machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no machine: write it like `asia/0=10.0.0.2:80`, REGION/MACHINE=ADDRESS")]
pub struct MachineError {
    /// As it was given.
    pub text: String,
}

/// The machines that a path allows: `count` of the sorted list from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    first: usize,
    count: usize,
}

/// A forwarding unit at work.
pub(crate) struct Unit {
    /// In the order of their names, so that a region stands together.
    remotes: Vec<Remote>,
    limit: Duration,
    draws: Mutex<Xoshiro256PlusPlus>,
}

/// What is answered.
#[derive(Serialize)]
struct UnitInfo<'a> {
    machine: &'a str,
    region: &'a str,
    response_time: f64,
    work_time: f64,
}

impl Default for Forwarding {
    fn default() -> Self {
        Self { machines: Vec::new(), limit: LIMIT, seed: 1 }
    }
}

impl Machine {
    /// As it stands in a path.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.region, self.name)
    }
}

impl FromStr for Machine {
    type Err = MachineError;

    fn from_str(text: &str) -> Result<Self, MachineError> {
        let wrong = || MachineError { text: text.to_owned() };
        let (path, address) = text.split_once('=').ok_or_else(wrong)?;
        let (region, name) = path.split_once('/').ok_or_else(wrong)?;
        let named = |name: &str| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            !name.is_empty() && name.bytes().all(fits)
        };
        if !(named(region) && named(name)) {
            return Err(wrong());
        }
        let address = address.parse().map_err(|_| wrong())?;
        Ok(Self { region: region.to_owned(), name: name.to_owned(), address })
    }
}

impl Unit {
    pub(crate) fn new(forwarding: Forwarding) -> Self {
        let mut machines = forwarding.machines;
        machines.sort_by_key(|machine| (machine.region.clone(), machine.name.clone()));
        Self {
            remotes: machines.into_iter().map(Remote::new).collect(),
            limit: forwarding.limit,
            draws: Mutex::new(Xoshiro256PlusPlus::seed_from_u64(forwarding.seed)),
        }
    }

    /// The machines that a path without a query allows; nothing where it names none.
    pub(crate) fn choice(&self, path: &[u8]) -> Option<Choice> {
        let path = std::str::from_utf8(path).ok()?.strip_prefix("/work")?;
        let mut parts = path.split('/').skip(1).filter(|part| !part.is_empty());
        if !(path.is_empty() || path.starts_with('/')) {
            return None;
        }
        let (region, name, more) = (parts.next(), parts.next(), parts.next());
        let fits = |remote: &&Remote| {
            let machine = &remote.machine;
            region.is_none_or(|region| machine.region == region)
                && name.is_none_or(|name| machine.name == name)
        };
        let first = self.remotes.iter().position(|remote| fits(&remote))?;
        let count = self.remotes.iter().filter(fits).count();
        more.is_none().then_some(Choice { first, count })
    }

    /// Passes one request on.
    pub(crate) async fn forward(&self, choice: Choice) -> PreparedResponse {
        let drawn = lock(&self.draws).random_range(0..choice.count);
        let remote = &self.remotes[choice.first + drawn];
        let began = clock::now();
        let work_time = match timeout(self.limit.to_std(), remote.work()).await {
            Ok(Ok(work_time)) => work_time,
            Ok(Err(error)) => {
                return PreparedResponse::text(
                    502,
                    &format!("{}: {error}\n", remote.machine.path()),
                );
            }
            Err(_) => {
                let told = format!("{}: no answer in {}\n", remote.machine.path(), self.limit);
                return PreparedResponse::text(503, &told);
            }
        };
        let took = clock::now().since(began).as_millis_f64();
        let told = UnitInfo {
            machine: &remote.machine.name,
            region: &remote.machine.region,
            response_time: (took * 100.0).round() / 100.0,
            work_time,
        };
        // A record of texts and numbers always has a JSON form.
        PreparedResponse::json(serde_json::to_vec(&told).unwrap_or_default())
    }
}

/// What the published platform allows.
const LIMIT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn unit() -> Unit {
        let machine = |text: &str| format!("{text}=127.0.0.1:1").parse().unwrap();
        let machines = ["us/1", "asia/0", "emea/0", "us/0", "asia/1"].map(machine).to_vec();
        Unit::new(Forwarding { machines, ..Forwarding::default() })
    }

    fn allowed(path: &str) -> Vec<String> {
        let unit = unit();
        let Some(Choice { first, count }) = unit.choice(path.as_bytes()) else { return vec![] };
        unit.remotes[first..first + count].iter().map(|remote| remote.machine.path()).collect()
    }

    #[test]
    fn a_path_allows_all_those_of_a_region_or_one() {
        assert_eq!(allowed("/work"), ["asia/0", "asia/1", "emea/0", "us/0", "us/1"]);
        assert_eq!(allowed("/work/"), allowed("/work"));
        assert_eq!(allowed("/work/us"), ["us/0", "us/1"]);
        assert_eq!(allowed("/work/asia/1"), ["asia/1"]);
        for path in ["/", "/worker", "/work/mars", "/work/emea/1", "/work/us/0/x", "", "/w"] {
            assert_eq!(allowed(path), [""; 0], "{path}");
        }
    }

    #[test]
    fn a_machine_is_read_and_what_is_none_says_how_to_write_it() {
        let machine: Machine = "asia/0=10.0.0.2:80".parse().unwrap();
        assert_eq!((machine.path().as_str(), machine.address.port()), ("asia/0", 80));
        for text in ["asia/0", "asia=1:80", "asia/0=host", "/0=1.1.1.1:1", "a/b/c=1.1.1.1:1", ""] {
            let error = text.parse::<Machine>().unwrap_err().to_string();
            assert!(error.contains("REGION/MACHINE=ADDRESS"), "{error}");
        }
    }
}
