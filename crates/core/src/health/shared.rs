//! Health checks that the edges of a region divide: one edge checks a server, a second one confirms
//! that it is down.
//!
//! Who checks is drawn by rendezvous hashing (Thaler and Ravishankar, 1998) over the edges that are
//! there, so that nobody has to tell, and an edge that comes or goes moves its own servers alone.
//! An edge goes by its own check where it has no other: alone, without the store, while nobody has
//! told of a server yet, and where one has found it down and the second has not told.

use alloc::{
    borrow::ToOwned as _,
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use crate::{decide::policy::draw::splitmix64, time::Duration};

/// What an edge has found of a server, after `rise` and `fall`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is up.
    Up {
        /// The round trip, in microseconds, as the opening of a connection shows it.
        round_trip_us: u64,
        /// How long the check took, in microseconds.
        whole_us: u64,
    },
    /// It is down, for this reason.
    Down(String),
}

/// What an edge says of the servers that it checks, by their keys.
pub type Verdicts = BTreeMap<String, Verdict>;

/// How an edge handles a server whose check is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Duty {
    /// It checks the server.
    Check,
    /// It takes the verdict of other edges.
    GoBy(Verdict),
}

/// Whether others have to hear of what a check has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// They know it, or do not ask this edge.
    None,
    /// The check took another time than they know.
    Measured,
    /// The server turned up or down, and they do not know it.
    Turned,
}

/// The checks of a region as one of its edges knows them.
#[derive(Clone, Debug, Default)]
pub struct SharedChecks {
    own: String,
    /// Verdicts of each present edge, this one included; empty without the store.
    told: BTreeMap<String, Verdicts>,
    /// What this edge has to tell.
    verdicts: Verdicts,
}

impl SharedChecks {
    /// For the edge of this name, which knows of no others yet.
    #[must_use]
    pub fn new(own: &str) -> Self {
        Self { own: own.to_owned(), ..Self::default() }
    }

    /// Takes the verdicts of the present edges of the region; none while the store is away. Gives
    /// the servers on which other edges have changed their verdict.
    pub fn hear(&mut self, told: BTreeMap<String, Verdicts>) -> BTreeSet<String> {
        let before = core::mem::replace(&mut self.told, told);
        let none = Verdicts::new();
        let names: BTreeSet<&String> = before.keys().chain(self.told.keys()).collect();
        let is_same = before.keys().eq(self.told.keys());
        let mut changed = BTreeSet::new();
        for name in names.into_iter().filter(|name| **name != self.own) {
            let [old, new] = [&before, &self.told].map(|all| all.get(name).unwrap_or(&none));
            let differs = |key: &&String| old.get(*key) != new.get(*key);
            changed.extend(old.keys().chain(new.keys()).filter(differs).cloned());
        }
        // A second opinion that nobody asks for any more would be an old one when somebody does.
        let mut own = core::mem::take(&mut self.verdicts);
        let is_new = |server: &String| !is_same || changed.contains(server);
        own.retain(|server, _| !is_new(server) || self.is_asked(server));
        self.verdicts = own;
        changed
    }

    /// How many edges there are, this one included.
    #[must_use]
    pub fn edges(&self) -> usize {
        self.told.len()
    }

    /// What this edge does about a server whose check is due.
    #[must_use]
    pub fn duty(&self, server: &str) -> Duty {
        let Some([first, second]) = self.checkers(server) else { return Duty::Check };
        if first == self.own {
            return Duty::Check;
        }
        match (self.told[first].get(server), self.told[second].get(server)) {
            (Some(up @ Verdict::Up { .. }), _) => Duty::GoBy(up.clone()),
            (Some(Verdict::Down(_)), Some(verdict)) if second != self.own => {
                Duty::GoBy(verdict.clone())
            }
            _ => Duty::Check,
        }
    }

    /// Takes in what this edge's own check has found.
    pub fn checked(&mut self, server: &str, verdict: Verdict) -> News {
        if !self.is_asked(server) {
            return News::None;
        }
        let news = match self.verdicts.get(server) {
            Some(known) => known.news(&verdict),
            None => News::Turned,
        };
        if news != News::None {
            self.verdicts.insert(server.to_owned(), verdict);
        }
        news
    }

    /// Verdicts of this edge on servers that still exist.
    pub fn verdicts(&mut self, is_there: impl Fn(&str) -> bool) -> &Verdicts {
        self.verdicts.retain(|server, _| is_there(server));
        &self.verdicts
    }

    /// Whether others use this edge's verdict on a server: it checks the server, or is second and
    /// the first has found it down.
    fn is_asked(&self, server: &str) -> bool {
        let Some([first, second]) = self.checkers(server) else { return false };
        let is_down = || matches!(self.told[first].get(server), Some(Verdict::Down(_)));
        first == self.own || second == self.own && is_down()
    }

    /// The edge that checks a server, and the second that confirms a failure; none with fewer than
    /// two edges.
    fn checkers(&self, server: &str) -> Option<[&str; 2]> {
        let mut drawn: Vec<(u64, &str)> =
            self.told.keys().map(|edge| (weight(edge, server), &**edge)).collect();
        if drawn.len() < 2 || !self.told.contains_key(&self.own) {
            return None;
        }
        drawn.select_nth_unstable_by(1, |a, b| b.cmp(a));
        Some([drawn[0].1, drawn[1].1])
    }
}

impl Verdict {
    fn news(&self, other: &Self) -> News {
        match (self, other) {
            (
                Self::Up { round_trip_us, whole_us },
                Self::Up { round_trip_us: trip, whole_us: whole },
            ) => {
                let differs =
                    |a: u64, b: u64| a.abs_diff(b) > (a / MEASURED_PART).max(MEASURED_LEAST);
                match differs(*round_trip_us, *trip) || differs(*whole_us, *whole) {
                    true => News::Measured,
                    false => News::None,
                }
            }
            (Self::Down(_), Self::Down(_)) => News::None,
            _ => News::Turned,
        }
    }

    /// The verdict of a check that passed.
    #[must_use]
    pub fn up(round_trip: Duration, whole: Duration) -> Self {
        let us = |time: Duration| time.as_nanos() / 1_000;
        Self::Up { round_trip_us: us(round_trip), whole_us: us(whole) }
    }
}

/// The same on every machine.
fn weight(edge: &str, server: &str) -> u64 {
    let bytes = edge.bytes().chain([0]).chain(server.bytes());
    bytes.fold(0, |hash, byte| splitmix64(hash ^ u64::from(byte)))
}

/// Times that differ by a fifth are told of, and by a millisecond at least: each telling is a write
/// to the store.
const MEASURED_PART: u64 = 5;
const MEASURED_LEAST: u64 = 1_000;

#[cfg(test)]
mod tests {
    use alloc::{format, string::ToString as _};

    use proptest::prelude::*;

    use super::*;

    const UP: Verdict = Verdict::Up { round_trip_us: 500, whole_us: 900 };

    fn down() -> Verdict {
        Verdict::Down("refused".to_owned())
    }

    /// Edges that have heard of each other, and of nothing else.
    fn edges(count: usize) -> Vec<SharedChecks> {
        let names: Vec<String> = (0..count).map(|n| format!("edge-{n}")).collect();
        let told: BTreeMap<String, Verdicts> =
            names.iter().map(|name| (name.clone(), Verdicts::new())).collect();
        let new = |name: &String| {
            let mut edge = SharedChecks::new(name);
            edge.hear(told.clone());
            edge
        };
        names.iter().map(new).collect()
    }

    /// Lets everybody hear what everybody has to tell.
    fn exchange(edges: &mut [SharedChecks]) {
        let told: BTreeMap<String, Verdicts> = edges
            .iter_mut()
            .map(|edge| (edge.own.clone(), edge.verdicts(|_| true).clone()))
            .collect();
        for edge in edges {
            edge.hear(told.clone());
        }
    }

    /// One round of checks of a server, of which each edge sees what `sees` says.
    fn round(
        edges: &mut [SharedChecks],
        server: &str,
        sees: impl Fn(&str) -> Verdict,
    ) -> Vec<Duty> {
        let mut duties = Vec::new();
        for edge in edges.iter_mut() {
            let duty = edge.duty(server);
            if duty == Duty::Check {
                let found = sees(&edge.own.clone());
                edge.checked(server, found);
            }
            duties.push(duty);
        }
        exchange(edges);
        duties
    }

    fn checks(duties: &[Duty]) -> usize {
        duties.iter().filter(|duty| **duty == Duty::Check).count()
    }

    #[test]
    fn a_server_is_checked_by_all_until_one_has_told_and_by_that_one_then() {
        let mut edges = edges(50);
        assert_eq!(checks(&round(&mut edges, "web 10.0.0.1:80", |_| UP)), 50);
        let duties = round(&mut edges, "web 10.0.0.1:80", |_| UP);
        assert_eq!(checks(&duties), 1);
        assert!(duties.iter().all(|duty| *duty == Duty::Check || *duty == Duty::GoBy(UP)));
    }

    #[test]
    fn a_server_is_given_up_by_all_when_a_second_edge_finds_it_down_too_and_comes_back_so() {
        let mut edges = edges(7);
        round(&mut edges, "a", |_| UP);
        round(&mut edges, "a", |_| down());
        let duties = round(&mut edges, "a", |_| down());
        assert_eq!(checks(&duties), 7, "all look until the second has told: {duties:?}");
        let duties = round(&mut edges, "a", |_| down());
        assert_eq!(duties.iter().filter(|duty| **duty == Duty::GoBy(down())).count(), 5);
        round(&mut edges, "a", |_| UP);
        let duties = round(&mut edges, "a", |_| UP);
        assert_eq!(duties.iter().filter(|duty| **duty == Duty::GoBy(UP)).count(), 6, "{duties:?}");
        let second = edges[0].checkers("a").unwrap()[1].to_owned();
        let of_second = edges.iter().find(|edge| edge.own == second).unwrap();
        assert!(of_second.verdicts.is_empty(), "an old opinion is no second one");
    }

    #[test]
    fn an_edge_that_alone_cannot_reach_a_server_gives_it_up_for_nobody_else() {
        let mut edges = edges(5);
        round(&mut edges, "a", |_| UP);
        let first = edges[0].checkers("a").unwrap()[0].to_string();
        let cut_off = |edge: &str| if edge == first { down() } else { UP };
        for _ in 0..5 {
            let duties = round(&mut edges, "a", cut_off);
            assert!(!duties.contains(&Duty::GoBy(down())), "{duties:?}");
        }
    }

    #[test]
    fn alone_or_without_the_store_an_edge_checks_all() {
        let mut all = edges(3);
        round(&mut all, "a", |_| UP);
        for edge in &mut all {
            edge.hear(BTreeMap::new());
            assert_eq!(edge.duty("a"), Duty::Check);
        }
        assert_eq!(edges(1)[0].duty("a"), Duty::Check);
    }

    #[test]
    fn times_are_told_where_they_differ_and_of_servers_that_are_gone_nothing_is() {
        let mut edges = edges(2);
        let edge =
            edges.iter_mut().find(|edge| edge.checkers("a").unwrap()[0] == edge.own).unwrap();
        let took = |us| Verdict::up(Duration::from_micros(us), Duration::from_micros(us));
        let news = [10_000, 11_900, 8_100, 13_000].map(|us| edge.checked("a", took(us)));
        assert_eq!(news, [News::Turned, News::None, News::None, News::Measured]);
        assert!(edge.verdicts(|_| false).is_empty());
    }

    proptest! {
        #[test]
        fn servers_are_divided_evenly_and_an_edge_that_goes_moves_its_own_alone(
            count in 2usize..60, gone in 0usize..60,
        ) {
            let before = edges(count);
            let server = |n| format!("web 10.0.{}.{}:80", n / 250, n % 250);
            let servers: Vec<String> = (0..1_000).map(server).collect();
            let firsts = |edge: &SharedChecks| -> Vec<String> {
                servers.iter().map(|server| edge.checkers(server).unwrap()[0].to_owned()).collect()
            };
            let drawn = firsts(&before[0]);
            let mean = 1_000 / count;
            for edge in &before {
                let own = drawn.iter().filter(|name| **name == edge.own).count();
                // Six deviations of a binomial.
                let most = 6.0 * libm::sqrt(mean as f64) + 1.0;
                prop_assert!(own.abs_diff(mean) as f64 <= most, "{own} of {mean}");
            }
            prop_assume!(count > 2);
            let gone = before[gone % count].own.clone();
            let stays = before.iter().position(|edge| edge.own != gone).unwrap();
            let mut after = before[stays].clone();
            let mut told = after.told.clone();
            told.remove(&gone);
            after.hear(told);
            for ((server, old), new) in servers.iter().zip(&drawn).zip(firsts(&after)) {
                let second = before[stays].checkers(server).unwrap()[1];
                prop_assert_eq!(&*new, if *old == gone { second } else { old });
            }
        }
    }
}
