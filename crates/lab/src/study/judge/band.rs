//! What a figure has to be, and whether it is.

use loadline_measure::record::{Reading, StudyFinding};

use super::formula;
use crate::study::file::{Band, FigureEntry};

/// The band of a figure: that of `quick` where it has one and the study is quick.
pub(super) fn band_of(entry: &FigureEntry, quick: bool) -> Band {
    match &entry.quick {
        Some(band) if quick => band.clone(),
        _ => Band {
            within: entry.within.clone(),
            at_least: entry.at_least.clone(),
            at_most: entry.at_most.clone(),
            is: entry.is.clone(),
        },
    }
}

/// Whether there is nothing to judge.
pub(super) fn is_empty(band: &Band) -> bool {
    let Band { within, at_least, at_most, is } = band;
    within.is_none() && at_least.is_none() && at_most.is_none() && is.is_none()
}

/// The figures that its levels are worked out from.
pub(super) fn names(band: &Band) -> Vec<String> {
    let levels = [&band.at_least, &band.at_most].into_iter().flatten();
    let formulas = levels.filter_map(|level| formula(&level.value.0));
    formulas
        .flat_map(|formula| formula.names().into_iter().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// What a figure has to be in words, and what can be said of it.
pub(super) fn hold(
    band: &Band,
    measured: &Reading,
    published: Option<f64>,
    unit: &str,
    value: &dyn Fn(&str) -> Result<f64, String>,
) -> (String, StudyFinding, String) {
    let mut words = Vec::new();
    let mut held = Vec::new();
    let mut reasons = Vec::new();
    if let Some(is) = &band.is {
        words.push(format!("`{}`", is.value));
        held.push(reads(measured, &is.value));
    }
    let number = match measured {
        Reading::Number(number) => *number,
        Reading::Text(_) => f64::NAN,
    };
    if let (Some(within), Some(published)) = (&band.within, published) {
        let share = share(&within.value).unwrap_or_default();
        words.push(format!("within {} of {}", within.value, figure(published, unit)));
        held.push((number - published).abs() <= share * published.abs());
    }
    let levels = [(&band.at_least, "at least", true), (&band.at_most, "at most", false)];
    for (level, word, least) in levels {
        let Some(text) = level.as_ref().map(|level| level.value.0.as_str()) else { continue };
        let Some(level) = formula(text) else { continue };
        match level.value(value) {
            Ok(level) => {
                let bare = text.parse::<f64>().is_ok();
                let how = if bare { String::new() } else { format!("{text} = ") };
                words.push(format!("{word} {how}{}", figure(level, unit)));
                held.push(if least { number >= level } else { number <= level });
            }
            Err(why) => {
                words.push(format!("{word} {text}"));
                held.push(false);
                reasons.push(why);
            }
        }
    }
    let finding = match held.as_slice() {
        // What was not published for the row leaves nothing to hold it against.
        [] => StudyFinding::Shown,
        held if held.iter().all(|held| *held) => StudyFinding::Pass,
        _ => StudyFinding::Fail,
    };
    (words.join(", "), finding, reasons.join("; "))
}

/// Whether a reading is this text: as the report prints it, or a number with all its digits.
fn reads(measured: &Reading, text: &str) -> bool {
    let is_whole = matches!(measured, Reading::Number(number) if number.to_string() == text);
    is_whole || shown(measured, "") == text
}

/// A reading with its unit.
pub(super) fn shown(reading: &Reading, unit: &str) -> String {
    match reading {
        Reading::Number(number) => figure(*number, unit),
        Reading::Text(text) => text.clone(),
    }
}

/// A number with four digits that matter, and its unit.
pub(super) fn figure(value: f64, unit: &str) -> String {
    let decimals = match value.abs() {
        size if size >= 1000.0 || size == 0.0 => 0,
        size => (3 - size.log10().floor() as i32).clamp(0, 6) as usize,
    };
    let text = format!("{value:.decimals$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    match unit {
        "" => text.to_owned(),
        unit if unit.starts_with('/') => format!("{text}{unit}"),
        unit => format!("{text} {unit}"),
    }
}

/// A share as `5%`.
pub(super) fn share(text: &str) -> Option<f64> {
    let share: loadline_core::units::Ratio = text.parse().ok()?;
    Some(share.as_f64())
}
