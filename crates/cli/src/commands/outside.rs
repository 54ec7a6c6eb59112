//! Reads a configuration and tries what it names outside of itself: for `check`, for the start of
//! `serve` and for its reloads, so that they say the same.

use std::{
    net::SocketAddr,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use loadline_control::{Fault, Loaded, Moment, UserWrite, cluster::Published};
use loadline_core::{
    fleet::{Fleet, HttpVersion, ServerAddress, Service},
    state::Certificate,
};
use loadline_import::Kind;
use loadline_l4::standby::check_key;
use loadline_proxy::{
    listener::bounds::{Bounds, QUIC_PACKETS},
    runtime::engine::threads,
    tls::{Keys, StapleFault, TlsError},
};
use loadline_spanned::FileErrors;
use rustix::process::{Resource, getrlimit};

use super::{
    serve::identity::{Identity, IdentityError},
    size,
};

/// Reads the file at `path`.
///
/// # Errors
/// Everything that is wrong with it or with what it names, in the order of the file.
pub(crate) fn load(path: &Path, moment: Moment) -> Result<Loaded, FileErrors> {
    load_with(path, None, moment)
}

/// As [`load`], with what was published to all edges of a cluster beside it.
///
/// # Errors
/// Everything that is wrong with either, or with what they name.
pub(crate) fn load_with(
    path: &Path,
    published: Option<&Published>,
    moment: Moment,
) -> Result<Loaded, FileErrors> {
    let loaded = loadline_control::load_with(path, published).map_err(name_program)?;
    let mut faults = of_tls(&loaded);
    if moment != Moment::Reload {
        let most = std::fs::read_to_string(RECEIVE_MAX).ok();
        faults.extend(of_quic(&loaded.fleet, most.and_then(|text| text.trim().parse().ok())));
        faults.extend(of_standby(&loaded.fleet));
        faults.extend(of_user(&loaded));
        faults.extend(of_user_writes(&loaded));
        faults.extend(of_shared_servers(&loaded.fleet));
    }
    if moment == Moment::Check {
        // A start says it as well, of a command line, too.
        faults.extend(of_descriptors(&loaded.fleet));
    }
    loaded.tried(moment, faults)
}

/// Says for which program a file is that is not TOML, where its text shows that.
pub(crate) fn name_program(errors: FileErrors) -> FileErrors {
    let is_table = |line: &str| line.starts_with('[') && line.ends_with(']');
    errors.with_syntax_help(|name, text| {
        let is_ours = text.lines().any(|line| is_table(line.trim()));
        let program = Kind::of(name, text).filter(|_| !is_ours)?.name();
        Some(format!("this is a configuration of {program}: loadline import {name}"))
    })
}

fn of_tls(loaded: &Loaded) -> Vec<Fault> {
    match Keys::load_all(&loaded.fleet) {
        Err(wrong) => wrong.iter().map(|error| of_error(error, loaded)).collect(),
        Ok(keys) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let now_s = now.as_secs().cast_signed();
            let certificates = keys.certificates(now_s).into_iter();
            let staples = keys.staple_faults(now_s).map(of_staple);
            let mute = keys.without_suite().map(of_suites);
            certificates.filter_map(|it| of_time(it, now_s)).chain(staples).chain(mute).collect()
        }
    }
}

fn of_error(error: &TlsError, loaded: &Loaded) -> Fault {
    // A name that no key says is that of a server, or of a store.
    let about = match error {
        TlsError::Name { service, name } if !loaded.mentions(name) => format!("service.{service}"),
        other => other.about(),
    };
    Fault { about, message: error.to_string(), help: error.help().to_owned(), is_warning: false }
}

/// A certificate that nobody believes now.
fn of_time(certificate: Certificate, now_s: i64) -> Option<Fault> {
    let days = |seconds: i64| format!("{:.1} days", seconds as f64 / 86_400.0);
    let Certificate { file, not_before_s, not_after_s, .. } = certificate;
    let (when, remedy) = if now_s > not_after_s {
        (format!("has expired, {} ago", days(now_s - not_after_s)), "renew it")
    } else if now_s < not_before_s {
        let left = days(not_before_s - now_s);
        (format!("is not valid yet: it will be in {left}"), "wait, take another")
    } else {
        return None;
    };
    let message = format!("the certificate `{file}` {when}");
    let help = format!("clients refuse it: {remedy}, or set the clock of this machine");
    Some(Fault { about: file, message, help, is_warning: true })
}

/// An OCSP response that is of no use.
fn of_staple((file, fault): (&str, StapleFault)) -> Fault {
    let (what, help) = match fault {
        StapleFault::Foreign => (
            "is for another certificate",
            "clients may refuse the certificate: ask its authority anew whenever it is renewed",
        ),
        StapleFault::Revoked => (
            "says that the certificate is revoked",
            "clients refuse the certificate: have another issued",
        ),
        StapleFault::Unknown => (
            "says that the authority does not know the certificate",
            "clients may refuse the certificate: ask the authority that has issued it",
        ),
        StapleFault::Early => (
            "is not valid yet",
            "clients may refuse the certificate: set the clock of this machine, or ask anew",
        ),
        StapleFault::Expired => {
            ("has expired", "clients get the certificate without it: have it renewed every day")
        }
    };
    let (about, message) = (file.to_owned(), format!("the OCSP response `{file}` {what}"));
    Fault { about, message, help: help.to_owned(), is_warning: true }
}

/// Suites of TLS 1.2 that go with no certificate of the listener at `address`.
fn of_suites(address: SocketAddr) -> Fault {
    Fault {
        about: address.to_string(),
        message: "no client can agree on one of `tls.suites`: of TLS 1.2 and for another kind of \
                  key than the certificates have"
            .to_owned(),
        help: "add a suite of TLS 1.3, or one of TLS 1.2 for the key, ECDSA or RSA".to_owned(),
        is_warning: true,
    }
}

/// Sockets of HTTP/3 for which the kernel keeps fewer packets than is asked for: `most` bytes.
fn of_quic(fleet: &Fleet, most: Option<u64>) -> Option<Fault> {
    let listener = fleet.listeners.iter().find(|listener| listener.serves_http3())?;
    let (most, wanted) = (most?, QUIC_PACKETS.get());
    let message = format!(
        "the kernel keeps {} of packets that wait for HTTP/3, and drops more in a burst",
        size(most as f64)
    );
    let help = format!("sysctl -w net.core.rmem_max={wanted}, or http3 = false");
    let about = listener.bind.to_string();
    (most < wanted).then_some(Fault { about, message, help, is_warning: true })
}

/// Fewer descriptors than the file may need.
pub(crate) fn of_descriptors(fleet: &Fleet) -> Option<Fault> {
    let bounds = Bounds::of(fleet);
    let few = getrlimit(Resource::Nofile).current.filter(|it| *it < bounds.descriptors)?;
    // Of several that are as large the first.
    let largest = fleet.listeners.iter().rev().max_by_key(|it| it.max_connections)?;
    let (message, help) = too_few(few, &bounds);
    Some(Fault { about: largest.bind.to_string(), message, help, is_warning: true })
}

/// What is needed, and what would be right.
fn too_few(few: u64, bounds: &Bounds) -> (String, String) {
    let Bounds { connections, ready, descriptors, .. } = bounds;
    let (of_prewarm, keys) = match ready {
        0 => (String::new(), "max_connections"),
        ready => (format!(" and {ready} of `prewarm`"), "max_connections or prewarm"),
    };
    let message = format!(
        "{few} descriptors may be open, {descriptors} are needed for {connections} clients and as \
         many connections to servers{of_prewarm}"
    );
    (message, format!("{MORE_DESCRIPTORS}, or lower {keys}"))
}

/// Servers of HTTP/2 that take fewer connections than there are workers.
fn of_shared_servers(fleet: &Fleet) -> Vec<Fault> {
    let workers = threads(&fleet.edge);
    fleet.services.iter().filter_map(|service| of_shared_server(service, workers)).collect()
}

fn of_shared_server(service: &Service, workers: usize) -> Option<Fault> {
    let is_shared = service.http_version == HttpVersion::Http2;
    let mut servers = service.groups.iter().flat_map(|group| &group.servers).filter(|_| is_shared);
    let found = servers.find(|server| (server.max_connections as usize) < workers)?;
    let (address, most) = (ServerAddress(found.address), found.max_connections);
    let message = format!(
        "only {most} of {workers} workers can have a connection to {address}: what comes to the \
         others goes elsewhere, or gets 503"
    );
    let help = "each worker has an HTTP/2 connection of its own: raise max_connections to the \
                number of workers, or lower edge.threads"
        .to_owned();
    Some(Fault { about: format!("service.{}", service.name), message, help, is_warning: true })
}

fn of_standby(fleet: &Fleet) -> Option<Fault> {
    let standby = fleet.forwarding.standby.as_ref()?;
    let error = check_key(Path::new(&standby.key_file)).err()?;
    Some(Fault {
        about: standby.key_file.clone(),
        message: super::chain(&error.into()),
        help: "all balancers of one virtual router have the same key".to_owned(),
        is_warning: false,
    })
}

fn of_user(loaded: &Loaded) -> Option<Fault> {
    let error = Identity::of(&loaded.process).err()?;
    let (about, help) = match &error {
        IdentityError::User(name) => (name, "make it: useradd --system NAME"),
        IdentityError::Group(name) => (name, "make it: groupadd --system NAME"),
        IdentityError::NotRoot(name) => (name, "start as root, or leave edge.user out"),
        IdentityError::Unknown { name, .. } => (name, "see whether `getent passwd` answers"),
    };
    // Whoever checks a file need not be who serves with it.
    let is_warning = matches!(error, IdentityError::NotRoot(_));
    let (about, message, help) = (about.clone(), error.to_string(), help.to_owned());
    Some(Fault { about, message, help, is_warning })
}

/// What is written once the process is another user, who may not write there.
fn of_user_writes(loaded: &Loaded) -> Vec<Fault> {
    let Some(user) = &loaded.process.user else { return Vec::new() };
    let Ok(Some(identity)) = Identity::of(&loaded.process) else { return Vec::new() };
    let kept_out = loaded.user_writes().filter(|it| identity.is_kept_out_of(it.directory));
    let fault = |UserWrite { path, what, directory }: UserWrite<'_>| Fault {
        about: path.to_owned(),
        message: format!("`{user}` may not write {what} to `{}`", directory.display()),
        help: format!("name a directory of that user; one is made by: install -d -o {user} PATH"),
        // The mode of a directory is not all that decides.
        is_warning: true,
    };
    kept_out.map(fault).collect()
}

/// What helps where too few descriptors may be open.
pub(crate) const MORE_DESCRIPTORS: &str = "raise LimitNOFILE (ulimit -Hn)";

/// The most bytes of packets that the kernel keeps for a socket that asks for them.
const RECEIVE_MAX: &str = "/proc/sys/net/core/rmem_max";

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use loadline_core::{
        fleet::{Edge, Group, Listener, Protocol, Server},
        units::Bytes,
    };

    use super::*;

    #[test]
    fn a_kernel_that_keeps_few_packets_is_told_of_where_http3_is_served() {
        let address = (Ipv4Addr::LOCALHOST, 443).into();
        let https = Listener { protocol: Protocol::Https, ..Listener::new(address, 0) };
        let with = |listener| Fleet::of(Edge::within("here"), vec![listener], vec![]);
        let told = of_quic(&with(https.clone()), Some(212_992)).unwrap();
        assert_eq!(told.about, "127.0.0.1:443");
        assert!(told.is_warning && told.message.contains("213.0 kB"), "{told:?}");
        assert!(of_quic(&with(https.clone()), Some(4 << 20)).is_none());
        assert!(of_quic(&with(https.clone()), None).is_none());
        let off = Listener { http3: false, ..https };
        assert!(of_quic(&with(off), Some(212_992)).is_none());
    }

    #[test]
    fn descriptors_of_prewarm_are_said_to_be_needed() {
        let (idle, request) = (Bytes::new(0), Bytes::new(0));
        let bounds = Bounds { connections: 10_000, idle, request, ready: 0, descriptors: 20_000 };
        let (message, help) = too_few(256, &bounds);
        assert!(message.starts_with("256 descriptors may be open, 20000 are needed"), "{message}");
        assert!(message.contains(" for 10000 clients and as many connections to servers"));
        assert!(help.ends_with(" or lower max_connections"), "{help}");
        let (message, help) = too_few(256, &Bounds { ready: 400, descriptors: 20_400, ..bounds });
        assert!(message.ends_with(" to servers and 400 of `prewarm`"), "{message}");
        assert!(help.ends_with(" or lower max_connections or prewarm"), "{help}");
    }

    #[test]
    fn a_server_of_http_2_with_fewer_connections_than_workers_is_told_of() {
        let at = (Ipv4Addr::LOCALHOST, 80).into();
        let server = Server { max_connections: 3, ..Server::at(at) };
        let mut service = Service::named("web");
        service.groups = vec![Group::within("here", vec![server])];
        assert!(of_shared_server(&service, 4).is_none(), "HTTP/1 shares what is kept");
        service.http_version = HttpVersion::Http2;
        assert!(of_shared_server(&service, 3).is_none());
        let told = of_shared_server(&service, 4).unwrap();
        assert!(told.is_warning && told.about == "service.web", "{told:?}");
        assert!(
            told.message.contains("only 3 of 4 workers can have a connection to 127.0.0.1:80: ")
        );
    }
}
