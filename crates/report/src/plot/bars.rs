//! Grouped bars: a group for each value of something, in it a bar for each of those compared.

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
};
use crate::figures::digits;

/// Groups of bars, in one unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// What the picture shows.
    pub title: String,
    /// What there is to see, for those who do not see it.
    pub description: String,
    /// The quantity and its unit.
    pub quantity: String,
    /// What the groups are.
    pub each: String,
    /// What is compared in each group, with its colour.
    pub parts: Vec<(String, Tone)>,
    /// The groups, left to right.
    pub groups: Vec<Group>,
}

/// One group: a value for each part, none where there is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// Its name, below it.
    pub name: String,
    /// Its bars, in the order of the parts.
    pub values: Vec<Option<f64>>,
}

impl Bars {
    /// The picture.
    ///
    /// # Errors
    /// [`PlotError`] where the drawing library fails.
    pub fn draw(&self) -> Result<Picture, PlotError> {
        let more = 18 * (self.parts.len() as i32 / 3);
        let heights = (360 + more, 300 + 2 * more);
        Picture::draw_in(&self.title, self.description.clone(), heights, |canvas| {
            self.paint(canvas)
        })
    }

    fn paint(&self, canvas: &Canvas<'_>) -> Result<(), DrawError> {
        let row = canvas.letter + 6;
        let places = self.legend(canvas);
        let rows = places.last().map_or(0, |place| place.1 + 1);
        let values = self.groups.iter().flat_map(|group| group.values.iter().flatten());
        let y = Axis::to("", values.copied().fold(0.0, f64::max), 5);
        let frame = Frame {
            left: y.left(canvas.letter),
            right: canvas.width - 10,
            top: row * (rows + 1) + canvas.letter,
            bottom: canvas.height - 4 * canvas.letter,
        };
        let count = self.groups.len().max(1) as f64;
        let panel =
            Panel::new(canvas, frame, &Axis { title: "", ticks: Vec::new(), end: count }, &y)?;
        let ink = Label::new(INK, HPos::Left, VPos::Top);
        panel.label_at((4, row * rows + 4), &self.quantity, ink)?;
        panel.title_x(&self.each)?;
        for ((name, tone), (left, line)) in self.parts.iter().zip(places) {
            let y = line * row + row / 2;
            let corners = [(left, y - 5), (left + SWATCH, y + 5)];
            canvas.root.draw(&Rectangle::new(corners, tone.color().filled()))?;
            let label = Label::new(tone.color(), HPos::Left, VPos::Center);
            panel.label_at((left + SWATCH + 6, y), &shortened(name, NAME), label)?;
        }
        let groups = self.groups.iter().enumerate();
        groups.into_iter().try_for_each(|(index, group)| self.paint_group(&panel, index, group))
    }

    fn paint_group(
        &self,
        panel: &Panel<'_, '_>,
        index: usize,
        group: &Group,
    ) -> Result<(), DrawError> {
        let left = index as f64;
        let width = (1.0 - GAP) / self.parts.len().max(1) as f64;
        // A value stands above its bar where there is room for it.
        let room = panel.pixel((width, 0.0)).0 - panel.pixel((0.0, 0.0)).0 >= ROOM;
        for (part, (value, (_, tone))) in group.values.iter().zip(&self.parts).enumerate() {
            let Some(value) = value else { continue };
            let from = left + GAP / 2.0 + part as f64 * width;
            panel.bar(from, from + width * 0.92, *value, *tone)?;
            if room {
                let label = Label::new(tone.color(), HPos::Center, VPos::Bottom).shifted(0, -2);
                panel.label((from + width * 0.46, *value), &shown(*value), label)?;
            }
        }
        let most = (panel.pixel((1.0, 0.0)).0 - panel.pixel((0.0, 0.0)).0) / 7;
        let name = shortened(&group.name, usize::try_from(most).unwrap_or(3).max(3));
        let label = Label::new(INK, HPos::Center, VPos::Top).shifted(0, 8);
        panel.label((left + 0.5, 0.0), &name, label)
    }

    /// Left edge and row of each part's name.
    fn legend(&self, canvas: &Canvas<'_>) -> Vec<(i32, i32)> {
        let (mut left, mut row) = (LEFT, 0);
        let place = |(name, _): &(String, Tone)| {
            let letters = name.chars().count().min(NAME) as i32;
            let width = SWATCH + 20 + letters * canvas.letter * 58 / 100;
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

/// What is counted has no decimals.
fn shown(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { digits(value) }
}

/// Where names of parts begin, in pixels.
const LEFT: i32 = 6;
/// The width of a part's sample beside its name.
const SWATCH: i32 = 16;
/// Letters of a part's name that are shown.
const NAME: usize = 36;
/// Between two groups, where a group has 1.
const GAP: f64 = 0.2;
/// A bar this wide has room for its value.
const ROOM: i32 = 34;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_bar_and_none_has_none() {
        let group = |name: &str, values: [Option<f64>; 2]| Group {
            name: name.into(),
            values: values.to_vec(),
        };
        let bars = Bars {
            title: "Policies".into(),
            description: String::new(),
            quantity: "s".into(),
            each: "requests at once".into(),
            parts: vec![("equal".into(), Tone::Run(0)), ("single".into(), Tone::Run(1))],
            groups: vec![group("300", [Some(4.0), Some(9.5)]), group("400", [Some(5.0), None])],
        };
        let picture = bars.draw().unwrap();
        for text in ["equal", "single", "300", "400", "9.50", "requests at once"] {
            assert!(picture.svg().contains(text), "{text}");
        }
        assert!(picture.svg().contains("\n4\n") && !picture.svg().contains("4.00"));
        assert_eq!(bars.draw().unwrap(), picture, "the same bytes again");
    }
}
