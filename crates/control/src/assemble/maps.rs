//! Maps: from the entries of the file, and of files that it names, to variables of headers.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use loadline_core::rules::{CLAIM, Map, MapError, MapKind, Template, Variable};
use loadline_spanned::{At, Named, Problems, Text, Textual as _};

use super::{read_text, set};
use crate::{
    file::{self, File},
    suggest,
    value::{
        label::Name,
        pattern::{HeaderTemplate, HeaderText},
    },
};

/// The maps of a file, by name.
pub(super) struct Maps {
    known: BTreeMap<String, Arc<Map>>,
    /// Whether there may be more maps, which could not be read.
    is_damaged: bool,
}

/// An entry of a map file, with the number of its line.
struct Line {
    number: usize,
    key: String,
    value: String,
}

impl Maps {
    /// The maps of `file`.
    pub(super) fn new(file: &At<File>, problems: &mut Problems) -> Self {
        let table = &file.value.maps;
        let is_damaged = table.at().is_some_and(|table| problems.is_damaged(&table.span))
            || problems.is_damaged(&file.span);
        let named: Vec<_> = table.get().into_iter().flat_map(Named::iter).collect();
        let known = named.iter().filter_map(|(name, given)| map(name, given, problems));
        let known: BTreeMap<String, Arc<Map>> =
            known.map(|map| (map.name().to_owned(), Arc::new(map))).collect();
        // What is wrong with one of them is told where it is found.
        let is_damaged = is_damaged || known.len() < named.len();
        Self { known, is_damaged }
    }

    /// A text with its variables; an unknown variable is an error.
    pub(super) fn template(
        &self,
        given: &At<Text<HeaderTemplate>>,
        problems: &mut Problems,
    ) -> Template {
        let known = |name: &str| self.known.get(name).cloned();
        Template::read_with(&given.value.0.0, &known).unwrap_or_else(|unknown| {
            if !self.is_damaged {
                let names = Variable::ALL.map(Variable::name);
                let names: Vec<&str> =
                    names.into_iter().chain(self.known.keys().map(String::as_str)).collect();
                let help = suggest::known_among(problems, &unknown.0, &names);
                let help = format!("{help}; `$$` is a dollar sign");
                problems.error(&given.span, unknown.to_string(), "here", help);
            }
            Template::default()
        })
    }

    /// The map that a key names; an error where there is none.
    pub(super) fn find(&self, given: &At<Text<Name>>, problems: &mut Problems) -> Option<Arc<Map>> {
        let name = &given.value.0.0;
        let map = self.known.get(name);
        if map.is_none() && !self.is_damaged {
            let names: Vec<&str> = self.known.keys().map(String::as_str).collect();
            let help = match names.as_slice() {
                [] => format!("add it: [maps.{name}]"),
                names => suggest::known_among(problems, name, names),
            };
            problems.error(&given.span, format!("there is no map `{name}`"), "this map", help);
        }
        map.cloned()
    }

    /// Warns of maps that no text uses.
    pub(super) fn warn_unused(&self, file: &File, problems: &mut Problems) {
        for (name, _) in file.maps.get().into_iter().flat_map(Named::iter) {
            let map = self.known.get(&name.value);
            if map.is_some_and(|map| Arc::strong_count(map) == 1) {
                let message = format!("no route uses the map `{}`", name.value);
                let help = format!("write `${}` in the value of a header", name.value);
                problems.warning(&name.span, message, "never used", help);
            }
        }
    }
}

fn map(name: &At<String>, given: &At<file::Map>, problems: &mut Problems) -> Option<Map> {
    check_name(name, problems);
    let file = &given.value;
    if !file.values.given() && !file.file.given() {
        let message = format!("the map `{}` has no entries", name.value);
        let help = "add values = { \"example.com\" = \"web\" }, or a `file`".to_owned();
        problems.absent(&given.span, &given.span, message, help);
    }
    let mut kind = MapKind::default();
    set(&file.kind, |word| &word.0.0, &mut kind);
    let of = of(name, given, problems)?;
    let default = file.default.get().map(|text| text.0.0.clone()).unwrap_or_default();
    let written: Vec<&(At<String>, At<Text<HeaderText>>)> =
        file.values.get().into_iter().flat_map(Named::iter).collect();
    if kind != MapKind::Regex && of.to_string() == "$host" {
        warn_of_capitals(&written, problems);
    }
    let path = file.file.get().map(|path| Path::new(&path.0.0));
    // What tries the file (`outside`) says where it cannot be read.
    let lines = path.and_then(|path| read_lines(path).ok()).unwrap_or_default();
    let own = written.iter().map(|(key, value)| (key.value.clone(), value.value.0.0.clone()));
    let entries = own.chain(lines.into_iter().map(|line| (line.key, line.value))).collect();
    let made = Map::new((&name.value, &of), kind, entries, default);
    made.map_err(|error| refuse(&error, &written, problems)).ok()
}

/// Warns of keys that are no host as it is looked up.
fn warn_of_capitals(written: &[&(At<String>, At<Text<HeaderText>>)], problems: &mut Problems) {
    for (key, _) in written {
        let lower = key.value.to_ascii_lowercase();
        if lower != key.value {
            let message = format!("`{}` is no `$host`, which is in small letters", key.value);
            problems.warning(&key.span, message, "never found", format!("write `{lower}`"));
        }
    }
}

/// Tells what is wrong with the entries that are `written`. Where that is in the file alone, what
/// tries it says so.
fn refuse(
    error: &MapError,
    written: &[&(At<String>, At<Text<HeaderText>>)],
    problems: &mut Problems,
) {
    let (first, last) = match error {
        MapError::Duplicate(first, last) => (*first, *last),
        MapError::Regex(at, _) => (*at, *at),
    };
    let Some((key, _)) = written.get(first) else { return };
    let (key, message, help) = match written.get(last) {
        Some((key, _)) => (key, error.to_string(), "write each key once, as it is compared"),
        None => (key, "the key is in the file too".to_owned(), "keep one of the two"),
    };
    problems.error(&key.span, message, "this key", help.to_owned());
}

/// The template that a map looks up, which has a variable.
fn of(name: &At<String>, given: &At<file::Map>, problems: &mut Problems) -> Option<Template> {
    let Some(of) = given.value.of.at() else {
        let message = format!("the map `{}` does not say what is looked up", name.value);
        let help = "add a variable: of = \"$host\"".to_owned();
        problems.absent(&given.span, &given.span, message, help);
        return None;
    };
    let none = Maps { known: BTreeMap::new(), is_damaged: false };
    let template = none.template(of, problems);
    if template.is_literal() && !template.to_string().is_empty() {
        let message = format!("`{template}` is the same for every request");
        problems.error(&of.span, message, "here", "write a variable: \"$host\"".to_owned());
    }
    Some(template)
}

fn check_name(name: &At<String>, problems: &mut Problems) {
    let is_of_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    if name.value.is_empty() || !name.value.bytes().all(is_of_name) {
        let message = format!("`{}` is not the name of a variable", name.value);
        let help = "write small letters and `_`: [maps.backend_tag]".to_owned();
        problems.error(&name.span, message, "this map", help);
    } else if Variable::ALL.iter().any(|variable| variable.name() == name.value) {
        let message = format!("`${}` is a variable of every request", name.value);
        problems.error(&name.span, message, "this map", "choose another name".to_owned());
    } else if name.value.starts_with(CLAIM) {
        let message = format!("`${}` is a claim of a JSON Web Token", name.value);
        problems.error(&name.span, message, "this map", "choose another name".to_owned());
    }
}

/// Tries the entries of a map file, as those of a map of this kind.
///
/// # Errors
/// What is wrong with it, with line and column.
pub(crate) fn check(path: &Path, kind: MapKind) -> Result<(), String> {
    let lines = read_lines(path)?;
    let numbers: Vec<usize> = lines.iter().map(|line| line.number).collect();
    let entries = lines.into_iter().map(|line| (line.key, line.value)).collect();
    let made = Map::new(("", &Template::default()), kind, entries, String::new());
    made.map(drop).map_err(|error| match &error {
        MapError::Duplicate(first, at) => {
            format!("line {}: the key of line {}, once more", numbers[*at], numbers[*first])
        }
        MapError::Regex(at, _) => format!("line {}: {error}", numbers[*at]),
    })
}

/// The entries of a map file.
fn read_lines(path: &Path) -> Result<Vec<Line>, String> {
    let text = read_text(path)?;
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let entry = line.trim();
        if entry.is_empty() || entry.starts_with('#') {
            continue;
        }
        let column = |rest: &str| line.chars().count() - rest.chars().count() + 1;
        let Some((key, value)) = entry.split_once(char::is_whitespace) else {
            let column = line.trim_end().chars().count() + 1;
            return Err(format!("line {number}, column {column}: `{entry}` has no value"));
        };
        let value = value.trim_start();
        let value = HeaderText::read(value).map_err(|complaint| {
            let column = column(&line[line.trim_end().len() - value.len()..]);
            format!("line {number}, column {column}: {}", complaint.message)
        })?;
        lines.push(Line { number, key: key.to_owned(), value: value.0 });
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn checked(text: &str, kind: MapKind) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts.map");
        fs::write(&path, text).unwrap();
        check(&path, kind)
    }

    #[test]
    fn a_map_file_has_an_entry_a_line_and_an_error_names_its_place() {
        let right = "# hosts\n\na.example   blue green \n\tb.example\thttps://x/#part\n";
        assert_eq!(checked(right, MapKind::Exact), Ok(()));
        let marked = checked("\u{feff}a b\na c\n", MapKind::Exact);
        assert_eq!(
            marked,
            Err("line 2: the key of line 1, once more".to_owned()),
            "a BOM is no key"
        );
        for (text, kind, told) in [
            ("a b\n  c\n", MapKind::Exact, "line 2, column 4: `c` has no value"),
            ("a  \u{e9}\n", MapKind::Exact, "line 1, column 4: not allowed in a header"),
            (
                "\ta b\n\n\u{e9} c\u{7f}\n",
                MapKind::Exact,
                "line 3, column 3: not allowed in a header",
            ),
            ("a b\n#\na c\n", MapKind::Suffix, "line 3: the key of line 1, once more"),
        ] {
            assert_eq!(checked(text, kind), Err(told.to_owned()), "{text:?}");
        }
        let wrong = checked("^a b\n( c\n", MapKind::Regex).unwrap_err();
        assert!(wrong.starts_with("line 2: no regular expression"), "{wrong}");
        assert!(check(Path::new("/nowhere/hosts.map"), MapKind::Exact).is_err());
    }

    #[test]
    fn lines_are_read_as_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts.map");
        fs::write(&path, "a.example   blue green \n# x\n\tb.example\thttps://x/#part\r\n").unwrap();
        let lines = read_lines(&path).unwrap();
        let read: Vec<_> = lines.iter().map(|it| (it.number, &*it.key, &*it.value)).collect();
        assert_eq!(read, [(1, "a.example", "blue green"), (3, "b.example", "https://x/#part")]);
    }
}
