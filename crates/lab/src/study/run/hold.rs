//! A study's lab without its phases, for people to look around in.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use super::{RunError, STOPS_WITHIN, Setup, folder, prepare, programs::RunningRow, start};
use crate::study::Study;

/// A lab that is held: what people need to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Hosts with their addresses.
    pub hosts: Vec<(String, Vec<IpAddr>)>,
    /// Programs with their hosts.
    pub programs: Vec<(String, String)>,
    /// What the lab does without, and what it does instead.
    pub notes: Vec<String>,
}

/// Starts the hosts and programs of a row, tells of them, and holds them until `stop` is set.
///
/// # Errors
/// [`RunError`] where there is no lab or no such row, or a program does not start.
pub fn hold(
    study: &Study,
    setup: &Setup,
    row: &str,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Held),
) -> Result<(), RunError> {
    if !study.rows().iter().any(|one| one.name == row) {
        let known = study.rows().iter().map(|row| row.name.as_str()).collect::<Vec<_>>();
        return Err(RunError::NoSuchRow { row: row.to_owned(), known: known.join(", ") });
    }
    folder::begin(&setup.folder, study)?;
    let (plan, folder) = prepare(study, setup, row, stop)?;
    let lab = start(setup, &plan)?;
    let announced = lab.announce(study.short_name(), study.title());
    let _announced = announced.map_err(|error| super::programs::failed("announce it", &error))?;
    let (plan, folder) = (&plan, &folder);
    let mut site = RunningRow { lab, plan, folder, stop, running: BTreeMap::new() };
    site.start_all()?;
    let hosts = site.lab.hosts().iter();
    tell(&Held {
        hosts: hosts.map(|host| (host.name().to_owned(), host.addresses().to_vec())).collect(),
        programs: plan
            .programs
            .iter()
            .filter(|program| site.running.contains_key(&program.name))
            .map(|program| (program.name.clone(), program.command.host.clone()))
            .collect(),
        notes: site.lab.notes().to_vec(),
    });
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(STOPS_WITHIN.to_std());
    }
    site.end()
}
