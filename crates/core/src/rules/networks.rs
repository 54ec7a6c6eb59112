//! A set of many networks, for lists of allowed and denied clients.

use alloc::{sync::Arc, vec::Vec};
use core::{cmp::Ordering, net::IpAddr};

use super::Network;

/// A set of networks, found in `O(log n)` whatever their number `n`. A copy is a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Networks(Arc<Inner>);

#[derive(Debug, PartialEq, Eq)]
struct Inner {
    listed: Vec<Network>,
    v4: Ranges<u32>,
    v6: Ranges<u128>,
}

/// First and last addresses, in order, that neither touch nor overlap.
#[derive(Debug, PartialEq, Eq)]
struct Ranges<T>(Vec<(T, T)>);

impl Networks {
    /// Whether an address is in one of them; an IPv4 address in IPv6 clothes counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => self.0.v4.cover(address.to_bits(), address.to_bits()),
            IpAddr::V6(address) => self.0.v6.cover(address.to_bits(), address.to_bits()),
        }
    }

    /// Whether every address of `other` is in one of them.
    #[must_use]
    pub fn cover(&self, other: &Self) -> bool {
        let (own, other) = (&self.0, &other.0);
        other.v4.0.iter().all(|range| own.v4.cover(range.0, range.1))
            && other.v6.0.iter().all(|range| own.v6.cover(range.0, range.1))
    }

    /// Whether every address is in one of them.
    #[must_use]
    pub fn has_all(&self) -> bool {
        self.0.v4.cover(0, u32::MAX) && self.0.v6.cover(0, u128::MAX)
    }

    /// The networks, as they were given.
    #[must_use]
    pub fn listed(&self) -> &[Network] {
        &self.0.listed
    }
}

impl PartialOrd for Networks {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Networks {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        self.listed().cmp(other.listed())
    }
}

impl FromIterator<Network> for Networks {
    fn from_iter<I: IntoIterator<Item = Network>>(networks: I) -> Self {
        let listed: Vec<Network> = networks.into_iter().collect();
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for network in &listed {
            match network.ends() {
                (IpAddr::V4(first), IpAddr::V4(last)) => v4.push((first.to_bits(), last.to_bits())),
                (IpAddr::V6(first), IpAddr::V6(last)) => v6.push((first.to_bits(), last.to_bits())),
                _ => {}
            }
        }
        let after4 = |last: u32| last.checked_add(1);
        let after6 = |last: u128| last.checked_add(1);
        Self(Arc::new(Inner { listed, v4: Ranges::of(v4, after4), v6: Ranges::of(v6, after6) }))
    }
}

impl<T: Copy + Ord> Ranges<T> {
    /// The ranges of which `after` gives the address behind the last one.
    fn of(mut ranges: Vec<(T, T)>, after: impl Fn(T) -> Option<T>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(T, T)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(before) if after(before.1).is_none_or(|next| first <= next) => {
                    before.1 = before.1.max(last);
                }
                _ => merged.push((first, last)),
            }
        }
        merged.shrink_to_fit();
        Self(merged)
    }

    /// Whether all from `first` to `last` is in one of them.
    fn cover(&self, first: T, last: T) -> bool {
        let next = self.0.partition_point(|range| range.0 <= first);
        next > 0 && last <= self.0[next - 1].1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn networks(texts: &[&str]) -> Networks {
        texts.iter().map(|text| text.parse::<Network>().expect("a network")).collect()
    }

    #[test]
    fn networks_that_touch_are_one_and_families_are_apart() {
        let both = networks(&["10.0.1.0/24", "10.0.0.0/24", "10.0.0.7", "2001:db8::/32"]);
        assert_eq!(both.0.v4.0.len(), 1);
        assert!(both.cover(&networks(&["10.0.0.0/23", "2001:db8:1::/48"])));
        assert!(!both.cover(&networks(&["10.0.0.0/22"])));
        assert!(both.contains("::ffff:10.0.1.255".parse().expect("an address")));
        assert!(!both.contains("10.0.2.0".parse().expect("an address")));
        let all = networks(&["0.0.0.0/0", "255.255.255.255", "::/0"]);
        assert!(all.cover(&both) && all.contains("255.255.255.255".parse().expect("an address")));
        assert!(!networks(&[]).contains("10.0.0.1".parse().expect("an address")));
    }

    proptest! {
        #[test]
        fn a_set_has_what_one_of_its_networks_has(
            given in prop::collection::vec((any::<u8>(), 0_u8..=8), 0..20),
            address in any::<u8>(),
        ) {
            let all: Vec<Network> = given
                .iter()
                .map(|&(last, length)| {
                    let last = u32::from(last) & (0xff << (8 - length)) & 0xff;
                    let text = alloc::format!("10.0.0.{}/{}", last, 24 + length);
                    text.parse().expect("a network")
                })
                .collect();
            let address = IpAddr::from([10, 0, 0, address]);
            let expected = all.iter().any(|network| network.contains(address));
            prop_assert_eq!(all.into_iter().collect::<Networks>().contains(address), expected);
        }
    }
}
