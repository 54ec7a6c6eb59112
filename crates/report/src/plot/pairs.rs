//! Published figures and measured ones side by side, as bars.

use plotters::style::text_anchor::{HPos, VPos};

use super::{
    DrawError, INK, PlotError, Tone,
    panel::{Axis, Frame, Label, Panel, Stroke},
    picture::{Canvas, Picture},
};

/// What to compare, in one unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairs {
    /// The quantity and its unit, "average response time, ms".
    pub quantity: String,
    /// What the pairs are, "run".
    pub each: String,
    /// The pairs, left to right.
    pub pairs: Vec<Pair>,
    /// The highest value a measured figure may have, and its name.
    pub limit: Option<(f64, String)>,
}

/// One published figure and the measured one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Published.
    pub published: f64,
    /// Measured, scaled to be comparable.
    pub measured: f64,
}

/// Draws each pair as two bars, published grey and measured blue, with their values on top.
///
/// # Errors
/// [`PlotError`] where the drawing library fails.
pub fn compare(title: &str, pairs: &Pairs) -> Result<Picture, PlotError> {
    Picture::draw(title, describe(pairs), |canvas| paint(canvas, pairs))
}

fn paint(canvas: &Canvas<'_>, pairs: &Pairs) -> Result<(), DrawError> {
    let frame = Frame {
        left: 52,
        right: canvas.width - 10,
        top: 3 * canvas.letter,
        bottom: canvas.height - 4 * canvas.letter,
    };
    let values = pairs.pairs.iter().flat_map(|pair| [pair.published, pair.measured]);
    let y = Axis::to(&pairs.quantity, values.fold(0.0, f64::max), 5);
    let x = Axis { title: &pairs.each, ticks: Vec::new(), end: pairs.pairs.len().max(1) as f64 };
    let panel = Panel::new(canvas, frame, &x, &y)?;
    for (index, pair) in pairs.pairs.iter().enumerate() {
        draw_pair(&panel, index as f64, *pair, !canvas.narrow)?;
        let number = Label::new(INK, HPos::Center, VPos::Top).shifted(0, 8);
        panel.label((index as f64 + 0.5, 0.0), &(index + 1).to_string(), number)?;
    }
    draw_limit(&panel, pairs)?;
    name_bars(&panel, pairs, canvas)
}

fn draw_pair(panel: &Panel<'_, '_>, left: f64, pair: Pair, bold: bool) -> Result<(), DrawError> {
    let bars = [(0.10, pair.published, Tone::Quiet), (0.51, pair.measured, Tone::Cool)];
    for (offset, value, tone) in bars {
        let from = left + offset;
        panel.bar(from, from + BAR, value, tone)?;
        let mut label = Label::new(tone.color(), HPos::Center, VPos::Bottom).shifted(0, -2);
        label.bold = bold;
        panel.label((from + BAR / 2.0, value), &format!("{value:.0}"), label)?;
    }
    Ok(())
}

/// The line measured bars must stay under.
fn draw_limit(panel: &Panel<'_, '_>, pairs: &Pairs) -> Result<(), DrawError> {
    let Some((limit, _)) = &pairs.limit else {
        return Ok(());
    };
    let y = limit.min(panel.y_end());
    panel.line(&[(0.0, y), (panel.x_end(), y)], Tone::Quiet, Stroke::Dashed)
}

/// What the colours and the dashed line are, in the upper right corner where bars are low.
fn name_bars(panel: &Panel<'_, '_>, pairs: &Pairs, canvas: &Canvas<'_>) -> Result<(), DrawError> {
    let corner = panel.pixel((panel.x_end(), panel.y_end()));
    let limit = pairs.limit.as_ref().map(|(limit, name)| format!("- - {name} {limit:.0}"));
    let names = [
        Some(("published".to_owned(), Tone::Quiet, true)),
        Some(("measured".to_owned(), Tone::Cool, true)),
        limit.map(|text| (text, Tone::Quiet, false)),
    ];
    for (line, (name, tone, bold)) in (0..).zip(names.into_iter().flatten()) {
        let down = 4 + line * (canvas.letter + 6);
        let mut label = Label::new(tone.color(), HPos::Right, VPos::Top).shifted(0, down);
        label.bold = bold;
        panel.label_at(corner, &name, label)?;
    }
    Ok(())
}

fn describe(pairs: &Pairs) -> String {
    let sentence = |(index, pair): (usize, &Pair)| {
        let (published, measured) = (pair.published, pair.measured);
        format!("{} {}: published {published:.0}, measured {measured:.0}.", pairs.each, index + 1)
    };
    pairs.pairs.iter().enumerate().map(sentence).collect::<Vec<_>>().join(" ")
}

/// Width of a bar where a pair has 1.
const BAR: f64 = 0.39;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn published() -> Pairs {
        let pairs = [6396.8, 3782.9, 860.0, 700.8, 701.8]
            .map(|published| Pair { published, measured: 580.0 });
        Pairs {
            quantity: "average response time, ms".into(),
            each: "run".into(),
            pairs: pairs.to_vec(),
            limit: Some((630.0, "at most".into())),
        }
    }

    #[test]
    fn every_value_stands_on_its_bar() {
        let picture = compare("Five runs", &published()).unwrap();
        for text in ["6397", "3783", "860", "701", "702", "580", "at most 630"] {
            assert!(picture.svg().contains(text), "{text} is missing");
        }
        assert!(picture.description.contains("run 1: published 6397, measured 580."));
    }
}
