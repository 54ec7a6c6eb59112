//! `set` of nginx with a text that is the same for all requests: where servers are named, the text
//! takes the place of the variable.

use std::collections::{BTreeMap, BTreeSet};

use super::lex::Directive;

/// Texts by the names of their variables.
type Constants = BTreeMap<String, String>;

/// Puts constants into what names servers, and leaves out each `set` of one that is used.
pub(super) fn fill(block: &mut Vec<Directive>) {
    within(block, &Constants::new(), false);
}

/// The same of a block within which these hold, which is a location or not. Returns the names that
/// are used of those around it.
fn within(block: &mut Vec<Directive>, around: &Constants, is_location: bool) -> BTreeSet<String> {
    let own = constants(block);
    let mut known = around.clone();
    for name in set_names(block) {
        known.remove(&name);
    }
    known.extend(own.clone());
    let mut used = BTreeSet::new();
    for directive in block.iter_mut() {
        if matches!(directive.name(), "proxy_pass" | "grpc_pass") {
            used.extend(fill_pass(directive, &known));
        }
        // What a location sets does not hold in those within it.
        let is_inner = directive.name() == "location";
        let outer = if is_location && is_inner { around } else { &known };
        if let Some(inner) = &mut directive.block {
            used.extend(within(inner, outer, is_inner));
        }
    }
    let is_used = |it: &Directive| {
        let name = variable(it);
        name.is_some_and(|name| own.contains_key(name) && used.contains(name))
    };
    block.retain(|it| !is_used(it));
    used.retain(|name| !own.contains_key(name));
    used
}

/// The name that a `set` gives.
fn variable(directive: &Directive) -> Option<&str> {
    let name = Some(directive.arg(0)).filter(|_| directive.name() == "set")?;
    name.strip_prefix('$')
}

/// Names that a block sets, also within an `if`.
fn set_names(block: &[Directive]) -> Vec<String> {
    let mut names: Vec<String> = block.iter().filter_map(variable).map(str::to_owned).collect();
    for inner in block.iter().filter(|it| it.name() == "if") {
        names.extend(set_names(inner.block()));
    }
    names
}

/// What a block sets once, to a text without variables.
fn constants(block: &[Directive]) -> Constants {
    let names = set_names(block);
    let is_once = |name: &str| names.iter().filter(|it| *it == name).count() == 1;
    let found = block.iter().filter_map(|it| Some((variable(it)?, it.arg(1))));
    let constant = found.filter(|(name, text)| is_once(name) && !text.contains('$'));
    constant.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

/// Puts constants into a `proxy_pass`; the names of those that are in it. One with a path means
/// another with variables than without, and stays.
fn fill_pass(directive: &mut Directive, known: &Constants) -> Vec<String> {
    let Some(word) = directive.words.get_mut(1) else { return Vec::new() };
    let (filled, used) = filled(&word.text, known);
    let bare = filled.split_once("://").map_or(filled.as_str(), |(_, rest)| rest);
    if used.is_empty() || bare.contains('/') {
        return Vec::new();
    }
    word.text = filled;
    used
}

/// A text with constants in the place of their variables, and their names.
fn filled(text: &str, known: &Constants) -> (String, Vec<String>) {
    let (mut out, mut used, mut rest) = (String::new(), Vec::new(), text);
    while let Some(at) = rest.find('$') {
        let (before, mark) = rest.split_at(at);
        out.push_str(before);
        let inside = &mark[1..];
        let (name, behind) = match inside.strip_prefix('{').and_then(|it| it.split_once('}')) {
            Some(braced) => braced,
            None => {
                let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
                inside.split_at(inside.find(is_end).unwrap_or(inside.len()))
            }
        };
        match known.get(name) {
            Some(value) => {
                out.push_str(value);
                used.push(name.to_owned());
            }
            None => out.push_str(&mark[..mark.len() - behind.len()]),
        }
        rest = behind;
    }
    out.push_str(rest);
    (out, used)
}
