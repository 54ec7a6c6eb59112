//! Response time against rate: average and maximum of each curve on the same axes.
//!
//! The y axis is linear from zero, as the tutorials draw it: what overload does to people is a
//! matter of milliseconds, not of their logarithm, and "flat" and "sharply up" are seen at once.

use loadline_core::{time::Duration, units::Rate};
use loadline_measure::record::{Latency, Series};
use plotters::style::text_anchor::{HPos, VPos};

use super::{
    DrawError, PlotError, Tone,
    panel::{Axis, Frame, Label, Panel, Stroke},
    picture::{Canvas, Picture},
    spread::spread,
};
use crate::figures::millis;

/// One curve: points in the order of their rates.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What its colour stands for.
    pub tone: Tone,
    /// Its name and points.
    pub series: Series,
}

/// A rate worth a dashed line of its own, such as a capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The rate at which it stands.
    pub rate: Rate,
    /// Its text, a few words.
    pub text: String,
}

/// Draws average (thick) and maximum (thin) response time of every curve against rate.
///
/// # Errors
/// [`PlotError`] where the drawing library fails.
pub fn response_against_rate(
    title: &str,
    curves: &[Curve],
    marks: &[Mark],
) -> Result<Picture, PlotError> {
    Picture::draw(title, describe(curves), |canvas| paint(canvas, curves, marks))
}

fn paint(canvas: &Canvas<'_>, curves: &[Curve], marks: &[Mark]) -> Result<(), DrawError> {
    let frame = Frame {
        left: 52,
        right: canvas.width - if canvas.narrow { 76 } else { 216 },
        top: 3 * canvas.letter,
        bottom: canvas.height - 4 * canvas.letter,
    };
    let wanted = if canvas.narrow { 4 } else { 8 };
    let x = Axis::to("requests per second", top_rate(curves), wanted);
    let y = Axis::to("response time, ms", top_millis(curves), 5);
    let panel = Panel::new(canvas, frame, &x, &y)?;
    for mark in marks {
        draw_mark(&panel, mark)?;
    }
    for curve in curves {
        let (mean, max) = (points(curve, |latency| latency.mean), points(curve, |l| l.max));
        panel.line(&max, curve.tone, Stroke::Thin)?;
        panel.line(&mean, curve.tone, Stroke::Thick)?;
        panel.dots(&mean, curve.tone)?;
    }
    if canvas.narrow {
        name_curves(&panel, curves, canvas)?;
    }
    label_ends(&panel, curves, canvas)
}

fn draw_mark(panel: &Panel<'_, '_>, mark: &Mark) -> Result<(), DrawError> {
    let x = mark.rate.as_per_sec_f64();
    panel.line(&[(x, 0.0), (x, panel.y_end())], Tone::Quiet, Stroke::Dashed)?;
    let label = Label::new(Tone::Quiet.color(), HPos::Right, VPos::Top).shifted(-6, 4);
    panel.label((x, panel.y_end()), &mark.text, label)
}

/// Names the colours in the upper left corner, where there is no room for names at the ends.
fn name_curves(
    panel: &Panel<'_, '_>,
    curves: &[Curve],
    canvas: &Canvas<'_>,
) -> Result<(), DrawError> {
    let corner = panel.pixel((0.0, panel.y_end()));
    (0..).zip(curves).try_for_each(|(line, curve)| {
        let down = 4 + (line + 1) * (canvas.letter + 6);
        let label = Label::new(curve.tone.color(), HPos::Left, VPos::Top).bold();
        panel.label_at(corner, &curve.series.name, label.shifted(4, down))
    })
}

/// Names the end of each line beside it, where a legend would send the eye away.
fn label_ends(
    panel: &Panel<'_, '_>,
    curves: &[Curve],
    canvas: &Canvas<'_>,
) -> Result<(), DrawError> {
    let ends: Vec<_> = curves.iter().flat_map(|curve| ends(curve, canvas.narrow)).collect();
    let wanted: Vec<i32> = ends.iter().map(|end| panel.pixel(end.point).1).collect();
    let frame = panel.frame();
    let placed = spread(&wanted, canvas.letter + 4, frame.top, frame.bottom - canvas.letter / 2);
    for (end, y) in ends.iter().zip(placed) {
        let mut label = Label::new(end.tone.color(), HPos::Left, VPos::Center).shifted(9, 0);
        label.bold = end.bold;
        panel.label_at((panel.pixel(end.point).0, y), &end.text, label)?;
    }
    Ok(())
}

struct End {
    tone: Tone,
    point: (f64, f64),
    text: String,
    bold: bool,
}

fn ends(curve: &Curve, short: bool) -> Vec<End> {
    let Some((rate, latency)) = curve.series.points.last() else {
        return Vec::new();
    };
    let end = |what: &str, span: Duration, bold| End {
        tone: curve.tone,
        point: (rate.as_per_sec_f64(), span.as_millis_f64()),
        text: if short {
            format!("{what} {:.0}", span.as_millis_f64())
        } else {
            format!("{}, {what} {}", curve.series.name, millis(span))
        },
        bold,
    };
    vec![end("max", latency.max, false), end("avg", latency.mean, true)]
}

fn points(curve: &Curve, of: impl Fn(&Latency) -> Duration) -> Vec<(f64, f64)> {
    let point =
        |(rate, latency): &(Rate, Latency)| (rate.as_per_sec_f64(), of(latency).as_millis_f64());
    curve.series.points.iter().map(point).collect()
}

fn top_rate(curves: &[Curve]) -> f64 {
    let rates = curves.iter().flat_map(|curve| &curve.series.points);
    rates.map(|(rate, _)| rate.as_per_sec_f64()).fold(0.0, f64::max)
}

fn top_millis(curves: &[Curve]) -> f64 {
    let points = curves.iter().flat_map(|curve| &curve.series.points);
    points.map(|(_, latency)| latency.max.as_millis_f64()).fold(0.0, f64::max)
}

fn describe(curves: &[Curve]) -> String {
    let sentence = |curve: &Curve| {
        let points = &curve.series.points;
        let (Some((low, first)), Some((high, last))) = (points.first(), points.last()) else {
            return format!("{}: no points.", curve.series.name);
        };
        format!(
            "{}: the average goes from {} at {low} to {} at {high}, the maximum from {} to {}.",
            curve.series.name,
            millis(first.mean),
            millis(last.mean),
            millis(first.max),
            millis(last.max),
        )
    };
    curves.iter().map(sentence).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn curve(name: &str, tone: Tone, points: &[(u64, u64, u64)]) -> Curve {
        let point = |&(rate, mean, max): &(u64, u64, u64)| {
            let (mean, max) = (Duration::from_millis(mean), Duration::from_millis(max));
            (Rate::per_sec(rate), Latency { mean, max, ..Latency::default() })
        };
        let points = points.iter().map(point).collect();
        Curve { tone, series: Series { name: name.into(), points } }
    }

    #[test]
    fn both_curves_and_the_mark_are_named_on_the_picture() {
        let curves = [
            curve("one region", Tone::Warm, &[(50, 39, 41), (100, 41, 60), (200, 371, 710)]),
            curve("two regions", Tone::Cool, &[(50, 39, 41), (100, 42, 61), (200, 58, 97)]),
        ];
        let mark = Mark { rate: Rate::per_sec(158), text: "3 servers carry 158/s".into() };
        let picture = response_against_rate("Response time", &curves, &[mark]).unwrap();
        let texts = [
            "one region, avg 371 ms", "two regions, max 97.0 ms", "3 servers carry 158/s",
            "response time, ms", "requests per second",
        ];
        for text in texts {
            assert!(picture.svg().contains(text), "{text} is missing");
        }
        assert!(picture.description.contains("from 39.0 ms at 50/s to 371 ms at 200/s"));
    }

    #[test]
    fn no_points_give_empty_axes() {
        let curves = [curve("nothing", Tone::Cool, &[])];
        assert!(response_against_rate("Empty", &curves, &[]).unwrap().svg().ends_with("</svg>\n"));
    }
}
