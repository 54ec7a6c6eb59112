//! The costs by the number of servers as a picture, from the figures of a run.
//!
//! Both axes are by powers of ten, so that what grows as the number of servers is parallel to the
//! dashed line, and what does not grow is level. A cost is drawn in multiples of what it is with
//! the fewest servers.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, DashedPathElement, PathElement, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBColor, ShapeStyle, TextStyle};
use serde_json::Value;

use super::table::{Costs, RECORD};

/// Draw what the number of servers costs, as SVG on the standard output
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What `run --json` or the benchmark of the simulator wrote
    file: PathBuf,
}

/// Prints the picture.
pub(crate) fn print(args: &Args) -> Result<()> {
    let text =
        fs::read_to_string(&args.file).with_context(|| format!("read {}", args.file.display()))?;
    let record: Value = serde_json::from_str(&text).context("read the figures")?;
    if let Some(rows) = record["figures"][SIMULATOR].as_array() {
        let costs = [("time a request", 0.0), ("memory", 0.0)];
        println!("{}", draw(&curves(&Vec::from_iter(rows), costs.into_iter()))?);
        return Ok(());
    }
    let rows = record["figures"][super::NAME][RECORD].as_array();
    let rows = rows.with_context(|| format!("no figures of `{}`", super::NAME))?;
    let rows: Vec<&Value> = rows.iter().filter(|row| row["each"] == 10).collect();
    println!("{}", draw(&curves(&rows, Costs::names()))?);
    Ok(())
}

/// A cost, and where its line goes: powers of ten, of servers and of its own multiples.
#[derive(Debug, PartialEq)]
struct Curve {
    name: &'static str,
    points: Vec<(f64, f64)>,
}

/// A line for each cost, of which there is a resolution below which it is nothing.
fn curves(rows: &[&Value], costs: impl Iterator<Item = (&'static str, f64)>) -> Vec<Curve> {
    let curve = |(name, resolution): (&'static str, f64)| {
        let figure = |row: &&Value| {
            Some((row["servers"].as_f64()?.log10(), row[name].as_f64()?.max(resolution).log10()))
        };
        let mut points: Vec<(f64, f64)> = rows.iter().filter_map(figure).collect();
        let first = points.first().map_or(0.0, |point| point.1);
        points.iter_mut().for_each(|point| point.1 -= first);
        Curve { name: name.split(',').next().unwrap_or(name), points }
    };
    costs.map(curve).filter(|curve| curve.points.len() > 1).collect()
}

fn draw(curves: &[Curve]) -> Result<String> {
    let mut svg = String::new();
    let drawn = {
        let root = SVGBackend::with_string(&mut svg, (WIDTH as u32, HEIGHT as u32));
        paint(&root.into_drawing_area(), curves)
    };
    drawn.map_err(|error| anyhow!("draw: {error}"))?;
    Ok(svg)
}

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plane<'a> = DrawingArea<SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

fn paint(canvas: &Canvas<'_>, curves: &[Curve]) -> Drawn {
    // The second coordinate of pixels runs down, that of costs up.
    let (bottom, top) = (HEIGHT - BOTTOM, TOP);
    let pixels = (LEFT..WIDTH - RIGHT, bottom..top);
    let plane = canvas.apply_coord_spec(Cartesian2d::new(FEWEST..MOST, -0.5..2.3, pixels));
    write(canvas, (4, TOP - 14), "times the cost with 1,000 servers", INK, HPos::Left)?;
    for (power, text) in [(0.0, "1"), (1.0, "10"), (2.0, "100")] {
        let grid = PathElement::new(vec![(FEWEST, power), (MOST, power)], GRID.stroke_width(1));
        plane.draw(&grid)?;
        let (x, y) = plane.map_coordinate(&(FEWEST, power));
        write(canvas, (x - 8, y), text, INK, HPos::Right)?;
        let (x, _) = plane.map_coordinate(&(FEWEST + power, 0.0));
        let servers = ["1,000", "10,000", "100,000"][power as usize];
        write(canvas, (x, HEIGHT - BOTTOM + 12), servers, INK, HPos::Center)?;
    }
    write(canvas, ((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8), "servers", INK, HPos::Center)?;
    let proportional = vec![(FEWEST, 0.0), (MOST, MOST - FEWEST)];
    plane.draw(&DashedPathElement::new(proportional, 5, 4, ShapeStyle::from(QUIET)))?;
    for (curve, tone) in curves.iter().zip(TONES.iter().cycle()) {
        plane.draw(&PathElement::new(curve.points.clone(), tone.stroke_width(2)))?;
        for point in &curve.points {
            plane.draw(&Circle::new(*point, 3, tone.filled()))?;
        }
    }
    name_ends(canvas, &plane, curves)?;
    Ok(canvas.present()?)
}

/// Each name stands beside the end of its line, or below the name before it.
fn name_ends(canvas: &Canvas<'_>, plane: &Plane<'_>, curves: &[Curve]) -> Drawn {
    let end = |curve: &Curve| curve.points.last().map(|point| plane.map_coordinate(point));
    let names = curves.iter().zip(TONES.iter().cycle());
    let mut ends: Vec<_> =
        names.filter_map(|(curve, tone)| Some((end(curve)?, curve.name, *tone))).collect();
    ends.push((plane.map_coordinate(&(MOST, MOST - FEWEST)), "as the servers", QUIET));
    ends.sort_by_key(|((_, y), _, _)| *y);
    let mut free = TOP - LINE;
    for ((x, y), name, tone) in ends {
        free = y.max(free);
        write(canvas, (x + 9, free), name, tone, HPos::Left)?;
        free += LINE;
    }
    Ok(())
}

fn write(canvas: &Canvas<'_>, at: (i32, i32), text: &str, tone: RGBColor, side: HPos) -> Drawn {
    let style = TextStyle::from((FONTS, LETTER).into_font());
    let style = style.color(&tone).pos(Pos::new(side, VPos::Center));
    Ok(canvas.draw(&Text::new(text.to_owned(), at, style))?)
}

/// Powers of ten of servers.
/// Under which name the benchmark of the simulator writes its figures.
const SIMULATOR: &str = "simulator";

const FEWEST: f64 = 3.0;
const MOST: f64 = 5.0;

const WIDTH: i32 = 820;
const HEIGHT: i32 = 460;
const LEFT: i32 = 52;
const RIGHT: i32 = 250;
const TOP: i32 = 42;
const BOTTOM: i32 = 50;
/// The SVG backend divides by 1.24: it takes sizes for the height of a line.
const LETTER: f64 = 13.0 * 1.24;
const LINE: i32 = 18;
/// System fonts, so that nothing is loaded.
const FONTS: &str = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif";

const INK: RGBColor = RGBColor(0x37, 0x41, 0x51);
const GRID: RGBColor = RGBColor(0xE2, 0xE6, 0xEB);
const QUIET: RGBColor = RGBColor(0x6B, 0x72, 0x80);
/// Dark enough on white for text.
const TONES: [RGBColor; 7] = [
    RGBColor(0x0B, 0x63, 0xA5),
    RGBColor(0xC2, 0x41, 0x0C),
    RGBColor(0x14, 0x71, 0x3D),
    RGBColor(0x7E, 0x22, 0xCE),
    RGBColor(0x92, 0x58, 0x0A),
    RGBColor(0xBE, 0x18, 0x5D),
    RGBColor(0x0E, 0x74, 0x90),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cost_is_drawn_in_multiples_and_one_too_small_to_see_is_level() {
        let row = |servers: u32, start: f64, idle: f64| {
            let [start_s, idle_percent] = ["start, s", "idle, % of a core"];
            json!({ "servers": servers, start_s: start, idle_percent: idle })
        };
        let rows = [row(1_000, 0.1, 0.001), row(10_000, 1.0, 0.01), row(100_000, 10.0, 0.1)];
        let curves = curves(&rows.iter().collect::<Vec<_>>(), Costs::names());
        let named = |name: &str| curves.iter().find(|curve| curve.name == name).unwrap();
        let rises: Vec<f64> = named("start").points.iter().map(|point| point.1).collect();
        assert_eq!(rises, [0.0, 1.0, 2.0]);
        assert!(named("idle").points.iter().all(|point| point.1 == 0.0));
        assert_eq!(curves.len(), 2, "what was not measured is not drawn");
        let svg = draw(&curves).unwrap();
        assert!(svg.contains("<svg") && svg.contains("100,000") && svg.contains("start"));
    }
}
