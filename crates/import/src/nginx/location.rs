//! A location of nginx as steps: what is asked of a request there, in the order of its phases.

use super::{
    Import, VirtualHost, headers,
    lex::Directive,
    limit::limit,
    listener, named,
    order::{self, Location},
    scope::Scope,
    upstream::{self, Target, service},
    values::{Literals, size},
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

/// A location that is `internal`, or within such a one: nobody who asks comes there.
pub(super) fn internal(
    import: &mut Import<'_>,
    scope: &Scope<'_>,
    table: &mut Table,
) -> Option<Step> {
    let directive = scope.nearest("internal").first().copied()?;
    let why = "everybody gets 404: neither `error_page` nor X-Accel-Redirect leads there";
    table.remark(import.lines.differs(import.files, directive.at(), why));
    Some(Step::always(directive.at(), Act::End(refused("404"))))
}

/// The steps behind the rewrite phase: who may, what is changed, and who answers. `prefix` is that
/// of the location, or empty for an expression. A path that `rewrites` have changed is not changed
/// again.
pub(super) fn content(
    import: &mut Import<'_>,
    vhost: &VirtualHost<'_>,
    scope: &Scope<'_>,
    prefix: &str,
    rewrites: &[Step],
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
    let port = target.as_ref().and_then(|(_, target)| target.as_ref().ok()?.port());
    let proxy_port = port.as_deref().unwrap_or_default();
    let literals = Literals { proxy_host: host, proxy_port, ..vhost.literals() };
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
            if let Some(change) = passed_path(import, pass, target, prefix, table) {
                steps.extend(unless_rewritten(rewrites, change));
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
    if end.is_service {
        upstream::tell_compression(import, scope, table);
    }
    steps.push(Step::always(at, Act::End(end)));
    steps
}

/// A change of the path for those that none of `rewrites` has changed.
fn unless_rewritten(rewrites: &[Step], change: Step) -> Vec<Step> {
    let is_change = |step: &&Step| matches!(step.act, Act::Edit(Edit::Key("rewrite", _)));
    let changed: Vec<&Step> = rewrites.iter().filter(is_change).collect();
    let skip = |(index, step): (usize, &&Step)| {
        let act = Act::Skip(changed.len() - index);
        Step { act, ..Step::clone(step) }
    };
    let mut steps: Vec<Step> = changed.iter().enumerate().map(skip).collect();
    steps.push(change);
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
                // Steps are counted; one that does nothing stands in its place.
                steps.push(Step::always(rule.at(), Act::Skip(0)));
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
                table.remark(import.lines.differs(import.files, directive.at(), &differs));
            }
            Err(why) => table.remark(import.lines.lost(import.files, directive.at(), &why)),
        }
    }
    let written = scope.nearest("client_max_body_size").last().copied();
    let most = written.map_or_else(|| Some(listener::BODY.to_owned()), |it| size(it.arg(0)));
    // Of a listener without a limit nothing is said.
    let here = if vhost.max_body.is_empty() { "0" } else { vhost.max_body.as_str() };
    if let Some(most) = most.filter(|most| most != here) {
        let most = if most == "0" { "1048576GiB".to_owned() } else { most };
        edit(written.map_or(vhost.at, Directive::at), Edit::Key("max_body", text(&most)));
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
    let change = replaced(prefix, path, prefix.ends_with('/') && path.ends_with('/'));
    Some(Step::always(pass.at(), Act::Edit(Edit::Key("rewrite", change))))
}

/// A change of what a path begins with, by whole segments or as a text.
fn replaced(prefix: &str, to: &str, by_segments: bool) -> String {
    // Segments are those of a path in its normal form.
    let is_normal = !["//", "/./", "/../", "%"].iter().any(|odd| prefix.contains(odd));
    if by_segments && is_normal {
        return inline(&[("prefix".to_owned(), text(prefix)), ("to".to_owned(), text(to))]);
    }
    let regex = format!("^{}", crate::expression::escape(prefix));
    let to = to.replace('$', "$$");
    inline(&[("regex".to_owned(), text(&regex)), ("to".to_owned(), text(&to))])
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
    let is_one = alias.is_some() && is_one_path(vhost.block, scope);
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
            true => inline(&[("path".to_owned(), text(&format!("/{file}")))]),
            false => replaced(prefix, "/", true),
        };
        if is_file || prefix != "/" {
            let edit = Edit::Key("rewrite", change);
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
    let bare = folder.trim_end_matches('/');
    let path = if bare.is_empty() { "/" } else { bare };
    let mut store = vec![("url".to_owned(), text(&format!("file://{path}")))];
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

/// Whether the location is one of `=`, among those of a block and within them.
fn is_one_path(block: &[Directive], scope: &Scope<'_>) -> bool {
    let (found, _) = order::locations(block);
    let is_it = |it: &Location<'_>| {
        it.is_exact() && is_of(it, scope) || is_one_path(it.directive.block(), scope)
    };
    found.iter().any(is_it)
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
