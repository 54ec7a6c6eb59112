//! What is wrong with a configuration.

use loadline_measure::record::{CheckRecord, Severity};

use super::{part, text};
use crate::{
    page::{Block, Section},
    table::{Align, Table},
};

pub(super) fn section(name: &str, check: &CheckRecord) -> Section {
    let title = format!("{name}: check of {}", check.file);
    if check.problems.is_empty() {
        return part(title, vec![text("Nothing is wrong with it.".to_owned())]);
    }
    let mut table =
        Table::new("What is wrong", &["what", "file", "line", "column", "message", "help"]);
    table.columns[1].align = Align::Left;
    table.columns[4].align = Align::Left;
    table.columns[5].align = Align::Left;
    for problem in &check.problems {
        let severity = match problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        table.push([
            severity.into(),
            problem.file.as_str().into(),
            problem.line.to_string().into(),
            problem.column.to_string().into(),
            problem.message.as_str().into(),
            problem.help.as_str().into(),
        ]);
    }
    part(title, vec![Block::Table(table)])
}
