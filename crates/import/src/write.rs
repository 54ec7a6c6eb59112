//! Our file as text.

use std::fmt::Write as _;

use crate::{
    condition::{Field, Host, Network, Path, Place, Value, When},
    expression::{escape, whole},
    model::{Configuration, Listener, Service, Table},
    steps::{Edit, Route},
};

/// Begins a variable of the environment in a text of the original, which stays one: `{NAME}` is
/// behind it.
pub(crate) const VARIABLE: char = '\u{E000}';

/// The length at which comments are broken.
const WIDTH: usize = 98;

/// A text between quotes. What would be a variable of ours is escaped.
pub(crate) fn text(value: &str) -> String {
    let mut out = String::from("\"");
    for c in value.replace("${", "$${").chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            VARIABLE => out.push('$'),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The same of a value that has a variable of ours already.
pub(crate) fn text_with_variable(value: &str) -> String {
    format!("\"{value}\"")
}

/// A value, or a list where there are several.
pub(crate) fn one_or_more(values: &[String]) -> String {
    match values {
        [one] => text(one),
        all => list(all),
    }
}

/// A list of texts.
pub(crate) fn list(values: &[String]) -> String {
    let values: Vec<_> = values.iter().map(|value| text(value)).collect();
    format!("[{}]", values.join(", "))
}

/// An inline table.
pub(crate) fn inline(entries: &[(String, String)]) -> String {
    let entries: Vec<_> =
        entries.iter().map(|(name, value)| format!("{} = {value}", key(name))).collect();
    format!("{{ {} }}", entries.join(", "))
}

/// A key, between quotes where it has to be. Dots stay: they lead into a table.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { text(name) }
}

/// The name of a header or a service, of which a dot is a part.
fn name(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { text(name) }
}

/// The whole file. `heading` says where it comes from.
pub(crate) fn file(heading: &[String], made: &Configuration) -> String {
    let mut out = String::new();
    for line in heading {
        comment(&mut out, line);
    }
    if !made.top.remarks.is_empty() {
        out.push('\n');
    }
    remarks(&mut out, &made.top);
    for (name, table) in [("edge", &made.edge), ("admin", &made.admin), ("cache", &made.cache)] {
        if !table.is_empty() {
            out.push('\n');
            remarks(&mut out, table);
            if !table.keys.is_empty() {
                let _ = writeln!(out, "[{name}]");
            }
            keys(&mut out, &table.keys);
        }
    }
    let mut shared: Vec<(&[Route], String)> = Vec::new();
    for listener in &made.listeners {
        self::listener(&mut out, listener, &mut shared, made);
    }
    for (routes, label) in &shared {
        for route in *routes {
            self::route(&mut out, label, route);
        }
    }
    for service in &made.services {
        self::service(&mut out, service);
    }
    out
}

fn listener<'a>(
    out: &mut String,
    listener: &'a Listener,
    shared: &mut Vec<(&'a [Route], String)>,
    made: &Configuration,
) {
    out.push('\n');
    remarks(out, &listener.table);
    let _ = writeln!(out, "[[listener]]\nbind = {}", one_or_more(&listener.bind));
    keys(out, &listener.table.keys);
    if !listener.routes.is_empty() {
        let label = label(listener, shared);
        let _ = writeln!(out, "routes = {}", text(&label));
    }
    let takes_all = listener.routes.last().is_some_and(|route| route.when.is_always());
    let any = made.services.first().filter(|_| takes_all);
    match (listener.service.as_str(), any) {
        ("", Some(any)) => {
            let last = "# The last route takes what is left.";
            let _ = writeln!(out, "service = {} {last}", text(&any.name));
        }
        ("", None) => {}
        (service, _) => {
            let _ = writeln!(out, "service = {}", text(service));
        }
    }
    if !listener.names.is_empty() {
        let names = listener.names.iter().map(|(name, service)| {
            format!("    {{ name = {}, service = {} }},\n", text(name), text(service))
        });
        let _ = writeln!(out, "names = [\n{}]", names.collect::<String>());
    }
}

/// The label of a listener's routes: that of an earlier listener if its routes are the same.
fn label<'a>(listener: &'a Listener, shared: &mut Vec<(&'a [Route], String)>) -> String {
    if let Some((_, label)) = shared.iter().find(|(routes, _)| *routes == listener.routes) {
        return label.clone();
    }
    let mut label = listener.label.clone();
    while shared.iter().any(|(_, other)| *other == label) {
        label.push_str("-2");
    }
    shared.push((&listener.routes, label.clone()));
    label
}

fn route(out: &mut String, label: &str, route: &Route) {
    let _ = writeln!(out, "\n[[routes.{}]]", name(label));
    conditions(out, &route.when);
    let mut headers: Vec<(&str, Vec<(String, String)>)> = Vec::new();
    for edit in &route.edits {
        match edit {
            Edit::Key(key, value) | Edit::Always(key, value) => {
                let _ = writeln!(out, "{key} = {value}");
            }
            Edit::Header(table, name, value) => {
                let index = headers.iter().position(|(other, _)| other == table);
                let index = index.unwrap_or_else(|| {
                    headers.push((table, Vec::new()));
                    headers.len() - 1
                });
                let fields = &mut headers[index].1;
                fields.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
                fields.push((name.clone(), text(value)));
            }
        }
    }
    for (table, fields) in headers {
        let value = if table.ends_with(".remove") {
            one_or_more(&fields.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
        } else {
            let quoted: Vec<_> = fields.iter().map(|(n, v)| format!("{} = {v}", name(n))).collect();
            format!("{{ {} }}", quoted.join(", "))
        };
        let _ = writeln!(out, "{table} = {value}");
    }
    keys(out, &route.end.keys);
}

fn conditions(out: &mut String, when: &When) {
    let mut line = |key: &str, values: Vec<String>| {
        let _ = writeln!(out, "{key} = {}", one_or_more(&values));
    };
    if let Some(hosts) = &when.hosts {
        line("host", hosts.iter().map(host).collect());
    }
    if let Some(paths) = when.paths.as_ref().filter(|paths| !paths.iter().any(is_any)) {
        line("path", paths.iter().map(path).collect());
    }
    if let Some(methods) = &when.methods {
        line("method", methods.clone());
    }
    if let Some(sources) = &when.sources {
        line("source", sources.iter().map(Network::text).collect());
    }
    for (place, key) in
        [(Place::Header, "header"), (Place::Query, "query"), (Place::Cookie, "cookie")]
    {
        let here = |field: &&Field| field.place == place;
        let fields: Vec<_> = when.fields.iter().filter(here).map(field).collect();
        if !fields.is_empty() {
            let _ = writeln!(out, "{key} = {{ {} }}", fields.join(", "));
        }
    }
}

fn host(host: &Host) -> String {
    match host {
        Host::Exact(name) => name.clone(),
        Host::Under(domain) => format!("*.{domain}"),
    }
}

fn is_any(path: &Path) -> bool {
    *path == Path::Begins("/".to_owned())
}

fn path(path: &Path) -> String {
    match path {
        Path::Exact(path) if is_plain(path) => path.clone(),
        Path::Exact(path) => format!("~{}", escape(path)),
        Path::Begins(prefix) => format!("~(?s){}.*", escape(prefix)),
        Path::Regex(regex) => format!("~{}", whole(regex)),
    }
}

/// Whether a path stands for itself, and is in the form in which paths are compared.
fn is_plain(path: &str) -> bool {
    let odd = ["//", "/./", "/../", "%", "?", "#", "\n"];
    let is_dotted = path.ends_with("/.") || path.ends_with("/..");
    path.starts_with('/')
        && !path.ends_with('/')
        && !is_dotted
        && !odd.iter().any(|it| path.contains(it))
}

/// Whether a value would be read as something else than it is.
fn is_special(value: &str) -> bool {
    value.starts_with('~') || value.contains('*')
}

fn field(field: &Field) -> String {
    let values: Vec<_> = field
        .values
        .iter()
        .map(|value| match value {
            Value::Any => "*".to_owned(),
            Value::Exact(value) if is_special(value) => format!("~{}", escape(value)),
            Value::Begins(value) if is_special(value) => format!("~{}.*", escape(value)),
            Value::Exact(value) => value.clone(),
            Value::Begins(value) => format!("{value}*"),
            Value::Regex(regex) => format!("~{regex}"),
        })
        .collect();
    format!("{} = {}", name(&field.name), one_or_more(&values))
}

fn service(out: &mut String, service: &Service) {
    let name = name(&service.name);
    out.push('\n');
    remarks(out, &service.table);
    if !service.table.keys.is_empty() {
        let _ = writeln!(out, "[service.{name}]");
        keys(out, &service.table.keys);
        out.push('\n');
    }
    remarks(out, &service.group);
    let _ = writeln!(out, "[[service.{name}.group]]");
    keys(out, &service.group.keys);
    if service.servers.is_empty() {
        return;
    }
    out.push_str("servers = [\n");
    for server in &service.servers {
        for remark in &server.remarks {
            for line in broken(remark) {
                let _ = writeln!(out, "    # {line}");
            }
        }
        match server.keys.as_slice() {
            [] => {}
            [(_, address)] => {
                let _ = writeln!(out, "    {address},");
            }
            keys => {
                let _ = writeln!(out, "    {},", inline(keys));
            }
        }
    }
    out.push_str("]\n");
}

fn keys(out: &mut String, keys: &[(String, String)]) {
    for (name, value) in keys {
        let _ = writeln!(out, "{} = {value}", key(name));
    }
}

fn remarks(out: &mut String, table: &Table) {
    for remark in &table.remarks {
        comment(out, remark);
    }
}

fn comment(out: &mut String, text: &str) {
    for line in broken(text) {
        let _ = writeln!(out, "{}", format!("# {line}").trim_end());
    }
}

/// Lines of a comment, none of which is too long unless it is one word.
fn broken(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.replace(|c: char| c.is_control() && c != '\n', " ").split('\n') {
        let indent = &line[..line.len() - line.trim_start().len()];
        let mut now = String::from(indent);
        for word in line.split_whitespace() {
            let is_first = now.len() == indent.len();
            if !is_first && now.chars().count() + word.chars().count() >= WIDTH {
                lines.push(std::mem::replace(&mut now, format!("{indent}    ")));
            } else if !is_first {
                now.push(' ');
            }
            now.push_str(word);
        }
        lines.push(now);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_are_no_variables() {
        assert_eq!(text("a\"b\\c\td"), "\"a\\\"b\\\\c\\td\"");
        assert_eq!(text("x{${1}}"), "\"x{$${1}}\"");
        assert_eq!(text("\u{1}"), "\"\\u0001\"");
    }

    #[test]
    fn a_comment_stays_a_comment_whatever_is_in_it() {
        let mut out = String::new();
        comment(&mut out, &format!("line 1: x\r\u{b}{}\n    why", "word ".repeat(60)));
        assert!(out.lines().all(|line| line.starts_with('#') && line.len() <= 100), "{out}");
    }
}
