//! A comparison that was recorded.

use loadline_measure::record::{ComparedRun, ComparisonRecord};

use super::{part, text};
use crate::{
    comparison::comparison_table,
    figures::utc,
    page::{Block, Section},
};

pub(super) fn section(name: &str, record: &ComparisonRecord) -> Section {
    let run = |letter: &str, run: &ComparedRun| {
        let invalid = if run.valid { "" } else { " (invalid)" };
        let began = match run.started_unix_ms {
            0 => String::new(),
            at => format!(", {}", utc(at)),
        };
        text(format!("{letter} is {}{invalid}, {}{began}", run.name, run.target))
    };
    let mut blocks = vec![run("A", &record.a), run("B", &record.b)];
    blocks.extend(record.warnings.iter().cloned().map(Block::Warning));
    blocks.push(text(if record.regressed {
        "B is a regression."
    } else {
        "No regression is shown."
    }));
    blocks.push(Block::Table(comparison_table(record)));
    part(format!("Comparison {name}"), blocks)
}
