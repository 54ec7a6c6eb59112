//! A pair of axes on a canvas, and what can be drawn between them.
//!
//! The y axis has no line: its grid and numbers say enough, and its unit stands above it, level,
//! where it can be read.

use plotters::{
    backend::SVGBackend,
    coord::{cartesian::Cartesian2d, types::RangedCoordf64},
    drawing::DrawingArea,
    element::{Circle, DashedPathElement, PathElement, Polygon, Rectangle, Text},
    style::{
        Color, FontStyle, IntoFont, RGBAColor, RGBColor, ShapeStyle, TextStyle,
        text_anchor::{HPos, Pos, VPos},
    },
};

use super::{
    DrawError, GRID, INK, Tone,
    picture::{Canvas, number_width, text_width},
    ticks,
};

/// A plot area with its coordinates.
pub(crate) struct Panel<'c, 's> {
    canvas: &'c Canvas<'s>,
    area: DrawingArea<SVGBackend<'s>, Cartesian2d<RangedCoordf64, RangedCoordf64>>,
    frame: Frame,
    x_end: f64,
    y_end: f64,
}

/// Where the plot area lies on the canvas, in pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) left: i32,
    pub(crate) right: i32,
    pub(crate) top: i32,
    pub(crate) bottom: i32,
}

/// What an axis says.
pub(crate) struct Axis<'a> {
    /// The quantity and its unit.
    pub(crate) title: &'a str,
    /// Where numbers stand.
    pub(crate) ticks: Vec<f64>,
    /// Where the axis ends.
    pub(crate) end: f64,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stroke {
    /// The main thing.
    Thick,
    /// A secondary line.
    Thin,
    /// Limits and bounds.
    Dashed,
}

/// Text to draw: where it stands relative to its point.
#[derive(Clone, Copy)]
pub(crate) struct Label {
    pub(crate) color: RGBColor,
    pub(crate) bold: bool,
    /// Left out rather than moved where another text is in its place, as the numbers of an axis.
    pub(crate) fixed: bool,
    pub(crate) anchor: (HPos, VPos),
    /// Pixels right and down from the point.
    pub(crate) shift: (i32, i32),
}

impl Stroke {
    /// Its width in pixels.
    pub(crate) const fn width(self) -> u32 {
        match self {
            Self::Thick => 3,
            Self::Thin | Self::Dashed => 1,
        }
    }

    /// The dashes of a line of this tone and the gaps between them, in pixels; none where it is
    /// whole. A colour that other lines have too is told from theirs by its dashes.
    pub(crate) const fn dashes(self, tone: Tone) -> Option<(i32, i32)> {
        match (self, tone.repeats()) {
            (Self::Dashed, _) => Some((5, 4)),
            (Self::Thick | Self::Thin, 0) => None,
            (Self::Thick | Self::Thin, 1) => Some((10, 3)),
            (Self::Thick | Self::Thin, _) => Some((2, 3)),
        }
    }
}

impl<'a> Axis<'a> {
    /// From zero to the first round number at or above `top`.
    pub(crate) fn to(title: &'a str, top: f64, wanted: usize) -> Self {
        let ticks = ticks::ticks(top, wanted);
        let end = ticks.last().copied().unwrap_or(1.0);
        Self { title, ticks, end }
    }

    /// Where the axis stands if it is one of y: its numbers have room beside it.
    pub(crate) fn left(&self, letter: i32) -> i32 {
        left_of(&ticks::labels(&self.ticks), letter).max(LEFT)
    }
}

/// How far from the edge a y axis must stand for these numbers to have room beside it.
pub(crate) fn left_of(numbers: &[String], letter: i32) -> i32 {
    let widths = numbers.iter().map(|number| number_width(number, letter));
    widths.max().unwrap_or(0) + NUMBER_GAP
}

impl Label {
    pub(crate) fn new(color: RGBColor, h: HPos, v: VPos) -> Self {
        Self { color, bold: false, fixed: false, anchor: (h, v), shift: (0, 0) }
    }

    pub(crate) fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    pub(crate) fn fixed(self) -> Self {
        Self { fixed: true, ..self }
    }

    pub(crate) fn shifted(self, right: i32, down: i32) -> Self {
        Self { shift: (right, down), ..self }
    }
}

impl<'c, 's> Panel<'c, 's> {
    /// Draws the axes and gives the area between them; `x` without a title has no numbers either.
    pub(crate) fn new(
        canvas: &'c Canvas<'s>,
        frame: Frame,
        x: &Axis<'_>,
        y: &Axis<'_>,
    ) -> Result<Self, DrawError> {
        let pixels = (frame.left..frame.right, frame.bottom..frame.top);
        let coordinates = Cartesian2d::new(0.0..x.end, 0.0..y.end, pixels);
        let area = canvas.root.apply_coord_spec(coordinates);
        let panel = Self { canvas, area, frame, x_end: x.end, y_end: y.end };
        panel.draw_y(y)?;
        panel.draw_x(x)?;
        Ok(panel)
    }

    pub(crate) fn x_end(&self) -> f64 {
        self.x_end
    }

    pub(crate) fn y_end(&self) -> f64 {
        self.y_end
    }

    pub(crate) fn frame(&self) -> Frame {
        self.frame
    }

    /// The pixel of a point.
    pub(crate) fn pixel(&self, point: (f64, f64)) -> (i32, i32) {
        self.area.map_coordinate(&point)
    }

    pub(crate) fn line(
        &self,
        points: &[(f64, f64)],
        tone: Tone,
        stroke: Stroke,
    ) -> Result<(), DrawError> {
        let style = ShapeStyle::from(tone.color()).stroke_width(stroke.width());
        let path = points.to_vec();
        match stroke.dashes(tone) {
            None => self.area.draw(&PathElement::new(path, style)),
            Some((dash, gap)) => self.area.draw(&DashedPathElement::new(path, dash, gap, style)),
        }
    }

    pub(crate) fn dots(&self, points: &[(f64, f64)], tone: Tone) -> Result<(), DrawError> {
        let style = tone.color().filled();
        points.iter().try_for_each(|point| self.area.draw(&Circle::new(*point, 4, style)))
    }

    /// Fills between two lines over the same x.
    pub(crate) fn band(
        &self,
        lower: &[(f64, f64)],
        upper: &[(f64, f64)],
        tone: Tone,
    ) -> Result<(), DrawError> {
        let outline: Vec<_> = lower.iter().chain(upper.iter().rev()).copied().collect();
        self.area.draw(&Polygon::new(outline, pale(tone)))
    }

    /// A layer between two lines over the same x, in full colour with a hair of the page above.
    pub(crate) fn layer(
        &self,
        lower: &[(f64, f64)],
        upper: &[(f64, f64)],
        tone: Tone,
    ) -> Result<(), DrawError> {
        let outline: Vec<_> = lower.iter().chain(upper.iter().rev()).copied().collect();
        self.area.draw(&Polygon::new(outline, tone.color().mix(0.75)))
    }

    /// A grid line at a place on the y axis, with its number.
    pub(crate) fn mark_y(&self, at: f64, text: &str) -> Result<(), DrawError> {
        let ends = vec![(0.0, at), (self.x_end, at)];
        self.area.draw(&PathElement::new(ends, ShapeStyle::from(GRID).stroke_width(1)))?;
        let number = Label::new(INK, HPos::Right, VPos::Center).shifted(-NUMBER_GAP, 0).fixed();
        self.label((0.0, at), text, number)
    }

    /// A short tick at a place on the x axis, with its number below.
    pub(crate) fn mark_x(&self, at: f64, text: &str) -> Result<(), DrawError> {
        let (x, y) = self.pixel((at, 0.0));
        let tick =
            PathElement::new(vec![(x, y), (x, y + 4)], ShapeStyle::from(INK).stroke_width(1));
        self.canvas.root.draw(&tick)?;
        let number = Label::new(INK, HPos::Center, VPos::Top).shifted(0, 8).fixed();
        self.label((at, 0.0), text, number)
    }

    /// The title of the x axis, below its numbers.
    pub(crate) fn title_x(&self, title: &str) -> Result<(), DrawError> {
        let below = Label::new(INK, HPos::Center, VPos::Top).shifted(0, 12 + self.canvas.letter);
        self.label((self.x_end / 2.0, 0.0), title, below)
    }

    /// A bar standing on the x axis.
    pub(crate) fn bar(&self, from: f64, to: f64, height: f64, tone: Tone) -> Result<(), DrawError> {
        let corners = [(from, 0.0), (to, height)];
        self.area.draw(&Rectangle::new(corners, tone.color().filled()))
    }

    pub(crate) fn label(
        &self,
        point: (f64, f64),
        text: &str,
        label: Label,
    ) -> Result<(), DrawError> {
        self.label_at(self.pixel(point), text, label)
    }

    /// Where a text lies.
    fn text_box(&self, (x, y): (i32, i32), text: &str, label: &Label) -> [i32; 4] {
        let width = text_width(text, self.canvas.letter);
        let height = self.canvas.letter + 1;
        let left = match label.anchor.0 {
            HPos::Left => x,
            HPos::Center => x - width / 2,
            HPos::Right => x - width,
        };
        let top = match label.anchor.1 {
            VPos::Top => y,
            VPos::Center => y - height / 2,
            VPos::Bottom => y - height,
        };
        [left, top, left + width, top + height]
    }

    /// Writes a text beside a point; where others are in its place, above or below them. One that
    /// finds no place near its own is left out.
    pub(crate) fn label_at(
        &self,
        (x, y): (i32, i32),
        text: &str,
        label: Label,
    ) -> Result<(), DrawError> {
        let (x, y) = (x + label.shift.0, y + label.shift.1);
        let Some(moved) = self.canvas.place_text(self.text_box((x, y), text, &label), label.fixed)
        else {
            return Ok(());
        };
        let place = (x, y + moved);
        let style = if label.bold { FontStyle::Bold } else { FontStyle::Normal };
        // The SVG backend divides by 1.24: it takes sizes for the height of a line.
        let size = f64::from(self.canvas.letter) * 1.24;
        let style = TextStyle::from((FONTS, size, style).into_font())
            .color(&label.color)
            .pos(Pos::new(label.anchor.0, label.anchor.1));
        self.canvas.root.draw(&Text::new(text.to_owned(), place, style))
    }

    fn draw_y(&self, axis: &Axis<'_>) -> Result<(), DrawError> {
        let number = Label::new(INK, HPos::Right, VPos::Center).shifted(-NUMBER_GAP, 0).fixed();
        for (&tick, text) in axis.ticks.iter().zip(ticks::labels(&axis.ticks)) {
            let ends = vec![(0.0, tick), (self.x_end, tick)];
            self.area.draw(&PathElement::new(ends, ShapeStyle::from(GRID).stroke_width(1)))?;
            self.label((0.0, tick), &text, number)?;
        }
        if axis.title.is_empty() {
            return Ok(());
        }
        let above = (TITLE_LEFT, self.frame.top - self.canvas.letter);
        self.label_at(above, axis.title, Label::new(INK, HPos::Left, VPos::Bottom))
    }

    fn draw_x(&self, axis: &Axis<'_>) -> Result<(), DrawError> {
        let base = vec![(0.0, 0.0), (self.x_end, 0.0)];
        self.area.draw(&PathElement::new(base, ShapeStyle::from(INK).stroke_width(1)))?;
        if axis.title.is_empty() {
            return Ok(());
        }
        let number = Label::new(INK, HPos::Center, VPos::Top).shifted(0, 8);
        for (&tick, text) in axis.ticks.iter().zip(ticks::labels(&axis.ticks)) {
            self.label((tick, 0.0), &text, number.fixed())?;
        }
        let middle = f64::midpoint(0.0, self.x_end);
        let below = number.shifted(0, 10 + 2 * self.canvas.letter - 6);
        self.label((middle, 0.0), axis.title, below)
    }
}

/// The tone as a wash behind lines and letters.
fn pale(tone: Tone) -> RGBAColor {
    tone.color().mix(0.18)
}

/// System fonts, so that nothing is loaded.
const FONTS: &str = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif";
/// Between the numbers of a y axis and the axis.
const NUMBER_GAP: i32 = 8;
/// Where a y axis stands whose numbers are short.
const LEFT: i32 = 52;
/// Where the titles of y axes begin.
const TITLE_LEFT: i32 = 4;
