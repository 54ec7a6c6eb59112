//! Tables that a terminal and a page both show.

use std::fmt;

use loadline_measure::record::StudyVerdict;

/// A table with a caption, headed columns and rows of cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// What the table shows, in one sentence.
    pub caption: String,
    /// The columns, left to right.
    pub columns: Vec<Column>,
    /// The rows; a row shorter than the columns leaves the rest empty, cells beyond are not shown.
    pub rows: Vec<Vec<Cell>>,
}

/// A column: its heading, and on which side its cells stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading, with the unit where the cells leave it out.
    pub heading: String,
    /// Left for words, right for figures.
    pub align: Align,
}

/// On which side a column's cells stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Text as it is.
    Text(String),
    /// Whether the row is as it should be.
    Pass(bool),
    /// A word for the better.
    Good(String),
    /// A word for the worse, or a warning.
    Bad(String),
}

impl Table {
    /// An empty table; the first column is for words, the others for figures.
    #[must_use]
    pub fn new(caption: impl Into<String>, headings: &[&str]) -> Self {
        let column = |(index, heading): (usize, &&str)| Column {
            heading: (*heading).to_owned(),
            align: if index == 0 { Align::Left } else { Align::Right },
        };
        Self {
            caption: caption.into(),
            columns: headings.iter().enumerate().map(column).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row of cells.
    pub fn push(&mut self, row: impl IntoIterator<Item = Cell>) {
        self.rows.push(row.into_iter().collect());
    }

    fn widths(&self) -> Vec<usize> {
        let widest = |(index, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            let heading = column.heading.chars().count();
            cells.map(|cell| cell.text().chars().count()).fold(heading, usize::max)
        };
        self.columns.iter().enumerate().map(widest).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        let mut line = |texts: &mut dyn Iterator<Item = &str>| -> fmt::Result {
            let mut text = String::new();
            for (column, width) in self.columns.iter().zip(&widths) {
                let cell = texts.next().unwrap_or_default();
                let padded = match column.align {
                    Align::Left => format!("{cell:<width$}"),
                    Align::Right => format!("{cell:>width$}"),
                };
                text.push_str("  ");
                text.push_str(&padded);
            }
            writeln!(f, "{}", text.trim_end())
        };
        line(&mut self.columns.iter().map(|column| column.heading.as_str()))?;
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        line(&mut rules.iter().map(String::as_str))?;
        self.rows.iter().try_for_each(|row| line(&mut row.iter().map(Cell::text)))
    }
}

impl Cell {
    /// The word of a verdict.
    #[must_use]
    pub fn of_verdict(verdict: &StudyVerdict) -> Self {
        match verdict.invalid {
            true => Self::Bad(verdict.word().to_owned()),
            false => Self::Pass(verdict.pass),
        }
    }

    /// The text of the cell.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Good(text) | Self::Bad(text) => text,
            Self::Pass(true) => "PASS",
            Self::Pass(false) => "FAIL",
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_their_headings() {
        let mut table = Table::new("One server", &["rate", "average", ""]);
        table.push(["40/s".into(), "38.4 ms".into(), Cell::Pass(true)]);
        table.push(["100/s".into(), "1240 ms".into(), Cell::Pass(false)]);
        let expected = "  rate   average
  -----  -------  ----
  40/s   38.4 ms  PASS
  100/s  1240 ms  FAIL
";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn a_short_row_leaves_the_rest_empty() {
        let mut table = Table::new("", &["a", "b"]);
        table.push(["x".into()]);
        table.push(["x".into(), "y".into(), "beyond".into()]);
        assert_eq!(table.to_string(), "  a  b\n  -  -\n  x\n  x  y\n");
    }
}
