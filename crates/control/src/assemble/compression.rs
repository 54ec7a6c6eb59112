//! Compression: what a service compresses, and how.

use loadline_core::{compress::Algorithm, fleet};
use loadline_spanned::{Key, Problems};

use super::set;
use crate::{file, value::either::TableOrSwitch};

/// How the responses of a service are compressed; nothing where the file does not want that.
pub(super) fn compression(
    given: &Key<TableOrSwitch<file::Compression>>,
    problems: &mut Problems,
) -> Option<fleet::Compression> {
    let mut compression = fleet::Compression::default();
    let table = match given.get()? {
        TableOrSwitch::Switch(on) => return on.then_some(compression),
        TableOrSwitch::Table(table) => table,
    };
    if let Some(given) = table.algorithms.at() {
        compression.algorithms = given.value.iter().map(|word| word.0.0).collect();
        if given.value.is_empty() {
            let message = "`algorithms` without an algorithm".to_owned();
            let help = "name one at least, or say compress = false".to_owned();
            problems.absent(&given.span, &given.span, message, help);
        }
    }
    if let Some(types) = table.types.get() {
        compression.types = types.iter().map(|range| range.0.clone()).collect();
    }
    set(&table.min_size, |size| &size.0.0, &mut compression.min_size);
    set(&table.credentials, |on| on, &mut compression.credentials);
    if let Some(levels) = table.levels.get() {
        set(&levels.gzip, |level| &level.0, &mut compression.levels.gzip);
        set(&levels.br, |level| &level.0, &mut compression.levels.brotli);
        set(&levels.zstd, |level| &level.0, &mut compression.levels.zstd);
        for (name, level, algorithm) in [
            ("gzip", levels.gzip.at().map(|at| &at.span), Algorithm::Gzip),
            ("br", levels.br.at().map(|at| &at.span), Algorithm::Brotli),
            ("zstd", levels.zstd.at().map(|at| &at.span), Algorithm::Zstd),
        ] {
            let Some(span) = level.filter(|_| !compression.algorithms.contains(&algorithm)) else {
                continue;
            };
            let message = format!("a level of `{name}`, which is none of the `algorithms`");
            let help = format!("add \"{name}\" to `algorithms`, or leave the level out");
            problems.warning(span, message, "no effect", help);
        }
    }
    Some(compression)
}
