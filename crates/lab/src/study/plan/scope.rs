//! What a row knows while its plan is made: names, values, and where to note what is wrong.

use std::{fmt::Display, str::FromStr};

use loadline_core::units::UnitError;
use serde_spanned::Spanned;

use super::Places;
use crate::study::{
    error::{Problems, known},
    expand::{Values, expand},
    file::File,
    place::{Text, Word},
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
        let own = file.row.0.iter().filter(|(name, _)| name.get_ref() == row);
        let own = own.flat_map(|(_, row)| &row.get_ref().values.0);
        let quick = file.quick.values.0.iter().filter(|_| study.is_quick());
        for (name, value) in file.values.0.iter().chain(quick).chain(own) {
            values.insert(name.get_ref().clone(), value.get_ref().0.clone());
        }
        Self { study, file, row, places, problems, values }
    }

    /// Whether something is in this row; names of rows that are none are noted.
    pub(crate) fn has(&mut self, rows: &[Text]) -> bool {
        for name in rows {
            let all = || self.study.rows().iter().map(|row| row.name.as_str());
            if !all().any(|row| row == name.get_ref()) {
                let help = known(name.get_ref(), all());
                self.problems.note(
                    name.span(),
                    format!("there is no row `{}`", name.get_ref()),
                    help,
                );
            }
        }
        rows.is_empty() || rows.iter().any(|name| name.get_ref() == self.row)
    }

    /// The text with placeholders filled in; what is wrong is noted and leaves it as it is.
    pub(crate) fn fill(&mut self, text: &Text) -> String {
        expand(text.get_ref(), &self.values).unwrap_or_else(|error| {
            let names = self.values.keys().map(String::as_str);
            let all = names.map(|name| format!("{{{name}}}")).collect::<Vec<_>>().join(", ");
            let help = format!("in the row `{}` there is {all}", self.row);
            self.problems.note(text.span(), error.to_string(), help);
            text.get_ref().clone()
        })
    }

    /// A word with placeholders filled in.
    pub(crate) fn fill_word(&mut self, word: &Spanned<Word>) -> String {
        self.fill(&Spanned::new(word.span(), word.get_ref().0.clone()))
    }

    /// A quantity with its unit; none, and noted, where it is none.
    pub(crate) fn quantity<T: FromStr<Err = UnitError>>(&mut self, text: &Text) -> Option<T> {
        let filled = self.fill(text);
        let parsed = filled.parse();
        parsed
            .map_err(|error: UnitError| {
                let help = format!("write it with its unit, like {}", error.example());
                self.problems.note(text.span(), format!("`{filled}` is no quantity here"), help);
            })
            .ok()
    }

    /// A command with placeholders filled in.
    pub(crate) fn arguments(
        &mut self,
        run: &Option<Spanned<Vec<Spanned<Word>>>>,
        table: &Spanned<impl Sized>,
    ) -> Vec<String> {
        let words = run.as_ref().map_or(&[][..], |run| run.get_ref());
        if words.is_empty() {
            let start = table.span().start;
            let help = "write `run = [\"{loadline}\", \"bench\", ...]`";
            self.problems.note(start..start + 1, "there is no command to run here", help);
        }
        words.iter().map(|word| self.fill_word(word)).collect()
    }

    /// The text of a key that has to be there; what is missing is noted at `table`.
    pub(crate) fn needed<'t, T>(
        &mut self,
        value: &'t Option<T>,
        key: &str,
        table: &Spanned<impl Sized>,
    ) -> Option<&'t T> {
        if value.is_none() {
            let start = table.span().start;
            let help = format!("write `{key} = ...` below it");
            self.problems.note(start..start + 1, format!("`{key}` is missing here"), help);
        }
        value.as_ref()
    }

    /// The name if it is one of `all`; else it is noted that there is no such `what`.
    pub(crate) fn one_of(&mut self, what: &str, name: &Text, all: &[String]) -> Option<String> {
        let found = all.iter().find(|one| *one == name.get_ref()).cloned();
        if found.is_none() {
            let help = known(name.get_ref(), all.iter().map(String::as_str));
            self.wrong(name, format!("there is no {what} `{}` in this row", name.get_ref()), help);
        }
        found
    }

    /// Notes what is wrong with a value.
    pub(crate) fn wrong<T>(
        &mut self,
        at: &Spanned<T>,
        message: impl Display,
        help: impl Into<String>,
    ) {
        self.problems.note(at.span(), message.to_string(), help);
    }

    /// The hosts of this row.
    pub(crate) fn hosts(&mut self) -> Vec<String> {
        let file = self.file;
        let hosts = file.host.0.iter().filter(|(_, host)| self.has(&host.get_ref().rows));
        hosts.map(|(name, _)| name.get_ref().clone()).collect()
    }
}
