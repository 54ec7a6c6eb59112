//! M/D/c: the wait where every service takes the same time.
//!
//! With a = c r, let z(1) ... z(c-1) be the roots of z^c = exp(a (z - 1)) inside the unit circle
//! and w > 1 the one beyond it. Then, in service times:
//!
//! - no wait has the probability K = (c - a) / prod(1 - z(k));
//! - the mean wait is ((a^2 - c (c - 1)) / (2 (c - a)) + sum(1 / (1 - z(k)))) / a;
//! - a long wait t has the probability g exp(-a (w - 1) t), with
//!   g = K prod(w - z(k)) / ((a w - c) w^(c-1)).
//!
//! The first two are exact (C. D. Crommelin, "Delay probability formulae when the holding times
//! are constant", 1932). The third is the tail's exact asymptote (H. C. Tijms, "A First Course in
//! Stochastic Models", section 9.6). It is used for all waits, at most the probability to wait.
//! From half load upwards the wait that 10 % exceed is then right to 6 % of a service time, that of
//! 5 % to 3 %, that of 1 % to 1 %, that of 0.1 % to 0.5 %.
//! With one server the mean is Pollaczek and Khinchine's r / (2 (1 - r)).

use super::wait::Wait;

/// The wait before `servers` that take `service` seconds each time, used to `utilization`.
pub(super) fn wait(servers: u32, service: f64, utilization: f64) -> Wait {
    let c = f64::from(servers);
    let a = c * utilization;
    let beyond = root_beyond(utilization);
    let mut sums = Sums::default();
    for k in 1..=servers / 2 {
        let root = root_within(servers, k, utilization);
        // The roots are in pairs of conjugates, but for a real one where their number is odd.
        let times = if 2 * k == servers { 1.0 } else { 2.0 };
        sums.add(root, beyond, times);
    }
    let ln_none = libm::log(c - a) - sums.ln_one_less;
    let queue = (a * a - c * (c - 1.0)) / (2.0 * (c - a)) + sums.inverse;
    let ln_front =
        ln_none + sums.ln_beyond_less - libm::log(a * beyond - c) - (c - 1.0) * libm::log(beyond);
    Wait {
        probability: (1.0 - libm::exp(ln_none)).clamp(0.0, 1.0),
        mean: (queue / a).max(0.0) * service,
        ln_front,
        decay: a * (beyond - 1.0) / service,
    }
}

/// What is summed over the roots z within the unit circle.
#[derive(Default)]
struct Sums {
    /// ln |1 - z|
    ln_one_less: f64,
    /// ln |w - z|
    ln_beyond_less: f64,
    /// The real part of 1 / (1 - z).
    inverse: f64,
}

impl Sums {
    fn add(&mut self, root: Complex, beyond: f64, times: f64) {
        let from_one = Complex { re: 1.0 - root.re, im: -root.im };
        let from_beyond = Complex { re: beyond - root.re, im: -root.im };
        self.ln_one_less += times * libm::log(from_one.square()) / 2.0;
        self.ln_beyond_less += times * libm::log(from_beyond.square()) / 2.0;
        self.inverse += times * from_one.re / from_one.square();
    }
}

/// The root w > 1 of ln w = r (w - 1), by bisection: the left side is above up to it.
fn root_beyond(utilization: f64) -> f64 {
    let is_below_root = |w: f64| libm::log(w) > utilization * (w - 1.0);
    let mut low = 1.0 / utilization;
    let mut high = low * 2.0;
    while is_below_root(high) {
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..BISECTIONS {
        let middle = (low + high) / 2.0;
        if is_below_root(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// The k-th root of z^c = exp(a (z - 1)) within the unit circle: the fixed point of
/// z = exp(2 pi i k / c + r (z - 1)), a contraction there, by Newton's steps.
fn root_within(servers: u32, k: u32, utilization: f64) -> Complex {
    let angle = 2.0 * core::f64::consts::PI * f64::from(k) / f64::from(servers);
    let image = |z: Complex| {
        let size = libm::exp(utilization * (z.re - 1.0));
        let turn = angle + utilization * z.im;
        Complex { re: size * libm::cos(turn), im: size * libm::sin(turn) }
    };
    let mut z = image(Complex { re: 0.0, im: 0.0 });
    for _ in 0..MOST_STEPS {
        let next = image(z);
        let residue = Complex { re: z.re - next.re, im: z.im - next.im };
        if residue.square() < PRECISION * PRECISION {
            return next;
        }
        let slope = Complex { re: 1.0 - utilization * next.re, im: -utilization * next.im };
        let step = residue.over(slope);
        let newton = Complex { re: z.re - step.re, im: z.im - step.im };
        z = if newton.square() < 1.0 { newton } else { next };
    }
    z
}

#[derive(Clone, Copy)]
struct Complex {
    re: f64,
    im: f64,
}

impl Complex {
    /// The square of its absolute value.
    fn square(self) -> f64 {
        self.re * self.re + self.im * self.im
    }

    fn over(self, by: Self) -> Self {
        let square = by.square();
        Self {
            re: (self.re * by.re + self.im * by.im) / square,
            im: (self.im * by.re - self.re * by.im) / square,
        }
    }
}

/// Halves an interval to the precision of a floating-point number.
const BISECTIONS: u32 = 60;

/// Newton's steps double the digits; half a dozen are usual.
const MOST_STEPS: u32 = 200;

const PRECISION: f64 = 1e-15;

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers, utilization, probability to wait, mean wait, and the waits that 10 %, 5 %, 1 % and
    /// 0.1 % exceed, in service times: by Franx's formula ("A simple solution for the M/D/c waiting
    /// time distribution", 2001) on the solved chain of the number in the system.
    const EXACT: [(u32, f64, f64, f64, [f64; 4]); 10] = [
        (1, 0.5, 0.500_000, 0.500_000, [1.515_745, 2.050_638, 3.336_256, 5.168_385]),
        (1, 0.8, 0.800_000, 2.000_000, [5.011_511, 6.620_325, 10.355_887, 15.700_268]),
        (2, 0.5, 0.323_259, 0.176_741, [0.672_782, 0.907_029, 1.563_918, 2.478_940]),
        (2, 0.8, 0.701_898, 0.903_284, [2.397_276, 3.201_757, 5.069_551, 7.741_742]),
        (2, 0.9, 0.847_108, 2.146_923, [5.282_466, 6.955_550, 10.840_332, 16.398_198]),
        (4, 0.5, 0.163_294, 0.049_652, [0.188_780, 0.389_163, 0.710_808, 1.168_993]),
        (4, 0.8, 0.578_282, 0.386_095, [1.119_281, 1.520_495, 2.454_584, 3.790_675]),
        (4, 0.9, 0.775_437, 0.999_966, [2.560_445, 3.396_986, 5.339_377, 8.118_310]),
        (10, 0.8, 0.384_717, 0.109_828, [0.386_933, 0.543_781, 0.917_408, 1.451_599]),
        (16, 0.95, 0.762_138, 0.496_693, [1.288_689, 1.714_562, 2.703_409, 4.118_130]),
    ];

    const LATE: [f64; 4] = [0.1, 0.05, 0.01, 0.001];

    #[test]
    fn the_wait_agrees_with_the_solved_chain() {
        for (servers, utilization, probability, mean, tails) in EXACT {
            let wait = wait(servers, 1.0, utilization);
            let what = std::format!("{servers} servers at {utilization}: {wait:?}");
            assert!((wait.probability - probability).abs() < 2e-6, "{what}");
            assert!((wait.mean - mean).abs() < 2e-6, "{what}");
            let allowed = [0.06, 0.03, 0.01, 0.005];
            for ((late, exact), allowed) in LATE.into_iter().zip(tails).zip(allowed) {
                let found = wait.quantile(1.0 - late);
                assert!((found - exact).abs() <= allowed, "{late}: {found}, {exact}, {what}");
            }
        }
    }

    #[test]
    fn one_server_follows_pollaczek_and_khinchine() {
        for utilization in [1e-6, 0.1, 0.5, 0.9, 0.999] {
            let wait = wait(1, 3.0, utilization);
            let exact = 3.0 * utilization / (2.0 * (1.0 - utilization));
            assert!((wait.mean / exact - 1.0).abs() < 1e-9, "{utilization}: {wait:?}");
            assert!((wait.probability - utilization).abs() < 1e-9);
        }
    }

    #[test]
    fn ten_thousand_servers_at_any_load_have_finite_figures() {
        for utilization in [1e-9, 0.01, 0.5, 0.9, 0.999, 1.0 - 1e-9] {
            let wait = wait(10_000, 1.0, utilization);
            assert!(wait.mean.is_finite() && wait.ln_front.is_finite(), "{utilization}: {wait:?}");
            assert!((0.0..=1.0).contains(&wait.probability) && wait.decay > 0.0);
        }
    }
}
