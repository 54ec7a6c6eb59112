//! Pictures of records.
//!
//! Every picture is drawn twice from the same data, wide for screens and paper and narrow for
//! phones, because a plot that is only scaled down has letters nobody can read. Text stays text:
//! the SVG names a stack of system fonts and the reader's machine sets it, so no font is needed
//! here. Colours carry meaning by [`Tone`] and are safe for colour-blind readers (blue, orange
//! and grey differ in lightness too); a page may repaint them for the dark by their attribute.

use std::io;

use plotters::{drawing::DrawingAreaErrorKind, style::RGBColor};

pub(crate) mod bars;
pub(crate) mod curves;
pub(crate) mod layers;
pub(crate) mod lines;
pub(crate) mod pairs;
pub(crate) mod panel;
pub(crate) mod picture;
pub(crate) mod ranks;
mod scale;
pub(crate) mod scatter;
pub(crate) mod share;
mod spread;
mod ticks;
pub(crate) mod timeline;

/// What a colour stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// The subject: loadline with several regions, the near region.
    Cool,
    /// What it is held against: one region, the far region.
    Warm,
    /// Published figures, limits, asides.
    Quiet,
    /// One of several that are equals, such as runs; the colours repeat after eight, and lines are
    /// dashed then.
    Run(usize),
}

/// A picture that could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the picture `{title}`")]
pub struct PlotError {
    pub(crate) title: String,
    pub(crate) source: DrawError,
}

/// Failures of the drawing library.
pub(crate) type DrawError = DrawingAreaErrorKind<io::Error>;

impl Tone {
    /// The colour on white; each reaches a contrast of 4.5 there, so it may colour text.
    pub(crate) const fn color(self) -> RGBColor {
        match self {
            Self::Cool => RGBColor(0x0B, 0x63, 0xA5),
            Self::Warm => RGBColor(0xC2, 0x41, 0x0C),
            Self::Quiet => RGBColor(0x6B, 0x72, 0x80),
            Self::Run(index) => RUNS[index % RUNS.len()],
        }
    }

    /// How often its colour stands for others before it.
    pub(crate) const fn repeats(self) -> usize {
        match self {
            Self::Run(index) => index / RUNS.len(),
            Self::Cool | Self::Warm | Self::Quiet => 0,
        }
    }
}

/// Colours of equals, dark enough on white for text; neighbours differ in lightness or in the
/// share of blue, which colour-blind readers see. The style sheet has their brighter kin.
const RUNS: [RGBColor; 8] = [
    RGBColor(0x0B, 0x63, 0xA5),
    RGBColor(0xC2, 0x41, 0x0C),
    RGBColor(0x14, 0x71, 0x3D),
    RGBColor(0x7E, 0x22, 0xCE),
    RGBColor(0x92, 0x58, 0x0A),
    RGBColor(0xBE, 0x18, 0x5D),
    RGBColor(0x0E, 0x74, 0x90),
    RGBColor(0x47, 0x55, 0x69),
];
/// Text that belongs to no tone: axis numbers, values.
pub(crate) const INK: RGBColor = RGBColor(0x37, 0x41, 0x51);
/// Grid lines.
pub(crate) const GRID: RGBColor = RGBColor(0xE2, 0xE6, 0xEB);
