//! What happened when: response time and shares of traffic over the time of one run.

use loadline_core::{
    time::Duration,
    units::{Count, Ratio},
};
use plotters::style::text_anchor::{HPos, VPos};

use super::{
    DrawError, PlotError, Tone,
    panel::{Axis, Frame, Label, Panel, Stroke},
    picture::{Canvas, Picture},
};
use crate::figures::millis;

/// A run cut into slices of equal length, and what was done to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// How long a slice is.
    pub step: Duration,
    /// The slices from the beginning.
    pub slices: Vec<Slice>,
    /// When something was done, from the beginning, and what.
    pub event: (Duration, String),
}

/// The requests that were planned in one slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Average response time.
    pub mean: Duration,
    /// Longest response time.
    pub max: Duration,
    /// Answered by the near region.
    pub near: Count,
    /// Answered by the far region.
    pub far: Count,
    /// Not answered with success.
    pub failed: Count,
}

/// Draws response times above and shares of traffic below, over the same time.
///
/// # Errors
/// [`PlotError`] where the drawing library fails.
pub fn over_time(title: &str, timeline: &Timeline) -> Result<Picture, PlotError> {
    Picture::draw(title, describe(timeline), |canvas| paint(canvas, timeline))
}

fn paint(canvas: &Canvas<'_>, timeline: &Timeline) -> Result<(), DrawError> {
    let right = canvas.width - if canvas.narrow { 66 } else { 120 };
    let (top, bottom) = (3 * canvas.letter, canvas.height - 4 * canvas.letter);
    let middle = top + (bottom - top) * 46 / 100;
    let above = Frame { left: 52, right, top, bottom: middle };
    let below = Frame { left: 52, right, top: middle + 7 * canvas.letter / 2, bottom };
    let seconds = timeline.step.as_secs_f64() * timeline.slices.len() as f64;

    let tallest = timeline.slices.iter().map(|slice| slice.max.as_millis_f64());
    let y = Axis::to("response time, ms", tallest.fold(0.0, f64::max), 3);
    let panel = Panel::new(canvas, above, &time_axis("", seconds), &y)?;
    draw_times(&panel, timeline)?;
    draw_event(&panel, timeline, true)?;

    let y = Axis { title: "share of requests, %", ticks: vec![0.0, 50.0, 100.0], end: 100.0 };
    let panel = Panel::new(canvas, below, &time_axis("seconds", seconds), &y)?;
    draw_shares(&panel, timeline)?;
    draw_event(&panel, timeline, false)
}

fn draw_times(panel: &Panel<'_, '_>, timeline: &Timeline) -> Result<(), DrawError> {
    let points = |of: fn(&Slice) -> Duration| -> Vec<(f64, f64)> {
        let answered = |(_, slice): &(f64, &Slice)| slice.near.get() + slice.far.get() > 0;
        let times = middles(timeline).zip(&timeline.slices).filter(answered);
        times.map(|(at, slice)| (at, of(slice).as_millis_f64())).collect()
    };
    let (mean, max) = (points(|slice| slice.mean), points(|slice| slice.max));
    panel.line(&max, Tone::Cool, Stroke::Thin)?;
    panel.line(&mean, Tone::Cool, Stroke::Thick)?;
    let label = Label::new(Tone::Cool.color(), HPos::Left, VPos::Center).shifted(9, 0);
    let (Some(mean), Some(max)) = (mean.last(), max.last()) else {
        return Ok(());
    };
    let (mean_y, max_y) = (panel.pixel(*mean).1, panel.pixel(*max).1);
    let apart =
        super::spread::spread(&[max_y, mean_y], 18, panel.frame().top, panel.frame().bottom);
    let x = panel.frame().right;
    panel.label_at((x, apart[0]), "max", label)?;
    panel.label_at((x, apart[1]), "average", label.bold())
}

fn draw_shares(panel: &Panel<'_, '_>, timeline: &Timeline) -> Result<(), DrawError> {
    let near: Vec<_> = middles(timeline)
        .zip(&timeline.slices)
        .filter(|(_, slice)| slice.near.get() + slice.far.get() > 0)
        .map(|(at, slice)| (at, near_percent(slice)))
        .collect();
    let level = |y: f64| near.iter().map(|point| (point.0, y)).collect::<Vec<_>>();
    panel.band(&level(0.0), &near, Tone::Cool)?;
    panel.band(&near, &level(100.0), Tone::Warm)?;
    panel.line(&near, Tone::Cool, Stroke::Thick)?;
    let corner = (panel.x_end(), 100.0);
    let beside = |tone: Tone| Label::new(tone.color(), HPos::Left, VPos::Center).bold();
    panel.label(corner, "far", beside(Tone::Warm).shifted(9, 8))?;
    panel.label((panel.x_end(), 0.0), "near", beside(Tone::Cool).shifted(9, -8))
}

fn draw_event(panel: &Panel<'_, '_>, timeline: &Timeline, named: bool) -> Result<(), DrawError> {
    let (at, text) = (timeline.event.0.as_secs_f64(), &timeline.event.1);
    panel.line(&[(at, 0.0), (at, panel.y_end())], Tone::Quiet, Stroke::Dashed)?;
    if !named {
        return Ok(());
    }
    let label = Label::new(Tone::Quiet.color(), HPos::Right, VPos::Top).shifted(-6, 2);
    panel.label((at, panel.y_end()), text, label)
}

/// The time axis ends where the run does, not at the next round number.
fn time_axis(title: &str, seconds: f64) -> Axis<'_> {
    let mut axis = Axis::to(title, seconds, 6);
    axis.ticks.retain(|tick| *tick <= seconds * 1.000_001);
    axis.end = seconds;
    axis
}

fn middles(timeline: &Timeline) -> impl Iterator<Item = f64> {
    let step = timeline.step.as_secs_f64();
    (0..timeline.slices.len()).map(move |index| (index as f64 + 0.5) * step)
}

fn near_percent(slice: &Slice) -> f64 {
    Ratio::part(slice.near.get(), slice.near.get() + slice.far.get()).as_f64() * 100.0
}

fn describe(timeline: &Timeline) -> String {
    let (at, what) = (&timeline.event.0, &timeline.event.1);
    let slices = &timeline.slices;
    let slowest = slices.iter().map(|slice| slice.max).max().unwrap_or_default();
    let sum = |of: fn(&Slice) -> Count| slices.iter().map(|slice| of(slice).get()).sum::<u64>();
    format!(
        "{what} after {at}. Near answered {} requests, far {}, {} failed; the slowest took {}.",
        sum(|slice| slice.near),
        sum(|slice| slice.far),
        sum(|slice| slice.failed),
        millis(slowest),
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn failover() -> Timeline {
        let slice = |index: u64| Slice {
            mean: Duration::from_millis(if index < 20 { 40 } else { 71 }),
            max: Duration::from_millis(if index == 20 { 190 } else { 80 }),
            near: Count::new(if index < 20 { 10 } else { 0 }),
            far: Count::new(if index < 20 { 0 } else { 10 }),
            failed: Count::new(0),
        };
        Timeline {
            step: Duration::from_millis(100),
            slices: (0..50).map(slice).collect(),
            event: (Duration::from_secs(2), "near killed".into()),
        }
    }

    #[test]
    fn the_event_and_both_regions_are_named() {
        let picture = over_time("Failover", &failover()).unwrap();
        for text in ["near killed", "far\n", "near\n", "seconds", "response time, ms"] {
            assert!(picture.svg().contains(text), "{text} is missing");
        }
        assert!(picture.description.contains("200 requests, far 300, 0 failed"));
        assert!(picture.description.contains("slowest took 190 ms"));
    }
}
