//! Share of traffic by region against rate: the near region below, what flows over above it.

use loadline_core::units::{Rate, Ratio};
use plotters::style::text_anchor::{HPos, VPos};

use super::{
    DrawError, PlotError, Tone,
    panel::{Axis, Frame, Label, Panel, Stroke},
    picture::{Canvas, Picture},
};
use crate::figures::percent;

/// How traffic at one rate was shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The rate of all traffic.
    pub rate: Rate,
    /// The part the near region answered; the far region answered the rest.
    pub near: Ratio,
}

/// Draws the measured shares, and dashed the ideal: only what exceeds `capacity` goes far.
///
/// # Errors
/// [`PlotError`] where the drawing library fails.
pub fn share_against_rate(
    title: &str,
    shares: &[Share],
    capacity: Rate,
) -> Result<Picture, PlotError> {
    Picture::draw(title, describe(shares), |canvas| paint(canvas, shares, capacity))
}

fn paint(canvas: &Canvas<'_>, shares: &[Share], capacity: Rate) -> Result<(), DrawError> {
    let frame = Frame {
        left: 52,
        right: canvas.width - if canvas.narrow { 92 } else { 216 },
        top: 3 * canvas.letter,
        bottom: canvas.height - 4 * canvas.letter,
    };
    let top = shares.iter().map(|share| share.rate.as_per_sec_f64()).fold(0.0, f64::max);
    let x = Axis::to("requests per second", top, if canvas.narrow { 4 } else { 8 });
    let y = Axis::to("share of requests, %", 100.0, 4);
    let panel = Panel::new(canvas, frame, &x, &y)?;
    let near: Vec<_> =
        shares.iter().map(|share| (share.rate.as_per_sec_f64(), height(share))).collect();
    let level = |y: f64| near.iter().map(|point| (point.0, y)).collect::<Vec<_>>();
    panel.band(&level(0.0), &near, Tone::Cool)?;
    panel.band(&near, &level(100.0), Tone::Warm)?;
    let ideal = ideal(near.first().map_or(0.0, |first| first.0), top, capacity);
    panel.line(&ideal, Tone::Quiet, Stroke::Dashed)?;
    panel.line(&near, Tone::Cool, Stroke::Thick)?;
    panel.dots(&near, Tone::Cool)?;
    label(&panel, shares, canvas.narrow)
}

fn label(panel: &Panel<'_, '_>, shares: &[Share], narrow: bool) -> Result<(), DrawError> {
    let Some(last) = shares.last() else {
        return Ok(());
    };
    let x = last.rate.as_per_sec_f64();
    let far = Ratio::ppm(Ratio::ONE.as_ppm().saturating_sub(last.near.as_ppm()));
    let suffix = if narrow { "" } else { " region" };
    let sides = [
        (Tone::Warm, format!("far{suffix} {}", percent(far)), f64::midpoint(100.0, height(last))),
        (Tone::Cool, format!("near{suffix} {}", percent(last.near)), height(last) / 2.0),
    ];
    for (tone, text, y) in sides {
        let label = Label::new(tone.color(), HPos::Left, VPos::Center).shifted(9, 0);
        panel.label((x, y), &text, label.bold())?;
    }
    if narrow {
        return Ok(());
    }
    let aside = Label::new(Tone::Quiet.color(), HPos::Left, VPos::Center).shifted(9, 0);
    panel.label((x, height(last)), "- - only the excess", aside)
}

/// The share of a near region that takes everything up to its capacity and not one request more.
fn ideal(from: f64, to: f64, capacity: Rate) -> Vec<(f64, f64)> {
    let steps = 60;
    let at = |index: usize| from + (to - from) * index as f64 / steps as f64;
    let share = |rate: f64| (100.0 * capacity.as_per_sec_f64() / rate.max(1e-9)).min(100.0);
    (0..=steps).map(at).map(|rate| (rate, share(rate))).collect()
}

fn height(share: &Share) -> f64 {
    share.near.as_f64() * 100.0
}

fn describe(shares: &[Share]) -> String {
    let point = |share: &Share| format!("{} at {}", percent(share.near), share.rate);
    let points: Vec<_> = shares.iter().map(point).collect();
    format!("Share of requests the near region answered: {}.", points.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ideal_is_all_near_up_to_the_capacity_and_the_quotient_beyond() {
        let line = ideal(50.0, 200.0, Rate::per_sec(100));
        assert_eq!(line.first(), Some(&(50.0, 100.0)));
        assert_eq!(line.last(), Some(&(200.0, 50.0)));
    }

    #[test]
    fn both_regions_are_named_with_their_last_share() {
        let shares = [(50, 100), (100, 100), (200, 51)]
            .map(|(rate, near)| Share { rate: Rate::per_sec(rate), near: Ratio::percent(near) });
        let picture = share_against_rate("Shares", &shares, Rate::per_sec(100)).unwrap();
        assert!(picture.svg().contains("far region 49 %"));
        assert!(picture.svg().contains("near region 51 %"));
        assert!(picture.description.contains("51 % at 200/s"));
    }
}
