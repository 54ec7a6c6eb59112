//! From the types of the file to a checked [`Fleet`]: defaults, references, and what keys mean
//! together.
//!
//! Everything here goes on after an error with something harmless in its place, so that all
//! errors are found; the caller throws the result away when there were any.

mod access_log;
mod admin;
mod discover;
mod group;
mod health;
mod hsts;
mod listener;
mod mirror;
mod process;
mod region;
mod routes;
mod service;
mod sticky;
mod stream;
mod tls;

use loadline_core::{
    fleet::{Edge, Fleet},
    time::Duration,
};

use crate::{
    error::Problems,
    file::{self, File},
    place::{At, Key},
    resolve::Resolve,
};

pub(crate) use admin::admin;
pub(crate) use discover::name_servers;
pub(crate) use process::process;
use region::Regions;

/// Makes a fleet of the file. It is right only if `problems` has not failed.
pub(crate) fn assemble(file: &At<File>, resolver: &dyn Resolve, problems: &mut Problems) -> Fleet {
    let regions = Regions::new(file, problems);
    let services = service::services(file, &regions, resolver, problems);
    let listeners = listener::listeners(file, &services, problems);
    Fleet { edge: edge(file.value.edge.get(), &regions, problems), listeners, services }
}

fn edge(file: Option<&file::Edge>, regions: &Regions, problems: &mut Problems) -> Edge {
    let access_log = file.and_then(|edge| access_log::access_log(&edge.access_log, problems));
    let drain_timeout = file.and_then(|edge| edge.drain_timeout.get()).map(|time| time.0.0);
    Edge {
        region: regions.here().to_owned(),
        threads: file.and_then(|edge| edge.threads.get()).map_or(0, |threads| threads.0),
        access_log,
        drain_timeout: drain_timeout.unwrap_or(DRAIN_TIMEOUT),
    }
}

/// Puts the value of a key, where the file has it, in the place of a default.
fn set<T, U: Clone>(key: &Key<T>, value: impl Fn(&T) -> &U, slot: &mut U) {
    if let Some(given) = key.get() {
        *slot = value(given).clone();
    }
}

/// Long enough for most requests, and what process managers grant before they kill.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
