//! One question to the name servers, with whatever it takes to answer it.
//!
//! That there are no such records (NXDOMAIN, or an answer without any) is an answer: an empty list.
//! Everything else that brings no records is a failure. A host of an SRV record that has no address
//! is left out; one that cannot be asked for fails the whole list, which would be too short.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter::successors,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::Arc,
};

use hickory_resolver::{
    Resolver, TokioResolver,
    config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts},
    lookup::Lookup,
    net::{DnsError, NetError, runtime::TokioRuntimeProvider},
    proto::rr::{Name, RData, Record, RecordType, rdata::SRV},
    system_conf::read_system_conf,
};
use loadline_core::{
    decide::discovery::Listed,
    fleet::{Family, ListPlace},
    time::Duration,
};
use tokio::{sync::Semaphore, task::JoinSet, time::timeout};

use super::{Answer, NameServers, list};

/// Whoever can be asked, or why nobody can. Cheap to copy.
#[derive(Clone)]
pub(super) struct Asking(Result<Resolvers, Arc<str>>);

/// The name servers: all together, of whom the first response counts, and each of them alone where
/// there are several.
#[derive(Clone)]
struct Resolvers {
    all: TokioResolver,
    each: Arc<[TokioResolver]>,
    addresses: Arc<[SocketAddr]>,
}

/// The records of an answer, and how long they count.
struct Found<T> {
    what: Vec<T>,
    ttl: Option<Duration>,
}

impl Asking {
    /// The name servers of the file, else those of the machine as they are now.
    pub(super) fn of(names: &NameServers) -> Self {
        Self(Resolvers::of(names).map_err(|error| error.to_string().into()))
    }

    /// The servers at `place`.
    pub(super) async fn ask(&self, place: &ListPlace) -> Answer {
        let resolvers = match &self.0 {
            Ok(resolvers) => resolvers,
            Err(error) => return Answer::failed(&**error),
        };
        let listed = async {
            match place {
                ListPlace::File(_) => Err("a file is read, not asked for".into()),
                ListPlace::Addresses { name, port, family } => {
                    addresses(resolvers, name, *family, *port).await
                }
                ListPlace::Services { name, family } => services(resolvers, name, *family).await,
            }
        };
        match timeout(LONGEST.to_std(), listed).await {
            Ok(Ok(Found { what, ttl })) => Answer { servers: Ok(what), ttl },
            Ok(Err(why)) => Answer::failed(why),
            Err(_) => self.late(LONGEST),
        }
    }

    /// That there is no answer after so long, and who was asked.
    pub(super) fn late(&self, limit: Duration) -> Answer {
        match &self.0 {
            Ok(resolvers) => {
                let asked = resolvers.listed(SocketAddr::to_string);
                Answer::failed(format!("no answer within {limit}: {asked}"))
            }
            Err(error) => Answer::failed(&**error),
        }
    }
}

impl Resolvers {
    fn of(names: &NameServers) -> Result<Self, NetError> {
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
        let built = |config| {
            let builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
            builder.with_options(options.clone()).build()
        };
        let alone = |server: &NameServerConfig| {
            let (domain, search) = (config.domain.clone(), config.search.clone());
            built(ResolverConfig::from_parts(domain, search, vec![server.clone()]))
        };
        let several = Some(&config.name_servers).filter(|them| them.len() > 1);
        let each = several.into_iter().flatten().map(alone).collect::<Result<_, _>>()?;
        let addresses = config.name_servers.iter().map(address).collect();
        Ok(Self { all: built(config)?, each, addresses })
    }

    /// The records of a kind, of which there may be none.
    async fn records(&self, name: &Name, kind: RecordType) -> Result<Found<RData>, String> {
        self.look_up(name, kind).await.map_err(|error| self.told(&error))
    }

    /// The SRV records of a name or of what it is an alias of (RFC 1034, 3.6.2), with the least TTL
    /// of all. The resolver goes on from an alias with the host of the record, and finds nothing.
    async fn service_records(&self, name: &Name) -> Result<Found<RData>, String> {
        let (mut name, mut ttl, mut passed) = (name.clone(), None, BTreeSet::new());
        loop {
            let answer = self.look_up(&name, RecordType::SRV).await;
            let may_be_alias = match &answer {
                Ok(found) => found.what.is_empty(),
                Err(error) => matches!(error, NetError::Dns(DnsError::ResponseCode(_))),
            };
            let alias = if may_be_alias { self.target(&name).await } else { Ok(None) };
            match (answer, alias) {
                (_, Ok(Some((target, of_alias)))) => {
                    ttl = ttl.into_iter().chain(of_alias).min();
                    passed.insert(name);
                    name = target;
                }
                (Ok(found), Ok(None)) => {
                    return Ok(Found { ttl: ttl.into_iter().chain(found.ttl).min(), ..found });
                }
                (Err(error), _) | (Ok(_), Err(error)) => return Err(self.told(&error)),
            }
            if passed.contains(&name) {
                return Err(format!("the alias {name} leads back to itself"));
            }
            if passed.len() > NAMES_MAX {
                return Err(format!("more than {NAMES_MAX} aliases up to {name}"));
            }
        }
    }

    /// The name that this one is an alias of, if it is, and how long that counts.
    async fn target(&self, name: &Name) -> Result<Option<(Name, Option<Duration>)>, NetError> {
        let Found { what, ttl } = self.look_up(name, RecordType::CNAME).await?;
        let target = what.into_iter().find_map(|record| match record {
            RData::CNAME(target) => Some(target.0),
            _ => None,
        });
        Ok(target.map(|target| (target, ttl)))
    }

    async fn look_up(&self, name: &Name, kind: RecordType) -> Result<Found<RData>, NetError> {
        let first = found(self.all.lookup(name.clone(), kind).await);
        if first.is_ok() {
            return first;
        }
        // One that cannot answer may have been the first to say so, in words or by nonsense: what
        // the others say counts.
        let mut asked = JoinSet::new();
        for one in self.each.iter() {
            let (one, name) = (one.clone(), name.clone());
            asked.spawn(async move { found(one.lookup(name, kind).await) });
        }
        while let Some(answer) = asked.join_next().await {
            if let Ok(Ok(found)) = answer {
                return Ok(found);
            }
        }
        first
    }

    /// Why there is no answer: the same words for the same trouble, which the log tells once. What
    /// cannot be read of an answer may be another part every time.
    fn told(&self, error: &NetError) -> String {
        match error {
            NetError::Proto(_) => "what a name server sent cannot be read".to_owned(),
            NetError::NoConnections => {
                format!("no name server can be reached: {}", self.listed(told_with_cause))
            }
            NetError::Timeout => {
                format!("request timed out: {}", self.listed(SocketAddr::to_string))
            }
            error => error.to_string(),
        }
    }

    /// All name servers as `tell` has them.
    fn listed(&self, tell: impl FnMut(&SocketAddr) -> String) -> String {
        self.addresses.iter().map(tell).collect::<Vec<_>>().join(", ")
    }

    /// The addresses of a host.
    async fn hosts(&self, name: &Name, family: Family) -> Result<Found<IpAddr>, String> {
        let mut found = match family {
            Family::PreferV4 | Family::V4 | Family::All => {
                self.records(name, RecordType::A).await?
            }
            Family::V6 => self.records(name, RecordType::AAAA).await?,
        };
        if family == Family::All || family == Family::PreferV4 && found.what.is_empty() {
            found.join(self.records(name, RecordType::AAAA).await?);
        }
        let ip = |record: RData| match record {
            RData::A(ip) => Some(IpAddr::V4(ip.0)),
            RData::AAAA(ip) => Some(IpAddr::V6(ip.0)),
            _ => None,
        };
        let what = found.what.into_iter().filter_map(ip).collect();
        Ok(Found { what, ttl: found.ttl })
    }

    /// The addresses of several hosts, of some of them at a time.
    async fn all_hosts(
        &self,
        names: BTreeSet<Name>,
        family: Family,
    ) -> Result<BTreeMap<Name, Found<IpAddr>>, String> {
        let places = Arc::new(Semaphore::new(HOSTS_AT_ONCE));
        let mut asked = JoinSet::new();
        for name in names {
            let (resolvers, places) = (self.clone(), places.clone());
            asked.spawn(async move {
                let _place = places.acquire().await;
                match resolvers.hosts(&name, family).await {
                    Ok(hosts) => Ok((name, hosts)),
                    Err(why) => Err(format!("{name}: {why}")),
                }
            });
        }
        let mut all = BTreeMap::new();
        while let Some(answer) = asked.join_next().await {
            let (name, hosts) = answer.map_err(|error| error.to_string())??;
            all.insert(name, hosts);
        }
        Ok(all)
    }
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let mut config = NameServerConfig::udp_and_tcp(address.ip());
    config.connections.iter_mut().for_each(|way| way.port = address.port());
    config
}

/// Where it is asked first.
fn address(server: &NameServerConfig) -> SocketAddr {
    let port = server.connections.first().map_or(DNS_PORT, |way| way.port);
    SocketAddr::new(server.ip, port)
}

/// Its address and, where the system refuses to send there, why: the resolver does not say. This
/// sends nothing.
fn told_with_cause(address: &SocketAddr) -> String {
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    match UdpSocket::bind(any).and_then(|socket| socket.connect(address)) {
        Ok(()) => address.to_string(),
        Err(error) => format!("{address} ({error})"),
    }
}

async fn addresses(
    resolvers: &Resolvers,
    name: &str,
    family: Family,
    port: u16,
) -> Result<Found<Listed>, String> {
    let name = Name::from_utf8(name).map_err(|error| error.to_string())?;
    let Found { what, ttl } = resolvers.hosts(&name, family).await?;
    let listed = |ip| list::of_server((ip, port).into()).map(Listed::at);
    let what = what.into_iter().map(listed).collect::<Result<_, _>>()?;
    Ok(Found { what, ttl })
}

async fn services(
    resolvers: &Resolvers,
    name: &str,
    family: Family,
) -> Result<Found<Listed>, String> {
    let name = Name::from_utf8(name).map_err(|error| error.to_string())?;
    let Found { what, mut ttl } = resolvers.service_records(&name).await?;
    let services = what.into_iter().filter_map(|record| match record {
        // A service that is "decidedly not available" has the root as its host (RFC 2782).
        RData::SRV(service) if !service.target.is_root() => Some(service),
        _ => None,
    });
    let services: Vec<SRV> = services.collect();
    let targets = services.iter().map(|service| service.target.clone()).collect();
    let hosts = resolvers.all_hosts(targets, family).await?;
    ttl = ttl.into_iter().chain(hosts.values().filter_map(|it| it.ttl)).min();
    let mut records = Vec::new();
    for service in services {
        for ip in hosts.get(&service.target).into_iter().flat_map(|it| &it.what) {
            let address = list::of_server((*ip, service.port).into())?;
            records.push((address, service.priority, service.weight));
        }
        list::ensure_fits(records.len())?;
    }
    Ok(Found { what: Listed::of_services(&records), ttl })
}

fn found(answer: Result<Lookup, NetError>) -> Result<Found<RData>, NetError> {
    match answer {
        Ok(lookup) => {
            let records = of_name(&lookup);
            let what = records.iter().map(|record| record.data.clone()).collect();
            Ok(Found { what, ttl: ttl(&records) })
        }
        Err(NetError::Dns(DnsError::NoRecordsFound(none))) => {
            let seconds = none.negative_ttl.map(u64::from);
            Ok(Found { what: Vec::new(), ttl: seconds.map(Duration::from_secs) })
        }
        Err(error) => Err(error),
    }
}

/// The aliases, and the records of the name that was asked for and of those that it is an alias of:
/// whoever answers may add others. Where aliases are asked for, those on the way from the name.
fn of_name(lookup: &Lookup) -> Vec<&Record> {
    let records = lookup.answers();
    let target = |name: &Name| {
        records.iter().find_map(|record| match &record.data {
            RData::CNAME(target) if record.name == *name => Some(&target.0),
            _ => None,
        })
    };
    let chain = successors(Some(lookup.query().name()), |name| target(name));
    let names: Vec<&Name> = chain.take(NAMES_MAX).collect();
    let asks_alias = lookup.query().query_type() == RecordType::CNAME;
    let is_alias = |record: &Record| !asks_alias && matches!(record.data, RData::CNAME(_));
    let counts = |record: &&Record| is_alias(record) || names.contains(&&record.name);
    records.iter().filter(counts).collect()
}

/// The least of all records, aliases included.
fn ttl(records: &[&Record]) -> Option<Duration> {
    let seconds = records.iter().map(|record| record.ttl).min();
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

/// The port of name servers.
const DNS_PORT: u16 = 53;

/// More names than anybody has in a chain of aliases, which may be a ring.
const NAMES_MAX: usize = 16;

/// Hundreds of questions at a time look like an attack, one after another take too long.
const HOSTS_AT_ONCE: usize = 16;

#[cfg(test)]
mod tests {
    use std::time::Duration as StdDuration;

    use hickory_resolver::proto::{
        op::{Message, ResponseCode},
        rr::rdata::{A, CNAME},
    };
    use tokio::net::UdpSocket;

    use super::*;

    /// A name server that takes `pause` for an answer, which `answer` makes.
    async fn name_server(
        pause: StdDuration,
        answer: impl Fn(&mut Message) + Send + Sync + 'static,
    ) -> SocketAddr {
        let bytes = move |asked: &[u8]| {
            let mut message = Message::from_vec(asked).unwrap().into_response();
            answer(&mut message);
            message.to_vec().unwrap()
        };
        name_server_of_bytes(pause, bytes).await
    }

    /// The same, whose answers need not be any.
    async fn name_server_of_bytes(
        pause: StdDuration,
        answer: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static,
    ) -> SocketAddr {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let (address, answer) = (socket.local_addr().unwrap(), Arc::new(answer));
        tokio::spawn(async move {
            let mut asked = [0; 4096];
            loop {
                let (length, from) = socket.recv_from(&mut asked).await.unwrap();
                let (socket, answer, asked) =
                    (socket.clone(), answer.clone(), asked[..length].to_vec());
                tokio::spawn(async move {
                    tokio::time::sleep(pause).await;
                    socket.send_to(&answer(&asked), from).await.unwrap();
                });
            }
        });
        address
    }

    /// Every name has the same address, and a service is at as many hosts as 512 bytes can tell.
    fn knows_all(message: &mut Message) {
        let query = message.queries[0].clone();
        let mut answer = |data| {
            message.answers.push(Record::from_rdata(query.name().clone(), 60, data));
        };
        match query.query_type() {
            RecordType::A => answer(RData::A(A::new(10, 0, 0, 1))),
            RecordType::SRV => {
                for host in 0..HOSTS {
                    let target = Name::from_ascii(format!("h{host}.test.")).unwrap();
                    answer(RData::SRV(SRV::new(0, 1, 80, target)));
                }
            }
            _ => {}
        }
    }

    fn asking(servers: &[SocketAddr]) -> Asking {
        Asking::of(&NameServers { servers: servers.to_vec(), ..NameServers::default() })
    }

    fn web() -> ListPlace {
        ListPlace::Addresses { name: "web.test.".to_owned(), port: 80, family: Family::V4 }
    }

    #[tokio::test]
    async fn a_name_server_that_refuses_spoils_no_answer_of_another() {
        for code in [ResponseCode::ServFail, ResponseCode::Refused] {
            let refuses = move |message: &mut Message| message.metadata.response_code = code;
            let broken = name_server(StdDuration::ZERO, refuses).await;
            let good = name_server(StdDuration::from_millis(50), knows_all).await;
            for _ in 0..3 {
                let answer = asking(&[broken, good]).ask(&web()).await;
                assert_eq!(answer.servers.unwrap().len(), 1, "{code}");
            }
            let answer = asking(&[broken, broken]).ask(&web()).await;
            assert!(answer.servers.is_err(), "{code}");
        }
    }

    #[tokio::test]
    async fn a_name_server_that_sends_nonsense_spoils_no_answer_and_is_told_of_in_the_same_words() {
        // A header, and no question where one is announced or one that begins as no name does.
        let nonsense = |asked: &[u8]| {
            let head: [u8; 10] = [0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            let rest: &[u8] = if asked[12] == 3 { &[] } else { &[0x80, 0] };
            [&asked[..2], &head, rest].concat()
        };
        let broken = name_server_of_bytes(StdDuration::ZERO, nonsense).await;
        let good = name_server(StdDuration::from_millis(50), knows_all).await;
        for _ in 0..3 {
            let answer = asking(&[broken, good]).ask(&web()).await;
            assert_eq!(answer.servers.unwrap().len(), 1);
        }
        let other = "other.test.".to_owned();
        let other = ListPlace::Addresses { name: other, port: 80, family: Family::V4 };
        for place in [web(), other] {
            let answer = asking(&[broken]).ask(&place).await;
            assert_eq!(answer.servers.unwrap_err(), "what a name server sent cannot be read");
        }
    }

    /// The system lets nobody broadcast who has not asked for it.
    #[tokio::test]
    async fn name_servers_that_cannot_be_reached_are_told_with_the_cause() {
        let servers = ["255.255.255.255:53", "255.255.255.255:54"].map(|it| it.parse().unwrap());
        let trouble = asking(&servers).ask(&web()).await.servers.unwrap_err();
        let start = "no name server can be reached: 255.255.255.255:53 (";
        assert!(trouble.starts_with(start), "{trouble}");
        assert!(trouble.contains("), 255.255.255.255:54 ("), "{trouble}");
    }

    #[tokio::test]
    async fn a_name_server_that_is_silent_is_told_by_its_address() {
        let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = silent.local_addr().unwrap();
        let names = NameServers {
            servers: vec![address],
            timeout: Duration::from_millis(50),
            ..NameServers::default()
        };
        let trouble = Asking::of(&names).ask(&web()).await.servers.unwrap_err();
        assert_eq!(trouble, format!("request timed out: {address}"));
    }

    #[tokio::test]
    async fn an_address_of_another_name_is_no_server_and_one_behind_aliases_is() {
        let name = |text: &str| Name::from_ascii(text).unwrap();
        let address = |of, last| Record::from_rdata(name(of), 60, RData::A(A::new(10, 0, 0, last)));
        let alias = |of, to| Record::from_rdata(name(of), 60, RData::CNAME(CNAME(name(to))));
        for (records, found) in [
            (vec![address("evil.test.", 66), address("WEB.test.", 1)], &["10.0.0.1:80"]),
            (
                vec![
                    alias("web.test.", "a.test."),
                    alias("a.test.", "b.test."),
                    address("b.test.", 2),
                    address("evil.test.", 66),
                ],
                &["10.0.0.2:80"],
            ),
        ] {
            let server = name_server(StdDuration::ZERO, move |message| {
                message.answers.extend(records.iter().cloned());
            });
            let listed = asking(&[server.await]).ask(&web()).await.servers.unwrap();
            let listed: Vec<String> = listed.iter().map(|it| it.address.to_string()).collect();
            assert_eq!(listed, found);
        }
    }

    /// Answers from these records; of an alias all that it leads to, if `follows`.
    fn zone(records: Vec<Record>, follows: bool) -> impl Fn(&mut Message) + Send + Sync + 'static {
        move |message: &mut Message| {
            let (kind, mut name) =
                (message.queries[0].query_type(), message.queries[0].name().clone());
            loop {
                let here: Vec<&Record> = records.iter().filter(|it| it.name == name).collect();
                let asked = here.iter().copied().filter(|it| it.record_type() == kind);
                message.answers.extend(asked.cloned());
                let alias = here.into_iter().find_map(|it| match &it.data {
                    RData::CNAME(target) => Some((it, target.0.clone())),
                    _ => None,
                });
                let goes_on = kind != RecordType::CNAME && message.answers.len() < NAMES_MAX;
                let Some((record, target)) = alias.filter(|_| goes_on) else { return };
                message.answers.push(record.clone());
                name = target;
                if !follows {
                    return;
                }
            }
        }
    }

    fn alias(of: &str, ttl: u32, to: &str) -> Record {
        let name = |text| Name::from_ascii(text).unwrap();
        Record::from_rdata(name(of), ttl, RData::CNAME(CNAME(name(to))))
    }

    #[tokio::test]
    async fn a_service_whose_name_is_an_alias_is_found_and_counts_as_long_as_its_shortest_record() {
        let name = |text: &str| Name::from_ascii(text).unwrap();
        let address = |of, last| Record::from_rdata(name(of), 60, RData::A(A::new(10, 0, 0, last)));
        let service =
            |of, host| Record::from_rdata(name(of), 60, RData::SRV(SRV::new(0, 1, 80, name(host))));
        let records = vec![
            alias("web.test.", 30, "a.test."),
            alias("a.test.", 7, "b.test."),
            service("b.test.", "h1.test."),
            service("b.test.", "h2.test."),
            address("h1.test.", 1),
            address("h2.test.", 2),
        ];
        let place = ListPlace::Services { name: "web.test.".to_owned(), family: Family::V4 };
        for follows in [true, false] {
            let server = name_server(StdDuration::ZERO, zone(records.clone(), follows)).await;
            let answer = asking(&[server]).ask(&place).await;
            let listed = answer.servers.unwrap();
            let mut listed: Vec<String> = listed.iter().map(|it| it.address.to_string()).collect();
            listed.sort_unstable();
            assert_eq!(listed, ["10.0.0.1:80", "10.0.0.2:80"], "{follows}");
            assert_eq!(answer.ttl, Some(Duration::from_secs(7)), "{follows}");
        }
    }

    #[tokio::test]
    async fn aliases_of_a_service_that_lead_nowhere_are_told_in_words() {
        let ring = vec![alias("web.test.", 60, "a.test."), alias("a.test.", 60, "web.test.")];
        let name = |n: usize| if n == 0 { "web.test.".into() } else { format!("a{n}.test.") };
        let long = (0..=NAMES_MAX).map(|n| alias(&name(n), 60, &name(n + 1))).collect();
        let dangling = vec![alias("web.test.", 60, "a.test.")];
        let place = ListPlace::Services { name: "web.test.".to_owned(), family: Family::V4 };
        for (records, told) in [
            (ring, Err("the alias web.test. leads back to itself".to_owned())),
            (long, Err("more than 16 aliases up to a17.test.".to_owned())),
            (dangling, Ok(Vec::new())),
        ] {
            let server = name_server(StdDuration::ZERO, zone(records, false)).await;
            assert_eq!(asking(&[server]).ask(&place).await.servers, told);
        }
    }

    #[tokio::test]
    async fn the_hosts_of_a_service_are_found_within_the_wait_of_a_start_however_many_they_are() {
        let far = name_server(StdDuration::from_millis(250), knows_all);
        let place = ListPlace::Services { name: "_a._tcp.test.".to_owned(), family: Family::V4 };
        let asking = asking(&[far.await]);
        let answer = timeout(StdDuration::from_secs(3), asking.ask(&place)).await.unwrap();
        assert_eq!(answer.servers.unwrap().len(), HOSTS);
    }

    #[tokio::test]
    async fn what_is_no_address_of_a_server_is_refused_with_its_list() {
        for (address, port, told) in [
            ([0, 0, 0, 0], 80, "`0.0.0.0:80` is no address of a server"),
            ([224, 0, 0, 1], 80, "`224.0.0.1:80` is no address of a server"),
            ([10, 0, 0, 1], 0, "`10.0.0.1:0` is no address of a server"),
        ] {
            let server = name_server(StdDuration::ZERO, move |message| {
                let name = message.queries[0].name().clone();
                let data = match message.queries[0].query_type() {
                    RecordType::SRV => RData::SRV(SRV::new(0, 1, port, name.clone())),
                    _ => RData::A(A(address.into())),
                };
                message.answers.push(Record::from_rdata(name, 60, data));
            });
            let place = ListPlace::Services { name: "web.test.".to_owned(), family: Family::V4 };
            let answer = asking(&[server.await]).ask(&place).await;
            assert_eq!(answer.servers.unwrap_err(), told);
        }
    }
    const HOSTS: usize = 15;
}
