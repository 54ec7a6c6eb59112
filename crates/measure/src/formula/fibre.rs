//! Fibre: the round trip that no network can beat, from the distance.
//!
//! `distance * 2 / 200,000 km/s`. Google Cloud, "Optimizing Application Latency with Cloud Load
//! Balancing", section "Measuring latency" (in the Portuguese edition "Como medir a latência"):
//! light in fibre goes about 200,000 km/s, two thirds of its speed in vacuum, so that the 7,500 km
//! from Frankfurt to Council Bluffs take `7,500 km * 2 / 200,000 km/s * 1000 ms/s = 75 ms` there
//! and back. Cables make detours and pass equipment: about 1.5 times that, 112.5 ms, is near the
//! ideal.

use super::{FormulaError, above_zero};
use loadline_core::{
    time::Duration,
    units::{Distance, Ratio},
};

/// The shortest round trip through straight fibre of that length, without equipment.
///
/// # Errors
/// [`FormulaError`] where the distance is zero or more than once around the Earth.
pub fn round_trip(distance: Distance) -> Result<Duration, FormulaError> {
    above_zero("a distance", distance)?;
    if distance > AROUND_THE_EARTH {
        return Err(FormulaError::range(
            "a distance",
            distance,
            "at most 40075km, the Earth's girth",
        ));
    }
    Ok(Duration::from_nanos(distance.metres() * ROUND_TRIP_NANOS_PER_METRE))
}

/// The round trip of a cable that is near the ideal: 1.5 times the shortest.
///
/// # Errors
/// [`FormulaError`] as of [`round_trip`].
pub fn near_ideal(distance: Distance) -> Result<Duration, FormulaError> {
    Ok(round_trip(distance)? * 3 / 2)
}

/// A measured round trip as a multiple of the shortest; up to 150 % is near the ideal. Under 100 %
/// the response came from somewhere nearer.
///
/// # Errors
/// [`FormulaError`] as of [`round_trip`], or where nothing was measured.
pub fn against_ideal(distance: Distance, measured: Duration) -> Result<Ratio, FormulaError> {
    let measured = above_zero("a measured round trip", measured)?;
    Ok(Ratio::part(measured.as_nanos(), round_trip(distance)?.as_nanos()))
}

/// How far away a response can have come from at most, by its round trip.
///
/// # Errors
/// [`FormulaError`] where nothing was measured.
pub fn farthest(measured: Duration) -> Result<Distance, FormulaError> {
    let nanos = above_zero("a measured round trip", measured)?.as_nanos();
    Ok(Distance::from_metres(nanos / ROUND_TRIP_NANOS_PER_METRE))
}

/// Light in fibre takes 5 ns per metre, at 200,000 km/s.
const ROUND_TRIP_NANOS_PER_METRE: u64 = 10;

/// The equator; no two places are farther apart, however the cable goes round.
const AROUND_THE_EARTH: Distance = Distance::from_metres(40_075_000);

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString as _;

    fn frankfurt_to_council_bluffs() -> Distance {
        "7500km".parse().unwrap()
    }

    #[test]
    fn frankfurt_to_council_bluffs_takes_75_ms_and_near_the_ideal_112_5_ms() {
        let distance = frankfurt_to_council_bluffs();
        assert_eq!(round_trip(distance).unwrap(), Duration::from_millis(75));
        assert_eq!(near_ideal(distance).unwrap(), Duration::from_micros(112_500));
    }

    #[test]
    fn the_ping_of_the_document_is_near_the_ideal() {
        let ping = Duration::from_micros(110_944);
        let ratio = against_ideal(frankfurt_to_council_bluffs(), ping).unwrap();
        assert_eq!(ratio, Ratio::ppm(1_479_253));
    }

    #[test]
    fn an_answer_after_1_2_ms_comes_from_the_same_city() {
        let edge = farthest(Duration::from_micros(1_195)).unwrap();
        assert_eq!(edge, "119.5km".parse().unwrap());
    }

    #[test]
    fn distances_that_are_none_are_refused() {
        let none = round_trip(Distance::default()).unwrap_err();
        assert_eq!(none.to_string(), "a distance of 0m is out of range; it must be above zero");
        let far = round_trip("40076km".parse().unwrap()).unwrap_err();
        assert!(far.to_string().contains("40075km"), "{far}");
        assert!(against_ideal(frankfurt_to_council_bluffs(), Duration::ZERO).is_err());
        assert!(farthest(Duration::ZERO).is_err());
    }
}
