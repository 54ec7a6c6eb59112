//! One question to the name servers, with whatever it takes to answer it.
//!
//! That there are no such records (NXDOMAIN, or an answer without any) is an answer: an empty list.
//! Everything else that brings no records is a failure. A host of an SRV record that has no address
//! is left out; one that cannot be asked for fails the whole list, which would be too short.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use hickory_resolver::{
    Resolver, TokioResolver,
    config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts},
    lookup::Lookup,
    net::{DnsError, NetError, runtime::TokioRuntimeProvider},
    proto::rr::{Name, RData, RecordType},
    system_conf::read_system_conf,
};
use loadline_core::{
    decide::discovery::Listed,
    fleet::{Family, ListPlace},
    time::Duration,
};
use tokio::time::timeout;

use super::{Answer, NameServers};

/// Whoever can be asked, or why nobody can. Cheap to copy.
#[derive(Clone)]
pub(super) struct Asking(Result<TokioResolver, Arc<str>>);

/// What an answer holds, and how long it counts.
struct Found<T> {
    what: Vec<T>,
    ttl: Option<Duration>,
}

impl Asking {
    /// The name servers of the file, else those of the machine as they are now.
    pub(super) fn of(names: &NameServers) -> Self {
        Self(resolver(names).map_err(|error| error.to_string().into()))
    }

    /// The servers at `place`.
    pub(super) async fn ask(&self, place: &ListPlace) -> Answer {
        let resolver = match &self.0 {
            Ok(resolver) => resolver,
            Err(error) => return Answer::failed(&**error),
        };
        let listed = async {
            match place {
                ListPlace::File(_) => Err("a file is read, not asked for".into()),
                ListPlace::Addresses { name, port, family } => {
                    let name = Name::from_utf8(name).map_err(NetError::from);
                    addresses(resolver, &name.map_err(|error| error.to_string())?, *family, *port)
                        .await
                }
                ListPlace::Services { name, family } => services(resolver, name, *family).await,
            }
        };
        let found = timeout(LONGEST.to_std(), listed).await;
        match found.unwrap_or_else(|_| Err(format!("no answer within {LONGEST}"))) {
            Ok(Found { what, ttl }) => Answer { servers: Ok(what), ttl },
            Err(why) => Answer::failed(why),
        }
    }
}

fn resolver(names: &NameServers) -> Result<TokioResolver, NetError> {
    let (config, mut options) = if names.servers.is_empty() {
        read_system_conf()?
    } else {
        let servers = names.servers.iter().map(name_server).collect();
        (ResolverConfig::from_name_servers(servers), ResolverOpts::default())
    };
    options.timeout = names.timeout.to_std();
    options.attempts = names.attempts as usize;
    // Answers are kept by whoever asks, and the TTL of an alias counts too.
    options.cache_size = 0;
    options.preserve_intermediates = true;
    options.use_hosts_file = ResolveHosts::Never;
    let builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
    builder.with_options(options).build()
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let mut config = NameServerConfig::udp_and_tcp(address.ip());
    config.connections.iter_mut().for_each(|way| way.port = address.port());
    config
}

async fn addresses(
    resolver: &TokioResolver,
    name: &Name,
    family: Family,
    port: u16,
) -> Result<Found<Listed>, String> {
    let mut found = match family {
        Family::PreferV4 | Family::V4 | Family::All => {
            records(resolver, name, RecordType::A).await?
        }
        Family::V6 => records(resolver, name, RecordType::AAAA).await?,
    };
    if family == Family::All || family == Family::PreferV4 && found.what.is_empty() {
        found.join(records(resolver, name, RecordType::AAAA).await?);
    }
    let ip = |record: RData| match record {
        RData::A(ip) => Some(IpAddr::V4(ip.0)),
        RData::AAAA(ip) => Some(IpAddr::V6(ip.0)),
        _ => None,
    };
    let servers = found.what.into_iter().filter_map(ip);
    let what = servers.map(|ip| Listed::at((ip, port).into())).collect();
    Ok(Found { what, ttl: found.ttl })
}

async fn services(
    resolver: &TokioResolver,
    name: &str,
    family: Family,
) -> Result<Found<Listed>, String> {
    let name = Name::from_utf8(name).map_err(|error| error.to_string())?;
    let Found { what, ttl } = records(resolver, &name, RecordType::SRV).await?;
    let mut found = Found { what: Vec::new(), ttl };
    for record in what {
        let RData::SRV(service) = record else { continue };
        // A service that is "decidedly not available" has the root as its host (RFC 2782).
        if service.target.is_root() {
            continue;
        }
        let hosts = addresses(resolver, &service.target, family, service.port).await;
        let hosts = hosts.map_err(|why| format!("{}: {why}", service.target))?;
        let (priority, weight) = (service.priority, service.weight);
        let what = hosts.what.iter().map(|it| (it.address, priority, weight)).collect();
        found.join(Found { what, ttl: hosts.ttl });
    }
    Ok(Found { what: Listed::of_services(&found.what), ttl: found.ttl })
}

/// The records of a kind, of which there may be none.
async fn records(
    resolver: &TokioResolver,
    name: &Name,
    kind: RecordType,
) -> Result<Found<RData>, String> {
    match resolver.lookup(name.clone(), kind).await {
        Ok(lookup) => Ok(Found { ttl: ttl(&lookup), what: data(&lookup) }),
        Err(NetError::Dns(DnsError::NoRecordsFound(none))) => {
            let seconds = none.negative_ttl.map(u64::from);
            Ok(Found { what: Vec::new(), ttl: seconds.map(Duration::from_secs) })
        }
        Err(error) => Err(error.to_string()),
    }
}

fn data(lookup: &Lookup) -> Vec<RData> {
    lookup.answers().iter().map(|record| record.data.clone()).collect()
}

/// The least of all records, aliases included.
fn ttl(lookup: &Lookup) -> Option<Duration> {
    let seconds = lookup.answers().iter().map(|record| record.ttl).min();
    seconds.map(u64::from).map(Duration::from_secs)
}

impl<T> Found<T> {
    /// Takes what another question found in; the whole counts as long as its shortest part.
    fn join(&mut self, other: Self) {
        self.what.extend(other.what);
        self.ttl = self.ttl.into_iter().chain(other.ttl).min();
    }
}

/// Whatever servers and attempts there are: long enough for all of them, short against any outage.
const LONGEST: Duration = Duration::from_secs(30);
