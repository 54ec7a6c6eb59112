//! A formula that was worked out.

use loadline_measure::record::{Column, FormulaRecord};

use super::{part, picture, text};
use crate::{
    figures::five_digits,
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
        let cells = [input.name.as_str().into(), five_digits(input.value).into(), "".into()];
        table.push(cells.into_iter().chain([input.unit.as_str().into()]));
    }
    for result in &record.results {
        let published = result.published.map(five_digits).unwrap_or_default();
        table.push([
            result.quantity.name.as_str().into(),
            five_digits(result.quantity.value).into(),
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
    let title = |column: &Column| match column.unit.as_str() {
        "" => column.name.clone(),
        unit => format!("{}, {unit}", column.name),
    };
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

#[cfg(test)]
mod tests {
    use loadline_measure::record::{FormulaCurve, FormulaResult, Quantity};

    use super::*;
    use crate::table::Cell;

    fn record() -> FormulaRecord {
        let column = |name: &str, unit: &str| Column { name: name.into(), unit: unit.into() };
        FormulaRecord {
            inputs: vec![Quantity::new("servers", 4.0, "")],
            results: vec![FormulaResult::new("near", 112.5, "ms").published(Some(112.5))],
            curve: Some(FormulaCurve {
                columns: vec![column("after", "s"), column("balance", "")],
                rows: vec![vec![0.0, 1.0], vec![1.0, 2.0]],
            }),
            ..FormulaRecord::default()
        }
    }

    #[test]
    fn figures_of_a_formula_are_those_of_the_terminal() {
        let blocks = section("x", &record()).unwrap().blocks;
        let [_, _, Block::Table(table), _] = &blocks[..] else { panic!("{blocks:?}") };
        let texts = |row: usize| table.rows[row].iter().map(Cell::text).collect::<Vec<_>>();
        assert_eq!(texts(0), ["servers", "4", "", ""]);
        assert_eq!(texts(1), ["near", "112.5", "112.5", "ms"]);
    }

    #[test]
    fn a_quantity_without_a_unit_has_a_title_without_a_comma() {
        let curve = curve(&record()).unwrap();
        assert_eq!(
            (curve.x_title.as_str(), curve.charts[0].title.as_str()),
            ("after, s", "balance")
        );
    }
}
