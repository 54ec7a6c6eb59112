//! Lines over a common x axis, in one chart or in several above each other.
//!
//! Charts above each other share their time: what happened at once stands in one column, so the
//! eye finds what gave way first. Each chart has its own y axis and names its lines in rows above
//! it, which add to its height where they are many; a line is broken where it has no value.

use plotters::{
    element::{PathElement, Rectangle},
    style::{
        Color, ShapeStyle,
        text_anchor::{HPos, VPos},
    },
};

use super::{
    DrawError, INK, PlotError, Tone,
    panel::{Axis, Frame, Label, Panel, Stroke, left_of},
    picture::{Canvas, Picture, number_width, size, text_width},
    scale::Scale,
};

/// Charts over one x axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lines {
    /// What the picture shows.
    pub(crate) title: String,
    /// What there is to see, for those who do not see it.
    pub(crate) description: String,
    /// The quantity along x and its unit.
    pub(crate) x_title: String,
    /// How x lies.
    pub(crate) x: Along,
    /// The charts, from the top.
    pub(crate) charts: Vec<Chart>,
    /// Values of x that have a dashed line of their own, and their names.
    pub(crate) marks: Vec<(f64, String)>,
}

/// How x lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Along {
    /// Evenly from zero to a round number.
    Even,
    /// Evenly from zero to the last point.
    Time,
    /// Evenly from zero to this, or to the last point where that is further.
    Until(f64),
    /// By the nines of a share, from 0 to 1.
    Nines,
}

/// One y axis and its lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Chart {
    /// The quantity and its unit.
    pub(crate) title: String,
    /// Its lines.
    pub(crate) lines: Vec<Line>,
    /// How y lies and lines relate.
    pub(crate) kind: Kind,
}

/// How the lines of a chart are to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Evenly from zero.
    #[default]
    Even,
    /// Evenly, or by powers of ten where one of the lines would lie flat otherwise.
    Fitting,
    /// The lines are layers: each stands on the one before it.
    Stacked,
}

/// A line through points in rising order of x; y is NaN where there is no value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) tone: Tone,
    pub(crate) stroke: Stroke,
    pub(crate) points: Vec<(f64, f64)>,
    /// Whether each point is marked.
    pub(crate) dots: bool,
}

impl Lines {
    /// The picture.
    pub(crate) fn draw(&self) -> Result<Picture, PlotError> {
        Picture::draw_in(&self.title, self.description.clone(), self.heights(), |canvas| {
            self.paint(canvas)
        })
    }

    /// Of the wide picture and of the narrow one.
    fn heights(&self) -> (i32, i32) {
        let (wide, narrow) = match self.charts.len() {
            0 | 1 => (400, 340),
            more => (56 + 168 * more as i32, 56 + 152 * more as i32),
        };
        (wide + self.more_height(false), narrow + self.more_height(true))
    }

    fn paint(&self, canvas: &Canvas<'_>) -> Result<(), DrawError> {
        let x = self.x_scale(if canvas.narrow { 4 } else { 8 });
        let spans = self.spans(canvas.height, canvas.narrow);
        (1..).zip(self.charts.iter().zip(spans)).try_for_each(|(number, (chart, span))| {
            self.paint_chart(canvas, chart, &x, span, number == self.charts.len())
        })
    }

    /// What names add to the height of a picture, beyond the rows that it has room for.
    fn more_height(&self, narrow: bool) -> i32 {
        self.charts.iter().map(|chart| chart.more_height(narrow)).sum()
    }

    /// Where each chart begins with its title and names, and where its x axis is.
    fn spans(&self, height: i32, narrow: bool) -> Vec<(i32, i32)> {
        let (_, letter) = size(narrow);
        let foot = 7 * letter / 2;
        let count = self.charts.len();
        let each = (height - foot - self.more_height(narrow)) / count.max(1) as i32;
        let mut begin = 0;
        let span = |(number, chart): (usize, &Chart)| {
            let top = begin;
            begin += each + chart.more_height(narrow);
            (top, begin - if number == count { 0 } else { letter / 2 })
        };
        (1..).zip(&self.charts).map(span).collect()
    }

    fn paint_chart(
        &self,
        canvas: &Canvas<'_>,
        chart: &Chart,
        x: &Scale,
        span: (i32, i32),
        last: bool,
    ) -> Result<(), DrawError> {
        let y = chart.y_scale();
        let top = span.0;
        let left = self.left(canvas.narrow);
        let frame = Frame { left, ..chart.frame(span, x, canvas.narrow) };
        let bare = |end| Axis { title: "", ticks: Vec::new(), end };
        let panel = Panel::new(canvas, frame, &bare(x.end()), &bare(y.end()))?;
        let ink = Label::new(INK, HPos::Left, VPos::Top);
        panel.label_at((4, top + 2), &format!("{}{}", chart.title, y.note()), ink)?;
        for entry in legend(chart, top, canvas.narrow) {
            draw_entry(canvas, &panel, &entry)?;
        }
        for (at, text) in y.marks() {
            panel.mark_y(at, &text)?;
        }
        if last {
            for (at, text) in x.marks() {
                panel.mark_x(at, &text)?;
            }
            panel.title_x(&self.x_title)?;
        }
        chart.draw(&panel, x, &y)?;
        self.draw_marks(&panel, x, top == 0)
    }

    /// Where the y axes stand, below each other.
    fn left(&self, narrow: bool) -> i32 {
        let marks = self.charts.iter().flat_map(|chart| chart.y_scale().marks());
        let numbers: Vec<_> = marks.map(|mark| mark.1).collect();
        left_of(&numbers, size(narrow).1).max(LEFT)
    }

    fn draw_marks(&self, panel: &Panel<'_, '_>, x: &Scale, named: bool) -> Result<(), DrawError> {
        for (line, (value, name)) in (0..).zip(&self.marks) {
            let at = x.place(*value);
            panel.line(&[(at, 0.0), (at, panel.y_end())], Tone::Quiet, Stroke::Dashed)?;
            if named {
                let right = at > panel.x_end() / 2.0;
                let (side, shift) = if right { (HPos::Right, -6) } else { (HPos::Left, 6) };
                let label = Label::new(Tone::Quiet.color(), side, VPos::Top);
                panel.label((at, panel.y_end()), name, label.shifted(shift, 3 + 18 * line))?;
            }
        }
        Ok(())
    }

    fn x_scale(&self, wanted: usize) -> Scale {
        let lines = self.charts.iter().flat_map(|chart| &chart.lines);
        let points = lines.flat_map(|line| &line.points).map(|point| point.0);
        let top = points.chain(self.marks.iter().map(|mark| mark.0)).fold(0.0, f64::max);
        match self.x {
            Along::Even => Scale::even(top, wanted),
            Along::Time => Scale::until(top, wanted),
            Along::Until(end) => Scale::until(top.max(end), wanted),
            Along::Nines => Scale::Nines { end: -(1.0 - top).max(1e-9).log10().min(-1.0) },
        }
    }
}

impl Chart {
    /// Rows of names above it.
    fn rows(&self, narrow: bool) -> i32 {
        legend(self, 0, narrow).last().map_or(0, |entry| entry.row + 1)
    }

    fn more_height(&self, narrow: bool) -> i32 {
        row_height(narrow) * (self.rows(narrow) - USUAL_ROWS).max(0)
    }

    /// The frame of the chart, below its title and names, with room for the last number of x.
    fn frame(&self, (top, bottom): (i32, i32), x: &Scale, narrow: bool) -> Frame {
        let (width, letter) = size(narrow);
        let last = x.marks().last().map_or(0, |mark| number_width(&mark.1, letter));
        let top = top + row_height(narrow) * (self.rows(narrow) + 1) + letter;
        Frame { left: LEFT, right: width - (last / 2 + 1).max(14), top, bottom }
    }

    fn y_scale(&self) -> Scale {
        if self.kind == Kind::Stacked {
            let top = self.layers().iter().flatten().map(|point| point.1).fold(0.0, f64::max);
            return Scale::even(top, 3);
        }
        let top = |line: &Line| line.points.iter().map(|point| point.1).fold(0.0, f64::max);
        let tops: Vec<_> = self.lines.iter().map(top).collect();
        if self.kind == Kind::Even {
            return Scale::even(tops.into_iter().fold(0.0, f64::max), 4);
        }
        let values = self.lines.iter().flat_map(|line| &line.points).map(|point| point.1);
        let zero = values.clone().any(|value| value == 0.0);
        let lowest = values.filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        Scale::fitting(&tops, if lowest.is_finite() { lowest } else { 0.0 }, zero, 4)
    }

    /// The lines, each on top of those before it; all have the same x.
    fn layers(&self) -> Vec<Vec<(f64, f64)>> {
        let mut sums: Vec<f64> = Vec::new();
        let mut layer = |line: &Line| {
            sums.resize(line.points.len(), 0.0);
            let points = line.points.iter().zip(&mut sums);
            let add = |(point, sum): (&(f64, f64), &mut f64)| {
                *sum += if point.1.is_nan() { 0.0 } else { point.1 };
                (point.0, *sum)
            };
            points.map(add).collect()
        };
        self.lines.iter().map(&mut layer).collect()
    }

    fn draw(&self, panel: &Panel<'_, '_>, x: &Scale, y: &Scale) -> Result<(), DrawError> {
        let placed = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
            points.iter().map(|point| (x.place(point.0), y.place(point.1))).collect()
        };
        if self.kind == Kind::Stacked {
            let layers: Vec<_> = self.layers().iter().map(|layer| placed(layer)).collect();
            let floor: Vec<_> = layers.iter().flatten().map(|point| (point.0, 0.0)).collect();
            for (index, (layer, line)) in layers.iter().zip(&self.lines).enumerate() {
                let below = match index.checked_sub(1) {
                    Some(below) => &layers[below],
                    None => &floor[..layer.len()],
                };
                panel.layer(below, layer, line.tone)?;
            }
            return Ok(());
        }
        for line in &self.lines {
            for piece in line.points.split(|point| point.1.is_nan()).filter(|all| !all.is_empty()) {
                let piece = placed(piece);
                panel.line(&piece, line.tone, line.stroke)?;
                let is_point = piece.windows(2).all(|pair| pair[0] == pair[1]);
                if line.dots || is_point {
                    panel.dots(if is_point { &piece[..1] } else { &piece }, line.tone)?;
                }
            }
        }
        Ok(())
    }
}

/// The name of a line and where it stands above its chart.
struct Entry<'c> {
    line: &'c Line,
    text: String,
    left: i32,
    row: i32,
    y: i32,
    filled: bool,
}

/// Names in rows that fit the picture, below the title of the chart. One line needs no name
/// beside the title.
fn legend(chart: &Chart, top: i32, narrow: bool) -> Vec<Entry<'_>> {
    if chart.lines.len() < 2 && chart.lines.iter().all(|line| line.name.is_empty()) {
        return Vec::new();
    }
    let (room, letter) = size(narrow);
    let (mut left, mut row) = (LEGEND_LEFT, 0);
    let mut entries = Vec::with_capacity(chart.lines.len());
    for line in &chart.lines {
        let text = shortened(&line.name, if narrow { 30 } else { 44 });
        let width = SWATCH + 6 + text_width(&text, letter) + 14;
        if left > LEGEND_LEFT && left + width > room {
            (left, row) = (LEGEND_LEFT, row + 1);
        }
        let y = top + 2 + (row + 1) * row_height(narrow) + letter / 2;
        entries.push(Entry { line, text, left, row, y, filled: chart.kind == Kind::Stacked });
        left += width;
    }
    entries
}

fn row_height(narrow: bool) -> i32 {
    size(narrow).1 + 5
}

fn draw_entry(
    canvas: &Canvas<'_>,
    panel: &Panel<'_, '_>,
    entry: &Entry<'_>,
) -> Result<(), DrawError> {
    let Line { tone, stroke, .. } = *entry.line;
    let color = tone.color();
    let (left, right, y) = (entry.left, entry.left + SWATCH, entry.y);
    if entry.filled {
        let corners = [(left, y - 5), (right, y + 5)];
        canvas.root.draw(&Rectangle::new(corners, color.filled()))?;
    } else {
        let style = ShapeStyle::from(color).stroke_width(stroke.width());
        let (dash, gap) = stroke.dashes(tone).unwrap_or((SWATCH, 0));
        for from in (left..right).step_by((dash + gap) as usize) {
            let to = right.min(from + dash);
            canvas.root.draw(&PathElement::new(vec![(from, y), (to, y)], style))?;
        }
    }
    let label = Label::new(color, HPos::Left, VPos::Center);
    panel.label_at((right + 6, y), &entry.text, label)
}

/// The beginning and the end of a text that is too long; runs differ in either.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= most {
        return text.to_owned();
    }
    let half = (most - 1) / 2;
    let ends = [&letters[..half], &['…'], &letters[letters.len() - half..]];
    ends.concat().into_iter().collect()
}

/// Where y axes stand whose numbers are short.
const LEFT: i32 = 56;
/// Where names begin, in pixels.
const LEGEND_LEFT: i32 = 6;
/// The length of a line's sample beside its name.
const SWATCH: i32 = 16;
/// So many rows of names are in the height of a chart.
const USUAL_ROWS: i32 = 2;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::picture::tests::overlapping, *};

    fn line(name: &str, points: &[(f64, f64)]) -> Line {
        let points = points.to_vec();
        Line { name: name.into(), tone: Tone::Run(0), stroke: Stroke::Thick, points, dots: false }
    }

    fn lines(charts: Vec<Chart>) -> Lines {
        Lines {
            title: "Rates".into(),
            description: "Two of them.".into(),
            x_title: "seconds".into(),
            x: Along::Time,
            charts,
            marks: vec![(1.0, "here".into())],
        }
    }

    #[test]
    fn every_line_is_named_and_every_axis_has_its_title() {
        let all = vec![line("one <1>", &[(0.0, 1.0), (2.0, 3.0)]), line("two", &[(0.0, 2.0)])];
        let chart = |title: &str, kind| {
            let lines = all.clone();
            Chart { title: title.into(), lines, kind }
        };
        let charts = vec![chart("rate", Kind::Even), chart("sum", Kind::Stacked)];
        let picture = lines(charts).draw().unwrap();
        for text in ["one &lt;1&gt;", "two\n", "rate\n", "sum\n", "seconds\n", "here\n", "<desc>"] {
            assert!(picture.svg().contains(text), "{text:?} is missing");
        }
    }

    proptest! {
        /// The load line, what was refused just above it and what is to be written just below.
        #[test]
        fn labels_do_not_overlap_however_close_the_marks_are(
            marks in prop::collection::vec(0.0f64..100.0, 1..5), near: bool, points in 1usize..9,
        ) {
            let at = |mark: &f64| if near { 50.0 + mark / 50.0 } else { *mark };
            let point = |n: usize| (n as f64 * 14.0, 3f64.powi(n as i32));
            let points: Vec<_> = (0..points).map(point).collect();
            let chart = |kind| Chart {
                title: "response time, ms".into(),
                lines: vec![line("p99 of every trial", &points), line("mean", &points)],
                kind,
            };
            let mut picture = lines(vec![chart(Kind::Even), chart(Kind::Fitting)]);
            let marked = |mark: &f64| (at(mark), format!("load line {:.1}/s", at(mark)));
            picture.marks = marks.iter().map(marked).collect();
            let picture = picture.draw().unwrap();
            prop_assert_eq!(overlapping(&picture), []);
            for mark in &marks {
                let text = format!("load line {:.1}/s", at(mark));
                prop_assert!(picture.svg().contains(&text), "{} is missing", text);
            }
        }
    }

    proptest! {
        #[test]
        fn charts_of_many_runs_are_upright_and_as_high_as_those_of_two(
            names in prop::collection::vec("[a-z]{1,60}", 1..60), charts in 1usize..4,
        ) {
            let all: Vec<_> = names.iter().map(|name| line(name, &[(0.0, 1.0)])).collect();
            let chart = || Chart { lines: all.clone(), ..Chart::default() };
            let lines = lines((0..charts).map(|_| chart()).collect());
            for (narrow, height) in [(false, lines.heights().0), (true, lines.heights().1)] {
                for (chart, span) in lines.charts.iter().zip(lines.spans(height, narrow)) {
                    let frame = chart.frame(span, &lines.x_scale(4), narrow);
                    prop_assert!(frame.top + 80 < frame.bottom, "{:?}", frame);
                    prop_assert!(frame.bottom < height);
                }
            }
        }
    }

    #[test]
    fn the_names_of_sixty_runs_are_all_there_and_do_not_overlap() {
        let name = |n: usize| format!("run {n} of the comparison, with a long name");
        let all = (0..60).map(|n| line(&name(n), &[(0.0, 1.0), (1.0, n as f64)])).collect();
        let chart = Chart { title: "rate".into(), lines: all, kind: Kind::Even };
        let picture = lines(vec![chart]).draw().unwrap();
        assert_eq!(overlapping(&picture), []);
        for n in 0..60 {
            assert!(picture.svg().contains(&name(n)), "{n}");
        }
    }

    /// As the eleven policies of `loadline sim policies`.
    #[test]
    fn lines_of_one_colour_are_told_apart_by_their_dashes() {
        let dashes = [0, 7, 8, 16].map(|index| Stroke::Thin.dashes(Tone::Run(index)));
        assert_eq!(dashes[..2], [None, None]);
        assert!(dashes[2].is_some() && dashes[3].is_some() && dashes[2] != dashes[3]);
        let pieces = |index| {
            let tone = Tone::Run(index);
            let one = Line { tone, ..line("a", &[(0.0, 1.0), (1.0, 1.0)]) };
            let chart = Chart { lines: vec![one], ..Chart::default() };
            let drawn = Lines { marks: Vec::new(), ..lines(vec![chart]) }.draw().unwrap();
            drawn.wide.matches("stroke=\"#0B63A5\"").count()
        };
        assert_eq!(pieces(0), 2, "the line, and its sample beside the name");
        assert!(pieces(8) > 20, "{}", pieces(8));
    }

    #[test]
    fn layers_stand_on_each_other() {
        let all = [line("a", &[(0.0, 1.0), (1.0, 2.0)]), line("b", &[(0.0, 3.0), (1.0, f64::NAN)])];
        let chart = Chart { title: String::new(), lines: all.to_vec(), kind: Kind::Stacked };
        assert_eq!(chart.layers()[1], [(0.0, 4.0), (1.0, 2.0)]);
    }

    #[test]
    fn a_line_whose_points_are_one_is_a_dot() {
        for points in [&[(1.0, 2.0)][..], &[(1.0, 2.0); 3]] {
            let chart = Chart { lines: vec![line("a", points)], ..Chart::default() };
            let picture = lines(vec![chart]).draw().unwrap();
            assert_eq!(picture.svg().matches("<circle").count(), 1, "{points:?}");
        }
    }

    #[test]
    fn a_line_without_values_is_no_line() {
        let nothing = [line("a", &[(0.0, f64::NAN)]), line("b", &[])];
        let chart = Chart { title: "t".into(), lines: nothing.to_vec(), kind: Kind::Fitting };
        assert!(lines(vec![chart]).draw().unwrap().svg().ends_with("</svg>\n"));
    }

    #[test]
    fn the_last_number_of_an_axis_is_whole_however_long_it_is() {
        for top in [0.5, 600.0, 10_000.0, 2_000_000.0] {
            let chart = Chart { lines: vec![line("a", &[(top, 1.0)])], ..Chart::default() };
            let lines = Lines { x: Along::Even, ..lines(vec![chart.clone()]) };
            for narrow in [false, true] {
                let (width, letter) = size(narrow);
                let x = lines.x_scale(4);
                let frame = chart.frame((0, 300), &x, narrow);
                let last = x.marks().pop().unwrap().1;
                let end = frame.right + number_width(&last, letter) / 2;
                assert!(end <= width, "{last} ends at {end} of {width}");
            }
        }
    }

    #[test]
    fn the_numbers_of_a_y_axis_are_whole_and_axes_below_each_other_begin_alike() {
        for top in [5.0, 60_000.0, 250_000.0, 20_000_000.0] {
            let chart = |top| Chart { lines: vec![line("a", &[(1.0, top)])], ..Chart::default() };
            let lines = lines(vec![chart(1.0), chart(top)]);
            for narrow in [false, true] {
                let widest = chart(top).y_scale().marks().pop().unwrap().1;
                let width = number_width(&widest, size(narrow).1);
                assert!(lines.left(narrow) - 8 >= width, "{widest} begins outside of the picture");
            }
            let svg = lines.draw().unwrap().wide;
            let axes = format!("points=\"{},", lines.left(false));
            assert!(svg.matches(&axes).count() >= 4, "{axes} is not in {svg}");
        }
    }

    #[test]
    fn names_that_are_too_long_keep_both_ends() {
        assert_eq!(shortened("abcdefghij", 10), "abcdefghij");
        assert_eq!(shortened("abcdefghijk", 10), "abcd…hijk");
    }
}
