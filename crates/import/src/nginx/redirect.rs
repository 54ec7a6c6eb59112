//! `return` and `rewrite` of nginx.

use super::values::{Literals, differing, template};
use crate::{
    NO_VALUE,
    condition::{Path, When, compile},
    expression::{first, replacement},
    is_field_value,
    steps::{Act, Edit, End},
    write::{inline, text},
};

/// What a directive does, for requests that are also this, and what of it differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) act: Act,
    pub(super) when: When,
    pub(super) differs: Option<&'static str>,
    /// What the new path begins with, where nginx looks for its location.
    pub(super) again: Option<String>,
    /// The paths that it changes, where it is the last that is asked for these.
    pub(super) found: Option<When>,
}

impl Read {
    /// For all requests.
    pub(super) fn of(act: Act) -> Self {
        Self { act, when: When::default(), differs: None, again: None, found: None }
    }

    fn end(end: End, differs: Option<&'static str>) -> Self {
        Self { differs, ..Self::of(Act::End(end)) }
    }
}

/// Reads a `return`.
///
/// # Errors
/// What has no counterpart.
pub(super) fn returned(args: &[&str], literals: Literals<'_>) -> Result<Read, String> {
    let (status, rest) = match args {
        [url] if url.contains("://") || url.starts_with('/') || url.starts_with('$') => {
            ("302", *url)
        }
        [status] => (*status, ""),
        [status, rest] => (*status, *rest),
        _ => return Err("a `return` has a status, and a text or a URL".to_owned()),
    };
    let number: u16 = status.parse().map_err(|_| format!("`{status}` is no status"))?;
    let mut differs = None;
    let end = match number {
        301 | 302 | 303 | 307 | 308 => return redirect(status, rest, literals),
        444 => {
            differs = Some("the connection is not closed without a response; 444 is sent");
            End::key("deny", "444".to_owned())
        }
        400..=599 if rest.is_empty() => End::key("deny", status.to_owned()),
        200..=599 => {
            let body = template(rest, literals)?;
            if body.contains('$') {
                return Err("the body of a fixed response has no variables".to_owned());
            }
            let mut keys = vec![("status".to_owned(), status.to_owned())];
            keys.extend((!body.is_empty()).then(|| ("body".to_owned(), text(&body))));
            End::answer(keys, Vec::new())
        }
        _ => return Err(format!("`{status}` is no status of a response")),
    };
    Ok(Read::end(end, differs))
}

fn redirect(status: &str, url: &str, literals: Literals<'_>) -> Result<Read, String> {
    let code = ("status".to_owned(), status.to_owned());
    let whole = ["$request_uri", "$uri$is_args$args", "$uri"]
        .iter()
        .find_map(|end| url.strip_suffix(end).map(|before| (before, *end)));
    if let Some((before, end)) = whole
        && let Some(mut entries) = origin(before, literals)
    {
        entries.push(code);
        let differs = (end == "$uri").then_some("the query goes along");
        return Ok(Read::end(End::key("redirect", inline(&entries)), differs));
    }
    let location = template(url, literals)?;
    if !is_field_value(&location) {
        return Err(NO_VALUE.to_owned());
    }
    let headers = vec![("Location".to_owned(), text(&location))];
    Ok(Read::end(End::answer(vec![code], headers), differing(url)))
}

/// Scheme, host and beginning of the path that come before the path that was asked for, as keys of
/// a redirect; none where it is something else.
fn origin(before: &str, literals: Literals<'_>) -> Option<Vec<(String, String)>> {
    let (scheme, rest) = before.split_once("://")?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let mut entries = Vec::new();
    match scheme {
        "http" | "https" => entries.push(("scheme".to_owned(), text(scheme))),
        "$scheme" => {}
        _ => return None,
    }
    match host {
        "$host" | "$http_host" => {}
        "$server_name" if literals.server_name.is_empty() => return None,
        "$server_name" => entries.push(("host".to_owned(), text(literals.server_name))),
        host if host.contains('$') || host.is_empty() => return None,
        host => entries.push(("host".to_owned(), text(host))),
    }
    match path {
        "" | "/" => {}
        path if path.contains(['$', '?', '#']) => return None,
        path => {
            let change = [("prefix".to_owned(), text("/")), ("to".to_owned(), text(path))];
            entries.push(("rewrite".to_owned(), inline(&change)));
        }
    }
    (!entries.is_empty()).then_some(entries)
}

/// Reads a `rewrite`.
///
/// # Errors
/// What has no counterpart.
pub(super) fn rewrite(args: &[&str], literals: Literals<'_>) -> Result<Read, String> {
    let [regex, to, flags @ ..] = args else {
        return Err("a `rewrite` has an expression and a replacement".to_owned());
    };
    let groups = compile(regex)?.captures_len();
    let flag = flags.first().copied().unwrap_or_default();
    let status = match flag {
        "permanent" => Some("301"),
        "redirect" => Some("302"),
        _ if to.contains("://") => Some("302"),
        "last" | "break" | "" => None,
        other => return Err(format!("a rewrite has no flag `{other}`")),
    };
    let differs = to.ends_with('?').then_some("the query goes along");
    let to = to.trim_end_matches('?');
    let (before, path) = match to.split_once("://") {
        Some((scheme, rest)) => {
            let at = rest.find(['/', '$']).unwrap_or(rest.len());
            let host = if rest.starts_with("$host") { "$host" } else { &rest[..at] };
            (format!("{scheme}://{host}"), &rest[host.len()..])
        }
        None => (String::new(), to),
    };
    let is_all = matches!(*regex, "^(.*)$" | "^(.*)" | "(.*)" | "^" | "^/(.*)$" | "^/(.*)");
    let when = match is_all {
        true => When::default(),
        false => When::path(vec![Path::Regex((*regex).to_owned())]),
    };
    let same = if regex.contains('/') { "/$1" } else { "$1" };
    let mut entries = match before.as_str() {
        "" => Vec::new(),
        before => origin(before, literals).ok_or("the URL has a variable that is not known")?,
    };
    let is_same = status.is_some() && is_all && (path == same || path == "$request_uri");
    if !is_same {
        entries.push(("rewrite".to_owned(), change((regex, groups), path)?));
    }
    let Some(status) = status else {
        let Some((_, change)) = entries.pop() else { return Err("it changes nothing".to_owned()) };
        let start = path.split('$').next().unwrap_or_default().to_owned();
        let again = (flag != "break").then_some(start);
        let found = (flag == "break").then_some(when);
        let act = Act::Edit(Edit::Key("rewrite", change));
        return Ok(Read { differs, again, found, ..Read::of(act) });
    };
    entries.push(("status".to_owned(), status.to_owned()));
    Ok(Read { when, ..Read::end(End::key("redirect", inline(&entries)), differs) })
}

/// A change of the whole path where the expression finds a part of it.
fn change((regex, groups): (&str, usize), to: &str) -> Result<String, String> {
    let names = to.split('$').skip(1).all(|it| it.starts_with(|c: char| c.is_ascii_digit()));
    if !to.starts_with('/') || !names || to.contains(['?', '#']) {
        return Err(
            "the replacement has to be a path with groups of the expression alone".to_owned()
        );
    }
    let regex = format!("^{}$", first(regex));
    Ok(inline(&[
        ("regex".to_owned(), text(&regex)),
        ("to".to_owned(), text(&replacement(to, '$', groups))),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(read: Result<Read, String>) -> String {
        match read.map(|read| read.act) {
            Ok(Act::End(end)) => format!("{} = {}", end.keys[0].0, end.keys[0].1),
            Ok(Act::Edit(Edit::Key(key, value))) => format!("{key} = {value}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn redirects_to_the_same_path_are_redirects_of_ours() {
        let literals = Literals { server_name: "www.example.com", ..Literals::default() };
        for (args, expected) in [
            (
                &["301", "https://$host$request_uri"][..],
                "redirect = { scheme = \"https\", status = 301 }",
            ),
            (
                &["301", "https://$server_name$request_uri"],
                "redirect = { scheme = \"https\", host = \"www.example.com\", status = 301 }",
            ),
            (
                &["$scheme://example.org$request_uri"],
                "redirect = { host = \"example.org\", status = 302 }",
            ),
            (&["302", "/new"], "answer = { status = 302, headers = { Location = \"/new\" } }"),
            (&["404"], "deny = 404"),
            (&["200", "ok\n"], "answer = { status = 200, body = \"ok\\n\" }"),
        ] {
            assert_eq!(told(returned(args, literals)), expected);
        }
        assert!(returned(&["301", "https://$geo/x"], literals).is_err());
    }

    #[test]
    fn rewrites_are_changes_or_redirects() {
        let literals = Literals::default();
        for (args, expected) in [
            (
                &["^/a/(.*)$", "/b/$1", "break"][..],
                "rewrite = { regex = \"^/a/(.*)$\", to = \"/b/$1\" }",
            ),
            (
                &["^(.*)$", "https://example.com$1", "permanent"],
                "redirect = { scheme = \"https\", host = \"example.com\", status = 301 }",
            ),
            (
                &["^/old$", "/new", "redirect"],
                "redirect = { rewrite = { regex = \"^/old$\", to = \"/new\" }, status = 302 }",
            ),
            (
                &["^/old$", "/new/$1", "permanent"],
                "redirect = { rewrite = { regex = \"^/old$\", to = \"/new/\" }, status = 301 }",
            ),
        ] {
            assert_eq!(told(rewrite(args, literals)), expected);
        }
        assert!(rewrite(&["^/(?!a)", "/b"], literals).is_err());
        assert!(rewrite(&["^/a", "/b?x=$arg_y"], literals).is_err());
    }
}
