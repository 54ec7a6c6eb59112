//! Erlang's C formula, and the wait that follows from it.
//!
//! C = B / (1 - r (1 - B)), with Erlang's loss B by its recursion over the servers,
//! `B(k) = a B(k-1) / (k + a B(k-1))` with a = c r. Every term is between 0 and 1, so that no power
//! and no factorial overflows at any number of servers.
//!
//! A. K. Erlang, "Solution of some problems in the theory of probabilities of significance in
//! automatic telephone exchanges", 1917. The factor (1 + cv^2) / 2: A. M. Lee and P. A. Longton,
//! "Queueing processes associated with airline passenger check-in", 1959; A. O. Allen,
//! "Probability, Statistics, and Queueing Theory", 1978, names it Allen and Cunneen's.

use super::wait::Wait;

/// The wait before `servers` of mean service time `service` seconds, used to `utilization`.
pub(super) fn wait(servers: u32, service: f64, utilization: f64, cv: f64) -> Wait {
    let mean_of_waiting = service / (f64::from(servers) * (1.0 - utilization));
    let spread = (1.0 + cv * cv) / 2.0;
    Wait::exponential(c(servers, utilization), mean_of_waiting * spread)
}

/// The probability that all servers are busy.
pub(super) fn c(servers: u32, utilization: f64) -> f64 {
    let offered = f64::from(servers) * utilization;
    let loss = (1..=servers).fold(1.0, |loss, k| {
        let refused = offered * loss;
        refused / (f64::from(k) + refused)
    });
    loss / (1.0 - utilization * (1.0 - loss))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_erlang_c_come_out() {
        for (servers, offered, waiting) in [
            (1, 0.7, 0.7),
            (2, 1.0, 1.0 / 3.0),
            (5, 4.0, 0.554_113),
            (10, 8.0, 0.409_180),
            (100, 90.0, 0.216_940),
            (1_000, 980.0, 0.412_200),
            (10_000, 9_900.0, 0.222_777),
        ] {
            let found = c(servers, offered / f64::from(servers));
            assert!((found - waiting).abs() < 1e-6, "{servers} servers, {offered}: {found}");
        }
    }
}
