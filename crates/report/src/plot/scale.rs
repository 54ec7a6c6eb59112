//! How values lie along an axis: evenly from zero, by powers of ten, or by the nines of a share.

use super::ticks;

/// A scale: where its marks stand, and where a value does. Places run from 0 to [`Scale::end`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scale {
    /// Evenly from zero.
    Even {
        /// The value at the end.
        end: f64,
        /// Values that are marked.
        ticks: Vec<f64>,
    },
    /// By powers of ten, of which the first and the last are given.
    Powers {
        /// The power at the beginning.
        from: i32,
        /// The power at the end.
        to: i32,
        /// Whether zero stands at the beginning, in the place of its power.
        zero: bool,
    },
    /// Shares from 0 by their nines: a place further is a tenth of the rest (0.9, 0.99, 0.999),
    /// as HdrHistogram's plots have it.
    Nines {
        /// Number of nines at the end.
        end: f64,
    },
}

impl Scale {
    /// Evenly from zero to the first round number at or above `top`.
    pub(crate) fn even(top: f64, wanted: usize) -> Self {
        let ticks = ticks::ticks(top, wanted);
        Self::Even { end: ticks.last().copied().unwrap_or(1.0), ticks }
    }

    /// Evenly from zero to `top` itself.
    pub(crate) fn until(top: f64, wanted: usize) -> Self {
        let mut ticks = ticks::ticks(top, wanted);
        ticks.retain(|tick| *tick <= top * 1.000_001);
        let end = if top > 0.0 && top.is_finite() { top } else { 1.0 };
        Self::Even { end, ticks }
    }

    /// Evenly, unless one of the lines would lie flat on the axis beside the others: where the
    /// highest value of one is less than a thirtieth of that of another, by powers of ten. `lowest`
    /// is the lowest value above zero; `zero` is whether there is a zero too.
    pub(crate) fn fitting(tops: &[f64], lowest: f64, zero: bool, wanted: usize) -> Self {
        let tops = tops.iter().copied().filter(|top| *top > 0.0 && top.is_finite());
        let (least, most) =
            tops.fold((f64::INFINITY, 0.0), |(low, high), top| (low.min(top), f64::max(high, top)));
        if most <= FLAT * least || lowest <= 0.0 {
            return Self::even(most, wanted);
        }
        let from = lowest.log10().floor() as i32;
        let to = (most.log10().ceil() as i32).max(from + 1);
        Self::Powers { from: from - i32::from(zero), to, zero }
    }

    /// Where the axis ends.
    pub(crate) fn end(&self) -> f64 {
        match self {
            Self::Even { end, .. } | Self::Nines { end } => *end,
            Self::Powers { from, to, .. } => f64::from(to - from),
        }
    }

    /// The place of a value on the axis, kept within its ends.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let place = match self {
            Self::Even { .. } => value,
            Self::Powers { from, .. } => value.max(f64::MIN_POSITIVE).log10() - f64::from(*from),
            Self::Nines { .. } => -(1.0 - value).max(f64::MIN_POSITIVE).log10(),
        };
        place.clamp(0.0, self.end())
    }

    /// Marks: where they stand and what they say; some say nothing.
    pub(crate) fn marks(&self) -> Vec<(f64, String)> {
        match self {
            Self::Even { ticks, .. } => ticks.iter().copied().zip(ticks::labels(ticks)).collect(),
            Self::Powers { from, to, zero } => powers(*from, *to, *zero),
            Self::Nines { end } => nines(*end),
        }
    }

    /// What to add to the title of the axis.
    pub(crate) fn note(&self) -> &'static str {
        match self {
            Self::Powers { .. } => " (logarithmic)",
            Self::Even { .. } | Self::Nines { .. } => "",
        }
    }
}

fn powers(from: i32, to: i32, zero: bool) -> Vec<(f64, String)> {
    // Room for the numbers between the powers is only where there are few of these.
    let factors: &[f64] = if to - from <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let decade = |power: i32| {
        factors.iter().map(move |factor| (f64::from(power - from) + factor.log10(), power, *factor))
    };
    let inner = (from + i32::from(zero)..to).flat_map(decade);
    let marks = inner.chain([(f64::from(to - from), to, 1.0)]);
    let zero = zero.then(|| (0.0, "0".to_owned()));
    let powers = marks.map(|(at, power, factor)| (at, plain(factor, power)));
    zero.into_iter().chain(powers).collect()
}

/// A number without exponent: `0.002`, `5`, `10000`.
fn plain(factor: f64, power: i32) -> String {
    let decimals = usize::try_from(-power).unwrap_or(0);
    format!("{:.decimals$}", factor * 10f64.powi(power))
}

fn nines(end: f64) -> Vec<(f64, String)> {
    let half = (2f64.log10(), "50".to_owned());
    let whole = (1..=end as usize).map(|nines| (nines as f64, share(nines)));
    [(0.0, "0".to_owned()), half].into_iter().chain(whole).collect()
}

/// In percent: `90`, `99`, `99.9`, `99.99`.
fn share(nines: usize) -> String {
    match nines {
        1 => "90".to_owned(),
        2 => "99".to_owned(),
        more => format!("99.{}", "9".repeat(more - 2)),
    }
}

/// How many times higher another line may reach before one lies flat.
const FLAT: f64 = 30.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_like_height_lie_evenly_and_others_by_powers() {
        assert_eq!(Scale::fitting(&[3.0, 40.0], 1.0, false, 4), Scale::even(40.0, 4));
        let powers = Scale::fitting(&[3.0, 400.0], 0.5, false, 4);
        assert_eq!(powers, Scale::Powers { from: -1, to: 3, zero: false });
        let marks: Vec<_> = powers.marks().into_iter().map(|mark| mark.1).collect();
        assert_eq!(marks, ["0.1", "1", "10", "100", "1000"]);
        assert_eq!(powers.place(10.0), 2.0);
        assert_eq!(powers.place(0.0), 0.0);
    }

    #[test]
    fn zero_has_a_place_of_its_own_on_an_axis_of_powers() {
        let scale = Scale::fitting(&[2.0, 400.0], 1.0, true, 4);
        let marks = scale.marks();
        let texts: Vec<_> = marks.iter().map(|mark| mark.1.as_str()).collect();
        assert_eq!(texts, ["0", "1", "10", "100", "1000"]);
        assert_eq!([0.0, 1.0].map(|value| scale.place(value)), [marks[0].0, marks[1].0]);
    }

    #[test]
    fn nines_stand_at_even_distances() {
        let scale = Scale::Nines { end: 3.5 };
        let marks: Vec<_> = scale.marks().into_iter().map(|mark| mark.1).collect();
        assert_eq!(marks, ["0", "50", "90", "99", "99.9"]);
        assert!((scale.place(0.99) - 2.0).abs() < 1e-9);
        assert_eq!(scale.place(1.0), 3.5);
    }

    #[test]
    fn no_values_give_an_axis_all_the_same() {
        for scale in
            [Scale::fitting(&[], 0.0, true, 4), Scale::until(0.0, 4), Scale::even(f64::NAN, 4)]
        {
            assert_eq!(scale.end(), 1.0);
        }
    }
}
