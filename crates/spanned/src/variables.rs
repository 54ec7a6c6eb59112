//! Variables in the texts of a file: `${NAME}` and `${NAME:-default}`.

use std::{collections::BTreeMap, env::VarError};

use crate::text::Complaint;

/// What has the values of variables: the environment, mostly.
pub type LookUp<'a> = &'a dyn Fn(&str) -> Result<String, VarError>;

/// The variables of some texts with their values.
pub(crate) struct Variables<'l> {
    /// By how they are written, braces included.
    values: BTreeMap<String, Result<String, Complaint>>,
    look_up: LookUp<'l>,
}

impl<'l> Variables<'l> {
    /// The variables that stand in `texts`.
    pub(crate) fn of(texts: &[&str], look_up: LookUp<'l>) -> Self {
        let mut values = BTreeMap::new();
        for text in texts {
            let found = text.match_indices(OPEN).filter_map(|(at, _)| Written::at(&text[at..]));
            for written in found {
                values.insert(written.whole.to_owned(), written.value(look_up));
            }
        }
        Self { values, look_up }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.values.len()
    }

    /// The value of what is written as `whole`, braces included.
    pub(crate) fn value(&self, whole: &str) -> Option<&str> {
        self.values.get(whole)?.as_deref().ok()
    }

    /// `text` with the values in it; none where it has no variable.
    ///
    /// # Errors
    /// The first that has no value, or is not written as one.
    pub(crate) fn put_into(&self, text: &str) -> Result<Option<String>, Complaint> {
        if !text.contains(OPEN) {
            return Ok(None);
        }
        let (mut whole, mut rest) = (String::new(), text);
        while let Some(at) = rest.find(OPEN) {
            let (before, from) = rest.split_at(at);
            if let Some(before) = before.strip_suffix('$') {
                whole += before;
                whole += OPEN;
                rest = &from[OPEN.len()..];
                continue;
            }
            whole += before;
            // `${1}` is a group of an expression, not a variable.
            let is_meant = from[OPEN.len()..].starts_with(|c: char| is_letter(c));
            match Written::at(from) {
                Some(written) => {
                    // One with an escape is written otherwise in the file.
                    match self.values.get(written.whole) {
                        Some(value) => whole += value.as_ref().map_err(Clone::clone)?,
                        None => whole += &written.value(self.look_up)?,
                    }
                    rest = &from[written.whole.len()..];
                }
                None if is_meant => return Err(Complaint::new(NOT_ONE, NOT_ONE_HELP)),
                None => {
                    whole += OPEN;
                    rest = &from[OPEN.len()..];
                }
            }
        }
        Ok(Some(whole + rest))
    }
}

/// A variable as it is written.
struct Written<'t> {
    whole: &'t str,
    name: &'t str,
    default: Option<&'t str>,
}

impl<'t> Written<'t> {
    /// The variable that `text` begins with.
    fn at(text: &'t str) -> Option<Self> {
        let inner = text.strip_prefix(OPEN)?;
        let length = inner.find(|c: char| !is_letter(c) && !c.is_ascii_digit())?;
        let (name, rest) = inner.split_at(length);
        if !name.starts_with(is_letter) {
            return None;
        }
        let until = |end: usize| &text[..end];
        let length = OPEN.len() + length;
        if rest.starts_with('}') {
            return Some(Self { whole: until(length + 1), name, default: None });
        }
        let default = rest.strip_prefix(":-")?;
        let end = default.find('}')?;
        let whole = until(length + ":-".len() + end + 1);
        Some(Self { whole, name, default: Some(&default[..end]) })
    }

    fn value(&self, look_up: LookUp<'_>) -> Result<String, Complaint> {
        let name = self.name;
        let set = match look_up(name) {
            Ok(value) => Some(value),
            Err(VarError::NotPresent) => None,
            Err(VarError::NotUnicode(_)) => {
                let message = format!("the environment variable `{name}` is not UTF-8");
                return Err(Complaint::new(message, "set it to a text in UTF-8"));
            }
        };
        if let Some(default) = self.default {
            let value = set.filter(|value| !value.is_empty());
            return Ok(value.unwrap_or_else(|| default.to_owned()));
        }
        set.ok_or_else(|| {
            let message = format!("the environment variable `{name}` is not set");
            Complaint::new(message, format!("set it, or write a default: ${{{name}:-value}}"))
        })
    }
}

fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

const OPEN: &str = "${";
const NOT_ONE: &str = "a variable that does not end";
const NOT_ONE_HELP: &str = "write ${NAME} or ${NAME:-default}; `$${` is `${` itself";

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, os::unix::ffi::OsStringExt as _};

    use super::*;

    fn expanded(text: &str) -> Result<Option<String>, Complaint> {
        let look_up = |name: &str| match name {
            "PORT" => Ok("8080".to_owned()),
            "EMPTY" => Ok(String::new()),
            "LATIN1" => Err(VarError::NotUnicode(OsString::from_vec(vec![0xfc]))),
            _ => Err(VarError::NotPresent),
        };
        Variables::of(&[text], &look_up).put_into(text)
    }

    #[test]
    fn variables_are_put_in_and_all_else_stays() {
        for (text, expected) in [
            (":${PORT}", ":8080"),
            ("${PORT}-${PORT}", "8080-8080"),
            ("${NONE:-10.0.0.1}:${PORT:-1}", "10.0.0.1:8080"),
            ("a${EMPTY}b${EMPTY:-c}", "abc"),
            ("${NONE:-}", ""),
            ("$${PORT}", "${PORT}"),
            ("/u/${1}/$2", "/u/${1}/$2"),
        ] {
            assert_eq!(expanded(text), Ok(Some(expected.to_owned())), "{text}");
        }
        assert_eq!(expanded("$PORT"), Ok(None));
    }

    #[test]
    fn a_default_with_an_escape_is_read_without_it() {
        let look_up = |_: &str| Err(VarError::NotPresent);
        let variables = Variables::of(&[r#"path = "~${RE:-/u/\\d+}""#], &look_up);
        assert_eq!(variables.put_into(r"~${RE:-/u/\d+}"), Ok(Some(r"~/u/\d+".to_owned())));
    }

    #[test]
    fn what_is_not_set_or_not_closed_is_told() {
        let message = |text: &str| expanded(text).expect_err(text).message;
        assert_eq!(message("${NONE}"), "the environment variable `NONE` is not set");
        assert_eq!(message("${LATIN1}"), "the environment variable `LATIN1` is not UTF-8");
        assert_eq!(message("${LATIN1:-a}"), "the environment variable `LATIN1` is not UTF-8");
        assert_eq!(message("${PORT"), NOT_ONE);
        assert_eq!(message("${PORT-1}"), NOT_ONE);
    }
}
