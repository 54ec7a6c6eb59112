//! Rules of HAProxy (`http-request`, `redirect`, `http-response`) as steps.

use loadline_core::rules::is_framing;

use super::{
    acl::{Context, Term},
    format::{differing, template},
    lex::{Line, Word},
};
use crate::{
    NO_VALUE,
    condition::compile,
    expression::{first, replacement},
    is_field_name, is_field_value,
    model::PROTECTED,
    steps::{Act, Edit, End, Step},
    write::{VARIABLE, inline, text},
};

/// What a rule does, and what of it differs.
pub(super) struct Read {
    /// None if loadline does so by itself.
    pub(super) act: Option<Act>,
    pub(super) differs: Option<&'static str>,
}

/// The words before the condition, and those of the condition.
pub(super) fn split(line: &Line) -> (&[Word], &[Word]) {
    let is_start = |word: &Word| matches!(word.text.as_str(), "if" | "unless");
    let at = line.words.iter().position(is_start).unwrap_or(line.words.len());
    line.words.split_at(at)
}

/// The steps of a rule with this action, where one of these terms holds.
pub(super) fn steps(line: &Line, act: &Act, terms: Vec<Term>) -> Vec<Step> {
    let step = |term: Term| Step { rule: line.at(), yes: term.yes, no: term.no, act: act.clone() };
    terms.into_iter().map(step).collect()
}

/// Reads the action of an `http-request` or `redirect` rule.
///
/// # Errors
/// Why it has no counterpart.
pub(super) fn action(line: &Line, context: Context) -> Result<Read, String> {
    let words: Vec<&str> = split(line).0.iter().map(|word| word.text.as_str()).collect();
    let words = if words[0] == "redirect" { &words[..] } else { &words[1..] };
    let differs = words.iter().find_map(|word| differing(word));
    let read = |act| Ok(Read { act: Some(act), differs });
    match words {
        ["redirect", rest @ ..] => {
            redirect(rest).map(|read| Read { differs: read.differs.or(differs), ..read })
        }
        ["deny" | "block", rest @ ..] => Ok(Read {
            act: Some(Act::End(End::key("deny", status(rest, "403")?))),
            differs: (rest.len() > 2).then_some("the body of the refusal is that of loadline"),
        }),
        ["reject" | "silent-drop", ..] => Ok(Read {
            act: Some(Act::End(End::key("deny", "403".to_owned()))),
            differs: Some("the client gets 403, where HAProxy says nothing"),
        }),
        ["tarpit", rest @ ..] => Ok(Read {
            act: Some(Act::End(End::key("deny", status(rest, "500")?))),
            differs: Some("the request is refused at once"),
        }),
        ["return", rest @ ..] => read(Act::End(answer(rest)?)),
        // Servers get these once, whether or not the client sent one.
        ["set-header" | "add-header", name, value] if is_ours(name) => {
            if is_native(name, value, context)? {
                return Ok(Read { act: None, differs: None });
            }
            read(header("request_headers.set", name, value)?)
        }
        ["set-header", name, value] => read(header("request_headers.set", name, value)?),
        ["add-header", name, value] => read(header("request_headers.add", name, value)?),
        // Servers are told what loadline knows, and not what the client sent.
        ["del-header", name] if is_ours(name) => Ok(Read { act: None, differs: None }),
        ["del-header", name] => read(header("request_headers.remove", name, "")?),
        ["del-header", ..] => {
            Err(format!("{PROTECTED}: routes remove headers by name, and not by a pattern"))
        }
        [name, path] if before_path(name, path).is_some() => {
            let before = before_path(name, path).unwrap_or_default();
            let change = [("prefix".to_owned(), text("/")), ("to".to_owned(), text(before))];
            read(Act::Edit(Edit::Key("rewrite", inline(&change))))
        }
        [name @ ("set-path" | "set-uri"), path] if is_path(path) => {
            let rewrite = inline(&[("path".to_owned(), text(path))]);
            Ok(Read {
                act: Some(Act::Edit(Edit::Key("rewrite", rewrite))),
                differs: (*name == "set-uri").then_some("the query goes along"),
            })
        }
        ["replace-path", regex, to] => read(Act::Edit(replace(regex, to)?)),
        ["replace-uri", regex, to] if regex.starts_with("^/") => Ok(Read {
            act: Some(Act::Edit(replace(regex, to)?)),
            differs: Some("the expression sees the path, and not the query"),
        }),
        ["cache-use", ..] => read(Act::Edit(Edit::Key("cache", "true".to_owned()))),
        _ => Err(super::reasons::reason(line).to_owned()),
    }
}

/// What differs in a rule that says the path, behind one that changes it.
pub(super) fn of_sent_path(line: &Line, context: Context) -> Option<&'static str> {
    // `%HP` is as the client sent it in HAProxy, too.
    let is_said = || split(line).0.iter().any(|word| word.text.contains("%[path]"));
    match action(line, context).ok()?.act? {
        Act::End(end) if end.keys.iter().any(|(key, _)| key == "redirect") => {
            Some("the redirect leads to the path as it came, not as an earlier rule changes it")
        }
        // A second change of the path is not carried over.
        Act::Edit(Edit::Key(..)) => None,
        _ => is_said()
            .then_some("`$path` is as the client sent it, not as an earlier rule changes it"),
    }
}

/// Whether it is a path without variables.
fn is_path(text: &str) -> bool {
    text.starts_with('/') && !text.contains(['%', '?', '#'])
}

/// What an action puts before the path, where it does nothing else.
fn before_path<'a>(action: &str, path: &'a str) -> Option<&'a str> {
    let before = match action {
        "set-path" => path.strip_suffix("%[path]")?,
        "set-pathq" => path.strip_suffix("%[pathq]")?,
        _ => return None,
    };
    (is_path(before) && !before.ends_with('/')).then_some(before)
}

/// The headers that loadline sets by itself.
fn is_ours(name: &str) -> bool {
    ["x-forwarded-proto", "x-forwarded-for", "x-forwarded-host"]
        .contains(&name.to_ascii_lowercase().as_str())
}

/// Whether loadline does so by itself.
fn is_native(name: &str, value: &str, context: Context) -> Result<bool, String> {
    let name = name.to_ascii_lowercase();
    let is_usual = match name.as_str() {
        "x-forwarded-proto" => {
            let scheme = if context.tls { "https" } else { "http" };
            value == scheme || value == "%[ssl_fc,iif(https,http)]"
        }
        "x-forwarded-for" => matches!(value, "%[src]" | "%ci"),
        _ => matches!(value, "%[req.hdr(host)]" | "%[hdr(host)]" | "%[req.hdr(Host)]"),
    };
    if !is_usual && template(value).is_err() {
        return Err(
            "loadline sets this header by itself, to what it knows of the client".to_owned()
        );
    }
    Ok(is_usual)
}

fn header(table: &'static str, name: &str, value: &str) -> Result<Act, String> {
    edit(table, name, value).map(Act::Edit)
}

fn edit(table: &'static str, name: &str, value: &str) -> Result<Edit, String> {
    let is_host = name.eq_ignore_ascii_case("host") && table != "request_headers.set";
    if is_framing(name) || is_host {
        return Err(format!("`{name}` is not for routes to change"));
    }
    if !is_field_name(name) {
        return Err(format!("`{name}` is no name of a header"));
    }
    Ok(Edit::Header(table, name.to_owned(), field_value(value)?))
}

/// The value of a header, with variables of ours.
fn field_value(value: &str) -> Result<String, String> {
    let value = template(value)?;
    let is_value = is_field_value(&value.replace(VARIABLE, "$"));
    if is_value { Ok(value) } else { Err(NO_VALUE.to_owned()) }
}

/// An `http-response` or `http-after-response` rule, and whether its condition is known before
/// there is a response.
///
/// # Errors
/// Why it has no counterpart.
pub(super) fn response(line: &Line, is_known: bool) -> Result<Option<Edit>, String> {
    let words: Vec<&str> = split(line).0.iter().skip(1).map(|word| word.text.as_str()).collect();
    if words.first() == Some(&"cache-store") {
        return Ok(None);
    }
    if !is_known {
        return Err("headers of responses do not depend on the response".to_owned());
    }
    match words.as_slice() {
        ["set-header", name, value] => edit("answer_headers.set", name, value).map(Some),
        ["add-header", name, value] => edit("answer_headers.add", name, value).map(Some),
        ["del-header", name] => edit("answer_headers.remove", name, "").map(Some),
        _ => Err("routes set, add and remove headers of responses, and nothing else".to_owned()),
    }
}

fn status(words: &[&str], default: &str) -> Result<String, String> {
    let status = match words {
        [] => default,
        ["deny_status" | "status", status, ..] => status,
        _ => return Err("its arguments have no counterpart".to_owned()),
    };
    match status.parse::<u16>() {
        Ok(400..=599) => Ok(status.to_owned()),
        _ => Err(format!("`{status}` is no status of a refusal")),
    }
}

fn answer(words: &[&str]) -> Result<End, String> {
    let mut entries = Vec::new();
    let mut headers = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().copied().unwrap_or_default();
        match *word {
            "status" => entries.push(("status".to_owned(), value().to_owned())),
            "content-type" => headers.push(("Content-Type".to_owned(), text(value()))),
            "string" => entries.push(("body".to_owned(), text(value()))),
            "lf-string" => {
                let body = value();
                if body.contains('%') {
                    return Err("the body of a fixed response has no variables".to_owned());
                }
                entries.push(("body".to_owned(), text(body)));
            }
            "hdr" => {
                let name = value().to_owned();
                if is_framing(&name) || !is_field_name(&name) {
                    return Err(format!("a fixed response has no header `{name}`"));
                }
                headers.push((name, text(&field_value(value())?)));
            }
            other => return Err(format!("a fixed response has no `{other}`")),
        }
    }
    Ok(End::answer(entries, headers))
}

fn replace(regex: &str, to: &str) -> Result<Edit, String> {
    let groups = compile(regex)?.captures_len();
    if to.contains('%') || !to.starts_with('/') {
        return Err("the replacement has to be a path without variables".to_owned());
    }
    // HAProxy replaces the whole path.
    let regex = format!("^{}$", first(regex));
    let to = replacement(to, '\\', groups);
    let entries = [("regex".to_owned(), text(&regex)), ("to".to_owned(), text(&to))];
    Ok(Edit::Key("rewrite", inline(&entries)))
}

fn redirect(words: &[&str]) -> Result<Read, String> {
    let (mut status, mut kind, mut to) = ("302", "", "");
    let mut differs = None;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "code" => status = words.next().copied().unwrap_or_default(),
            "scheme" | "prefix" | "location" => {
                (kind, to) = (word, words.next().copied().unwrap_or_default());
            }
            "drop-query" => differs = Some("the query goes along"),
            "append-slash" | "ignore-empty" => differs = Some("without its option"),
            other => return Err(format!("a redirect has no `{other}`")),
        }
    }
    if !matches!(status, "301" | "302" | "303" | "307" | "308") {
        return Err(format!("`{status}` is no status of a redirect"));
    }
    let status = ("status".to_owned(), status.to_owned());
    let end = match kind {
        "scheme" if matches!(to, "http" | "https") => {
            End::key("redirect", inline(&[("scheme".to_owned(), text(to)), status]))
        }
        "prefix" => {
            if to.ends_with('/') {
                differs = differs.or(Some("one slash is between, where HAProxy writes two"));
            }
            End::key("redirect", prefix(to, status)?)
        }
        "location" => {
            End::answer(vec![status], vec![("Location".to_owned(), text(&field_value(to)?))])
        }
        _ => return Err("it is no redirect by scheme, prefix or location".to_owned()),
    };
    Ok(Read { act: Some(Act::End(end)), differs })
}

fn prefix(to: &str, status: (String, String)) -> Result<String, String> {
    let (scheme, rest) = to.split_once("://").unwrap_or(("", to));
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if to.contains('%') || to.contains(['?', '#']) {
        return Err("a redirect by prefix has no variables".to_owned());
    }
    let mut entries = Vec::new();
    if !scheme.is_empty() {
        entries.push(("scheme".to_owned(), text(scheme)));
        entries.push(("host".to_owned(), text(host)));
    }
    if !matches!(path, "" | "/") {
        let change = [("prefix".to_owned(), text("/")), ("to".to_owned(), text(path))];
        entries.push(("rewrite".to_owned(), inline(&change)));
    }
    if entries.is_empty() {
        return Err("it leads to where the request came".to_owned());
    }
    entries.push(status);
    Ok(inline(&entries))
}
