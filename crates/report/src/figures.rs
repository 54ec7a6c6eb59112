//! Figures as people read them: three digits that matter, the unit always there.

use loadline_core::{time::Duration, units::Ratio};

/// Milliseconds: `0.38 ms`, `38.4 ms`, `371 ms`, `11076 ms`.
#[must_use]
pub fn millis(span: Duration) -> String {
    let ms = span.as_millis_f64();
    let decimals = match ms {
        ms if ms < 0.995 => 2,
        ms if ms < 99.95 => 1,
        _ => 0,
    };
    format!("{ms:.decimals$} ms")
}

/// A share in percent: `0.5 %`, `49.8 %`, `100 %`; one decimal unless it is whole.
#[must_use]
pub fn percent(share: Ratio) -> String {
    let percent = share.as_f64() * 100.0;
    if (percent - percent.round()).abs() < 0.05 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_that_matter_and_the_unit() {
        let cases = [
            (384_500, "384 ms"),
            (11_075_500, "11076 ms"),
            (38_449, "38.4 ms"),
            (99_960, "100 ms"),
            (996, "1.0 ms"),
            (380, "0.38 ms"),
            (0, "0.00 ms"),
        ];
        for (micros, text) in cases {
            assert_eq!(millis(Duration::from_micros(micros)), text);
        }
    }

    #[test]
    fn a_whole_share_has_no_decimal() {
        assert_eq!(percent(Ratio::ONE), "100 %");
        assert_eq!(percent(Ratio::part(249, 500)), "49.8 %");
        assert_eq!(percent(Ratio::ZERO), "0 %");
    }
}
