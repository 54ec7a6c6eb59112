//! Requests of a cache: popularity by Zipf's law, scans, loops, and what was popular changing.

/// One request: the number of the object, and its size in bytes.
pub(crate) type Request = (u64, u64);

/// A random number that follows from another one: `splitmix64`.
pub(crate) fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Objects 0 to `objects`, the n-th of them asked for in proportion to `1 / (n + 1)^exponent`.
pub(crate) struct Zipf {
    /// The share of requests for the objects up to each.
    up_to: Vec<f64>,
}

impl Zipf {
    pub(crate) fn new(objects: u64, exponent: f64) -> Self {
        let mut sum = 0.0;
        let mut add = |n: u64| {
            sum += ((n + 1) as f64).powf(-exponent);
            sum
        };
        let mut up_to: Vec<f64> = (0..objects).map(&mut add).collect();
        up_to.iter_mut().for_each(|share| *share /= sum);
        Self { up_to }
    }

    pub(crate) fn draw(&self, random: u64) -> u64 {
        let draw = (random >> 11) as f64 / (1_u64 << 53) as f64;
        self.up_to.partition_point(|share| *share <= draw) as u64
    }
}

/// So many requests, always by the same popularity.
pub(crate) fn steady(zipf: &Zipf, requests: u64) -> Vec<Request> {
    (0..requests).map(|n| (zipf.draw(mixed(n)), 1)).collect()
}

/// As [`steady`], and after each `every` requests a scan over `length` objects that are asked for
/// once.
pub(crate) fn scanned(zipf: &Zipf, requests: u64, (every, length): (u64, u64)) -> Vec<Request> {
    let one = |n: u64| {
        let (round, at) = (n / (every + length), n % (every + length));
        let scan = SCANS + round * length + at.saturating_sub(every);
        if at < every { zipf.draw(mixed(n)) } else { scan }
    };
    (0..requests).map(|n| (one(n), 1)).collect()
}

/// As [`steady`], and every second request in a loop over `length` objects.
pub(crate) fn looped(zipf: &Zipf, requests: u64, length: u64) -> Vec<Request> {
    let one = |n: u64| match n % 2 {
        0 => zipf.draw(mixed(n)),
        _ => SCANS + n / 2 % length,
    };
    (0..requests).map(|n| (one(n), 1)).collect()
}

/// As [`steady`], and after each `every` requests the `step` most popular objects are others.
pub(crate) fn shifting(zipf: &Zipf, requests: u64, (every, step): (u64, u64)) -> Vec<Request> {
    let objects = zipf.up_to.len() as u64;
    let one = |n: u64| (zipf.draw(mixed(n)) + n / every * step) % objects;
    (0..requests).map(|n| (one(n), 1)).collect()
}

/// The same requests, with a size for each object: lognormal with a mean of about 16 kB and a
/// median of 10 kB, from 1 kB to 1 MB.
pub(crate) fn sized(requests: &[Request]) -> Vec<Request> {
    let size = |object: u64| {
        let normal: f64 = (0..12).map(|n| unit(mixed(object * 12 + n))).sum::<f64>() - 6.0;
        (10_000.0 * normal.exp()).clamp(1_000.0, 1_000_000.0) as u64
    };
    requests.iter().map(|(object, _)| (*object, size(*object))).collect()
}

fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

/// Objects of scans and loops have numbers from here on.
const SCANS: u64 = 1 << 40;
