//! Converts configurations of HAProxy, nginx and Caddy into files of loadline.
//!
//! ```text
//! text --lex--> lines --meaning--> Configuration --write--> our file
//!                 |                    |
//!                 |                    +-- remarks: what was not carried over, where it belongs
//!                 +-- what cannot be read: errors with their places
//! ```
//! Rules that are evaluated one after another (`steps`) become routes, of which the first match
//! decides. What a route cannot express becomes a comment; nothing is guessed.
#![forbid(unsafe_code)]

mod caddy;
mod condition;
mod expression;
mod files;
mod fragment;
mod haproxy;
mod model;
mod nginx;
mod parameter;
mod steps;
mod write;

use std::{collections::BTreeSet, io};

use loadline_spanned::FileErrors;

use files::Files;
use model::{Configuration, Lines};

/// The program that a file configures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `haproxy.cfg`.
    Haproxy,
    /// `nginx.conf`.
    Nginx,
    /// A `Caddyfile` of Caddy 2.
    Caddy,
}

/// A line that was not carried over, or does not do the same any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The included file that it is in; none for the one that was named.
    pub file: Option<String>,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The line itself, without its comment.
    pub text: String,
    /// What has no counterpart, and what does the same.
    pub why: String,
    /// Whether it was carried over, but not all of it means the same.
    pub differs: bool,
}

/// A configuration that was carried over.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The file for loadline, with a comment for each of `remarks`.
    pub text: String,
    /// Lines with a directive that were read.
    pub lines: usize,
    /// How many of them were not carried over.
    pub lost: usize,
    /// Lines that were not carried over or differ, in the order of the files.
    pub remarks: Vec<Remark>,
}

/// Finds the files that a pattern of an `include` names, with their texts.
pub type Includes<'a> = dyn Fn(&str) -> io::Result<Vec<(String, String)>> + 'a;

impl Kind {
    /// Which program a file is for, by its name and its text.
    #[must_use]
    pub fn of(name: &str, text: &str) -> Option<Self> {
        let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
        if name.starts_with("caddyfile") || name.ends_with(".caddyfile") {
            return Some(Self::Caddy);
        }
        if haproxy::is_one(text) {
            return Some(Self::Haproxy);
        }
        if nginx::is_one(text) {
            return Some(Self::Nginx);
        }
        caddy::is_one(text).then_some(Self::Caddy)
    }

    /// What people call the program.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Haproxy => "HAProxy",
            Self::Nginx => "nginx",
            Self::Caddy => "Caddy",
        }
    }
}

/// Carries a configuration over. `name` is that of its file, `includes` finds further ones.
///
/// # Errors
/// What cannot be read, with its place. What has no counterpart is no error.
pub fn import(
    kind: Kind,
    name: &str,
    text: String,
    includes: &Includes<'_>,
) -> Result<Imported, FileErrors> {
    let (mut files, mut lines) = (Files::default(), Lines::default());
    files.add(name.to_owned(), text);
    let mut made = match kind {
        Kind::Haproxy => haproxy::import(&mut files, &mut lines),
        Kind::Nginx => nginx::import(&mut files, &mut lines, includes),
        Kind::Caddy => caddy::import(&mut files, &mut lines, includes),
    };
    if !files.failed() && lines.counts().0 == 0 {
        files.error(&(0..0), "nothing is configured", "name a file with at least one directive");
    }
    if files.failed() {
        return Err(files.into_errors());
    }
    complete(&mut made);
    let (count, lost) = lines.counts();
    let carried = count - lost;
    let heading = [
        format!("Imported from {name}, a configuration of {}.", kind.name()),
        format!(
            "Of {count} lines with directives {carried} were carried over. Those that were not, and"
        ),
        "those that do not mean quite the same, are comments below, with the reason.".to_owned(),
    ];
    let text = write::file(&heading, &made);
    Ok(Imported { text, lines: count, lost, remarks: lines.into_remarks() })
}

/// Adds what our file cannot be without: listeners with an address, and a service for each.
fn complete(made: &mut Configuration) {
    for listener in std::mem::take(&mut made.listeners) {
        if listener.bind.is_empty() {
            made.top.remarks.extend(listener.table.remarks);
        } else {
            made.listeners.push(listener);
        }
    }
    if made.listeners.is_empty() {
        made.top.remark("No listener came out of it; a file has to have one.".to_owned());
    }
    for listener in made.listeners.iter().rev().filter(|it| is_cut(it)) {
        let why = format!(
            "THE RULES OF {} MAKE TOO MANY ROUTES. What none of its routes takes gets 503: the \
             remarks at the listener tell which lines are missing. Write routes for these by hand, \
             or fewer rules before the import.",
            listener.label
        );
        made.top.remarks.insert(0, why);
    }
    let mut told = BTreeSet::new();
    let tables = [&mut made.top, &mut made.edge, &mut made.admin, &mut made.cache];
    let listeners = made.listeners.iter_mut().map(|listener| &mut listener.table);
    let services = made.services.iter_mut().flat_map(|it| [&mut it.table, &mut it.group]);
    for table in tables.into_iter().chain(listeners).chain(services) {
        table.remarks.retain(|remark| told.insert(remark.clone()));
    }
    if made.services.is_empty() && !made.listeners.is_empty() {
        let mut service = model::Service { name: "none".to_owned(), ..model::Service::default() };
        service
            .table
            .remark("No request comes here: the last route takes what is left.".to_owned());
        let mut server = model::Table::default();
        server.set("address", write::text("127.0.0.1:9"));
        service.servers.push(server);
        made.services.push(service);
    }
}

/// Whether its rules make more routes than there may be.
fn is_cut(listener: &model::Listener) -> bool {
    listener.routes.last().is_some_and(steps::Route::is_cut)
}

/// The address of a server at a Unix socket: a whole path, or `@NAME` for one in the abstract
/// namespace; none where it cannot be one.
fn socket(path: &str) -> Option<String> {
    let fits = path.starts_with(['/', '@']) && (2..=PATH_MAX).contains(&path.len());
    fits.then(|| format!("unix:{path}"))
}

/// Whether a header may have this name.
fn is_field_name(name: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token)
}

/// Whether a header may have this value as it is written.
fn is_field_value(value: &str) -> bool {
    value.trim() == value && value.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// Why a value is left out.
const NO_VALUE: &str = "the value is not ASCII on one line, without spaces at its ends";

/// What the path of a socket may have.
const PATH_MAX: usize = 107;

/// Why a server is left out.
const NO_ADDRESS: &str = "a server has an address and a port, or is at a Unix socket";

/// A name that our file takes for a service.
fn service_name(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = name.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}
