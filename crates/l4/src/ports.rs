//! Ports of return addresses, which NAT lends to connections, and when a connection is over.
//!
//! ```text
//!  open --FIN of both sides, or RST of one--> closed --`fin` without a packet--> over
//!    |                                                                             ^
//!    '------------------------- `stale` without a packet ---------------------------'
//! ```
//!
//! The free ports towards a server are a queue. A connection takes from its front, and what is over
//! goes to its end in the order in which it ended, so that a port rests for as long as possible
//! before a server meets it again.
//!
//! Source of the two times: IBM, "Performance study for Load Balancer", `fintimeout` and
//! `staletimeout`.

use loadline_core::{fleet::forwarding::Times, time::Instant};

/// A port of a return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// Which of the return addresses, from zero.
    pub address: u16,
    /// Port number at that address.
    pub port: u16,
}

impl Port {
    /// The ports of a new queue: `ports` from `first` on of each address, the addresses in turns.
    /// Ports beyond the largest there is are left out.
    pub fn all(addresses: u16, first: u16, ports: u16) -> impl Iterator<Item = Self> {
        let last = first.saturating_add(ports.saturating_sub(1));
        let range = (first..=last).take(usize::from(ports));
        range.flat_map(move |port| (0..addresses).map(move |address| Self { address, port }))
    }

    /// As it lies in the kernel: the address in the upper half.
    #[must_use]
    pub const fn to_bits(self) -> u32 {
        (self.address as u32) << 16 | self.port as u32
    }
}

/// What has been seen of one direction of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// Its last packet.
    pub last: Instant,
    /// It has sent FIN.
    pub has_fin: bool,
    /// It has sent RST.
    pub has_rst: bool,
}

impl Direction {
    /// Whether a connection of these two is closed: FIN of both sides, or RST of one.
    #[must_use]
    pub const fn closed(forward: Self, back: Self) -> bool {
        (forward.has_fin && back.has_fin) || forward.has_rst || back.has_rst
    }

    /// When a connection of these two is over if nothing more is heard of it.
    #[must_use]
    pub fn end(forward: Self, back: Self, times: &Times) -> Instant {
        let kept = if Self::closed(forward, back) { times.fin } else { times.stale };
        forward.last.max(back.last) + kept
    }
}

/// The connections whose end has passed, oldest first.
pub fn over<T>(now: Instant, connections: impl Iterator<Item = (T, Instant)>) -> Vec<T> {
    let mut over: Vec<(T, Instant)> = connections.filter(|(_, end)| *end <= now).collect();
    over.sort_by_key(|(_, end)| *end);
    over.into_iter().map(|(connection, _)| connection).collect()
}

#[cfg(test)]
mod tests {
    use loadline_core::time::Duration;

    use super::*;

    const TIMES: Times = Times { fin: Duration::from_secs(15), stale: Duration::from_secs(300) };

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    fn heard(secs: u64) -> Direction {
        Direction { last: at(secs), ..Direction::default() }
    }

    #[test]
    fn a_connection_is_kept_for_the_stale_time_after_the_last_packet_of_either_side() {
        assert_eq!(Direction::end(heard(5), heard(7), &TIMES), at(307));
        assert_eq!(Direction::end(heard(9), heard(7), &TIMES), at(309));
    }

    #[test]
    fn both_sides_must_say_fin_but_one_may_reset() {
        let fin = |secs| Direction { has_fin: true, ..heard(secs) };
        let rst = |secs| Direction { has_rst: true, ..heard(secs) };
        assert_eq!(
            Direction::end(fin(5), heard(6), &TIMES),
            at(306),
            "half closed: data may follow for long"
        );
        assert_eq!(Direction::end(fin(5), fin(6), &TIMES), at(21));
        assert_eq!(Direction::end(rst(5), heard(4), &TIMES), at(20));
        assert_eq!(Direction::end(heard(4), rst(5), &TIMES), at(20));
    }

    #[test]
    fn what_is_over_comes_in_the_order_of_its_end() {
        let ends = [("late", at(9)), ("open", at(11)), ("first", at(3)), ("now", at(10))];
        assert_eq!(over(at(10), ends.into_iter()), ["first", "late", "now"]);
    }

    #[test]
    fn a_new_queue_takes_the_addresses_in_turns_and_ends_with_the_last_port_there_is() {
        let bits = |addresses, first, ports| {
            Port::all(addresses, first, ports).map(Port::to_bits).collect::<Vec<_>>()
        };
        assert_eq!(bits(2, 1_024, 2), [0x0400, 0x1_0400, 0x0401, 0x1_0401]);
        assert_eq!(bits(1, 65_534, 9), [0xfffe, 0xffff]);
        assert!(bits(3, 1_024, 0).is_empty());
        assert_eq!(Port::all(1, 1_024, 64_512).count(), 64_512);
    }
}
