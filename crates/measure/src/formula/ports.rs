//! Ports: how many connections per second one address can open.
//!
//! A port comes free only some time after its connection was closed, so that the ports divided by
//! that time are the highest rate: `ports * addresses / hold`. IBM, "Performance study for Load
//! Balancer":
//!
//! - Section "Load Balancer Tuning", with `fintimeout` as the hold:
//!   `CPS = (64510 * Number of Return addresses) / fintimeout`, and Table 1.
//! - Section "Stress Tool Tuning", with `TIME_WAIT` as the hold: `(65000 - 1024) / 60 = 1066.3`.
//!
//! A connection is told by both its ends. Where the side that opens it looks at both, as Linux
//! does, each destination (address and port) has the whole range again.

use super::{FormulaError, above_zero};
use loadline_core::{
    time::Duration,
    units::{Count, Rate},
};

/// Where the connections come from and how long each holds its port afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Ports of each address.
    pub each: Count,
    /// Addresses that connections are opened from: return addresses, source addresses.
    pub addresses: Count,
    /// Destinations whose connections may share a port: 1 where the table of ports is one for all.
    pub destinations: Count,
    /// How long a port stays taken after its connection was closed.
    pub hold: Duration,
}

impl Ports {
    /// The load balancer of the study: 64510 ports for each return address.
    #[must_use]
    pub fn of_return_addresses(addresses: Count, fin_timeout: Duration) -> Self {
        let each = RETURN_ADDRESS_PORTS;
        Self { each, addresses, destinations: Count::new(1), hold: fin_timeout }
    }

    /// A client with one address and one destination.
    #[must_use]
    pub fn of_client(range: PortRange, time_wait: Duration) -> Self {
        let one = Count::new(1);
        Self { each: range.count(), addresses: one, destinations: one, hold: time_wait }
    }

    /// The connections per second that can go on for ever, rounded down to a thousandth.
    ///
    /// # Errors
    /// [`FormulaError`] where a quantity is zero, or the ports or their rate are too many.
    pub fn rate(self) -> Result<Rate, FormulaError> {
        above_zero("a hold", self.hold)?;
        let mut ports = above_zero("a number of ports", self.each)?.get();
        for (what, times) in [
            ("a number of addresses", self.addresses),
            ("a number of destinations", self.destinations),
        ] {
            let times = above_zero(what, times)?.get();
            let more = ports.checked_mul(times);
            ports = more.ok_or(FormulaError::TooLarge { what: "the number of ports" })?;
        }
        let rate = Count::new(ports) / self.hold;
        if rate.as_milli_per_sec() == u64::MAX {
            return Err(FormulaError::TooLarge { what: "the rate" });
        }
        Ok(rate)
    }
}

/// A range of ephemeral ports, `net.ipv4.ip_local_port_range` on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// The range that the study set on its clients.
    pub const OF_THE_STUDY: Self = Self { first: 1_024, last: 65_000 };

    /// From `first` to `last`.
    ///
    /// # Errors
    /// [`FormulaError`] where the first is no port, or the last not above it.
    pub fn new(first: u16, last: u16) -> Result<Self, FormulaError> {
        if first == 0 || last <= first {
            let given = format!("{first} to {last}");
            let right = "a port above zero and a higher one, such as 1024 to 65000";
            return Err(FormulaError::range("a port range", given, right));
        }
        Ok(Self { first, last })
    }

    /// The lowest port.
    #[must_use]
    pub fn first(self) -> u16 {
        self.first
    }

    /// The highest port.
    #[must_use]
    pub fn last(self) -> u16 {
        self.last
    }

    /// The ports as the study counts them, the last less the first: one fewer than there are.
    #[must_use]
    pub fn count(self) -> Count {
        Count::new(u64::from(self.last - self.first))
    }
}

/// A row of the study's Table 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Return addresses.
    pub addresses: Count,
    /// The `fintimeout`.
    pub fin_timeout: Duration,
    /// Connections per second by the formula, as printed.
    pub theoretical: f64,
    /// Connections per second that the study measured.
    pub actual: f64,
}

/// Table 1: "Effect of fintimeout and Return Address on Connections Per Second (CPS)".
pub const TABLE_1: [Row; 3] =
    [row(1, 15, 4_300.7, 4_000.0), row(1, 30, 2_150.3, 1_800.0), row(2, 15, 8_601.3, 7_000.0)];

const fn row(addresses: u64, secs: u64, theoretical: f64, actual: f64) -> Row {
    let fin_timeout = Duration::from_secs(secs);
    Row { addresses: Count::new(addresses), fin_timeout, theoretical, actual }
}

/// "Load Balancer has 64510 ports per return address for its ephemeral port table."
pub const RETURN_ADDRESS_PORTS: Count = Count::new(64_510);

#[cfg(test)]
mod tests {
    use super::*;
    use std::{format, string::ToString as _};

    fn printed(ports: Ports) -> String {
        format!("{:.1}", ports.rate().unwrap().as_per_sec_f64())
    }

    #[test]
    fn every_row_of_the_table_comes_out_as_printed() {
        for row in TABLE_1 {
            let ports = Ports::of_return_addresses(row.addresses, row.fin_timeout);
            assert_eq!(printed(ports), format!("{:.1}", row.theoretical), "{row:?}");
            assert!(row.actual < row.theoretical, "no run of the study is above its formula");
        }
    }

    #[test]
    fn a_client_opens_1066_3_per_second_and_twice_that_with_half_the_time_wait() {
        let client = |secs| Ports::of_client(PortRange::OF_THE_STUDY, Duration::from_secs(secs));
        assert_eq!(printed(client(60)), "1066.3");
        assert_eq!(printed(client(30)), "2132.5");
    }

    #[test]
    fn addresses_and_destinations_each_bring_the_whole_range_again() {
        let one = Ports::of_client(PortRange::OF_THE_STUDY, Duration::from_secs(60));
        let three = Ports { addresses: Count::new(3), ..one };
        let six = Ports { destinations: Count::new(2), ..three };
        assert_eq!(three.rate().unwrap(), "3198.8/s".parse().unwrap());
        assert_eq!(six.rate().unwrap(), "6397.6/s".parse().unwrap());
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let one = Count::new(1);
        let free = Ports::of_return_addresses(one, Duration::ZERO).rate().unwrap_err();
        assert_eq!(free.to_string(), "a hold of 0s is out of range; it must be above zero");
        let none = Ports::of_return_addresses(Count::default(), Duration::from_secs(1));
        assert!(none.rate().unwrap_err().to_string().contains("a number of addresses of 0"));
        let range = PortRange::new(65_000, 1_024).unwrap_err();
        assert!(range.to_string().contains("1024 to 65000"), "{range}");
        let many = Ports::of_return_addresses(Count::new(u64::MAX), Duration::from_secs(1));
        assert!(many.rate().is_err());
        let fast = Ports::of_return_addresses(Count::new(1 << 40), Duration::from_nanos(1));
        assert!(fast.rate().is_err());
    }
}
