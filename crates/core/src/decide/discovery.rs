//! Discovered lists of servers: which list of each group is in force, and since when.
//!
//! `fleet in force = overrides(lists(fleet of the file))`. A list is *unknown* until its first good
//! answer, *fresh* after one, and *stale* while what has come since was not good: a file that is
//! broken, a name server that does not answer, or an empty list where none is allowed. A stale list
//! stays in force as it was.
//!
//! A name is asked for again when its answer expires: after its TTL, not below
//! [`AnswerValidity::min`] and not above [`AnswerValidity::max`]. After `n` failures in a row it is
//! asked for after [`AnswerValidity::min`] times two to the power of `n - 1`.
//!
//! Lists are kept in the order of their addresses, so that the same servers in another order are
//! no change.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    vec::Vec,
};
use core::{cmp::Reverse, fmt, mem, net::SocketAddr};

use serde::{Deserialize, Serialize};

use crate::{
    fleet::{Discovery, Fleet, Group, Server, Source},
    state::{self, State},
    time::{Duration, Instant},
};

/// One server of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Listed {
    /// Where it listens.
    pub address: SocketAddr,
    /// As [`Server::weight`].
    pub weight: u32,
    /// As [`Server::priority`].
    pub priority: u16,
}

/// Every list that a fleet names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists(BTreeMap<Source, List>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct List {
    /// None before the first good answer.
    servers: Option<Vec<Listed>>,
    /// When the list was last confirmed.
    confirmed: Instant,
    /// Why the last answer was not taken; none where it was.
    trouble: Option<String>,
    taken: u64,
    refused: u64,
    failed: u64,
    /// Of those, how many in a row up to now.
    failed_in_a_row: u32,
    /// When it is to be asked for; none while it is being asked for.
    due: Option<Instant>,
}

/// What was last heard of a name, for a process that goes on with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    source: Source,
    servers: Vec<Listed>,
}

/// How long an answer about a name counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerValidity {
    /// Shortest time, whatever its TTL, so that a wrong TTL causes no flood.
    pub min: Duration,
    /// Longest time.
    pub max: Duration,
}

impl AnswerValidity {
    /// When to ask again: after the TTL of an answer, or after so many failures in a row.
    fn wait(&self, ttl: Option<Duration>, failures: u32) -> Duration {
        let doubled = self.min * (1 << failures.saturating_sub(1).min(DOUBLINGS_MAX));
        ttl.unwrap_or(doubled).max(self.min).min(self.max)
    }
}

/// What follows from an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The list is as it was.
    Same,
    /// The list is another.
    Changed(Change),
    /// The answer was not taken, and what was known stays.
    Kept {
        /// Why.
        why: String,
        /// Whether the answer before was taken, or refused for another reason.
        is_news: bool,
    },
}

/// How one list differs from another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Servers that are new.
    pub added: Vec<SocketAddr>,
    /// Servers that are gone.
    pub removed: Vec<SocketAddr>,
    /// Servers with another weight or priority.
    pub altered: Vec<SocketAddr>,
}

impl Lists {
    /// Follows the lists that `fleet` names and no others. What is known of them stays, also where
    /// a name is asked for with another port or family from now on; names that are being asked for
    /// are due again, since whoever asks may not know these lists.
    pub fn follow(&mut self, fleet: &Fleet) {
        let before = mem::take(self);
        for source in sources(fleet) {
            let known = || before.0.get(source).cloned().or_else(|| before.of_same_name(source));
            let list = self.0.entry(source.clone()).or_insert_with(|| known().unwrap_or_default());
            list.due.get_or_insert(Instant::ZERO);
        }
    }

    /// What is known of the name of `source`, which is to be asked for otherwise than before.
    fn of_same_name(&self, source: &Source) -> Option<List> {
        self.0.iter().find_map(|(other, list)| {
            let servers = list.servers.iter().flatten().filter_map(|it| {
                let address = other.place.same_server(&source.place, it.address)?;
                Some(Listed { address, ..*it })
            });
            let servers: Vec<Listed> = servers.collect();
            (!servers.is_empty()).then(|| List {
                servers: Some(servers),
                due: None,
                ..list.clone()
            })
        })
    }

    /// What is known of names, for a process that goes on with it.
    #[must_use]
    pub fn heard(&self) -> Vec<Heard> {
        let names = self.0.iter().filter(|(source, _)| source.place.is_name());
        let heard = names.filter_map(|(source, list)| {
            let servers = list.servers.clone()?;
            Some(Heard { source: source.clone(), servers })
        });
        heard.collect()
    }

    /// Lists with what a process before this one has heard.
    #[must_use]
    pub fn of_heard(heard: Vec<Heard>) -> Self {
        let known = heard.into_iter().map(|Heard { source, servers }| {
            (source, List { servers: Some(servers), ..List::default() })
        });
        Self(known.collect())
    }

    /// Takes over what has been heard of names since these lists were copied from those that
    /// are in force.
    pub fn catch_up(&mut self, in_force: &Self) {
        for (source, list) in self.0.iter_mut().filter(|(source, _)| source.place.is_name()) {
            let Some(heard) = in_force.0.get(source).filter(|it| !it.is_unheard()) else {
                continue;
            };
            *list = heard.clone();
            // Who asks may have given up; to be asked twice costs little.
            list.due.get_or_insert(Instant::ZERO);
        }
    }

    /// Has every name asked for at once, whatever is under way: somebody else is asked from now on,
    /// and what was heard before stays until then.
    pub fn ask_anew(&mut self) {
        for (_, list) in self.0.iter_mut().filter(|(source, _)| source.place.is_name()) {
            (list.due, list.failed_in_a_row) = (Some(Instant::ZERO), 0);
        }
    }

    /// The names to ask for now; each counts as being asked for from here on.
    pub fn due(&mut self, now: Instant) -> Vec<Source> {
        let names = self.0.iter_mut().filter(|(source, _)| source.place.is_name());
        let due = names.filter(|(_, list)| list.due.is_some_and(|due| due <= now));
        let due = due.map(|(source, list)| {
            list.due = None;
            source.clone()
        });
        due.collect()
    }

    /// The names of which nothing has been said yet; each counts as being asked for from here on.
    pub fn due_first(&mut self) -> Vec<Source> {
        let names = self.0.iter_mut().filter(|(source, _)| source.place.is_name());
        let first = names.filter(|(_, list)| list.is_unheard()).map(|(source, list)| {
            list.due = None;
            source.clone()
        });
        first.collect()
    }

    /// When the next name is due; none where none is, or all are being asked for.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        let names = self.0.iter().filter(|(source, _)| source.place.is_name());
        names.filter_map(|(_, list)| list.due).min()
    }

    /// Notes when a name is to be asked for again, of which an answer has just been taken in: after
    /// its TTL, if it had one.
    pub fn expire(
        &mut self,
        now: Instant,
        source: &Source,
        ttl: Option<Duration>,
        terms: &AnswerValidity,
    ) {
        if let Some(list) = self.0.get_mut(source) {
            list.due = Some(now + terms.wait(ttl, list.failed_in_a_row));
        }
    }

    /// The lists that are followed.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.0.keys()
    }

    /// Takes an answer in: the servers of the list, or why they cannot be known.
    pub fn take(
        &mut self,
        now: Instant,
        source: &Source,
        answer: Result<Vec<Listed>, String>,
    ) -> Outcome {
        let Some(list) = self.0.get_mut(source) else { return Outcome::Same };
        match answer {
            Ok(servers) if servers.is_empty() && !source.allow_empty => {
                list.refused += 1;
                list.failed_in_a_row = 0;
                list.keep("it lists no server".to_string())
            }
            Ok(servers) => list.replace(now, servers),
            Err(why) => {
                list.failed += 1;
                list.failed_in_a_row = list.failed_in_a_row.saturating_add(1);
                list.keep(why)
            }
        }
    }

    /// The fleet of the file with the servers that are listed. A group whose list is not known has
    /// none.
    #[must_use]
    pub fn applied_to(&self, fleet: &Fleet) -> Fleet {
        let mut listed = fleet.clone();
        let is_listed = |group: &Group| group.discovery.is_some();
        for (at, service) in fleet.services.iter().enumerate() {
            if service.groups.iter().any(is_listed) {
                listed.services[at].groups.iter_mut().for_each(|group| self.fill(group));
            }
        }
        listed
    }

    /// As [`Lists::applied_to`] where `listed` is what followed from the same fleet before the
    /// lists of these `sources` were others: nothing is done for services without one of them. Also
    /// the indices of those that have one.
    #[must_use]
    pub fn applied_again(&self, sources: &[Source], listed: &Fleet) -> (Fleet, Vec<usize>) {
        let is_of =
            |group: &Group| group.discovery.as_ref().is_some_and(|it| sources.contains(&it.source));
        let services = listed.services.iter().enumerate();
        let of_them = services.filter(|(_, service)| service.groups.iter().any(is_of));
        let places: Vec<usize> = of_them.map(|(at, _)| at).collect();
        let mut changed = listed.clone();
        for at in &places {
            let groups = changed.services[*at].groups.iter_mut();
            groups.filter(|group| is_of(group)).for_each(|group| self.fill(group));
        }
        (changed, places)
    }

    /// Gives a group the servers of its list, if it has one.
    fn fill(&self, group: &mut Group) {
        let Some(Discovery { source, template }) = &group.discovery else { return };
        let servers = self.0.get(source).and_then(|list| list.servers.as_ref());
        group.servers = servers.into_iter().flatten().map(|it| it.server(template)).collect();
    }

    /// Tells of each group in `state` that was made of `fleet` where its servers come from.
    pub fn tell(&self, now: Instant, fleet: &Fleet, state: &mut State) {
        if self.0.is_empty() {
            return;
        }
        let (services, mut next) = (&fleet.services, 0);
        for told in &mut state.services {
            // The two are in one order, but for a reload that comes between.
            let mut places = (next..services.len()).chain(0..next);
            let Some(at) = places.find(|at| services[*at].name == told.name) else { continue };
            next = at + 1;
            let service = &services[at];
            for group in &mut told.groups {
                let of = service.groups.iter().find(|it| it.name == group.name);
                let source = of.and_then(|of| of.discovery.as_ref()).map(|it| &it.source);
                let known = source.and_then(|source| self.0.get_key_value(source));
                group.discovery = known.map(|(source, list)| list.told(now, source));
            }
        }
    }
}

impl List {
    /// Whether nothing has been said of it yet.
    fn is_unheard(&self) -> bool {
        self.servers.is_none() && self.trouble.is_none()
    }

    fn replace(&mut self, now: Instant, mut servers: Vec<Listed>) -> Outcome {
        // Of records that say the same server twice the one that counts is the one that is asked
        // first (RFC 2782: the lowest priority), with its larger weight.
        servers.sort_unstable_by_key(|it| (it.address, it.priority, Reverse(it.weight)));
        servers.dedup_by_key(|server| server.address);
        self.taken += 1;
        self.failed_in_a_row = 0;
        self.confirmed = now;
        self.trouble = None;
        let change = Change::between(self.servers.as_deref().unwrap_or_default(), &servers);
        let is_first = self.servers.is_none();
        self.servers = Some(servers);
        if change.is_none() && !is_first { Outcome::Same } else { Outcome::Changed(change) }
    }

    fn keep(&mut self, why: String) -> Outcome {
        let is_news = self.trouble.as_ref() != Some(&why);
        self.trouble = Some(why.clone());
        Outcome::Kept { why, is_news }
    }

    fn told(&self, now: Instant, source: &Source) -> state::Discovery {
        let known = self.servers.as_ref();
        state::Discovery {
            source: source.to_string(),
            servers: known.map_or(0, Vec::len) as u64,
            age_s: known.map(|_| now.since(self.confirmed).as_secs_f64()),
            stale: self.trouble.is_some(),
            trouble: self.trouble.clone(),
            taken: self.taken,
            refused: self.refused,
            failed: self.failed,
        }
    }
}

impl Listed {
    /// A server with the usual weight and priority.
    #[must_use]
    pub const fn at(address: SocketAddr) -> Self {
        Self { address, weight: 1, priority: 0 }
    }

    /// The servers of SRV records: address, priority and weight of each. A weight of up to 65,535
    /// becomes its part of 1000 where one of its priority is larger than that (RFC 2782 compares
    /// no others), and at least 1: the RFC gives a weight of 0 "a very small chance".
    #[must_use]
    pub fn of_services(records: &[(SocketAddr, u16, u16)]) -> Vec<Self> {
        let mut largest = BTreeMap::new();
        for &(_, priority, weight) in records {
            let known = largest.entry(priority).or_insert(WEIGHT_MAX);
            *known = u32::from(weight).max(*known);
        }
        let listed = records.iter().map(|&(address, priority, weight)| {
            let largest = largest.get(&priority).copied().unwrap_or(WEIGHT_MAX);
            let weight = (u32::from(weight) * WEIGHT_MAX / largest).max(1);
            Self { address, weight, priority }
        });
        listed.collect()
    }

    fn server(&self, template: &Server) -> Server {
        let Self { address, weight, priority } = *self;
        Server { address, weight, priority, ..template.clone() }
    }
}

impl Change {
    /// How `new` differs from `old`, both in the order of their addresses.
    #[must_use]
    pub fn between(old: &[Listed], new: &[Listed]) -> Self {
        let find = |list: &[Listed], address| {
            list.binary_search_by_key(&address, |it| it.address).ok().map(|at| list[at])
        };
        let mut change = Self::default();
        for server in new {
            match find(old, server.address) {
                None => change.added.push(server.address),
                Some(before) if before != *server => change.altered.push(server.address),
                Some(_) => {}
            }
        }
        let gone = old.iter().filter(|server| find(new, server.address).is_none());
        change.removed = gone.map(|server| server.address).collect();
        change
    }

    fn is_none(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.altered.is_empty()
    }
}

/// "+10.0.0.1:80 -10.0.0.2:80 ~10.0.0.3:80", the last with another weight or priority; of each
/// kind the first ten, and how many more there are.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut space = "";
        for (sign, list) in [('+', &self.added), ('-', &self.removed), ('~', &self.altered)] {
            for server in list.iter().take(SHOWN_MAX) {
                write!(f, "{space}{sign}{server}")?;
                space = " ";
            }
            let more = list.len().saturating_sub(SHOWN_MAX);
            if more > 0 {
                write!(f, " {sign}... and {more} more")?;
            }
        }
        Ok(())
    }
}

fn sources(fleet: &Fleet) -> impl Iterator<Item = &Source> {
    let groups = fleet.services.iter().flat_map(|service| &service.groups);
    groups.filter_map(|group| group.discovery.as_ref()).map(|discovery| &discovery.source)
}

/// Servers of each kind in the text of a change.
const SHOWN_MAX: usize = 10;

/// The largest weight of a server.
const WEIGHT_MAX: u32 = 1_000;

/// A million times the least wait is more than any longest.
const DOUBLINGS_MAX: u32 = 20;

#[cfg(test)]
mod tests {
    use alloc::{borrow::ToOwned, vec};

    use super::*;
    use crate::fleet::{Edge, Family, ListPlace, Service};

    fn server(last: u8) -> Listed {
        Listed::at(([10, 0, 0, last], 80).into())
    }

    fn source(allow_empty: bool) -> Source {
        Source { place: ListPlace::File("web.toml".to_owned()), allow_empty }
    }

    fn lists(allow_empty: bool) -> Lists {
        Lists([(source(allow_empty), List::default())].into())
    }

    fn known(lists: &Lists) -> Vec<Listed> {
        lists.0.values().next().and_then(|list| list.servers.clone()).unwrap_or_default()
    }

    #[test]
    fn the_same_servers_in_another_order_are_no_change() {
        let (mut lists, source) = (lists(false), source(false));
        let first = lists.take(Instant::ZERO, &source, Ok(vec![server(2), server(1)]));
        assert!(matches!(first, Outcome::Changed(change) if change.added.len() == 2));
        let second = lists.take(Instant::ZERO, &source, Ok(vec![server(1), server(2)]));
        assert_eq!(second, Outcome::Same);
    }

    #[test]
    fn a_change_says_who_came_who_went_and_who_is_another() {
        let heavy = Listed { weight: 5, ..server(2) };
        let change = Change::between(&[server(1), server(2)], &[heavy, server(3)]);
        assert_eq!(change.to_string(), "+10.0.0.3:80 -10.0.0.1:80 ~10.0.0.2:80");
        let many: Vec<Listed> = (1..=112).map(server).collect();
        let told = Change::between(&[server(113)], &many).to_string();
        assert!(told.contains(" +10.0.0.10:80 +... and 102 more -10.0.0.113:80"), "{told}");
    }

    #[test]
    fn an_empty_list_is_a_mistake_unless_it_is_allowed() {
        let (mut strict, mut loose) = (lists(false), lists(true));
        for (lists, source) in [(&mut strict, source(false)), (&mut loose, source(true))] {
            lists.take(Instant::ZERO, &source, Ok(vec![server(1)]));
        }
        let refused = strict.take(Instant::ZERO, &source(false), Ok(vec![]));
        assert!(matches!(refused, Outcome::Kept { is_news: true, .. }));
        assert_eq!(known(&strict), [server(1)]);
        let taken = loose.take(Instant::ZERO, &source(true), Ok(vec![]));
        assert!(matches!(taken, Outcome::Changed(change) if change.removed.len() == 1));
        assert_eq!(known(&loose), []);
    }

    #[test]
    fn a_name_is_asked_for_again_when_its_answer_expires_and_less_and_less_while_it_fails() {
        let place = ListPlace::Addresses { name: "web".to_owned(), port: 80, family: Family::V4 };
        let source = Source { place, allow_empty: false };
        let due = Some(Instant::ZERO);
        let list = List { due, ..List::default() };
        let mut lists = Lists([(source.clone(), list)].into());
        let terms = AnswerValidity { min: Duration::from_secs(5), max: Duration::from_secs(60) };
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        assert_eq!(lists.due(at(0)), core::slice::from_ref(&source));
        assert_eq!(lists.next_due(), None, "it is being asked for");
        lists.take(at(0), &source, Ok(vec![server(1)]));
        for (ttl, due) in [(30, 30), (0, 5), (3600, 60)] {
            lists.expire(at(0), &source, Some(Duration::from_secs(ttl)), &terms);
            assert_eq!(lists.next_due(), Some(at(due)), "{ttl}");
        }
        for due in [5, 10, 20, 40, 60, 60] {
            lists.take(at(0), &source, Err("no answer".to_owned()));
            lists.expire(at(0), &source, None, &terms);
            assert_eq!(lists.next_due(), Some(at(due)));
        }
    }

    fn named(name: &str, port: u16, family: Family, allow_empty: bool) -> Source {
        let place = ListPlace::Addresses { name: name.to_owned(), port, family };
        Source { place, allow_empty }
    }

    /// A fleet with a group for each of these lists.
    fn fleet_of(sources: &[Source]) -> Fleet {
        let template = Server::at(([0, 0, 0, 0], 0).into());
        let group = |source: &Source| Group {
            discovery: Some(Discovery { source: source.clone(), template: template.clone() }),
            ..Group::within("near", Vec::new())
        };
        let groups = sources.iter().map(group).collect();
        let services = vec![Service { groups, ..Service::named("web") }];
        Fleet::of(Edge::within("near"), Vec::new(), services)
    }

    #[test]
    fn an_answer_about_a_name_copies_no_service_that_does_not_list_it() {
        let names = ["web", "api"].map(|name| named(name, 80, Family::V4, false));
        let mut fleet = fleet_of(&names[..1]);
        let other = fleet_of(&names[1..]).services[0].clone();
        fleet.services.push(Service { name: "api".to_owned(), ..other });
        let mut lists = Lists::default();
        lists.follow(&fleet);
        let before = lists.applied_to(&fleet);
        lists.take(Instant::ZERO, &names[1], Ok(vec![server(1)]));
        let (after, places) = lists.applied_again(&names[1..], &before);
        assert_eq!(places, [1]);
        assert!(after.services.share(0, &before.services));
        assert!(after.listeners.share(&before.listeners));
        assert_eq!(after.services[1].groups[0].servers[0].address, server(1).address);
        assert_eq!(after, lists.applied_to(&fleet));
    }

    #[test]
    fn servers_of_a_name_stay_while_it_is_asked_for_with_another_port_family_or_permission() {
        let before = named("web", 80, Family::PreferV4, false);
        let six = Listed::at("[::1]:80".parse().unwrap());
        for (after, known_then) in [
            (named("web", 80, Family::PreferV4, true), vec![server(1), six]),
            (named("web", 81, Family::All, false), {
                let at = |it: Listed| Listed::at((it.address.ip(), 81).into());
                vec![at(server(1)), at(six)]
            }),
            (named("web", 80, Family::V4, false), vec![server(1)]),
            (named("web", 80, Family::V6, false), vec![six]),
            (named("api", 80, Family::PreferV4, false), vec![]),
        ] {
            let mut lists = Lists::default();
            lists.follow(&fleet_of(core::slice::from_ref(&before)));
            lists.due(Instant::ZERO);
            lists.take(Instant::ZERO, &before, Ok(vec![server(1), six]));
            let terms =
                AnswerValidity { min: Duration::from_secs(5), max: Duration::from_secs(60) };
            lists.expire(Instant::ZERO, &before, None, &terms);
            lists.follow(&fleet_of(core::slice::from_ref(&after)));
            assert_eq!(lists.sources().collect::<Vec<_>>(), [&after]);
            assert_eq!(known(&lists), known_then, "{after:?}");
            assert_eq!(lists.next_due(), Some(Instant::ZERO), "it is asked for at once");
        }
    }

    #[test]
    fn the_next_process_begins_with_what_was_heard_of_names() {
        let (name, unheard) =
            (named("web", 80, Family::V4, false), named("a", 1, Family::V4, true));
        let fleet = fleet_of(&[name.clone(), source(true), unheard.clone()]);
        let mut lists = Lists::default();
        lists.follow(&fleet);
        lists.take(Instant::ZERO, &name, Ok(vec![server(1)]));
        lists.take(Instant::ZERO, &source(true), Ok(vec![server(2)]));
        let passed = serde_json::to_string(&lists.heard()).unwrap();
        let mut next = Lists::of_heard(serde_json::from_str(&passed).unwrap());
        assert_eq!(known(&next), [server(1)], "files are read anew");
        next.follow(&fleet);
        assert_eq!(next.due_first(), [unheard], "what is known need not be waited for");
        assert_eq!(next.due(Instant::ZERO), [name]);
    }

    #[test]
    fn weights_of_services_keep_their_proportion() {
        let address = |last| server(last).address;
        let small = [(address(1), 0, 0), (address(2), 10, 500)];
        let weights = |records: &[_]| -> Vec<(u32, u16)> {
            Listed::of_services(records).iter().map(|it| (it.weight, it.priority)).collect()
        };
        assert_eq!(weights(&small), [(1, 0), (500, 10)]);
        assert_eq!(
            weights(&[(address(1), 0, 60_000), (address(2), 0, 30_000)]),
            [(1000, 0), (500, 0)]
        );
        let records = [(address(1), 0, 60_000), (address(3), 10, 5), (address(4), 10, 15)];
        assert_eq!(weights(&records), [(1000, 0), (5, 10), (15, 10)], "each priority by itself");
    }

    #[test]
    fn what_was_known_stays_while_nothing_better_comes_and_trouble_is_news_once() {
        let (mut lists, source) = (lists(false), source(false));
        lists.take(Instant::ZERO, &source, Ok(vec![server(1)]));
        let later = Instant::from_nanos(5_000_000_000);
        let broken = || Err("line 3".to_owned());
        assert!(matches!(
            lists.take(later, &source, broken()),
            Outcome::Kept { is_news: true, .. }
        ));
        let again = lists.take(later, &source, broken());
        assert!(matches!(again, Outcome::Kept { is_news: false, .. }));
        let told = lists.0[&source].told(later, &source);
        assert_eq!((told.servers, told.stale, told.failed, told.taken), (1, true, 2, 1));
        assert_eq!(told.age_s, Some(5.0));
        assert_eq!(lists.take(later, &source, Ok(vec![server(1)])), Outcome::Same);
        assert!(!lists.0[&source].told(later, &source).stale);
    }

    #[test]
    fn of_a_service_that_is_listed_twice_the_record_with_the_lowest_priority_counts() {
        let (mut lists, source) = (lists(false), source(false));
        let at = |priority, weight| Listed { priority, weight, ..server(1) };
        for listed in [vec![at(0, 20), at(10, 5)], vec![at(10, 5), at(0, 3), at(0, 20)]] {
            lists.take(Instant::ZERO, &source, Ok(listed));
            assert_eq!(known(&lists), [at(0, 20)]);
        }
    }
}
