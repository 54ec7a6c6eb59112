//! What a row knows while its plan is made: names, values, and where to note what is wrong.

use std::{fmt::Display, str::FromStr};

use loadline_core::units::UnitError;
use loadline_spanned::{At, Problems, Span, known};

use super::Places;
use crate::study::{
    expand::{Values, expand},
    file::File,
    place::Word,
    read::Study,
};

/// A row while its plan is made.
pub(crate) struct Scope<'s> {
    pub(crate) study: &'s Study,
    pub(crate) file: &'s File,
    pub(crate) row: &'s str,
    pub(crate) places: &'s Places,
    pub(crate) problems: &'s mut Problems,
    /// What placeholders stand for; phases add the variables of their `for`.
    pub(crate) values: Values,
}

impl<'s> Scope<'s> {
    pub(crate) fn new(
        study: &'s Study,
        row: &'s str,
        places: &'s Places,
        problems: &'s mut Problems,
    ) -> Self {
        let file = &study.file;
        let path = |path: &std::path::Path| path.display().to_string();
        let mut values: Values = [
            ("loadline", places.loadline.clone()),
            ("run", path(&places.run)),
            ("study", path(study.folder())),
            ("seed", places.seed.to_string()),
            ("speed", study.speed().to_string()),
            ("row", row.to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let own = file.row.iter().filter(|(name, _)| name.value == row);
        let own = own.flat_map(|(_, row)| &row.value.values);
        let quick = file.quick.values.iter().filter(|_| study.is_quick());
        for (name, value) in file.values.iter().chain(quick).chain(own) {
            values.insert(name.value.clone(), value.value.0.clone());
        }
        Self { study, file, row, places, problems, values }
    }

    /// Whether something is in this row; names of rows that are none are noted.
    pub(crate) fn has(&mut self, rows: &[At<String>]) -> bool {
        rows.iter().for_each(|row| self.study.check_row(row, self.problems));
        rows.is_empty() || rows.iter().any(|name| name.value == self.row)
    }

    /// The text with placeholders filled in; what is wrong is noted and leaves it as it is.
    pub(crate) fn fill(&mut self, text: &At<String>) -> String {
        self.fill_at(&text.value, &text.span)
    }

    /// A word with placeholders filled in.
    pub(crate) fn fill_word(&mut self, word: &At<Word>) -> String {
        self.fill_at(&word.value.0, &word.span)
    }

    fn fill_at(&mut self, text: &str, span: &Span) -> String {
        expand(text, &self.values).unwrap_or_else(|error| {
            let names = self.values.keys().map(String::as_str);
            let all = names.map(|name| format!("{{{name}}}")).collect::<Vec<_>>().join(", ");
            let help = format!("in the row `{}` there is {all}", self.row);
            self.problems.error(span, error.to_string(), "here", help);
            text.to_owned()
        })
    }

    /// A quantity with its unit; none, and noted, where it is none.
    pub(crate) fn quantity<T: FromStr<Err = UnitError>>(&mut self, text: &At<String>) -> Option<T> {
        let filled = self.fill(text);
        let parsed = filled.parse();
        parsed
            .map_err(|error: UnitError| {
                let (message, help) = error.fraction().unwrap_or_else(|| {
                    let help = format!("write it with its unit, like {}", error.example());
                    (format!("`{filled}` is no quantity here"), help)
                });
                self.problems.error(&text.span, message, "here", help);
            })
            .ok()
    }

    /// A command with placeholders filled in.
    pub(crate) fn arguments(
        &mut self,
        run: &Option<At<Vec<At<Word>>>>,
        table: &At<impl Sized>,
    ) -> Vec<String> {
        let words = run.as_ref().map_or(&[][..], |run| &run.value);
        if words.is_empty() {
            let start = table.span.start;
            let help = "write `run = [\"{loadline}\", \"bench\", ...]`";
            self.problems.error(
                &(start..start + 1),
                "there is no command to run here",
                "here",
                help,
            );
        }
        words.iter().map(|word| self.fill_word(word)).collect()
    }

    /// The text of a key that has to be there; what is missing is noted at `table`.
    pub(crate) fn needed<'t, T>(
        &mut self,
        value: &'t Option<T>,
        key: &str,
        table: &At<impl Sized>,
    ) -> Option<&'t T> {
        if value.is_none() {
            let start = table.span.start;
            let help = format!("write `{key} = ...` below it");
            self.problems.error(
                &(start..start + 1),
                format!("`{key}` is missing here"),
                "here",
                help,
            );
        }
        value.as_ref()
    }

    /// The name if it is one of `all`; else it is noted that there is no such `what`.
    pub(crate) fn one_of(
        &mut self,
        what: &str,
        name: &At<String>,
        all: &[String],
    ) -> Option<String> {
        let found = all.iter().find(|one| *one == &name.value).cloned();
        if found.is_none() {
            let help = known(&name.value, all);
            self.wrong(name, format!("there is no {what} `{}` in this row", name.value), help);
        }
        found
    }

    /// Notes what is wrong with a value.
    pub(crate) fn wrong<T>(&mut self, at: &At<T>, message: impl Display, help: impl Into<String>) {
        self.problems.error(&at.span, message.to_string(), "here", help);
    }

    /// The hosts of this row.
    pub(crate) fn hosts(&mut self) -> Vec<String> {
        let file = self.file;
        let hosts = file.host.iter().filter(|(_, host)| self.has(&host.value.rows));
        hosts.map(|(name, _)| name.value.clone()).collect()
    }
}
