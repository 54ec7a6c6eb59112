//! Times by number: each request of a series as a point, in the order in which they were sent.
//!
//! This is the picture of the latency tutorial, the first 500 requests: a floor that is distance,
//! and above it the requests that opened a connection somewhere on the way. The y axis is linear
//! from zero, because the tutorial's argument is one of multiples of a round trip. Where a few
//! times are far above all others they would flatten everything else; they stand at the upper
//! edge then, as triangles.

use loadline_core::time::Duration;
use loadline_measure::statistics::sample;
use plotters::{
    element::{Circle, PathElement, TriangleMarker},
    style::{
        Color, RGBColor, ShapeStyle,
        text_anchor::{HPos, VPos},
    },
};

use super::{
    DrawError, INK, PlotError, Tone,
    lines::shortened,
    panel::{Axis, Frame, Label, Panel},
    picture::{Canvas, NARROW, Picture, WIDE, size, text_width},
    spread::spread,
};
use crate::figures::millis;

/// A series: the points of one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dots {
    /// Its name; of a long one the picture has the beginning and the end.
    pub name: String,
    /// Its points, in the order of their numbers.
    pub points: Vec<Dot>,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dot {
    /// Counts from 1.
    pub number: u64,
    /// How long it took; none where it failed.
    pub time: Option<Duration>,
    /// Whether it had to open a connection where others did not; drawn as a ring.
    pub cold: bool,
}

/// Draws the points of every series on the same axes.
///
/// # Errors
/// [`PlotError`] where the drawing library fails.
pub fn times_by_number(title: &str, series: &[Dots]) -> Result<Picture, PlotError> {
    let heights = (WIDE.1, NARROW.1 + names_height(series, size(true).1));
    Picture::draw_in(title, describe(series), heights, |canvas| paint(canvas, series))
}

/// Where the axis of such a picture should end: the longest time, or where that is more than four
/// times the 95th percentile, twice that percentile. Zero where there are no times.
#[must_use]
pub fn scatter_top(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    let Some(longest) = times.last().copied() else { return Duration::ZERO };
    let p95 = times[(times.len() * 95).div_ceil(100) - 1];
    if longest > p95 * 4 { p95 * 2 } else { longest }
}

fn paint(canvas: &Canvas<'_>, series: &[Dots]) -> Result<(), DrawError> {
    let names = if canvas.narrow { names_height(series, canvas.letter) } else { 0 };
    let numbers = series.iter().flat_map(|dots| &dots.points).map(|dot| dot.number);
    let last = numbers.max().unwrap_or_default() as f64;
    let top = scatter_top(series.iter().flat_map(good)).as_millis_f64();
    let x = Axis::to("request", last, if canvas.narrow { 4 } else { 6 });
    let y = Axis::to("time, ms", top, 5);
    let frame = Frame {
        left: y.left(canvas.letter),
        right: canvas.width - if canvas.narrow { 24 } else { 216 },
        top: names + 3 * canvas.letter,
        bottom: canvas.height - 4 * canvas.letter,
    };
    let panel = Panel::new(canvas, frame, &x, &y)?;
    for (index, dots) in series.iter().enumerate() {
        for dot in &dots.points {
            draw_dot(&panel, canvas, dot, Tone::Run(index).color())?;
        }
    }
    match canvas.narrow {
        true => name_above(&panel, canvas, series),
        false => name_beside(&panel, canvas, series),
    }
}

fn draw_dot(
    panel: &Panel<'_, '_>,
    canvas: &Canvas<'_>,
    dot: &Dot,
    color: RGBColor,
) -> Result<(), DrawError> {
    let x = dot.number as f64;
    let Some(time) = dot.time else {
        let (x, y) = panel.pixel((x, 0.0));
        let tick = PathElement::new(vec![(x, y + 2), (x, y - 8)], line(color));
        return canvas.root.draw(&tick);
    };
    let ms = time.as_millis_f64();
    let at = panel.pixel((x, ms.min(panel.y_end())));
    if ms > panel.y_end() {
        return canvas.root.draw(&TriangleMarker::new(at, 5, color.filled()));
    }
    match dot.cold {
        true => canvas.root.draw(&Circle::new(at, 4, line(color))),
        false => canvas.root.draw(&Circle::new(at, 2, color.mix(0.7).filled())),
    }
}

/// Names each series in a row of its own above the axes.
fn name_above(
    panel: &Panel<'_, '_>,
    canvas: &Canvas<'_>,
    series: &[Dots],
) -> Result<(), DrawError> {
    (0..).zip(series).try_for_each(|(index, dots)| {
        let value = median(dots).map_or("none".into(), |time| format!("median {}", millis(time)));
        let text = format!("{}, {value}", shortened(&dots.name, NAME_ABOVE));
        let y = 4 + names_height(&series[..index], canvas.letter);
        let label = Label::new(Tone::Run(index).color(), HPos::Left, VPos::Top);
        panel.label_at((4, y), &text, label.bold())
    })
}

/// The height of the names of these series above each other.
fn names_height(series: &[Dots], letter: i32) -> i32 {
    series.len() as i32 * (letter + 5)
}

/// Names each series beside its median.
fn name_beside(
    panel: &Panel<'_, '_>,
    canvas: &Canvas<'_>,
    series: &[Dots],
) -> Result<(), DrawError> {
    let level = |dots: &Dots| median(dots).map_or(0.0, Duration::as_millis_f64);
    let height = |dots: &Dots| panel.pixel((0.0, level(dots).min(panel.y_end()))).1;
    let wanted: Vec<_> = series.iter().map(height).collect();
    let frame = panel.frame();
    let placed = spread(&wanted, canvas.letter + 4, frame.top, frame.bottom - canvas.letter / 2);
    let letters = (canvas.width - frame.right - 9 - canvas.letter) / text_width("n", canvas.letter);
    let letters = usize::try_from(letters).unwrap_or(0);
    if !series.is_empty() {
        let above = Label::new(INK, HPos::Left, VPos::Bottom).shifted(9, 0);
        panel.label_at((frame.right, frame.top - canvas.letter), "median", above)?;
    }
    for (index, (dots, y)) in series.iter().zip(placed).enumerate() {
        let value = median(dots).map_or_else(|| "none".to_owned(), millis);
        let room = letters.saturating_sub(value.chars().count() + 2).max(3);
        let text = format!("{}, {value}", shortened(&dots.name, room));
        let label = Label::new(Tone::Run(index).color(), HPos::Left, VPos::Center).shifted(9, 0);
        panel.label_at((frame.right, y), &text, label.bold())?;
    }
    Ok(())
}

/// The median of a series, as tables have it.
fn median(dots: &Dots) -> Option<Duration> {
    let mut times: Vec<_> = good(dots).collect();
    times.sort_unstable();
    sample::quantile(&times, 0.5)
}

fn good(dots: &Dots) -> impl Iterator<Item = Duration> {
    dots.points.iter().filter_map(|dot| dot.time)
}

fn line(color: RGBColor) -> ShapeStyle {
    ShapeStyle::from(color).stroke_width(1)
}

fn describe(series: &[Dots]) -> String {
    let sentence = |dots: &Dots| {
        let failed = dots.points.iter().filter(|dot| dot.time.is_none()).count();
        let (Some(min), Some(max)) = (good(dots).min(), good(dots).max()) else {
            return format!("{}: no times, {failed} failed.", dots.name);
        };
        let median = median(dots).map_or(String::new(), millis);
        format!(
            "{}: {} requests from {} to {}, median {median}, {failed} failed.",
            dots.name,
            dots.points.len(),
            millis(min),
            millis(max),
        )
    };
    series.iter().map(sentence).collect::<Vec<_>>().join(" ")
}

/// Letters of a name above the axes, with room for the median on a phone.
const NAME_ABOVE: usize = 24;

#[cfg(test)]
mod tests {
    use super::{super::picture::tests::overlapping, *};

    fn dots(name: &str, ms: &[u64]) -> Dots {
        let dot = |(number, ms): (u64, &u64)| Dot {
            number,
            time: (*ms > 0).then(|| Duration::from_millis(*ms)),
            cold: number == 1,
        };
        Dots { name: name.to_owned(), points: (1..).zip(ms).map(dot).collect() }
    }

    #[test]
    fn each_request_is_a_point_and_each_series_is_named() {
        let series = [dots("net-lb", &[231; 40]), dots("http-lb", &[309, 230, 123, 124])];
        let picture = times_by_number("The first requests", &series).unwrap();
        let svg = picture.svg();
        assert_eq!(svg.matches("<circle").count(), 44);
        for text in ["net-lb, 231 ms", "http-lb, 124 ms", "median\n", "time, ms", "request"] {
            assert!(svg.contains(text), "{text} is missing");
        }
        assert!(picture.description.contains("http-lb: 4 requests from 123 ms to 309 ms"));
    }

    #[test]
    fn the_name_of_a_series_is_shortened_to_what_fits_beside_the_axes() {
        let name = "shop-of-the-far-region.example.com:8443/status";
        let picture = times_by_number("x", &[dots(name, &[231; 4])]).unwrap();
        assert!(picture.svg().contains("shop-of…/status, 231 ms"), "{}", picture.svg());
        assert!(picture.description.contains(name));
    }

    #[test]
    fn a_phone_shows_the_addresses_and_medians_whole() {
        let series = [dots("127.0.0.1:18080", &[231; 4]), dots("127.0.0.1:18081", &[0; 4])];
        let picture = times_by_number("x", &series).unwrap();
        for text in ["127.0.0.1:18080, median 231 ms", "127.0.0.1:18081, none"] {
            assert!(picture.narrow.contains(text), "{text:?} is not in {}", picture.narrow);
        }
        assert_eq!(overlapping(&picture), []);
    }

    #[test]
    fn the_value_at_a_series_is_its_median() {
        let picture = times_by_number("x", &[dots("a", &[5, 5, 5, 9, 9])]).unwrap();
        assert!(picture.svg().contains("a, 5.0 ms"), "{}", picture.svg());
        assert!(picture.description.contains("median 5.0 ms"), "{}", picture.description);
    }

    #[test]
    fn what_failed_is_no_point_and_what_is_far_above_all_others_is_marked_at_the_edge() {
        let mut ms = [10; 100];
        (ms[3], ms[4]) = (0, 5_000);
        let picture = times_by_number("x", &[dots("a", &ms)]).unwrap();
        assert_eq!(picture.svg().matches("<circle").count(), 98);
        assert_eq!(picture.svg().matches("<polygon").count(), 1);
        assert!(picture.description.contains("1 failed"));
    }

    #[test]
    fn the_axis_ends_at_the_longest_unless_it_would_flatten_the_rest() {
        let top = |ms: &[u64]| scatter_top(ms.iter().map(|ms| Duration::from_millis(*ms)));
        assert_eq!(top(&[]), Duration::ZERO);
        assert_eq!(top(&[10, 40]), Duration::from_millis(40));
        let mut many = vec![10; 100];
        many[0] = 5_000;
        assert_eq!(top(&many), Duration::from_millis(20));
    }

    #[test]
    fn no_series_and_no_times_give_empty_axes() {
        for series in [vec![], vec![dots("a", &[])], vec![dots("a", &[0, 0])]] {
            assert!(times_by_number("x", &series).unwrap().svg().ends_with("</svg>\n"));
        }
    }
}
