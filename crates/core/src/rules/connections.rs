//! Connections by client, for `max_connections_per_client`.
//!
//! A client is known for as long as it has a connection: the table is never longer than there are
//! connections.

use alloc::collections::{BTreeMap, btree_map::Entry};
use core::net::IpAddr;

/// Whose connections or requests are counted together: those of an IPv4 address, or of the first 64
/// bits of one of IPv6, since a client has all the others to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientKey {
    /// An IPv4 address.
    V4([u8; 4]),
    /// The first 64 bits of an IPv6 address.
    V6([u8; 8]),
}

impl ClientKey {
    /// The key of a client with this address. One of IPv4 may be written as one of IPv6.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

/// The connections of clients that have any.
#[derive(Debug, Default)]
pub struct ConnectionsPerClient(BTreeMap<ClientKey, u32>);

impl ConnectionsPerClient {
    /// Counts one more connection of `client`, if it has fewer than `max` now; says whether it did.
    /// Each has to be given back by [`Self::leave`].
    #[must_use]
    pub fn try_enter(&mut self, client: ClientKey, max: u32) -> bool {
        let count = self.0.get(&client).copied().unwrap_or(0);
        let has_room = count < max;
        if has_room {
            self.0.insert(client, count + 1);
        }
        has_room
    }

    /// One connection of `client` that was counted is over.
    pub fn leave(&mut self, client: ClientKey) {
        if let Entry::Occupied(mut place) = self.0.entry(client) {
            *place.get_mut() -= 1;
            if *place.get() == 0 {
                place.remove();
            }
        }
    }

    /// How many clients have connections.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn key(address: &str) -> ClientKey {
        ClientKey::of(address.parse().expect("an address"))
    }

    #[test]
    fn a_client_is_an_ipv4_address_or_64_bits_of_ipv6() {
        assert_eq!(key("192.0.2.1"), key("::ffff:192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
        assert_eq!(key("2001:db8:0:1::1"), key("2001:db8:0:1:ffff::2"));
        assert_ne!(key("2001:db8:0:1::1"), key("2001:db8:0:2::1"));
    }

    #[test]
    fn where_the_limit_was_lowered_nobody_new_comes_until_enough_have_left() {
        let mut table = ConnectionsPerClient::default();
        let client = key("192.0.2.1");
        assert!((0..3).all(|_| table.try_enter(client, 3)));
        assert!(!table.try_enter(client, 2));
        table.leave(client);
        assert!(!table.try_enter(client, 2));
        table.leave(client);
        assert!(table.try_enter(client, 2));
    }

    proptest! {
        #[test]
        fn nobody_ever_has_more_than_the_limit_and_each_connection_is_given_back(
            max in 1u32..5,
            operations in prop::collection::vec((0u8..6, any::<bool>()), 1..400),
        ) {
            let mut table = ConnectionsPerClient::default();
            let mut open: [u32; 6] = [0; 6];
            for (client, comes) in operations {
                let (key, own) = (ClientKey::V4([client; 4]), &mut open[usize::from(client)]);
                if comes {
                    let is_in = table.try_enter(key, max);
                    prop_assert_eq!(is_in, *own < max);
                    *own += u32::from(is_in);
                } else if *own > 0 {
                    table.leave(key);
                    *own -= 1;
                }
                prop_assert!(open.iter().all(|count| *count <= max));
                prop_assert_eq!(table.clients(), open.iter().filter(|count| **count > 0).count());
            }
            let left = (0u8..).zip(open).map(|(client, count)| (ClientKey::V4([client; 4]), count));
            for (key, count) in left.collect::<Vec<_>>() {
                (0..count).for_each(|_| table.leave(key));
            }
            prop_assert_eq!(table.clients(), 0);
        }
    }
}
