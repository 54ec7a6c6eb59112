//! Figures in order, as bars with the interval in which each lies.

use loadline_measure::statistics::Interval;
use plotters::style::text_anchor::{HPos, VPos};

use super::{
    DrawError, INK, PlotError, Tone,
    panel::{Axis, Frame, Label, Panel, Stroke},
    picture::{Canvas, Picture},
};
use crate::figures::digits;

/// What is compared, in one unit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ranks {
    /// What the picture shows.
    pub(crate) title: String,
    /// What there is to see, for those who do not see it.
    pub(crate) description: String,
    /// The quantity and its unit.
    pub(crate) quantity: String,
    /// What the bars are.
    pub(crate) each: String,
    /// Left to right: the figure and where it lies; none where it has no bounds.
    pub(crate) bars: Vec<Option<(f64, Interval)>>,
    /// So many of the first are alike, and in another colour.
    pub(crate) alike: usize,
}

impl Ranks {
    /// The picture.
    pub(crate) fn draw(&self) -> Result<Picture, PlotError> {
        Picture::draw(&self.title, self.description.clone(), |canvas| self.paint(canvas))
    }

    fn paint(&self, canvas: &Canvas<'_>) -> Result<(), DrawError> {
        let y = Axis::to(&self.quantity, self.top(), 5);
        let frame = Frame {
            left: y.left(canvas.letter),
            right: canvas.width - 10,
            top: 3 * canvas.letter,
            bottom: canvas.height - 4 * canvas.letter,
        };
        let x = Axis { title: &self.each, ticks: Vec::new(), end: self.bars.len().max(1) as f64 };
        let panel = Panel::new(canvas, frame, &x, &y)?;
        for (index, bar) in self.bars.iter().enumerate() {
            self.paint_bar(&panel, index, bar.as_ref(), canvas.narrow)?;
        }
        Ok(())
    }

    /// The highest figure that is not beyond all others: one bar must not flatten the rest.
    fn top(&self) -> f64 {
        let least = self.bars.iter().flatten().map(|bar| bar.0).fold(f64::INFINITY, f64::min);
        let shown = self.bars.iter().flatten().filter(|bar| bar.0 <= MOST * least);
        shown.map(|(value, interval)| value.max(interval.high)).fold(0.0, f64::max)
    }

    fn paint_bar(
        &self,
        panel: &Panel<'_, '_>,
        index: usize,
        bar: Option<&(f64, Interval)>,
        narrow: bool,
    ) -> Result<(), DrawError> {
        let (left, top) = (index as f64, panel.y_end());
        let tone = if index < self.alike { Tone::Cool } else { Tone::Quiet };
        let number = Label::new(INK, HPos::Center, VPos::Top).shifted(0, 8);
        panel.label((left + 0.5, 0.0), &(index + 1).to_string(), number)?;
        let (height, text) = match bar {
            Some((value, _)) => (value.min(top), digits(*value)),
            None => (top, "-".to_owned()),
        };
        panel.bar(left + GAP, left + 1.0 - GAP, height, tone)?;
        let mut above = height;
        if let Some((_, Interval { low, high })) = bar
            && *high <= top
        {
            above = *high;
            let whisker = [(left + 0.5, low.max(0.0)), (left + 0.5, *high)];
            panel.line(&whisker, Tone::Warm, Stroke::Thick)?;
        }
        if narrow {
            return Ok(());
        }
        let label = Label::new(tone.color(), HPos::Center, VPos::Bottom).shifted(0, -2);
        panel.label((left + 0.5, above), &text, label)
    }
}

/// Bars of more than so many times the least are cut.
const MOST: f64 = 10.0;

/// Left and right of a bar where each has 1.
const GAP: f64 = 0.15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_that_is_far_beyond_the_others_is_cut() {
        let bar = |value: f64| Some((value, Interval { low: value * 0.9, high: value * 1.1 }));
        let ranks = Ranks {
            title: "Policies".to_owned(),
            description: "which is best".to_owned(),
            quantity: "p99, ms".to_owned(),
            each: "policy".to_owned(),
            bars: vec![bar(40.0), bar(80.0), bar(9_000.0), None],
            alike: 1,
        };
        assert!((ranks.top() - 88.0).abs() < 1e-9, "{}", ranks.top());
        let picture = ranks.draw().unwrap();
        for text in ["40", "80", "9000", "p99, ms"] {
            assert!(picture.svg().contains(text), "{text}");
        }
    }
}
