//! Changes at run time: what an operator sets over the file until the next reload.
//!
//! `fleet in force = overrides applied to the fleet of the file`. One thing has one override, the
//! latest; setting what the file says takes it back. A reload of the file forgets them all: what
//! is to stay is written into the file, and [`Override`] says as which line. A process that follows
//! another on the same file takes them over.
//!
//! | state of a server | its weight | capacity of its group |
//! |---|---|---|
//! | active | as in the file | as in the file |
//! | drain | 0: requests under way end, none are added | as it was: the others take its part |
//! | maintenance | 0 | less by its part, as if it were down: nothing if it stands by |
//!
//! A service as a whole may be in maintenance, too: then nobody is asked.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, net::SocketAddr};

use serde::{Deserialize, Serialize};

use crate::{
    fleet::{Fleet, Group, ServerAddress, Service},
    time::Duration,
    units::Ratio,
};

/// A change to something of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    /// Name of the service.
    pub service: String,
    /// The group; empty where the service is changed as a whole.
    pub group: String,
    /// What of it, and how.
    pub setting: Setting,
}

/// What is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setting {
    /// The part of the group's capacity in use: 0, or 10 % to 100 %.
    Scaler(Ratio),
    /// The weight of a server, 0 to 1000.
    Weight(SocketAddr, u32),
    /// Mode of a server.
    Mode(SocketAddr, Mode),
    /// That it drains, and how long what is under way there may go on.
    Drain(SocketAddr, Duration),
    /// Whether the service is in maintenance.
    Maintenance(bool),
}

/// Mode of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// As configured in the file.
    Active,
    /// Gets no new requests; the other servers take its share.
    Drain,
    /// As if it were down: the capacity of the group shrinks.
    Maintenance,
}

/// Why something cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// There is no such service.
    #[error("there is no service `{0}`")]
    Service(String),
    /// The service has no such group.
    #[error("the service `{0}` has no group `{1}`")]
    Group(String, String),
    /// The group has no such server.
    #[error("the group `{0}` has no server `{server}`", server = ServerAddress(*.1))]
    Server(String, SocketAddr),
    /// Not 0 and not from 0.1 to 1.
    #[error("a scaler is 0, which drains, or from 0.1 to 1")]
    Scaler,
    /// Over 1000.
    #[error("a weight is from 0, which drains, to 1000")]
    Weight,
}

/// Every change in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides(BTreeMap<Key, Override>);

/// What an override is about: service, group, server, and the kind of setting.
type Key = (String, String, Option<SocketAddr>, u8);

impl Overrides {
    /// Sets something over the `fleet` of the file.
    ///
    /// # Errors
    /// [`OverrideError`] where it is not there or the value is out of its range.
    pub fn set(&mut self, fleet: &Fleet, change: Override) -> Result<(), OverrideError> {
        let key = change.key();
        let unchanged = match is_already_so(fleet, &change) {
            // It has left its list, where it may come back to with what was set.
            Err(OverrideError::Server(..)) if self.0.contains_key(&key) => change.takes_back(),
            checked => checked?,
        };
        if unchanged {
            self.0.remove(&key);
        } else {
            self.0.insert(key, change);
        }
        Ok(())
    }

    /// Sets what was set over another `fleet` before. A server that is not on the list of its group
    /// may come back to it, and is then found as it was left.
    ///
    /// # Errors
    /// As [`Overrides::set`].
    pub fn restore(&mut self, fleet: &Fleet, change: Override) -> Result<(), OverrideError> {
        match is_already_so(fleet, &change) {
            Err(OverrideError::Server(..)) if change.is_of_list(fleet) => {
                self.0.insert(change.key(), change);
                Ok(())
            }
            _ => self.set(fleet, change),
        }
    }

    /// The fleet of the file with every change. What the fleet no longer has is passed over.
    #[must_use]
    pub fn applied_to(&self, fleet: &Fleet) -> Fleet {
        let mut by_service: BTreeMap<&str, Vec<&Override>> = BTreeMap::new();
        self.iter().for_each(|it| by_service.entry(&it.service).or_default().push(it));
        let mut changed = fleet.clone();
        for (at, service) in fleet.services.iter().enumerate() {
            if let Some(changes) = by_service.get(&*service.name) {
                apply(&mut changed.services[at], changes);
            }
        }
        changed
    }

    /// As [`Overrides::applied_to`] where `in_force` is what followed from the same fleet before
    /// the changes of this `service`: nothing is done for others.
    #[must_use]
    pub fn applied_to_service(&self, service: &str, fleet: &Fleet, in_force: &Fleet) -> Fleet {
        let mut changed = in_force.clone();
        if let Some(at) = fleet.services.position(service) {
            changed.services.restore(at, &fleet.services);
            let of_service: Vec<&Override> = self.of_service(service).collect();
            if !of_service.is_empty() {
                apply(&mut changed.services[at], &of_service);
            }
        }
        changed
    }

    /// The changes of one service.
    fn of_service<'a>(&'a self, service: &'a str) -> impl Iterator<Item = &'a Override> {
        let from: Key = (service.to_string(), String::new(), None, 0);
        let changes = self.0.range(from..).map(|(_, change)| change);
        changes.take_while(move |change| change.service == service)
    }

    /// The changes, by service, group and server.
    pub fn iter(&self) -> impl Iterator<Item = &Override> {
        self.0.values()
    }

    /// Whether everything is as the file says.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Override {
    fn key(&self) -> Key {
        // Modes come after weights: whoever is out stays out whatever its weight.
        let (server, kind) = match self.setting {
            Setting::Scaler(_) => (None, 0),
            Setting::Weight(server, _) => (Some(server), 1),
            Setting::Mode(server, _) | Setting::Drain(server, _) => (Some(server), 2),
            Setting::Maintenance(_) => (None, 3),
        };
        (self.service.clone(), self.group.clone(), server, kind)
    }

    /// Whether another says more of the same: who is out stays out whatever its weight, and a store
    /// whatever the scaler of its group.
    #[must_use]
    pub fn yields_to(&self, other: &Self, fleet: &Fleet) -> bool {
        let takes_out = match (self.setting, other.setting) {
            (
                Setting::Weight(server, _),
                Setting::Drain(out, _) | Setting::Mode(out, Mode::Drain | Mode::Maintenance),
            ) => out == server,
            (Setting::Scaler(_), _) => other.takes_store_out(fleet),
            _ => false,
        };
        takes_out && self.group_id() == other.group_id()
    }

    fn group_id(&self) -> (&str, &str) {
        (&self.service, &self.group)
    }

    /// The line of the file, or a comment, where it is about a server of a group with a store: the
    /// file has no servers there. None for every other change.
    #[must_use]
    pub fn of_store(&self, fleet: &Fleet) -> Option<String> {
        let (what, server, weight) = self.weight()?;
        self.groups_of(fleet).find(|group| has_store(group))?;
        let place = format!("# service.{}, group {}, {what} of", self.service, self.group);
        if self.takes_store_out(fleet) {
            return Some(format!("{place} its store:\nscaler = 0"));
        }
        let server = Quoted(ServerAddress(server).to_string());
        Some(format!("{place} {server} ({weight}): a store has no servers in the file"))
    }

    /// Whether nothing is given to the store of a group any more, whose servers are not listed
    /// elsewhere: the scaler in the file can say so.
    fn takes_store_out(&self, fleet: &Fleet) -> bool {
        let is_store = |group: &Group| has_store(group) && group.discovery.is_none();
        self.weight().is_some_and(|(.., weight)| weight == 0) && self.groups_of(fleet).any(is_store)
    }

    /// What is changed of a server, if it is about one, and the weight that it has then.
    const fn weight(&self) -> Option<(&'static str, SocketAddr, u32)> {
        match self.setting {
            Setting::Weight(server, weight) => Some(("weight", server, weight)),
            Setting::Mode(server, Mode::Drain) | Setting::Drain(server, _) => {
                Some(("drain", server, 0))
            }
            Setting::Mode(server, Mode::Maintenance) => Some(("maintenance", server, 0)),
            Setting::Mode(_, Mode::Active) | Setting::Scaler(_) | Setting::Maintenance(_) => None,
        }
    }

    fn groups_of<'a>(&'a self, fleet: &'a Fleet) -> impl Iterator<Item = &'a Group> {
        let services = fleet.services.iter().filter(|it| it.name == self.service);
        services.flat_map(|it| &it.groups).filter(|it| it.name == self.group)
    }

    /// Whether the servers of its group are listed elsewhere.
    fn is_of_list(&self, fleet: &Fleet) -> bool {
        self.groups_of(fleet).any(|group| group.discovery.is_some())
    }

    /// Whether it only takes another back.
    const fn takes_back(&self) -> bool {
        matches!(self.setting, Setting::Mode(_, Mode::Active))
    }

    fn apply(&self, group: &mut Group) {
        match self.setting {
            Setting::Scaler(scaler) => group.scaler = scaler,
            Setting::Weight(server, weight) => set_weight(group, server, weight),
            Setting::Mode(_, Mode::Active) | Setting::Maintenance(_) => {}
            Setting::Mode(server, Mode::Maintenance) => take_down(group, server),
            Setting::Mode(server, Mode::Drain) => set_weight(group, server, 0),
            Setting::Drain(server, limit) => {
                set_weight(group, server, 0);
                let servers = group.servers.iter_mut().filter(|it| it.address == server);
                servers.for_each(|server| server.drain_timeout = Some(limit));
            }
        }
    }
}

/// The line of the file that says the same, and the table or the entry that it is for.
impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Setting::Maintenance(enabled) = self.setting {
            let service = &self.service;
            return write!(f, "# service.{service}:\nmaintenance = {{ enabled = {enabled} }}");
        }
        write!(f, "# service.{}, group {}", self.service, self.group)?;
        match self.setting {
            Setting::Scaler(scaler) => write!(f, ":\nscaler = {}", scaler.as_f64()),
            Setting::Weight(server, weight) => line(f, "weight", server, weight),
            Setting::Mode(server, Mode::Active) => {
                write!(f, ": drain or maintenance of {} is taken back", ServerAddress(server))
            }
            Setting::Maintenance(_) => Ok(()),
            Setting::Mode(server, Mode::Drain) => line(f, "drain", server, 0),
            Setting::Drain(server, limit) => {
                line(f, "drain", server, 0)?;
                write!(f, "  # cut after {limit} by `deadline_s`; in the file: ")?;
                write!(f, "`drain_timeout = \"{limit}\"` of the service")
            }
            Setting::Mode(server, Mode::Maintenance) => line(f, "maintenance", server, 0),
        }
    }
}

/// For the entry of a server, which keeps its other keys.
fn line(f: &mut fmt::Formatter<'_>, what: &str, server: SocketAddr, weight: u32) -> fmt::Result {
    let server = Quoted(ServerAddress(server).to_string());
    write!(f, ", {what} of {{ address = {server} }} among its servers:\nweight = {weight}")
}

/// A string as TOML has it in one line: the path of a socket may hold quotes and line breaks.
struct Quoted(String);

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if c.is_control() => write!(f, "\\u{:04X}", u32::from(c))?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}

/// Whether the fleet says the same already.
fn is_already_so(fleet: &Fleet, change: &Override) -> Result<bool, OverrideError> {
    let Override { service: service_name, group: group_name, setting } = change;
    let service = fleet.services.iter().find(|service| service.name == *service_name);
    let service = service.ok_or_else(|| OverrideError::Service(service_name.clone()))?;
    let group = || {
        let group = service.groups.iter().find(|group| group.name == *group_name);
        group.ok_or_else(|| OverrideError::Group(service_name.clone(), group_name.clone()))
    };
    let server = |address: SocketAddr| {
        let server = group()?.servers.iter().find(|server| server.address == address);
        server.ok_or_else(|| OverrideError::Server(group_name.to_string(), address))
    };
    match *setting {
        Setting::Maintenance(enabled) => {
            Ok(service.maintenance.as_ref().is_some_and(|it| it.enabled) == enabled)
        }
        Setting::Scaler(scaler) => {
            let group = group()?;
            let fits = scaler == Ratio::ZERO || (SCALER_MIN..=Ratio::ONE).contains(&scaler);
            if fits { Ok(group.scaler == scaler) } else { Err(OverrideError::Scaler) }
        }
        Setting::Weight(_, weight) if weight > WEIGHT_MAX => {
            group().and(Err(OverrideError::Weight))
        }
        Setting::Weight(address, weight) => Ok(server(address)?.weight == weight),
        Setting::Mode(address, mode) => server(address).map(|_| mode == Mode::Active),
        Setting::Drain(address, _) => server(address).map(|_| false),
    }
}

/// Makes these changes, all of this service.
fn apply(service: &mut Service, changes: &[&Override]) {
    for change in changes {
        if let Setting::Maintenance(enabled) = change.setting {
            service.maintenance.get_or_insert_default().enabled = enabled;
        }
        let groups = service.groups.iter_mut().filter(|it| it.name == change.group);
        groups.for_each(|group| change.apply(group));
    }
}

fn has_store(group: &Group) -> bool {
    let listed = group.discovery.iter().map(|it| &it.template);
    group.servers.iter().chain(listed).any(|server| server.store.is_some())
}

fn set_weight(group: &mut Group, address: SocketAddr, weight: u32) {
    let servers = group.servers.iter_mut().filter(|server| server.address == address);
    servers.for_each(|server| server.weight = weight);
}

/// Takes a server out, which counts as down from then on. One whose weight is 0 has no part that
/// could be taken away.
fn take_down(group: &mut Group, address: SocketAddr) {
    let servers = group.servers.iter_mut().filter(|it| it.address == address && it.weight > 0);
    servers.for_each(|server| (server.weight, server.in_maintenance) = (0, true));
}

/// Less is no target but noise; as in the file.
const SCALER_MIN: Ratio = Ratio::percent(10);

/// The largest weight of a server, as in the file.
pub const WEIGHT_MAX: u32 = 1000;
