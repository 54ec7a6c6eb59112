//! Who may use how much of the groups that edges share, as the store has it.

use std::collections::{BTreeMap, BTreeSet};

use loadline_core::cluster::{Report, SessionId, Share, Table};
use serde::{Deserialize, Serialize};

use super::{
    etcd::{Client, EtcdError, message::KeyValue},
    keys::{self, ValueError},
    sharing::Places,
};

/// A service with groups that are shared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SharedServiceInfo {
    /// Its name in the configuration.
    pub name: String,
    /// Requests per second that come to each edge, by its name.
    pub demand: BTreeMap<String, f64>,
    /// Those of its groups that are shared.
    pub groups: Vec<SharedGroupInfo>,
}

/// A group that is shared. Parts of its capacity are from 0 to 1.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SharedGroupInfo {
    /// Its name within the service.
    pub name: String,
    /// The part of each edge beside its floor, by the name of the edge.
    pub shares: BTreeMap<String, f64>,
    /// What is kept for the floors of edges.
    pub floors: f64,
    /// What nobody has now.
    pub free: f64,
}

/// What the store has of the sharing.
pub(super) struct Shares {
    pub(super) services: Vec<SharedServiceInfo>,
    /// The name of the edge that computes shares.
    pub(super) elected: Option<String>,
}

/// All of it; values that cannot be read are added to `unreadable`.
pub(super) async fn read(
    client: &Client,
    prefix: &str,
    unreadable: &mut Vec<String>,
) -> Result<Shares, EtcdError> {
    let places = Places::below(prefix);
    let found = client.prefix(places.all()).await?.kvs;
    Ok(of(&places, &found, unreadable))
}

fn of(places: &Places, found: &[KeyValue], unreadable: &mut Vec<String>) -> Shares {
    let (mut reports, mut tables) = (BTreeMap::new(), Vec::new());
    let mut oldest: Option<(i64, SessionId)> = None;
    for it in found {
        let key = String::from_utf8_lossy(&it.key);
        let read = if let Some(session) = places.session_of(&key) {
            oldest = oldest.into_iter().chain([(it.create_revision, session)]).min();
            let report = keys::read("a report", &key, &it.value);
            report.map(|report: Report| drop(reports.insert(session, report)))
        } else if let Some(service) = places.service_of(&key) {
            keys::read("a table of shares", &key, &it.value)
                .map(|table: Table| tables.push((service, table)))
        } else {
            Err(ValueError { key: key.into(), what: "known here", why: "it has no name".into() })
        };
        unreadable.extend(read.err().map(|error| error.to_string()));
    }
    let elected = oldest.and_then(|(_, session)| Some(reports.get(&session)?.name.clone()));
    let services = tables.into_iter().map(|(service, table)| info(service, &table, &reports));
    Shares { services: services.collect(), elected }
}

fn info(name: String, table: &Table, reports: &BTreeMap<SessionId, Report>) -> SharedServiceInfo {
    let demands = reports.values().filter_map(|report| {
        let demand = report.services.get(&name)?.demand.iter().sum::<u64>();
        Some((report.name.clone(), demand as f64 / 1e3))
    });
    let edge = |session| reports.get(&session).map_or("gone", |report| &report.name).to_owned();
    // All of a group is free of which nobody has anything.
    let told = reports.values().filter_map(|report| report.services.get(&name));
    let told = told.flat_map(|service| service.groups.keys());
    let names: BTreeSet<&String> = table.groups.keys().chain(told).collect();
    let groups = names.into_iter().map(|group| {
        let mut shares = BTreeMap::new();
        for entry in table.groups.get(group).into_iter().flatten() {
            *shares.entry(edge(entry.session)).or_default() += part(entry.share);
        }
        let (floors, free) = (part(table.reserved), part(table.free(group)));
        SharedGroupInfo { name: group.clone(), shares, floors, free }
    });
    SharedServiceInfo { demand: demands.collect(), groups: groups.collect(), name }
}

fn part(share: Share) -> f64 {
    share.parts() as f64 / Share::WHOLE.parts() as f64
}

#[cfg(test)]
mod tests {
    use loadline_core::cluster::{GroupReport, ServiceReport};

    use super::*;

    #[test]
    fn of_a_group_of_which_nobody_has_anything_all_but_the_floors_is_free() {
        let groups = [("near".to_owned(), GroupReport::default())].into();
        let service = ServiceReport { groups, ..ServiceReport::default() };
        let services = [("web".to_owned(), service)].into();
        let reports = [(SessionId(1), Report { services, ..Report::default() })].into();
        let table = Table { version: 1, reserved: Share::part(1, 4), ..Table::default() };
        let told = info("web".to_owned(), &table, &reports).groups;
        let told: Vec<_> = told.iter().map(|it| (&*it.name, it.shares.len(), it.free)).collect();
        assert_eq!(told, [("near", 0, 0.75)]);
    }

    #[test]
    fn the_edge_whose_report_is_the_oldest_is_the_elected_one() {
        let places = Places::below("/l/");
        let report = |session: &str, name: &str, created| {
            let key = format!("/l/sharing/edges/{session}").into_bytes();
            let report = Report { name: name.to_owned(), ..Report::default() };
            let value = keys::written(&report);
            KeyValue { key, value, create_revision: created, ..KeyValue::default() }
        };
        let elected = |found: &[KeyValue]| of(&places, found, &mut Vec::new()).elected;
        assert_eq!(elected(&[]), None);
        let found = [report("1", "edge-1", 9), report("2", "edge-2", 4)];
        assert_eq!(elected(&found).as_deref(), Some("edge-2"));
    }
}
