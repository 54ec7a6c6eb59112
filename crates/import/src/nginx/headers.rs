//! Headers that a location of nginx sets: on the way to servers, on responses, and on its own ones.

use loadline_core::rules::is_framing;

use super::{
    Import,
    lex::Directive,
    rewrites::Place,
    scope::Scope,
    values::{Literals, differing, may_be_empty, template},
};
use crate::{
    NO_VALUE, is_field_name, is_field_value,
    model::Table,
    steps::{Act, Edit, Step},
};

/// Headers that are set on the way to servers.
pub(super) fn to_servers<'a>(scope: &Scope<'a>) -> Vec<&'a Directive> {
    scope.nearest_of(&["proxy_set_header", "grpc_set_header"])
}

/// Whether servers get the host that they are named by, and not that of the request.
pub(super) fn is_host_of_server(scope: &Scope<'_>) -> bool {
    !to_servers(scope).iter().any(|it| it.arg(0).eq_ignore_ascii_case("host"))
}

pub(super) fn header(table: &'static str, name: &str, value: &str) -> Edit {
    Edit::Header(table, name.to_owned(), value.to_owned())
}

/// The changes of `proxy_set_header` and `add_header`.
pub(super) fn edits(
    import: &mut Import<'_>,
    scope: &Scope<'_>,
    literals: Literals<'_>,
    table: &mut Table,
) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut edit = |at: usize, edit| steps.push(Step::always(at, Act::Edit(edit)));
    let mut names: Vec<String> = Vec::new();
    for directive in to_servers(scope) {
        let name = directive.arg(0).to_ascii_lowercase();
        match request_header(directive, names.contains(&name), literals) {
            Ok(Some(change)) => {
                tell_variables(import, directive, directive.arg(1), table);
                if let Edit::Header(_, _, value) = &change {
                    tell_empty(import, directive, value, table);
                }
                edit(directive.at(), change);
            }
            Ok(None) => {}
            Err(why) => table.remark(import.lines.lost(import.files, directive.at(), &why)),
        }
        names.push(name);
    }
    for directive in scope.nearest("add_header") {
        match added(directive, literals) {
            Ok(value) => {
                let change = header("answer_headers.add", directive.arg(0), &value);
                tell_variables(import, directive, directive.arg(1), table);
                tell_empty(import, directive, &value, table);
                edit(directive.at(), change);
            }
            Err(why) => table.remark(import.lines.lost(import.files, directive.at(), &why)),
        }
        if !is_always(directive) && !import.told_always {
            import.told_always = true;
            let why = "without `always` nginx adds it to responses with 2xx and 3xx alone; here \
                       it is added to all of them, as with all such lines";
            table.remark(import.lines.differs(import.files, directive.at(), why));
        }
    }
    steps
}

/// What a `return` or a redirect of `rewrite` does, with the headers that nginx adds.
pub(super) fn returned(
    import: &mut Import<'_>,
    place: &Place<'_>,
    directive: &Directive,
    act: Act,
    table: &mut Table,
) -> Act {
    let Act::End(mut end) = act else { return act };
    let literals = place.vhost.literals();
    let status = directive.arg(0).parse().unwrap_or(302);
    let is_redirect = matches!(status, 301 | 302 | 303 | 307 | 308);
    let is_usual = is_redirect || matches!(status, 200 | 201 | 204 | 206 | 304);
    if !is_redirect
        && directive.args().len() == 2
        && let Some(kind) = place.scope.value("default_type")
    {
        end = end.with_header("Content-Type", kind);
    }
    let mut names: Vec<&str> = Vec::new();
    for added_by in place.scope.nearest("add_header") {
        if !is_usual && !is_always(added_by) {
            continue;
        }
        let name = added_by.arg(0);
        let why = match added(added_by, literals) {
            _ if end.answer.is_none() => {
                let why = format!("the header `{name}` of `add_header` is not sent with it");
                table.remark(import.lines.differs(import.files, directive.at(), &why));
                continue;
            }
            Ok(_) if names.iter().any(|other| other.eq_ignore_ascii_case(name)) => {
                "a fixed response has one field of a name".to_owned()
            }
            Ok(value) => {
                end = end.with_header(name, &value);
                names.push(name);
                tell_variables(import, added_by, added_by.arg(1), table);
                tell_empty(import, added_by, &value, table);
                continue;
            }
            Err(why) => why,
        };
        table.remark(import.lines.lost(import.files, added_by.at(), &why));
    }
    Act::End(end)
}

/// Tells where a text has a variable that is not quite that of nginx.
fn tell_variables(import: &Import<'_>, directive: &Directive, text: &str, table: &mut Table) {
    if let Some(why) = differing(text) {
        table.remark(import.lines.differs(import.files, directive.at(), why));
    }
}

/// Tells where nginx sends no header, because its value is empty.
fn tell_empty(import: &Import<'_>, directive: &Directive, value: &str, table: &mut Table) {
    if may_be_empty(value) {
        let why = "nginx sends no header where its value is empty; here it is sent empty";
        table.remark(import.lines.differs(import.files, directive.at(), why));
    }
}

fn is_always(directive: &Directive) -> bool {
    directive.args().get(2) == Some(&"always")
}

/// The value of an `add_header`.
fn added(directive: &Directive, literals: Literals<'_>) -> Result<String, String> {
    let name = directive.arg(0);
    if is_framing(name) || !is_field_name(name) {
        return Err(format!("responses get no header `{name}` by a route"));
    }
    let value = template(directive.arg(1), literals)?;
    if is_field_value(&value) { Ok(value) } else { Err(NO_VALUE.to_owned()) }
}

/// A `proxy_set_header`; none where loadline does the same by itself. `is_more` is whether there
/// is one of its name already.
fn request_header(
    directive: &Directive,
    is_more: bool,
    literals: Literals<'_>,
) -> Result<Option<Edit>, String> {
    let (name, value) = (directive.arg(0), directive.arg(1));
    let native = match name.to_ascii_lowercase().as_str() {
        framing if is_framing(framing) => true,
        "host" => value == "$http_host",
        "x-forwarded-for" => matches!(value, "$proxy_add_x_forwarded_for" | "$remote_addr"),
        "x-forwarded-proto" => value == "$scheme",
        // Without a rule servers are told the host with its case and its port.
        "x-forwarded-host" => value == "$http_host",
        _ => false,
    };
    if native {
        return Ok(None);
    }
    if !is_field_name(name) {
        return Err(format!("`{name}` is no name of a header"));
    }
    if value.is_empty() && name.eq_ignore_ascii_case("host") {
        return Err("a request to a server has a `Host`: it is that of the client".to_owned());
    }
    if value.is_empty() {
        return Ok(Some(header("request_headers.remove", name, "")));
    }
    let value = template(value, literals)?;
    if !is_field_value(&value) {
        return Err(NO_VALUE.to_owned());
    }
    let table = if is_more { "request_headers.add" } else { "request_headers.set" };
    Ok(Some(header(table, name, &value)))
}
