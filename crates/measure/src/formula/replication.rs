//! Replication: what it costs to tell a backup load balancer of every connection.
//!
//! IBM, "Performance study for Load Balancer", section "High Availability considerations": updates
//! of 43 bytes go in packets of 26, each with 54 bytes of Ethernet, TCP and GRE headers.
//!
//! ```text
//! ((CPS * 43) + (ceiling[CPS/26] * 54)) * 8b/1B * 1Mb/1x10**6
//! ```
//!
//! The section says that the backup is told "when the connection is created and when it is
//! destroyed", yet the formula has one update for each connection; [`Updates`] says which.

use super::{FormulaError, above_zero};
use loadline_core::units::{BitRate, Bytes, Count, Rate};

/// How often the backup is told of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updates {
    /// Once, as the formula of the study counts.
    Once,
    /// When it is created and when it is destroyed, as the text of the study says.
    CreatedAndDestroyed,
}

/// How updates are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// The size of one update.
    pub update: Bytes,
    /// Updates in a full packet.
    pub per_packet: Count,
    /// Headers of one packet.
    pub headers: Bytes,
}

impl Packing {
    /// The packing of the study.
    pub const OF_THE_STUDY: Self =
        Self { update: Bytes::new(43), per_packet: Count::new(26), headers: Bytes::new(54) };
}

/// What replication adds to the network's traffic, each second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes of updates.
    pub updates: Bytes,
    /// Packets; the last of a second is not full.
    pub packets: Count,
    /// Bytes of headers.
    pub headers: Bytes,
    /// Both as bits per second.
    pub bandwidth: BitRate,
}

/// The traffic of so many connections per second.
///
/// # Errors
/// [`FormulaError`] where a quantity is zero or a sum is above what 64 bits hold.
pub fn traffic(
    connections: Rate,
    updates: Updates,
    packing: Packing,
) -> Result<Traffic, FormulaError> {
    above_zero("a rate of connections", connections)?;
    let size = above_zero("the size of an update", packing.update)?.get();
    let per_packet = above_zero("a number of updates in a packet", packing.per_packet)?.get();
    let times = match updates {
        Updates::Once => 1,
        Updates::CreatedAndDestroyed => 2,
    };
    let milli_updates = u128::from(connections.as_milli_per_sec()) * times;
    let update_milli_bytes = milli_updates.checked_mul(u128::from(size)).ok_or(TOO_LARGE)?;
    let update_bytes = narrow(update_milli_bytes / 1_000)?;
    let packets = narrow(milli_updates.div_ceil(u128::from(per_packet) * 1_000))?;
    let header_bytes = narrow(u128::from(packets) * u128::from(packing.headers.get()))?;
    let bits = narrow((u128::from(update_bytes) + u128::from(header_bytes)) * 8)?;
    Ok(Traffic {
        updates: Bytes::new(update_bytes),
        packets: Count::new(packets),
        headers: Bytes::new(header_bytes),
        bandwidth: BitRate::new(bits),
    })
}

fn narrow(n: u128) -> Result<u64, FormulaError> {
    u64::try_from(n).map_err(|_| TOO_LARGE)
}

const TOO_LARGE: FormulaError = FormulaError::TooLarge { what: "the traffic" };

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString as _;

    fn of_the_study(connections: u64, updates: Updates) -> Traffic {
        traffic(Rate::per_sec(connections), updates, Packing::OF_THE_STUDY).unwrap()
    }

    #[test]
    fn the_formula_of_the_study_gives_its_1_262_megabits() {
        let once = of_the_study(3_500, Updates::Once);
        assert_eq!((once.updates, once.headers), (Bytes::new(150_500), Bytes::new(7_290)));
        assert_eq!(
            (once.packets, once.bandwidth.to_string()),
            (Count::new(135), "1.26232Mb/s".into())
        );
    }

    #[test]
    fn an_update_at_creation_and_one_at_destruction_are_twice_as_much() {
        let twice = of_the_study(3_500, Updates::CreatedAndDestroyed);
        assert_eq!((twice.updates, twice.headers), (Bytes::new(301_000), Bytes::new(14_580)));
        assert_eq!(twice.bandwidth, "2.52464Mb/s".parse().unwrap());
    }

    #[test]
    fn a_packet_that_is_not_full_has_its_headers_all_the_same() {
        for (connections, packets) in [(1, 1), (26, 1), (27, 2), (52, 2), (53, 3)] {
            let traffic = of_the_study(connections, Updates::Once);
            assert_eq!(traffic.packets, Count::new(packets), "{connections}");
        }
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let packing = Packing::OF_THE_STUDY;
        let none = traffic(Rate::default(), Updates::Once, packing).unwrap_err();
        assert!(none.to_string().contains("a rate of connections of 0/s"), "{none}");
        let empty = Packing { per_packet: Count::default(), ..packing };
        assert!(traffic(Rate::per_sec(1), Updates::Once, empty).is_err());
        let large = Packing { update: Bytes::new(u64::MAX), ..packing };
        for updates in [Updates::Once, Updates::CreatedAndDestroyed] {
            assert!(traffic(Rate::per_sec(u64::MAX), updates, large).is_err());
        }
    }
}
