//! From the types of the file to a checked [`Fleet`]: defaults, references, and what keys mean
//! together.
//!
//! Everything here goes on after an error with something harmless in its place, so that all
//! errors are found; the caller throws the result away when there were any.

mod access_log;
mod acme;
mod admin;
mod authentication;
pub(crate) mod basic_auth;
mod cache;
mod cluster;
mod compression;
mod cors;
mod discover;
mod forward_auth;
mod frontend;
mod group;
mod health;
mod hsts;
mod jwt;
mod l4;
mod listener;
mod manager;
pub(crate) mod maps;
mod mirror;
pub(crate) mod pages;
mod process;
mod region;
mod routes;
mod service;
mod shared_routes;
pub(crate) mod sources;
mod standby;
mod sticky;
mod store;
mod stream;
mod tls;
mod tracing;
mod unused;

use std::{fs, path::Path};

use loadline_core::fleet::{Edge, Fleet, forwarding::Forwarding};
use loadline_spanned::{At, Key, Problems};

use crate::{file::File, resolve::Resolve, value::number::Whole};

pub(crate) use acme::STATE_DIR;
pub(crate) use admin::admin;
pub(crate) use cluster::cluster;
pub(crate) use discover::name_servers;
pub(crate) use process::process;
use region::Regions;
pub(crate) use region::names as regions;
pub(crate) use shared_routes::share_routes;

/// Makes a fleet of the file. It is right only if `problems` has not failed.
pub(crate) fn assemble(
    file: &At<File>,
    seen_from: Option<&str>,
    resolver: &dyn Resolve,
    problems: &mut Problems,
) -> Fleet {
    let regions = Regions::new(file, seen_from, problems);
    let services = service::services(file, &regions, resolver, problems);
    let datapath = l4::datapath(&file.value.l4, problems);
    let (listeners, frontends) = listener::listeners(file, &services, datapath.as_ref(), problems);
    l4::check_room(&file.value.l4, datapath.as_ref(), (&frontends, &services), problems);
    l4::warn_unused(&file.value.l4, &frontends, problems);
    let l4 = file.value.l4.get();
    let standby = l4.and_then(|l4| standby::standby(&l4.standby, &file.value.admin, problems));
    let forwarding = Forwarding { datapath, frontends, standby };
    let edge = edge(&file.value, &regions, problems);
    Fleet { edge, listeners: listeners.into(), forwarding, services: services.into() }
}

fn edge(file: &File, regions: &Regions, problems: &mut Problems) -> Edge {
    let mut edge = Edge::within(regions.here());
    edge.cache = cache::limits(&file.cache, problems);
    cache::warn_of_slices(file, edge.cache, problems);
    edge.disk_cache = cache::disk(&file.cache, problems);
    edge.tracing = tracing::tracing(&file.tracing, problems);
    let Some(keys) = file.edge.get() else { return edge };
    set(&keys.threads, |it| &it.0, &mut edge.threads);
    set(&keys.drain_timeout, |it| &it.0.0, &mut edge.drain_timeout);
    edge.max_connections = keys.max_connections.get().map(|it| it.0);
    edge.quic_server_id = quic_server_id(&keys.quic_server_id);
    edge.access_log = access_log::access_log(&keys.access_log, problems);
    edge
}

fn quic_server_id(key: &Key<Whole<1, 65_535>>) -> Option<u16> {
    key.get().and_then(|id| u16::try_from(id.0).ok())
}

/// The text of a file of lines, without the byte order mark of editors of Windows.
fn read_text(path: &Path) -> Result<String, String> {
    let mut text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(text)
}

/// Puts the value of a key, where the file has it, in the place of a default.
fn set<T, U: Clone>(key: &Key<T>, value: impl Fn(&T) -> &U, slot: &mut U) {
    if let Some(given) = key.get() {
        *slot = value(given).clone();
    }
}
