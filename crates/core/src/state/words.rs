//! The sentence about a service: where its traffic goes, why, and how far it is from its load line.

use alloc::{borrow::ToOwned, format, string::String, vec::Vec};

use super::{Condition, Group, GroupAvailability, Server, Service};
use crate::decide::ending::{Ending, Fault};

/// How a service is: the first of these that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Clients are turned away, as the operator wants.
    Maintenance,
    /// No server may take traffic.
    Closed,
    /// Requests are refused for want of capacity.
    Refusing,
    /// Requests fail by fault of a server or of loadline.
    Failing,
    /// Nothing is left of what is limited.
    Full,
    /// A group is passed over, or not near enough.
    Overflowing,
    /// All as it should be.
    Well,
}

impl Verdict {
    /// In two or three words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Maintenance => "maintenance",
            Self::Closed => "no server",
            Self::Refusing => "over capacity",
            Self::Failing => "failing",
            Self::Full => "at capacity",
            Self::Overflowing => "overflowing",
            Self::Well => "ok",
        }
    }
}

impl Service {
    /// How it is.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let fails = |fault| self.failures().any(|(ending, _)| ending.fault() == fault);
        let mut open =
            self.groups.iter().filter(|group| group.standing != GroupAvailability::Closed);
        if self.maintenance {
            Verdict::Maintenance
        } else if !self.ready {
            Verdict::Closed
        } else if fails(Fault::Capacity) {
            Verdict::Refusing
        } else if fails(Fault::Server) || fails(Fault::Proxy) {
            Verdict::Failing
        } else if open.all(Group::is_full) {
            Verdict::Full
        } else if self.overflow_per_s() > 0.0 {
            Verdict::Overflowing
        } else {
            Verdict::Well
        }
    }

    /// What happens, in words.
    #[must_use]
    pub fn sentence(&self) -> String {
        let traffic = self.traffic();
        if self.maintenance {
            return format!("In maintenance: clients are turned away. {traffic}");
        }
        traffic
    }

    fn traffic(&self) -> String {
        if self.groups.is_empty() || !self.ready {
            return "No server may take traffic: every request is refused.".to_owned();
        }
        let come = number(self.incoming_per_s());
        let mut said = format!("{come}/s come in{}.", places(self));
        let failures = self.failures();
        let failures: Vec<String> = failures
            .map(|(how, rate)| {
                let verb = if how.fault() == Fault::Capacity { "are refused" } else { "fail" };
                format!("{}/s {verb} ({})", number(rate), how.name())
            })
            .collect();
        if !failures.is_empty() {
            said.push_str(&format!(" {}.", failures.join(", ")));
        }
        let left: Option<f64> = self.groups.iter().map(|it| it.headroom.rate_per_s).sum();
        if let Some(left) = left {
            said.push_str(&format!(" {}/s of headroom left.", number(left)));
        }
        for group in self.groups.iter().filter(|group| group.limit_found) {
            let limit = group.limits.in_flight.unwrap_or_default();
            let name = &group.name;
            said.push_str(&format!(
                " {name} is full: more than {limit} at a time bring no more responses."
            ));
        }
        if self.queued > 0 {
            said.push_str(&format!(" {} of at most {} wait.", self.queued, self.queue_length));
        }
        said
    }

    /// Requests that come in, per second: those that are sent, and those that end without. What
    /// else ends came in when it was sent, maybe long ago; an ending that does not tell whether it
    /// was sent is not counted, so that nothing is counted twice.
    fn incoming_per_s(&self) -> f64 {
        let sent: f64 = self.groups.iter().map(|it| it.load.rate_per_s).sum();
        let unsent = Ending::ALL.into_iter().filter(|ending| ending.is_without_server());
        let unsent = unsent.filter_map(|ending| self.rates.endings_per_s.get(ending.name()));
        // Retries are counted when their request ends.
        (sent - self.rates.retries_per_s).max(0.0) + unsent.sum::<f64>()
    }

    /// Requests sent past the nearest group, which was full or down, per second.
    fn overflow_per_s(&self) -> f64 {
        self.groups.iter().map(|it| it.overflow_per_s).sum()
    }

    /// Whether this group of it takes traffic after another, as too few of its servers are healthy.
    #[must_use]
    pub fn passes_over(&self, group: &Group) -> bool {
        let mut others = self.groups.iter();
        group.standing == GroupAvailability::Yields
            && others.any(|other| other.standing == GroupAvailability::Open)
    }

    /// The ways in which requests fail now by no fault of the client, each with its rate per
    /// second.
    pub fn failures(&self) -> impl Iterator<Item = (Ending, f64)> {
        let all = Ending::ALL.into_iter().filter(|ending| ending.is_failure());
        all.filter_map(|ending| {
            let rate = self.rates.endings_per_s.get(ending.name()).copied();
            Some((ending, rate.filter(|rate| *rate > 0.0)?))
        })
    }
}

impl Group {
    /// Whether it is as good as at its load line: 98 %, as a rate read over a second is never
    /// quite its limit.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.fullness.is_some_and(|fullness| fullness >= 0.98)
    }

    /// How many of its servers are out by no wish of the operator.
    #[must_use]
    pub fn down(&self) -> usize {
        let is_down =
            |server: &&Server| matches!(server.condition, Condition::Down | Condition::Ejected);
        self.servers.iter().filter(is_down).count()
    }
}

impl Server {
    /// Whether it takes part.
    #[must_use]
    pub const fn is_well(&self) -> bool {
        matches!(self.condition, Condition::Up | Condition::Unchecked)
    }
}

/// Where it goes, and why not to the first.
fn places(service: &Service) -> String {
    let busy: Vec<&Group> =
        service.groups.iter().filter(|group| group.load.rate_per_s > 0.0).collect();
    match &busy[..] {
        [] => String::new(),
        [group] => format!(": all to {}{}", group.name, passed_over(service)),
        groups => {
            let parts = groups
                .iter()
                .map(|group| format!("{}/s to {}", number(group.load.rate_per_s), group.name));
            format!(": {}{}", parts.collect::<Vec<_>>().join(", "), passed_over(service))
        }
    }
}

/// Which group traffic goes past, and why.
fn passed_over(service: &Service) -> String {
    let distance = |group: &Group| group.distance_ms.unwrap_or(f64::INFINITY);
    let busy = service.groups.iter().find(|it| it.load.rate_per_s > 0.0);
    let reached = busy.map_or(f64::INFINITY, distance);
    let behind = service.groups.iter().filter(|it| {
        let is_idle = it.load.rate_per_s == 0.0;
        it.standing != GroupAvailability::Open && is_idle && distance(it) <= reached
    });
    let nearer = |one: &&Group, other: &&Group| distance(one).total_cmp(&distance(other));
    let nearest = service.groups.iter().min_by(nearer).filter(|_| service.overflow_per_s() > 0.0);
    let past = match (behind.min_by(nearer), service.groups.first()) {
        (Some(group), _) if group.standing == GroupAvailability::Yields => Some(group),
        // Nothing overflows to the nearest.
        (Some(group), Some(first)) if first.overflow_per_s > 0.0 => Some(group),
        _ => nearest,
    };
    past.map_or_else(String::new, |group| format!(", because {} {}", group.name, reason(group)))
}

/// Why traffic goes past a group, or went past it in the second that is told of.
fn reason(group: &Group) -> &'static str {
    match group.standing {
        GroupAvailability::Yields => "has, or had within 3 s, too few healthy servers",
        GroupAvailability::Closed => "is out",
        GroupAvailability::Open if group.is_full() => "is at its load line",
        GroupAvailability::Open if group.fullness.is_some() => {
            "was full or passed over a moment ago"
        }
        GroupAvailability::Open => "was passed over a moment ago",
    }
}

/// Three digits are enough for people, and two decimals.
#[must_use]
pub fn number(value: f64) -> String {
    if value < 0.005 {
        "0".to_owned()
    } else if value < 0.095 {
        format!("{value:.2}")
    } else if value < 9.95 && (value - libm::round(value)).abs() > 0.005 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// A time in the unit that people would use.
#[must_use]
pub fn span(seconds: f64) -> String {
    let seconds = seconds as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// What is shown of a group: requests per second, or requests in flight where those alone are
/// limited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// What the group has.
    pub load: f64,
    /// The part of it that came as overflow, per second; none is known of requests in flight.
    pub came: f64,
    /// The load line; none where nothing is limited.
    pub limit: Option<f64>,
    /// Written behind a figure.
    pub unit: &'static str,
}

impl Measure {
    /// That of `group`.
    #[must_use]
    pub fn of(group: &Group) -> Self {
        match (group.limits.rate_per_s, group.limits.in_flight) {
            (None, Some(places)) => Self {
                load: f64::from(group.load.in_flight),
                came: 0.0,
                limit: Some(f64::from(places)),
                unit: " in flight",
            },
            (limit, _) => Self {
                load: group.load.rate_per_s,
                came: group.overflow_per_s.min(group.load.rate_per_s),
                limit,
                unit: "/s",
            },
        }
    }

    /// How long a bar must be to hold both load and limit.
    #[must_use]
    pub fn extent(&self) -> f64 {
        self.load.max(self.limit.unwrap_or(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Limits, Load, Rates};
    use alloc::vec;

    fn group(name: &str, load: f64, limit: f64) -> Group {
        Group {
            name: name.to_owned(),
            standing: GroupAvailability::Open,
            load: Load { rate_per_s: load, ..Load::default() },
            limits: Limits { rate_per_s: Some(limit), ..Limits::default() },
            headroom: Limits { rate_per_s: Some(limit - load), ..Limits::default() },
            fullness: Some(load / limit),
            ..Group::default()
        }
    }

    fn service(groups: Vec<Group>, rates: Rates) -> Service {
        Service { name: "web".to_owned(), ready: true, groups, rates, ..Service::default() }
    }

    #[test]
    fn the_sentence_says_where_traffic_goes_why_and_what_is_left() {
        let rates = Rates { requests_per_s: 75.0, ..Rates::default() };
        let far = Group { overflow_per_s: 25.0, ..group("far", 25.0, 80.0) };
        let both = service(vec![group("near", 50.0, 50.0), far], rates);
        assert_eq!(
            both.sentence(),
            "75/s come in: 50/s to near, 25/s to far, because near is at its load line. \
             55/s of headroom left."
        );
        assert_eq!(both.verdict(), Verdict::Overflowing);
    }

    #[test]
    fn what_is_refused_is_said_first_of_all() {
        let endings_per_s = [("queue-full".to_owned(), 19.0)].into();
        let rates = Rates { requests_per_s: 95.0, endings_per_s, ..Rates::default() };
        let over = service(vec![group("near", 76.0, 76.0)], rates);
        assert!(over.sentence().contains("19/s are refused (queue-full)"), "{}", over.sentence());
        assert_eq!(over.verdict(), Verdict::Refusing);
        let closed = Service { ready: false, ..over };
        assert_eq!(closed.verdict(), Verdict::Closed);
    }

    #[test]
    fn a_service_in_maintenance_is_said_to_be_so_and_does_not_fail() {
        let endings_per_s = [("maintenance".to_owned(), 40.0)].into();
        let rates = Rates { requests_per_s: 40.0, endings_per_s, ..Rates::default() };
        let service = service(vec![group("near", 0.0, 76.0)], rates);
        assert_eq!(service.verdict(), Verdict::Well, "the last ones of before it was put back");
        let service = Service { maintenance: true, ..service };
        assert_eq!(
            service.sentence(),
            "In maintenance: clients are turned away. 40/s come in. 76/s of headroom left."
        );
        assert_eq!((service.verdict(), service.failures().count()), (Verdict::Maintenance, 0));
    }

    #[test]
    fn a_nearest_group_that_is_out_is_the_reason_why_another_has_it_all() {
        let far =
            Group { distance_ms: Some(30.0), overflow_per_s: 40.0, ..group("far", 40.0, 80.0) };
        let out = |name, distance_ms| Group {
            standing: GroupAvailability::Closed,
            distance_ms: Some(distance_ms),
            ..group(name, 0.0, 33.0)
        };
        let rates = Rates { requests_per_s: 40.0, ..Rates::default() };
        let groups = vec![far, out("farthest", 60.0), out("near", 0.0)];
        let past = service(groups, rates);
        let said = past.sentence();
        assert!(said.contains("all to far, because near is out"), "{said}");
        assert_eq!(past.verdict(), Verdict::Overflowing);
        let rates = Rates { requests_per_s: 75.0, ..Rates::default() };
        let near = Group { distance_ms: Some(0.0), ..group("near", 50.0, 50.0) };
        let far =
            Group { distance_ms: Some(30.0), overflow_per_s: 25.0, ..group("far", 25.0, 80.0) };
        let said = service(vec![near, far, out("farthest", 60.0)], rates).sentence();
        assert!(said.contains("because near is at its load line"), "{said}");
    }

    #[test]
    fn a_group_that_yields_is_the_reason_why_another_has_it_all() {
        let near = Group { standing: GroupAvailability::Yields, ..group("near", 0.0, 33.0) };
        let rates = Rates { requests_per_s: 40.0, ..Rates::default() };
        let said = service(vec![group("far", 40.0, 80.0), near], rates).sentence();
        assert!(
            said.contains(
                "all to far, because near has, or had within 3 s, too few healthy servers"
            ),
            "{said}"
        );
    }

    #[test]
    fn a_group_that_has_the_traffic_itself_is_not_the_reason_why_it_goes_elsewhere() {
        let yields = |it: Group| Group { standing: GroupAvailability::Yields, ..it };
        let rates = Rates { requests_per_s: 40.0, ..Rates::default() };
        let alone = service(vec![yields(group("here", 40.0, 80.0))], rates.clone());
        assert_eq!(alone.sentence(), "40/s come in: all to here. 40/s of headroom left.");
        assert!(!alone.passes_over(&alone.groups[0]), "there is no other");
        let near = Group { distance_ms: Some(0.0), ..group("near", 40.0, 80.0) };
        let far = Group { distance_ms: Some(30.0), ..yields(group("far", 0.0, 80.0)) };
        let both = service(vec![near, far], rates);
        let said = both.sentence();
        assert!(said.starts_with("40/s come in: all to near. "), "{said}");
        assert!(both.passes_over(&both.groups[1]));
    }

    #[test]
    fn a_group_without_limits_that_was_passed_over_is_not_said_to_be_at_its_load_line() {
        let unlimited = |name, load, distance_ms| Group {
            limits: Limits::default(),
            headroom: Limits::default(),
            fullness: None,
            distance_ms: Some(distance_ms),
            ..group(name, load, 1.0)
        };
        let rates = Rates { requests_per_s: 170.0, ..Rates::default() };
        let near = unlimited("near", 41.0, 0.0);
        let far = Group { overflow_per_s: 129.0, ..unlimited("far", 129.0, 20.0) };
        let said = service(vec![near.clone(), far.clone()], rates.clone()).sentence();
        let back = "41/s to near, 129/s to far, because near was passed over a moment ago.";
        assert!(said.ends_with(back), "{said}");
        // It had the first part of the second.
        let near = Group { standing: GroupAvailability::Yields, ..near };
        let said = service(vec![far, near], rates).sentence();
        assert!(said.contains("because near has, or had within 3 s, too few"), "{said}");
    }

    #[test]
    fn requests_and_connections_that_do_not_end_come_in_and_overflow_too() {
        let far = Group { overflow_per_s: 20.0, ..group("far", 20.0, 80.0) };
        let hung = service(vec![group("near", 30.0, 40.0), far], Rates::default());
        assert_eq!(
            hung.sentence(),
            "50/s come in: 30/s to near, 20/s to far, because near was full or passed over a \
             moment ago. 70/s of headroom left."
        );
        assert_eq!(hung.verdict(), Verdict::Overflowing);
        let rates = Rates { requests_per_s: 40.0, retries_per_s: 10.0, ..Rates::default() };
        let repeated = service(vec![group("near", 50.0, 80.0)], rates);
        assert!(repeated.sentence().starts_with("40/s come in: all to near. "));
    }

    #[test]
    fn requests_that_end_long_after_they_were_sent_do_not_come_in_again() {
        let endings_per_s = [("complete".to_owned(), 28.0)].into();
        let rates = Rates { requests_per_s: 28.0, endings_per_s, ..Rates::default() };
        let ended = service(vec![group("near", 0.0, 50.0)], rates.clone());
        assert!(ended.sentence().starts_with("0/s come in. "), "{}", ended.sentence());
        // They were sent twice, and that is told at their end.
        let ended = Service { rates: Rates { retries_per_s: 28.0, ..rates }, ..ended };
        assert!(ended.sentence().starts_with("0/s come in. "), "{}", ended.sentence());
    }

    #[test]
    fn what_ends_without_a_server_comes_in_beside_what_is_sent() {
        let endings = [("complete", 5.0), ("client-gone", 6.0), ("ruled", 3.0), ("cached", 20.0)];
        let endings_per_s = endings.map(|(name, rate)| (name.to_owned(), rate)).into();
        let rates = Rates { requests_per_s: 34.0, endings_per_s, ..Rates::default() };
        let said = service(vec![group("near", 10.0, 50.0)], rates).sentence();
        assert!(said.starts_with("33/s come in: all to near. "), "{said}");
    }

    #[test]
    fn a_small_figure_is_not_told_as_nothing() {
        let told = [0.004, 0.04, 0.096, 1.5, 2.0, 38.4].map(number);
        assert_eq!(told, ["0", "0.04", "0.1", "1.5", "2", "38"]);
    }
}
