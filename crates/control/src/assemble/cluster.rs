//! The cluster: its store, and the name of this edge in it.

use loadline_core::{cluster::WhenAway, time::Duration, units::Ratio};
use loadline_spanned::{At, Key, Problems, Span};

use super::{set, tls};
use crate::{
    cluster::{Endpoint, Settings},
    file,
    value::{address::Place, etcd::EtcdUrl},
};

/// What the file says of it; none where it says nothing that can be used.
pub(crate) fn cluster(given: &Key<file::Cluster>, problems: &mut Problems) -> Option<Settings> {
    let At { value, span } = given.at()?;
    let endpoints: Vec<Endpoint> =
        value.etcd.get().into_iter().flatten().map(|it| endpoint(&it.value.0)).collect();
    if endpoints.is_empty() {
        if value.etcd.at().is_some_and(|list| problems.is_damaged(&list.span)) {
            return None;
        }
        let message = "a cluster without `etcd`".to_owned();
        let help = "say where it is: etcd = [\"https://10.0.0.1:2379\"]".to_owned();
        problems.absent(span, span, message, help);
        return None;
    }
    let is_secure = endpoints.iter().any(|it| it.is_secure);
    let of_tls = [
        ("ca", value.ca.at().map(|at| &at.span)),
        ("certificate", value.certificate.at().map(|at| &at.span)),
    ];
    for (key, span) in of_tls.into_iter().filter_map(|(key, span)| Some((key, span?))) {
        if !is_secure {
            let message = format!("`{key}` of an etcd that is reached in clear");
            let help = "write https:// in `etcd`, or leave it out".to_owned();
            problems.error(span, message, "never used", help);
        }
    }
    let user = user(value, problems);
    if let (Some(_), Some(at)) = (
        &user,
        value.etcd.at().filter(|_| endpoints.iter().any(|it| !it.is_secure && !it.is_loopback())),
    ) {
        let message = "the password goes over the network in clear".to_owned();
        let help = "write https:// in `etcd`".to_owned();
        problems.warning(&at.span, message, "no TLS", help);
    }
    let certificate = value.certificate.at();
    let certificate = certificate.map(|at| tls::client_certificate(&at.value, &at.span, problems));
    let mut settings = Settings {
        endpoints,
        authorities: value.ca.get().map(|path| path.0.0.clone().into()),
        certificate: certificate.map(|it| (it.chain.into(), it.key.into())),
        user,
        prefix: "/loadline/".to_owned(),
        id: value.id.get().map(|name| name.0.0.clone()),
        name: value.name.get().map_or_else(machine, |name| name.0.0.clone()),
        lease: Duration::from_secs(10),
        election_timeout: Duration::from_secs(1),
        floor: Ratio::ppm(10_000),
        max_edges: 10,
        when_away: WhenAway::Floor,
        share_health: false,
        state_dir: "/var/lib/loadline".into(),
    };
    set(&value.prefix, |it| &it.0.0, &mut settings.prefix);
    set(&value.lease, |it| &it.0.0, &mut settings.lease);
    set(&value.election_timeout, |it| &it.0.0, &mut settings.election_timeout);
    set(&value.floor, |it| &it.0.0, &mut settings.floor);
    set(&value.max_edges, |it| &it.0, &mut settings.max_edges);
    set(&value.when_away, |it| &it.0.0, &mut settings.when_away);
    set(&value.share_health, |on| on, &mut settings.share_health);
    sharing(value, &settings, span, problems);
    if let Some(path) = value.state_dir.get() {
        settings.state_dir = path.0.0.clone().into();
    }
    Some(settings)
}

/// What does not go together of how capacity is shared.
fn sharing(value: &file::Cluster, settings: &Settings, table: &Span, problems: &mut Problems) {
    let floors = u64::from(settings.floor.as_ppm()) * u64::from(settings.max_edges);
    if floors > u64::from(Ratio::ONE.as_ppm()) {
        let (floor, edges) = (settings.floor, settings.max_edges);
        let at = value.floor.at().map(|at| &at.span);
        let at = at.or(value.max_edges.at().map(|at| &at.span)).unwrap_or(table);
        let message =
            format!("a `floor` of {floor} for each of {edges} edges is more than there is");
        let most = Ratio::ppm(Ratio::ONE.as_ppm() / settings.max_edges);
        let help = format!("{most} at most, or fewer `max_edges`");
        problems.error(at, message, "too much", help);
    }
    let (lease, election) = (settings.lease, settings.election_timeout);
    let seconds = lease.as_nanos() / Duration::from_secs(1).as_nanos();
    if Duration::from_secs(seconds) != lease {
        let at = value.lease.at().map_or(table, |at| &at.span);
        let message = format!("a `lease` of {lease}: etcd counts whole seconds");
        problems.error(at, message, "not whole", format!("{seconds}s, or {}s", seconds + 1));
    }
    if lease < election + election {
        let at = value.election_timeout.at().map(|at| &at.span);
        let at = at.or(value.lease.at().map(|at| &at.span)).unwrap_or(table);
        let message = format!("a `lease` of {lease} with an `election_timeout` of {election}");
        let help = format!("a `lease` of {} at least", election + election);
        problems.error(at, message, "too long for it", help);
    }
}

fn endpoint(url: &EtcdUrl) -> Endpoint {
    let (host, port) = match &url.place {
        Place::Address(address) => (address.ip().to_string(), address.port()),
        Place::Name(name, port) => (name.clone(), *port),
    };
    Endpoint { is_secure: url.is_secure, host, port }
}

/// The user and the file of the password, of which neither is anything without the other.
fn user(value: &file::Cluster, problems: &mut Problems) -> Option<(String, std::path::PathBuf)> {
    match (value.user.at(), value.password_file.at()) {
        (Some(user), Some(file)) => Some((user.value.0.0.clone(), (&file.value.0.0).into())),
        (Some(user), None) => {
            let message = "`user` without `password_file`".to_owned();
            let help = "name the file whose first line is the password: password_file = \
                        \"/etc/loadline/etcd.password\"";
            problems.error(&user.span, message, "no password", help.to_owned());
            None
        }
        (None, Some(file)) => {
            let message = "`password_file` without `user`".to_owned();
            let help = "say whose it is: user = \"loadline\"".to_owned();
            problems.error(&file.span, message, "never used", help);
            None
        }
        (None, None) => None,
    }
}

/// The name of this machine.
fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
