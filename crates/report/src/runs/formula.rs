//! A formula that was worked out.

use loadline_measure::record::FormulaRecord;

use super::{part, picture, text};
use crate::{
    figures::digits,
    page::{Block, Section},
    plot::{
        PlotError, Tone,
        lines::{Along, Chart, Kind, Line, Lines},
        panel::Stroke,
    },
    table::Table,
};

pub(super) fn section(name: &str, record: &FormulaRecord) -> Result<Section, PlotError> {
    let mut table = Table::new(record.question.as_str(), &["", "value", "published", "unit"]);
    for input in &record.inputs {
        let cells = [input.name.as_str().into(), digits(input.value).into(), "".into()];
        table.push(cells.into_iter().chain([input.unit.as_str().into()]));
    }
    for result in &record.results {
        let published = result.published.map(digits).unwrap_or_default();
        table.push([
            result.quantity.name.as_str().into(),
            digits(result.quantity.value).into(),
            published.into(),
            result.quantity.unit.as_str().into(),
        ]);
    }
    let mut blocks = vec![text(&*record.formula), text(&*record.source), Block::Table(table)];
    blocks.extend(record.notes.iter().map(|note| text(&**note)));
    if let Some(curve) = curve(record) {
        blocks.push(picture(curve.draw()?));
    }
    Ok(part(format!("Formula {} {name}", record.name), blocks))
}

/// The last column over the first.
fn curve(record: &FormulaRecord) -> Option<Lines> {
    let curve = record.curve.as_ref()?;
    let (x, y) = (curve.columns.first()?, curve.columns.last()?);
    let title =
        |column: &loadline_measure::record::Column| format!("{}, {}", column.name, column.unit);
    let point = |row: &Vec<f64>| row.first().copied().zip(row.last().copied());
    let line = Line {
        name: String::new(),
        tone: Tone::Cool,
        stroke: Stroke::Thick,
        points: curve.rows.iter().filter_map(point).collect(),
        dots: false,
    };
    Some(Lines {
        title: format!("{} by {}", y.name, x.name),
        description: record.question.clone(),
        x_title: title(x),
        x: Along::Even,
        charts: vec![Chart { title: title(y), lines: vec![line], kind: Kind::Even }],
        marks: Vec::new(),
    })
}
