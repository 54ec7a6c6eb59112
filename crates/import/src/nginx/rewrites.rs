//! The rewrite phase of nginx as steps: `return`, `rewrite`, `if` and `break`.

use super::{
    Import, VirtualHost, headers,
    lex::Directive,
    order::{self, Location},
    redirect::{self, Read},
    scope::Scope,
    test::{differing, test},
    upstream::Target,
};
use crate::{
    model::{PROTECTED, Table},
    steps::{self, Act, Step},
};

/// A place in a server: what holds there, and in which location it is.
pub(super) struct Place<'a> {
    pub(super) vhost: &'a VirtualHost<'a>,
    pub(super) scope: &'a Scope<'a>,
    here: Option<&'a Directive>,
    /// Whether nothing behind it depends on whether it changes the path.
    is_last: bool,
}

/// The steps of the rewrite phase: `return`, `if` and `rewrite` of this block itself, which is that
/// of the location `here`.
pub(super) fn rewrites(
    import: &mut Import<'_>,
    vhost: &VirtualHost<'_>,
    scope: &Scope<'_>,
    here: Option<&Directive>,
    table: &mut Table,
) -> Vec<Step> {
    let has_path = scope.own().iter().any(is_passed_with_path);
    let mut steps: Vec<Step> = Vec::new();
    for (index, directive) in scope.own().iter().enumerate() {
        let is_last = !scope.own()[index + 1..].iter().any(is_rewrite) && !has_path;
        let place = Place { vhost, scope, here, is_last };
        if directive.name() == "if" {
            steps.extend(conditional(import, &place, directive, table));
        } else if let Some(read) = read(directive, vhost) {
            steps.extend(told(import, &place, directive, read, table));
        }
    }
    // What is behind a `break` is asked no more.
    while steps.pop_if(|step| matches!(step.act, Act::Skip(_))).is_some() {}
    let all = steps.len();
    for (index, step) in steps.iter_mut().enumerate() {
        if let Act::Skip(count) = &mut step.act {
            *count = all - index - 1;
        }
    }
    steps
}

/// Skips all that is behind it in the rewrite phase.
const BREAK: Act = Act::Skip(usize::MAX);

/// Whether a directive is one of the rewrite phase.
fn is_rewrite(directive: &Directive) -> bool {
    matches!(directive.name(), "return" | "rewrite" | "if" | "break")
}

/// Whether it is a `proxy_pass` with a path of its own.
fn is_passed_with_path(directive: &Directive) -> bool {
    directive.name() == "proxy_pass"
        && Target::read(directive.arg(0)).is_ok_and(|target| target.path.is_some())
}

/// What a directive of the rewrite phase does; none for other ones.
fn read(directive: &Directive, vhost: &VirtualHost<'_>) -> Option<Result<Read, String>> {
    Some(match directive.name() {
        "return" => redirect::returned(&directive.args(), vhost.literals()),
        "rewrite" => redirect::rewrite(&directive.args(), vhost.literals()),
        "break" => Ok(Read::of(BREAK)),
        _ => return None,
    })
}

fn told(
    import: &mut Import<'_>,
    place: &Place<'_>,
    directive: &Directive,
    read: Result<Read, String>,
    table: &mut Table,
) -> Vec<Step> {
    let checked = |read: Read| match (&read.again, place.here) {
        (Some(path), Some(here)) if !stays(place.vhost, here, path) => Err(AGAIN.to_owned()),
        _ => Ok(read),
    };
    let read = match read.and_then(checked) {
        Ok(read) => read,
        Err(why) => {
            table.remark(import.lines.lost(import.files, directive.at(), &why));
            return Vec::new();
        }
    };
    if let Some(why) = read.differs {
        table.remark(import.lines.differs(import.files, directive.at(), why));
    }
    let act = headers::returned(import, place, directive, read.act, table);
    let step = Step { yes: read.when, ..Step::always(directive.at(), act) };
    match read.found {
        // What is behind it goes on for paths that it does not change.
        Some(found) if !place.is_last => {
            let skip = Step { yes: found.clone(), ..Step::always(directive.at(), BREAK) };
            vec![Step { yes: found, ..step }, skip]
        }
        _ => vec![step],
    }
}

const AGAIN: &str = "nginx looks for the location of the new path, a route stays what it is: write \
                     the service of that location into a route of its own";

/// Whether paths with this prefix still belong to the location.
fn stays(vhost: &VirtualHost<'_>, here: &Directive, path: &str) -> bool {
    let (found, lost) = order::locations(vhost.block);
    let Some(own) = found.iter().find(|it| it.directive.at() == here.at()) else { return false };
    let may_be = |other: &Location<'_>| {
        let is_below = other.prefix.starts_with(path);
        let is_longer = other.prefix.len() > own.prefix.len();
        let is_expression = other.prefix.is_empty();
        is_expression
            || is_below && other.is_exact()
            || is_longer && is_below
            || is_longer && !other.is_exact() && path.starts_with(&other.prefix)
    };
    let has_path = here.block().iter().any(|it| it.name() == "location" || is_passed_with_path(it));
    path.starts_with(&own.prefix)
        && !own.is_exact()
        && lost.is_empty()
        && !found.iter().any(may_be)
        && !has_path
}

fn conditional(
    import: &mut Import<'_>,
    place: &Place<'_>,
    directive: &Directive,
    table: &mut Table,
) -> Vec<Step> {
    let asked = match test(&directive.args(), place.vhost.tls) {
        Ok(asked) => asked.alternatives(),
        Err(why) => {
            table.remark(import.lines.lost(import.files, directive.at(), &why));
            import.lose_within(directive, &why, table);
            return Vec::new();
        }
    };
    if asked.is_empty() {
        return Vec::new();
    }
    tell_first(import, directive, table);
    let mut own: Vec<Step> = Vec::new();
    for (index, inner) in directive.block().iter().enumerate() {
        let is_last = place.is_last && !directive.block()[index + 1..].iter().any(is_rewrite);
        let why = || Err("an `if` decides by `return` or `rewrite` alone".to_owned());
        let read = read(inner, place.vhost).unwrap_or_else(why);
        own.extend(told(import, &Place { is_last, ..*place }, inner, read, table));
    }
    let mut all: Vec<Step> = Vec::new();
    for (yes, no) in asked {
        let mut confined = own.clone();
        import.unsaid.extend(steps::confine(&mut confined, &yes, &no));
        all.extend(confined);
    }
    all
}

/// Tells where an `if` asks for something of which a request may have several.
fn tell_first(import: &Import<'_>, directive: &Directive, table: &mut Table) {
    let Some(why) = differing(&directive.args()) else { return };
    let is_refusal = |it: &Directive| it.name() == "return" && it.arg(0).starts_with('4');
    let begin = if directive.block().iter().any(is_refusal) { PROTECTED } else { "" };
    let colon = if begin.is_empty() { "" } else { ": " };
    let why = format!("{begin}{colon}{why}");
    table.remark(import.lines.differs(import.files, directive.at(), &why));
}
