//! Bandwidth: the bits per second of so many messages per second, and the other way round.
//!
//! `rate * size * 8 b/B`. IBM, "Performance study for Load Balancer", section "What is the maximum
//! throughput I can expect?": 3500 messages/s of 1 KB (1024 B) are 28.672 Mb/s, and with NAT
//! forwarding, where answers pass the load balancer as well, 57.344 Mb/s.
//!
//! The inverse is in "How far can you go with HAProxy and a t2.micro", section "Finding the
//! limit": `(180 * 1024 * 1024) / (50 * 1024 * 8) = 460`. It reads Mb as 1024 * 1024 bits and kB as
//! 1024 bytes. With the prefixes of the SI, 180 Mb/s carry 450 pages of 50 kB per second.

use super::{FormulaError, above_zero};
use loadline_core::units::{BitRate, Bytes, Rate};

/// The bits per second of messages of that size at that rate, in one direction.
///
/// # Errors
/// [`FormulaError`] where the rate or the size is zero, or the product is above 18 * 10^18 b/s.
pub fn needed(rate: Rate, size: Bytes) -> Result<BitRate, FormulaError> {
    above_zero("a rate", rate)?;
    above_zero("a size", size)?;
    let milli_bytes = u128::from(rate.as_milli_per_sec()) * u128::from(size.get());
    bit_rate(milli_bytes / 125)
}

/// What a load balancer carries of that traffic where it forwards by NAT: each message comes in
/// and goes out again.
///
/// # Errors
/// [`FormulaError`] where that is above 18 * 10^18 b/s.
pub fn through_nat(traffic: BitRate) -> Result<BitRate, FormulaError> {
    bit_rate(u128::from(traffic.bits_per_sec()) * 2)
}

/// The messages of that size that a limit lets through per second, rounded down to a thousandth.
///
/// # Errors
/// [`FormulaError`] where the limit or the size is zero.
pub fn rate_within(limit: BitRate, size: Bytes) -> Result<Rate, FormulaError> {
    above_zero("a limit", limit)?;
    above_zero("a size", size)?;
    let milli = u128::from(limit.bits_per_sec()) * 1_000 / (u128::from(size.get()) * 8);
    let milli = u64::try_from(milli).map_err(|_| FormulaError::TooLarge { what: "the rate" })?;
    Ok(Rate::milli_per_sec(milli))
}

/// The same two numbers with prefixes of 1024: `180Mb/s` as 180 * 1024 * 1024 b/s and `50kB` as
/// 50 * 1024 B, as network and file sizes are often meant.
///
/// None where one of them is not whole in a prefix of 1000, so that it cannot have been meant so.
#[must_use]
pub fn with_binary_prefixes(limit: BitRate, size: Bytes) -> Option<(BitRate, Bytes)> {
    let limit = BitRate::new(binary(limit.bits_per_sec())?);
    Some((limit, Bytes::new(binary(size.get())?)))
}

fn binary(n: u64) -> Option<u64> {
    let power = (1..=3).rev().find(|power| n != 0 && n.is_multiple_of(1_000u64.pow(*power)))?;
    (n / 1_000u64.pow(power)).checked_mul(1_024u64.pow(power))
}

fn bit_rate(bits: u128) -> Result<BitRate, FormulaError> {
    let bits = u64::try_from(bits).map_err(|_| FormulaError::TooLarge { what: "the bandwidth" })?;
    Ok(BitRate::new(bits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString as _;

    #[test]
    fn the_answers_of_the_performance_study_need_28_672_megabits() {
        let answers = needed(Rate::per_sec(3_500), Bytes::new(1_024)).unwrap();
        assert_eq!(answers, "28.672Mb/s".parse().unwrap());
        assert_eq!(through_nat(answers).unwrap(), "57.344Mb/s".parse().unwrap());
    }

    #[test]
    fn the_limit_of_the_t2_micro_is_450_or_460_by_what_a_thousand_is() {
        let limit = "180Mb/s".parse().unwrap();
        let page = "50kB".parse().unwrap();
        assert_eq!(rate_within(limit, page).unwrap(), Rate::per_sec(450));
        let (limit, page) = with_binary_prefixes(limit, page).unwrap();
        assert_eq!((limit.bits_per_sec(), page.get()), (188_743_680, 51_200));
        assert_eq!(rate_within(limit, page).unwrap(), "460.8/s".parse().unwrap());
    }

    #[test]
    fn a_size_that_is_binary_already_has_no_other_reading() {
        let limit = "180Mb/s".parse().unwrap();
        assert_eq!(with_binary_prefixes(limit, "50KiB".parse().unwrap()), None);
        assert_eq!(with_binary_prefixes(BitRate::default(), Bytes::new(1_000)), None);
    }

    #[test]
    fn what_means_nothing_is_refused_and_what_does_not_fit_too() {
        let zero = needed(Rate::default(), Bytes::new(1)).unwrap_err();
        assert_eq!(zero.to_string(), "a rate of 0/s is out of range; it must be above zero");
        let size = rate_within(BitRate::new(1), Bytes::default()).unwrap_err();
        assert!(size.to_string().contains("a size of 0B"), "{size}");
        let large = needed(Rate::per_sec(u64::MAX), Bytes::new(u64::MAX)).unwrap_err();
        assert!(large.to_string().contains("smaller"), "{large}");
        assert!(through_nat(BitRate::new(u64::MAX)).is_err());
    }

    proptest! {
        #[test]
        fn a_rate_fits_the_bandwidth_that_it_needs(
            milli in 1..10_000_000_000u64,
            size in 1..10_000_000u64,
        ) {
            let (rate, size) = (Rate::milli_per_sec(milli), Bytes::new(size));
            let bits = needed(rate, size).unwrap();
            prop_assume!(bits != BitRate::default());
            let again = rate_within(bits, size).unwrap().as_milli_per_sec();
            // A bit per second more or less is at most 125 thousandths of a message per second.
            prop_assert!(again <= milli && milli - again <= 1 + 125 / size.get());
        }
    }
}
