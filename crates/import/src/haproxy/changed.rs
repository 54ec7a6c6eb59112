//! Headers that rules of HAProxy change, and what the conditions behind them find there.
//!
//! A route sees the headers that the client sent. So a condition on one that was set or removed is
//! settled here: a removed header is not there, and one that is set to a text where something holds
//! has that text where it holds.

use std::collections::BTreeMap;

use super::{
    acl::{Term, Test},
    lex::Word,
};
use crate::{
    condition::{Host, Place, Value, When, compile},
    write::VARIABLE,
};

/// The headers of a request behind the rules so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Changed {
    /// What is in each that was changed, by its name in lower case.
    headers: BTreeMap<String, Content>,
    /// Whether any other one may have been removed.
    any: bool,
    /// Whether some requests skip the rules that come now.
    skips: bool,
}

/// What is in a header.
#[derive(Clone, Debug)]
enum Content {
    /// The first, or the other where one of the conditions holds.
    Known(Given, Option<(Vec<When>, Option<String>)>),
    Unknown,
}

/// What is in a header whatever the request is.
#[derive(Clone, Debug)]
enum Given {
    /// What the client sent.
    Sent,
    /// This text; none where it was removed.
    Text(Option<String>),
}

/// Why a condition is not carried over.
pub(super) const CHANGED: &str = "an earlier rule changes the header that it asks for";

impl Changed {
    /// What the rules of a backend find: none of them is skipped for what was allowed before.
    pub(super) fn in_backend(&self) -> Self {
        Self { skips: false, ..self.clone() }
    }

    /// Follows the action of an `http-request` rule, which holds by these terms.
    pub(super) fn follow(&mut self, action: &[Word], terms: &Result<Vec<Term>, String>) {
        let is_never = terms.as_ref().is_ok_and(Vec::is_empty);
        let words: Vec<&str> = action.iter().skip(1).map(|word| word.text.as_str()).collect();
        let plain = |text: &str| (!text.contains(['%', VARIABLE])).then(|| Some(text.to_owned()));
        let (name, to) = match words.as_slice() {
            _ if is_never => return,
            ["allow", ..] => {
                self.skips = true;
                return;
            }
            ["set-header", name, text] => (*name, plain(text)),
            ["add-header", name, text] => (*name, plain(text).filter(|_| self.is_gone(name))),
            ["del-header", name] => (*name, Some(None)),
            // Names by a pattern.
            ["del-header", ..] => {
                self.headers.clear();
                self.any = true;
                return;
            }
            ["set-header" | "add-header" | "replace-header" | "replace-value", name, ..] => {
                (*name, None)
            }
            _ => return,
        };
        let content = match (to, terms) {
            (Some(to), Ok(terms)) if !self.skips => self.content_by(name, to, terms),
            _ => Content::Unknown,
        };
        self.headers.insert(name.to_ascii_lowercase(), content);
    }

    /// What is in a header that gets this where one of the terms holds.
    fn content_by(&self, name: &str, to: Option<String>, terms: &[Term]) -> Content {
        if terms.iter().any(Term::is_always) {
            return Content::Known(Given::Text(to), None);
        }
        let whens = terms.iter().map(|term| term.no.is_empty().then(|| term.yes.clone()));
        match (self.content(name), whens.collect::<Option<Vec<_>>>()) {
            (Content::Known(given, None), Some(whens)) => Content::Known(given, Some((whens, to))),
            _ => Content::Unknown,
        }
    }

    fn content(&self, name: &str) -> Content {
        match self.headers.get(&name.to_ascii_lowercase()) {
            Some(content) => content.clone(),
            None if self.any => Content::Unknown,
            None => Content::Known(Given::Sent, None),
        }
    }

    fn is_gone(&self, name: &str) -> bool {
        matches!(self.content(name), Content::Known(Given::Text(None), None))
    }

    /// What a test of a header is behind the rules so far.
    ///
    /// # Errors
    /// Where that depends on what is not known, or cannot be said.
    pub(super) fn find(&self, name: &str, test: Test) -> Result<Test, String> {
        let unknown = || Err(CHANGED.to_owned());
        let Test::When(asked) = &test else { return Ok(test) };
        let Content::Known(given, then) = self.content(name) else { return unknown() };
        let is_cookie =
            asked.iter().flat_map(|when| &when.fields).any(|it| it.place == Place::Cookie);
        let has = |text: &Option<String>| text.as_ref().is_some_and(|text| fits(asked, text));
        match (given, then) {
            (Given::Sent, None) => Ok(test),
            _ if is_cookie => unknown(),
            (Given::Text(text), None) => Ok(Test::Always(has(&text))),
            (Given::Text(text), Some((whens, then))) => match (has(&text), has(&then)) {
                (one, other) if one == other => Ok(Test::Always(one)),
                (false, true) => Ok(Test::When(whens)),
                _ => unknown(),
            },
            (Given::Sent, Some((mut whens, then))) if has(&then) => {
                whens.extend(asked.iter().cloned());
                Ok(Test::When(whens))
            }
            (Given::Sent, Some(_)) => unknown(),
        }
    }
}

/// Whether a header with this text is as one of the conditions asks.
fn fits(asked: &[When], text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let name = lower.split(':').next().unwrap_or_default();
    let is_host = |host: &Host| match host {
        Host::Exact(exact) => exact == name,
        Host::Under(domain) => {
            name.strip_suffix(domain.as_str()).is_some_and(|it| it.ends_with('.'))
        }
    };
    asked.iter().any(|when| {
        when.hosts.iter().flatten().any(is_host)
            || when.fields.iter().flat_map(|field| &field.values).any(|value| is_value(value, text))
    })
}

fn is_value(value: &Value, text: &str) -> bool {
    match value {
        Value::Any => true,
        Value::Exact(exact) => exact == text,
        Value::Begins(start) => text.starts_with(start.as_str()),
        Value::Regex(regex) => {
            compile(&format!("^(?:{regex})$")).is_ok_and(|it| it.is_match(text.as_bytes()))
        }
    }
}
