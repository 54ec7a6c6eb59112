//! What is written: our file, part by part, with what was not carried over at each.

use std::{cell::RefCell, collections::BTreeMap};

use crate::{Remark, files::Files, steps::Route};

/// Keys of a table with their values as the file writes them, and remarks on lines of the original.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) keys: Vec<(String, String)>,
    pub(crate) remarks: Vec<String>,
}

/// Our file.
#[derive(Debug, Default)]
pub(crate) struct Configuration {
    pub(crate) top: Table,
    pub(crate) edge: Table,
    pub(crate) admin: Table,
    pub(crate) cache: Table,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) services: Vec<Service>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Listener {
    pub(crate) bind: Vec<String>,
    pub(crate) table: Table,
    pub(crate) routes: Vec<Route>,
    /// Server names and their services.
    pub(crate) names: Vec<(String, String)>,
    /// The service of what no route takes. If empty, nothing comes to that.
    pub(crate) service: String,
    /// How its shared routes are called.
    pub(crate) label: String,
}

/// A service with its one group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) table: Table,
    /// Keys of the group besides its servers.
    pub(crate) group: Table,
    pub(crate) servers: Vec<Table>,
}

/// What the reason begins with where leaving a line out opens what was closed.
pub(crate) const PROTECTED: &str = "THIS PROTECTED SOMETHING";

/// Lines that keep somebody out begin so.
const GUARDS: [&str; 36] = [
    "abort",
    "access_by_lua",
    "auth_",
    "authenticate",
    "authorize",
    "block ",
    "filter spoe",
    "hide ",
    "http-request return status 4",
    "http-response deny",
    "limit_conn ",
    "limit_except ",
    "limit_req ",
    "rate_limit",
    "return 4",
    "tcp-request session reject",
    "tcp-response content reject",
    "http-request deny",
    "http-request reject",
    "http-request tarpit",
    "http-request silent-drop",
    "http-request use-service lua",
    "modsecurity on",
    "modsecurity_rules",
    "reqdeny",
    "reqideny",
    "reqitarpit",
    "reqtarpit",
    "rspdeny",
    "tcp-request connection reject",
    "tcp-request content reject",
    "deny ",
    "allow ",
    "basic_auth",
    "basicauth",
    "forward_auth",
];

/// Whether a line keeps somebody out.
pub(crate) fn is_guard(text: &str) -> bool {
    let is_refusal = |word: &str| word.len() == 3 && word.starts_with('4');
    let mut words = text.split_whitespace();
    let is_answer = matches!(words.next(), Some("respond" | "error")) && words.any(is_refusal);
    text == "internal"
        || is_answer
        || sends_away(text)
        || GUARDS.iter().any(|start| text.starts_with(start))
}

/// Whether it is a redirect of HAProxy that keeps some from what they ask for: one by more than the
/// host and TLS, of which another address of the same site is the usual end.
fn sends_away(text: &str) -> bool {
    let is_redirect = text.starts_with("redirect ") || text.starts_with("http-request redirect ");
    let condition = text.split_once(" if ").or_else(|| text.split_once(" unless "));
    let Some((_, condition)) = condition.filter(|_| is_redirect) else { return false };
    // Names of ACLs stand outside of braces; within them the first word says what is asked for.
    let asked = condition.split(['{', '}']).enumerate().flat_map(|(index, part)| {
        let count = if index % 2 == 0 { usize::MAX } else { 1 };
        part.split_whitespace().take(count)
    });
    asked.map(|word| word.trim_start_matches('!').to_ascii_lowercase()).any(|word| {
        let is_of_site = word.contains("(host") || word.starts_with("ssl_fc");
        !is_of_site && !matches!(word.as_str(), "" | "or" | "||")
    })
}

/// The lines of the original, and what became of them.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The text of each, by where it begins.
    texts: BTreeMap<usize, String>,
    told: RefCell<BTreeMap<usize, Remark>>,
}

impl Table {
    /// Sets a key, to a value as the file writes it.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<String>) {
        let value = value.into();
        match self.keys.iter_mut().find(|(name, _)| name == key) {
            Some(entry) => entry.1 = value,
            None => self.keys.push((key.to_owned(), value)),
        }
    }

    /// The value of a key, as the file writes it.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.keys.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Adds a remark, once.
    pub(crate) fn remark(&mut self, remark: String) {
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    /// Whether two servers have the same address.
    pub(crate) fn is_same_address(&self, other: &Self) -> bool {
        self.get("address").is_some() && self.get("address") == other.get("address")
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.remarks.is_empty()
    }
}

impl Lines {
    /// Remembers a line that begins at this byte of the whole.
    pub(crate) fn add(&mut self, at: usize, text: String) {
        self.texts.insert(at, text);
    }

    /// How many lines there are, and how many of them are not carried over.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let lost = self.told.borrow().values().filter(|line| !line.differs).count();
        (self.texts.len(), lost)
    }

    /// What was not carried over, or does not do the same, in the order of the files.
    pub(crate) fn into_remarks(self) -> Vec<Remark> {
        self.told.into_inner().into_values().collect()
    }

    /// The remark that the line at `at` is not carried over.
    pub(crate) fn lost(&self, files: &Files, at: usize, why: &str) -> String {
        self.remark(files, at, why, false)
    }

    /// The remark that the line at `at` is carried over, but not all of it means the same.
    pub(crate) fn differs(&self, files: &Files, at: usize, why: &str) -> String {
        self.remark(files, at, why, true)
    }

    /// The remark that the line at `at` is carried over, but not for all requests.
    pub(crate) fn partly(&self, files: &Files, at: usize, why: &str) -> String {
        let is_guard = self.texts.get(&at).is_some_and(|text| is_guard(text));
        let bare = why.strip_prefix(PROTECTED).map_or(why, |it| it.trim_start_matches(": "));
        let begin = if is_guard || bare != why { format!("{PROTECTED}: ") } else { String::new() };
        self.remark(files, at, &format!("{begin}not for some requests: {bare}"), true)
    }

    fn remark(&self, files: &Files, at: usize, why: &str, differs: bool) -> String {
        let text = self.texts.get(&at).cloned().unwrap_or_default();
        let why = &match !differs && is_guard(&text) && !why.starts_with(PROTECTED) {
            true => format!("{PROTECTED}: {why}"),
            false => why.to_owned(),
        };
        let (file, line, column) = files.place(at);
        let place = file.map_or_else(|| format!("line {line}"), |file| format!("{file}:{line}"));
        let what = if differs { "differs" } else { "not carried over" };
        let remark = format!("{place}: {text}\n    {what}: {why}");
        let line = Remark {
            file: file.map(str::to_owned),
            line,
            column,
            text,
            why: why.to_owned(),
            differs,
        };
        let mut all = self.told.borrow_mut();
        let is_less = |known: &Remark| differs && known.why.starts_with(PROTECTED);
        if all.get(&at).is_none_or(|known| known.differs && !is_less(known)) {
            all.insert(at, line);
        }
        remark
    }
}
