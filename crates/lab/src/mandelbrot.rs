//! The tutorial's work: the Mandelbrot set on a coarse grid, drawn as a PNG.
//!
//! For c = x + iy with x from -2 to 0.5 and y from -1 to 1, both by 0.02 (125 by 100 points),
//! z -> z² + c is repeated from z = 0 until |z| > 2, at most 99 times. The points take 445,022
//! repetitions together, the same every time. The picture gives each point 5 by 5 pixels, in the
//! colours of matplotlib's `prism` over the numbers of repetitions; points that never escape
//! stay white, as matplotlib leaves what is not a number.

/// The picture of the set.
#[derive(Clone, Debug)]
pub struct Picture {
    points: Vec<u8>,
}

impl Picture {
    /// Points from left to right.
    pub const WIDTH: usize = 125;
    /// Points from top to bottom.
    pub const HEIGHT: usize = 100;

    /// Computes every point.
    #[must_use]
    pub fn compute() -> Self {
        let points = (0..Self::HEIGHT).flat_map(row).collect();
        Self { points }
    }

    /// After how many repetitions each point escaped, row by row; zero for those that never did.
    #[must_use]
    pub fn points(&self) -> &[u8] {
        &self.points
    }

    /// The picture as a PNG.
    ///
    /// # Errors
    /// Those of the encoder; none is expected.
    pub fn to_png(&self) -> Result<Vec<u8>, png::EncodingError> {
        let (width, height) = (Self::WIDTH * SCALE, Self::HEIGHT * SCALE);
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width as u32, height as u32);
        encoder.set_color(png::ColorType::Indexed);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_palette(self.palette());
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.pixels())?;
        writer.finish()?;
        Ok(file)
    }

    fn pixels(&self) -> Vec<u8> {
        let mut pixels = Vec::with_capacity(self.points.len() * SCALE * SCALE);
        for row in self.points.chunks_exact(Self::WIDTH) {
            let line: Vec<u8> = row.iter().flat_map(|&n| [n; SCALE]).collect();
            (0..SCALE).for_each(|_| pixels.extend_from_slice(&line));
        }
        pixels
    }

    /// A colour for each number of repetitions, spread over those that occur.
    fn palette(&self) -> Vec<u8> {
        let escaped = || self.points.iter().copied().filter(|&n| n != 0);
        let (least, most) = (escaped().min().unwrap_or(0), escaped().max().unwrap_or(0));
        let span = f64::from(most.saturating_sub(least)).max(1.0);
        let shade = |n: u8| prism((f64::from(n) - f64::from(least)) / span);
        (0..=LIMIT).flat_map(|n| if n == 0 { WHITE } else { shade(n) }).collect()
    }
}

/// Computes one row of points; what takes the processor's time.
pub(crate) fn row(y: usize) -> impl Iterator<Item = u8> {
    let im = -1.0 + y as f64 * STEP;
    (0..Picture::WIDTH).map(move |x| escape(-2.0 + x as f64 * STEP, im))
}

/// After how many repetitions the point escapes; zero if it does not.
fn escape(re: f64, im: f64) -> u8 {
    let (mut x, mut y) = (0.0_f64, 0.0_f64);
    for n in 1..=LIMIT {
        (x, y) = (x * x - y * y + re, 2.0 * x * y + im);
        if x * x + y * y > 4.0 {
            return n;
        }
    }
    0
}

/// matplotlib's colour map `prism` at 0.0 to 1.0.
fn prism(at: f64) -> [u8; 3] {
    let wave = |shift: f64| ((at * 20.9 + shift) * std::f64::consts::PI).sin();
    [0.75 * wave(0.25) + 0.67, 0.75 * wave(-0.25) + 0.33, -1.1 * wave(0.0)]
        .map(|level| (level.clamp(0.0, 1.0) * 255.0) as u8)
}

const STEP: f64 = 0.02;

/// The most repetitions: the tutorial's `range(1, 100)`.
const LIMIT: u8 = 99;

/// Pixels a point is wide and high: 625 by 500, about the size of matplotlib's figure.
const SCALE: usize = 5;

const WHITE: [u8; 3] = [255; 3];

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn the_set_is_the_tutorials_to_the_last_repetition() {
        let picture = Picture::compute();
        let points = picture.points();
        assert_eq!(points.len(), 12_500);
        assert_eq!(points.iter().filter(|&&n| n == 0).count(), 3_874);
        let repeated = |&n: &u8| if n == 0 { u32::from(LIMIT) } else { u32::from(n) };
        assert_eq!(points.iter().map(repeated).sum::<u32>(), 445_022);
    }

    #[test]
    fn the_png_shows_the_set() {
        let file = Picture::compute().to_png().unwrap();
        let mut decoder = png::Decoder::new(Cursor::new(file));
        decoder.set_transformations(png::Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (625, 500));
        let colour = |re: f64, im: f64| {
            let column = ((re + 2.0) / STEP).round() as usize * SCALE + SCALE / 2;
            let line = ((im + 1.0) / STEP).round() as usize * SCALE + SCALE / 2;
            let at = (line * 625 + column) * 3;
            [pixels[at], pixels[at + 1], pixels[at + 2]]
        };
        assert_eq!(colour(0.0, 0.0), WHITE, "the middle of the cardioid");
        assert_eq!(colour(-1.0, 0.0), WHITE, "the middle of the disc beside it");
        assert_ne!(colour(0.4, 0.6), WHITE, "outside");
        assert_ne!(colour(-2.0, -1.0), colour(0.4, 0.6), "far outside and near");
    }
}
