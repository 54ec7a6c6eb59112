//! Water filling: an amount between those who want it, evenly.

use alloc::vec::Vec;

/// Divides an amount so that nobody gets more than it wants, and nobody less than another but where
/// it wants no more (max-min fairness). What does not divide goes to the first of those who want
/// more.
#[must_use]
pub fn fill(amount: u64, wanted: &[u64]) -> Vec<u64> {
    let mut sorted = wanted.to_vec();
    sorted.sort_unstable();
    let (mut left, mut level) = (amount, 0);
    for (at, want) in sorted.iter().enumerate() {
        let here = (sorted.len() - at) as u64;
        let step = want - level;
        if step.checked_mul(here).is_none_or(|all| all > left) {
            level += left / here;
            left %= here;
            return wanted
                .iter()
                .map(|want| {
                    let extra = u64::from(*want > level && left > 0);
                    left -= extra;
                    (*want).min(level) + extra
                })
                .collect();
        }
        left -= step * here;
        level = *want;
    }
    wanted.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_wants_little_gets_it_and_the_others_are_equal() {
        assert_eq!(fill(10, &[2, 9, 9]), [2, 4, 4]);
        assert_eq!(fill(11, &[9, 2, 9]), [5, 2, 4]);
        assert_eq!(fill(100, &[1, 2, 3]), [1, 2, 3]);
        assert_eq!(fill(0, &[1, 2]), [0, 0]);
        assert!(fill(5, &[]).is_empty());
        assert_eq!(fill(1, &[u64::MAX, u64::MAX]), [1, 0]);
    }
}
