//! A picture: one subject, drawn wide and narrow, with the words that stand for it where it
//! cannot be seen.

use std::cell::RefCell;

use maud::html;
use plotters::{
    backend::SVGBackend,
    coord::Shift,
    drawing::{DrawingArea, IntoDrawingArea},
};

use super::{DrawError, PlotError};

/// An SVG picture with its title and description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// What the picture shows, in a few words.
    pub title: String,
    /// What there is to see in it, for those who do not see it.
    pub description: String,
    pub(crate) wide: String,
    pub(crate) narrow: String,
}

/// An empty picture to draw on, and how large things are on it.
pub(crate) struct Canvas<'s> {
    pub(crate) root: DrawingArea<SVGBackend<'s>, Shift>,
    pub(crate) width: i32,
    pub(crate) height: i32,
    /// Height of letters in pixels.
    pub(crate) letter: i32,
    pub(crate) narrow: bool,
    /// Left, top, right and bottom of every text so far.
    texts: RefCell<Vec<[i32; 4]>>,
}

impl Canvas<'_> {
    /// How far down a text must move to lie on no other, up being negative; none where it lies on
    /// one wherever it goes, or where it must not move.
    pub(crate) fn place_text(
        &self,
        [left, top, right, bottom]: [i32; 4],
        fixed: bool,
    ) -> Option<i32> {
        let mut texts = self.texts.borrow_mut();
        let row = bottom - top + 1;
        let rows = if fixed { 0 } else { MOST_ROWS };
        let shifts = (0..=rows).flat_map(|rows| [rows * row, -rows * row]);
        let free = |shift: &i32| {
            let (top, bottom) = (top + shift, bottom + shift);
            let inside = *shift == 0 || (top >= 0 && bottom <= self.height);
            let apart = |other: &[i32; 4]| {
                right <= other[0] || left >= other[2] || bottom <= other[1] || top >= other[3]
            };
            inside && texts.iter().all(apart)
        };
        let shift = shifts.into_iter().find(free)?;
        texts.push([left, top + shift, right, bottom + shift]);
        Some(shift)
    }
}

impl Picture {
    /// The picture as an SVG document of its own.
    #[must_use]
    pub fn svg(&self) -> &str {
        &self.wide
    }

    /// Lets `paint` draw the picture in both widths.
    pub(crate) fn draw(
        title: &str,
        description: String,
        paint: impl Fn(&Canvas<'_>) -> Result<(), DrawError>,
    ) -> Result<Self, PlotError> {
        Self::draw_in(title, description, (WIDE.1, NARROW.1), paint)
    }

    /// The same on canvases of these heights, wide and narrow.
    pub(crate) fn draw_in(
        title: &str,
        description: String,
        heights: (i32, i32),
        paint: impl Fn(&Canvas<'_>) -> Result<(), DrawError>,
    ) -> Result<Self, PlotError> {
        let render = |height, narrow| {
            let svg = render(height, narrow, &paint)
                .map_err(|source| PlotError { title: title.to_owned(), source })?;
            Ok(named(&svg, title, &description))
        };
        let wide = render(heights.0, false)?;
        let narrow = render(heights.1, true)?;
        Ok(Self { title: title.to_owned(), description, wide, narrow })
    }
}

/// How wide a picture is, and how high its letters are.
pub(crate) fn size(narrow: bool) -> (i32, i32) {
    if narrow { (NARROW.0, 12) } else { (WIDE.0, 14) }
}

/// How wide a text is, about. Letters of the usual fonts are a little over half as wide as high.
pub(crate) fn text_width(text: &str, letter: i32) -> i32 {
    text.chars().count() as i32 * letter * 58 / 100
}

/// How wide a number is, at most: the digits of some fonts, as DejaVu's, are wider than letters.
pub(crate) fn number_width(text: &str, letter: i32) -> i32 {
    text.chars().count() as i32 * letter * 64 / 100 + 1
}

fn render(
    height: i32,
    narrow: bool,
    paint: impl Fn(&Canvas<'_>) -> Result<(), DrawError>,
) -> Result<String, DrawError> {
    let (width, letter) = size(narrow);
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (width as u32, height as u32)).into_drawing_area();
    let texts = RefCell::default();
    let canvas = Canvas { root, width, height, letter, narrow, texts };
    paint(&canvas)?;
    canvas.root.present()?;
    drop(canvas);
    Ok(svg)
}

/// The same SVG with its title and description as its first children, where readers look.
fn named(svg: &str, title: &str, description: &str) -> String {
    let words = html! { title { (title) } desc { (description) } }.into_string();
    match svg.split_once('>') {
        Some(("", _)) | None => svg.to_owned(),
        Some((open, rest)) => format!("{open} role=\"img\">\n{words}{rest}"),
    }
}

/// A text further than this from its place says nothing about it.
const MOST_ROWS: i32 = 6;

/// Fits a page of text and a printed sheet.
pub(crate) const WIDE: (i32, i32) = (760, 400);
/// Fits a phone of 360 points with its margins, unscaled.
pub(crate) const NARROW: (i32, i32) = (344, 330);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The texts of a picture that lie on each other, wide or narrow, read from its SVG.
    pub(crate) fn overlapping(picture: &Picture) -> Vec<(String, String)> {
        let both = [&picture.wide, &picture.narrow];
        both.iter().flat_map(|svg| overlapping_in(&boxes(svg))).collect()
    }

    fn overlapping_in(texts: &[([f64; 4], String)]) -> Vec<(String, String)> {
        let pairs = texts
            .iter()
            .enumerate()
            .flat_map(|(index, one)| texts[index + 1..].iter().map(move |other| (one, other)));
        let on = |one: &[f64; 4], other: &[f64; 4]| {
            one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3]
        };
        let lying = pairs.filter(|(one, other)| on(&one.0, &other.0));
        lying.map(|(one, other)| (one.1.clone(), other.1.clone())).collect()
    }

    fn boxes(svg: &str) -> Vec<([f64; 4], String)> {
        let text = |piece: &str| {
            let (head, rest) = piece.split_once('>').expect("a tag ends");
            let words = rest.split("</text>").next().unwrap_or_default().trim().to_owned();
            let of = |name: &str| {
                let at = head.find(&format!(" {name}=\"")).map(|at| at + name.len() + 3);
                at.map_or("", |at| head[at..].split('"').next().unwrap_or_default())
            };
            let number = |name| of(name).parse::<f64>().unwrap_or_default();
            let size = number("font-size");
            let width = words.chars().count() as f64 * size * 0.55;
            let left = match of("text-anchor") {
                "middle" => number("x") - width / 2.0,
                "end" => number("x") - width,
                _ => number("x"),
            };
            let top = match of("dy") {
                "0.76em" => number("y"),
                "0.5ex" => number("y") - size / 2.0,
                _ => number("y") - size,
            };
            ([left, top, left + width, top + size * 0.95], words)
        };
        svg.split("<text").skip(1).map(text).collect()
    }

    #[test]
    fn texts_on_each_other_are_seen() {
        let text = |x, words| {
            let place = format!("x=\"{x}\" y=\"50\" dy=\"0.76em\" text-anchor=\"start\"");
            format!("<text {place} font-size=\"14\">\n{words}\n</text>")
        };
        let svg = [text(0, "load line"), text(40, "refused"), text(200, "far")].concat();
        let seen = overlapping_in(&boxes(&svg));
        assert_eq!(seen, [("load line".to_owned(), "refused".to_owned())]);
    }
}
