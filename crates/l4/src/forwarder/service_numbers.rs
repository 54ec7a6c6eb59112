//! Numbers of forwarded services, by which tables know them.

use std::collections::{BTreeMap, BTreeSet};

use loadline_core::fleet::forwarding::Times;

use super::forwarded_services::ForwardedService;

/// Numbers of services, and how long connections of a number are kept.
#[derive(Debug, Default)]
pub(super) struct ServiceNumbers {
    by_service: BTreeMap<ForwardedService, u32>,
    /// Of numbers that nobody has any more as well: NAT connections may be left.
    times: BTreeMap<u32, Times>,
}

impl ServiceNumbers {
    /// The number of a service, the first that is free and by which no server is `known` where it
    /// has none; its times are these from now on.
    pub(super) fn give(
        &mut self,
        service: &ForwardedService,
        times: Times,
        known: impl Fn(u32) -> bool,
    ) -> u32 {
        let number = self.of(service).unwrap_or_else(|| {
            let taken: BTreeSet<u32> = self.by_service.values().copied().collect();
            let is_free = |number: &u32| !taken.contains(number) && !known(*number);
            (0..u32::MAX).find(is_free).unwrap_or(u32::MAX)
        });
        self.times.insert(number, times);
        self.by_service.insert(service.clone(), number);
        number
    }

    /// The number of a service that has one.
    pub(super) fn of(&self, service: &ForwardedService) -> Option<u32> {
        self.by_service.get(service).copied()
    }

    /// A service goes on as another, with its number.
    pub(super) fn rename(&mut self, before: &ForwardedService, after: &ForwardedService) {
        if let Some(number) = self.by_service.remove(before) {
            self.by_service.insert(after.clone(), number);
        }
    }

    /// This service is no more.
    pub(super) fn give_back(&mut self, service: &ForwardedService) {
        self.by_service.remove(service);
    }

    /// How long connections are kept of the service that has this number, or had it last.
    pub(super) fn times(&self, number: u32) -> Times {
        self.times.get(&number).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use loadline_core::{fleet::forwarding::Method, time::Duration};

    use super::*;

    fn service(name: &str) -> ForwardedService {
        ForwardedService { service: name.to_owned(), method: Method::Nat, v6: false }
    }

    fn times(stale: u64) -> Times {
        Times { stale: Duration::from_secs(stale), ..Times::default() }
    }

    #[test]
    fn a_service_that_goes_on_as_another_keeps_its_number() {
        let mut numbers = ServiceNumbers::default();
        numbers.give(&service("web"), times(60), |_| false);
        assert_eq!(numbers.give(&service("blue"), times(60), |_| false), 1);
        numbers.rename(&service("blue"), &service("green"));
        assert_eq!((numbers.of(&service("blue")), numbers.of(&service("green"))), (None, Some(1)));
        assert_eq!(numbers.give(&service("green"), times(90), |_| false), 1);
        assert_eq!(numbers.times(1), times(90));
    }

    #[test]
    fn connections_of_a_service_taken_out_of_the_file_are_kept_by_its_own_times() {
        let mut numbers = ServiceNumbers::default();
        assert_eq!(numbers.give(&service("web"), times(60), |_| false), 0);
        assert_eq!(numbers.give(&service("mail"), times(90), |_| false), 1);
        numbers.give_back(&service("web"));
        assert_eq!(numbers.of(&service("web")), None);
        assert_eq!(numbers.times(0), times(60));
        assert_eq!(
            numbers.give(&service("mail"), times(30), |_| false),
            1,
            "the same, with other times"
        );
        assert_eq!(numbers.times(1), times(30));
        assert_eq!(
            numbers.give(&service("chat"), times(10), |_| false),
            0,
            "the first that is free"
        );
        assert_eq!(numbers.times(0), times(10));
        let leaves = |number| number == 2;
        assert_eq!(numbers.give(&service("new"), times(10), leaves), 3, "servers of 2 are leaving");
    }
}
