//! Matchers of Caddy as conditions of routes.

use std::collections::BTreeMap;

use super::lex::Directive;
use crate::{
    condition::{Host, Network, Path, Place, Value, When, compile},
    expression::{escape, whole},
    haproxy::is_host_name,
};

/// What a matcher asks: one of `yes`, none of `no`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Matcher {
    pub(super) yes: Vec<When>,
    pub(super) no: Vec<When>,
}

impl Matcher {
    /// Of all requests.
    pub(super) fn all() -> Self {
        Self { yes: vec![When::default()], no: Vec::new() }
    }

    fn of(when: When) -> Self {
        Self { yes: vec![when], no: Vec::new() }
    }

    /// How specific its path is: what is longer is asked first.
    pub(super) fn length(&self) -> usize {
        let paths = self.yes.iter().filter_map(|when| when.paths.as_ref()).flatten();
        let lengths = paths.map(|path| match path {
            Path::Exact(path) | Path::Begins(path) | Path::Regex(path) => path.len(),
        });
        lengths.max().unwrap_or(0)
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
        return Ok((Matcher::of(When::path(vec![path(first)])), rest.to_vec()));
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
    let mut found = Matcher::all();
    if directive.words.len() > 1 {
        add(&mut found, directive.arg(0), &directive.args()[1..], &[])?;
    }
    for inner in directive.block() {
        add(&mut found, inner.name(), &inner.args(), inner.block())?;
    }
    Ok(found)
}

fn add(found: &mut Matcher, name: &str, args: &[&str], block: &[Directive]) -> Result<(), String> {
    if name == "not" {
        let mut inner = Matcher::all();
        if let Some((name, args)) = args.split_first() {
            add(&mut inner, name, args, &[])?;
        }
        for directive in block {
            add(&mut inner, directive.name(), &directive.args(), directive.block())?;
        }
        if !inner.no.is_empty() {
            return Err("a route cannot ask for what is not not so".to_owned());
        }
        found.no.extend(inner.yes);
        return Ok(());
    }
    let more = condition(name, args)?;
    let mut both = Vec::new();
    for (one, other) in found.yes.iter().flat_map(|one| more.iter().map(move |it| (one, it))) {
        both.extend(one.and(other)?);
    }
    found.yes = both;
    Ok(())
}

fn condition(name: &str, args: &[&str]) -> Result<Vec<When>, String> {
    let owned = |args: &[&str]| args.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    Ok(vec![match (name, args) {
        ("path", paths) => When::path(paths.iter().map(|it| path(it)).collect()),
        ("path_regexp", [regex] | [_, regex]) => {
            compile(regex)?;
            When::path(vec![Path::Regex((*regex).to_owned())])
        }
        ("method", methods) => When { methods: Some(owned(methods)), ..When::default() },
        ("host", hosts) => When::host(hosts.iter().map(|it| host(it)).collect::<Result<_, _>>()?),
        ("header", [name]) => When::field(Place::Header, name, vec![Value::Any]),
        ("header", [name, value]) => When::field(Place::Header, name, vec![pattern(value)]),
        ("header_regexp", [name, regex] | [_, name, regex]) => {
            let regex = whole(regex);
            compile(&regex)?;
            When::field(Place::Header, name, vec![Value::Regex(regex)])
        }
        ("query", pairs) => {
            let fields = pairs.iter().map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, "*"));
                When::field(Place::Query, name, vec![pattern(value)])
            });
            return Ok(fields.collect());
        }
        ("remote_ip" | "client_ip", networks) => {
            let mut sources = Vec::new();
            for text in networks.iter().filter(|it| **it != "forwarded") {
                match *text {
                    "private_ranges" => {
                        sources.extend(PRIVATE.iter().filter_map(|it| Network::parse(it)));
                    }
                    text => sources.push(
                        Network::parse(text).ok_or_else(|| format!("`{text}` is no network"))?,
                    ),
                }
            }
            When { sources: Some(sources), ..When::default() }
        }
        (name, _) => return Err(format!("a route cannot ask for `{name}`")),
    }])
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

/// A host of Caddy.
///
/// # Errors
/// Where it is none of ours.
pub(super) fn host(text: &str) -> Result<Host, String> {
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
