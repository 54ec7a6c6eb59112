//! Sums made of parts, one bar each: how long the phases of a request took, run by run.

use plotters::{
    element::Rectangle,
    style::{
        Color,
        text_anchor::{HPos, VPos},
    },
};

use super::{
    DrawError, INK, PlotError, Tone,
    lines::shortened,
    panel::{Axis, Frame, Label, Panel},
    picture::{Canvas, Picture},
    scale::Scale,
};

/// Bars made of parts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layers {
    /// What the picture shows.
    pub(crate) title: String,
    /// What there is to see, for those who do not see it.
    pub(crate) description: String,
    /// The quantity and its unit.
    pub(crate) quantity: String,
    /// The parts in their order, with their colours.
    pub(crate) parts: Vec<(String, Tone)>,
    /// The name of each bar, and its parts in the same order.
    pub(crate) bars: Vec<(String, Vec<f64>)>,
}

impl Layers {
    /// The picture.
    pub(crate) fn draw(&self) -> Result<Picture, PlotError> {
        let bars = self.bars.len() as i32;
        let heights = (100 + 48 * bars, 120 + 46 * bars);
        Picture::draw_in(&self.title, self.description.clone(), heights, |canvas| {
            self.paint(canvas)
        })
    }

    fn paint(&self, canvas: &Canvas<'_>) -> Result<(), DrawError> {
        let row = canvas.letter + 5;
        let places = self.legend(canvas);
        let rows = places.last().map_or(0, |place| place.1 + 1);
        let frame = Frame {
            left: 14,
            right: canvas.width - 50,
            top: row * rows + 6,
            bottom: canvas.height - 7 * canvas.letter / 2,
        };
        let sum = |bar: &(String, Vec<f64>)| bar.1.iter().sum::<f64>();
        let wanted = if canvas.narrow { 4 } else { 8 };
        let x = Scale::even(self.bars.iter().map(sum).fold(0.0, f64::max), wanted);
        let bare = |end| Axis { title: "", ticks: Vec::new(), end };
        let panel = Panel::new(canvas, frame, &bare(x.end()), &bare(self.bars.len() as f64))?;
        for (at, text) in x.marks() {
            panel.mark_x(at, &text)?;
        }
        panel.title_x(&self.quantity)?;
        for ((name, tone), (left, row_of)) in self.parts.iter().zip(places) {
            let y = row_of * row + row / 2;
            let corners = [(left, y - 5), (left + SWATCH, y + 5)];
            canvas.root.draw(&Rectangle::new(corners, tone.color().filled()))?;
            let label = Label::new(tone.color(), HPos::Left, VPos::Center);
            panel.label_at((left + SWATCH + 6, y), name, label)?;
        }
        let down = |index: usize| (self.bars.len() - index) as f64;
        self.bars
            .iter()
            .enumerate()
            .try_for_each(|(index, bar)| self.paint_bar(canvas, &panel, bar, down(index)))
    }

    /// The name above, the parts below it, their sum at the end.
    fn paint_bar(
        &self,
        canvas: &Canvas<'_>,
        panel: &Panel<'_, '_>,
        (name, values): &(String, Vec<f64>),
        top: f64,
    ) -> Result<(), DrawError> {
        let label = Label::new(INK, HPos::Left, VPos::Top).shifted(0, 5);
        panel.label((0.0, top), &shortened(name, if canvas.narrow { 40 } else { 80 }), label)?;
        let (upper, lower) = (top - 0.55, top - 0.93);
        let mut from = 0.0;
        for (value, (_, tone)) in values.iter().zip(&self.parts) {
            let to = from + value;
            if *value > 0.0 {
                let corners = [panel.pixel((from, upper)), panel.pixel((to, lower))];
                canvas.root.draw(&Rectangle::new(corners, tone.color().filled()))?;
            }
            from = to;
        }
        let label = Label::new(INK, HPos::Left, VPos::Center).shifted(6, 0);
        panel.label((from, f64::midpoint(upper, lower)), &crate::figures::digits(from), label)
    }

    /// Left edge and row of each part's name.
    fn legend(&self, canvas: &Canvas<'_>) -> Vec<(i32, i32)> {
        let (mut left, mut row) = (LEFT, 0);
        let place = |(name, _): &(String, Tone)| {
            let width = SWATCH + 20 + name.chars().count() as i32 * canvas.letter * 58 / 100;
            if left > LEFT && left + width > canvas.width {
                (left, row) = (LEFT, row + 1);
            }
            let place = (left, row);
            left += width;
            place
        };
        self.parts.iter().map(place).collect()
    }
}

/// Where names of parts begin, in pixels.
const LEFT: i32 = 14;
/// The width of a part's sample beside its name.
const SWATCH: i32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_bars_and_sums_are_named() {
        let layers = Layers {
            title: "Phases".into(),
            description: "Two.".into(),
            quantity: "mean, ms".into(),
            parts: vec![("connect".into(), Tone::Warm), ("body".into(), Tone::Cool)],
            bars: vec![("run <a>".into(), vec![1.5, 2.0]), ("run b".into(), vec![0.0, 0.0])],
        };
        let picture = layers.draw().unwrap();
        for text in ["connect\n", "body\n", "run &lt;a&gt;", "run b", "3.50\n", "mean, ms"] {
            assert!(picture.svg().contains(text), "{text:?} is missing");
        }
    }
}
