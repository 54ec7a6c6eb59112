//! From text to the types of the file, collecting every error on the way.
//!
//! serde stops at its first error. So whatever it could not read is noted, cut out of the tree,
//! and the rest is read again, until all that is left can be read. The table that lost something
//! is marked as damaged: what it lacks afterwards is not an error of its own.

use std::{fs, path::Path};

use serde::de::DeserializeOwned;
use serde_spanned::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Error};

use crate::{
    deserialize::deserialize,
    kind::FileKind,
    place::{At, Span},
    problem::{FileErrors, Problems, SHOWN_MAX, Source},
    text::{Complaint, VARIABLES_HELP, has_variable},
    tree::Tree,
    variables::{LookUp, Variables},
};

/// The text of the file at `path`.
///
/// # Errors
/// Why it cannot be read; `help` says what to name instead.
pub fn load<K: FileKind>(path: &Path, help: &str) -> Result<String, FileErrors> {
    let name = path.display().to_string();
    let mut problems = Problems::default();
    let text = match fs::read(path) {
        Ok(bytes) => decoded(bytes, 0, &mut problems),
        Err(error) => {
            problems.unplaced(format!("cannot read `{name}`: {error}"), help);
            String::new()
        }
    };
    if problems.failed() {
        return Err(problems.into_errors(&Source::new::<K>(&name, K::shown(text))));
    }
    Ok(text)
}

/// The text of a file of these bytes, which begins at `begin` of the whole. What is not UTF-8 is an
/// error, and stands in the text as a sign for it.
pub fn decoded(bytes: Vec<u8>, begin: usize, problems: &mut Problems) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| {
        let start = begin + error.utf8_error().valid_up_to();
        let place = start..start + char::REPLACEMENT_CHARACTER.len_utf8();
        problems.error(&place, "this is not UTF-8", "here", "save the file as UTF-8");
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    })
}

/// Reads what can be read; everything else is in `problems`. None where the text is not TOML.
pub fn read<K: FileKind, T: DeserializeOwned>(
    text: &str,
    problems: &mut Problems,
) -> Option<At<T>> {
    read_tree::<K, T>(&[text], None, problems)
}

/// As [`read`], of several texts: lists at the top of one go on in the next, tables at the top are
/// filled. Places count as if the texts followed each other, a byte between them, which
/// [`Source::of_parts`] knows. In every text of theirs, variables are put in.
pub fn read_parts<K: FileKind, T: DeserializeOwned>(
    texts: &[&str],
    look_up: LookUp<'_>,
    problems: &mut Problems,
) -> Option<At<T>> {
    read_tree::<K, T>(texts, Some(&Variables::of(texts, look_up)), problems)
}

/// The texts of the list `key` at the top of a file, with their places; none where the file cannot
/// be read, which [`read`] tells.
#[must_use]
pub fn texts_of(text: &str, key: &str) -> Vec<At<String>> {
    // A file of thousands of services is parsed for it only where it may be there: with an escape
    // the key can be written otherwise.
    if !text.contains(key) && !text.contains('\\') {
        return Vec::new();
    }
    let (root, _) = DeTable::parse_recoverable(text);
    let list = root.get_ref().iter().find(|(name, _)| name.get_ref() == key);
    let list = list.and_then(|(_, list)| list.get_ref().as_array());
    let text = |it: &Spanned<DeValue<'_>>| {
        it.get_ref().as_str().map(|text| At { value: text.to_owned(), span: it.span() })
    };
    list.into_iter().flat_map(|list| list.iter()).filter_map(text).collect()
}

fn read_tree<K: FileKind, T: DeserializeOwned>(
    texts: &[&str],
    variables: Option<&Variables<'_>>,
    problems: &mut Problems,
) -> Option<At<T>> {
    let tree = match Tree::of(texts, variables, problems) {
        Ok(tree) => tree,
        Err((index, start, error)) => {
            // The help may have a value that has no quotes.
            let shown = K::shown(texts[index].to_owned());
            note_syntax(&shown, start, &error, problems);
            return None;
        }
    };
    let span = tree.root.span();
    if let Ok(file) = deserialize(tree.root) {
        return Some(file);
    }
    // Once more, and slowly: a tree that can be read is read once.
    let mut tree = Tree::of(texts, variables, problems).ok()?;
    for _ in 0..SHOWN_MAX + tree.lone() {
        let error = match deserialize(tree.root.clone()) {
            Ok(file) => return Some(file),
            Err(error) => error,
        };
        let place = error.span().unwrap_or_else(|| span.clone());
        if error.message().starts_with(TEXT_FOUND) && tree.retype(&place, variables) {
            continue;
        }
        // What is wrong with the rest of a list out of which something was cut is its own doing.
        if !problems.is_damaged(&place) {
            let found = Found { path: tree.path(&place), text: text_at(texts, &place) };
            let complaint = complaint::<K>(error.message(), &found);
            problems.error(&place, complaint.message, "this", complaint.help);
        }
        problems.damage(cut(&mut tree.root, &place)?);
    }
    None
}

/// Takes the entry or element whose key or value is at `place` out of the tree, and says out of
/// which table or list. None where nothing is there.
fn cut(node: &mut Spanned<DeValue<'_>>, place: &Span) -> Option<Span> {
    let span = node.span();
    match node.get_mut() {
        DeValue::Table(table) => {
            let hit = |(key, value): &(&Spanned<_>, &Spanned<_>)| {
                key.span() == *place || value.span() == *place
            };
            if let Some(key) = table.iter().find(hit).map(|(key, _)| key.clone()) {
                table.remove(&key);
                return Some(span);
            }
            table.iter_mut().find_map(|(_, value)| cut(value, place))
        }
        DeValue::Array(array) => {
            if array.iter().any(|element| element.span() == *place) {
                let kept = std::mem::replace(array, DeArray::new()).into_iter();
                *array = kept.filter(|element| element.span() != *place).collect::<DeArray<'_>>();
                return Some(span);
            }
            array.iter_mut().find_map(|element| cut(element, place))
        }
        _ => None,
    }
}

/// What stands where an error is.
struct Found<'a> {
    /// The keys that lead to the place.
    path: Vec<&'a str>,
    text: &'a str,
}

/// The text at a place, in texts joined by one byte each.
fn text_at<'t>(texts: &[&'t str], place: &Span) -> &'t str {
    let mut start = 0;
    for text in texts {
        if place.start <= start + text.len() {
            let inside = place.start - start..place.end.saturating_sub(start);
            return text.get(inside).unwrap_or_default();
        }
        start += text.len() + 1;
    }
    ""
}

/// What serde's message says, in our words.
fn complaint<K: FileKind>(message: &str, at: &Found<'_>) -> Complaint {
    if let Some(complaint) = Complaint::from_carried(message) {
        return complaint;
    }
    if let Some(unknown) = message.strip_prefix("unknown field ") {
        let mut names = unknown.split('`').skip(1).step_by(2);
        let typed = names.next().unwrap_or_default();
        let names: Vec<&str> = names.collect();
        return Complaint::new(format!("unknown key `{typed}`"), K::key(typed, &names));
    }
    if let Some((found, expected)) =
        message.strip_prefix("invalid type: ").and_then(|rest| rest.split_once(", expected "))
    {
        let found = match found {
            "sequence" => "a list",
            "map" => "a table",
            // Its type is followed by the value, in quotes.
            secret if K::is_secret(&at.path) => {
                secret.split(['"', '`']).next().unwrap_or_default().trim_end()
            }
            other => other,
        };
        let expected = expected.replace("a sequence", "a list (`[ ... ]`, or `[[name]]` tables)");
        let expected = whole(&expected).unwrap_or(expected);
        let help = as_table::<K>(&expected, at).or_else(|| other_type(found, &expected));
        let help = help.unwrap_or_else(|| K::REFERENCE.to_owned());
        return Complaint::new(format!("expected {expected}, found {found}"), help);
    }
    if let Some((found, expected)) =
        message.strip_prefix("invalid value: ").and_then(|rest| rest.split_once(", expected "))
        && let Some(expected) = whole(expected)
    {
        return Complaint::new(format!("{found} is out of range"), format!("write {expected}"));
    }
    Complaint::new(message, K::REFERENCE)
}

/// What serde calls by its type is a whole number.
fn whole(expected: &str) -> Option<String> {
    let most = match expected {
        "u8" => u64::from(u8::MAX),
        "u16" => u64::from(u16::MAX),
        "u32" => u64::from(u32::MAX),
        "u64" | "usize" => return Some("a whole number, at least 0".to_owned()),
        _ => return None,
    };
    Some(format!("a whole number from 0 to {most}"))
}

/// How to write the table that is expected; none for `[[name]]`, which has a bracket too many.
fn as_table<K: FileKind>(expected: &str, at: &Found<'_>) -> Option<String> {
    let is_wanted = expected.contains("a table") && !at.text.starts_with("[[");
    let example = K::table(&at.path).filter(|_| is_wanted)?;
    Some(format!("write a table, like {example}"))
}

/// How to write a value of which `found` is the wrong type, where that is plain.
fn other_type(found: &str, expected: &str) -> Option<String> {
    if let Some(text) = found.strip_prefix("string \"").and_then(|it| it.strip_suffix('"')) {
        let is_number = text.parse::<f64>().is_ok_and(f64::is_finite);
        return match expected {
            "a boolean" => Some(switch(text).to_owned()),
            _ if is_number && expected.starts_with("a whole number") => {
                Some(format!("a number stands without quotes: {text}"))
            }
            _ if expected.starts_with("a list") => {
                Some(format!("a list stands in brackets: [\"{text}\"]"))
            }
            _ => None,
        };
    }
    let (_, example) = expected.split_once(", in quotes: ").unwrap_or_default();
    let is_number = ["integer", "floating point"].iter().any(|kind| found.starts_with(kind));
    match (found, expected) {
        _ if is_number && !example.is_empty() => {
            Some(format!("write it as text with its unit, like {example}"))
        }
        ("a list", "a table") => Some(
            "a table is written `[name]`, with one bracket, or in braces: `{ ... }`".to_owned(),
        ),
        ("a table", _) if expected.starts_with("a list") => {
            Some("each entry of a list is written `[[name]]`, with two brackets".to_owned())
        }
        _ => None,
    }
}

/// What a text stands for where `true` or `false` is expected.
fn switch(text: &str) -> &'static str {
    match text.to_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => "write true, without quotes",
        "false" | "no" | "off" | "0" => "write false, without quotes",
        _ => "write true or false, without quotes",
    }
}

/// Notes an error of the TOML reader in the text that begins at `start` of the whole.
fn note_syntax(text: &str, start: usize, error: &Error, problems: &mut Problems) {
    let span = error.span().or_else(|| deep_key(text)).unwrap_or(0..0);
    let before = text.get(..span.start).unwrap_or(text);
    let line = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[line..].lines().next().unwrap_or_default();
    let (message, expected) = match error.message().split_once(", expected ") {
        Some((message, expected)) => (message, Some(expected)),
        None => (error.message(), None),
    };
    let help = syntax_help(message, expected, line);
    let span = start + span.start..start + span.end;
    problems.error(&span, format!("{NOT_TOML}{message}"), "here", help);
}

/// The first dotted key of so many parts that the TOML reader refuses it, without its place.
fn deep_key(text: &str) -> Option<Span> {
    let mut at = 0;
    text.split(['\n', '=', ',', '{', '[', ']']).find_map(|piece| {
        let begin = at + piece.len() - piece.trim_start().len();
        at += piece.len() + 1;
        let key = piece.trim();
        let parts = key.split('.').filter(|part| !part.trim().is_empty());
        let is_deep = parts.count() > DEPTH_MAX && !key.starts_with('#');
        is_deep.then(|| begin..begin + key.len())
    })
}

fn syntax_help(message: &str, expected: Option<&str>, line: &str) -> String {
    if let Some(help) = other_syntax(line) {
        return help;
    }
    let value = line.split_once('=').map_or("", |(_, value)| value);
    let value = value.split(['#', ',']).next().unwrap_or_default().trim();
    let bare = value.starts_with(|c: char| c.is_ascii_alphanumeric() || "/:.-*".contains(c));
    if message.contains("duplicate") {
        return "keep one of the two".to_owned();
    }
    if has_variable(value) {
        return VARIABLES_HELP.to_owned();
    }
    if bare && (message.starts_with("invalid") || message.contains("must be quoted")) {
        return format!("text and quantities stand in quotes: \"{value}\"");
    }
    if message.contains("inline table") || message.contains("key-value pairs") {
        return "`,` or `}` would be right here: a `{` before it is not closed".to_owned();
    }
    match expected {
        Some(expected) => format!("{expected} would be right here"),
        None => "a line is `key = value`, `[table]` or `[[list]]`".to_owned(),
    }
}

/// What is right instead of a line in the syntax of another format.
fn other_syntax(line: &str) -> Option<String> {
    const TOML: &str = "the file is TOML: `key = value`, `[table]` or `[[list]]` on a line";
    let line = line.split('#').next().unwrap_or_default().trim();
    if matches!(line.bytes().next()?, b'{' | b'-' | b'/') {
        return Some(TOML.to_owned());
    }
    let colon = line.split_once(':').filter(|(key, _)| is_key(key));
    if let Some((key, value)) = colon {
        let value = value.trim().trim_end_matches(',');
        let value = if value.len() > VALUE_MAX { "..." } else { value };
        return Some(if value.is_empty() {
            format!("a table is written `[{key}]`, a key with its value `{key} = ...`")
        } else {
            format!("`=` stands between a key and its value, no colon: {key} = {value}")
        });
    }
    let ends = line.ends_with(';') || (line.ends_with('{') && !line.contains('='));
    let words = line.split_whitespace().next().filter(|it| is_key(it) && !line.contains('='));
    let several = words.filter(|word| word.len() < line.len());
    (ends || several.is_some()).then(|| TOML.to_owned())
}

/// Whether `text` is a key without quotes.
fn is_key(text: &str) -> bool {
    let text = text.trim_matches(['"', ' ']);
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

/// The TOML reader refuses keys of more parts.
const DEPTH_MAX: usize = 80;

/// What errors in the syntax of a file begin with.
pub(crate) const NOT_TOML: &str = "not TOML: ";

/// A longer value is not written out in a help text.
const VALUE_MAX: usize = 100;

/// How serde says that a text stands where it wants something else.
const TEXT_FOUND: &str = "invalid type: string";
