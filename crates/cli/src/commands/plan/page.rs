//! A formula with its inputs and results as a page for a terminal of 80 columns.

use std::fmt::Write as _;

use loadline_measure::record::{FormulaCurve, FormulaRecord, FormulaResult, Quantity};
use loadline_report::five_digits;

/// The page, with its line ends.
pub(super) fn write(record: &FormulaRecord) -> String {
    let mut page = format!("{}: {}\n\n", record.name, record.question);
    let names = record.inputs.iter().chain(record.results.iter().map(|result| &result.quantity));
    let width = names.map(|quantity| quantity.name.chars().count()).max().unwrap_or(0);
    for input in &record.inputs {
        line(&mut page, format_args!("  {}", quantity(input, width)));
    }
    line(&mut page, format_args!("\n{}", indented("  ", &record.formula)));
    results(&mut page, &record.results, width);
    if let Some(of) = &record.curve {
        curve(&mut page, of);
    }
    for note in &record.notes {
        line(&mut page, format_args!("\n{}", wrapped(note)));
    }
    line(&mut page, format_args!("\n{}", wrapped(&format!("Source: {}", record.source))));
    page
}

fn results(page: &mut String, results: &[FormulaResult], width: usize) {
    let is_published = results.iter().any(|result| result.published.is_some());
    let heading = if is_published { "the document" } else { "" };
    let heading = format!("  {:width$}  {:24}{heading}", "", "");
    line(page, format_args!("{}", heading.trim_end()));
    for result in results {
        let published = result.published.map(five_digits).unwrap_or_default();
        let text = format!("  {}{published:>12}", quantity(&result.quantity, width));
        line(page, format_args!("{}", text.trim_end()));
    }
}

fn quantity(quantity: &Quantity, width: usize) -> String {
    let Quantity { name, value, unit } = quantity;
    format!("{name:width$}  {:>12} {unit:11}", five_digits(*value)).trim_end().to_owned()
}

/// A table whose last column is drawn as well.
fn curve(page: &mut String, curve: &FormulaCurve) {
    let names = curve.columns.iter().map(|column| format!("{:>COLUMN$}", column.name));
    let units = curve.columns.iter().map(|column| format!("{:>COLUMN$}", column.unit));
    line(page, format_args!("\n{}", names.collect::<String>()));
    line(page, format_args!("{}", units.collect::<String>().trim_end()));
    let drawn = |row: &Vec<f64>| row.last().copied().unwrap_or_default();
    let most = curve.rows.iter().map(drawn).fold(0.0, f64::max);
    let room = PAGE.saturating_sub(COLUMN * curve.columns.len() + 2);
    for row in &curve.rows {
        let cells: String =
            row.iter().map(|value| format!("{:>COLUMN$}", five_digits(*value))).collect();
        let bar = "#".repeat(bar(drawn(row), most, room));
        line(page, format_args!("{cells} |{bar}"));
    }
}

/// Where there is something, there is a mark.
fn bar(value: f64, most: f64, room: usize) -> usize {
    if most <= 0.0 { 0 } else { ((value / most * room as f64).ceil() as usize).min(room) }
}

fn indented(indent: &str, text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("{indent}{line}")).collect();
    lines.join("\n")
}

/// The words of a text in lines that fit the page.
fn wrapped(text: &str) -> String {
    let mut page = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > PAGE {
            page.push('\n');
            used = 0;
        } else if used > 0 {
            page.push(' ');
            used += 1;
        }
        page += word;
        used += length;
    }
    page
}

fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(page, "{text}").expect("writing to a string cannot fail");
}

const PAGE: usize = 79;

const COLUMN: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_between_words() {
        let text = wrapped(&"word ".repeat(40));
        assert!(text.lines().all(|line| line.len() <= PAGE && line.ends_with("word")));
        assert_eq!(text.split_whitespace().count(), 40);
        assert_eq!(wrapped(""), "");
    }

    #[test]
    fn a_bar_is_never_longer_than_its_room_nor_missing() {
        let lengths = [0.0, 0.001, 5.0, 10.0].map(|value| bar(value, 10.0, 30));
        assert_eq!(lengths, [0, 1, 15, 30]);
        assert_eq!(bar(0.0, 0.0, 30), 0);
    }
}
