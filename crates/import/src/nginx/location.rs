//! A location of nginx as steps: what is asked of a request there, in the order of its phases.

use super::{
    Import, VirtualHost, headers,
    lex::Directive,
    named,
    order::{self, Location},
    redirect::{self, Read},
    scope::Scope,
    test::{Test, test},
    upstream::{self, Target, service},
    values::{Literals, rate, size},
};
use crate::{
    condition::{Network, Path, When},
    model::{Service, Table},
    steps::{Act, Edit, End, Step},
    write::{inline, text},
};

/// What decides at the end of a location.
pub(super) const CONTENT: [&str; 6] =
    ["proxy_pass", "grpc_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "memcached_pass"];

/// Directives that may decide before the location does.
const CLOSED: [&str; 3] = ["return", "deny", "internal"];

/// A place in a server: what holds there, and in which location it is.
pub(super) struct Place<'a> {
    pub(super) vhost: &'a VirtualHost<'a>,
    pub(super) scope: &'a Scope<'a>,
    here: Option<&'a Directive>,
}

/// A location that is `internal`: nobody who asks comes there.
pub(super) fn internal(
    import: &mut Import<'_>,
    scope: &Scope<'_>,
    table: &mut Table,
) -> Option<Step> {
    let directive = scope.own().iter().find(|it| it.name() == "internal")?;
    let why = "everybody gets 404: neither `error_page` nor X-Accel-Redirect leads there";
    table.remark(import.lines.differs(import.files, directive.at(), why));
    Some(Step::always(directive.at(), Act::End(refused("404"))))
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
    let place = Place { vhost, scope, here };
    let literals = Literals { server_name: vhost.name(), proxy_host: "" };
    let mut steps = Vec::new();
    for directive in scope.own() {
        let read = match directive.name() {
            "return" => redirect::returned(&directive.args(), literals),
            "rewrite" => redirect::rewrite(&directive.args(), literals),
            "if" => {
                steps.extend(conditional(import, &place, directive, table));
                continue;
            }
            _ => continue,
        };
        steps.extend(told(import, &place, directive, read, table));
    }
    steps
}

fn told(
    import: &mut Import<'_>,
    place: &Place<'_>,
    directive: &Directive,
    read: Result<Read, String>,
    table: &mut Table,
) -> Option<Step> {
    let checked = |read: Read| match (&read.again, place.here) {
        (Some(path), Some(here)) if !stays(place.vhost, here, path) => Err(AGAIN.to_owned()),
        _ => Ok(read),
    };
    match read.and_then(checked) {
        Ok(read) => {
            if let Some(why) = read.differs {
                table.remark(import.lines.differs(import.files, directive.at(), why));
            }
            let act = headers::returned(import, place, directive, read.act, table);
            Some(Step { yes: read.when, ..Step::always(directive.at(), act) })
        }
        Err(why) => {
            table.remark(import.lines.lost(import.files, directive.at(), &why));
            None
        }
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
    let has_path = here.block().iter().any(|it| {
        it.name() == "location"
            || it.name() == "proxy_pass"
                && Target::read(it.arg(0)).is_ok_and(|target| target.path.is_some())
    });
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
    let literals = Literals { server_name: place.vhost.name(), proxy_host: "" };
    let (yes, no) = match test(&directive.args(), place.vhost.tls) {
        Ok(Test::Always(false)) => return Vec::new(),
        Ok(Test::Always(true)) => (When::default(), Vec::new()),
        Ok(Test::When(when, true)) => (when, Vec::new()),
        Ok(Test::When(when, false)) => (When::default(), vec![when]),
        Err(why) => {
            table.remark(import.lines.lost(import.files, directive.at(), &why));
            import.lose_within(directive, &why, table);
            return Vec::new();
        }
    };
    let mut steps = Vec::new();
    for inner in directive.block() {
        let read = match inner.name() {
            "return" => redirect::returned(&inner.args(), literals),
            "rewrite" => redirect::rewrite(&inner.args(), literals),
            "break" => continue,
            _ => Err("an `if` decides by `return` or `rewrite` alone".to_owned()),
        };
        steps.extend(told(import, place, inner, read, table));
    }
    for (at, why) in crate::steps::confine(&mut steps, &yes, &no) {
        table.remark(import.lines.lost(import.files, at, &why));
    }
    steps
}

/// The steps behind the rewrite phase: who may, what is changed, and who answers. `prefix` is that
/// of the location, or empty for an expression. A path that is rewritten is not changed again.
pub(super) fn content(
    import: &mut Import<'_>,
    vhost: &VirtualHost<'_>,
    scope: &Scope<'_>,
    prefix: &str,
    is_rewritten: bool,
    table: &mut Table,
) -> Vec<Step> {
    let mut steps = access(import, scope, table);
    let pass = scope.own().iter().find(|it| CONTENT.contains(&it.name()));
    let target = pass.and_then(|pass| {
        let is_ours = matches!(pass.name(), "proxy_pass" | "grpc_pass");
        is_ours.then(|| (pass, Target::read(pass.arg(0))))
    });
    let host = match &target {
        Some((_, Ok(target))) => target.proxy_host(),
        _ => "",
    };
    let literals = Literals { server_name: vhost.name(), proxy_host: host };
    let edits = edits(import, vhost, scope, literals, table);
    if pass.is_none()
        && let Some(named) = named::of(vhost, scope)
    {
        // Headers are those of the named location.
        let is_limit = |step: &Step| matches!(step.act, Act::Edit(Edit::Always(..)));
        steps.extend(edits.into_iter().filter(|step| is_limit(step) || limits_body(step)));
        steps.extend(named::steps(import, vhost, scope, named, table));
        return steps;
    }
    steps.extend(edits);
    let (at, end) = match (&target, pass) {
        (Some((pass, Ok(target))), _) => {
            if headers::is_host_of_server(scope) {
                let edit = headers::header("request_headers.set", "Host", host);
                steps.push(Step::always(pass.at(), Act::Edit(edit)));
            }
            if !is_rewritten {
                steps.extend(passed_path(import, pass, target, prefix, table));
            }
            tell_redirects(import, pass, target, prefix, scope, table);
            upstream::tell_settings(import, scope, table);
            let said = upstream::said(target, scope, pass.name() == "grpc_pass");
            let found = service(import, pass, target, said);
            if found.is_none() {
                table.remark(import.lines.lost(import.files, pass.at(), upstream::NO_SERVER));
            }
            let end = found.map_or_else(|| refused("502"), |name| End::service(&name));
            (pass.at(), end)
        }
        (Some((pass, Err(why))), _) => {
            table.remark(import.lines.lost(import.files, pass.at(), why));
            (pass.at(), refused("502"))
        }
        (None, Some(pass)) => {
            import.lose(pass, table);
            (pass.at(), refused("501"))
        }
        (None, None) => files(import, vhost, scope, prefix, &mut steps, table),
    };
    steps.push(Step::always(at, Act::End(end)));
    steps
}

fn refused(status: &str) -> End {
    End::key("deny", status.to_owned())
}

/// `allow` and `deny`: the first that matches decides.
fn access(import: &mut Import<'_>, scope: &Scope<'_>, table: &mut Table) -> Vec<Step> {
    let rules = scope.nearest_of(&["allow", "deny"]);
    let mut steps = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let act = match rule.name() {
            "deny" => Act::End(refused("403")),
            _ => Act::Skip(rules.len() - index - 1),
        };
        let mut step = Step::always(rule.at(), act);
        if rule.arg(0) != "all" {
            let Some(network) = Network::parse(rule.arg(0)) else {
                let why = "THIS PROTECTED SOMETHING: it is no address and no network";
                table.remark(import.lines.lost(import.files, rule.at(), why));
                // Steps are counted; one that nobody meets stands in its place.
                step.no = vec![When::default()];
                step.act = Act::Skip(0);
                steps.push(step);
                continue;
            };
            step.yes.sources = Some(vec![network]);
        }
        steps.push(step);
    }
    steps
}

fn edits(
    import: &mut Import<'_>,
    vhost: &VirtualHost<'_>,
    scope: &Scope<'_>,
    literals: Literals<'_>,
    table: &mut Table,
) -> Vec<Step> {
    let mut steps = headers::edits(import, scope, literals, table);
    let mut edit = |at: usize, edit| steps.push(Step::always(at, Act::Edit(edit)));
    for (index, directive) in scope.nearest("limit_req").into_iter().enumerate() {
        if index > 0 {
            let why = "a route has one limit";
            table.remark(import.lines.lost(import.files, directive.at(), why));
            continue;
        }
        match limit(import, directive) {
            Ok((value, differs)) => {
                edit(directive.at(), Edit::Always("limit", value));
                table.remark(import.lines.differs(import.files, directive.at(), differs));
            }
            Err(why) => table.remark(import.lines.lost(import.files, directive.at(), &why)),
        }
    }
    if let Some(directive) = scope.nearest("client_max_body_size").last()
        && let Some(most) = size(directive.arg(0)).filter(|most| *most != vhost.max_body)
    {
        let most = if most == "0" { "1048576GiB".to_owned() } else { most };
        edit(directive.at(), Edit::Key("max_body", text(&most)));
    }
    if let Some(directive) = scope.nearest("proxy_cache").last()
        && directive.arg(0) != "off"
    {
        edit(directive.at(), Edit::Key("cache", "true".to_owned()));
    }
    steps
}

/// Whether a step says how long a body may be.
pub(super) fn limits_body(step: &Step) -> bool {
    matches!(step.act, Act::Edit(Edit::Key("max_body", _)))
}

fn limit(import: &Import<'_>, directive: &Directive) -> Result<(String, &'static str), String> {
    let args = directive.args();
    let option = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name));
    let zone = option("zone=").unwrap_or_default();
    let Some((key, each)) = import.zones.get(zone) else {
        return Err(format!("there is no zone `{zone}`"));
    };
    let each = rate(each).ok_or_else(|| format!("`{each}` is no rate"))?;
    let burst = option("burst=").and_then(|it| it.parse::<u64>().ok()).unwrap_or(0) + 1;
    let mut entries =
        vec![("rate".to_owned(), text(&each)), ("burst".to_owned(), burst.to_string())];
    match key.as_str() {
        "$binary_remote_addr" | "$remote_addr" => {}
        key => match (key.strip_prefix("$http_"), key.strip_prefix("$cookie_")) {
            (Some(name), _) => entries.push(("header".to_owned(), text(&name.replace('_', "-")))),
            (_, Some(name)) => entries.push(("cookie".to_owned(), text(name))),
            _ => return Err(format!("a limit counts addresses, headers or cookies, not `{key}`")),
        },
    }
    Ok((inline(&entries), "what is over the rate gets 429 at once: it is not delayed, and not 503"))
}

/// nginx changes where redirects of servers lead to; by default from what `proxy_pass` names to the
/// location.
fn tell_redirects(
    import: &mut Import<'_>,
    pass: &Directive,
    target: &Target,
    prefix: &str,
    scope: &Scope<'_>,
    table: &mut Table,
) {
    let given = scope.nearest("proxy_redirect");
    for directive in given.iter().filter(|it| !matches!(it.arg(0), "off" | "default")) {
        let why = "`Location` in responses of servers stays as it is";
        table.remark(import.lines.lost(import.files, directive.at(), why));
    }
    let is_default = given.is_empty() || given.iter().any(|it| it.arg(0) == "default");
    if !is_default || pass.name() != "proxy_pass" {
        return;
    }
    if target.path.as_deref().is_some_and(|path| path != prefix) {
        let why = "`Location` in responses of servers stays as it is, where nginx changes the path \
                   back (`proxy_redirect`)";
        table.remark(import.lines.differs(import.files, pass.at(), why));
    } else if headers::is_host_of_server(scope) && !import.told_redirect {
        import.told_redirect = true;
        let why = "`Location` in responses of servers stays as it is, where nginx puts the host of \
                   the request for that of the server (`proxy_redirect`); so with all such lines";
        table.remark(import.lines.differs(import.files, pass.at(), why));
    }
}

/// What becomes of the path where `proxy_pass` has one of its own.
fn passed_path(
    import: &mut Import<'_>,
    pass: &Directive,
    target: &Target,
    prefix: &str,
    table: &mut Table,
) -> Option<Step> {
    let path = target.path.as_deref()?;
    if path == prefix {
        return None;
    }
    if prefix.is_empty() || path.contains(['?', '#']) {
        let why = "the path of an expression stays as it is; `rewrite` on the route changes it";
        table.remark(import.lines.differs(import.files, pass.at(), why));
        return None;
    }
    // nginx replaces the text, loadline whole segments: where they differ, an expression does it.
    let entries = if prefix.ends_with('/') && path.ends_with('/') {
        [("prefix".to_owned(), text(prefix)), ("to".to_owned(), text(path))].to_vec()
    } else {
        let regex = format!("^{}", crate::expression::escape(prefix));
        let to = path.replace('$', "$$");
        [("regex".to_owned(), text(&regex)), ("to".to_owned(), text(&to))].to_vec()
    };
    Some(Step::always(pass.at(), Act::Edit(Edit::Key("rewrite", inline(&entries)))))
}

/// Files below a directory, where nothing else answers.
fn files(
    import: &mut Import<'_>,
    vhost: &VirtualHost<'_>,
    scope: &Scope<'_>,
    prefix: &str,
    steps: &mut Vec<Step>,
    table: &mut Table,
) -> (usize, End) {
    let alias = scope.own().iter().find(|it| it.name() == "alias");
    let root = scope.nearest("root").last().copied();
    let Some(directive) = alias.or(root) else {
        if let Some(tried) = scope.own().iter().find(|it| it.name() == "try_files") {
            let why = "no `root` says where there are files: everybody gets 404";
            table.remark(import.lines.lost(import.files, tried.at(), why));
        }
        let at = scope.own().first().map_or(vhost.at, Directive::at);
        return (at, refused("404"));
    };
    let folder = directive.arg(0);
    if !folder.starts_with('/') || folder.contains('$') {
        let why = "a store has an absolute path without variables";
        table.remark(import.lines.lost(import.files, directive.at(), why));
        return (directive.at(), refused("404"));
    }
    if let Some(tried) = scope.own().iter().find(|it| is_of_no_path(it)) {
        return page(import, scope, (directive, tried), steps, table);
    }
    let is_one = alias.is_some() && is_one_path(vhost, scope);
    let is_file = is_one && !folder.ends_with('/');
    if alias.is_some() && !is_one && !(prefix.ends_with('/') && folder.ends_with('/')) {
        let why = format!(
            "nginx puts `{folder}` in the place of the text `{prefix}`, loadline in that of whole \
             segments of the path"
        );
        table.remark(import.lines.differs(import.files, directive.at(), &why));
    }
    let (folder, file) = folder.rsplit_once('/').filter(|_| is_file).unwrap_or((folder, ""));
    if alias.is_some() {
        if prefix.is_empty() {
            let why = "an alias for an expression has no counterpart";
            table.remark(import.lines.lost(import.files, directive.at(), why));
            return (directive.at(), refused("404"));
        }
        let change = match is_file {
            true => vec![("path".to_owned(), text(&format!("/{file}")))],
            false => vec![("prefix".to_owned(), text(prefix)), ("to".to_owned(), text("/"))],
        };
        if is_file || prefix != "/" {
            let edit = Edit::Key("rewrite", inline(&change));
            steps.push(Step::always(directive.at(), Act::Edit(edit)));
        }
    }
    let index = index(import, vhost, scope, prefix, table);
    let more = index.into_iter().chain(tried(import, scope, table));
    (directive.at(), store(import, scope, folder, more))
}

/// Whether it is a `try_files` that sends the same whatever the path is.
fn is_of_no_path(it: &Directive) -> bool {
    it.name() == "try_files" && !it.args().iter().any(|arg| arg.contains('$'))
}

/// The page of such a `try_files`, and no other file of the directory.
fn page(
    import: &mut Import<'_>,
    scope: &Scope<'_>,
    (root, tried): (&Directive, &Directive),
    steps: &mut Vec<Step>,
    table: &mut Table,
) -> (usize, End) {
    match tried.args().as_slice() {
        [page, "=404"] if is_page(page) && root.name() == "root" => {
            let edit = Edit::Key("rewrite", inline(&[("path".to_owned(), text(page))]));
            steps.push(Step::always(tried.at(), Act::Edit(edit)));
            (root.at(), store(import, scope, root.arg(0), []))
        }
        _ => {
            let why = "no file at the path is sent: everybody gets 404";
            table.remark(import.lines.lost(import.files, tried.at(), why));
            (tried.at(), refused("404"))
        }
    }
}

/// Files of a directory, with more settings.
fn store(
    import: &mut Import<'_>,
    scope: &Scope<'_>,
    folder: &str,
    more: impl IntoIterator<Item = (String, String)>,
) -> End {
    let mut store =
        vec![("url".to_owned(), text(&format!("file://{}", folder.trim_end_matches('/'))))];
    store.extend(more);
    let mut said = Table::default();
    upstream::compression(scope, &mut said);
    End::service(&store_service(import, folder, inline(&store), said))
}

/// Whether a name in `try_files` is that of one file.
fn is_page(name: &str) -> bool {
    name.starts_with('/') && !name.ends_with('/') && !name.contains(['$', '?'])
}

/// Whether an alias is a directory without a slash behind it, as far as its name tells.
pub(super) fn is_folder(alias: &Directive) -> bool {
    let last = alias.arg(0).rsplit('/').next().unwrap_or_default();
    !last.is_empty() && !last.contains('.')
}

/// Whether the location is one of `=`.
fn is_one_path(vhost: &VirtualHost<'_>, scope: &Scope<'_>) -> bool {
    let (found, _) = order::locations(vhost.block);
    found.iter().any(|it| it.is_exact() && is_of(it, scope))
}

fn is_of(location: &Location<'_>, scope: &Scope<'_>) -> bool {
    std::ptr::eq(location.directive.block(), scope.own())
}

/// The index of a store: the first name that is a file for this location, and not for another one
/// to make a response of.
fn index(
    import: &mut Import<'_>,
    vhost: &VirtualHost<'_>,
    scope: &Scope<'_>,
    prefix: &str,
    table: &mut Table,
) -> Option<(String, String)> {
    let directive = scope.nearest("index").last().copied()?;
    let names: Vec<&str> = scope.nearest("index").iter().flat_map(|it| it.args()).collect();
    let is_file = |name: &str| {
        let is_plain = !name.contains(['$', '/']) && !name.ends_with(".php");
        is_plain && !is_elsewhere(vhost, scope, prefix, name)
    };
    let found = names.iter().copied().find(|name| is_file(name));
    let name = found.unwrap_or("index.html");
    if names.len() > 1 || found.is_none() {
        let why = format!("a store has one index, here `{name}`; no index is run or passed on");
        table.remark(import.lines.differs(import.files, directive.at(), &why));
    }
    (name != "index.html").then(|| ("index".to_owned(), text(name)))
}

/// Whether nginx looks for an index of this name in another location, which is not one of files.
fn is_elsewhere(vhost: &VirtualHost<'_>, scope: &Scope<'_>, prefix: &str, name: &str) -> bool {
    let path = format!("{}/{name}", prefix.trim_end_matches('/'));
    let path = When::path(vec![Path::Exact(path)]);
    let decides = |it: &Directive| CONTENT.contains(&it.name()) || CLOSED.contains(&it.name());
    let (found, _) = order::locations(vhost.block);
    found.iter().any(|it| {
        let is_nearer = it.is_exact() || it.prefix.is_empty() || it.prefix.len() > prefix.len();
        is_nearer
            && !is_of(it, scope)
            && it.directive.block().iter().any(decides)
            && matches!(it.when.and(&path), Ok(Some(_)))
    })
}

/// `try_files`: what of it a store does.
fn tried(
    import: &mut Import<'_>,
    scope: &Scope<'_>,
    table: &mut Table,
) -> Option<(String, String)> {
    let directive = scope.nearest("try_files").last().copied()?;
    let args = directive.args();
    let (last, tried) = args.split_last()?;
    let (page, tried) = match (*last, tried.split_last()) {
        ("=404", Some((page, before))) if is_page(page) && !before.is_empty() => (*page, before),
        _ => (*last, tried),
    };
    let is_usual =
        tried.iter().all(|it| ["$uri", "$uri/", "$uri/index.html", "$uri index.html"].contains(it));
    if is_usual && page == "=404" {
        return None;
    }
    if is_usual && is_page(page) {
        let why = "where there is no file, that page is sent with the status 404, not 200";
        table.remark(import.lines.differs(import.files, directive.at(), why));
        return Some(("error_page".to_owned(), text(page)));
    }
    let why = "a store sends the file at the path, or 404: nothing else is tried";
    table.remark(import.lines.lost(import.files, directive.at(), why));
    None
}

/// The service of a store; two of the same settings are one.
fn store_service(import: &mut Import<'_>, folder: &str, store: String, said: Table) -> String {
    let is_it = |service: &&Service| {
        service.group.get("store") == Some(store.as_str()) && service.table.keys == said.keys
    };
    if let Some(there) = import.made.services.iter().find(is_it) {
        return there.name.clone();
    }
    let last = folder.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let name = upstream::free_name(import, format!("files-{}", crate::service_name(last)));
    let mut service = Service { name: name.clone(), table: said, ..Service::default() };
    service.group.set("store", store);
    import.made.services.push(service);
    name
}
