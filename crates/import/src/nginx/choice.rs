//! Locations of a server as steps, in the order in which nginx chooses one.
//!
//! ```text
//! before   =, then ^~ and what is within the longest prefix, then ~ in their order
//! after    the longest prefix
//! ```
//! What is within a location is chosen before its own rewrites and before expressions beside it.

use std::cmp::Reverse;

use super::{
    Import, VirtualHost,
    lex::Directive,
    listener::is_read,
    location,
    order::{self, Kind, Location},
    rewrites,
    scope::Scope,
};
use crate::{
    condition::{Path, When},
    model::Table,
    steps::{self, Act, End, Step},
    write::{inline, text},
};

/// The steps of the locations of a block.
struct Chosen {
    /// Of those that are chosen before expressions beside the block, and of its expressions.
    before: Vec<Step>,
    /// Of its prefixes.
    after: Vec<Step>,
}

impl Chosen {
    fn all(self) -> Vec<Step> {
        [self.before, self.after].concat()
    }
}

/// The steps of a server: its own rewrites, then its locations.
pub(super) fn of_server(
    import: &mut Import<'_>,
    vhost: &VirtualHost<'_>,
    scope: &Scope<'_>,
    table: &mut Table,
) -> Vec<Step> {
    let mut steps = rewrites::rewrites(import, vhost, scope, None, table);
    // A change of the path before the location is chosen would choose another one.
    let changes = steps.iter().filter(|step| matches!(step.act, Act::Edit(_)));
    let changes: Vec<usize> = changes.map(|step| step.rule).collect();
    for at in &changes {
        let why = "a path is rewritten after the route is chosen: write it on the routes";
        table.remark(import.lines.lost(import.files, *at, why));
    }
    steps::keep(&mut steps, |step| !changes.contains(&step.rule));
    steps.extend(chosen(import, vhost, scope, table).all());
    let (found, mut lost) = order::locations(scope.own());
    if !found.iter().any(Location::is_all) {
        steps.extend(location::content(import, vhost, scope, "/", &[], table));
    }
    lost.retain(|(it, _)| is_named(it) && !import.reached.contains(&it.at()));
    left_out(import, lost, table);
    steps
}

fn is_named(location: &Directive) -> bool {
    location.arg(0).starts_with('@')
}

/// Tells of locations that are left out, with all that is within them.
fn left_out(import: &mut Import<'_>, lost: Vec<(&Directive, String)>, table: &mut Table) {
    for (directive, why) in lost {
        table.remark(import.lines.lost(import.files, directive.at(), &why));
        import.lose_within(directive, "its location is left out", table);
    }
}

/// Tells of directives of a location that nobody reads.
pub(super) fn tell_unread(import: &mut Import<'_>, scope: &Scope<'_>, table: &mut Table) {
    for directive in scope.own() {
        if !is_read(directive.name()) && !is_pass(directive.name()) {
            import.lose_all(directive, table);
        }
    }
}

fn chosen(
    import: &mut Import<'_>,
    vhost: &VirtualHost<'_>,
    scope: &Scope<'_>,
    table: &mut Table,
) -> Chosen {
    let (found, mut lost) = order::locations(scope.own());
    lost.retain(|(it, _)| !is_named(it));
    left_out(import, lost, table);
    let (mut exact, mut expressions, mut after) = (Vec::<Step>::new(), Vec::new(), Vec::new());
    let mut first = Vec::new();
    for location in &found {
        let inner = scope.with(location.directive.block());
        tell_unread(import, &inner, table);
        exact.extend(redirected(&inner, location, &found));
        let own = one(import, vhost, &inner, location, table);
        let length = Reverse(location.prefix.len());
        match location.kind {
            Kind::Exact => {
                exact.splice(0..0, own.all());
            }
            Kind::Firm => first.push((length, aside(location, own.all(), &found))),
            Kind::Expression => expressions.extend(own.all()),
            Kind::Prefix => {
                first.push((length, aside(location, own.before, &found)));
                after.extend(own.after);
            }
        }
    }
    first.sort_by_key(|(length, _)| *length);
    exact.extend(first.into_iter().flat_map(|(_, steps)| steps));
    exact.extend(expressions);
    Chosen { before: exact, after }
}

/// The steps of a location.
fn one(
    import: &mut Import<'_>,
    vhost: &VirtualHost<'_>,
    inner: &Scope<'_>,
    location: &Location<'_>,
    table: &mut Table,
) -> Chosen {
    let mut own = chosen(import, vhost, inner, table);
    if let Some(closed) = location::internal(import, inner, table) {
        own.after.push(closed);
    } else {
        let here = Some(location.directive);
        let changes = rewrites::rewrites(import, vhost, inner, here, table);
        let prefix = &location.prefix;
        let content = location::content(import, vhost, inner, prefix, &changes, table);
        own.after.extend(changes);
        own.after.extend(content);
    }
    for steps in [&mut own.before, &mut own.after] {
        let lost = steps::confine(steps, &location.when, &[]);
        import.unsaid.extend(lost);
    }
    own
}

/// The steps of a prefix that are asked before those of longer ones within it: requests that belong
/// to these skip them.
fn aside(location: &Location<'_>, mut steps: Vec<Step>, all: &[Location<'_>]) -> Vec<Step> {
    let is_longer = |it: &&Location<'_>| {
        let is_below = it.prefix.starts_with(&location.prefix);
        it.kind == Kind::Prefix && is_below && it.prefix.len() > location.prefix.len()
    };
    let longer = all.iter().filter(is_longer).map(|it| Path::Begins(it.prefix.clone()));
    let longer: Vec<Path> = longer.collect();
    if !longer.is_empty() && !steps.is_empty() {
        let skip = Step::always(location.directive.at(), Act::Skip(steps.len()));
        steps.insert(0, Step { yes: When::path(longer), ..skip });
    }
    steps
}

/// Directives that say who answers; `content` tells of those that have no counterpart.
fn is_pass(name: &str) -> bool {
    name.ends_with("_pass")
}

/// nginx sends `/a` to `/a/` where the location `/a/` has a server, unless there is one of `/a`;
/// and where `/a` is a directory of an alias.
fn redirected(inner: &Scope<'_>, location: &Location<'_>, all: &[Location<'_>]) -> Option<Step> {
    let prefix = location.prefix.as_str();
    let is_passed = inner.own().iter().any(|it| is_pass(it.name()));
    let is_prefix = matches!(location.kind, Kind::Firm | Kind::Prefix);
    let alias = inner.own().iter().find(|it| it.name() == "alias");
    let is_folder = !is_passed && alias.is_some_and(location::is_folder);
    let bare = match prefix.strip_suffix('/') {
        Some(bare) => {
            let is_free = || all.iter().all(|it| it.prefix != bare);
            Some(bare).filter(|_| is_passed && is_free())?
        }
        None => Some(prefix).filter(|_| is_folder)?,
    };
    // No path of a request has these.
    if bare.is_empty() || !is_prefix || bare.contains(['?', '#']) {
        return None;
    }
    let path = bare.replace('%', "%25");
    let change = inline(&[("path".to_owned(), text(&format!("{path}/")))]);
    let keys = [("rewrite".to_owned(), change), ("status".to_owned(), "301".to_owned())];
    let end = End::key("redirect", inline(&keys));
    let mut step = Step::always(location.directive.at(), Act::End(end));
    step.yes = When::path(vec![Path::Exact(bare.to_owned())]);
    Some(step)
}
