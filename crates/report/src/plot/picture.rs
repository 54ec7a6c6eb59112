//! A picture: one subject, drawn wide and narrow, with the words that stand for it where it
//! cannot be seen.

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
        let render = |size, narrow| {
            let svg = render(size, narrow, &paint)
                .map_err(|source| PlotError { title: title.to_owned(), source })?;
            Ok(named(&svg, title, &description))
        };
        let wide = render((WIDE.0, heights.0), false)?;
        let narrow = render((NARROW.0, heights.1), true)?;
        Ok(Self { title: title.to_owned(), description, wide, narrow })
    }
}

fn render(
    (width, height): (i32, i32),
    narrow: bool,
    paint: impl Fn(&Canvas<'_>) -> Result<(), DrawError>,
) -> Result<String, DrawError> {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (width as u32, height as u32)).into_drawing_area();
    let letter = if narrow { 12 } else { 14 };
    let canvas = Canvas { root, width, height, letter, narrow };
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

/// Fits a page of text and a printed sheet.
const WIDE: (i32, i32) = (760, 400);
/// Fits a phone of 360 points with its margins, unscaled.
const NARROW: (i32, i32) = (344, 330);
