//! The directives of a site, in the order in which Caddy follows them, as steps.

use std::collections::BTreeMap;

use super::{
    Import, changed,
    lex::Directive,
    matched,
    matcher::{self, Matcher},
    proxy, tell_variables, template, tls,
    values::size,
};
use crate::{
    condition::{Path, When, compile},
    expression::escape,
    model::{Service, Table},
    steps::{Act, Edit, End, Step},
    write::{inline, text},
};

/// Directives in the order in which they are followed, wherever they stand.
const ORDER: [&str; 26] = [
    "root", "header", "request_body", "redir", "method", "rewrite", "uri", "try_files",
    "basic_auth", "basicauth", "forward_auth", "request_header", "encode", "templates", "handle",
    "handle_path", "route", "abort", "error", "respond", "metrics", "reverse_proxy", "php_fastcgi",
    "file_server", "acme_server", "log",
];

/// Why a directive is not carried over.
pub(super) fn reason(name: &str) -> &'static str {
    match name {
        "log" => {
            "say where the access log goes: [edge] access_log = \"syslog\", \"stdout\" or a path"
        }
        "basic_auth" | "basicauth" => {
            "THIS PROTECTED SOMETHING: the imported file does not ask for it; `basic_auth` on the \
             route does: users = { NAME = \"HASH\" }, with the same hashes"
        }
        "php_fastcgi" => {
            "loadline speaks HTTP to servers: put a server with HTTP before the application"
        }
        "handle_errors" => {
            "`error_pages` of listener or service names files for failures of loadline's own; \
             responses of servers pass"
        }
        "templates" | "vars" | "map" => "there are no variables but those of the request",
        "metrics" => "metrics and the dashboard are at [admin] bind = \"127.0.0.1:9090\"",
        "import" => "the file could not be read",
        "email" | "acme_ca" | "acme_dns" | "on_demand_tls" | "local_certs" | "auto_https" => {
            tls::ACME
        }
        "ciphers" | "curves" => {
            "all suites of loadline are safe ones; `tls.suites` and `tls.min_version` restrict them"
        }
        "lb_try_duration" | "lb_try_interval" => {
            "`retry.attempts` says how often a request is sent again, which is at once"
        }
        "protocols" => {
            "HTTP/1 to 3 are spoken; `http_version` and `http3` of a listener restrict that"
        }
        "keepalive" => "connections to servers are kept and used again",
        "max_conns_per_host" => "`per_server.max_connections` of a group is the most there are",
        "tls_trust_pool" => "`tls.authorities` of a service is a file of CA certificates",
        "servers" => "what it says of servers is said at each listener",
        "trusted_proxies" => "`trusted_proxies` of a listener names the proxies in front of it",
        "admin" => "[admin] has an API",
        _ => "loadline has nothing that corresponds, or the import does not know it",
    }
}

/// What holds for all directives of a block.
struct Block<'a> {
    named: BTreeMap<String, Result<Matcher, String>>,
    root: Option<&'a str>,
    error_page: Option<&'a str>,
}

/// The steps of a block, in Caddy's order.
pub(super) fn steps(
    import: &mut Import<'_>,
    directives: &[Directive],
    table: &mut Table,
) -> Vec<Step> {
    let block = block(import, directives, table);
    let sorted = sorted(directives, &block);
    let steps = in_order(import, &sorted, &block, table);
    tell_headers(import, &steps, table);
    steps
}

/// Refusals and redirects of ours have no headers but their own.
fn tell_headers(import: &Import<'_>, steps: &[Step], table: &mut Table) {
    let is_header = |step: &Step| match &step.act {
        Act::Edit(Edit::Header(table, ..)) => table.starts_with("answer_headers"),
        _ => false,
    };
    for (index, step) in steps.iter().enumerate() {
        let is_bare = matches!(&step.act, Act::End(end) if !end.is_service && end.answer.is_none());
        let meets = |earlier: &Step| !matches!(earlier.yes.and(&step.yes), Ok(None));
        if is_bare && steps[..index].iter().any(|it| is_header(it) && meets(it)) {
            let why = "the headers of the site are not sent with it";
            table.remark(import.lines.differs(import.files, step.rule, why));
        }
    }
}

/// The directives in Caddy's order. Not any two have one between them, and those stay as they are:
/// so each is put before those that it precedes, one after another, as Caddy does it.
fn sorted<'a>(directives: &'a [Directive], block: &Block<'_>) -> Vec<&'a Directive> {
    let mut sorted: Vec<(Rank, &Directive)> = Vec::new();
    for directive in directives.iter().filter(|it| !is_other(it)) {
        let rank = rank(directive, block);
        let behind = sorted.iter().rev().take_while(|(other, _)| rank.precedes(other)).count();
        sorted.insert(sorted.len() - behind, (rank, directive));
    }
    sorted.into_iter().map(|(_, directive)| directive).collect()
}

/// What decides when a directive is followed.
struct Rank {
    kind: Option<usize>,
    has_matcher: bool,
    /// The path of its matcher, where that is one.
    path: Option<String>,
}

impl Rank {
    fn precedes(&self, other: &Self) -> bool {
        if self.kind != other.kind {
            return self.kind < other.kind;
        }
        match (&self.path, &other.path) {
            (Some(one), Some(two)) => {
                let is_same = one.trim_end_matches('*') == two.trim_end_matches('*');
                if is_same { one.len() < two.len() } else { one.len() > two.len() }
            }
            _ => self.has_matcher && !other.has_matcher,
        }
    }
}

fn rank(directive: &Directive, block: &Block<'_>) -> Rank {
    // A handler of one path is followed as one of all paths of its kind.
    let name = if directive.name() == "handle_path" { "handle" } else { directive.name() };
    let kind = ORDER.iter().position(|other| *other == name);
    let (has_matcher, path) = match matcher::of(directive, &block.named) {
        Ok((matcher, _)) => (!matcher.is_all(), matcher.path),
        Err(_) => (true, None),
    };
    Rank { kind, has_matcher, path }
}

/// Directives that are read elsewhere.
fn is_other(directive: &Directive) -> bool {
    matches!(directive.name(), "bind" | "tls" | "root" | "try_files")
        || directive.name().starts_with('@')
}

fn block<'a>(import: &mut Import<'_>, directives: &'a [Directive], table: &mut Table) -> Block<'a> {
    let mut block = Block { named: BTreeMap::new(), root: None, error_page: None };
    for directive in directives {
        if let Some(name) = directive.name().strip_prefix('@') {
            block.named.insert(name.to_owned(), matcher::definition(directive));
        }
        let last = directive.args().last().copied();
        match directive.name() {
            "root" => block.root = last,
            "try_files" => {
                let page = last.filter(|it| it.starts_with('/') && !it.contains(['{', '?']));
                block.error_page = page;
                let remark = match page {
                    Some(_) => {
                        let why = "where there is no file, that page is sent with status 404";
                        import.lines.differs(import.files, directive.at(), why)
                    }
                    None => {
                        let why =
                            "a store sends the file at the path, or 404: nothing else is tried";
                        import.lines.lost(import.files, directive.at(), why)
                    }
                };
                table.remark(remark);
            }
            _ => {}
        }
    }
    block
}

fn in_order(
    import: &mut Import<'_>,
    directives: &[&Directive],
    block: &Block<'_>,
    table: &mut Table,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for directive in directives {
        let found = matcher::of(directive, &block.named);
        if let Ok((matcher, _)) = &found {
            changed::tell(import, directive, matcher, table);
        }
        import.changed.follow(directive);
        let (matcher, args) = match found {
            Ok(found) => found,
            Err(why) => {
                table.remark(import.lines.lost(import.files, directive.at(), &why));
                import.lose_within(directive, &why, table);
                continue;
            }
        };
        let own = match one(import, directive, &args, block, table) {
            Ok(own) => own,
            Err(why) => {
                table.remark(import.lines.lost(import.files, directive.at(), &why));
                // The lines of one for passwords have nothing but those.
                if !directive.name().starts_with("basic") {
                    import.lose_within(directive, &why, table);
                }
                continue;
            }
        };
        steps.extend(matched(import, &own, &matcher, table));
    }
    steps
}

/// The steps of one directive, for all requests that its matcher takes.
fn one(
    import: &mut Import<'_>,
    directive: &Directive,
    args: &[&str],
    block: &Block<'_>,
    table: &mut Table,
) -> Result<Vec<Step>, String> {
    let at = directive.at();
    let end = |end| Ok(vec![Step::always(at, Act::End(end))]);
    let edits = |edits: Vec<Edit>| {
        Ok(edits.into_iter().map(|edit| Step::always(at, Act::Edit(edit))).collect())
    };
    match directive.name() {
        "redir" => {
            let to = redirect(args)?;
            tell_variables(import, directive, table);
            end(to)
        }
        "respond" => end(respond(args)?),
        "abort" => {
            let why = "the client gets 403, where Caddy says nothing";
            table.remark(import.lines.differs(import.files, at, why));
            end(End::key("deny", "403".to_owned()))
        }
        "error" => {
            let status = args.iter().find(|it| it.parse::<u16>().is_ok_and(|it| it >= 400));
            end(End::key("deny", status.copied().unwrap_or("500").to_owned()))
        }
        "header" => headers(import, "answer_headers", (directive, args), table),
        "request_header" => headers(import, "request_headers", (directive, args), table),
        "rewrite" | "uri" => edits(vec![Edit::Key("rewrite", rewrite(directive.name(), args)?)]),
        "request_body" => {
            let most = directive.block().iter().find(|it| it.name() == "max_size");
            let most = most.map(|it| it.arg(0)).ok_or("it says no `max_size`")?;
            let most = size(most).ok_or_else(|| format!("`{most}` is no size"))?;
            edits(vec![Edit::Key("max_body", text(&most))])
        }
        "encode" => {
            let mut algorithms = Table::default();
            proxy::encode(args, &mut algorithms);
            import.encode = algorithms;
            Ok(Vec::new())
        }
        "forward_auth" => {
            let auth = proxy::forward_auth(import, directive, args, table)?;
            edits(vec![Edit::Always("forward_auth", auth)])
        }
        "reverse_proxy" => {
            let (name, changes) = proxy::service(import, directive, (args, &[]))?;
            let mut steps: Vec<Step> = edits(changes)?;
            steps.push(Step::always(at, Act::End(End::service(&name))));
            Ok(steps)
        }
        "file_server" => file_server(import, directive, args, block, table),
        "handle" | "handle_path" | "route" => Ok(handled(import, directive, block, table)),
        "php_fastcgi" => {
            import.lose(directive, table);
            end(End::key("deny", "501".to_owned()))
        }
        name => Err(reason(name).to_owned()),
    }
}

fn handled(
    import: &mut Import<'_>,
    directive: &Directive,
    outer: &Block<'_>,
    table: &mut Table,
) -> Vec<Step> {
    let mut block = block(import, directive.block(), table);
    // What is named outside holds inside, too.
    for (name, matcher) in &outer.named {
        block.named.entry(name.clone()).or_insert_with(|| matcher.clone());
    }
    block.root = block.root.or(outer.root);
    block.error_page = block.error_page.or(outer.error_page);
    let mut steps = Vec::new();
    let prefix = stripped(directive);
    if let Some(prefix) = prefix {
        let change = [("prefix".to_owned(), text(prefix)), ("to".to_owned(), text("/"))];
        steps.push(Step::always(directive.at(), Act::Edit(Edit::Key("rewrite", inline(&change)))));
    }
    let ordered = match directive.name() {
        "route" => directive.block().iter().filter(|it| !is_other(it)).collect(),
        _ => sorted(directive.block(), &block),
    };
    let before = import.changed.clone();
    let mut inner = in_order(import, &ordered, &block, table);
    if let Some(prefix) = prefix {
        for (at, why) in crate::steps::put_below(&mut inner, prefix) {
            table.remark(import.lines.lost(import.files, at, &why));
        }
    }
    steps.extend(inner);
    if directive.name() != "route" {
        // Whoever comes in does not come out.
        import.changed = before;
        steps.push(Step::always(directive.at(), Act::End(empty())));
    }
    steps
}

/// The prefix of the path that a `handle_path` takes away.
fn stripped(directive: &Directive) -> Option<&str> {
    let path = Some(directive.arg(0)).filter(|_| directive.name() == "handle_path")?;
    let prefix = path.strip_suffix("/*").or(path.strip_suffix('*'))?;
    Some(prefix).filter(|prefix| !matches!(*prefix, "" | "/"))
}

/// The changes of a `header` or `request_header`; of a block line by line.
fn headers(
    import: &Import<'_>,
    name: &'static str,
    (directive, args): (&Directive, &[&str]),
    table: &mut Table,
) -> Result<Vec<Step>, String> {
    let step = |at: usize, edit: Edit| Step::always(at, Act::Edit(edit));
    if !args.is_empty() {
        let change = proxy::change(name, args).ok_or(HEADER)?;
        tell_variables(import, directive, table);
        return Ok(vec![step(directive.at(), change)]);
    }
    let mut steps = Vec::new();
    for line in directive.block().iter().filter(|it| it.name() != "defer") {
        let words: Vec<&str> = line.words.iter().map(|word| word.text.as_str()).collect();
        match proxy::change(name, &words) {
            Some(change) => {
                tell_variables(import, line, table);
                steps.push(step(line.at(), change));
            }
            None => table.remark(import.lines.lost(import.files, line.at(), HEADER)),
        }
    }
    Ok(steps)
}

const HEADER: &str = "a header is set, added or removed, to a text with known variables";

fn redirect(args: &[&str]) -> Result<End, String> {
    let [to, rest @ ..] = args else { return Err("a redirect without a target".to_owned()) };
    let status = match rest.first().copied().unwrap_or("302") {
        "permanent" => "301",
        "temporary" => "302",
        code @ ("301" | "302" | "303" | "307" | "308") => code,
        other => return Err(format!("`{other}` is no status of a redirect")),
    };
    let status = ("status".to_owned(), status.to_owned());
    if let Some(before) = to.strip_suffix("{uri}")
        && let Some((scheme, host)) = before.split_once("://")
        && !host.contains('/')
    {
        let mut entries = Vec::new();
        if scheme != "{scheme}" {
            entries.push(("scheme".to_owned(), text(scheme)));
        }
        if !matches!(host, "{host}" | "{hostport}") {
            if host.contains('{') {
                return Err("the host of a redirect has no variables but {host}".to_owned());
            }
            entries.push(("host".to_owned(), text(host)));
        }
        if !entries.is_empty() {
            entries.push(status);
            return Ok(End::key("redirect", inline(&entries)));
        }
    }
    let location = template(to).ok_or("the target has a variable that is not known")?;
    Ok(open(End::answer(vec![status], vec![("Location".to_owned(), text(&location))])))
}

/// A fixed response with the headers that the site sets.
fn open(end: End) -> End {
    End { is_open: true, ..end }
}

/// What a site responds where nothing else does.
pub(super) fn empty() -> End {
    open(End::answer(vec![("body".to_owned(), text(""))], Vec::new()))
}

fn respond(args: &[&str]) -> Result<End, String> {
    let is_status = |text: &str| text.len() == 3 && text.parse::<u16>().is_ok();
    let (body, status) = match args {
        [] => ("", "200"),
        [one] if is_status(one) => ("", *one),
        [body] => (*body, "200"),
        [body, status, ..] => (*body, *status),
    };
    if has_variable(body) {
        return Err("the body of a fixed response has no variables".to_owned());
    }
    match status.parse::<u16>() {
        Ok(400..=599) if body.is_empty() => Ok(End::key("deny", status.to_owned())),
        Ok(200..=599) => {
            let status = ("status".to_owned(), status.to_owned());
            Ok(open(End::answer(vec![status, ("body".to_owned(), text(body))], Vec::new())))
        }
        _ => Err(format!("`{status}` is no status of a response")),
    }
}

/// Whether a name is between braces, other than in JSON or CSS.
fn has_variable(body: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._-/[]".contains(c);
    let mut inside = body.split('{').skip(1).filter_map(|it| it.split_once('}'));
    inside
        .any(|(name, _)| name.starts_with('$') || !name.is_empty() && name.chars().all(is_of_name))
}

/// What no path has that is written as it is.
const OTHER: [char; 3] = ['{', '?', '#'];

fn rewrite(name: &str, args: &[&str]) -> Result<String, String> {
    let entry = |key: &str, value: &str| (key.to_owned(), text(value));
    Ok(inline(&match (name, args) {
        ("uri", ["strip_prefix", prefix]) if prefix.starts_with('/') => {
            vec![entry("prefix", prefix), entry("to", "/")]
        }
        ("uri", ["strip_suffix", suffix]) => {
            vec![entry("regex", &format!("^/(.*){}$", escape(suffix))), entry("to", "/$1")]
        }
        ("uri", ["path_regexp", regex, to]) if to.starts_with('/') && !to.contains(OTHER) => {
            compile(regex)?;
            vec![entry("regex", regex), entry("to", to)]
        }
        ("rewrite", [to]) => match to.strip_suffix("{uri}").or(to.strip_suffix("{path}")) {
            Some(before) if before.starts_with('/') && !before.contains(OTHER) => {
                vec![entry("prefix", "/"), entry("to", before)]
            }
            None if to.starts_with('/') && !to.contains(OTHER) => vec![entry("path", to)],
            None if to.starts_with('/') && !to.contains('{') => {
                return Err("a route changes the path, and not the query".to_owned());
            }
            _ => return Err("the new path has a variable that is not known".to_owned()),
        },
        _ => return Err("the path is changed in a way that a route has not".to_owned()),
    }))
}

/// A `file_server`: what it hides, then its files.
fn file_server(
    import: &mut Import<'_>,
    directive: &Directive,
    args: &[&str],
    block: &Block<'_>,
    table: &mut Table,
) -> Result<Vec<Step>, String> {
    let (mut steps, mut root, mut index) = (Vec::new(), block.root, None);
    for inner in directive.block() {
        match (inner.name(), inner.args().as_slice()) {
            ("hide", names) => {
                for name in names {
                    match hidden(name) {
                        Ok(when) => {
                            let deny = Act::End(End::key("deny", "404".to_owned()));
                            steps.push(Step { yes: when, ..Step::always(inner.at(), deny) });
                        }
                        Err(why) => {
                            table.remark(import.lines.lost(import.files, inner.at(), &why));
                        }
                    }
                }
            }
            ("root", [folder]) => root = Some(*folder),
            ("index", [name]) => index = Some(*name),
            ("disable_canonical_uris", _) => {}
            _ => import.lose_all(inner, table),
        }
    }
    if args.contains(&"browse") {
        let why = "there are no lists of the files in a directory";
        table.remark(import.lines.differs(import.files, directive.at(), why));
    }
    let service = store(import, root.unwrap_or_default(), index, block)?;
    steps.push(Step::always(directive.at(), Act::End(End::service(&service))));
    Ok(steps)
}

/// The paths with a name in them that `hide` gives.
fn hidden(name: &str) -> Result<When, String> {
    if name.contains(['/', '{', '[', '?', '\\']) {
        return Err(format!("files are hidden by their name alone, not by `{name}`"));
    }
    let name = name.split('*').map(escape).collect::<Vec<_>>().join("[^/]*");
    Ok(When::path(vec![Path::Regex(format!("/{name}(/|$)"))]))
}

/// The service of the files below a directory.
fn store(
    import: &mut Import<'_>,
    folder: &str,
    index: Option<&str>,
    block: &Block<'_>,
) -> Result<String, String> {
    if !folder.starts_with('/') || folder.contains('{') {
        return Err("a store has an absolute path without variables: `root * /srv/www`".to_owned());
    }
    let mut entries =
        vec![("url".to_owned(), text(&format!("file://{}", folder.trim_end_matches('/'))))];
    entries.extend(index.map(|name| ("index".to_owned(), text(name))));
    entries.extend(block.error_page.map(|page| ("error_page".to_owned(), text(page))));
    let store = inline(&entries);
    let is_it = |service: &&Service| service.group.get("store") == Some(store.as_str());
    if let Some(there) = import.made.services.iter().find(is_it) {
        return Ok(there.name.clone());
    }
    let last = folder.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let mut name = format!("files-{}", crate::service_name(last));
    while import.made.services.iter().any(|service| service.name == name) {
        name.push_str("-2");
    }
    let mut service = Service { name: name.clone(), ..Service::default() };
    service.group.set("store", store);
    service.table.keys.extend(import.encode.keys.iter().cloned());
    import.made.services.push(service);
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_and_redirects_are_those_of_routes() {
        let told = |end: Result<End, String>| end.map(|end| end.keys[0].1.clone());
        assert_eq!(told(respond(&["no", "403"])), Ok("{ status = 403, body = \"no\" }".to_owned()));
        assert_eq!(told(respond(&["404"])), Ok("404".to_owned()));
        let to = &["https://www.example.com{uri}", "permanent"][..];
        let expected = "{ scheme = \"https\", host = \"www.example.com\", status = 301 }";
        assert_eq!(told(redirect(to)).as_deref(), Ok(expected));
        assert!(redirect(&["https://{args.0}/"]).is_err());
    }

    #[test]
    fn paths_are_changed_as_routes_change_them() {
        assert_eq!(
            rewrite("rewrite", &["/x{uri}"]).as_deref(),
            Ok("{ prefix = \"/\", to = \"/x\" }")
        );
        assert!(rewrite("uri", &["replace", "a", "b"]).is_err());
    }
}
