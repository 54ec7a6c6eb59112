//! How much of the machine's time its host took away, which no figure can be better than.

use std::fs;

/// A reading of `/proc/stat`, to compare a later one with.
#[derive(Debug)]
pub(crate) struct Clock(Option<Ticks>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Ticks {
    all: u64,
    stolen: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self(read())
    }

    /// The stolen part of the time since the start, in per cent; not a number where unknown.
    pub(crate) fn percent(&self) -> f64 {
        let (Some(before), Some(now)) = (self.0, read()) else { return f64::NAN };
        100.0 * (now.stolen - before.stolen) as f64 / (now.all - before.all) as f64
    }
}

fn read() -> Option<Ticks> {
    parse(&fs::read_to_string("/proc/stat").ok()?)
}

/// The first line holds the sums over all cores; its first eight fields do not overlap.
fn parse(stat: &str) -> Option<Ticks> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let fields: Vec<u64> = fields.take(8).map_while(|field| field.parse().ok()).collect();
    Some(Ticks { all: fields.iter().sum(), stolen: *fields.get(7)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eighth_field_is_what_was_stolen_and_guests_are_not_counted_twice() {
        let stat = "cpu  10 0 20 60 5 0 1 4 99 99\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(parse(stat), Some(Ticks { all: 100, stolen: 4 }));
        assert_eq!(parse("cpu  10 0"), None);
    }
}
