//! `loadline drain`, `maintenance`, `activate`, `weight` and `scaler`: changes of a running edge.
//!
//! A target is a server by its address, with the service, or service and group, before it where
//! several have it; a group by service and name; or, for maintenance, a service by its name.

use std::{collections::BTreeSet, fmt::Write as _, path::PathBuf, process::ExitCode};

use anyhow::bail;
use loadline_control::admin::read_token;
use loadline_core::{state::State, time::Duration};
use serde_json::{Value, json};

use super::{administration::Administration, series, wrong_usage};

/// Where, and by which right.
#[derive(clap::Args)]
struct Place {
    /// The admin interface of a running loadline: an address or the path of its socket
    #[arg(long = "at", value_name = "ADDR", default_value = "127.0.0.1:9090")]
    place: Administration,

    /// The file with the token of the admin interface (admin.token_file)
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,

    /// Print the changes that are in force as JSON
    #[arg(long)]
    json: bool,
}

/// Drain a server or a group: it gets no new requests, those in flight finish
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Drain {
    /// ADDRESS, SERVICE/ADDRESS, SERVICE/GROUP/ADDRESS, or SERVICE/GROUP for a whole group
    target: String,

    /// Cut what is still in flight this long after the drain began, such as 30s: at once if that
    /// was longer ago; a server only
    #[arg(long, value_name = "TIME")]
    deadline: Option<Duration>,

    #[command(flatten)]
    place: Place,
}

/// Take a server out as if it were down, or put a whole service in maintenance: clients get 503
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Maintenance {
    #[command(flatten)]
    server: ServerArgs,
}

/// Put a server or a service back that was drained or in maintenance
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Activate {
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(clap::Args)]
struct ServerArgs {
    /// ADDRESS, SERVICE/ADDRESS or SERVICE/GROUP/ADDRESS; or SERVICE for all of a service
    target: String,

    #[command(flatten)]
    place: Place,
}

/// Change the weight of a server
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Weight {
    /// ADDRESS, SERVICE/ADDRESS or SERVICE/GROUP/ADDRESS
    target: String,

    /// The weight: its share of the traffic of its group; 0 drains it
    #[arg(value_parser = weight_of)]
    weight: u32,

    #[command(flatten)]
    place: Place,
}

/// Change the scaler of a group: the part of its capacity that is used
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Scaler {
    /// SERVICE/GROUP
    target: String,

    /// 0, which drains the group, or from 0.1 to 1, all of its capacity
    #[arg(value_parser = scaler_of)]
    scaler: f64,

    #[command(flatten)]
    place: Place,
}

/// What is changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Service { service: String },
    Group { service: String, group: String },
    Server { service: String, group: String, address: String },
}

/// Runs `loadline drain`.
///
/// # Errors
/// Where the target is not there, or the admin interface cannot be reached or refuses.
pub(crate) fn drain(args: &Drain) -> anyhow::Result<ExitCode> {
    let target = Target::find(&args.target, &args.place.place.state()?)?;
    let body = match (&target, args.deadline) {
        (Target::Service { service }, _) => {
            return Ok(wrong_usage(&format!(
                "`{service}` is a service: use `loadline maintenance`, or drain its groups"
            )));
        }
        (Target::Group { .. }, Some(_)) => {
            return Ok(wrong_usage("`--deadline` is for a server"));
        }
        (Target::Group { .. }, None) => json!({ "scaler": 0.0 }),
        (Target::Server { .. }, None) => json!({ "mode": "drain" }),
        (Target::Server { .. }, Some(deadline)) => {
            json!({ "mode": "drain", "deadline_s": deadline.as_secs_f64() })
        }
    };
    change(&args.place, &target, &body)
}

/// Runs `loadline maintenance`.
///
/// # Errors
/// As [`drain`].
pub(crate) fn maintenance(args: &Maintenance) -> anyhow::Result<ExitCode> {
    let bodies = [json!({ "mode": "maintenance" }), json!({ "maintenance": true })];
    of_server_or_service(&args.server, bodies)
}

/// Runs `loadline activate`.
///
/// # Errors
/// As [`drain`].
pub(crate) fn activate(args: &Activate) -> anyhow::Result<ExitCode> {
    let bodies = [json!({ "mode": "active" }), json!({ "maintenance": false })];
    of_server_or_service(&args.server, bodies)
}

/// Runs `loadline weight`.
///
/// # Errors
/// As [`drain`].
pub(crate) fn weight(args: &Weight) -> anyhow::Result<ExitCode> {
    let target = Target::find(&args.target, &args.place.place.state()?)?;
    if !matches!(target, Target::Server { .. }) {
        return Ok(wrong_usage(&format!(
            "`{}` is no server: name one, or use `loadline scaler` for a group",
            args.target
        )));
    }
    change(&args.place, &target, &json!({ "weight": args.weight }))
}

/// Runs `loadline scaler`.
///
/// # Errors
/// As [`drain`].
pub(crate) fn scaler(args: &Scaler) -> anyhow::Result<ExitCode> {
    let target = Target::find(&args.target, &args.place.place.state()?)?;
    if !matches!(target, Target::Group { .. }) {
        return Ok(wrong_usage("name a group: SERVICE/GROUP"));
    }
    change(&args.place, &target, &json!({ "scaler": args.scaler }))
}

/// A weight that a file may say, too.
fn weight_of(text: &str) -> Result<u32, String> {
    let number = text.parse::<u32>().ok().filter(|weight| *weight <= MOST_WEIGHT);
    number.ok_or_else(|| format!("a whole number from 0 to {MOST_WEIGHT}"))
}

/// The part of a capacity that a file may say, too.
fn scaler_of(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|it| *it == 0.0 || (0.1..=1.0).contains(it));
    number.ok_or_else(|| "0, or a number from 0.1 to 1".to_owned())
}

/// Changes a server by the first of these bodies, a service by the second.
fn of_server_or_service(
    args: &ServerArgs,
    [server, service]: [Value; 2],
) -> anyhow::Result<ExitCode> {
    let administration = &args.place.place;
    let state = administration.state()?;
    let changes: Value = administration.get("/api/changes")?;
    let target = Target::find_or_changed(&args.target, &state, &changes)?;
    match &target {
        Target::Server { .. } => change(&args.place, &target, &server),
        Target::Service { .. } => change(&args.place, &target, &service),
        Target::Group { .. } => Ok(wrong_usage(&format!(
            "`{}` is a group: name a server or a service, or use `loadline scaler`",
            args.target
        ))),
    }
}

fn change(place: &Place, target: &Target, body: &Value) -> anyhow::Result<ExitCode> {
    let token = read_token(&place.token_file)?;
    let changes: Value = place.place.post(&target.path(), &token, &body.to_string())?;
    let text = if place.json {
        serde_json::to_string_pretty(&changes)? + "\n"
    } else {
        format!("{}: {}; until the next reload\n", target.name(), told(body))
    };
    series::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// A change as people read it: `mode = drain, deadline_s = 30`.
fn told(body: &Value) -> String {
    let members = body.as_object().into_iter().flatten();
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), Into::into);
    let each: Vec<String> =
        members.map(|(name, value)| format!("{name} = {}", plain(value))).collect();
    each.join(", ")
}

impl Target {
    /// The one target that `text` names.
    fn find(text: &str, state: &State) -> anyhow::Result<Self> {
        Self::only(text, Self::all(state))
    }

    /// The one target that `text` names, also a server that was changed and has left its list.
    fn find_or_changed(text: &str, state: &State, changes: &Value) -> anyhow::Result<Self> {
        let there: BTreeSet<Self> = Self::all(state).chain(Self::changed(changes)).collect();
        Self::only(text, there.into_iter())
    }

    fn only(text: &str, all: impl Iterator<Item = Self>) -> anyhow::Result<Self> {
        let found: Vec<Self> = all.filter(|target| target.is_named(text)).collect();
        match found.as_slice() {
            [only] => Ok(only.clone()),
            [] => bail!(
                "nothing is called `{text}`: SERVICE, SERVICE/GROUP or SERVICE/GROUP/ADDRESS?"
            ),
            many => {
                let names: Vec<String> = many.iter().map(Self::name).collect();
                bail!("`{text}` is in several groups; say which: {}", names.join(", "))
            }
        }
    }

    fn all(state: &State) -> impl Iterator<Item = Self> {
        let groups = state.services.iter().flat_map(|service| {
            service.groups.iter().map(move |group| (service.name.clone(), group))
        });
        let services = state.services.iter().map(|it| Self::Service { service: it.name.clone() });
        services.chain(groups.flat_map(|(service, group)| {
            let name = group.name.clone();
            let of_group = Self::Group { service: service.clone(), group: name.clone() };
            let servers = group.servers.iter().map(move |server| Self::Server {
                service: service.clone(),
                group: name.clone(),
                address: server.address.clone(),
            });
            std::iter::once(of_group).chain(servers)
        }))
    }

    /// The servers that were changed.
    fn changed(changes: &Value) -> impl Iterator<Item = Self> {
        changes["changes"].as_array().into_iter().flatten().filter_map(|change| {
            let member = |name: &str| change[name].as_str().map(str::to_owned);
            let (service, group) = (member("service")?, member("group")?);
            Some(Self::Server { service, group, address: member("server")? })
        })
    }

    fn is_named(&self, text: &str) -> bool {
        match self {
            Self::Service { .. } | Self::Group { .. } => text == self.name(),
            Self::Server { service, address, .. } => {
                text == address || text == format!("{service}/{address}") || text == self.name()
            }
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Service { service } => service.clone(),
            Self::Group { service, group } => format!("{service}/{group}"),
            Self::Server { service, group, address } => format!("{service}/{group}/{address}"),
        }
    }

    fn path(&self) -> String {
        let part = |name: &String| encoded(name);
        match self {
            Self::Service { service } => format!("/api/services/{}", part(service)),
            Self::Group { service, group } => {
                format!("/api/services/{}/groups/{}", part(service), part(group))
            }
            Self::Server { service, group, address } => {
                let [service, group, address] = [service, group, address].map(part);
                format!("/api/services/{service}/groups/{group}/servers/{address}")
            }
        }
    }
}

/// A part of the path of a URL. A Unix socket may have any name.
fn encoded(name: &str) -> String {
    let mut part = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            part.push(char::from(byte));
        } else {
            let _ = write!(part, "%{byte:02X}");
        }
    }
    part
}

/// What the API takes.
const MOST_WEIGHT: u32 = 1000;

const AFTER_HELP: &str = "\
Examples:
  loadline drain 10.0.0.11:80 --deadline 30s --token-file admin.token
  loadline activate 10.0.0.11:80 --token-file admin.token
  loadline maintenance web/europe-west3/10.0.0.11:80 --token-file admin.token
  loadline maintenance web --token-file admin.token
  loadline weight web/10.0.0.11:80 2 --token-file admin.token
  loadline drain web/us-central1 --token-file admin.token
  loadline scaler web/us-central1 1 --token-file admin.token

A change lasts until the next reload or restart. It is kept while a discovered server is missing
from its list, and `activate` finds such a server, too. Exit codes: 0 done, 1 wrong usage, 2 there
is no such target, the token file has no token, or the admin interface cannot be reached or
refused.";

#[cfg(test)]
mod tests {
    use loadline_core::state::{Group, Server, Service};

    use super::*;

    fn state() -> State {
        let server = |address: &str| Server { address: address.into(), ..Server::default() };
        let group = |name: &str, servers: &[&str]| Group {
            name: name.into(),
            servers: servers.iter().map(|address| server(address)).collect(),
            ..Group::default()
        };
        let service =
            |name: &str, groups| Service { name: name.into(), groups, ..Service::default() };
        let web = [group("eu", &["10.0.0.1:80", "10.0.0.2:80"]), group("us", &["10.1.0.1:80"])];
        let services =
            [service("web", web.into()), service("api", [group("eu", &["10.0.0.1:80"])].into())];
        State { services: services.into(), ..State::default() }
    }

    #[test]
    fn a_server_that_was_drained_and_has_left_its_list_is_found_to_be_activated() {
        let drained = |address: &str| {
            let server = json!({
                "service": "web", "group": "eu", "server": address, "mode": "drain",
            });
            json!({ "changes": [server, { "service": "web", "group": "us", "scaler": 0.5 }] })
        };
        let found = |text: &str, changes: &Value| {
            Target::find_or_changed(text, &state(), changes).map(|target| target.name())
        };
        let gone = drained("10.9.9.9:80");
        assert_eq!(found("10.9.9.9:80", &gone).unwrap(), "web/eu/10.9.9.9:80");
        assert_eq!(found("web/us", &gone).unwrap(), "web/us");
        let there = drained("10.0.0.2:80");
        assert_eq!(found("10.0.0.2:80", &there).unwrap(), "web/eu/10.0.0.2:80", "it is one");
        assert!(found("10.9.9.9:80", &there).is_err());
    }

    #[test]
    fn a_unix_socket_of_any_name_is_a_part_of_a_url() {
        let path = |address: &str| {
            let (service, group) = ("web".to_owned(), "eu".to_owned());
            Target::Server { service, group, address: address.to_owned() }.path()
        };
        assert_eq!(path("10.0.0.1:80"), "/api/services/web/groups/eu/servers/10.0.0.1:80");
        assert_eq!(
            path("unix:/run/a b?#100%.sock"),
            "/api/services/web/groups/eu/servers/unix:%2Frun%2Fa%20b%3F%23100%25.sock"
        );
    }

    #[test]
    fn a_weight_is_a_whole_number_and_says_so() {
        assert_eq!([weight_of("0"), weight_of("1000")], [Ok(0), Ok(1000)]);
        for wrong in ["1001", "-1", "2.5", "abc"] {
            assert_eq!(weight_of(wrong).unwrap_err(), "a whole number from 0 to 1000", "{wrong}");
        }
    }

    #[test]
    fn a_scaler_is_0_or_from_a_tenth_to_1() {
        assert_eq!([scaler_of("0"), scaler_of("0.1"), scaler_of("1")], [Ok(0.0), Ok(0.1), Ok(1.0)]);
        for wrong in ["0.05", "1.5", "-1", "NaN", "half"] {
            assert!(scaler_of(wrong).unwrap_err().contains("from 0.1 to 1"), "{wrong}");
        }
    }

    #[test]
    fn a_server_is_named_by_as_much_as_tells_it_apart() {
        let found = |text: &str| Target::find(text, &state()).map(|target| target.name());
        assert_eq!(found("10.1.0.1:80").unwrap(), "web/us/10.1.0.1:80");
        assert_eq!(found("api/10.0.0.1:80").unwrap(), "api/eu/10.0.0.1:80");
        assert_eq!(found("web/eu/10.0.0.1:80").unwrap(), "web/eu/10.0.0.1:80");
        assert_eq!(found("web/us").unwrap(), "web/us");
        let several = found("10.0.0.1:80").unwrap_err().to_string();
        assert!(several.contains("web/eu/10.0.0.1:80, api/eu/10.0.0.1:80"), "{several}");
        assert_eq!(found("web").unwrap(), "web");
        assert!(found("wep").is_err() && found("10.9.9.9:80").is_err());
    }
}
