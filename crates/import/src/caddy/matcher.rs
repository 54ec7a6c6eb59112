//! Matchers of Caddy as conditions of routes.

use std::collections::BTreeMap;

use super::lex::Directive;
use crate::{
    condition::{Field, Host, Network, Path, Place, Value, When, compile},
    expression::{escape, whole},
    haproxy::is_host_name,
    parameter,
};

/// What a matcher asks: one of `yes`, none of `no`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Matcher {
    pub(super) yes: Vec<When>,
    pub(super) no: Vec<When>,
    /// The path as it is written, where it is one.
    pub(super) path: Option<String>,
}

impl Matcher {
    /// Of all requests.
    pub(super) fn all() -> Self {
        Self { yes: vec![When::default()], no: Vec::new(), path: None }
    }

    pub(super) fn is_all(&self) -> bool {
        *self == Self::all()
    }
}

/// The matcher of a directive, and its other arguments.
///
/// # Errors
/// What of it a route cannot ask.
pub(super) fn of<'a>(
    directive: &'a Directive,
    named: &BTreeMap<String, Result<Matcher, String>>,
) -> Result<(Matcher, Vec<&'a str>), String> {
    let args = directive.args();
    let Some((first, rest)) = args.split_first() else { return Ok((Matcher::all(), args)) };
    if *first == "*" {
        return Ok((Matcher::all(), rest.to_vec()));
    }
    if first.starts_with('/') {
        let yes = vec![When::path(vec![path(first)])];
        let written = Some((*first).to_owned());
        return Ok((Matcher { yes, no: Vec::new(), path: written }, rest.to_vec()));
    }
    if let Some(name) = first.strip_prefix('@') {
        let found = named.get(name).cloned();
        let found = found.unwrap_or_else(|| Err(format!("there is no matcher `@{name}`")));
        return found.map(|matcher| (matcher, rest.to_vec()));
    }
    Ok((Matcher::all(), args))
}

/// A path of Caddy, in which a star stands for anything.
pub(super) fn path(text: &str) -> Path {
    let stars = text.matches('*').count();
    match text.strip_suffix('*') {
        Some(prefix) if stars == 1 => Path::Begins(prefix.to_owned()),
        _ if stars == 0 => Path::Exact(text.to_owned()),
        _ => {
            let parts: Vec<_> = text.split('*').map(escape).collect();
            Path::Regex(format!("^{}$", parts.join(".*")))
        }
    }
}

/// Reads the definition of a named matcher: `@name { path /a* }` or `@name path /a*`.
///
/// # Errors
/// What of it a route cannot ask.
pub(super) fn definition(directive: &Directive) -> Result<Matcher, String> {
    all_of(&directive.args(), directive.block())
}

/// What a line asks (`path /a*`, empty without one) together with those of a block.
fn all_of(line: &[&str], block: &[Directive]) -> Result<Matcher, String> {
    let mut found = Matcher::all();
    let mut kinds: Vec<(&str, Vec<Vec<&str>>)> = Vec::new();
    let first = line.split_first().map(|(name, args)| (*name, args.to_vec(), &[][..]));
    let rest = block.iter().map(|it| (it.name(), it.args(), it.block()));
    for (name, args, block) in first.into_iter().chain(rest) {
        if name == "not" {
            let inner = all_of(&args, block)?;
            if !inner.no.is_empty() {
                return Err("a route cannot ask for what is not not so".to_owned());
            }
            found.no.extend(inner.yes);
            continue;
        }
        match kinds.iter_mut().find(|(other, _)| *other == name) {
            Some((_, lines)) => lines.push(args),
            None => kinds.push((name, vec![args])),
        }
    }
    let mut yes = When::default();
    for (name, lines) in kinds {
        let more = of_kind(name, &lines, &mut found)?;
        yes = yes.and(&more)?.ok_or("no request is all that it asks for")?;
    }
    found.yes = vec![yes];
    Ok(found)
}

/// The condition of all lines of one kind: most of them name alternatives. What must not hold goes
/// into `found`.
fn of_kind(name: &str, lines: &[Vec<&str>], found: &mut Matcher) -> Result<When, String> {
    let all = lines.concat();
    if all.is_empty() {
        return Err(format!("`{name}` says nothing to ask for"));
    }
    let owned = || all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    Ok(match name {
        "path" => {
            found.path = Some(all[0].to_owned()).filter(|_| all.len() == 1);
            When::path(all.iter().map(|it| path(it)).collect())
        }
        "method" => {
            let is_plain = |it: &&str| it.bytes().all(|it| it.is_ascii_uppercase() || it == b'-');
            if !all.iter().all(is_plain) {
                return Err("methods are compared in capitals, as requests have them".to_owned());
            }
            When { methods: Some(owned()), ..When::default() }
        }
        "host" => hosts(&all)?,
        "query" => {
            let pairs = all.iter().map(|pair| parameter(pair));
            fields(Place::Query, pairs.collect::<Result<Vec<_>, _>>()?)
        }
        "header" => {
            let (gone, there): (Vec<_>, Vec<_>) =
                lines.iter().partition(|line| line.first().is_some_and(|it| it.starts_with('!')));
            let absent = gone.iter().flat_map(|line| line[0].strip_prefix('!'));
            let absent = absent.map(|name| When::field(Place::Header, name, vec![Value::Any]));
            found.no.extend(absent);
            fields(
                Place::Header,
                there.into_iter().map(|line| header(line)).collect::<Result<Vec<_>, _>>()?,
            )
        }
        "remote_ip" | "client_ip" => When { sources: Some(sources(&all)?), ..When::default() },
        _ => {
            let mut both = When::default();
            for line in lines {
                both = both.and(&condition(name, line)?)?.ok_or("no request is all of it")?;
            }
            both
        }
    })
}

/// Fields that all have to be there; of those of one name one value is enough.
fn fields<'a>(place: Place, pairs: impl IntoIterator<Item = (&'a str, Value)>) -> When {
    let mut when = When::default();
    let is_same = |one: &str, other: &str| match place {
        Place::Header => one.eq_ignore_ascii_case(other),
        _ => one == other,
    };
    for (name, value) in pairs {
        match when.fields.iter_mut().find(|it| is_same(&it.name, name)) {
            Some(field) => field.values.push(value),
            None => when.fields.push(Field { place, name: name.to_owned(), values: vec![value] }),
        }
    }
    when
}

/// Name and value of a parameter, which Caddy compares decoded, as a route does.
fn parameter(pair: &str) -> Result<(&str, Value), String> {
    let (name, value) = pair.split_once('=').unwrap_or((pair, "*"));
    let value = if value == "*" { Value::Any } else { Value::Exact(value.to_owned()) };
    Ok((parameter::checked(name)?, value))
}

fn header<'a>(line: &[&'a str]) -> Result<(&'a str, Value), String> {
    match line {
        [name] => Ok((name, Value::Any)),
        [name, value] => Ok((name, pattern(value))),
        _ => Err("a header is asked for by its name and one value".to_owned()),
    }
}

fn sources(networks: &[&str]) -> Result<Vec<Network>, String> {
    let mut sources = Vec::new();
    for text in networks.iter().filter(|it| **it != "forwarded") {
        if *text == "private_ranges" {
            sources.extend(PRIVATE.iter().filter_map(|it| Network::parse(it)));
        } else {
            sources.push(Network::parse(text).ok_or_else(|| format!("`{text}` is no network"))?);
        }
    }
    Ok(sources)
}

/// The condition of one line of another kind.
fn condition(name: &str, args: &[&str]) -> Result<When, String> {
    match (name, args) {
        ("path_regexp", [regex] | [_, regex]) => {
            compile(regex)?;
            Ok(When::path(vec![Path::Regex((*regex).to_owned())]))
        }
        ("header_regexp", [name, regex] | [_, name, regex]) => {
            let regex = whole(regex);
            compile(&regex)?;
            Ok(When::field(Place::Header, name, vec![Value::Regex(regex)]))
        }
        (name, _) => Err(format!("a route cannot ask for `{name}`")),
    }
}

const PRIVATE: [&str; 6] =
    ["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.1/8", "fd00::/8", "::1"];

fn pattern(value: &str) -> Value {
    match (value.strip_suffix('*'), value.matches('*').count()) {
        (Some(""), _) => Value::Any,
        (_, 0) => Value::Exact(value.to_owned()),
        (Some(start), 1) => Value::Begins(start.to_owned()),
        _ => Value::Regex(value.split('*').map(escape).collect::<Vec<_>>().join(".*")),
    }
}

/// Hosts of Caddy, one of which it has to be.
///
/// # Errors
/// Where one is none of ours.
pub(super) fn hosts(all: &[&str]) -> Result<When, String> {
    let found = all.iter().map(|it| host(it)).collect::<Result<Vec<_>, _>>()?;
    let labels = |it: &Host| match it {
        Host::Exact(name) => escape(name),
        // A star is one label in Caddy.
        Host::Under(domain) => format!("[^.]+\\.{}", escape(domain)),
    };
    let names: Vec<String> = found.iter().map(labels).collect();
    if found.iter().all(|it| matches!(it, Host::Exact(_))) {
        return Ok(When::host(found));
    }
    let regex = format!("(?i)(?:{})(?::[0-9]+)?", names.join("|"));
    let field = When::field(Place::Header, "Host", vec![Value::Regex(regex)]);
    Ok(When { hosts: Some(found), ..field })
}

fn host(text: &str) -> Result<Host, String> {
    let lower = text.to_ascii_lowercase();
    let found = match lower.strip_prefix("*.") {
        Some(domain) => is_host_name(domain).then(|| Host::Under(domain.to_owned())),
        None => is_host_name(&lower).then_some(Host::Exact(lower.clone())),
    };
    found.ok_or_else(|| format!("`{text}` is no host"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_are_prefixes_suffixes_and_expressions() {
        assert_eq!(path("/a"), Path::Exact("/a".to_owned()));
        assert_eq!(path("/a/*"), Path::Begins("/a/".to_owned()));
        assert_eq!(path("*.php"), Path::Regex("^.*\\.php$".to_owned()));
        assert_eq!((pattern("*"), pattern("x*")), (Value::Any, Value::Begins("x".to_owned())));
    }
}
