//! Figures of the evidence as people read them.

use loadline_core::time::Duration;

/// `0.4 s`, `12 s`.
pub(super) fn secs(time: Duration) -> String {
    let secs = time.as_secs_f64();
    if secs < 9.95 { format!("{secs:.1} s") } else { format!("{secs:.0} s") }
}

/// A share as `0.4 %`, `21 %`; one decimal below ten.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 9.95 && percent > 0.0 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// A rate of bytes as a network's: `22.5 MB/s (180 Mb/s)`.
pub(super) fn rate(bytes_per_s: f64) -> String {
    format!("{} ({})", scaled(bytes_per_s, "B/s"), bits(bytes_per_s))
}

/// A rate of bytes in bits: `180 Mb/s`.
pub(super) fn bits(bytes_per_s: f64) -> String {
    scaled(bytes_per_s * 8.0, "b/s")
}

fn scaled(value: f64, unit: &str) -> String {
    let prefixes = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let found = prefixes.into_iter().find(|(size, _)| value >= 0.9995 * size);
    let (size, prefix) = found.unwrap_or((1.0, ""));
    let value = value / size;
    if value < 99.95 && !prefix.is_empty() {
        format!("{value:.1} {prefix}{unit}")
    } else {
        format!("{value:.0} {prefix}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_that_matter_and_their_unit() {
        assert_eq!(rate(22_500_000.0), "22.5 MB/s (180 Mb/s)");
        assert_eq!(rate(0.0), "0 B/s (0 b/s)");
        assert_eq!(bits(125_000_000.0), "1.0 Gb/s");
        assert_eq!(percent(0.21), "21 %");
        assert_eq!(percent(0.004), "0.4 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(secs(Duration::from_millis(400)), "0.4 s");
        assert_eq!(secs(Duration::from_secs(12)), "12 s");
    }
}
